"""Values as cells of CSV."""

from __future__ import annotations

from typing import Any

import orjson

from kinspect.output.escape import escape

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Beginnings of cells that spreadsheets take for formulas, the last four as wide characters."""


def cell(value: Any) -> Any:
    """A value as text in a cell: of a list its values, of an object its keys with theirs, joined by semicolons; as JSON
    where there are objects in it; truth as JSON writes it."""
    if value is None or isinstance(value, str):
        return _defused(value or "")
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, (list, dict)):
        return value
    inner = value.values() if isinstance(value, dict) else value
    if any(isinstance(each, (list, dict)) for each in inner):
        return json_cell(value)
    if isinstance(value, dict):
        return ";".join(f"{_defused(f'{key}=')}{cell(each)}" for key, each in value.items())
    return ";".join(str(cell(each)) for each in value)


def json_cell(value: Any) -> Any:
    """A value as `cell` has it, lists and objects as JSON."""
    return escape(orjson.dumps(value).decode()) if isinstance(value, (list, dict)) else cell(value)


def _defused(text: str) -> str:
    """The text, harmless on a terminal and in a spreadsheet, which would take it for a formula (OWASP, CSV injection).
    Values in lists too, and what follows a semicolon: there may be a cell of its own where semicolons part cells."""
    return ";".join(
        f"'{escape(each)}" if each.startswith(FORMULA) else escape(each) for each in text.split(";")
    )
