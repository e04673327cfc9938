"""Record sets for captures built by tests."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import cramjam
import crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LZ4_HEADER = bytes.fromhex("04224d18604082")
"""Independent blocks of at most 64 KiB, no checksums."""

_COMPRESS = {NONE: bytes, GZIP: cramjam.gzip.compress, ZSTD: cramjam.zstd.compress}


def varint(value: int) -> bytes:
    rest = (value << 1 ^ value >> 63) & (1 << 64) - 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes(out) + bytes([rest])


def records(values: list[bytes], headers: Sequence[tuple[bytes, bytes]] = ()) -> bytes:
    """Records of a batch v2, without keys, a millisecond apart, each with these headers."""
    out, ending = [], varint(len(headers))
    for text in (text for header in headers for text in header):
        ending += varint(len(text)) + text
    for i, value in enumerate(values):
        body = b"\0" + varint(i) + varint(i) + varint(-1) + varint(len(value)) + value + ending
        out.append(varint(len(body)) + body)
    return b"".join(out)


def batch(payload: bytes, count: int, codec: int = NONE, base_timestamp: int = 1_700_000_000_123) -> bytes:
    """A batch v2 around records that are compressed already."""
    last = max(count - 1, 0)
    tail = (
        struct.pack(">hiqqqhii", codec, last, base_timestamp, base_timestamp + last, -1, -1, -1, count)
        + payload
    )
    return struct.pack(">qiibI", 0, 9 + len(tail), 0, 2, crc32c.crc32c(tail)) + tail


def batch_of(values: list[bytes], codec: int = NONE) -> bytes:
    """A batch v2 of these values, uncompressed or with gzip or zstd."""
    return batch(bytes(_COMPRESS[codec](records(values))), len(values), codec)


def lz4_blocks(data: bytes, size: int) -> bytes:
    """An LZ4 frame of stored blocks of `size` bytes each."""
    blocks = (data[start : start + size] for start in range(0, len(data), size))
    stored = b"".join(struct.pack("<I", len(block) | 1 << 31) + block for block in blocks)
    return LZ4_HEADER + stored + bytes(4)


def xerial_chunks(data: bytes, size: int) -> bytes:
    """snappy-java's stream in chunks of `size` bytes each."""
    parts = [b"\x82SNAPPY\0", struct.pack(">ii", 1, 1)]
    for start in range(0, len(data), size):
        chunk = bytes(cramjam.snappy.compress_raw(data[start : start + size]))
        parts += [struct.pack(">i", len(chunk)), chunk]
    return b"".join(parts)


def message(
    offset: int, key: bytes, value: bytes, magic: int, attributes: int = 0, timestamp: int = 0
) -> bytes:
    """One entry of a message set v0 or v1."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    body += struct.pack(">i", len(key)) + key + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body
