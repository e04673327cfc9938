"""Codecs of record batches: expand compressed bytes, never beyond a limit.

Input is hostile: a few kilobytes can announce or hold gigabytes. gzip is streamed by zlib, which can be
told where to stop. The other codecs come from cramjam, which cannot; for them an upper bound of what the
bytes can expand to is read from the block headers first (raw snappy announces its size), and only data that
may go beyond the limit pays for a fixed buffer of that size. Libraries are imported on first use.

Sources: Kafka's CompressionType, Lz4BlockInputStream (KAFKA-3160) and SnappyCompression; RFC 1952, RFC 8878,
the LZ4 frame format 1.6, snappy's format_description.txt and snappy-java's SnappyOutputStream.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Generator, Iterator
from functools import cache
from types import ModuleType
from typing import Final

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""Names by codec number, the low three bits of a batch's attributes; 5 to 7 are not assigned."""

_CHUNK: Final = 16 * 1024
_U32_LE: Final = struct.Struct("<I")
_I32: Final = struct.Struct(">i")

# snappy-java's stream: 8 bytes magic, version and lowest compatible version (int32, not checked, like other
# implementations), then chunks: int32 length, raw snappy block.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = 16
# A copy element of three bytes yields at most 64, so nothing expands further than this.
_SNAPPY_RATIO: Final = 22

_LZ4_MAGIC: Final = 0x184D2204
# A match length byte of LZ4 stands for at most 255 bytes.
_LZ4_RATIO: Final = 255
_LZ4_BLOCK_SIZES: Final = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}
_ANY_SIZE: Final = 1 << 62

_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_BLOCK: Final = 128 * 1024
_SKIPPABLE: Final = 0x184D2A50
_SKIPPABLE_MASK: Final = 0xFFFFFFF0  # zstd and lz4 share them
_WALK_BLOCKS: Final = 65536
"""Number of block headers read before a fixed buffer becomes the cheaper safeguard."""


class CompressionError(Exception):
    """Compressed bytes that cannot be expanded.

    `code` is the problem's code, `decompression` or `cap`; `spent` an upper bound of the bytes that were expanded
    before the failure: a caller that expands many batches counts those too.
    """

    def __init__(self, code: str, message: str, spent: int) -> None:
        super().__init__(message)
        self.code = code
        self.spent = spent


def codec_name(codec: int) -> str:
    """Name of a codec, `unknown_5` for a number without one."""
    return CODECS[codec] if 0 <= codec < len(CODECS) else f"unknown_{codec}"


def decompress(codec: int, data: bytes, limit: int, *, any_lz4_checksum: bool = False) -> bytes:
    """Expand `data`, written with codec number `codec`, to at most `limit` bytes.

    `any_lz4_checksum`: accept any checksum of the lz4 frame header; writers of message format 0 get it wrong. Raises
    only `CompressionError`, whatever the bytes.
    """
    if codec == 0:
        return data
    if not 0 <= codec < len(CODECS):
        raise CompressionError("decompression", f"codec {codec} has no meaning", 0)
    if any_lz4_checksum and codec == 3:
        data = _with_right_checksum(data)
    return _DECODERS[codec](data, limit)


@cache
def _cramjam() -> ModuleType:
    import cramjam  # most runs need no codec

    return cramjam


def _damaged(name: str, spent: int) -> CompressionError:
    return CompressionError("decompression", f"{name}: the compressed bytes are damaged or cut off", spent)


def _too_large(name: str, limit: int) -> CompressionError:
    return CompressionError(
        "cap", f"{name}: expands to more than the {limit} bytes that are left of the limit", limit
    )


def _gzip(data: bytes, limit: int) -> bytes:
    """Any number of members; bytes after the last one that are no member are ignored, as java.util.zip does."""
    parts: list[bytes] = []
    room, position, end = limit, 0, len(data)
    stream = zlib.decompressobj(31)
    while True:
        # Fed in chunks: `unused_data` copies the rest, which would be quadratic for many small members.
        chunk = data[position : position + _CHUNK]
        position += len(chunk)
        while True:
            try:
                part = stream.decompress(chunk, room + 1)
            except zlib.error:
                raise _damaged("gzip", limit - room) from None
            parts.append(part)
            room -= len(part)
            if room < 0:
                raise _too_large("gzip", limit)
            chunk = stream.unconsumed_tail
            if not chunk:
                break
        if stream.eof:
            position -= len(stream.unused_data)
            if data[position : position + 2] != b"\x1f\x8b":
                break
            stream = zlib.decompressobj(31)
        elif position >= end:
            raise _damaged("gzip", limit - room)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy(data: bytes, limit: int) -> bytes:
    """snappy-java's stream of chunks (or several streams in a row), else one raw block."""
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, limit, limit)
    parts: list[bytes] = []
    room, position, end = limit, 0, len(data)
    while position < end:
        if data.startswith(_XERIAL_MAGIC, position) and end - position >= _XERIAL_HEADER:
            position += _XERIAL_HEADER
            continue
        size = _I32.unpack_from(data, position)[0] if end - position >= 4 else -1
        position += 4
        if not 0 <= size <= end - position:
            raise _damaged("snappy", limit - room)
        part = _snappy_block(data[position : position + size], room, limit)
        parts.append(part)
        room -= len(part)
        position += size
    return b"".join(parts)


