"""Link types that other packages add: entry points of the group `kinspect.link_types`, named by their numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import index
from typing import Any

from kinspect import extensions
from kinspect.link.cursor import LINK_TYPE, STOP, Cursor, Layer
from kinspect.link.layertables import LINK_TYPES
from kinspect.link.pseudoheaders import HIGHEST_LINK_TYPE


@cache
def added_layers() -> dict[int, Layer]:
    """The functions that read them, by the codes of layers."""
    rows = extensions.added("kinspect.link_types", {*map(str, LINK_TYPES)}, _fault)
    return {LINK_TYPE + int(name): _contained(name, layer) for name, layer in rows.items()}


def _fault(name: str, layer: Any) -> str:
    if not name.isdecimal() or name != str(int(name)):
        return "the name is not the number of a link type"
    if int(name) > HIGHEST_LINK_TYPE:
        return f"numbers of link types end at {HIGHEST_LINK_TYPE}"
    return "" if callable(layer) else f"a {type(layer).__name__} is not a function"


def _contained(name: str, layer: Callable[[Cursor], Any]) -> Layer:
    """The layer, which ends the walk through a packet where it fails, or leaves the packet."""

    def read(cursor: Cursor) -> int:
        data, at, end = cursor.data, cursor.at, cursor.end
        try:
            code = index(layer(cursor))
            if cursor.data is data and not (at <= cursor.at and cursor.end <= end):
                return cursor.stop("malformed")
            if code < 0:
                return STOP if cursor.reason or cursor.key else cursor.stop("malformed")
            # As a tunnel, so that layers which lead to each other come to an end.
            return cursor.enter(code)
        except Exception as error:
            return cursor.stop(f"link type {name}: {type(error).__name__}")

    return read
