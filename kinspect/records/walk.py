"""Walk through a record set: finds the batches, and reads their headers and on request their records.

A record set is a run of batches, each of its own format: messages v0 and v1 (`legacy`), batches v2 (`v2`). In all of
them the size (int32) is at 8 and the magic byte at 16. The last one may be cut off: brokers fill a Fetch response up to
its byte limit, and 2.0 and later end a down-converted response with a filler whose size field exceeds what is there.
Both are `partial_bytes`, not damage.

Sources: Kafka's ByteBufferLogInputStream.java, DefaultRecordBatch.java, LazyDownConversionRecords.java.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any, Final

from kinspect.records import legacy, v2
from kinspect.records.compression import codec_name
from kinspect.records.recordset import RecordSet
from kinspect.records.recordsetreader import (
    FARTHEST,
    LOG_APPEND_TIME,
    MAX_BYTES,
    MAX_RECORDS,
    NO_TIMESTAMP,
    TIMESTAMP_TYPES,
    RecordSetReader,
)
from kinspect.wording import counted

_PREFIX: Final = struct.Struct(">qi")
_SMALLEST_SIZE: Final = 14
"""Smallest valid value of a size field: a message v0 without key and value."""
_MAGIC_AT: Final = 16
_CODEC_NAMES: Final = tuple(codec_name(codec) for codec in range(8))
_HEADER_SIZE: Final = v2.HEADER.size
_SMALLEST_V2: Final = _HEADER_SIZE - _PREFIX.size
# Limits on the search for a batch boundary: positions examined, and headers whose CRC is computed.
_BOUNDARY_PLACES: Final = 1_000_000
_BOUNDARY_CRCS: Final = 64


def batches(
    record_set: bytes,
    *,
    max_bytes: int = MAX_BYTES,
    max_records: int = MAX_RECORDS,
    max_batches: int = MAX_RECORDS,
    aligned: bool = True,
) -> RecordSet:
    """Read the bytes of a `records` field: the batches with their records.

    `max_bytes` limits the expanded size of all compressed batches together, `max_records` the number of records and
    headers that are kept, `max_batches` the number of batches; a limit that is reached is in `caps_hit`.

    `aligned=False` is for a set that may begin in the middle of a batch (FetchSnapshot returns byte ranges): reading
    starts at the first header of a v2 batch whose length and CRC-32C fit, and the bytes before it are part of
    `partial_bytes`.

    The result is a list of dicts, one per batch, with the header's fields and `records`. Times are milliseconds, None
    where Kafka has none (−1, and magic 0). In magic 0 and 1 an uncompressed run of messages is one entry, as is a
    compressed wrapper; `base_timestamp_ms` and `max_timestamp_ms` are the range of their timestamps, the fields of
    producer and epochs None; `count` and `base_offset` of a wrapper that cannot be expanded are None. With a delete
    horizon (KIP-534) `base_timestamp_ms` is that horizon. Keys, values and header values are bytes or None.

    Damage is in `problems`; nothing is raised, whatever the bytes.
    """
    return _read(record_set, RecordSetReader(max_bytes, max_records, max_batches, True), aligned)


def summarise(
    record_set: bytes, *, max_bytes: int = MAX_BYTES, max_batches: int = MAX_RECORDS, aligned: bool = True
) -> RecordSet:
    """Like `batches` without `records`: reads headers and checks CRCs.

    Only wrappers of magic 0 and 1 are expanded, for their count and offsets.
    """
    return _read(record_set, RecordSetReader(max_bytes, 0, max_batches, False), aligned)


@cache
def _crc32c() -> Callable[[memoryview], int]:
    # Importing the package takes 20 ms, as it looks up its own version: only its extension is needed.
    package = PathFinder.find_spec("crc32c")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("crc32c._crc32c", places)
    if spec is None or spec.loader is None:
        import crc32c

        function: Callable[[memoryview], int] = crc32c.crc32c
    else:
        extension = module_from_spec(spec)
        spec.loader.exec_module(extension)
        function = extension.crc32c
    return function


def _read(data: bytes, reader: RecordSetReader, aligned: bool) -> RecordSet:
    result = reader.result
    end = len(data)
    if not end:
        return result  # the usual response to a Fetch that waited: not worth an import
    position = 0 if aligned else first_boundary(data)
    result.partial_bytes = position
    for _ in range(reader.max_batches):
        if position == end:
            break
        stop = _v2_batch(data, position, reader)
        if stop:
            position = stop
        elif (run := legacy.read_run(data, position, reader)) is not None:
            result.append(_legacy_entry(run, run.end - position, reader.with_records))
            position = run.end
        else:
            position = _no_batch(data, position, result)
    if position < end:
        reader.too_many_batches(position, end - position)
    return result


def _v2_batch(data: bytes, position: int, reader: RecordSetReader) -> int:
    """Read the v2 batch at `position`; returns its end, 0 if no whole one begins there."""
    if len(data) - position < _HEADER_SIZE:
        return 0
    fields: tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
    fields = v2.HEADER.unpack_from(data, position)
    (
        base_offset,
        size,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = fields
    stop = position + _PREFIX.size + size
    if magic != 2 or size < _SMALLEST_V2 or stop > len(data):
        return 0
    result = reader.result
    crc_ok = _crc32c()(memoryview(data)[position + v2.CRC_FROM : stop]) == crc
    base_ms = base_timestamp if base_timestamp != NO_TIMESTAMP else None
    batch: dict[str, Any] = {
        "base_offset": base_offset,
        "last_offset": base_offset + last_delta,
        "magic": 2,
        "compression": _CODEC_NAMES[attributes & 7],
        "count": count,
        "size": stop - position,
        "crc_ok": crc_ok,
        "timestamp_type": TIMESTAMP_TYPES[attributes >> 3 & 1],
        "base_timestamp_ms": base_ms,
        "max_timestamp_ms": max_timestamp if max_timestamp != NO_TIMESTAMP else None,
        "delete_horizon_ms": base_ms if attributes & v2.DELETE_HORIZON else None,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "base_sequence": base_sequence,
        "partition_leader_epoch": leader_epoch,
        "is_transactional": attributes & v2.TRANSACTIONAL != 0,
        "is_control": attributes & v2.CONTROL != 0,
    }
    if not crc_ok:
        result.problem("crc_mismatch", "the CRC-32C of the batch is not that of its bytes", position)
    crowded = not attributes & 7 and not reader.with_records and count > size - _SMALLEST_V2
    if count < 0 or crowded:
        result.problem("malformed_records", f"the batch says it has {counted(count, 'record', '')}", position)
    if abs(base_offset) > FARTHEST or abs(base_timestamp) > FARTHEST:
        batch["last_offset"] = base_offset
        result.problem("malformed_records", "an offset or timestamp of the batch is absurd", position)
        if reader.with_records:
            batch["records"] = []
    elif reader.with_records:
        payload = data[position + _HEADER_SIZE : stop]
        batch["records"] = _records(reader, payload, batch, attributes, position)
    result.append(batch)
    return stop


def _records(
    reader: RecordSetReader, payload: bytes, batch: dict[str, Any], attributes: int, position: int
) -> list[dict[str, Any]]:
    """Records of a v2 batch that begins at `position`. Damage is noted in the reader's result."""
    result = reader.result
    count = max(batch["count"], 0)
    if count and reader.records_left <= 0:
        reader.too_many_records(position)
        return []
    codec = attributes & 7
    # An empty batch, which compaction leaves, has no payload, whatever its codec.
    if codec and payload:
        expanded = reader.expand(codec, payload, position)
        if expanded is None:
            return []
        payload = expanded
    base_timestamp = NO_TIMESTAMP if batch["base_timestamp_ms"] is None else batch["base_timestamp_ms"]
    found = v2.read_records(payload, count, batch["base_offset"], base_timestamp, reader.records_left)
    reader.keep(found.room)
    if found.failure is not None:
        result.problem("malformed_records", found.failure, position)
    elif found.full:
        reader.too_many_records(position)
    elif found.end != len(payload):
        result.problem("malformed_records", "bytes are left behind the last record of the batch", position)
    if found.bad_keys:
        result.problem("invalid_utf8", f"header keys that are not UTF-8: {found.bad_keys}", position)
    if attributes & LOG_APPEND_TIME:
        for record in found.records:
            record["timestamp_ms"] = batch["max_timestamp_ms"]
    return found.records


