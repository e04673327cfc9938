"""Places of the batches in a record set, the fields of their headers, and records that are not compressed.

Source: Kafka's DefaultRecordBatch.java, LegacyRecord.java and ByteUtils.java.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kinspect.protocol.interpreter import Span

HEADERS = {0: 18, 1: 26, 2: 61}
"""Number of bytes before the records of a batch, or the key of an older message, by the magic byte."""
_SIZE, _SIZE_END, _MAGIC = 8, 12, 16
# The byte of the attributes that names the codec, by the magic byte.
_CODEC_AT = {0: 17, 1: 17, 2: 22}
_CODEC = 7

V2_FIELDS = (
    ("base_offset", 0, 8, "int64"),
    ("size", 8, 12, "int32"),
    ("partition_leader_epoch", 12, 16, "int32"),
    ("magic", 16, 17, "int8"),
    ("crc_ok", 17, 21, "uint32"),
    ("compression", 21, 23, "int16"),
    ("last_offset", 23, 27, "int32"),
    ("base_timestamp_ms", 27, 35, "int64"),
    ("max_timestamp_ms", 35, 43, "int64"),
    ("producer_id", 43, 51, "int64"),
    ("producer_epoch", 51, 53, "int16"),
    ("base_sequence", 53, 57, "int32"),
    ("count", 57, 61, "int32"),
)
"""Fields of a batch's header: name in JSON, start, end and type, in the order of its bytes."""
_ATTRIBUTES = tuple((name, 21, 23, "int16") for name in ("timestamp_type", "is_transactional", "is_control"))


class BatchSpan(NamedTuple):
    start: int
    end: int
    magic: int
    compressed: bool


class BatchPart(NamedTuple):
    """A part of a record set, as `interpreter.Span` is one of a message."""

    path: str
    start: int
    end: int
    type: str


def batch_spans(data: bytes) -> Iterator[BatchSpan]:
    """The batches of a record set, and the messages of older formats, that are whole."""
    position = 0
    while position + _MAGIC < len(data):
        end = position + _SIZE_END + int.from_bytes(data[position + _SIZE : position + _SIZE_END])
        magic = data[position + _MAGIC]
        if magic not in HEADERS or end > len(data) or end - position < HEADERS[magic]:
            return
        yield BatchSpan(position, end, magic, bool(data[position + _CODEC_AT[magic]] & _CODEC))
        position = end


def parts(span: Span, shared: bool = False) -> list[BatchPart]:
    """The parts of a `records` field, in order. `shared`: also whole batches, and each fact in the attributes."""
    first = span.end - len(span.value)
    found: list[BatchPart] = []
    index = -1
    run = -1
    for batch in batch_spans(span.value):
        if batch.magic != 2:
            # An uncompressed run of messages is one entry.
            index += batch.compressed or run != batch.magic
            path = f"{span.path}.batches[{index}]"
            goes_on = run == batch.magic and not batch.compressed
            start = found.pop().start if goes_on else first + batch.start
            found.append(BatchPart(path, start, first + batch.end, "messages"))
            run = -1 if batch.compressed else batch.magic
            continue
        run = -1
        index += 1
        path = f"{span.path}.batches[{index}]"
        start = first + batch.start
        if shared:
            found.append(BatchPart(path, start, first + batch.end, "batch"))
        for name, begin, end, kind in V2_FIELDS + (_ATTRIBUTES if shared else ()):
            found.append(BatchPart(f"{path}.{name}", start + begin, start + end, kind))
        records = start + HEADERS[2], first + batch.end
        if shared or batch.compressed:
            found.append(BatchPart(f"{path}.records", *records, "records"))
        if not batch.compressed:
            found += _records(span.value, batch, f"{path}.records", first)
    return found


def _records(data: bytes, batch: BatchSpan, path: str, first: int) -> Iterator[BatchPart]:
    position = batch.start + HEADERS[2]
    index = 0
    while position < batch.end:
        size, begin = _varint(data, position)
        end = begin + size
        if size < 0 or end > batch.end:
            return
        yield BatchPart(f"{path}[{index}]", first + position, first + end, "record")
        position = end
        index += 1


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint and its end; -1 for one that does not end."""
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), position
    return -1, position
