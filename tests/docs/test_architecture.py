"""docs/architecture.md: the functions on one packet's way; and the files that it and other pages name."""

import re
import sys
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

from kinspect.cli import main
from kinspect.form import COMPILED

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^## One packet's way$(.*?)^## ", re.MULTILINE | re.DOTALL)
CAPTURE = ROOT / "captures" / "4.3.1" / "telemetry.pcap.gz"


def named():
    (section,) = SECTION.findall((ROOT / "docs" / "architecture.md").read_text())
    return re.findall(r"^\| `([\w.]+)`", section, re.MULTILINE)


@pytest.mark.parametrize("name", named())
def test_a_function_on_the_way_exists(name):
    module, path = re.fullmatch(r"([a-z_.]+?)\.((?:[A-Z]\w*\.)?\w+)", name).groups()
    assert callable(reduce(getattr, path.split("."), import_module(f"kinspect.{module}")))


@pytest.mark.skipif(COMPILED, reason="what is compiled tells nobody that it is called")
def test_they_are_called_in_this_order(tmp_path):
    wanted, called = set(named()), []

    def note(frame, event, _):
        name = f"{frame.f_globals.get('__name__', '').removeprefix('kinspect.')}.{frame.f_code.co_qualname}"
        if event == "call" and name in wanted:
            called.append(name)
            wanted.remove(name)

    command = ["read", str(CAPTURE), "-q", "-o", str(tmp_path / "lines"), "--format", "jsonl", "--jobs", "1"]
    sys.setprofile(note)
    try:
        main(command)
    finally:
        sys.setprofile(None)
    assert called == named()


def test_files_that_the_docs_name_exist():
    """Capitals stand for a name to be chosen: `answers/NAMEanswer.py`."""
    found = [
        *ROOT.glob("*.py"),
        *(path for part in ("kinspect", "tests", "tools") for path in (ROOT / part).rglob("*.py")),
    ]
    files = [f"/{path.relative_to(ROOT)}" for path in found]
    pages = [ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    named = {
        (page.name, name) for page in pages for name in re.findall(r"`([a-z0-9_/]+\.py)`", page.read_text())
    }
    assert {
        (page, name) for page, name in named if not any(file.endswith(f"/{name}") for file in files)
    } == set()
