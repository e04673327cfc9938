"""One name, one meaning: no two files of the package have the same name, and no two classes."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "kinspect"
FILES = [path for path in PACKAGE.rglob("*.py") if not path.stem.startswith("__")]
"""Those that Python does not name (`__init__`, `__main__`)."""


def more_than_once(named: Iterator[tuple[str, Path]]) -> dict[str, list[str]]:
    """Places of names that stand in several."""
    places = defaultdict(list)
    for name, path in named:
        places[name].append(str(path.relative_to(PACKAGE)))
    return {name: found for name, found in places.items() if len(found) > 1}


def classes(path: Path) -> Iterator[str]:
    """Classes of a file, private ones too; one inside another is named together with that."""
    for parent in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(parent, ast.ClassDef):
            yield from (node.name for node in ast.iter_child_nodes(parent) if isinstance(node, ast.ClassDef))


def test_no_two_files_have_the_same_name():
    assert more_than_once((path.stem, path) for path in FILES) == {}


def test_no_two_classes_have_the_same_name():
    assert more_than_once((name, path) for path in FILES for name in classes(path)) == {}
