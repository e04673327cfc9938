"""Estimates of the memory that decoded values take, from counts, before anything is built.

Sizes bounded by the message's bytes need no estimate: text and bytes take about as much as on the wire. The Python
objects around them do: an element of two bytes may become a dict of two hundred. A struct is charged with its dict and
the minimum size of its fields, an array with its elements, each including everything later made of it; numbers are
charged as if none were small.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Final

from kinspect.model import Caps
from kinspect.protocol.fieldpaths import each_field
from kinspect.protocol.schema import Field

MAX_MEMORY: Final = Caps().body_bytes

MOST_PER_BYTE: Final = 384
"""Largest charge per byte of a message: one shorter than a limit by this factor cannot exceed it."""

_GC: Final = 16  # in front of every container
_SLOT: Final = 8
_LIST: Final = sys.getsizeof([]) + _GC
_NUMBER: Final = sys.getsizeof(1 << 20) + 4
_TEXT: Final = 56
_VALUES: Final = {"bool": 0, "float64": 24, "uuid": 72, "string": _TEXT, "bytes": _TEXT, "records": _TEXT}


def _dict(keys: int) -> int:
    return sys.getsizeof(dict.fromkeys(map(str, range(keys)))) + _GC


_NAMED: Final = 144
"""Size of what is made of an element beyond the body: a partition's name in summaries, its text in a line of JSON."""
_CHANGED_IN_LINES: Final = frozenset({"bytes", "float64", "records", "uuid"})
"""Types that output lines show in another form. Structs that contain such a value exist twice."""
_CONFIG_VALUE: Final = "value"
"""Name of a text field that output lines may hide."""
_BROKER: Final = "brokerId"

UNKNOWN_TAG: Final = _SLOT + _dict(2) + _NUMBER + _TEXT + 3 * _NAMED
"""Size of an unknown tagged field: its dict with the tag and the bytes, and the same again with its text in lines."""
ODD_TEXT: Final = 512
"""Size of the problem that reports a text that is not UTF-8."""


@cache
def of_element(field: Field) -> int:
    """Memory of one element of the array `field`, without the arrays in it."""
    if field.type == "struct":
        return _SLOT + _struct(field) + _NAMED + _line_copy(field)
    # Each number in a list may be a partition; brokers' ids are not.
    named = _NAMED if field.type == "int32" and field.entity != _BROKER else 0
    return _SLOT + _VALUES.get(field.type, _NUMBER) + named


def _line_copy(field: Field) -> int:
    """Size of the copy of a struct that output lines show in another form, with extra keys for added fields."""
    if not _changes(field):
        return 0
    inner = sum(_line_copy(part) for part in field.fields if part.type == "struct" and not part.array)
    return _dict(len(field.fields) + 2) + _LIST * sum(part.array for part in field.fields) + inner


def _changes(field: Field) -> bool:
    return any(
        part.type in _CHANGED_IN_LINES or part.name == _CONFIG_VALUE
        for _, part, _ in each_field(field.fields)
    )


def _struct(field: Field) -> int:
    # One more key for unknown tagged fields.
    return _dict(len(field.fields) + 1) + sum(map(_value, field.fields))


def _value(field: Field) -> int:
    if field.array:
        return _LIST
    return _struct(field) if field.type == "struct" else _VALUES.get(field.type, _NUMBER)
