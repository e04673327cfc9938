"""Error codes by API and client, expected ones told apart, with what they mean and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from kinspect.analysis.answer import Answer, Row, Told, Topic
from kinspect.analysis.record import GREATEST, LEAST, Record
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.summary import error_counts
from kinspect.kafka.view.view import iso_time
from kinspect.kafka.wire.pair import ANSWERED
from kinspect.kafka.wire.pair import UNANSWERED as NO_ANSWER
from kinspect.model import NS_PER_MS, NS_PER_SECOND
from kinspect.protocol import schema
from kinspect.protocol.apikeys import (
    API_VERSIONS,
    BEGIN_QUORUM_EPOCH,
    ELECT_LEADERS,
    FETCH,
    HEARTBEAT,
    JOIN_GROUP,
    METADATA,
    PRODUCE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SYNC_GROUP,
)

UNANSWERED = "UNANSWERED"
"""Name, in place of an error code's, of a request without an answer."""
CONNECTIONS_KEPT = 10_000
"""Largest number of connections of which it is known that a Fetch succeeded; the first one is forgotten."""
SUCCESSES_KEPT = 100_000
"""Largest number of clients' APIs, and of topics, of which the last success is known."""
TOPICS_NOTED = 100
"""Answers to Metadata with more topics do not count as proof that a topic is there."""
STRETCH_NS = 10 * NS_PER_SECOND
"""An election or the like takes less: errors in more than `STRETCHES` of these in a row do not pass by themselves."""
STRETCHES = 2
EXPECTED = {
    "capture_end": "the capture ends first",
    "gap": "the capture lost it",
    "one_sided": "the capture has one side",
}
"""Reasons for which no answer was seen although one may have come."""
REASONS = {
    **EXPECTED,
    "closed": "the connection was closed",
    "reset": "the connection was reset",
    "idle": "the connection fell silent",
    "cap": "a limit of kinspect was reached",
    "acks_unknown": "none may have been due",
}
ENDED = frozenset({"closed", "reset"})
"""Reasons that tell of the connection's end; neither tells which side ended it."""
LEFT = "the connection ended while a Fetch waited for records"
BEHIND = "the connection ended while it stood behind other requests"
NO_ADVICE = "Nothing is to be done, but to capture longer or with less loss."
LEFT_ADVICE = "Nothing is to be done if a client or broker was stopped then."
CLOSED_ADVICE = (
    "Find who closed or went silent: the broker's log may say why; compare request.timeout.ms of the client."
)

_PATH_STEP = re.compile(r"(\w+)(?:\[(\d+)\])?")

Struct = dict[str, Any]


@dataclass(slots=True)
class _Fault(Record):
    """One error code, or requests without an answer, of one API and client. `expected`: occurrences by the reason why
    each is part of normal operation; `stretches`: those in which it occurred."""

    count: int = 0
    first: int | None = field(default=None, metadata=LEAST)
    last: int | None = field(default=None, metadata=GREATEST)
    expected: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    topics: set[Topic] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    stretches: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Success(Record):
    """The last time at which something succeeded."""

    last: int | None = field(default=None, metadata=GREATEST)


class Rule(NamedTuple):
    """Error codes of some APIs that are part of normal operation if `holds`, which is given the exchange, and True
    if a fetch succeeded on its connection before."""

    codes: frozenset[int]
    apis: frozenset[int]
    holds: Callable[[Exchange, bool], bool]
    reason: str


FETCHES = frozenset({FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE})


def _always(_: Exchange, __: bool) -> bool:
    return True


def _is_new_member(exchange: Exchange, _: bool) -> bool:
    request = exchange.request
    body = request.decode(frozenset({"member_id"})).body if request is not None else None
    return not (body or {}).get("member_id")


def _begins(_: Exchange, fetched: bool) -> bool:
    return not fetched


RULES = (
    Rule(frozenset({79}), frozenset({JOIN_GROUP}), _is_new_member, "the first step of a join (KIP-394)"),
    Rule(
        frozenset({27}),
        frozenset({HEARTBEAT, SYNC_GROUP}),
        _always,
        "it tells members that the group rebalances",
    ),
    Rule(
        frozenset({35}), frozenset({API_VERSIONS}), _always, "the client goes on in a lower version (KIP-511)"
    ),
    Rule(frozenset({46}), frozenset({PRODUCE}), _always, "the batch came twice, and is kept once (KIP-98)"),
    Rule(frozenset({70, 122}), FETCHES, _begins, "the session was of an earlier connection (KIP-227)"),
    Rule(frozenset({84}), frozenset({ELECT_LEADERS}), _always, "the election would change nothing"),
)
"""Codes that are expected for what the exchange itself shows."""
PASSING = frozenset({5, 6, 14, 15, 16, 41, 51, 74, 75, 77, 78, 88, 98, 100, 108, 113, 117})
"""Codes that are expected for a moment: leaders, coordinators and controllers move, brokers register anew, topics and
snapshots are new, transactions end, epochs of members and subscriptions to metrics go on."""
WON: dict[int | None, int] = {FETCH: BEGIN_QUORUM_EPOCH}
"""By API, another one whose success shows that the client goes on, too: a controller that wins the election fetches no
more, and tells the others that it leads (KIP-595)."""
PASSED = "it passed within seconds, and the client went on"
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE = 3, 5
APPEARED = "the topic was there a moment later"


