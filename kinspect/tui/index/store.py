"""All indexed exchanges of the captures: rows in memory, messages in the captures or the spool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinspect.capture.frameoffsets import FrameOffsets
from kinspect.errors import KinspectError
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.endpoints import Endpoints
from kinspect.kafka.wire.fetched import Fetched, TopicRef
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.lineorder import BEHIND
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import SASL_TOKEN, TOKEN_NAME
from kinspect.model import REQUEST, RESPONSE, Counts, Problem, drop_oldest
from kinspect.output.actions import NO_ACTION, Action
from kinspect.protocol import schema
from kinspect.tui.index import reread, row
from kinspect.tui.index.indexer import ClosedConnection, Inputs, RowBatch
from kinspect.tui.index.row import NONE, NOWHERE, ExchangeRow, MessageRow
from kinspect.tui.index.spool import Messages, Spool
from kinspect.tui.index.texts import Texts

_READ_KEPT = 4


def never() -> bool:
    """Default for `stopped`, which never stops the work."""
    return False


class Store:
    """Takes the batches of an indexer. Row `i` is the exchange that completed as number `i + 1`."""

    def __init__(self, inputs: Inputs, spool: Spool) -> None:
        self.inputs = inputs
        self.spool = spool
        self.texts = Texts()
        self.places = FrameOffsets(inputs.paths)
        self.names = LearnedNames(inputs.topic_names)
        self.rows = bytearray()
        self.count = 0
        self.start: int | None = None
        self.bytes_read = 0
        self.bytes_total: int | None = None
        self.refused = 0
        """Number of exchanges for whose bytes the spool had no room."""
        self.done = False
        self.stopped = False
        """True if the reading was stopped before the captures ended."""
        self.errors: list[tuple[int, str]] = []
        """Exit statuses and messages for inputs that could not be read."""
        self.unread = 0
        """Number of captures of which nothing could be read."""
        self.seen: dict[str, list[str]] = {}
        """Names seen, by the filter that takes them."""
        self.summary: dict[str, Any] | None = None
        self.closed: list[ClosedConnection] = []
        """Connections that ended, where the input can be read only once."""
        self._read_again: dict[int, Exchange] = {}

    def add(self, batch: RowBatch) -> None:
        """Add a batch of the indexer."""
        self.texts.add(batch.texts)
        for frame, offset in batch.places:
            self.places.add(frame, offset)
        for description in batch.descriptions:
            self.places.describe(*description)
        for option, name in batch.seen:
            self.seen.setdefault(option, []).append(name)
        self.names.add(batch.names, batch.nodes)
        self.names.add([(topic_id, name, BEHIND) for topic_id, name in batch.asked], ())
        self.rows += batch.rows
        self.count = len(self.rows) // row.SIZE
        self.start = batch.start
        self.bytes_read, self.bytes_total = batch.bytes_read, batch.bytes_total
        self.refused = batch.refused
        self.summary = batch.summary
        self.closed += batch.closed
        if batch.done:
            self.done = True
            self.errors += batch.errors
            self.unread += batch.unread

    def nameless(self, topic: str) -> list[str]:
        """Ids of a topic that stand in exchanges from before its name was known."""
        told, _ = self.names.all()
        ids = {topic_id for topic_id, name, _ in told if name == topic}
        return [seen for seen in self.seen.get("topic", ()) if seen in ids]

    def whole(self) -> RowBatch:
        """All that was added so far and that another process needs to make exchanges of rows whose messages are in the
        spool."""
        told, nodes = self.names.all()
        names = [name for name in told if name[2] != BEHIND]
        asked = [(topic_id, name) for topic_id, name, key in told if key == BEHIND]
        read = self.start, self.bytes_read, self.bytes_total, self.refused
        rows, texts = bytes(self.rows), self.texts.all()
        batch = RowBatch(rows, texts, [], [], names, nodes, [], *read)
        return batch._replace(summary=self.summary, closed=[*self.closed], asked=asked)

    def __getitem__(self, index: int) -> ExchangeRow:
        return row.unpack_row(self.rows, index)

    def line(self, index: int) -> dict[str, Any]:
        """The keys of an exchange's JSON line that `output.table` needs, and as `action` the result of `action_of`."""
        found = self[index]
        client_ip, client_port, broker_ip, broker_port, *_ = self.connection(found)
        topics, _, _, partitions, groups, transactional_ids, _, *action = (
            self.texts[found.subject] or _NO_SUBJECT
        )
        client_id, *_, client_name, broker_name, _ = self.texts[found.client] or _NO_CLIENT
        codes, problems, candidates = self.texts[found.fault] or ([], [], [])
        has_api = bool(found.flags & row.HAS_API)
        api_key = found.api_key if has_api else None
        values = row.values(self.rows, index)
        latency = row.latency_of(values)
        return {
            "timestamp": row.timestamp_of(values),
            "client": {"ip": client_ip, "port": client_port, "id": client_id, "name": client_name},
            "broker": {"ip": broker_ip, "port": broker_port, "name": broker_name},
            "kind": found.kind,
            "api": row_api_name(found),
            "api_key": api_key,
            "api_version": found.api_version if has_api else None,
            "latency_ms": None if latency is None else latency / 1_000_000,
            "wait": found.wait,
            "outcome": found.outcome,
            "outcome_reason": found.reason,
            "api_candidates": candidates,
            "error_names": [schema.error_name(code, api_key) for code in codes[:_LISTED]],
            "problems": [{"code": code} for code in problems],
            "topics": topics[:_LISTED],
            "partitions": partitions,
            "groups": groups[:_LISTED],
            "transactional_ids": transactional_ids[:_LISTED],
            "record_count": None if found.record_count == row.UNKNOWN_COUNT else found.record_count,
            "record_bytes": None if found.record_bytes == row.UNKNOWN_BYTES else found.record_bytes,
            "action": Action(*action),
        }

    def session(self, found: ExchangeRow) -> tuple[list[TopicRef], Fetched | None]:
        """The topics that a row's fetch session stands for, as of its time, and the session."""
        session = self.texts[found.session]
        if session is None:
            return [], None
        topics, *fetched = session
        return [(name, topic_id) for name, topic_id in topics], Fetched.from_state(fetched)

    def groups(self, subject: int) -> list[str]:
        """The groups in names, by their number; none if they were not kept."""
        groups: list[str] = (self.texts[subject] or _NO_SUBJECT)[row.GROUPS]
        return groups

    def connection(self, found: ExchangeRow) -> list[Any]:
        """The fields of a connection's `Endpoints` that it does not share; empty if they were not kept."""
        return self.texts[found.connection] or ["", 0, "", 0, "", "", False, None]

    def exchange(self, index: int, stopped: Callable[[], bool] = never) -> Exchange:
        """The exchange with its bytes, as the indexer had it. May read the captures again from their start.

        Raises KinspectError if its bytes are not there any more, StoppedError if `stopped` returns true meanwhile.
        """
        found = self[index]
        if not found.flags & row.CUT:
            messages = self._messages(found, stopped)
            if messages is not None:
                return self._made(index, found, messages)
        if index not in self._read_again:
            exchange = self._again(index, found, stopped)
            self._read_again[index] = exchange
            drop_oldest(self._read_again, _READ_KEPT)
        return self._read_again[index]

    def _messages(self, found: ExchangeRow, stopped: Callable[[], bool]) -> Messages | None:
        """The bytes of both messages; None if they are not found."""
        if found.spool != NOWHERE:
            return self.spool.get(found.spool)
        client_ip, client_port, broker_ip, broker_port, *rest = self.connection(found)
        if rest[2]:
            return None
        client, broker = (client_ip, client_port), (broker_ip, broker_port)
        messages: list[bytes | None] = []
        for (side, bits), ends in zip(found.sides, ((client, broker), (broker, client)), strict=True):
            raw = None
            if bits & row.RAW:
                raw = reread.message(self.places, ends, side, stopped)
                if raw is None:
                    return None
            messages.append(raw)
        return messages[0], messages[1]

    def _again(self, index: int, found: ExchangeRow, stopped: Callable[[], bool]) -> Exchange:
        if not self.inputs.can_reread:
            raise KinspectError(
                "its bytes were not kept: the spool is full; a larger --spool-size keeps more"
                if self.refused
                else "its bytes were not kept, and the input can be read only once"
            )
        exchange = reread.again(self.inputs, index + 1, stopped)
        if exchange is None or not _same(exchange, found):
            raise KinspectError("the captures are not what was indexed: did they change meanwhile?")
        return exchange

    def ends(self, found: ExchangeRow) -> Endpoints:
        """The ends of its connection."""
        *names, tls, handshake = self.connection(found)
        given = [*names, self.names, self.inputs.names, self.inputs.caps, Counts(), tls]
        ends = Endpoints(*given)
        ends.handshake = None if handshake is None else tuple(handshake)
        return ends

    def _made(self, index: int, found: ExchangeRow, messages: Messages) -> Exchange:
        exchange = Exchange(self.ends(found), found.kind)
        if found.flags & row.HAS_API:
            exchange.api_key, exchange.api_version = found.api_key, found.api_version
        if found.flags & row.HAS_CORRELATION:
            exchange.correlation_id = found.correlation_id
        client_id, role, principal, mechanism, *software_and_names = self.texts[found.client]
        software_name, software_version, client_name, broker_name, process = software_and_names
        exchange.client_id, exchange.role = client_id, role
        exchange.principal, exchange.mechanism = principal, mechanism
        exchange.software_name, exchange.software_version = software_name, software_version
        exchange.client_name, exchange.broker_name, exchange.client_process = (
            client_name,
            broker_name,
            process,
        )
        exchange.outcome, exchange.outcome_reason = found.outcome, found.reason
        exchange.api_candidates = tuple(self.texts[found.fault][2])
        exchange.order = index + 1
        exchange.key = row.key(found.completed_at, exchange.order)
        exchange.completed_at = _time(found.completed_at)
        exchange.in_flight = found.in_flight
        exchange.previous_response_end = _time(found.previous_response_end)
        exchange.latency_known = bool(found.flags & row.LATENCY_KNOWN)
        exchange.service_known = bool(found.flags & row.SERVICE_KNOWN)
        exchange.throttled = bool(found.flags & row.THROTTLED)
        exchange.retransmitted = bool(found.flags & row.RETRANSMITTED)
        exchange.noted = tuple(Problem(*_problem(values)) for values in self.texts[found.noted])
        _, exchange.fetched = self.session(found)
        (request, request_bits), (response, response_bits) = found.sides
        exchange.request = _message(exchange, REQUEST, request, request_bits, messages[0])
        exchange.response = _message(exchange, RESPONSE, response, response_bits, messages[1])
        return exchange


