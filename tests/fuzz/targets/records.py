"""Record sets, and what keys and values hold: nothing is raised, and every byte is accounted for."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from struct import pack
from typing import Any

import cramjam
import orjson

from kinspect.records import RecordSet, batches, controlrecords, embedded, internal, summarise
from kinspect.records.compression import CompressionError, decompress

from ..script import Script, short
from ..traffic import TESTS

DATA = TESTS / "records" / "data"
MAX_BYTES, MAX_RECORDS = 1 << 18, 2000
LARGE = 1 << 24
TOPICS = sorted(internal.TOPICS)
MODES = 6
AS_IS, UNALIGNED, BATCH, WRAPPER, INTERNAL, EMBEDDED = range(MODES)

_V2 = struct.Struct(">qiiBIhiqqqhii")
_V1 = struct.Struct(">qiIBBqii")


def fuzz(data: bytes) -> None:
    steps = Script(data)
    mode = steps.byte() % MODES
    if mode == INTERNAL:
        topic = TOPICS[steps.byte() % len(TOPICS)]
        key, value = steps.take(steps.byte()), steps.rest()
        for found in (
            internal.decode_key(topic, key),
            internal.decode_value(topic, key, value),
            *controlrecords.decode_control_record(key, value),
        ):
            assert found is None or {"type", "version"} <= found.keys()
    elif mode == EMBEDDED:
        body = steps.rest()
        for shown in (embedded.decode_subscription(body), embedded.decode_assignment(body)):
            orjson.dumps(shown, default=bytes.hex)
        for codec in range(8):
            for any_checksum in (False, True):
                try:
                    out = decompress(codec, body, 4096, any_lz4_checksum=any_checksum)
                except CompressionError:
                    continue
                assert len(out) <= 4096 or codec == 0
    elif mode == BATCH:
        record_set(batch(steps.byte(), steps.signed(), steps.rest()), True)
    elif mode == WRAPPER:
        record_set(wrapper(steps.byte(), steps.rest()), True)
    else:
        record_set(steps.rest(), mode == AS_IS)


def record_set(data: bytes, aligned: bool) -> None:
    whole = batches(data, max_bytes=MAX_BYTES, max_records=MAX_RECORDS, aligned=aligned)
    heads = summarise(data, max_bytes=MAX_BYTES, aligned=aligned)
    for found in (whole, heads):
        sizes = sum(entry["size"] for entry in found)
        skipped = sum(problem.bytes or 0 for problem in found.problems)
        assert sizes + found.partial_bytes + skipped == len(data), "bytes are unaccounted for"
        for problem in found.problems:
            assert problem.offset is not None
            assert 0 <= problem.offset <= len(data)
    assert sum(len(entry["records"]) for entry in whole) <= MAX_RECORDS
    assert [entry["magic"] for entry in whole] == [entry["magic"] for entry in heads]
    if not exhausted(whole) and not exhausted(heads):
        assert [*map(head, whole)] == [*map(head, heads)], "the headers depend on who wants the records"
    orjson.dumps(list(whole), default=bytes.hex)


def exhausted(found: RecordSet) -> bool:
    """True if a limit was reached: then other batches may get their share."""
    return any(problem.code in ("cap", "decompression") for problem in found.problems)


def head(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "records"}


def compressed(codec: int, data: bytes) -> bytes:
    if codec == 1:
        return bytes(cramjam.gzip.compress(data))
    if codec == 2:
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == 3:
        return bytes(cramjam.lz4.compress(data))
    return bytes(cramjam.zstd.compress(data)) if codec == 4 else data


def batch(attributes: int, count: int, records: bytes) -> bytes:
    """A batch v2 around the records' bytes, which are compressed as the attributes say."""
    payload = compressed(attributes & 7, records)
    return (
        _V2.pack(
            100,
            _V2.size - 12 + len(payload),
            0,
            2,
            0,
            attributes,
            count,
            5000,
            6000,
            -1,
            -1,
            -1,
            max(count, 0),
        )
        + payload
    )


def wrapper(attributes: int, messages: bytes) -> bytes:
    """A message of magic 1 (0, if the high bit of `attributes` is set) that holds compressed messages."""
    value = compressed(attributes & 3, messages)
    if attributes & 128:
        return struct.pack(">qiIBBii", 9, 14 + len(value), 0, 0, attributes & 3, -1, len(value)) + value
    return _V1.pack(9, 22 + len(value), 0, 1, attributes & 15, 5000, -1, len(value)) + value


def seeds() -> Iterator[bytes]:
    for name in ("captures", "vectors", "internal"):
        for line in (DATA / f"{name}.jsonl").read_text().splitlines():
            entry = json.loads(line)
            data = bytes.fromhex(entry["record_set"])
            if len(data) > 3000:
                continue
            yield bytes((AS_IS,)) + data
            found = batches(data)
            if found[0]["magic"] == 2:
                payload = data[_V2.size : found[0]["size"]]
                codec = data[22] & 7
                yield bytes((EMBEDDED,)) + payload
                if codec:
                    payload = decompress(codec, payload, LARGE)
                if len(payload) > 8000:
                    continue
                yield bytes((BATCH, codec, found[0]["count"] & 127)) + payload
                yield bytes((UNALIGNED,)) + data[len(payload) // 2 :] + data
            else:
                yield bytes((WRAPPER, 1 + len(data) % 3)) + data
                yield bytes((WRAPPER, 129 + len(data) % 3)) + data
            for record in [record for entry in found for record in entry["records"]][:20]:
                key, value = record["key"] or b"", record["value"] or b""
                topic = TOPICS.index(entry["topic"]) if name == "internal" else 0
                yield bytes((INTERNAL, topic, len(key))) + key + value
    subscription = short(1) + pack(">ih6sih4si", 1, 6, b"orders", 0, 0, b"", 0)
    yield bytes((EMBEDDED,)) + subscription
    assignment = short(0) + pack(">ih6siiii", 1, 6, b"orders", 2, 0, 1, -1)
    yield bytes((EMBEDDED,)) + assignment
    for number, marker in ((1, "000000000007"), (2, "0000000000010000000000"), (6, "0000000000010100")):
        yield bytes((INTERNAL, 0, 4)) + short(0) + short(number) + bytes.fromhex(marker)
