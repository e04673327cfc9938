"""Primitive types of Kafka's wire format, and helpers called by compiled code.

Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482 for compact types and tagged fields.
"""

from __future__ import annotations

import struct
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

# Types of fixed width: the `struct` code and the number of bytes.
FIXED: Final = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}

# Types with a length in front, and the size of that length in bytes where it is not a uvarint.
LENGTH_SIZE: Final = {"string": 2, "bytes": 4, "records": 4}

# An unsigned varint holds 32 bits in at most five bytes.
_UVARINT_BYTES: Final = 5

UNKNOWN_TAGS: Final = "unknown_tagged_fields"

ZERO_UUID: Final = "A" * 22


class Malformed(Exception):  # noqa: N818 - internal and cheap; users see DecodeError
    """Compiled code met bytes that do not fit. It carries no details: the interpreter explains."""


class _ArrayUnpackers(dict[int, Callable[[bytes, int], tuple[Any, ...]]]):
    """Unpacking functions of arrays of numbers by their count; those of short arrays are kept."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __missing__(self, count: int) -> Callable[[bytes, int], tuple[Any, ...]]:
        unpack = struct.Struct(f">{count}{self.code}").unpack_from
        if count < 256:
            self[count] = unpack
        return unpack


ARRAYS: Final = {kind: _ArrayUnpackers(code) for kind, (code, _) in FIXED.items() if len(code) == 1}


class TooLarge(Malformed):
    """The decoded values would take more memory than allowed."""


# All exceptions that compiled decoders raise.
DECODE_FAILURES: Final = (Malformed, struct.error, IndexError, UnicodeDecodeError)


def uvarint(data: bytes, pos: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint whose `first` byte, just before `pos`, says that more follow."""
    value = first & 0x7F
    for shift in range(7, 7 * _UVARINT_BYTES, 7):
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise Malformed


def uvarint_bytes(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def unknown_tags(data: bytes, pos: int, end: int, count: int) -> tuple[list[dict[str, Any]], int]:
    """Read `count` tagged fields from `pos` on, all of which are unknown; returns them and the position behind them."""
    found = []
    stop = pos
    for tag, start, stop in _tags(data, pos, end, count):
        found.append({"tag": tag, "bytes": data[start:stop]})
    return found, stop


def skip_tags(data: bytes, pos: int, end: int, count: int) -> int:
    """Position behind `count` tagged fields."""
    for place in _tags(data, pos, end, count):
        pos = place[2]
    return pos


def _tags(data: bytes, pos: int, end: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Tag of each field, and the positions at which its bytes begin and end."""
    if 2 * count > end - pos:
        raise Malformed
    for _ in range(count):
        tag = data[pos]
        pos += 1
        if tag > 0x7F:
            tag, pos = uvarint(data, pos, tag)
        size = data[pos]
        pos += 1
        if size > 0x7F:
            size, pos = uvarint(data, pos, size)
        start = pos
        pos += size
        yield tag, start, pos


def tag_section(tags: list[tuple[int, bytes]]) -> bytes:
    """Encode a tagged section of `(tag, bytes)`, in ascending order of tags as KIP-482 requires."""
    out = [uvarint_bytes(len(tags))]
    for tag, raw in sorted(tags, key=lambda entry: entry[0]):
        out += (uvarint_bytes(tag), uvarint_bytes(len(raw)), raw)
    return b"".join(out)


_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = str.maketrans("-_", "+/", "+/=\n")


# Topic ids repeat often.
@lru_cache(maxsize=4096)
def uuid_text(raw: bytes) -> str:
    """Kafka's text form of 16 bytes: base64url without padding, 22 characters."""
    return b2a_base64(raw, newline=False)[:22].translate(_TO_URL).decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of Kafka's text form. Raises ValueError unless `text` is base64url of 16 bytes."""
    if len(text) != len(ZERO_UUID):
        raise ValueError("a uuid has 22 characters")
    raw = a2b_base64(text.translate(_FROM_URL) + "==", strict_mode=True)
    if len(raw) != 16:
        raise ValueError("a uuid has 16 bytes")
    return raw