_NO_SUBJECT: list[Any] = [[], [], [], [], [], [], None, *NO_ACTION]
_NO_CLIENT: list[Any] = [None] * 9
_LISTED = 100


def row_api_name(found: ExchangeRow) -> str | None:
    """The API's name; None for an unknown one."""
    if found.kind == SASL_TOKEN:
        return TOKEN_NAME
    return schema.api_name(found.api_key) if found.flags & row.HAS_API else None


def _problem(values: list[Any]) -> tuple[Any, ...]:
    side, code, offset, size, path, message = values
    return side, code, message, offset, size, path


def _time(time: int) -> int | None:
    return None if time == NONE else time


def _message(
    exchange: Exchange, direction: str, side: MessageRow, bits: int, raw: bytes | None
) -> WireMessage | None:
    if not bits & row.PRESENT:
        return None
    message = WireMessage(
        direction,
        raw if bits & row.RAW else None,
        side.size,
        side.body_start,
        _time(side.first_time),
        _time(side.last_time),
        side.first_frame,
        side.last_frame,
        side.packets,
        bool(bits & row.COMPLETE),
        side.offset,
    )
    message.inferred = bool(bits & row.INFERRED)
    if bits & row.LAID_OUT:
        message.api_key, message.api_version = exchange.api_key, exchange.api_version
        message.ends = exchange.connection
    return message


def _same(exchange: Exchange, found: ExchangeRow) -> bool:
    """True if it is the exchange that the row was made of."""
    for message, (side, bits) in zip((exchange.request, exchange.response), found.sides, strict=True):
        if (message is not None) != bool(bits & row.PRESENT):
            return False
        if message is not None and (message.size, message.first_frame) != (side.size, side.first_frame):
            return False
    return True
