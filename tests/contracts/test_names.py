"""One name, one meaning: no two files of the package have the same name, and no two classes; and how large it is."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "kinspect"
FILES = [path for path in PACKAGE.rglob("*.py") if not path.stem.startswith("__")]
"""Those that Python does not name (`__init__`, `__main__`)."""


OF_BOTH = {"connection"}
"""A packet's way has one at two places: `tcp/connection.py` and, for what Kafka speaks on it, `kafka/connection`."""

LINES = 80_600
"""Most lines of the package: code, docstrings and blank ones. It is lowered when lines go, and raised only by what a
new command or format needs: `records` with its `--format kcat` and `--split`, `live --records-only`, `export`, what
payloads are by their registry, `telemetry`, the explorer's page of records, `diff`, `export --redact`, `report`,
`--table-format delta`, `check`, `live --from`, the pytest plugin, `mcp`, `kubectl kinspect`, tables that tasks
write and tables in object stores were the last. What else is added beyond it has to replace something. That no files
need each other in a circle is import-linter's contract."""


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


def test_no_file_has_the_name_of_another_package():
    packages = {path.parent.name: path.parent for path in PACKAGE.rglob("__init__.py")}
    same = [path for path in FILES if packages.get(path.stem, path.parent) != path.parent]
    assert [str(path.relative_to(PACKAGE)) for path in same if path.stem not in OF_BOTH] == []


def test_private_names_of_pyspark_stand_in_one_file():
    private = re.compile(r"\b_j(?:df|map|sc|sparkSession|vm)\b|\binternalCreate")
    found = {
        path.name for path in (PACKAGE / "spark").rglob("*.py") if private.search(path.read_text("utf-8"))
    }
    assert found == {"jvm.py"}


def test_the_package_does_not_outgrow_its_readers():
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    largest = [
        f"{count:,} {path.name}" for path, count in sorted(lines.items(), key=lambda each: -each[1])[:3]
    ]
    print(f"{len(lines)} files, {sum(lines.values()):,} lines; {', '.join(largest)}")
    assert sum(lines.values()) <= LINES
