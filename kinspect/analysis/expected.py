"""Which errors are part of normal operation: by what an exchange shows, and by whether they passed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kinspect.analysis.bursts import QUIET_NS, Burst, Bursts
from kinspect.analysis.client import ClientKey, client_key
from kinspect.kafka.bodysummary import succeeded
from kinspect.kafka.connection.fetchsessions import FETCH_APIS
from kinspect.kafka.connection.roles import CLUSTER, FOLLOWER
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import UNANSWERED
from kinspect.kafka.wire.wait import LONG_POLL
from kinspect.model import NS_PER_MS, NS_PER_SECOND, drop_oldest
from kinspect.protocol import schema
from kinspect.protocol.apikeys import (
    ALTER_PARTITION,
    API_VERSIONS,
    BEGIN_QUORUM_EPOCH,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    CREATE_TOPICS,
    ELECT_LEADERS,
    END_QUORUM_EPOCH,
    FETCH,
    FETCH_SNAPSHOT,
    HEARTBEAT,
    JOIN_GROUP,
    LEADER_AND_ISR,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    SYNC_GROUP,
    VOTE,
)

CONNECTIONS_KEPT = 10_000
"""Largest number of connections of which it is known that a Fetch succeeded; the first one is forgotten."""
LONGEST_NS = 30 * NS_PER_SECOND
"""An election or the like takes less: longer bursts of errors do not pass by themselves, and what succeeds later is
no sign that they did."""
GIVEN_UP_NS = 5 * NS_PER_SECOND
"""Followers ask again sooner: one that did not in this time has nothing to ask for any more."""
CAPTURE_END = "capture_end"
EXPECTED = {
    CAPTURE_END: "the capture ends first",
    "gap": "the capture lost it",
    "one_sided": "the capture has one side",
    "acks_unknown": "none may have been due",
}
"""Reasons for which no answer was seen although one may have come."""
ENDED = frozenset({"closed", "reset"})
"""Reasons that mention the connection's end; neither says which side ended it."""
LEFT = "the connection ended while a Fetch waited for records"
BEHIND = "the connection ended while it stood behind other requests"
PASSED = "it passed within seconds, and the client went on"
WAITED = "each time it passed, and the client went on"
SETTLED = "it came no more, as followers ask until they are answered"
APPEARED = "the topic was there a moment later"
EARLIER = "the session was of an earlier connection (KIP-227)"
POLLS = schema.apis_with("wait", LONG_POLL)
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE = 3, 5
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class ExpectedRule(NamedTuple):
    """Error codes of some APIs that are part of normal operation if `holds`, which is given the exchange, the code, and
    whether a fetch succeeded on its connection before. None: unknown."""

    codes: frozenset[int]
    apis: frozenset[int]
    holds: Callable[[Exchange, int, bool | None], bool | None]
    reason: str


def _always(_: Exchange, __: int, ___: bool | None) -> bool | None:
    return True


def _is_new_member(exchange: Exchange, _: int, __: bool | None) -> bool | None:
    member = _value(exchange.request, "member_id")
    return None if member is None else not member


def _begins(_: Exchange, __: int, fetched: bool | None) -> bool | None:
    return None if fetched is None else not fetched


def _is_of_controller(exchange: Exchange, _: int, __: bool | None) -> bool | None:
    """True if the broker took a controller for the one in charge: the code is that of single partitions."""
    code = _value(exchange.response, "error_code")
    return None if code is None else code == 0


def _makes_internal(exchange: Exchange, code: int, _: bool | None) -> bool | None:
    topics = exchange.summary.error_topics.get(code) or exchange.summary.topics
    return INTERNAL.issuperset(topics) if topics else None


def _is_follower(exchange: Exchange, _: int, __: bool | None) -> bool | None:
    return None if exchange.role is None else exchange.role == FOLLOWER


def _value(message: WireMessage | None, name: str) -> Any:
    """A field of a message; None where it was not captured."""
    body = message.facts(frozenset({name})).body if message is not None else None
    return (body or {}).get(name)


