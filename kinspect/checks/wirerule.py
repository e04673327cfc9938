"""A rule: which exchanges it is about, what is expected of them, and what was seen."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kinspect.checks.bounds import Bounds
from kinspect.checks.condition import API, Condition
from kinspect.filteredvalues import VALUE_CHARACTERS
from kinspect.filters.values import Verdict
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View
from kinspect.model import NS_PER_SECOND
from kinspect.wording import counted

PASSED, FAILED, UNKNOWN = "passed", "failed", "unknown"
KEYS: Final = tuple("rule status broken expected seen reasons exchanges unsure failing evidence".split())
"""The keys of a result, in their order."""
EVIDENCE_KEYS: Final = tuple(
    "timestamp file frame client_ip client_port client_id api api_version event_id seen".split()
)
"""Those of an exchange in `evidence`."""
RATE_MOST: Final = 10_000
"""Greatest number of exchanges within a second that a rule can allow."""
TIMES_MOST: Final = 1_000_000
"""Exchanges whose times are kept for all rules together, 8 bytes each."""
TEXTS_MOST: Final = 20
"""Different values that are counted of a condition."""
TEXTS_SHOWN: Final = 3
_VIEW: Final = View(
    fields="timestamp client broker api api_version event_id request.frames response.frames".split()
)

Row = dict[str, Any]


class SeenTexts:
    """How often each of some texts was seen; the first `TEXTS_MOST` are counted apart."""

    def __init__(self) -> None:
        self.total = 0
        self._counts: dict[str, int] = {}

    def note(self, text: str) -> None:
        self.total += 1
        text = text[:VALUE_CHARACTERS]
        if text and (text in self._counts or len(self._counts) < TEXTS_MOST):
            self._counts[text] = self._counts.get(text, 0) + 1

    def text(self) -> str:
        """The most frequent ones, with their numbers if there are several: `acks = 1 (2), acks = 0 (1)`."""
        ranked = sorted(self._counts.items(), key=lambda each: (-each[1], each[0]))
        if len(ranked) == 1 and ranked[0][1] == self.total:
            return ranked[0][0]
        more = ["…"] if len(ranked) > TEXTS_SHOWN else []
        return ", ".join([*(f"{text} ({count:,})" for text, count in ranked[:TEXTS_SHOWN]), *more])


class Judgement(NamedTuple):
    """What became of one of a rule's expectations. `reasons`: why it is not known."""

    status: str
    expected: str
    seen: str
    reasons: Sequence[str] = ()
    evidence: Sequence[Row] = ()


