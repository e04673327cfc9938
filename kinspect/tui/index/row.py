"""An exchange as a row of fixed size: values for the list and the filters, and the places of its messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple, Protocol
from zlib import crc32

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import KINDS, OUTCOMES, REASONS
from kinspect.kafka.wire.wait import CAUSES
from kinspect.tui.index.texts import UNKEPT

NONE = -(1 << 63)
"""A time that is not known."""
NOWHERE = (1 << 64) - 1
"""No place in the spool."""
UNKNOWN_BYTES, UNKNOWN_COUNT = (1 << 64) - 1, (1 << 32) - 1
"""Values in the row where the amount of records is not known."""
_LATEST = (1 << 63) - 1


def key(completed_at: int, order: int) -> LineKey:
    """Replacement for an exchange's key: of its values rows keep the time, or NONE, and the order stands for the
    others."""
    return 0 if completed_at == NONE else completed_at, order, 0, 0


_REASONS = (None, *REASONS)
_WAITS = (None, *CAUSES)

# Bits of `ExchangeRow.flags`: outcome, reason, kind and cause of the wait by their place in the tuples above; one a
# fact.
_REASON_AT, _KIND_AT = 2, 6
HAS_API, HAS_CORRELATION, LATENCY_KNOWN, FAILED = 1 << 7, 1 << 8, 1 << 9, 1 << 10
"""Bits: the exchange has an API key and version; it has a correlation id; no gap touched its latency; its response has
an error code or refuses a login, or it has a problem."""
REQUEST_AT, RESPONSE_AT = 11, 17
"""First bit of each message's bits."""
PRESENT, RAW, COMPLETE, INFERRED, LAID_OUT, READ = (1 << bit for bit in range(6))
"""Bits of a message: it is there; its bytes were kept; every byte of it was captured; its API was inferred; its layout
is known; its body could be read to the end."""
CUT = 1 << 24
"""Bit: names or problems of the exchange were too many to be kept, and the list does not show all of them."""
THROTTLED, RETRANSMITTED = 1 << 25, 1 << 26
"""Bits: `Exchange.throttled` and `Exchange.retransmitted`."""
_WAIT_AT = 27

EXPECTED = 1 << 30
"""Bit: a wait for records or for members of a group, or errors that are part of normal operation, and nothing else."""
SERVICE_KNOWN = 1 << 31
"""Bit: `Exchange.service_known`."""


class MessageRow(NamedTuple):
    """A message of a row: times in nanoseconds or NONE, frame references, its announced size, the number of its bytes
    that were kept, their CRC-32, the body's offset in them, the number of its packets, and its own offset in the
    stream."""

    first_time: int
    last_time: int
    first_frame: int
    last_frame: int
    size: int
    have: int
    crc: int
    body_start: int
    packets: int
    offset: int


NO_SIDE = MessageRow(NONE, NONE, 0, 0, 0, 0, 0, 0, 0, 0)
SIDE_FIELDS = len(NO_SIDE)
_SIDE = "qqQQiIIIIQ"


class ExchangeRow(NamedTuple):
    """One exchange; see `MessageRow` for the messages. `connection`, `client`, `subject`, `fault`, `noted` and
    `session` are numbers of texts (`texts.Texts`), `spool` is the place of its bytes in the spool, or NOWHERE."""

    completed_at: int
    previous_response_end: int
    record_bytes: int
    spool: int
    flags: int
    correlation_id: int
    connection: int
    client: int
    subject: int
    fault: int
    noted: int
    session: int
    in_flight: int
    record_count: int
    api_key: int
    api_version: int
    request: MessageRow
    response: MessageRow

    @property
    def outcome(self) -> str:
        return OUTCOMES[self.flags & 3]

    @property
    def reason(self) -> str | None:
        return reason_of(self.flags)

    @property
    def kind(self) -> str:
        return kind_of(self.flags)

    @property
    def wait(self) -> str | None:
        return wait_of(self.flags)

    @property
    def sides(self) -> tuple[tuple[MessageRow, int], tuple[MessageRow, int]]:
        """Both messages, each with its bits."""
        return (self.request, self.flags >> REQUEST_AT), (self.response, self.flags >> RESPONSE_AT)


