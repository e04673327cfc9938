"""The consumer protocol: the opaque bytes of classic consumer groups in JoinGroup and SyncGroup.

Both are an int16 version and a message, `ConsumerProtocolSubscription` or `ConsumerProtocolAssignment`. Kafka reads a
version it does not know as the highest it knows, and ignores what follows. Some clients leave out trailing fields of
the version they name (kafka-go, kafkajs, pykafka): these fields take their defaults.

Source: Kafka's ConsumerProtocol.java.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from kinspect.protocol import schema
from kinspect.records.recordvalues import newest_version

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")

Read = tuple[Any, int]


def decode_subscription(data: bytes | None) -> dict[str, Any] | None:
    """Decode a member's subscription: `version`, `topics`, `user_data`, `owned_partitions`, `generation_id`, `rack_id`,
    as far as the version has them. None for no bytes and for bytes that do not fit exactly. Never raises."""
    return _decode("ConsumerProtocolSubscription", data)


def decode_assignment(data: bytes | None) -> dict[str, Any] | None:
    """Decode a member's assignment: `version`, `assigned_partitions`, `user_data`.

    None for no bytes, which stand for no assignment, and for bytes that do not fit exactly. Never raises.
    """
    return _decode("ConsumerProtocolAssignment", data)


def _decode(name: str, data: bytes | None) -> dict[str, Any] | None:
    if not data or len(data) < _INT16.size:
        return None
    (version,) = _INT16.unpack_from(data)
    if version < 0:
        return None
    known = newest_version(name)
    found: dict[str, Any] = {"version": version}
    position = _INT16.size
    try:
        for field in schema.record_layouts(name, min(version, known))[0].fields:
            if position == len(data) and len(found) > 1:
                found[field.name] = [] if field.array else field.default
            else:
                found[field.name], position = _field(data, position, field)
    except (ValueError, struct.error):
        return None
    return found if position == len(data) or version > known else None


def _field(data: bytes, position: int, field: schema.Field) -> Read:
    """Value of a field of a non-flexible version, and the position behind it.

    Raises ValueError or struct.error if it does not fit.
    """
    if not field.array:
        return _READERS[field.type](data, position, field)
    count, position = _int32(data, position, field)
    if count < 0:
        raise ValueError("a list cannot be null")
    items = []
    for _ in range(count):
        item, position = _READERS[field.type](data, position, field)
        items.append(item)
    return items, position


def _int32(data: bytes, position: int, field: schema.Field) -> Read:
    return _INT32.unpack_from(data, position)[0], position + _INT32.size


def _text(data: bytes, position: int, field: schema.Field) -> Read:
    raw, position = _sized(data, position, _INT16, field.nullable)
    return (None if raw is None else raw.decode()), position


def _blob(data: bytes, position: int, field: schema.Field) -> Read:
    return _sized(data, position, _INT32, field.nullable)


def _struct(data: bytes, position: int, field: schema.Field) -> Read:
    found = {}
    for inner in field.fields:
        found[inner.name], position = _field(data, position, inner)
    return found, position


def _sized(data: bytes, position: int, length: struct.Struct, nullable: bool) -> tuple[bytes | None, int]:
    (size,) = length.unpack_from(data, position)
    position += length.size
    if size == -1 and nullable:
        return None, position
    if size < 0:
        raise ValueError("a size cannot be negative")
    if size > len(data) - position:
        raise ValueError("cut off")
    return data[position : position + size], position + size


_READERS: Final[dict[str, Callable[[bytes, int, schema.Field], Read]]] = {
    "int32": _int32,
    "string": _text,
    "bytes": _blob,
    "struct": _struct,
}
