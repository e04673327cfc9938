"""Inspectors are fed in one place."""

import ast
from pathlib import Path

import kinspect

PACKAGE = Path(kinspect.__file__).parent
FEEDING = {"add_found", "expect_secrets", "feed_segments", "finish", "idle"}
"""What an inspector is told of its input, beside `feed`, which parts of the core have too."""
WHERE = {"exports/redactedstreams.py", "pipeline.py", "run.py", "tables/request.py"}
"""The first one reads messages from the segments that it writes anew; the last one makes inspectors that wait for
secrets from the beginning."""


def calls(path):
    """Methods that a module calls on an inspector."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            on = ast.unparse(node.func.value)
            if on.split(".")[-1].lower().endswith("inspector") and node.func.attr in {*FEEDING, "feed"}:
                yield node.func.attr


def test_inspectors_are_fed_in_one_place():
    found = {
        str(path.relative_to(PACKAGE)): sorted(names)
        for path in PACKAGE.rglob("*.py")
        if (names := set(calls(path)))
    }
    assert found.keys() <= WHERE
    assert set(found["run.py"]) == {*FEEDING, "feed"}
