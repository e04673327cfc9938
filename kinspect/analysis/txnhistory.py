"""Transactions of one transactional id, from what was asked of brokers and what they answered.

Sources: KIP-98 (transactions), KIP-360 and KIP-588 (fencing), KIP-890 (version 2: the epoch grows with each
transaction, and a Produce adds its partitions by itself).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kinspect.kafka.wire.lineorder import LineKey
from kinspect.model import NS_PER_MS

COMMITTED, ABORTED, FENCED, TIMED_OUT, ONGOING = "committed", "aborted", "fenced", "timed_out", "open"
UNANSWERED = 1 << 15
"""In place of an error code: there is no answer."""
CONCURRENT_TRANSACTIONS = 51
FENCING = frozenset({47, 90})
"""INVALID_PRODUCER_EPOCH, PRODUCER_FENCED."""
# What an event says: a part of a transaction, its end, a new producer, a marker, a state; or that others before it may
# be missing.
PART, END, INIT, MARKER, STATE, GAP = range(6)
STATE_ONGOING, STATE_FENCING = "Ongoing", "PrepareEpochFence"
_OUTCOMES = {1: COMMITTED, 0: ABORTED}
_STATES = {
    "PrepareCommit": COMMITTED,
    "CompleteCommit": COMMITTED,
    "PrepareAbort": ABORTED,
    "CompleteAbort": ABORTED,
}

Partition = tuple[str, str, int]
"""A topic's name, its id (each empty if unknown), and an index."""


