"""Message sets of formats v0 and v1: single messages and compressed wrappers.

A message set is a plain sequence of messages. A compressed message is a wrapper: its value is a message set. Offsets in
a wrapper of magic 0 are absolute; in one of magic 1 they are relative, and the wrapper's own offset is that of its last
message (KIP-31), even if compaction left gaps. A wrapper with the append time passes it on to the messages inside
(KIP-32).

Source: Kafka's LegacyRecord.java and AbstractLegacyRecordBatch.java.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final, NamedTuple

from kinspect.records.recordsetreader import FARTHEST, LOG_APPEND_TIME, NO_TIMESTAMP, RecordSetReader

_HEAD: Final = struct.Struct(">qiIbBq")
"""Offset, size, crc, magic, attributes, timestamp (in magic 0 the key starts there). No message is shorter."""
_PREFIX: Final = 12  # offset and size
_CRC_FROM: Final = 16
_KEY_FROM: Final = (18, 26)
_SMALLEST: Final = (14, 22)
"""Smallest valid value of a message's size field, by magic."""
_LENGTH: Final = struct.Struct(">i")
_CODEC: Final = 0x07
# Magic 0 has no timestamps, so the bit that names their type means nothing there.
_KIND: Final = (_CODEC, _CODEC | LOG_APPEND_TIME)
_DEEPEST: Final = 4
"""Number of nested wrappers that are opened; Kafka itself rejects the second."""


class MessageRun:
    """Adjacent messages of one magic and timestamp type: uncompressed ones, or one wrapper.

    `count` and `first` are None if the content of a wrapper cannot be read. `first` and `last` are offsets, `low` and
    `high` the range of the timestamps.
    """

    __slots__ = ("count", "crc_ok", "end", "first", "high", "kind", "last", "low", "magic", "records")

    def __init__(self, magic: int, kind: int, last: int) -> None:
        self.magic = magic
        self.kind = kind
        """Codec and timestamp type: the attribute bits common to the whole run."""
        self.end = 0
        self.count: int | None = 0
        self.first: int | None = None
        self.last = last
        self.low: int | None = None
        self.high: int | None = None
        self.crc_ok = True
        self.records: list[dict[str, Any]] = []

    @property
    def codec(self) -> int:
        return self.kind & _CODEC

    @property
    def was_read(self) -> bool:
        """True if the content of a wrapper could be read."""
        return self.count is not None and self.first is not None

    @property
    def log_append_time(self) -> bool:
        return bool(self.kind & LOG_APPEND_TIME)

    def stamp(self, timestamp: int | None) -> None:
        """Widen the range of the timestamps."""
        if timestamp is not None:
            self.low = timestamp if self.low is None else min(self.low, timestamp)
            self.high = timestamp if self.high is None else max(self.high, timestamp)


class _Context(NamedTuple):
    reader: RecordSetReader
    origin: int
    """Position of the outermost wrapper in the record set, which problems refer to."""
    depth: int


def read_run(data: bytes, position: int, reader: RecordSetReader) -> MessageRun | None:
    """The run that begins at `position`, or None if no whole message of magic 0 or 1 begins there.

    Problems go to the reader's result.
    """
    run = _read_run(data, position, _Context(reader, position, 0))
    if run is not None and not run.crc_ok:
        reader.result.problem("crc_mismatch", "the CRC-32 of a message is not that of its bytes", position)
    return run


def _read_run(data: bytes, position: int, context: _Context) -> MessageRun | None:
    room = len(data) - position
    if room < _HEAD.size:
        return None
    offset, size, _, magic, attributes, _ = _HEAD.unpack_from(data, position)
    if magic not in (0, 1) or not _SMALLEST[magic] <= size <= room - _PREFIX:
        return None
    run = MessageRun(magic, attributes & _KIND[magic], offset)
    (_wrapper if run.codec else _plain)(run, data, position, context)
    return run


