"""Transactions of one transactional id, from what was asked of brokers and what they answered.

Sources: KIP-98 (transactions), KIP-360 and KIP-588 (fencing), KIP-890 (version 2: the epoch grows with each
transaction, and a Produce adds its partitions by itself).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kinspect.kafka.wire.order import LineKey

COMMITTED, ABORTED, FENCED, TIMED_OUT, ONGOING = "committed", "aborted", "fenced", "timed_out", "open"
UNANSWERED = 1 << 15
"""In place of an error code: there is no answer."""
CONCURRENT_TRANSACTIONS = 51
FENCING = frozenset({47, 90})
"""INVALID_PRODUCER_EPOCH, PRODUCER_FENCED."""
# What an event says: a part of a transaction, its end, a new producer, a marker, a state.
PART, END, INIT, MARKER, STATE = range(5)
STATE_ONGOING, STATE_FENCING = "Ongoing", "PrepareEpochFence"
_STATES = {
    "PrepareCommit": COMMITTED,
    "CompleteCommit": COMMITTED,
    "PrepareAbort": ABORTED,
    "CompleteAbort": ABORTED,
}
NS_PER_MS = 1_000_000

Partition = tuple[str, str, int]
"""A topic's name, its id (each empty if it is not told), and an index."""


class Event(NamedTuple):
    """A request about a transaction, with its answer. Times in nanoseconds, 0 if unknown; ids, epochs and counts -1 if
    unknown.

    `value`: of an END and a MARKER 1 to commit, of an INIT the timeout, of a STATE the beginning, both in milliseconds.
    `version`: a marker's transaction version. `word`: a group, or the name of a state.
    """

    time: int
    key: LineKey
    kind: int
    producer: int = -1
    epoch: int = -1
    error: int = 0
    done: int = 0
    value: int = -1
    version: int = -1
    word: str = ""
    records: int = 0
    bytes: int = 0
    partitions: tuple[Partition, ...] = ()


