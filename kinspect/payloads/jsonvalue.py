"""JSON in bytes, as a value that can be printed as JSON again."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from kinspect.errors import KinspectError
from kinspect.jsontext import float_value

LEAST, MOST = -(1 << 63), (1 << 64) - 1
"""Integers that are printed as such; others are texts of their digits."""
_LONG_NUMBER = re.compile(rb"\d{19}")
_BEGINS = re.compile(rb"\s*[\[{]")
_TOO_DEEP = re.compile("depth|recursion", re.IGNORECASE)  # as orjson says it, in several releases


def json_value(data: bytes) -> Any:
    """The value of this JSON. Raises ValueError for what is none, and KinspectError if it cannot be shown."""
    try:
        value = _exact(data) if _LONG_NUMBER.search(data) else orjson.loads(data)
    except (TypeError, ValueError, RecursionError) as error:
        if _BEGINS.match(data) and (isinstance(error, RecursionError) or _TOO_DEEP.search(str(error))):
            raise KinspectError("nested too deeply to be shown as JSON") from None
        raise ValueError from None
    if data.count(b"[") + data.count(b"{") > 200:
        printed(value)
    return value


def printed(value: Any) -> bytes:
    """JSON of a value. Raises KinspectError for what would not be printed in a row."""
    try:
        # A row, and what holds it, are around it.
        return orjson.dumps([[[[value]]]])[4:-4]
    except TypeError as error:
        raise KinspectError(f"cannot be shown as JSON: {error}") from None


def _exact(data: bytes) -> Any:
    value = json.loads(data.decode(), parse_int=_integer, parse_float=_float, parse_constant=_nothing)
    # It takes half a surrogate pair, which is no text.
    orjson.dumps(value)
    return value


def _integer(digits: str) -> int | str:
    if len(digits) > 20:
        return digits
    number = int(digits)
    return number if LEAST <= number <= MOST else digits


def _float(text: str) -> float | str:
    return float_value(float(text))


def _nothing(name: str) -> None:
    raise ValueError(f"JSON has no {name}")
