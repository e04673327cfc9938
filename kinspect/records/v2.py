"""Record batches of message format v2 (KIP-98): the header and the records behind it.

Source: Kafka's DefaultRecordBatch.java, DefaultRecord.java and ByteUtils.java.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from kinspect.records.recordsetreader import FARTHEST, NO_TIMESTAMP

HEADER: Final[struct.Struct] = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, crc, attributes, last offset delta, base and max timestamp, producer id,
producer epoch, base sequence, record count."""
CRC_FROM: Final = 21
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

# Values of one-byte varints: nearly all lengths and deltas take one or two bytes.
_ZIGZAG: Final = [(byte >> 1) ^ -(byte & 1) for byte in range(128)]


class _RecordError(Exception):
    """A record that does not fit the format."""


class _NoRoomError(Exception):
    """A record whose headers exceed the remaining room."""


class Content(NamedTuple):
    """Records read of a batch, the room they took, and the position at which reading ended.

    `failure` describes what does not fit there, `full` means that there was no room for more; `bad_keys` is the number
    of header keys that are not UTF-8.
    """

    records: list[dict[str, Any]]
    room: int
    end: int
    bad_keys: int
    failure: str | None
    full: bool


def read_records(data: bytes, count: int, base_offset: int, base_timestamp: int, room: int) -> Content:
    """Read `count` records of a batch; `data` holds them, expanded.

    Each record and each header takes one unit of `room`. Never raises.
    """
    zigzag = _ZIGZAG
    records: list[dict[str, Any]] = []
    append = records.append
    headers_room = room
    bad_keys = position = 0
    size = len(data)
    failure: str | None = None
    full = count > room
    try:
        for _ in range(min(count, room)):
            first = data[position]
            if first < 128:
                position += 1
                stop = position + zigzag[first]
            else:
                second = data[position + 1]
                if second < 128:
                    position += 2
                    value = first & 127 | second << 7
                    stop = position + ((value >> 1) ^ -(value & 1))
                else:
                    value, position = _varint(data, position, 5)
                    stop = position + value

            # One byte of attributes, none defined. Then the timestamp's delta, the only varlong.
            first = data[position + 1]
            if first < 128:
                position += 2
                timestamp = base_timestamp + zigzag[first]
            else:
                second = data[position + 2]
                if second < 128:
                    position += 3
                    value = first & 127 | second << 7
                    timestamp = base_timestamp + ((value >> 1) ^ -(value & 1))
                else:
                    value, position = _varint(data, position + 1, 10)
                    timestamp = base_timestamp + value

            first = data[position]
            if first < 128:
                position += 1
                offset = base_offset + zigzag[first]
            else:
                second = data[position + 1]
                if second < 128:
                    position += 2
                    value = first & 127 | second << 7
                    offset = base_offset + ((value >> 1) ^ -(value & 1))
                else:
                    value, position = _varint(data, position, 5)
                    offset = base_offset + value

            first = data[position]
            if first < 128:
                position += 1
                key_size = zigzag[first]
            else:
                key_size, position = _varint(data, position, 5)
            key: bytes | None = None
            if key_size >= 0:
                end = position + key_size
                key = data[position:end]
                position = end

            first = data[position]
            if first < 128:
                position += 1
                value_size = zigzag[first]
            else:
                second = data[position + 1]
                if second < 128:
                    position += 2
                    value = first & 127 | second << 7
                    value_size = (value >> 1) ^ -(value & 1)
                else:
                    value_size, position = _varint(data, position, 5)
            payload: bytes | None = None
            if value_size >= 0:
                end = position + value_size
                payload = data[position:end]
                position = end

            first = data[position]
            position += 1
            headers: list[dict[str, Any]] = []
            if first:
                position, bad = _headers(data, position - 1, headers, headers_room)
                headers_room -= len(headers)
                bad_keys += bad
                if position > size:
                    raise IndexError
            if position != stop:
                raise _RecordError("does not have the length it says")
            append(
                {
                    "offset": offset,
                    "timestamp_ms": timestamp if timestamp != NO_TIMESTAMP else None,
                    "key": key,
                    "key_size": key_size if key_size >= 0 else None,
                    "value": payload,
                    "value_size": value_size if value_size >= 0 else None,
                    "headers": headers,
                }
            )
    except IndexError:
        failure, full = f"record {len(records)} ends behind its batch", False
    except _RecordError as error:
        failure, full = f"record {len(records)} {error}", False
    except _NoRoomError:
        full = True
    return Content(records, len(records) + room - headers_room, position, bad_keys, failure, full)


def _headers(data: bytes, position: int, headers: list[dict[str, Any]], room: int) -> tuple[int, int]:
    """Append a record's headers to `headers`; returns the position behind them and the number of non-UTF-8 keys."""
    count, position = _varint(data, position, 5)
    if count < 0:
        raise _RecordError("has a negative number of headers")
    if room < count <= len(data) - position:
        raise _NoRoomError
    bad = 0
    for _ in range(count):
        size, position = _varint(data, position, 5)
        if size < 0:
            raise _RecordError("has a header without a key")
        end = position + size
        raw = data[position:end]
        try:
            key = raw.decode()
        except UnicodeDecodeError:
            key = raw.decode(errors="replace")
            bad += 1
        size, position = _varint(data, end, 5)
        if size < 0:
            headers.append({"key": key, "value": None})
        else:
            end = position + size
            headers.append({"key": key, "value": data[position:end]})
            position = end
    return position, bad


def _varint(data: bytes, position: int, longest: int) -> tuple[int, int]:
    """A zigzag varint of at most `longest` bytes, and the position behind it."""
    value = 0
    for shift in range(0, 7 * longest, 7):
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            number = (value >> 1) ^ -(value & 1)
            if abs(number) > FARTHEST:
                break
            return number, position
    raise _RecordError("has a number that is longer than its type allows")
