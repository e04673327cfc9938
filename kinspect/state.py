"""State as plain values and as bytes, to be resumed later, in another process or on another host.

Each class lists its plain fields in `STATE`, next to the fields themselves, and adds its other parts. The bytes are
CBOR (RFC 8949) behind a version and a checksum: nothing in them can run code.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from io import BytesIO
from struct import Struct
from typing import Any

from kinspect.errors import StateError

VERSION = 20
"""Format version; increased when the content of the fields, or their order, changes."""
MAGIC = b"kinspect state\n\0"
HEAD = Struct(">16sHI")
# Types that come back from CBOR as another type.
_RESTORED: dict[type, type] = {list: tuple, bytearray: bytes}
_PLAIN = frozenset({int, str, bytes, bool, float, type(None)})


def fields(of: object, names: Sequence[str]) -> list[Any]:
    """Values of an object's fields."""
    return [getattr(of, name) for name in names]


def fill(of: object, names: Sequence[str], values: Sequence[Any]) -> None:
    """Set the fields of an object to the result of `fields` for another one. Values must have the fields' types; fields
    that are None take any. Raises TypeError."""
    for name, value in zip(names, values, strict=True):
        kind = type(getattr(of, name))
        if kind is not type(None) and type(value) is not _RESTORED.get(kind, kind):
            raise TypeError(f"{type(of).__name__}.{name} is no {kind.__name__}")
        setattr(of, name, kind(value) if kind in _RESTORED else value)


def to_bytes(values: Any) -> bytes:
    """Encode plain values (numbers, texts, bytes, None, and sequences and mappings of them)."""
    from cbor2 import dumps

    body = dumps(values)
    return HEAD.pack(MAGIC, VERSION, zlib.crc32(body)) + body


def from_bytes(data: bytes) -> Any:
    """Decode the result of `to_bytes`, with sequences as tuples. Raises StateError."""
    if len(data) < HEAD.size or not data.startswith(MAGIC):
        raise StateError("the carried state is damaged: it does not begin as one")
    _, version, checksum = HEAD.unpack_from(data)
    if version != VERSION:
        raise StateError(
            f"the carried state is of another version of kinspect (format {version}; this one takes {VERSION}):"
            " let that version finish it, or begin anew in another folder"
        )
    body = data[HEAD.size :]
    if zlib.crc32(body) != checksum:
        raise StateError("the carried state is damaged: its checksum does not fit")
    from cbor2 import CBORDecodeError, load

    try:
        with BytesIO(body) as stream:
            values = _Restored(len(body)).plain(load(stream))
            if stream.read(1):
                raise StateError("the carried state is damaged: something follows it")
    except (CBORDecodeError, RecursionError) as error:
        raise StateError(f"the carried state is damaged: {error}") from error
    return values


class _Restored:
    """Converts decoded values to plain ones. CBOR can refer to one value any number of times, and to values of other
    kinds: both are refused, so that the result is no larger than the bytes it came from."""

    def __init__(self, most: int) -> None:
        self._left = most

    def plain(self, value: Any) -> Any:
        """The value, with sequences as tuples. Raises StateError."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is not list and kind is not dict:
            raise StateError(f"the carried state is damaged: {kind.__name__} in it")
        self._left -= len(value)
        if self._left < 0:
            raise StateError("the carried state is damaged: more values than bytes")
        if kind is list:
            return tuple(map(self.plain, value))
        return {key: self.plain(item) for key, item in value.items()}
