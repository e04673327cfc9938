"""Record sets with other keys, values and headers: opened, replaced, compressed again, with CRCs of their own.

What a CRC did not fit before, it does not fit after. Bytes that are no whole batch are replaced beyond its head.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

import crc32c

from kinspect.records import v2
from kinspect.records.compression import CompressionError, decompress
from kinspect.records.recordsetreader import MAX_BYTES
from kinspect.records.walk import first_boundary

Replace = Callable[[bytes | None, bytes | None, bool], tuple[bytes | None, bytes | None]]
"""What a record's key and value become; True for those of a control batch."""

_PREFIX: Final = struct.Struct(">qi")
_LENGTH: Final = struct.Struct(">i")
_MAGIC_AT: Final = 16
_HEAD: Final = 17
"""Bytes up to the magic byte, which all formats share."""
_BEHIND: Final = _LENGTH.pack((1 << 31) - 1)
"""The size of a batch that ends behind the set."""
_CODEC: Final = 7
_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_XERIAL: Final = b"\x82SNAPPY\x00"
_LEGACY_CRC_AT: Final = 12
_LEGACY_FROM: Final = 16
_LEGACY_KEY: Final = (18, 26)
_LEGACY_SMALLEST: Final = (26, 34)
_DEEPEST: Final = 4
_VARINT_BITS: Final = 70


class Means(NamedTuple):
    """How values are replaced: those of records, other bytes, and the names of headers."""

    record: Replace
    data: Callable[[bytes], bytes]
    text: Callable[[bytes], bytes]


class _DamagedError(Exception):
    pass


def redacted_set(data: bytes, means: Means, depth: int = 0, aligned: bool = True) -> bytes:
    """The bytes of a `records` field with everything replaced that users wrote. `aligned`: as for `records.batches`."""
    position = 0 if aligned else first_boundary(data)
    parts = [means.data(data[:position])]
    while position < len(data):
        stop = _end(data, position)
        if stop is None:
            parts.append(_part(data[position:], means))
            break
        batch = data[position:stop]
        magic = batch[_MAGIC_AT]
        try:
            parts.append(_batch(batch, means) if magic == 2 else _message(batch, magic, means, depth))
        except (_DamagedError, struct.error, IndexError, CompressionError):
            parts.append(_part(batch, means))
        position = stop
    return b"".join(parts)


def _end(data: bytes, position: int) -> int | None:
    """The end of the batch or message; None if it is not whole, or of no known format."""
    if len(data) - position < _HEAD:
        return None
    magic = data[position + _MAGIC_AT]
    stop = position + _PREFIX.size + int(_PREFIX.unpack_from(data, position)[1])
    smallest = v2.HEADER.size if magic == 2 else _LEGACY_SMALLEST[magic] if magic < 2 else None
    return stop if smallest is not None and position + smallest <= stop <= len(data) else None


def _part(data: bytes, means: Means) -> bytes:
    """What cannot be read, so that as much of it cannot be read again: of its head only size and magic stay."""
    if len(data) >= _HEAD and data[_MAGIC_AT] > 2:
        return means.data(data)
    size = data[8:12]
    if len(data) < _HEAD or int.from_bytes(size, signed=True) > len(data) - _PREFIX.size:
        size = _BEHIND
    head = bytes(8) + size + bytes(4) + data[_MAGIC_AT:_HEAD]
    return head[: len(data)] + means.data(data[_HEAD:])


def _batch(batch: bytes, means: Means) -> bytes:
    _, _, _, _, crc, attributes, *_, count = v2.HEADER.unpack_from(batch)
    codec, records = attributes & _CODEC, batch[v2.HEADER.size :]
    if records:
        opened = decompress(codec, records, MAX_BYTES)
        made = _records(opened, count, bool(attributes & v2.CONTROL), means)
        records = _compressed(codec, made, records)
    rest = batch[v2.CRC_FROM : v2.HEADER.size] + records
    fits = crc32c.crc32c(batch[v2.CRC_FROM :]) == crc
    head = batch[:8] + _LENGTH.pack(9 + len(rest)) + batch[12:17]
    return head + struct.pack(">I", crc32c.crc32c(rest) ^ (not fits)) + rest