class Expectation:
    """Tells which errors are part of normal operation, as far as an exchange and those before it on its connection
    show; those that only pass soon look like any other."""

    def __init__(self) -> None:
        self._fetched: dict[str, None] = {}

    def reason(self, exchange: Exchange, code: int) -> str | None:
        """The reason why an error code of an exchange is expected; None if it is not."""
        fetched = exchange.connection.connection_id in self._fetched
        for rule in RULES:
            if code in rule.codes and exchange.api_key in rule.apis and rule.holds(exchange, fetched):
                return rule.reason
        return None

    def holds(self, exchange: Exchange) -> bool:
        """True if an exchange failed as is expected."""
        if exchange.outcome == NO_ANSWER:
            return unanswered_reason(exchange) is not None
        codes = exchange.summary.error_counts
        return bool(codes) and all(self.reason(exchange, code) for code in codes)

    def note(self, exchange: Exchange) -> None:
        """Note an exchange that succeeded."""
        connection = exchange.connection.connection_id
        if exchange.api_key in FETCHES and connection not in self._fetched:
            self._fetched[connection] = None
            if len(self._fetched) > CONNECTIONS_KEPT:
                del self._fetched[next(iter(self._fetched))]


def unanswered_reason(exchange: Exchange) -> str | None:
    """The reason why no answer was to be expected; None if there is none."""
    reason = exchange.outcome_reason or ""
    if reason not in ENDED:
        return EXPECTED.get(reason)
    if _waits_for_records(exchange):
        return LEFT
    return BEHIND if exchange.in_flight else None


