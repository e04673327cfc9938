"""A recognised Kafka connection: framing and pairing of its messages, and the properties that its client reported."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from kinspect.kafka.connection import roles
from kinspect.kafka.connection.fetchsessions import FETCH_APIS, FetchSessions
from kinspect.kafka.connection.firstbytes import protocol_of
from kinspect.kafka.connection.framing import SIZE_BYTES, Framer
from kinspect.kafka.connection.offer import Ranges, is_outside, offered
from kinspect.kafka.connection.orphans import Candidate, fitting_versions
from kinspect.kafka.connection.pending import Pending
from kinspect.kafka.connection.recognise import (
    YES,
    cut_header,
    is_body,
    request_at,
    request_starts,
    response_places,
)
from kinspect.kafka.connection.tokens import Tokens, is_known
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.holdings import EXCHANGE_BYTES
from kinspect.kafka.exchange.ledger import Ledger
from kinspect.kafka.exchange.lines import Gap
from kinspect.kafka.fields import sasl
from kinspect.kafka.wire.endpoints import Endpoints, Flow
from kinspect.kafka.wire.lineorder import LineNumbering
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import ANSWERED, KAFKA, NO_RESPONSE, ORPHAN, SASL_TOKEN, UNANSWERED, UNCERTAIN
from kinspect.kafka.wire.wait import carries_throttle
from kinspect.model import REQUEST, RESPONSE, Problem
from kinspect.protocol import request_header, response_header, schema
from kinspect.protocol.apikeys import API_VERSIONS, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kinspect.protocol.headers import TAGGED
from kinspect.protocol.schema import header_version
from kinspect.state import fields, fill

STATE: Final = """
    exchanges gaps gap_bytes after_gap client_id principal software _role _api_versions _client_text _response_end
    _response_stop _response_gap _throttled _conflicts _offset_before _ranges
