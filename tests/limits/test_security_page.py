"""`docs/security.md` tells the limits that there are, and tests that exist."""

import re
from dataclasses import fields
from pathlib import Path

from kinspect.cli.options import CAPS
from kinspect.model import Caps

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
UNITS = {"": 1, "MiB": 1 << 20, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}


def limits():
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) ?(\w*) \| `(--[\w-]+)` \|", PAGE, re.MULTILINE)
    return {name: (int(number.replace(",", "")) * UNITS[unit], option) for name, number, unit, option in rows}


def test_limits_and_their_defaults():
    assert {name: value for name, (value, _) in limits().items()} == {
        field.name: field.default for field in fields(Caps)
    }


def test_limits_and_their_options():
    options = {field: f"--{name.replace('_', '-')}" for name, (field, *_) in CAPS.items()}
    assert {name: option for name, (_, option) in limits().items()} == options


def test_named_tests_exist():
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE))
    assert named
    assert {name for name in named if not (ROOT / name).exists()} == set()