class WireRule:
    """A rule, and what it found in the exchanges that it was given.

    `where`: conditions that exchanges meet which it is about; `have`: conditions that each of these is to meet;
    `count`: how many there are to be; `per_second`: how many at most there may be within any second; `most`: examples
    that it keeps of what breaks an expectation. `times_most`: exchanges whose times it keeps.
    """

    def __init__(
        self,
        name: str,
        where: Sequence[Condition] = (),
        have: Sequence[Condition] = (),
        count: Bounds | None = None,
        per_second: int | None = None,
        most: int = 3,
    ) -> None:
        self.name = name
        # One that asks each for something passes only if there is one.
        self._count = count or Bounds(1 if have else 0)
        self._where, self._have, self.per_second, self._most = where, have, per_second, most
        self.times_most = TIMES_MOST
        self._sure = self._unsure = 0
        self._first: list[Row] = []
        self._left_out = [SeenTexts() for _ in where]
        self._unclear = [0 for _ in where]
        self._broken = [SeenTexts() for _ in have]
        self._examples: list[list[Row]] = [[] for _ in have]
        self._doubtful = [0 for _ in have]
        self._times, self._maybe_times, self._timeless = array("q"), array("q"), 0
        self._recent: deque[tuple[int, Row]] = deque(maxlen=(per_second or 0) + 1)
        self._burst: list[Row] = []

    def begin(self, start: int | None) -> None:
        """Take note of the time of the capture's first packet."""
        for condition in (*self._where, *self._have):
            condition.begin(start)

    def take(self, exchange: Exchange) -> None:
        """Take the next exchange, in the order of completion."""
        chosen = self._chosen(exchange)
        if chosen is False:
            return
        if chosen:
            self._sure += 1
            if len(self._first) < self._most:
                # Each example tells of its API anyway.
                texts = (condition.seen(exchange) for condition in self._where if condition.name != API)
                self._first.append(evidence(exchange, ", ".join(filter(None, texts))))
        else:
            self._unsure += 1
        for at, condition in enumerate(self._have):
            met = condition.verdict(exchange, each=True)
            if met is None or not (met or chosen):
                self._doubtful[at] += 1
            elif not met:
                seen = condition.seen(exchange)
                self._broken[at].note(seen)
                if len(self._examples[at]) < self._most:
                    self._examples[at].append(evidence(exchange, seen))
        if self.per_second is not None:
            self._note_time(exchange, bool(chosen))

    def result(self, unseen: Sequence[str], mistimed: Sequence[str] = (), allow_unknown: bool = False) -> Row:
        """What became of the rule, with `KEYS`. `unseen`: why exchanges may be missing, none if none are; `mistimed`:
        why their times may be wrong; `allow_unknown`: the rule is not broken where that is not known. A rule with a
        condition that none can meet, as the exchanges show, fails."""
        judged = [
            *self._mistaken(),
            self._judged_count(unseen),
            *(self._judged_each(at, unseen) for at in range(len(self._have))),
        ]
        if self.per_second is not None:
            judged.append(self._judged_rate(unseen, mistimed))
        status = next(
            (bad for bad in (FAILED, UNKNOWN) if any(each.status == bad for each in judged)), PASSED
        )
        told = [each for each in judged if each.status == status and each.expected] or judged
        return {
            "rule": self.name,
            "status": status,
            "broken": status == FAILED or (status == UNKNOWN and not allow_unknown),
            "expected": "; ".join(filter(None, (each.expected for each in told))),
            "seen": "; ".join(filter(None, (each.seen for each in told))),
            "reasons": [*dict.fromkeys(reason for each in told for reason in each.reasons)],
            "exchanges": self._sure,
            "unsure": self._unsure,
            "failing": max((broken.total for broken in self._broken), default=0),
            "evidence": [row for each in told for row in each.evidence][: self._most],
        }

    def _chosen(self, exchange: Exchange) -> Verdict:
        """Whether the rule is about an exchange."""
        unclear = None
        for at, condition in enumerate(self._where):
            verdict = condition.verdict(exchange, each=False)
            if verdict is False:
                self._left_out[at].note(condition.seen(exchange))
                return False
            if verdict is None and unclear is None:
                unclear = at
        if unclear is None:
            return True
        self._unclear[unclear] += 1
        return None

    def _note_time(self, exchange: Exchange, chosen: bool) -> None:
        time = exchange.timestamp
        if time is None or len(self._times) + len(self._maybe_times) >= self.times_most:
            self._timeless += 1
            return
        if not chosen:
            self._maybe_times.append(time)
            return
        self._times.append(time)
        recent = self._recent
        recent.append((time, evidence(exchange)))
        # Exchanges come by their completion, not by their times.
        if not self._burst and len(recent) == recent.maxlen and abs(time - recent[0][0]) < NS_PER_SECOND:
            times = [each for each, _ in recent]
            if max(times) - min(times) < NS_PER_SECOND:
                self._burst = [row for _, row in recent][: self._most]

    @property
    def _about(self) -> str:
        return ", ".join(condition.text for condition in self._where)

    def _doubts(self) -> list[str]:
        """Why it is not known whether the rule is about some exchanges."""
        return [
            f"{counted(count, 'exchange')} of which {condition.name} is not known"
            for condition, count in zip(self._where, self._unclear, strict=True)
            if count
        ]

    def _mistaken(self) -> Iterator[Judgement]:
        for condition in (*self._where, *self._have):
            if mistake := condition.mistake():
                yield Judgement(FAILED, f"a value that {condition.name} can have", mistake)

    def _judged_count(self, unseen: Sequence[str]) -> Judgement:
        bounds, least, most = self._count, self._sure, self._sure + self._unsure
        if bounds == Bounds():
            return Judgement(PASSED, "", "")
        about = self._about
        expected = bounds.text("exchange") + (f" with {about}" if about else "")
        seen = counted(least, "exchange") if least else f"no exchange{self._instead() if bounds.low else ''}"
        if bounds.high is not None and least > bounds.high:
            return Judgement(FAILED, expected, seen, (), self._first)
        enough, few = least >= bounds.low, bounds.high is None or (most <= bounds.high and not unseen)
        if enough and few:
            return Judgement(PASSED, expected, seen)
        if most < bounds.low and not unseen:
            return Judgement(FAILED, expected, seen, (), self._first)
        return Judgement(UNKNOWN, expected, seen, [*self._doubts(), *unseen])

    def _instead(self) -> str:
        """What there was, of those that the last condition left out: the ones before it let them pass."""
        for at in reversed(range(len(self._where))):
            if (left := self._left_out[at]).total:
                before = ", ".join(each.text for each in self._where[:at])
                told = f": {left.text()}" if left.text() else ""
                which = f" with {before}" if before else ""
                return f"; {self._where[at].text} left out {counted(left.total, 'exchange')}{which}{told}"
        return ""

    def _judged_each(self, at: int, unseen: Sequence[str]) -> Judgement:
        condition, broken, doubtful = self._have[at], self._broken[at], self._doubtful[at]
        about = self._about
        expected = condition.text + (f" where {about}" if about else "")
        if broken.total:
            instead = broken.text() or f"not {condition.text}"
            seen = f"{instead} in {broken.total:,} of {counted(self._sure, 'exchange')}"
            return Judgement(FAILED, expected, seen, (), self._examples[at])
        seen = (
            f"{condition.text} in {counted(self._sure - doubtful, 'exchange')}"
            if self._sure > doubtful
            else ""
        )
        reasons = (
            [f"{counted(doubtful, 'exchange')} of which {condition.name} is not known"] if doubtful else []
        )
        if reasons or unseen:
            return Judgement(UNKNOWN, expected, seen, [*reasons, *unseen])
        return Judgement(PASSED, expected, seen)

    def _judged_rate(self, unseen: Sequence[str], mistimed: Sequence[str]) -> Judgement:
        allowed = self.per_second or 0
        about = self._about
        which = f" with {about}" if about else ""
        expected = f"at most {counted(allowed, 'exchange')}{which} within a second"
        most = _most_within_a_second(self._times)
        seen = f"{counted(most, 'exchange')} within a second"
        if most > allowed and not mistimed:
            return Judgement(FAILED, expected, seen, (), self._burst)
        reasons = [*unseen, *mistimed]
        if self._timeless:
            reasons.append(f"{counted(self._timeless, 'exchange')} whose time is not known, or not kept")
        if _most_within_a_second([*self._times, *self._maybe_times]) > allowed:
            reasons += self._doubts()
        return Judgement(UNKNOWN if reasons else PASSED, expected, seen, reasons)


def _most_within_a_second(times: Iterable[int]) -> int:
    """The greatest number of times that are less than a second apart."""
    ordered = sorted(times)
    most = begin = 0
    for end, time in enumerate(ordered):
        while time - ordered[begin] >= NS_PER_SECOND:
            begin += 1
        most = max(most, end - begin + 1)
    return most


def evidence(exchange: Exchange, seen: str = "") -> Row:
    """Where an exchange is and whose it was, with `EVIDENCE_KEYS`. `seen`: what it has in place of what is expected."""
    line = _VIEW.exchange(exchange)
    frames = (line["request"] or line["response"])["frames"]
    client = line["client"]
    values = (
        line["timestamp"],
        frames["file"],
        frames["first"],
        client["ip"],
        client["port"],
        client["id"],
        line["api"],
        line["api_version"],
        line["event_id"],
        seen or None,
    )
    return dict(zip(EVIDENCE_KEYS, values, strict=True))