@dataclass(slots=True)
class Transaction:
    """A transaction. `outcome` is None if it ended unseen; `asked`: the outcome that an unanswered EndTxn asked for;
    `known`: when a broker had taken its first part; `fencing`: a new producer wants its place."""

    producer: int
    epoch: int
    began: int = 0
    known: int = 0
    ended: int = 0
    outcome: str | None = ONGOING
    asked: str | None = None
    fencing: bool = False
    partitions: set[Partition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    records: int | None = 0
    bytes: int = 0

    def add(self, event: Event) -> None:
        """Add what a part of it says."""
        self.partitions.update(event.partitions)
        if event.word:
            self.groups.add(event.word)
        self.bytes += event.bytes
        self.records = None if event.records < 0 or self.records is None else self.records + event.records


class History:
    """The transactions of one transactional id; events are added in the order of their times."""

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self._open: Transaction | None = None
        # Producer id and epoch that hold the transactional id, and its timeout in nanoseconds.
        self._holder: tuple[int, int] | None = None
        self._timeout: int | None = None
        # Producers that were told, and those found out that they were replaced.
        self._told: set[tuple[int, int]] = set()
        self._replaced: set[tuple[int, int]] = set()

    def add(self, event: Event) -> None:
        """Add the next event."""
        _ADD[event.kind](self, event)

    def _part(self, event: Event) -> None:
        if event.error in FENCING:
            self._refused_part(event)
        elif event.error in (0, UNANSWERED) and not self._is_replaced(event):
            there = self._of(event)
            if there is None:
                there = self._begin(event.producer, event.epoch, event.time, _known(event))
            there.add(event)

    def _refused_part(self, event: Event) -> None:
        """The client learns that another producer has its place, or that its transaction timed out."""
        there = self._of(event)
        if there is not None:
            self._end(there, self._how_replaced(there, event.time), event.done)
        elif (event.producer, event.epoch) not in self._replaced:
            # One that the client had begun, and no broker took.
            told = Transaction(event.producer, event.epoch, event.time, event.done, event.done, FENCED)
            self.transactions.append(told)
            self._replaced.add((event.producer, event.epoch))

    def _asked_end(self, event: Event) -> None:
        there, outcome = self._of(event), COMMITTED if event.value == 1 else ABORTED
        if event.error == 0:
            if there is None and (event.producer, event.epoch) not in self._told:
                there = self._begin(event.producer, event.epoch, 0, event.time)
            if there is not None:
                self._end(there, outcome, event.done)
            self._told.add((event.producer, event.epoch))
        elif there is not None and event.error in FENCING:
            self._end(there, self._how_replaced(there, event.time), event.done)
        elif there is not None and event.error == UNANSWERED:
            there.asked = outcome

    def _init(self, event: Event) -> None:
        there = self._open
        if event.error == 0:
            if there is not None:
                how = None if there.asked else self._how_replaced(there, event.time)
                self._end(there, how, event.done)
            self._holder = event.producer, event.epoch
            self._told.add(self._holder)
            self._timeout = event.value * NS_PER_MS if event.value > 0 else None
        elif there is not None and event.error == CONCURRENT_TRANSACTIONS:
            there.fencing = True

    def _marker(self, event: Event) -> None:
        there = self._told_of(event)
        if there is None:
            return
        outcome = COMMITTED if event.value == 1 else self._how_aborted(there, event)
        self._end(there, outcome, event.done or event.time)

    def _state(self, event: Event) -> None:
        if event.word == STATE_ONGOING:
            if self._open is None:
                began = event.value * NS_PER_MS if event.value > 0 else 0
                self._begin(event.producer, event.epoch, began, event.time).partitions.update(
                    event.partitions
                )
            return
        there = self._told_of(event)
        if there is None:
            return
        if event.word == STATE_FENCING:
            there.fencing = True
        elif event.word in _STATES:
            outcome = _STATES[event.word]
            self._end(there, self._how_aborted(there, event) if outcome == ABORTED else outcome, event.done)

    def _begin(self, producer: int, epoch: int, began: int, known: int) -> Transaction:
        if self._open is not None:
            # It ended before: as asked, or nobody saw how.
            self._end(self._open, self._open.asked, 0)
        self._holder = producer, epoch
        self._told.add(self._holder)
        self._open = Transaction(producer, epoch, began, known)
        self.transactions.append(self._open)
        return self._open

    def _end(self, there: Transaction, outcome: str | None, when: int) -> None:
        there.outcome, there.ended = outcome, when
        if outcome in (FENCED, TIMED_OUT):
            self._replaced.add((there.producer, there.epoch))
        self._open = None

    def _of(self, event: Event) -> Transaction | None:
        """The open transaction, if the event is of its producer."""
        there = self._open
        if there is None or event.producer < 0:
            return there
        if there.epoch < 0 and there.producer in (-1, event.producer):
            # Told without its epoch.
            there.producer, there.epoch = event.producer, event.epoch
        return there if (event.producer, event.epoch) == (there.producer, there.epoch) else None

    def _told_of(self, event: Event) -> Transaction | None:
        """The open transaction, if a marker or a state tells of it and not of the one before: a coordinator takes a
        part of the next one only when all markers of that one are written."""
        there = self._open
        return (
            there
            if there is not None and there.producer == event.producer and event.time >= there.known
            else None
        )

    def _is_replaced(self, event: Event) -> bool:
        """True for a producer whose place another one has."""
        one = event.producer, event.epoch
        if one in self._replaced:
            return True
        holder = self._holder
        return holder is not None and one != holder and one < holder and one in self._told

    def _how_replaced(self, there: Transaction, time: int) -> str:
        """The end of a transaction whose producer lost its place."""
        return TIMED_OUT if not there.fencing and self._is_over(there, time) else FENCED

    def _how_aborted(self, there: Transaction, event: Event) -> str:
        """The end of a transaction that was aborted and for which no answered EndTxn asked.

        A coordinator that aborts by itself takes the next epoch; in version 2 it does so for EndTxn too.
        """
        if there.asked == ABORTED or event.epoch == there.epoch:
            return ABORTED
        if there.fencing:
            return FENCED
        if self._timeout is None or self._is_over(there, event.time):
            return TIMED_OUT
        return ABORTED if event.version >= 2 else FENCED

    def _is_over(self, there: Transaction, time: int) -> bool:
        began = there.began or there.known
        return self._timeout is not None and bool(began) and time - began >= self._timeout


_ADD: dict[int, Any] = {
    PART: History._part,
    END: History._asked_end,
    INIT: History._init,
    MARKER: History._marker,
    STATE: History._state,
}


def _known(event: Event) -> int:
    return event.time if event.error == UNANSWERED else event.done or event.time


def history(events: Iterable[Event]) -> list[Transaction]:
    """The transactions in the order of their first events. `events`: in any order."""
    found = History()
    for event in sorted(events):
        found.add(event)
    return found.transactions
