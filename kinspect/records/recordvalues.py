"""Decoding of the messages in the keys and values of records."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from kinspect import protocol
from kinspect.protocol import schema
from kinspect.protocol.tabletext import MessageDefinition

_VERSION: Final = struct.Struct(">h")

MessageReading = dict[str, Any]
"""`{"type": message name, "version": n, "data": {fields in snake_case}}`."""


def read_message(name: str, version: int, data: bytes, start: int) -> MessageReading | None:
    """Decode the message `name` in a version if it fills `data` from `start` on; else None."""
    if not schema.record_layouts(name, version):
        return None
    decoded = protocol.decode_record(name, version, data, start, len(data))
    if not decoded.complete or decoded.problems:
        return None
    return {"type": name, "version": version, "data": decoded.body}


def read_prefixed(names: Iterable[str], data: bytes) -> MessageReading | None:
    """Decode an int16 version and the first of the messages that fits."""
    if len(data) < _VERSION.size:
        return None
    (version,) = _VERSION.unpack_from(data)
    for name in names:
        if found := read_message(name, version, data, _VERSION.size):
            return found
    return None


@cache
def newest_version(name: str) -> int:
    """Newest version of the message `name`, one that the schema table has."""
    return max(_definition(name).versions)


def read_any_version(name: str, data: bytes) -> MessageReading | None:
    """Decode a message whose first field is its version, in that version, else in any that fits."""
    said = _VERSION.unpack_from(data)[0] if len(data) >= _VERSION.size else None
    versions = sorted(_definition(name).versions, key=lambda version: (version != said, -version))
    for version in versions:
        if found := read_message(name, version, data, 0):
            return found
    return None


def _definition(name: str) -> MessageDefinition:
    definition = schema.record(name)
    assert definition is not None, name
    return definition
