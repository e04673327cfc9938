"""Record sets as Kafka's clients and brokers write them, built from the format's description."""

from __future__ import annotations

import struct
import zlib

import cramjam
import crc32c
import pytest


def varint(value: int) -> bytes:
    """Zigzag, as in Kafka's ByteUtils.writeVarlong."""
    rest = (value << 1 ^ value >> 63) & (1 << 64) - 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def xerial(data: bytes, chunk: int = 32 * 1024) -> bytes:
    """snappy-java's stream."""
    parts = [b"\x82SNAPPY\x00", struct.pack(">ii", 1, 1)]
    for start in range(0, len(data), chunk):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + chunk]))
        parts += [struct.pack(">i", len(block)), block]
    return b"".join(parts)


def compress(codec: int, data: bytes) -> bytes:
    if codec == 2:
        return xerial(data)
    return bytes({1: cramjam.gzip, 3: cramjam.lz4, 4: cramjam.zstd}[codec].compress(data)) if codec else data


class Make:
    """Builders of the bytes under test."""

    varint = staticmethod(varint)
    xerial = staticmethod(xerial)
    compress = staticmethod(compress)

    @staticmethod
    def record(
        offset_delta: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[bytes, bytes | None], ...] = (),
        timestamp_delta: int = 0,
    ) -> bytes:
        body = b"\x00" + varint(timestamp_delta) + varint(offset_delta) + _sized(key) + _sized(value)
        body += varint(len(headers)) + b"".join(_sized(name) + _sized(content) for name, content in headers)
        return varint(len(body)) + body

    @staticmethod
    def batch(records: list[bytes] | bytes, **fields: int) -> bytes:
        """A v2 batch; the header's fields by name, `codec` compresses."""
        count = len(records) if isinstance(records, list) else 1
        payload = b"".join(records) if isinstance(records, list) else records
        codec = fields.get("codec", 0)
        tail = struct.pack(
            ">hiqqqhii",
            fields.get("attributes", 0) | codec,
            fields.get("last_delta", count - 1),
            fields.get("base_timestamp", 1_700_000_000_000),
            fields.get("max_timestamp", 1_700_000_000_500),
            fields.get("producer_id", -1),
            fields.get("producer_epoch", -1),
            fields.get("base_sequence", -1),
            fields.get("count", count),
        )
        tail += compress(codec, payload) if payload else b""
        return (
            struct.pack(
                ">qiibI",
                fields.get("base_offset", 0),
                len(tail) + 9,
                fields.get("leader_epoch", 3),
                fields.get("magic", 2),
                crc32c.crc32c(tail) ^ fields.get("spoil_crc", 0),
            )
            + tail
        )

    @staticmethod
    def message(
        offset: int,
        key: bytes | None,
        value: bytes | None,
        magic: int = 1,
        timestamp: int = 1_700_000_000_000,
        attributes: int = 0,
        spoil_crc: int = 0,
    ) -> bytes:
        """A message of format v0 or v1."""
        body = struct.pack(">bb", magic, attributes)
        if magic:
            body += struct.pack(">q", timestamp)
        for field in (key, value):
            body += struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
        return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body) ^ spoil_crc) + body

    def wrapper(
        self, offset: int, messages: list[bytes], codec: int, magic: int = 1, attributes: int = 0
    ) -> bytes:
        inner = compress(codec, b"".join(messages))
        return self.message(offset, None, inner, magic, attributes=attributes | codec)


@pytest.fixture(scope="session")
def make() -> Make:
    return Make()