RULES = (
    ExpectedRule(
        frozenset({79}), frozenset({JOIN_GROUP}), _is_new_member, "the first step of a join (KIP-394)"
    ),
    ExpectedRule(
        frozenset({27}),
        frozenset({HEARTBEAT, SYNC_GROUP}),
        _always,
        "it tells members that the group rebalances",
    ),
    ExpectedRule(
        frozenset({35}), frozenset({API_VERSIONS}), _always, "the client goes on in a lower version (KIP-511)"
    ),
    ExpectedRule(
        frozenset({46}), frozenset({PRODUCE}), _always, "the batch came twice, and is kept once (KIP-98)"
    ),
    ExpectedRule(frozenset({70, 122}), FETCH_APIS, _begins, EARLIER),
    ExpectedRule(frozenset({84}), frozenset({ELECT_LEADERS}), _always, "the election would change nothing"),
    # Error 13 was the name of this for single partitions up to 0.9 (StaleLeaderEpoch).
    ExpectedRule(
        frozenset({11, 13}),
        frozenset({LEADER_AND_ISR}),
        _is_of_controller,
        "the broker has that leader epoch already",
    ),
    ExpectedRule(
        frozenset({74}),
        frozenset({END_QUORUM_EPOCH}),
        _always,
        "the others have begun another epoch already (KIP-595)",
    ),
    ExpectedRule(
        frozenset({36}),
        frozenset({CREATE_TOPICS}),
        _makes_internal,
        "another broker made the internal topic first",
    ),
    ExpectedRule(frozenset({109}), frozenset({FETCH}), _is_follower, "it lies in tiered storage (KIP-405)"),
)
"""Codes that are expected for what the exchange itself shows."""


class ExpectedCodes(NamedTuple):
    """Error codes that are expected where they pass. `apis`: None for all; `cluster`: brokers and controllers alone get
    them so; `often`: one may follow the other for as long as what succeeds stands between them."""

    codes: frozenset[int]
    apis: frozenset[int] | None = None
    cluster: bool = False
    often: bool = False


LEADERSHIP = frozenset({6, 74, 75})
"""Codes of a leader that is another one, or of another epoch."""
PASSING = (
    ExpectedCodes(LEADERSHIP | {5, 14, 15, 16, 41, 78}),  # leaders, coordinators and controllers move
    ExpectedCodes(frozenset({UNKNOWN_TOPIC, 9, 72}), frozenset({METADATA})),
    ExpectedCodes(
        frozenset({71, 100, 103, 106, 108, 123}), FETCH_APIS
    ),  # sessions begin anew; topics are new
    ExpectedCodes(frozenset({51, 88, 113, 117}), often=True),  # transactions end, members learn of an epoch
    # Brokers hear of topics one after the other, and of those that are deleted.
    ExpectedCodes(
        frozenset({UNKNOWN_TOPIC, 100}), frozenset({FETCH, OFFSET_FOR_LEADER_EPOCH, ALTER_PARTITION}), True
    ),
    ExpectedCodes(frozenset({77, 95, 107, 108}), None, True),  # brokers register anew; replicas come and go
    ExpectedCodes(frozenset({101, 102}), frozenset({BROKER_REGISTRATION, BROKER_HEARTBEAT}), True),
    # A node of a quorum that ends or begins (2.7 and 2.8), and its snapshots.
    ExpectedCodes(
        frozenset({8, 98, 99}),
        frozenset({FETCH, FETCH_SNAPSHOT, VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH}),
        True,
    ),
)
"""Codes that are expected for a moment."""

