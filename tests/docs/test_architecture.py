"""docs/architecture.md: the functions on one packet's way."""

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
