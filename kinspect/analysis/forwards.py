"""Requests that a broker forwards to the controller inside an Envelope (KIP-590): in a capture of both ways they stand
twice. A client's request is the one in an Envelope if client id, correlation id, API, version and bytes are the same,
and it waited for its answer as the Envelope was sent. What an Envelope holds counts, for the client inside, if there is
no such request, and once it is answered: refused or unanswered, the broker sends it again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple

from kinspect.analysis.record import Record
from kinspect.kafka.bodysummary import REQUEST_DATA, RESPONSE_DATA, BodySummary
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.fields import envelope
from kinspect.kafka.wire.endpoints import Endpoints
from kinspect.kafka.wire.hashes import blake2b
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import ANSWERED, KAFKA
from kinspect.model import REQUEST, RESPONSE, Caps, Counts
from kinspect.protocol import schema
from kinspect.protocol.apikeys import ENVELOPE, FETCH
from kinspect.protocol.headers import request_header, response_header

BYTES_A_NAME: Final = 100
"""Bytes that an Envelope holds for which the room of a name is taken."""
ANONYMOUS = "ANONYMOUS"
"""Kafka's name for who did not log in."""

_BOTH: Final = {"broker", "controller"}
_ANSWERED_BY_ALL: Final = schema.apis_with("begins", "login", "connection") | {FETCH}

Header = tuple[int, int, int, str | None]
"""API key, version, correlation id, client id."""


class OwnRequest(NamedTuple):
    """A client's own request. `begin`, `end`: when it was sent and answered; `digest`: of its bytes, empty if not all
    were captured."""

    header: Header
    begin: int | None
    end: int | None
    digest: bytes

    def is_in(self, carried: EnvelopedRequest) -> bool:
        """True if an Envelope holds this request, whose headers are the same."""
        sent = carried.sent
        return (
            self.digest in (b"", _digest(carried.request))
            and (sent is None or self.begin is None or self.begin <= sent)
            and (sent is None or self.end is None or sent <= self.end)
        )


class EnvelopedRequest(NamedTuple):
    """A request that an Envelope holds, with its answer. `key`: the Envelope's; `sent`, `done`: when it was sent and
    answered."""

    key: LineKey
    sent: int | None
    done: int | None
    client_ip: str
    principal: str | None
    request: bytes
    response: bytes

    @property
    def room(self) -> int:
        """The names whose room it takes."""
        return 1 + (len(self.request) + len(self.response)) // BYTES_A_NAME

    @property
    def header(self) -> Header:
        """That of its request."""
        found = request_header(self.request, 0, len(self.request))
        assert found is not None
        return found[:4]

    def exchange(self, names: LearnedNames) -> Exchange:
        """The exchange of the client and the broker that forwarded it. Its connection was not seen: it has no id, and
        no address of the broker."""
        ends = Endpoints(self.client_ip, 0, "", 0, "", "", names, (), Caps(), Counts())
        made = Exchange(ends, KAFKA)
        asked = request_header(self.request, 0, len(self.request))
        assert asked is not None
        made.api_key, made.api_version, made.correlation_id, made.client_id, _ = asked
        header = response_header(self.response, 0, len(self.response), asked.api_key, asked.api_version)
        assert header is not None
        made.request = _message(REQUEST, self.request, asked.body_start, self.sent, made)
        made.response = _message(RESPONSE, self.response, header.body_start, self.done, made)
        made.outcome, made.key, made.completed_at, made.principal = (
            ANSWERED,
            self.key,
            self.done,
            self.principal,
        )
        made.latency_known = made.service_known = made.queue_known = False
        made.after_gap = True
        return made


@dataclass(slots=True)
class Forwards(Record):
    """Requests of clients that brokers may have forwarded, as `OwnRequest`, and those that Envelopes hold, as
    `EnvelopedRequest`."""

    own: set[tuple[Any, ...]] = field(default_factory=set)
    carried: set[tuple[Any, ...]] = field(default_factory=set)

    def unseen(self) -> Iterator[EnvelopedRequest]:
        """What Envelopes hold of clients whose own request was not seen, in the order of lines."""
        own = defaultdict(list)
        for request in map(OwnRequest._make, self.own if self.carried else ()):
            own[request.header].append(request)
        for carried in map(EnvelopedRequest._make, sorted(self.carried)):
            if not any(request.is_in(carried) for request in own[carried.header]):
                yield carried


@cache
def may_be_forwarded(api_key: int | None) -> bool:
    """True for an API whose requests brokers forward. Kafka's definitions do not say so, but that controllers answer it
    too."""
    api = None if api_key is None or api_key in _ANSWERED_BY_ALL else schema.api(api_key)
    return api is not None and set(api.listeners) >= _BOTH


def own_request(exchange: Exchange) -> OwnRequest | None:
    """The exchange's request, if brokers may forward it."""
    request, response, key = exchange.request, exchange.response, exchange.api_key
    if request is None or key is None or not may_be_forwarded(key):
        return None
    header = key, exchange.api_version or 0, exchange.correlation_id or 0, exchange.client_id
    end = None if response is None else response.first_time
    digest = _digest(request.raw) if request.complete and request.raw is not None else b""
    return OwnRequest(header, request.first_time, end, digest)


def carried_request(exchange: Exchange) -> EnvelopedRequest | None:
    """The request that an Envelope holds, if it and its answer could be read."""
    summary, request, response = exchange.summary, exchange.request, exchange.response
    inner = summary.inner(REQUEST_DATA)
    if exchange.api_key != ENVELOPE or inner is None or summary.inner(RESPONSE_DATA) is None:
        return None
    assert request is not None
    assert response is not None
    asked, answer = request.facts().body or {}, response.facts().body or {}
    client_ip = envelope.address(asked["client_host_address"])
    if client_ip is None or exchange.is_uncertain or not may_be_forwarded(inner.header.api_key):
        return None
    user = (envelope.principal(asked["request_principal"]) or {}).get("name", ANONYMOUS)
    return EnvelopedRequest(
        exchange.key,
        request.first_time,
        response.first_time,
        client_ip,
        None if user == ANONYMOUS else user,
        asked[REQUEST_DATA],
        answer[RESPONSE_DATA],
    )


def without_carried(exchange: Exchange) -> Exchange:
    """An Envelope's exchange as of one that holds nothing; any other as it is."""
    if exchange.api_key != ENVELOPE:
        return exchange
    bare = exchange.copy()
    bare.summarised = BodySummary(exchange, opens=False)
    return bare


def _message(
    direction: str, raw: bytes, body_start: int, time: int | None, exchange: Exchange
) -> WireMessage:
    made = WireMessage(direction, raw, len(raw), body_start, time, time, 0, 0, 0, True)
    made.ends = exchange.connection
    made.api_key, made.api_version = exchange.api_key, exchange.api_version
    return made


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