def _plain(run: MessageRun, data: bytes, position: int, context: _Context) -> None:
    """Read uncompressed messages from `position` on, as long as they are of the same magic and kind."""
    magic, kind, reader = run.magic, run.kind, context.reader
    mask, smallest, end = _KIND[magic], _SMALLEST[magic], len(data)
    count = 0
    odd: int | None = None
    with memoryview(data) as view:
        while end - position >= _HEAD.size:
            offset, size, crc, message_magic, attributes, timestamp = _HEAD.unpack_from(data, position)
            stop = position + _PREFIX + size
            if message_magic != magic or attributes & mask != kind or size < smallest or stop > end:
                break
            if zlib.crc32(view[position + _CRC_FROM : stop]) != crc:
                run.crc_ok = False
            stamp = timestamp if magic and timestamp != NO_TIMESTAMP else None
            if not count:
                run.first = offset
            run.stamp(stamp)
            count += 1
            if reader.with_records:
                fits, key, value = _key_and_value(data, position + _KEY_FROM[magic], stop)
                if not fits:
                    odd = offset if odd is None else odd
                elif reader.records_left > 0:
                    reader.keep(1)
                    run.records.append(_record(offset, stamp, key, value))
                else:
                    reader.too_many_records(context.origin)
            position = stop
            run.last = offset
    run.count = count
    run.end = position
    if odd is not None:
        _malformed(context, f"key and value of message {odd} do not fill its size")


def _wrapper(run: MessageRun, data: bytes, position: int, context: _Context) -> None:
    """Read one compressed message and its content."""
    offset, size, crc, magic, _, timestamp = _HEAD.unpack_from(data, position)
    run.end = position + _PREFIX + size
    run.crc_ok = zlib.crc32(data[position + _CRC_FROM : run.end]) == crc
    run.count = None
    stamp = timestamp if magic and timestamp != NO_TIMESTAMP else None
    if stamp is not None:
        run.high = stamp
    fits, _, value = _key_and_value(data, position + _KEY_FROM[magic], run.end)
    if not fits or value is None:
        _malformed(context, f"the compressed message {offset} has no content")
        return
    if context.depth == _DEEPEST:
        _malformed(context, f"compressed messages are nested more than {_DEEPEST} deep")
        return
    inner = context.reader.expand(run.codec, value, context.origin, any_lz4_checksum=magic == 0)
    if inner is None:
        return
    _fill(run, inner, context._replace(depth=context.depth + 1))
    if not run.was_read:
        return
    if magic:
        _make_absolute(run, offset, context)
        if run.log_append_time:
            run.low = run.high = stamp
            for record in run.records:
                record["timestamp_ms"] = stamp


def _fill(run: MessageRun, inner: bytes, context: _Context) -> None:
    """Add up the runs in a wrapper's content."""
    position = 0
    count = 0
    while (part := _read_run(inner, position, context)) is not None:
        position = part.end
        if run.first is None:
            run.first = part.first
        run.last = part.last
        run.stamp(part.low)
        run.stamp(part.high)
        run.crc_ok = run.crc_ok and part.crc_ok
        run.records += part.records
        if part.count is None:
            return
        count += part.count
    run.count = count
    if position != len(inner) or not count:
        _malformed(context, "a compressed message holds something else than whole messages")


def _make_absolute(run: MessageRun, offset: int, context: _Context) -> None:
    """Turn the relative offsets of a wrapper of magic 1, whose own offset is `offset`, into absolute ones."""
    base = offset - run.last
    if base < 0:
        # A producer may leave 0 there: what it sends has no offsets yet.
        base = 0
        if offset:
            _malformed(context, f"the compressed message {offset} holds a later offset than its own")
    elif run.first is not None and max(abs(base), abs(run.first), abs(run.last)) > FARTHEST:
        base = 0
        _malformed(context, f"the offsets below the compressed message {offset} are beyond 64 bits")
    if base and run.first is not None:
        run.first += base
        run.last += base
        for record in run.records:
            record["offset"] += base


def _key_and_value(data: bytes, position: int, stop: int) -> tuple[bool, bytes | None, bytes | None]:
    """True if key and value fill the bytes up to `stop` exactly, and both."""
    fields: list[bytes | None] = []
    for _ in range(2):
        if stop - position < _LENGTH.size:
            return False, None, None
        (size,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if size < 0:
            fields.append(None)
        else:
            if size > stop - position:
                return False, None, None
            fields.append(data[position : position + size])
            position += size
    return position == stop, fields[0], fields[1]


def _record(offset: int, timestamp: int | None, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    return {
        "offset": offset,
        "timestamp_ms": timestamp,
        "key": key,
        "key_size": None if key is None else len(key),
        "value": value,
        "value_size": None if value is None else len(value),
        "headers": [],
    }


def _malformed(context: _Context, message: str) -> None:
    context.reader.result.problem("malformed_records", message, context.origin)