_QUORUM = frozenset({FETCH, VOTE, BEGIN_QUORUM_EPOCH})
WENT_ON: dict[int | None, frozenset[int]] = {
    FETCH: frozenset({FETCH, BEGIN_QUORUM_EPOCH}),
    VOTE: _QUORUM,
    BEGIN_QUORUM_EPOCH: _QUORUM,
    END_QUORUM_EPOCH: _QUORUM,
    BROKER_REGISTRATION: frozenset({BROKER_REGISTRATION, BROKER_HEARTBEAT}),
    BROKER_HEARTBEAT: frozenset({BROKER_REGISTRATION, BROKER_HEARTBEAT}),
}
"""By API, those whose success shows that the client went on, where that is not the API alone: a controller that wins an
election fetches no more, and tells the others that it leads (KIP-595)."""


class Expectation:
    """Tells which errors are part of normal operation, as far as an exchange and those before it on its connection
    show; those that only pass soon look like any other."""

    def __init__(self) -> None:
        # By connection, whether a Fetch succeeded; None: one may have that was not seen.
        self._fetched: dict[str, bool | None] = {}
        # Of all others: None once one was forgotten.
        self._others: bool | None = False

    def reason(self, exchange: Exchange, code: int) -> str | bool | None:
        """The reason why an error code of an exchange is expected; False if it is not, None if unknown."""
        fetched = self._fetched.get(exchange.connection.connection_id, self._others)
        for rule in RULES:
            if code in rule.codes and exchange.api_key in rule.apis:
                holds = rule.holds(exchange, code, fetched)
                return rule.reason if holds else holds
        return False

    def holds(self, exchange: Exchange) -> bool:
        """True if an exchange failed as is expected."""
        if exchange.outcome == UNANSWERED:
            return unanswered_reason(exchange) is not None
        codes = exchange.summary.error_counts
        return bool(codes) and all(self.reason(exchange, code) for code in codes)

    def note(self, exchange: Exchange) -> None:
        """Note an exchange before it is asked about: whether it succeeded, whether others before may be missing."""
        connection = exchange.connection.connection_id
        if exchange.api_key in FETCH_APIS and succeeded(exchange):
            self._keep(connection, True)
        elif exchange.after_gap and connection not in self._fetched:
            self._keep(connection, None)

    def _keep(self, connection: str, fetched: bool | None) -> None:
        self._fetched[connection] = fetched
        if drop_oldest(self._fetched, CONNECTIONS_KEPT):
            self._others = None


def unanswered_reason(exchange: Exchange) -> str | None:
    """The reason why no answer was to be expected; None if there is none, or if that is unknown."""
    reason = exchange.outcome_reason or ""
    if reason not in ENDED:
        return None if stays_unheard(exchange) else EXPECTED.get(reason)
    if _waits_for_records(exchange):
        return LEFT
    return BEHIND if exchange.in_flight and exchange.queue_known else None


def stays_unheard(exchange: Exchange) -> bool:
    """True for a request that was sent again before the capture ended: it may be lost each time."""
    return exchange.outcome_reason == CAPTURE_END and exchange.retransmitted


def may_have_waited(exchange: Exchange) -> bool:
    """True for a request without an answer whose connection ended, where it is unknown whether it stood behind others,
    or for how long a Fetch may wait, as it was cut."""
    is_cut = exchange.api_key in POLLS and exchange.summary.max_wait_ms is None
    return exchange.outcome_reason in ENDED and (is_cut or not exchange.queue_known)


def _waits_for_records(exchange: Exchange) -> bool:
    """True for a Fetch whose answer was not due yet as its connection ended."""
    begin, end, longest = exchange.timestamp, exchange.completed_at, exchange.summary.max_wait_ms
    if exchange.api_key not in FETCH_APIS or begin is None or end is None or longest is None:
        return False
    return end - begin < 2 * longest * NS_PER_MS


# ---------------------------------------------------------------------- what passes


class ErrorFlow(NamedTuple):
    """What passes together: an error code of a client at a broker. `cluster`: the client is one of the cluster;
    `follower`: it replicates; `topic`: the code is of that topic, as Metadata names it."""

    api_key: int | None
    code: int | None
    client: ClientKey
    broker: tuple[str, int]
    cluster: bool
    follower: bool
    topic: str | None = None