class Event(NamedTuple):
    """A request about a transaction, with its answer. Times in nanoseconds, 0 if unknown; ids, epochs and counts -1 if
    unknown.

    `value`: of an END and a MARKER 1 to commit, of an INIT the timeout in milliseconds.
    `version`: a marker's transaction version. `word`: a group, the name of a state, or of an INIT the client's id.
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
    `known`: when a broker had taken its first part; `fencing`: a new producer wants its place; `fenced_by`: its client;
    `doubt`: parts of it, or of another one before it, may be missing; `lost`: so may its end; `answered`: an EndTxn
    was, so that it ended then. Of `records` and `bytes`
    None is unknown."""

    producer: int
    epoch: int
    began: int = 0
    known: int = 0
    ended: int = 0
    outcome: str | None = ONGOING
    asked: str | None = None
    fencing: bool = False
    fenced_by: str | None = None
    doubt: bool = False
    lost: bool = False
    answered: bool = False
    partitions: set[Partition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    records: int | None = 0
    bytes: int | None = 0

    def add(self, event: Event) -> None:
        """Add what a part of it says; one without an answer may have been refused."""
        if event.error == UNANSWERED:
            self.records = self.bytes = None
            return
        self.lost = False
        self.partitions.update(event.partitions)
        if event.word:
            self.groups.add(event.word)
        self.bytes = None if event.bytes < 0 or self.bytes is None else self.bytes + event.bytes
        self.records = None if event.records < 0 or self.records is None else self.records + event.records

    def lose(self) -> None:
        """Note that parts of it may be missing."""
        self.doubt = self.lost = True
        self.began = 0
        self.records = self.bytes = None


class TransactionHistory:
    """The transactions of one transactional id; events are added in the order of their times."""

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        # Whether a transaction may have begun that was not seen; no longer once a producer has begun or ended one.
        self._doubt = True
        self._open: Transaction | None = None
        # Producer id and epoch that hold the transactional id, and its timeout in nanoseconds.
        self._holder: tuple[int, int] | None = None
        self._holder_client: str | None = None
        self._timeout: int | None = None
        # Until when a transaction of a producer cannot have timed out.
        self._lasts: dict[tuple[int, int], int] = {}
        # Producers that were answered as fenced, and those known to be replaced.
        self._answered: set[tuple[int, int]] = set()
        self._replaced: set[tuple[int, int]] = set()
        # Those with a transaction whose end was not seen.
        self._unended: set[tuple[int, int]] = set()

    def add(self, event: Event) -> None:
        """Add the next event."""
        _ADD[event.kind](self, event)

    def _part(self, event: Event) -> None:
        if event.error in FENCING:
            self._refused_part(event)
        elif event.error in (0, UNANSWERED) and not self._is_replaced(event):
            there = self._of(event)
            if there is None:
                there = self._begin(event, event.time, _known(event))
            there.add(event)

    def _refused_part(self, event: Event) -> None:
        """The client learns that another producer has its place, or that its transaction timed out."""
        there = self._of(event)
        if there is not None:
            self._end(there, self._how_replaced(there, event.time), event.done)
        elif not any((event.producer, event.epoch) in known for known in (self._replaced, self._unended)):
            # One that the client had begun, and no broker took.
            made = Transaction(event.producer, event.epoch, event.time, event.done, event.done, FENCED)
            made.fenced_by = self._holder_client
            if self._doubt:
                made.lose()
                made.ended, made.fenced_by = 0, None
                made.outcome = FENCED if self._is_fenced(event) else None
            self.transactions.append(made)
            self._replaced.add((event.producer, event.epoch))

    def _asked_end(self, event: Event) -> None:
        there, outcome = self._of(event), _OUTCOMES.get(event.value)
        if event.error == 0:
            if there is None and (event.producer, event.epoch) not in self._answered:
                there = self._begin(event, 0, event.time)
                there.lose()
            if there is not None:
                there.answered = True
                self._end(there, outcome, event.done)
            self._answered.add((event.producer, event.epoch))
            self._doubt = False
        elif event.error in FENCING:
            self._refused_end(event)
        elif there is not None and event.error == UNANSWERED:
            there.asked, there.lost = outcome, True

    def _refused_end(self, event: Event) -> None:
        """The client learns it as it ends its transaction: a part that was refused before may be of a later one."""
        there, is_fenced = self._of(event), self._is_fenced(event)
        if there is not None:
            how = FENCED if is_fenced else self._how_replaced(there, event.time)
            self._end(there, how, 0 if there.doubt else event.done)
        elif is_fenced:
            for each in self.transactions[-1:]:
                if each.outcome is None and (each.producer, each.epoch) == (event.producer, event.epoch):
                    each.outcome = FENCED

    def _init(self, event: Event) -> None:
        there = self._open
        if event.error == 0:
            if there is not None:
                how = None if there.asked else self._how_replaced(there, event.time)
                there.fenced_by = event.word or None
                self._end(there, how, event.done)
            self._doubt = False
            self._holder, self._holder_client = (event.producer, event.epoch), event.word or None
            self._answered.add(self._holder)
            self._timeout = event.value * NS_PER_MS if event.value > 0 else None
            self._lasts[self._holder] = event.time + (self._timeout or 0)
        elif there is not None and event.error == CONCURRENT_TRANSACTIONS:
            there.fencing, there.fenced_by = True, event.word or None
        elif event.error == UNANSWERED:
            self._gap(event)

    def _marker(self, event: Event) -> None:
        there = self._open_of(event)
        if there is None:
            return
        outcome = (
            COMMITTED if event.value == 1 else self._how_aborted(there, event) if event.value == 0 else None
        )
        if event.epoch > there.epoch:
            # The coordinator takes the next epoch, and nothing of this one any more.
            self._replaced.add((there.producer, there.epoch))
        self._end(there, outcome, 0 if _may_be_later(there) else event.done or event.time)

    def _state(self, event: Event) -> None:
        if event.word == STATE_ONGOING:
            if self._open is None:
                made = self._begin(event, 0, event.time)
                made.lose()
                made.lost = False
                made.partitions.update(event.partitions)
            return
        there = self._open_of(event)
        if there is None:
            return
        if event.word == STATE_FENCING:
            there.fencing = True
        elif event.word in _STATES:
            outcome = _STATES[event.word]
            how = self._how_aborted(there, event) if outcome == ABORTED else outcome
            self._end(there, how, 0 if _may_be_later(there) else event.done)

    def _gap(self, event: Event) -> None:
        """Events before this one may be missing."""
        self._doubt = True
        if self._open is not None:
            self._open.lose()
        for each in self.transactions[-2:]:
            if not each.answered:
                # The answer to EndTxn may have come before the message that showed the end.
                each.ended = 0

    def _begin(self, event: Event, began: int, known: int) -> Transaction:
        producer, epoch = event.producer, event.epoch
        if self._open is not None:
            # It ended before: as asked, or nobody saw how.
            self._end(self._open, self._open.asked if event.error == 0 else None, 0)
        self._holder = producer, epoch
        self._answered.add(self._holder)
        self._open = Transaction(producer, epoch, began, known)
        # A part that may have been refused begins nothing for certain.
        if self._doubt or event.error == UNANSWERED:
            self._open.lose()
        self.transactions.append(self._open)
        return self._open

    def _end(self, there: Transaction, outcome: str | None, when: int) -> None:
        there.outcome, there.ended = outcome, when
        if outcome != FENCED:
            there.fenced_by = None
        if outcome in (FENCED, TIMED_OUT):
            self._replaced.add((there.producer, there.epoch))
        elif outcome is None:
            self._unended.add((there.producer, there.epoch))
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

    def _open_of(self, event: Event) -> Transaction | None:
        """The open transaction, if a marker or a state is about it and not of the one before: a coordinator takes a
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
        return holder is not None and one != holder and one < holder and one in self._answered

    def _is_fenced(self, event: Event) -> bool:
        """True if a refused producer cannot have timed out: then another one has its place, whatever was not seen."""
        return 0 < event.done < self._lasts.get((event.producer, event.epoch), 0)

    def _how_replaced(self, there: Transaction, time: int) -> str | None:
        """The end of a transaction whose producer lost its place."""
        if there.doubt and not there.fencing:
            return None
        return TIMED_OUT if not there.fencing and self._is_over(there, time) else FENCED

    def _how_aborted(self, there: Transaction, event: Event) -> str | None:
        """The end of a transaction that was aborted and for which no answered EndTxn asked.

        A coordinator that aborts by itself takes the next epoch; in version 2 it does so for EndTxn too.
        """
        if there.asked == ABORTED or event.epoch == there.epoch:
            return ABORTED
        if there.fencing:
            return FENCED
        if there.doubt or there.asked is not None:
            return None
        if self._timeout is None or self._is_over(there, event.time):
            return TIMED_OUT
        return ABORTED if event.version >= 2 else FENCED

    def _is_over(self, there: Transaction, time: int) -> bool:
        began = there.began or there.known
        return self._timeout is not None and bool(began) and time - began >= self._timeout


_ADD: dict[int, Any] = {
    PART: TransactionHistory._part,
    END: TransactionHistory._asked_end,
    INIT: TransactionHistory._init,
    MARKER: TransactionHistory._marker,
    STATE: TransactionHistory._state,
    GAP: TransactionHistory._gap,
}


def _may_be_later(there: Transaction) -> bool:
    """True if the answer to an EndTxn may have shown the end before."""
    return there.doubt or there.asked is not None


def _known(event: Event) -> int:
    return event.time if event.error == UNANSWERED else event.done or event.time


def history(events: Iterable[Event], chosen: bool = False) -> list[Transaction]:
    """The transactions in the order of their first events. `events`: in any order; `chosen`: there may have been others
    between any two of them."""
    found = TransactionHistory()
    for event in sorted(events):
        if chosen:
            found.add(event._replace(kind=GAP))
        found.add(event)
    for each in found.transactions:
        if each.outcome == ONGOING and (chosen or each.lost):
            # It may have ended.
            each.outcome = None
    return found.transactions