""".split()
"""The plain fields of `Session`."""
# APIs each of whose requests may show something about the client.
IDENTIFYING: Final = schema.apis_with("begins", "login", "connection")
NO_TAGS: Final = b"\0"
LONGEST_TEXT: Final = 0x7FFF
_int32_at: Final = Struct(">i").unpack_from
_int16_at: Final = Struct(">h").unpack_from
_USE: Final = Struct(">hh")
# Number of requests in flight by whose ids the next response on a desynchronised stream is searched.
LOCATED_BY: Final = 64
_START: Final = Struct(">ii")
MIN_RESPONSE: Final = _START.size
INCOMPLETE: Final = {
    "gap": ("gap", "bytes of this message are missing from the capture"),
    "snaplen": ("truncated_capture", "the capture's snap length cut this message"),
    "cap": ("cap", "longer than the cap on a message's bytes; only its beginning was kept"),
    "total": ("cap", "only its beginning was kept: the cap on what is held over all connections was reached"),
}
UNSEEN: Final = -1
"""No offset: where the last response ended was not seen."""
ONE_SIDED: Final = "one_sided"
ACKS_UNKNOWN: Final = "acks_unknown"
UNSURE: Final = (
    "bytes were lost, and correlation ids of this connection come again: "
    "this may be the response to another request"
)
DROPPED: Final = "not kept: the cap on what is held over all connections was reached"
CONFLICT: Final = "bytes before this one's end came again with another value; those that came first were used"
SENDER: Final = {REQUEST: "client", RESPONSE: "broker"}


class _Usual:
    """An API and version whose further requests show nothing new about their client.

    `tagged`: the request's header ends in a tagged section; `plain_answer`: the response's does not.
    """

    __slots__ = ("api_key", "api_version", "plain_answer", "tagged")

    def __init__(self, api_key: int, api_version: int, tagged: bool, plain_answer: bool) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.tagged = tagged
        self.plain_answer = plain_answer


def _spread(ids: list[int]) -> list[int]:
    """Ids to search for: of many the oldest ones and, as answers to those may be lost, others up to the newest."""
    if len(ids) <= LOCATED_BY:
        return ids
    half = LOCATED_BY // 2
    return ids[:half] + [ids[half + (len(ids) - half) * part // half - 1] for part in range(1, half + 1)]


@lru_cache(maxsize=1024)
def _usual(use: bytes) -> _Usual | None:
    """Properties of requests that begin with this key and version; None if each must be looked at."""
    api_key, api_version = _USE.unpack(use)
    version = header_version(api_key, api_version, REQUEST)
    if api_key in IDENTIFYING or not version or schema.layout(api_key, api_version, REQUEST) is None:
        return None
    answer = header_version(api_key, api_version, RESPONSE)
    return _Usual(api_key, api_version, version >= TAGGED[REQUEST], answer < TAGGED[RESPONSE])


class Session:
    """Takes the bytes of both directions (`request`: the client's), and gives finished exchanges to the ledger.

    `desynchronised` names the directions whose first message boundary is not known (`model.REQUEST`, `model.RESPONSE`).
    """

    def __init__(
        self,
        ends: Endpoints,
        flow: Flow,
        numbering: LineNumbering,
        ledger: Ledger,
        desynchronised: frozenset[str],
    ) -> None:
        self.ends = ends
        self._flow = flow
        self._numbering = numbering
        self.exchanges = 0
        self.gaps = 0
        self.gap_bytes = 0
        self.after_gap = False  # messages may be missing since the last exchange
        self.client_id: str | None = None
        self.principal: str | None = None
        self.software: tuple[str | None, str | None] = (None, None)
        self._ledger = ledger
        cap = ledger.caps.message_bytes
        self._holdings = ledger.holdings
        self._requests = Framer(
            REQUEST, cap, self._request, self._locate_request, self._request_begins, self._holdings
        )
        self._responses = Framer(
            RESPONSE, cap, self._response, self._locate_response, self._response_begins, self._holdings
        )
        for side in desynchronised:
            framer = self.framer(side)
            framer.drift()
            framer.unannounced = True
        self._pending = Pending(bool(desynchronised))
        self._role: str | None = None
        # API keys and versions of requests, as they stand in a header, each with True if a request of it was whole.
        self._api_versions: dict[bytes, bool] = {}
        self._usual: dict[bytes, _Usual] = {}  # those of whole requests whose next ones are usual
        self._ranges: Ranges = {}  # versions that the broker offers, once it told
        self._client_text: bytes | None = None  # the client id as it stands in a header, if it is known
        self._tokens = Tokens(bool(desynchronised))
        self._fetch_sessions = FetchSessions(ledger.fetch_room, ledger.heads_only)
        self._response_end: int | None = None
        self._response_stop = 0  # offset where the next response begins if none is missed
        self._offset_before = 0  # of the broker's stream, at the last request
        self._response_gap = 0  # frame behind the last gap in the broker's stream
        self._looks_back = False  # an answer to a request is looked for in bytes from before it
        self._throttled = False  # the last response carried a throttle time
        self._conflicts: dict[str, int] = {}  # bytes by direction, not reported yet

    def state(self) -> list[Any]:
        """State for `restore`, as plain values."""
        parts = self._requests.state(), self._responses.state(), self._pending.state()
        sessions = self._fetch_sessions.state()
        return [fields(self, STATE), fields(self._tokens, self._tokens.STATE), *parts, sessions]

    def restore(self, state: Sequence[Any]) -> None:
        """Continue the connection of `state`."""
        own, tokens, requests, responses, pending, sessions = state
        fill(self, STATE, own)
        for use, whole in self._api_versions.items():
            if whole:
                self._note_usual(use)
        fill(self._tokens, self._tokens.STATE, tokens)
        self._requests.restore(requests)
        self._responses.restore(responses)
        self._fetch_sessions.restore(sessions)
        for exchange in self._pending.restore(pending, self.ends):
            raw = exchange.request.raw if exchange.request is not None else None
            self._holdings.hold(exchange, self, EXCHANGE_BYTES + len(raw or b""))

    @property
    def books(self) -> dict[str, int]:
        """The bytes of both directions, counted by the keys of the `summary` line."""
        one, other = self._requests, self._responses
        return {
            "message_bytes": one.message_bytes + other.message_bytes,
            "undecoded_bytes": one.skipped_bytes + other.skipped_bytes,
            "unfinished_bytes": one.unfinished_bytes + other.unfinished_bytes,
        }

    def framer(self, side: str) -> Framer:
        """The framer of a direction."""
        return self._requests if side == REQUEST else self._responses

    # ------------------------------------------------------------------ the stream

    def begin_with_tokens(self, mechanism: str) -> None:
        """Begin with a raw SASL token of the client, without a handshake (brokers 0.9 to 3.9, GSSAPI)."""
        self._tokens.begin(mechanism)

    def gap(self, side: str, time: int | None, frame: int, size: int, cause: str) -> None:
        """Take a gap of `size` bytes in a direction."""
        framer = self.framer(side)
        if side == RESPONSE:
            self._pending.doubt()
            self._response_gap = frame
        self._note_gap(side, time, frame, framer.offset, size, cause, int(not framer.desynchronised))
        framer.gap(size, cause)
        self._lose_messages(framer)

    def lose(self, side: str, time: int | None, frame: int, size: int | None) -> None:
        """Take a gap of about `size` bytes in a direction, None if unknown (lost TLS records)."""
        if side == RESPONSE:
            self._pending.doubt()
            self._response_gap = frame
        framer = self.framer(side)
        self._note_gap(side, time, frame, framer.offset, size or 0, "capture_loss", 1)
        framer.offset += size or 0
        framer.lose()
        self._lose_messages(framer)

    def _lose_messages(self, framer: Framer) -> None:
        """Note that whole messages may be lost in a gap, unless the next boundary is known."""
        if framer.desynchronised:
            self.after_gap = True
            if framer is self._requests:
                self._lose_request()
            else:
                # Those behind a response whose end the gap took may lie in it, too.
                self._pending.doubt()
                self._tokens.replies = True
                self._response_stop = UNSEEN

    def _lose_request(self) -> None:
        self._tokens.lose()
        self._pending.lose_requests()
        self._fetch_sessions.lose_requests()

    def _note_gap(
        self, side: str, time: int | None, frame: int, offset: int, size: int, cause: str, hit: int
    ) -> None:
        self.gaps += 1
        self.gap_bytes += size
        key = self._numbering.key(time, frame)
        ends = self.ends
        self._ledger.gap(
            Gap(
                key,
                ends.connection_id,
                SENDER[side],
                time,
                offset,
                size,
                cause,
                hit,
                ends.host,
                ends.interface,
                self._ledger.names.hosts.of(
                    (ends.client_ip, ends.client_port), (ends.broker_ip, ends.broker_port), key
                ),
            )
        )

    def conflict(self, side: str, size: int) -> None:
        """Note `size` bytes of a direction sent again with another value: the next finished exchange reports them."""
        self._conflicts[side] = self._conflicts.get(side, 0) + size

    def repeated(self, start: int, end: int) -> None:
        """The client sent these bytes of its stream again: their requests wait for the network, not the broker."""
        self._pending.repeated(start, end)

    def fin(self, side: str, time: int | None, frame: int) -> None:
        """End a direction. After a client's end the broker may still answer."""
        self.framer(side).end()
        if side == RESPONSE:
            self._give_up(time, frame, "closed")

    def close(self, time: int | None, frame: int, reason: str) -> None:
        """End the connection: deliver unfinished messages; requests in flight stay unanswered by `reason`."""
        self._requests.end()
        self._responses.end()
        self._give_up(time, frame, reason)
        self._fetch_sessions.forget_all()

    def _announce(self, message: WireMessage) -> None:
        """Report the bytes before the first message of a stream seen from its middle, as a gap."""
        side = message.direction
        framer = self.framer(side)
        if framer.unannounced:
            framer.unannounced = False
            skipped = framer.skipped_bytes
            if skipped:
                self._note_gap(side, message.first_time, message.first_frame, 0, skipped, "mid_start", 1)

    # ------------------------------------------------------------------ lost boundaries

    def _locate_request(self, data: bytes) -> int | None:
        cap = self._ledger.caps.message_bytes
        for offset in request_starts(data):
            if request_at(data, offset, cap, self.client_id, bool(self._api_versions)) == YES:
                return offset
        return None

    def _locate_response(self, data: bytes) -> int | None:
        """The first offset where a response to a request in flight fits; None if there is none.

        At offset 0, where a packet began, the size and the correlation id of the oldest request are enough for a
        response that is not whole, and the size alone for a whole reply to a raw token.
        """
        self._requests.search_answered()
        oldest = self._pending.oldest()
        if self._pending.holds(None) and len(data) == 4 + int.from_bytes(data[:4]):
            return 0
        if oldest is not None and oldest.correlation_id is not None and len(data) >= MIN_RESPONSE:
            size, correlation_id = _START.unpack_from(data)
            if (
                correlation_id == oldest.correlation_id
                and len(data) - 4 < size <= self._ledger.caps.message_bytes
            ):
                return 0
        best: int | None = None
        for correlation_id in _spread(self._pending.correlation_ids()):
            for offset in response_places(data, correlation_id):
                if best is not None and offset >= best:
                    break
                if self._response_fits(data, offset, self._pending.first(correlation_id)):
                    best = offset
        return 0 if best is not None and _are_messages(data, best) else best

    def _request_begins(self, data: bytes) -> int:
        # A request is found by its beginning.
        return -1

    def _response_begins(self, data: bytes) -> int:
        """The first offset from which on a response to a request in flight may reach beyond the data; -1 if there is
        none."""
        cap, found = self._ledger.caps.message_bytes, len(data)
        for correlation_id in _spread(self._pending.correlation_ids()):
            for offset in response_places(data, correlation_id):
                if offset >= found:
                    break
                if len(data) - offset - 4 < int.from_bytes(data[offset : offset + 4], signed=True) <= cap:
                    found = offset
        return found if found < len(data) else -1

    def _response_fits(self, data: bytes, offset: int, exchange: Exchange) -> bool:
        size = int.from_bytes(data[offset : offset + 4], signed=True)
        start, end = offset + 4, offset + 4 + size
        if not 4 <= size <= self._ledger.caps.message_bytes or end > len(data):
            return False
        return _answers(data, start, end, exchange)

    # ------------------------------------------------------------------ requests

    def _request(self, message: WireMessage, cause: str | None) -> None:
        raw = message.raw or b""
        use = raw[:4]
        text = self._client_text
        usual = self._usual.get(use)
        if usual is not None and text is not None and message.complete and not self._tokens.possible:
            body_start = 8 + len(text)
            if raw[8:body_start] == text and (
                not usual.tagged or raw[body_start : body_start + 1] == NO_TAGS
            ):
                self._usual_request(message, raw, usual, body_start + usual.tagged)
                return
        self._announce(message)
        header = request_header(raw, 0, len(raw)) if message.complete else cut_header(raw, 0)
        if self._tokens.is_token(raw, message.complete, header):
            self._token(message, raw, cause)
            return
        if header is None:
            self._requests.refuse(message)
            if cause is not None:
                self._lose_request()
            return
        self._tokens.after_request()
        client_id_whole = message.complete or header.body_start < len(raw)
        if client_id_whole:
            self.client_id = header.client_id
            self._client_text = _header_text(header.client_id)
        exchange = self._new_exchange(message, header.api_key, header.api_version, header.body_start)
        exchange.correlation_id = header.correlation_id
        exchange.client_id = header.client_id if client_id_whole else None
        message.is_foreign = is_outside(self._ranges, header.api_key, header.api_version)
        self._note_damage(exchange, message, cause)
        new_use = use not in self._api_versions
        known = is_known(header)
        if known and not self._api_versions.get(use):
            self._api_versions[use] = message.complete
            if message.complete:
                self._note_usual(use)
        self._learn_from_request(exchange, message, new_use)
        self._expect(exchange, message, known)

    def _note_usual(self, use: bytes) -> None:
        usual = _usual(use)
        if usual is not None and not is_outside(self._ranges, usual.api_key, usual.api_version):
            self._usual[use] = usual

    def _learn_ranges(self, answer: WireMessage) -> None:
        ranges = offered(answer)
        if ranges is not None:
            self._ranges = ranges
            self._usual = {
                use: usual
                for use, usual in self._usual.items()
                if not is_outside(ranges, usual.api_key, usual.api_version)
            }

    def _usual_request(self, message: WireMessage, raw: bytes, usual: _Usual, body_start: int) -> None:
        exchange = self._new_exchange(message, usual.api_key, usual.api_version, body_start)
        exchange.correlation_id = _int32_at(raw, 4)[0]
        exchange.client_id = self.client_id
        exchange.plain_answer = usual.plain_answer
        self._expect(exchange, message, True)

    def _new_exchange(
        self, message: WireMessage, api_key: int, api_version: int, body_start: int
    ) -> Exchange:
        exchange = Exchange(self.ends, KAFKA)
        exchange.api_key = message.api_key = api_key
        exchange.api_version = message.api_version = api_version
        exchange.request = message
        message.ends = self.ends
        message.body_start = body_start
        return exchange

    def _expect(self, exchange: Exchange, message: WireMessage, known: bool) -> None:
        """Wait for the response, if one is due. `known`: some release has the request's API and version."""
        version = message.api_version
        if message.api_key == PRODUCE and version is not None:
            acks = produce_acks(message.raw or b"", message.body_start, version) if known else None
            if acks == 0:
                exchange.in_flight = len(self._pending)
                self._finish(exchange, message.last_time, message.last_frame, NO_RESPONSE)
                return
            if acks is None:
                # Where a request ends with its connection, no answer can have come.
                never_ends = not message.complete and self._requests.unfinished
                exchange.doubt = None if never_ends else ACKS_UNKNOWN
        self._await(exchange, message)

    def _token(self, message: WireMessage, raw: bytes, cause: str | None) -> None:
        self._tokens.after_token()
        if message.complete:
            self.principal = sasl.user_name(self._tokens.mechanism, raw) or self.principal
        exchange = Exchange(self.ends, SASL_TOKEN)
        exchange.client_id = self.client_id
        exchange.request = message
        self._note_damage(exchange, message, cause)
        self._await(exchange, message)

    def _await(self, exchange: Exchange, message: WireMessage) -> None:
        pending, responses = self._pending, self._responses
        waiting = len(pending)
        if waiting >= self._ledger.caps.in_flight:
            self._ledger.counts.hit("in_flight")
            oldest = pending.take_oldest()
            if oldest is not None:
                self._finish(oldest, message.last_time, message.last_frame, UNANSWERED, "cap")
        desynchronised = responses.desynchronised
        if desynchronised and responses.offset != self._offset_before:
            # What came since the last request may have been answers.
            pending.doubt()
        self._offset_before = responses.offset
        gave_up = False
        if waiting:
            # Where no answer is seen at all, the client going on proves nothing.
            while responses.offset and pending.may_be_answered(exchange):
                gave_up = exchange.correlation_id is not None
                self._lost(message)
            waiting = len(pending)
        exchange.in_flight = waiting
        pending.add(exchange)
        if not message.complete and message.last_frame < self._response_gap:
            # Its end was lost, and its answer may lie in the gap that came since.
            pending.doubt()
        if gave_up:
            pending.mix()
        self._holdings.hold(exchange, self, EXCHANGE_BYTES + len(message.raw or b""))
        # With so many in flight this one's answer is one of many that show the place.
        if desynchronised and waiting < LOCATED_BY:
            self._looks_back = True
            responses.search()
            self._looks_back = False

    def _learn_from_request(self, exchange: Exchange, message: WireMessage, new_use: bool) -> None:
        """Learn software, mechanism, user and role from requests that show them."""
        key = exchange.api_key
        if key == API_VERSIONS:
            body = message.facts().body or {}
            if body.get("client_software_name"):
                self.software = (body["client_software_name"], body.get("client_software_version"))
        elif key == SASL_HANDSHAKE:
            mechanism = (message.facts().body or {}).get("mechanism")
            self._tokens.mechanism = mechanism
            if exchange.api_version == 0:
                self._tokens.begin(mechanism)
        elif key == SASL_AUTHENTICATE:
            token = (message.facts().body or {}).get("auth_bytes")
            if isinstance(token, bytes):
                self.principal = sasl.user_name(self._tokens.mechanism, token) or self.principal
        elif key is not None and (new_use or self._role == roles.HIDDEN):
            self._role = roles.stronger(self._role, roles.role_of(key, message))

    # ------------------------------------------------------------------ responses

    def _response(self, message: WireMessage, cause: str | None) -> None:
        raw = message.raw or b""
        if message.complete and len(raw) >= 4 and not self._responses.unannounced:
            next_up = self._pending.take_next(_int32_at(raw, 0)[0])
            if next_up is not None:
                self._pair(next_up, message, None, not next_up.in_flight)
                return
        self._announce(message)
        wire_id = _int32_at(raw, 0)[0] if len(raw) >= 4 else None
        if not self._pending.holds(wire_id):
            self._requests.search_answered()
        oldest = self._pending.oldest()
        is_reply = oldest is not None and oldest.kind == SASL_TOKEN and not self._passes_token(raw, wire_id)
        correlation_id = None if is_reply else wire_id
        if not is_reply and (correlation_id is None or not self._is_waited_for(message, raw, correlation_id)):
            self._unrequested(message, raw, correlation_id, cause)
        elif not message.complete and self._responses.unfinished:
            # The response never completes: the request stays unanswered, with its beginning beside it.
            exchange = self._pending.first(correlation_id)
            self._pending.come_to(correlation_id)
            self._note_damage(exchange, message, cause)
            self._lay_out(message, exchange)
            exchange.response = message
        else:
            self._answer(message, cause, correlation_id)

    def _is_waited_for(self, message: WireMessage, raw: bytes, correlation_id: int) -> bool:
        """True if a request waits for this response: it is no answer to a lost request from before with the same id."""
        if not self._pending.holds(correlation_id):
            return False
        exchange = self._pending.first(correlation_id)
        request = exchange.request
        if not message.complete or request is None or message.last_frame >= request.first_frame:
            return True
        return not self._pending.is_unsure(correlation_id, True) or _answers(raw, 0, len(raw), exchange)

    def _passes_token(self, raw: bytes, correlation_id: int | None) -> bool:
        """True if a message is not the reply to the oldest waiting token: that reply was lost, or none was due (to the
        last token of GSSAPI)."""
        if correlation_id is None or not self._pending.holds(correlation_id):
            # A request after the token may be lost too, and this its answer.
            return self._pending.is_doubtful() and next(fitting_versions(raw), None) is not None
        return self._pending.is_doubtful() or _answers(raw, 0, len(raw), self._pending.first(correlation_id))

    def _unrequested(
        self, message: WireMessage, raw: bytes, correlation_id: int | None, cause: str | None
    ) -> None:
        """Take a message of the broker that no request waits for."""
        infers = message.complete and not self._ledger.heads_only
        found = [*fitting_versions(raw)] if self._tokens.replies or infers else []
        if self._tokens.is_reply(raw, message.complete, found):
            if self._pending.holds(None) and self._pending.is_doubtful():
                self._answer(message, cause, None)
            else:
                self._orphan(message, None, cause, [])
        elif correlation_id is None:
            self._responses.refuse(message)
        else:
            self._tokens.after_orphan(raw)
            self._orphan(message, correlation_id, cause, found if infers else [])

    def _answer(self, message: WireMessage, cause: str | None, correlation_id: int | None) -> None:
        exchange = self._pending.first(correlation_id)
        self._pending.come_to(correlation_id)
        # A broker answers in order: the answers to doubtful older requests were in the gap.
        while (older := self._pending.oldest()) is not exchange and (
            self._pending.is_doubtful() or (older is not None and older.kind == SASL_TOKEN)
        ):
            self._lost(message)
        if self._pending.is_unsure(correlation_id, self._looks_back):
            exchange.noted += (Problem(RESPONSE, UNCERTAIN, UNSURE),)
            exchange.latency_known = False
        alone = not exchange.in_flight and not self._pending.follows_lost(correlation_id)
        overtakes = self._pending.take(correlation_id)
        self._note_damage(exchange, message, cause)
        if overtakes:
            text = "this response came before those of older requests on its connection"
            exchange.noted += (Problem(RESPONSE, "out_of_order", text),)
        self._pair(exchange, message, cause, alone)

    def _pass(self, message: WireMessage, cause: str | None) -> None:
        """Note where and when a response ended."""
        self._response_end = message.last_time
        self._response_stop = UNSEEN if cause == "gap" else message.offset + SIZE_BYTES + message.size

    def _pair(self, exchange: Exchange, message: WireMessage, cause: str | None, alone: bool) -> None:
        """Pair a request that was in flight with its response. `alone`: no other was in flight when it was sent."""
        self._lay_out(message, exchange)
        exchange.response = message
        exchange.previous_response_end = self._response_end
        exchange.service_known = alone or message.offset == self._response_stop
        if self._flow.stepped_at is not None and exchange.spans(self._flow.stepped_at):
            exchange.latency_known = False
        self._pass(message, cause)
        if exchange.api_key == API_VERSIONS:
            self._learn_ranges(message)
        if self._ledger.waits:
            self._note_throttle(exchange, message)
        if self._tokens.replies or exchange.api_key == SASL_HANDSHAKE:
            self._tokens.after_answer(exchange.api_key, exchange.api_version, message.raw or b"")
        self._finish(exchange, message.last_time, message.last_frame, ANSWERED)

    def _note_throttle(self, exchange: Exchange, message: WireMessage) -> None:
        now = carries_throttle(message)
        exchange.throttled = now or self._throttled
        self._throttled = now

    def _lay_out(self, message: WireMessage, exchange: Exchange) -> None:
        """Set a response's API and version from its request, and the start of its body."""
        if exchange.api_key is None or exchange.api_version is None or message.raw is None:
            return
        message.api_key = exchange.api_key
        message.api_version = exchange.api_version
        message.ends = exchange.connection
        if exchange.plain_answer:
            message.body_start = 4
            return
        message.is_foreign = exchange.request is not None and exchange.request.is_foreign
        header = response_header(message.raw, 0, len(message.raw), exchange.api_key, exchange.api_version)
        message.body_start = len(message.raw) if header is None else header.body_start

    def _orphan(
        self, message: WireMessage, correlation_id: int | None, cause: str | None, found: list[Candidate]
    ) -> None:
        """Finish a response without its request; with `correlation_id` None a reply to a raw token."""
        exchange = Exchange(self.ends, SASL_TOKEN if correlation_id is None else KAFKA)
        exchange.correlation_id = correlation_id
        exchange.client_id = self.client_id
        exchange.response = message
        self._pass(message, cause)
        self._note_damage(exchange, message, cause)
        self._infer(exchange, message, found)
        if self._ledger.waits:
            self._note_throttle(exchange, message)
        reason = "gap" if self._pending.lost else None
        self._pending.orphaned()
        self._finish(exchange, message.last_time, message.last_frame, ORPHAN, reason)

    def _infer(self, exchange: Exchange, message: WireMessage, found: list[Candidate]) -> None:
        """Give an orphan its API if one layout alone fits it, and that one was in use here."""
        exchange.api_candidates = tuple(dict.fromkeys(candidate.api for candidate in found))
        if len(found) == 1:
            _, key, version = found[0]
            if self._api_versions.get(_USE.pack(key, version)):
                exchange.api_key, exchange.api_version = key, version
                exchange.api_candidates = ()
                self._lay_out(message, exchange)
                message.inferred = True

    # ------------------------------------------------------------------ endings

    def _note_damage(self, exchange: Exchange, message: WireMessage, cause: str | None) -> None:
        if cause is None:
            return
        code, text = INCOMPLETE[cause]
        kept = len(message.raw or b"")
        exchange.noted += (Problem(message.direction, code, text, offset=kept, bytes=message.size - kept),)
        if cause == "gap":
            exchange.latency_known = False
        elif cause == "cap" and protocol_of(message.size.to_bytes(4, "big")) is None:
            self._ledger.counts.hit("message_bytes")

    def _give_up(self, time: int | None, frame: int, reason: str) -> None:
        """Finish the requests still in flight: no response will come, or it was in a gap."""
        while (exchange := self._pending.oldest()) is not None:
            begun = exchange.response is not None
            lost = self._pending.is_doubtful() and not begun and reason != ONE_SIDED
            self._pending.take_oldest()
            self._finish(exchange, time, frame, UNANSWERED, exchange.doubt or "gap" if lost else reason)

    def make_room(self, key: Exchange) -> None:
        """Drop the bytes of a request in flight; the second time, give it up. It is the oldest here."""
        message = key.request
        assert message is not None
        if message.raw is None:
            self._pending.take_oldest()
            self._finish(key, message.last_time, message.last_frame, UNANSWERED, "cap")
            return
        message.raw = None
        message.complete = False
        key.noted += (Problem(REQUEST, "cap", DROPPED, offset=0, bytes=message.size),)
        self._holdings.hold(key, self, EXCHANGE_BYTES)

    def _lost(self, later: WireMessage) -> None:
        """Finish the oldest request: a later message shows that its response was in a gap, or that none was due."""
        lost = self._pending.is_doubtful()
        exchange = self._pending.take_oldest()
        if exchange is not None:
            outcome, reason = (UNANSWERED, exchange.doubt or "gap") if lost else (NO_RESPONSE, None)
            self._finish(exchange, later.last_time, later.last_frame, outcome, reason)

    def _finish(
        self, exchange: Exchange, time: int | None, frame: int, outcome: str, reason: str | None = None
    ) -> None:
        self._holdings.release(exchange)
        exchange.completed_at = time
        exchange.outcome = outcome
        exchange.outcome_reason = reason
        exchange.role = None if self._role == roles.HIDDEN else self._role
        exchange.principal = self.principal
        exchange.mechanism = self._tokens.mechanism
        exchange.software_name, exchange.software_version = self.software
        if self._conflicts:
            exchange.noted += tuple(
                Problem(side, "conflict", CONFLICT, bytes=size) for side, size in self._conflicts.items()
            )
            self._conflicts = {}
        if exchange.api_key in FETCH_APIS:
            exchange.fetched = self._fetch_sessions.take(exchange)
        exchange.after_gap, self.after_gap = self.after_gap, False
        self.exchanges += 1
        exchange.key = self._numbering.key(time, frame)
        self._ledger.finish(exchange)


def _header_text(client_id: str | None) -> bytes | None:
    """Bytes of a client id in a header (a nullable string); None if U+FFFD for invalid bytes made it longer than a
    string on the wire can be."""
    if client_id is None:
        return b"\xff\xff"
    text = client_id.encode()
    return len(text).to_bytes(2) + text if len(text) <= LONGEST_TEXT else None


def _answers(data: bytes, start: int, end: int, exchange: Exchange) -> bool:
    """True if `data[start:end]` is exactly a response of the exchange's API and version."""
    key, version = exchange.api_key, exchange.api_version
    if key is None or version is None:
        return False
    header = response_header(data, start, end, key, version)
    return header is not None and is_body(key, version, RESPONSE, data, header.body_start, end)


def _are_messages(data: bytes, end: int) -> bool:
    """True if `data[:end]` is whole messages and nothing else: answers to requests that were not captured."""
    position = 0
    while position + MIN_RESPONSE <= end:
        size = int.from_bytes(data[position : position + 4], signed=True)
        if size < 4:
            return False
        position += 4 + size
    return position == end


def produce_acks(raw: bytes, start: int, version: int) -> int | None:
    """`acks` of a Produce request, read without decoding it: it follows the transactional id from v3 on
    (KIP-98), whose length became a varint with v9 (KIP-482). None if the bytes end before."""
    if version >= 9:
        length = shift = 0
        while start < len(raw) and shift < 35:
            byte = raw[start]
            length |= (byte & 0x7F) << shift
            shift += 7
            start += 1
            if byte < 0x80:
                break
        start += max(length - 1, 0)
    elif version >= 3:
        if start + 2 > len(raw):
            return None
        start += 2 + max(_int16_at(raw, start)[0], 0)
    acks: int | None = _int16_at(raw, start)[0] if start + 2 <= len(raw) else None
    return acks