def _legacy_entry(run: legacy.MessageRun, size: int, with_records: bool) -> dict[str, Any]:
    batch: dict[str, Any] = {
        "base_offset": run.first,
        "last_offset": run.last,
        "magic": run.magic,
        "compression": _CODEC_NAMES[run.codec],
        "count": run.count,
        "size": size,
        "crc_ok": run.crc_ok,
        "timestamp_type": TIMESTAMP_TYPES[run.log_append_time] if run.magic else None,
        "base_timestamp_ms": run.low,
        "max_timestamp_ms": run.high,
        "delete_horizon_ms": None,
        "producer_id": None,
        "producer_epoch": None,
        "base_sequence": None,
        "partition_leader_epoch": None,
        "is_transactional": False,
        "is_control": False,
    }
    if with_records:
        batch["records"] = run.records
    return batch


def _no_batch(data: bytes, position: int, result: RecordSet) -> int:
    """Note why no batch can be read at `position`; returns the position to go on at."""
    end = len(data)
    rest = end - position
    if rest < _PREFIX.size:
        result.partial_bytes += rest
        return end
    size: int = _PREFIX.unpack_from(data, position)[1]
    if size > rest - _PREFIX.size:
        result.partial_bytes += rest
        return end
    if size < _SMALLEST_SIZE:
        result.problem("malformed_records", f"a batch says its size is {size}", position, rest)
        return end
    magic = data[position + _MAGIC_AT]
    reason = f"a batch of magic {magic}" if magic > 2 else f"a batch of magic {magic} with the size {size}"
    result.problem("malformed_records", f"{reason} cannot be read", position, size + _PREFIX.size)
    return position + _PREFIX.size + size


def first_boundary(data: bytes) -> int:
    """Position of the first v2 batch whose header, length and CRC-32C fit, or the end of `data`."""
    end = len(data)
    unpack = v2.HEADER.unpack_from
    crcs = 0
    at = _MAGIC_AT - 1
    for _ in range(_BOUNDARY_PLACES):
        at = data.find(b"\x02", at + 1)
        start = at - _MAGIC_AT
        if at < 0 or end - start < _HEADER_SIZE or crcs == _BOUNDARY_CRCS:
            break
        base_offset, size, _, _, crc, attributes, last_delta, _, _, _, _, _, count = unpack(data, start)
        stop = start + _PREFIX.size + size
        plausible = size >= _SMALLEST_V2 and stop <= end and base_offset >= 0 and 0 <= attributes < 128
        if plausible and 0 <= count <= last_delta + 1:
            crcs += 1
            if _crc32c()(memoryview(data)[start + v2.CRC_FROM : stop]) == crc:
                return start
    return end