STRUCT = Struct(f"<qqQQIiIIIIIIIIhh{_SIDE}{_SIDE}")
SIZE = STRUCT.size
_FIXED = len(ExchangeRow._fields) - 2
_PIECE = 4096 * SIZE

_SPOOL_AT, _FLAGS_AT, _NUMBERS_AT = 24, 32, 40
_SPOOL, _FLAGS, _NUMBERS = Struct("<Q"), Struct("<I"), Struct("<6I")
_FIRST_FRAMES = Struct("<40xI48xQ52xQ36x")

# Indexes in the values that STRUCT gives, for loops over all rows: a `ExchangeRow` for each would take too long.
COMPLETED_AT, PREVIOUS_END, FLAGS, CORRELATION, CONNECTION, CLIENT, SUBJECT, FAULT, SESSION, API = map(
    ExchangeRow._fields.index,
    "completed_at previous_response_end flags correlation_id connection client subject fault session api_key".split(),
)
_FIRST, _LAST, _BYTES = map(MessageRow._fields.index, ("first_time", "last_time", "size"))
TOPICS, TOPIC_IDS, UNRESOLVED, PARTITIONS, GROUPS, TRANSACTIONAL_IDS, INNER, ACTION = range(8)
"""Indexes in the text of SUBJECT; what follows is the action's too."""
REQUEST_FIRST, REQUEST_LAST, REQUEST_BYTES = _FIXED + _FIRST, _FIXED + _LAST, _FIXED + _BYTES
RESPONSE_FIRST, RESPONSE_BYTES = _FIXED + SIDE_FIELDS + _FIRST, _FIXED + SIDE_FIELDS + _BYTES


class RowValues(Protocol):
    """The values that STRUCT gives."""

    def __getitem__(self, column: int, /) -> int: ...


def latency_of(values: RowValues) -> int | None:
    """Counterpart of `Exchange.latency_ns`."""
    begin, end, flags = values[REQUEST_LAST], values[RESPONSE_FIRST], values[FLAGS]
    if flags & 3 or not flags & LATENCY_KNOWN or NONE in (begin, end):
        return None
    return end - begin


def service_of(values: RowValues) -> int | None:
    """Counterpart of `Exchange.service_ns`."""
    latency = latency_of(values) if values[FLAGS] & SERVICE_KNOWN else None
    return None if latency is None else min(latency, values[RESPONSE_FIRST] - values[PREVIOUS_END])


def reason_of(flags: int) -> str | None:
    """Counterpart of `Exchange.outcome_reason`."""
    return _REASONS[flags >> _REASON_AT & 15]


def kind_of(flags: int) -> str:
    """Counterpart of `Exchange.kind`."""
    return KINDS[flags >> _KIND_AT & 1]


def wait_of(flags: int) -> str | None:
    """Counterpart of `Exchange.wait`."""
    return _WAITS[flags >> _WAIT_AT & 7]


def timestamp_of(values: RowValues) -> int | None:
    """Counterpart of `Exchange.timestamp`."""
    flags, times = values[FLAGS], (values[REQUEST_FIRST], values[RESPONSE_FIRST])
    present = flags >> REQUEST_AT & PRESENT, flags >> RESPONSE_AT & PRESENT
    return min(
        (time for time, there in zip(times, present, strict=True) if there and time != NONE), default=None
    )


def exchange_size(values: RowValues) -> int:
    """Sum of the announced sizes of both messages."""
    return values[REQUEST_BYTES] + values[RESPONSE_BYTES]


class RowNumbers(NamedTuple):
    """The numbers of an exchange's texts, and its place in the spool. `cut`, `expected`: see `CUT` and `EXPECTED`."""

    connection: int
    client: int
    subject: int
    fault: int
    noted: int
    session: int
    spool: int
    cut: bool
    expected: bool