def may_pass(exchange: Exchange, code: int) -> bool:
    """True for an error code of an exchange that is expected if it passes soon."""
    return _passing(exchange.api_key, code, exchange.role in CLUSTER) is not None


def hangs_on_role(exchange: Exchange, code: int) -> bool:
    """True for an error code that may pass among brokers, of a client whose role no request showed: it was cut."""
    return exchange.role is None and _passing(exchange.api_key, code, True) is not None


def flow_of(exchange: Exchange, code: int | None, topic: str | None = None) -> ErrorFlow:
    """The flow of an error code."""
    ends, role = exchange.connection, exchange.role
    client, broker = client_key(exchange), (ends.broker_ip, ends.broker_port)
    return ErrorFlow(exchange.api_key, code, client, broker, role in CLUSTER, role == FOLLOWER, topic)


def may_appear(api_key: int | None, code: int) -> bool:
    """True for codes of Metadata that are of single topics, which may be there later."""
    return api_key == METADATA and code in (UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE)


def _passing(api_key: int | None, code: int | None, cluster: bool) -> ExpectedCodes | None:
    for row in PASSING:
        if code in row.codes and (row.apis is None or api_key in row.apis) and row.cluster <= cluster:
            return row
    return None


class RunEdge(NamedTuple):
    """Where a run begins or ends; `cuts`: a filter did so, and the capture goes on."""

    time: int | None
    cuts: bool = False

    def may_cut(self, burst: Burst) -> bool:
        """True if errors beyond it may belong to a burst: those of a capture that goes on, or of a burst that lasted
        longer than it is quiet there."""
        if self.time is None:
            return False
        quiet = min(abs(self.time - burst.first), abs(self.time - burst.last))
        return quiet <= QUIET_NS if self.cuts else quiet < min(QUIET_NS, burst.last - burst.first)


class Successes(NamedTuple):
    """When what succeeded: by API and client, and by topics that Metadata knows. `begin`, `end`: those of the run;
    `whole`: nothing of it was lost or left out, so that what is not here did not succeed."""

    clients: Mapping[tuple[int | None, ClientKey], Bursts]
    topics: Mapping[str, Bursts]
    begin: RunEdge
    end: RunEdge
    whole: bool

    def passed(self, flow: ErrorFlow, burst: Burst) -> str | bool | None:
        """The reason why a burst of errors is expected; False if it is not; None if unknown."""
        kind = _passing(flow.api_key, flow.code, flow.cluster)
        assert kind is not None
        went_on = [*self._went_on(flow)]
        cut_by = [edge for edge in (self.begin, self.end) if edge.may_cut(burst)]
        is_filtered = any(edge.cuts for edge in cut_by)
        if kind.often and any(each.has_all_along(burst, LONGEST_NS) for each in went_on):
            return None if is_filtered else WAITED
        if burst.last - burst.first > LONGEST_NS:
            before = burst._replace(last=burst.last - QUIET_NS)
            is_open = bool(cut_by) and any(each.has_all_along(before, LONGEST_NS) for each in went_on)
            return None if kind.often and (is_open or not self.whole) else False
        if any(each.has_after(burst.last, LONGEST_NS) for each in went_on):
            if flow.topic is not None:
                return None if is_filtered else APPEARED
            return None if cut_by else PASSED
        if not self.whole or self.end.time is None:
            return None
        quiet = self.end.time - burst.last
        if flow.follower and flow.code in LEADERSHIP | {UNKNOWN_TOPIC}:
            return SETTLED if quiet >= GIVEN_UP_NS and not cut_by else None
        return False if quiet >= LONGEST_NS else None

    def _went_on(self, flow: ErrorFlow) -> Iterable[Bursts]:
        if flow.topic is not None:
            keys: Iterable[int | None] = ()
            yield self.topics.get(flow.topic, _NEVER)
        else:
            keys = WENT_ON.get(flow.api_key, (flow.api_key,))
        for key in keys:
            yield self.clients.get((key, flow.client), _NEVER)


_NEVER = Bursts()
