"""How payloads name their schema, as clients of schema registries write it: byte 0 and the schema's number in four
bytes before the payload, or a header of the record with byte 1 and the schema's GUID. Behind either of them Protobuf
has the message's indexes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

NUMBER_MAGIC, GUID_MAGIC = 0, 1
NUMBER_END, GUID_END = 5, 17
HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}
"""The headers that name the schemas of a record's key and value."""
MOST = 0x7FFFFFFF
"""The greatest number of a schema."""


class NamedSchema(NamedTuple):
    """The schema that a payload names by its number or its GUID, `key`. `start`: where the payload behind it begins;
    `rest`: what a header has behind it, None where no header names it."""

    key: int | str
    start: int
    rest: bytes | None = None


def by_header(values: Iterable[bytes | None]) -> NamedSchema | None:
    """The schema that the first of these values of headers names; None if it names none."""
    value = next(iter(values), None) or b""
    named = at_start(value)
    return named and named._replace(start=0, rest=value[named.start :])


def at_start(data: bytes) -> NamedSchema | None:
    """The schema that the first bytes may name: whether they do cannot be seen from them alone."""
    if len(data) >= NUMBER_END and data[0] == NUMBER_MAGIC:
        number = int.from_bytes(data[1:NUMBER_END], "big")
        return NamedSchema(number, NUMBER_END) if 0 < number <= MOST else None
    if len(data) >= GUID_END and data[0] == GUID_MAGIC:
        return NamedSchema(str(UUID(bytes=data[1:GUID_END])), GUID_END)
    return None