def pack_row(exchange: Exchange, numbers: RowNumbers) -> bytes:
    """The exchange's row."""
    summary = exchange.summary
    record_count = summary.record_count
    flags = (
        OUTCOMES.index(exchange.outcome)
        | _REASONS.index(exchange.outcome_reason) << _REASON_AT
        | KINDS.index(exchange.kind) << _KIND_AT
        | _WAITS.index(exchange.wait) << _WAIT_AT
    )
    if exchange.api_key is not None and exchange.api_version is not None:
        flags |= HAS_API
    if exchange.correlation_id is not None:
        flags |= HAS_CORRELATION
    if exchange.latency_known:
        flags |= LATENCY_KNOWN
    if exchange.service_known:
        flags |= SERVICE_KNOWN
    if exchange.failed:
        flags |= FAILED
    if numbers.cut:
        flags |= CUT
    if exchange.throttled:
        flags |= THROTTLED
    if exchange.retransmitted:
        flags |= RETRANSMITTED
    if numbers.expected:
        flags |= EXPECTED
    flags |= _bits(exchange.request) << REQUEST_AT | _bits(exchange.response) << RESPONSE_AT
    return STRUCT.pack(
        _time(exchange.completed_at),
        _time(exchange.previous_response_end),
        UNKNOWN_BYTES if summary.record_bytes is None else summary.record_bytes,
        numbers.spool,
        flags,
        exchange.correlation_id or 0,
        numbers.connection,
        numbers.client,
        numbers.subject,
        numbers.fault,
        numbers.noted,
        numbers.session,
        exchange.in_flight,
        UNKNOWN_COUNT if record_count is None else min(record_count, UNKNOWN_COUNT - 1),
        exchange.api_key or 0,
        exchange.api_version or 0,
        *_side(exchange.request),
        *_side(exchange.response),
    )


def renumber(made: bytearray, numbers: Sequence[int]) -> None:
    """Replace the row's numbers of texts: number `n` becomes `numbers[n]`."""
    before = _NUMBERS.unpack_from(made, _NUMBERS_AT)
    now = [numbers[number] for number in before]
    _NUMBERS.pack_into(made, _NUMBERS_AT, *now)
    if UNKEPT in now:
        (flags,) = _FLAGS.unpack_from(made, _FLAGS_AT)
        _FLAGS.pack_into(made, _FLAGS_AT, flags | CUT)


def put_spool(made: bytearray, place: int) -> None:
    """Put the place in the spool into the row."""
    _SPOOL.pack_into(made, _SPOOL_AT, place)


def unpack_row(data: bytes | bytearray, index: int) -> ExchangeRow:
    """Row number `index` in packed rows."""
    found = values(data, index)
    request = MessageRow(*found[_FIXED : _FIXED + SIDE_FIELDS])
    return ExchangeRow._make((*found[:_FIXED], request, MessageRow(*found[_FIXED + SIDE_FIELDS :])))


def values(data: bytes | bytearray, index: int) -> tuple[int, ...]:
    """The packed values of row number `index`."""
    return STRUCT.unpack_from(data, index * SIZE)


def first_frames(data: bytearray) -> Iterator[tuple[int, int, int]]:
    """Of each row, the number of its connection and the first frames of its messages, 0 for none. Rows may be added
    meanwhile."""
    for begin in range(0, len(data), _PIECE):
        yield from _FIRST_FRAMES.iter_unpack(data[begin : begin + _PIECE])


def _bits(message: WireMessage | None) -> int:
    if message is None:
        return 0
    bits = PRESENT
    facts = (
        (RAW, message.raw is not None),
        (COMPLETE, message.complete),
        (INFERRED, message.inferred),
        (LAID_OUT, message.api_key is not None),
        (READ, message.decode().complete),
    )
    for bit, holds in facts:
        if holds:
            bits |= bit
    return bits


def _side(message: WireMessage | None) -> MessageRow:
    if message is None:
        return NO_SIDE
    raw = message.raw or b""
    return MessageRow(
        _time(message.first_time),
        _time(message.last_time),
        message.first_frame,
        message.last_frame,
        message.size,
        len(raw),
        crc32(raw),
        message.body_start,
        message.packets,
        message.offset,
    )


def _time(time: int | None) -> int:
    """The time, or NONE; one beyond the years 1678 to 2262 is a broken clock's, and NONE too."""
    return time if time is not None and NONE < time <= _LATEST else NONE