def _snappy_block(data: bytes, room: int, limit: int) -> bytes:
    snappy = _cramjam().snappy
    spent = limit - room
    try:
        announced = snappy.decompress_raw_len(data)
        if announced > len(data) * _SNAPPY_RATIO:
            raise _damaged("snappy", spent)
        if announced > room:
            raise _too_large("snappy", limit)
        spent += announced
        return bytes(snappy.decompress_raw(data))
    except _cramjam().DecompressionError:
        raise _damaged("snappy", spent) from None


def _lz4(data: bytes, limit: int) -> bytes:
    bound = len(data) * _LZ4_RATIO
    if bound > limit:
        bound = min(bound, _bound(data, limit, _LZ4_MAGIC, _lz4_blocks))
    return _bounded("lz4", data, bound, limit)


def _zstd(data: bytes, limit: int) -> bytes:
    return _bounded("zstd", data, _bound(data, limit, _ZSTD_MAGIC, _zstd_blocks), limit)


_DECODERS: Final[tuple[Callable[[bytes, int], bytes], ...]] = (
    lambda data, limit: data,
    _gzip,
    _snappy,
    _lz4,
    _zstd,
)


def _bounded(name: str, data: bytes, bound: int, limit: int) -> bytes:
    """Expand `data`; `bound` is the most it can expand to, or anything above `limit` if not known."""
    codec = getattr(_cramjam(), name)
    try:
        if bound <= limit:
            # The only copy: slices of a cramjam buffer are not bytes, and a batch is sliced many times.
            return bytes(codec.decompress(data))
        buffer = bytearray(limit)
        size = codec.decompress_into(data, buffer)
        with memoryview(buffer) as view:
            return bytes(view[:size])
    except _cramjam().DecompressionError as error:
        if bound > limit and "whole buffer" in str(error):  # the output did not fit
            raise _too_large(name, limit) from None
        raise _damaged(name, min(bound, limit)) from None


_Blocks = Generator[int, None, int]
"""Upper bounds of the expanded size of each block of a frame; returns the frame's end."""


def _bound(data: bytes, limit: int, magic: int, blocks: Callable[[bytes, int], _Blocks]) -> int:
    """Upper bound of the expanded size of frames, from their block headers.

    Above `limit` if too many headers would have to be read. Bytes that are not a frame, or a cut-off one, end the walk:
    the decoder gets no further either.
    """
    bound = 0
    try:
        for looks, size in enumerate(_frames(data, magic, blocks)):
            bound += size
            if bound > limit or looks == _WALK_BLOCKS:
                return limit + 1
    except (IndexError, struct.error):
        pass
    return bound


def _frames(data: bytes, magic: int, blocks: Callable[[bytes, int], _Blocks]) -> Iterator[int]:
    """Blocks of all frames; a skippable frame counts as one empty block (RFC 8878 §3.1.2)."""
    position = 0
    while position < len(data):
        (found,) = _U32_LE.unpack_from(data, position)
        if found & _SKIPPABLE_MASK == _SKIPPABLE:
            yield 0
            position += 8 + _U32_LE.unpack_from(data, position + 4)[0]
        elif found == magic:
            position = yield from blocks(data, position)
        else:
            return


def _zstd_blocks(data: bytes, position: int) -> _Blocks:
    """Blocks of a zstd frame (RFC 8878 §3.1.1)."""
    descriptor = data[position + 4]
    single = descriptor >> 5 & 1
    content_size = (single, 2, 4, 8)[descriptor >> 6]
    position += 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + content_size
    last = False
    while not last:
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        yield _ZSTD_BLOCK if kind == 2 else size
        position += 3 + (1 if kind == 1 else size)
    return position + 4 * (descriptor >> 2 & 1)


def _lz4_blocks(data: bytes, position: int) -> _Blocks:
    flags = data[position + 4]
    block_size = _LZ4_BLOCK_SIZES.get(data[position + 5] >> 4 & 7, _ANY_SIZE)
    position += 7 + _lz4_options(flags)
    while True:
        (header,) = _U32_LE.unpack_from(data, position)
        position += 4
        if header == 0:
            return position + 4 * (flags >> 2 & 1)
        yield block_size
        position += (header & 0x7FFFFFFF) + 4 * (flags >> 4 & 1)


def _lz4_options(flags: int) -> int:
    """Size in bytes of the frame header's optional fields: content size and dictionary id."""
    return 8 * (flags >> 3 & 1) + 4 * (flags & 1)


def _with_right_checksum(data: bytes) -> bytes:
    """The same lz4 frame with the correct header checksum.

    Kafka before 0.10 computed it over the magic number too, and so do all writers of message format 0
    (KAFKA-3160).
    """
    if len(data) < 7 or _U32_LE.unpack_from(data)[0] != _LZ4_MAGIC:
        return data
    at = 6 + _lz4_options(data[4])
    right = _xxh32_short(data[4:at]) >> 8 & 0xFF
    if at >= len(data) or data[at] == right:
        return data
    return b"".join((data[:at], bytes((right,)), data[at + 1 :]))


def _xxh32_short(data: bytes) -> int:
    """xxHash32, seed 0, of fewer than 16 bytes, which is enough for an lz4 frame header."""
    mask = 0xFFFFFFFF
    value = 0x165667B1 + len(data)
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        value = value + _U32_LE.unpack_from(data, position)[0] * 0xC2B2AE3D & mask
        value = (value << 17 | value >> 15) * 0x27D4EB2F & mask
    for byte in data[whole:]:
        value = value + byte * 0x165667B1 & mask
        value = (value << 11 | value >> 21) * 0x9E3779B1 & mask
    value = (value ^ value >> 15) * 0x85EBCA77 & mask
    value = (value ^ value >> 13) * 0xC2B2AE3D & mask
    return value ^ value >> 16
