"""Rows of kinspect's tables that other packages add, as entry points: a group a table, a name a row.

A table asks for them when a name is not one of its own, or all names are shown: looking takes longer than a small read.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Container, Mapping
from typing import Any


def _print(line: str) -> None:
    print(f"kinspect: {line}", file=sys.stderr)


tell: Callable[[str], None] = _print
"""Takes a line on entry points that are left out."""
kept: list[str] = []
"""Lines for another process to print, where `tell` keeps them."""


def added(group: str, taken: Container[str], fault: Callable[[str, Any], str]) -> dict[str, Any]:
    """The rows that other packages add, by their names. `taken`: names of the table's own; `fault`: what is wrong with
    a row, if anything is. What cannot be a row is reported in a line, and left out."""
    from contextlib import redirect_stdout
    from importlib.metadata import EntryPoint, entry_points

    found: dict[str, Any] = {}
    points: dict[str, list[EntryPoint]] = defaultdict(list)
    try:
        for point in entry_points(group=group):
            points[point.name].append(point)
    except Exception as error:  # any installed package may have broken metadata
        tell(f"{group}: no other package is looked at: {_shown(error)}")
    for name, (point, *others) in sorted(points.items()):
        if name in taken:
            wrong = "kinspect has one of its own"
        elif others:
            wrong = "which of them is meant is not known"
        else:
            try:
                # What it prints is no data of the run.
                with redirect_stdout(sys.stderr):
                    found[name] = point.load()
                    wrong = fault(name, found[name])
            except (Exception, SystemExit) as error:
                wrong = _shown(error)
        if wrong:
            found.pop(name, None)
            packages = " and ".join(sorted(repr(each.dist and each.dist.name) for each in (point, *others)))
            tell(f"{group}: {name!r} of package {packages} is left out: {wrong}")
    return found


def unfit(row: Any, fits: Mapping[str, bool]) -> str:
    """What is wrong with a row, by whether each of its fields fits."""
    wrong = [field for field, fit in fits.items() if not fit]
    return f"{wrong[0]} cannot be {getattr(row, wrong[0])!r}" if wrong else ""


def _shown(error: BaseException) -> str:
    # `repr` escapes what is not printable; that of a class from elsewhere may do anything.
    return f"{type(error).__name__}({', '.join(map(repr, map(str, error.args)))})"