def _records(data: bytes, count: int, control: bool, means: Means) -> bytes:
    parts, position = [], 0
    for _ in range(count):
        size, position = _varint(data, position)
        stop = position + size
        if size < 0 or stop > len(data):
            raise _DamagedError
        parts.append(_sized(_record(data, position, stop, control, means)))
        position = stop
    return b"".join(parts) + means.data(data[position:])


def _record(data: bytes, position: int, stop: int, control: bool, means: Means) -> bytes:
    start = position
    _, position = _varint(data, position + 1)
    _, position = _varint(data, position)
    head = data[start:position]
    key, position = _value(data, position)
    value, position = _value(data, position)
    key, value = means.record(key, value, control)
    count, behind = _varint(data, position)
    parts = [head, _sized(key), _sized(value), data[position:behind]]
    for _ in range(count):
        name, behind = _value(data, behind)
        content, behind = _value(data, behind)
        parts += [
            _sized(None if name is None else means.text(name)),
            _sized(None if content is None else means.data(content)),
        ]
    if behind != stop:
        raise _DamagedError
    return b"".join(parts)


def _value(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = _varint(data, position)
    if size < 0:
        return None, position
    if position + size > len(data):
        raise _DamagedError
    return data[position : position + size], position + size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _VARINT_BITS, 7):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), position
    raise _DamagedError


def _sized(value: bytes | None) -> bytes:
    """A value behind its length, a zigzag varint."""
    number = 1 if value is None else 2 * len(value)
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out) + (value or b"")


def _message(message: bytes, magic: int, means: Means, depth: int) -> bytes:
    """A message of format v0 or v1, or a wrapper of others."""
    codec = message[_LEGACY_FROM + 1] & _CODEC
    key, position = _legacy_value(message, _LEGACY_KEY[magic])
    value, position = _legacy_value(message, position)
    if position != len(message):
        raise _DamagedError
    if codec and value is not None:
        if depth == _DEEPEST:
            raise _DamagedError
        opened = decompress(codec, value, MAX_BYTES, any_lz4_checksum=magic == 0)
        key = None if key is None else means.data(key)
        value = _compressed(codec, redacted_set(opened, means, depth + 1), value)
    else:
        key, value = means.record(key, value, False)
    rest = message[_LEGACY_FROM : _LEGACY_KEY[magic]] + b"".join(
        _LENGTH.pack(-1) if each is None else _LENGTH.pack(len(each)) + each for each in (key, value)
    )
    fits = zlib.crc32(message[_LEGACY_FROM:]) == struct.unpack_from(">I", message, _LEGACY_CRC_AT)[0]
    return message[:8] + struct.pack(">iI", 4 + len(rest), zlib.crc32(rest) ^ (not fits)) + rest


def _legacy_value(data: bytes, position: int) -> tuple[bytes | None, int]:
    (size,) = _LENGTH.unpack_from(data, position)
    position += _LENGTH.size
    if size < 0:
        return None, position
    if position + size > len(data):
        raise _DamagedError
    return data[position : position + size], position + size


def _compressed(codec: int, data: bytes, before: bytes) -> bytes:
    """`data` in that codec, framed as the bytes were that it comes from."""
    import cramjam  # most runs need no codec

    if codec == _GZIP:
        return zlib.compress(data, wbits=31)
    if codec == _SNAPPY:
        raw = bytes(cramjam.snappy.compress_raw(data))
        if not before.startswith(_XERIAL):
            return raw
        return _XERIAL + struct.pack(">iii", 1, 1, len(raw)) + raw
    if codec == _LZ4:
        return bytes(cramjam.lz4.compress(data))
    if codec == _ZSTD:
        return bytes(cramjam.zstd.compress(data))
    return data
