"""The value patterns of the manifests spelt out.

`{i}` and `%04d` stand for the record's number, `{0..4}` for a range, `{a,b}` for alternatives; any other `{name}` is
some number, `(...)` some text. What follows the pattern after a blank is a remark where patterns are listed with
commas or "and".
"""

from __future__ import annotations

import re
from itertools import product

_NUMBERED = re.compile(r"\{i\}|%0?\d*d")
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_CHOICE = re.compile(r"\{(\w+(?:,\w+)+)\}")
_UNTIL_BLANK = re.compile(r"(?:\([^()]*\)|\S)+")
_OPEN = re.compile(r"\{\w+\}|%0?\d*d|\([^()]*\)")


def listed(text: str) -> list[str]:
    """The patterns of a list like `tx-{0..5} committed, one-{0..9} and two-{i}`, without the remarks."""
    return [match[0] for part in re.split(r", | and ", text) if (match := _UNTIL_BLANK.match(part))]


def numbered(pattern: str, i: int) -> str:
    """The pattern's text for record number `i`."""
    return _NUMBERED.sub(lambda match: f"{i}" if match[0] == "{i}" else match[0] % i, pattern)


def spelt_out(pattern: str, count: int | None) -> list[str] | None:
    """Every text the pattern stands for, `count` records numbered from 0; None if it does not say."""
    if count is not None and _NUMBERED.search(pattern):
        return [text for i in range(count) for text in spelt_out(numbered(pattern, i), None) or ()]
    choices = [
        [str(n) for n in range(int(match[1]), int(match[2]) + 1)]
        if (match := _RANGE.fullmatch(part))
        else match[1].split(",")
        if (match := _CHOICE.fullmatch(part))
        else [part]
        for part in re.split(r"(\{[^{}]*\})", pattern)
    ]
    texts = ["".join(parts) for parts in product(*choices)]
    return None if any(_OPEN.search(text) for text in texts) else texts


def matcher(pattern: str) -> re.Pattern[str]:
    """Matches what the pattern stands for, whatever the numbers."""
    parts = re.split(r"(\{[^{}]*\}|%0?\d*d|\([^()]*\))", pattern)
    return re.compile("".join(_expression(part) for part in parts), re.DOTALL)


def _expression(part: str) -> str:
    if match := _CHOICE.fullmatch(part):
        return "(?:" + "|".join(map(re.escape, match[1].split(","))) + ")"
    if part.startswith("("):
        return ".*"
    return r"\d+" if part.startswith("{") or re.fullmatch(r"%0?\d*d", part) else re.escape(part)
