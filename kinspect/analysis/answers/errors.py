"""Error codes by API and client, expected ones told apart, with what they mean and what to do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from kinspect.analysis.answer import Answer, Row, Told, Topic
from kinspect.analysis.answers.expected import (
    EXPECTED,
    Expectation,
    Flow,
    Successes,
    appears,
    flow_of,
    may_pass,
    unanswered_reason,
)
from kinspect.analysis.bursts import Bursts
from kinspect.analysis.record import GREATEST, LEAST, Record
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.summary import error_counts
from kinspect.kafka.view.view import iso_time
from kinspect.kafka.wire.pair import ANSWERED
from kinspect.kafka.wire.pair import UNANSWERED as NO_ANSWER
from kinspect.protocol import schema
from kinspect.protocol.apikeys import METADATA

UNANSWERED = "UNANSWERED"
"""Name, in place of an error code's, of a request without an answer."""
SUCCESSES_KEPT = 100_000
"""Largest number of clients' APIs, and of topics, of which it is known when they succeeded."""
TOPICS_NOTED = 100
"""Answers to Metadata with more topics do not count as proof that a topic is there."""
REASONS = {
    **EXPECTED,
    "closed": "the connection was closed",
    "reset": "the connection was reset",
    "idle": "the connection fell silent",
    "cap": "a limit of kinspect was reached",
    "acks_unknown": "none may have been due",
}
NO_ADVICE = "Nothing is to be done, but to capture longer or with less loss."
LEFT_ADVICE = "Nothing is to be done if a client or broker was stopped then."
CLOSED_ADVICE = (
    "Find who closed or went silent: the broker's log may say why; compare request.timeout.ms of the client."
)

_PATH_STEP = re.compile(r"(\w+)(?:\[(\d+)\])?")


@dataclass(slots=True)
class _Fault(Record):
    """One error code, or requests without an answer, of one API, client and broker. `expected`: occurrences by the
    reason why each is part of normal operation; `bursts`: those that are if they passed."""

    count: int = 0
    first: int | None = field(default=None, metadata=LEAST)
    last: int | None = field(default=None, metadata=GREATEST)
    expected: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    topics: set[Topic] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    bursts: Bursts = field(default_factory=Bursts)


@dataclass(slots=True)
class _Success(Record):
    """When something succeeded."""

    times: Bursts = field(default_factory=Bursts)


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
            for code, times in codes.items():
                self._add_code(exchange, code, times)
        elif exchange.outcome == ANSWERED:
            client = exchange.client_id, exchange.connection.client_ip
            self._note(self._flows.of(exchange.api_key, client), exchange.timestamp)
            self._expectation.note(exchange)
        if exchange.api_key == METADATA:
            self._note_topics(exchange)

    def _add_unanswered(self, exchange: Exchange) -> None:
        fault = self._fault(exchange, None, 1)
        if fault is None:
            return
        self.count(fault.reasons, exchange.outcome_reason or "")
        expected = unanswered_reason(exchange)
        if expected is not None:
            self.count(fault.expected, expected)
        self._keep_names(fault, exchange, exchange.summary.topics, exchange.summary.groups)

    def _add_code(self, exchange: Exchange, code: int, times: int) -> None:
        expected = self._expectation.reason(exchange, code)
        passes = expected is None and may_pass(exchange, code)
        topics = exchange.summary.error_topics.get(code, {})
        parts: dict[str | None, int] = {}
        if passes and appears(exchange.api_key, code):
            parts.update(topics)
        if rest := times - sum(parts.values()):
            parts[None] = rest
        groups = _groups(exchange, code)
        for topic, count in parts.items():
            fault = self._fault(exchange, code, count, topic)
            if fault is None:
                continue
            if expected is not None:
                self.count(fault.expected, expected, count)
            elif passes:
                self._burst(fault.bursts, exchange.timestamp, count)
            named = topics or exchange.summary.topics if topic is None else (topic,)
            self._keep_names(fault, exchange, named, groups)

    def _fault(
        self, exchange: Exchange, code: int | None, times: int, topic: str | None = None
    ) -> _Fault | None:
        fault = self._faults.of(exchange.api, *flow_of(exchange, code, topic))
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
                    self._note(self._topics.of(topic), exchange.timestamp)

    def _note(self, success: _Success | None, time: int | None) -> None:
        if success is not None:
            self._burst(success.times, time, 1)

    def _burst(self, bursts: Bursts, time: int | None, count: int) -> None:
        """Count a moment, if there is room for a burst of its own."""
        if time is not None and (bursts.joins(time) or self._has_room()):
            bursts.add(time, count)

    # ------------------------------------------------------------------ the whole

    def result(self, told: Told) -> list[Row]:
        successes = Successes(
            {key: success.times for key, success in self._flows.items()},
            {topic: success.times for (topic,), success in self._topics.items()},
            told.end,
        )
        rows: dict[tuple[Any, ...], tuple[_Fault, Counter[str | bool | None]]] = {}
        for (api, *values), fault in self._faults.items():
            flow = Flow(*values)
            row, verdicts = rows.setdefault((api, flow.code, *flow.client), (_Fault(), Counter()))
            row.merge(fault)
            for burst in fault.bursts:
                verdicts[successes.passed(flow, burst)] += burst.times
        found = [
            _row(api, code, client, fault, verdicts, told)
            for (api, code, *client), (fault, verdicts) in rows.items()
        ]
        return sorted(found, key=_place)


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
    api: str | None,
    code: int | None,
    client: list[Any],
    fault: _Fault,
    verdicts: Mapping[str | bool | None, int],
    told: Told,
) -> Row:
    """`verdicts`: occurrences by the reason why they are expected as they passed; None: nothing tells."""
    passed = {reason: count for reason, count in verdicts.items() if isinstance(reason, str)}
    reasons = {**fault.expected, **passed}
    expected = sum(reasons.values())
    meaning, advice = _unanswered(fault, reasons) if code is None else schema.advice_for(code)[:2]
    return {
        "api": api,
        "error": UNANSWERED if code is None else schema.error_name(code),
        "code": code,
        "retriable": None if code is None else schema.error_retriable(code),
        "expected": _is_expected(fault.count, expected, verdicts.get(None, 0)),
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


def _is_expected(count: int, expected: int, open_ones: int) -> bool | None:
    """`open_ones`: occurrences of which nothing tells."""
    if expected >= count:
        return True
    return None if expected + open_ones >= count else False


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
    return bool(row["expected"]), -row["count"], *names


OPEN = Errors