class Errors(Answer):
    """Accumulator of the rows."""

    # What succeeds tells which codes passed, and the options on errors leave it out.
    serving: ClassVar[Mapping[str, frozenset[int]]] = dict.fromkeys(
        ("--errors-only", "--error"), frozenset(schema.api_names())
    )
    about: ClassVar[Mapping[str, tuple[str, ...]]] = {"--error": ("error", "code")}

    def __init__(self) -> None:
        super().__init__()
        self._faults = self.records(_Fault)
        self._flows = self.records(_Success, SUCCESSES_KEPT)
        self._topics = self.records(_Success, SUCCESSES_KEPT)
        self._expectation = Expectation()

    def names(self, row: Row, option: str) -> list[str]:
        # A pattern of codes takes in no request without an answer.
        return [] if row["code"] is None else super().names(row, option)

    def add(self, exchange: Exchange) -> None:
        if exchange.outcome == NO_ANSWER:
            self._add_unanswered(exchange)
            return
        codes = error_counts(exchange)
        if codes:
            self._add_codes(exchange, codes)
        elif exchange.outcome == ANSWERED:
            flow = self._flows.of(exchange.api_key, exchange.client_id, exchange.connection.client_ip)
            _note(flow, exchange.timestamp)
            self._expectation.note(exchange)
        if exchange.api_key == METADATA:
            self._note_topics(exchange)

    def _add_unanswered(self, exchange: Exchange) -> None:
        fault = self._fault(exchange, None, 1)
        reason = exchange.outcome_reason or ""
        if fault is None:
            return
        self.count(fault.reasons, reason)
        expected = unanswered_reason(exchange)
        if expected is not None:
            self.count(fault.expected, expected)
        self._keep_names(fault, exchange, exchange.summary.topics, exchange.summary.groups)

    def _add_codes(self, exchange: Exchange, codes: dict[int, int]) -> None:
        for code, times in codes.items():
            fault = self._fault(exchange, code, times)
            if fault is None:
                continue
            expected = self._expectation.reason(exchange, code)
            if expected is not None:
                self.count(fault.expected, expected, times)
            if may_pass(exchange.api_key, code) and exchange.timestamp is not None:
                self.keep(fault.stretches, exchange.timestamp // STRETCH_NS)
            topics = exchange.summary.error_topics.get(code) or exchange.summary.topics
            self._keep_names(fault, exchange, topics, _groups(exchange, code))

    def _fault(self, exchange: Exchange, code: int | None, times: int) -> _Fault | None:
        key = exchange.api_key, exchange.api, code, exchange.client_id, exchange.connection.client_ip
        fault = self._faults.of(*key)
        if fault is None:
            return None
        fault.count += times
        time = exchange.timestamp
        if time is not None:
            fault.first = time if fault.first is None else min(fault.first, time)
            fault.last = time if fault.last is None else max(fault.last, time)
        return fault

    def _keep_names(
        self, fault: _Fault, exchange: Exchange, topics: Iterable[str], groups: Iterable[str]
    ) -> None:
        nameless = exchange.summary.unresolved_topic_ids
        for topic in topics:
            self.keep(fault.topics, (None, topic) if topic in nameless else (topic, None))
        for group in groups:
            self.keep(fault.groups, group)

    def _note_topics(self, exchange: Exchange) -> None:
        """Note the topics that a Metadata answer knows."""
        summary = exchange.summary
        if len(summary.topics) <= TOPICS_NOTED:
            wrong = {topic for topics in summary.error_topics.values() for topic in topics}
            for topic in summary.topics:
                if topic not in wrong:
                    _note(self._topics.of(topic), exchange.timestamp)

    # ------------------------------------------------------------------ the whole

    def result(self, told: Told) -> list[Row]:
        flows = {key: flow.last for key, flow in self._flows.items()}
        topics = {topic: found.last for (topic,), found in self._topics.items()}
        rows = []
        for (api_key, api, code, *client), fault in self._faults.items():
            reasons = dict(fault.expected)
            rest = fault.count - sum(reasons.values())
            if rest and api_key == METADATA and code in (UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE):
                after = min(((topics.get(name or "") or 0) for name, _ in fault.topics), default=None)
                reasons |= {APPEARED: rest} if _passed(fault, after) else {}
            elif rest and may_pass(api_key, code):
                went_on = max(flows.get((key, *client)) or 0 for key in (api_key, WON.get(api_key, api_key)))
                reasons |= {PASSED: rest} if _passed(fault, went_on) else {}
            rows.append(_row(api, code, client, fault, reasons, told))
        return sorted(rows, key=_place)


def _waits_for_records(exchange: Exchange) -> bool:
    """True for a Fetch whose answer was not due yet as its connection ended."""
    begin, end, longest = exchange.timestamp, exchange.completed_at, exchange.summary.max_wait_ms
    if exchange.api_key not in FETCHES or begin is None or end is None or longest is None:
        return False
    return end - begin < 2 * longest * NS_PER_MS


def may_pass(api_key: int | None, code: int | None) -> bool:
    """True for an error code of an API that is expected if it passes soon."""
    return code in PASSING or (api_key == METADATA and code == UNKNOWN_TOPIC)


def _passed(fault: _Fault, success: int | None) -> bool:
    """True if a fault came in short stretches, and something succeeded after the last one."""
    if fault.last is None or success is None or success <= fault.last:
        return False
    return not any(
        fault.stretches.issuperset(range(stretch, stretch + STRETCHES + 1)) for stretch in fault.stretches
    )


def _note(success: _Success | None, time: int | None) -> None:
    if success is not None and time is not None and (success.last is None or success.last < time):
        success.last = time


def _groups(exchange: Exchange, code: int) -> Iterable[str]:
    """The groups that an error code is about: of several those in whose part of the response it stands."""
    groups = exchange.summary.groups
    if len(groups) <= 1 or exchange.response is None:
        return groups
    body = exchange.response.body or {}
    paths = [error["path"] for error in exchange.summary.errors if error["code"] == code]
    named = {name for path in paths for name in _names_on(body, path)}
    return [group for group in groups if group in named] or groups


def _names_on(struct: Any, path: str) -> Iterable[str]:
    """Names in the structs on the way to a path such as `groups[0].topics[1]`."""
    found = []
    for name, index in _PATH_STEP.findall(path):
        struct = (struct or {}).get(name)
        if index:
            struct = struct[int(index)] if struct and int(index) < len(struct) else None
        if isinstance(struct, dict):
            found += [struct.get("group_id"), struct.get("key")]
    return [name for name in found if isinstance(name, str)]


def _row(
    api: str | None, code: int | None, client: list[Any], fault: _Fault, reasons: dict[str, int], told: Told
) -> Row:
    meaning, advice = _unanswered(fault, reasons) if code is None else schema.advice_for(code)[:2]
    return {
        "api": api,
        "error": UNANSWERED if code is None else schema.error_name(code),
        "code": code,
        "retriable": None if code is None else schema.error_retriable(code),
        "expected": sum(reasons.values()) >= fault.count,
        "expected_reasons": dict(sorted(reasons.items())),
        "client_id": client[0],
        "client_ip": client[1],
        "count": fault.count,
        "first": iso_time(fault.first),
        "last": iso_time(fault.last),
        "topics": sorted({told.topic_name(topic) or "" for topic in fault.topics}),
        "groups": sorted(fault.groups),
        "meaning": meaning,
        "advice": advice,
    }


def _unanswered(fault: _Fault, expected: dict[str, int]) -> tuple[str, str]:
    """Meaning and advice of requests without an answer. `expected`: those that are, by the reason."""
    if sum(expected.values()) >= fault.count:
        told, advice = expected, NO_ADVICE if fault.reasons.keys() <= EXPECTED.keys() else LEFT_ADVICE
    else:
        told, advice = (
            {REASONS.get(reason, reason): count for reason, count in fault.reasons.items()},
            CLOSED_ADVICE,
        )
    names = sorted(told, key=lambda reason: (-told[reason], reason))
    return f"No answer was seen: {', '.join(names)}.", advice


def _place(row: Row) -> tuple[Any, ...]:
    """The order of rows: unexpected ones first, then the most frequent."""
    names = row["error"], row["api"] or "", row["client_id"] or "", row["client_ip"]
    return row["expected"], -row["count"], *names


OPEN = Errors
