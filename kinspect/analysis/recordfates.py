"""Whether records were committed: decided when their transaction's end is seen, later than the records.

Ends are known in two ways. By offsets: a Fetch of committed records, or a control batch with all offsets between seen
(KIP-98). By time: EndTxn, InitProducerId and WriteTxnMarkers, for what was produced before them in this capture, unless
another end may have been lost between. A batch is the same wherever its producer, epoch and sequence stand.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from kinspect.analysis.client import ClientKey
from kinspect.analysis.offsetranges import GrowingRanges, Range
from kinspect.analysis.txnhistory import ABORTED, COMMITTED, ONGOING
from kinspect.model import drop_oldest

NONE = "none"
KEPT = 100_000
"""Batches that may wait for their transaction's end, beyond which the oldest are unknown; outcomes, producers and
partitions that are remembered."""
ENDS_KEPT = 8
"""Last ends of a producer's transactions: a Produce without an answer has its line late."""
LOG_KEPT = 1024
"""Markers, and ranges of offsets, kept of a partition; beyond them it is begun anew."""
ENDS = {True: COMMITTED, False: ABORTED}

Place = tuple[str, int]
"""A topic and a partition."""


class SentBatch(NamedTuple):
    """A transactional batch, as it was written: whoever sends it on."""

    place: Place
    producer: int
    epoch: int
    sequence: int


class _TransactionEnd(NamedTuple):
    """What ends transactions of a producer. `client` asked for it; `place`: the only one it ends them in; `epochs`: of
    the batches that it ends."""

    time: int
    client: ClientKey
    epochs: range
    outcome: str
    place: Place | None = None


@dataclass(slots=True, eq=False, repr=False)
class _WaitingBatch:
    """A batch that waits. `sent`: when it was produced, None where only a Fetch has it; `lost`: the end of its
    transaction may be among lost bytes."""

    number: int
    sent: int | None
    offset: int | None
    lost: bool = False


@dataclass(slots=True, eq=False, repr=False)
class _LogPart:
    """What was read of a partition: all markers between the offsets `seen`, by their producers."""

    seen: GrowingRanges = field(default_factory=GrowingRanges)
    markers: dict[int, list[tuple[int, bool]]] = field(default_factory=dict)
    count: int = 0


class RecordFates:
    """Decides batches by what the capture shows of their transactions' ends. `decided` has the outcomes since it was
    emptied, by numbers that `fate` returned; None is unknown. `first_open`: the first offset of a partition's open
    transactions, once all is decided."""

    def __init__(self, room: int = KEPT) -> None:
        self.decided: list[tuple[int, str | None]] = []
        self.dropped = 0
        self.first_open: dict[Place, int] = {}
        self._room = room
        self._number = 0
        self._waiting: OrderedDict[SentBatch, _WaitingBatch] = OrderedDict()
        self._of_producer: dict[int, dict[Place, dict[SentBatch, _WaitingBatch]]] = {}
        self._known: dict[SentBatch, str] = {}
        self._ends: dict[int, list[_TransactionEnd]] = {}
        self._logs: dict[Place, _LogPart] = {}
        # Last stable offsets: transactions that began before them have ended.
        self._stable: dict[Place, int] = {}
        # Producers whose transactions' ends are seen, and the client that asks for them.
        self._coordinated: dict[int, ClientKey] = {}
        # When requests of a client, of any at its address, or of any at all may have been lost last.
        self._gaps: dict[ClientKey, int] = {}
        self._last_gap = -1
        self._latest = 0

    def fate(self, batch: SentBatch, offset: int | None, sent: int | None = None) -> tuple[str | None, int]:
        """The outcome of a batch, or the number by which it comes later; 0: it is known. `offset`: of its first record,
        `sent`: when it was produced; None is unknown."""
        if (outcome := self._known.get(batch)) is not None:
            return outcome, 0
        waiting = self._waiting.get(batch)
        if waiting is None:
            self._number += 1
            waiting = self._waiting[batch] = _WaitingBatch(self._number, sent, offset)
            self._of_producer.setdefault(batch.producer, {}).setdefault(batch.place, {})[batch] = waiting
        if sent is not None:
            self._latest = max(sent, self._latest)
            waiting.sent = sent if waiting.sent is None else waiting.sent
        if waiting.offset is None:
            waiting.offset = offset
        outcome = self._by_marker(batch, waiting) or next(
            (end.outcome for end in self._ends.get(batch.producer, ()) if self._ends_it(end, batch, waiting)),
            None,
        )
        if outcome is not None:
            self.settle(batch, outcome)
        elif len(self._waiting) > self._room:
            self.dropped += 1
            self._decide(next(iter(self._waiting)), None)
        return None, waiting.number

    def settle(self, batch: SentBatch, outcome: str) -> None:
        """This is the outcome of the batch, wherever it is seen."""
        self._known[batch] = outcome
        drop_oldest(self._known, self._room)
        if batch in self._waiting:
            self._decide(batch, outcome)

    # ------------------------------------------------------------------ by time

    def end_transaction(
        self, time: int, producer: int, epoch: int, committed: bool, client: ClientKey
    ) -> None:
        """An EndTxn without an error: it ends what its producer wrote to any partition."""
        self._end(producer, _TransactionEnd(time, client, range(epoch, epoch + 1), ENDS[committed]))
        self._coordinate(producer, client)

    def begin_producer(self, time: int, producer: int, epoch: int, client: ClientKey) -> None:
        """An InitProducerId without an error: what earlier epochs had not ended is aborted."""
        self._end(producer, _TransactionEnd(time, client, range(epoch), ABORTED))
        self._coordinate(producer, client)

    def write_marker(
        self, time: int, place: Place, producer: int, epoch: int, committed: bool, client: ClientKey
    ) -> None:
        """A WriteTxnMarkers without an error for this partition. `epoch`: of the batches that it ends."""
        self._end(producer, _TransactionEnd(time, client, range(epoch, epoch + 1), ENDS[committed], place))

    def add_partition(self, time: int, place: Place, producer: int, client: ClientKey) -> None:
        """An AddPartitionsToTxn without an error: what was written there before is of another transaction."""
        self._coordinate(producer, client)
        for waiting in self._of_producer.get(producer, {}).get(place, {}).values():
            if waiting.sent is not None and waiting.sent < time:
                waiting.lost = True

    def lose(self, time: int | None, client: ClientKey) -> None:
        """Requests of this client up to then may be missing; of any at its address, if it has no id."""
        time = self._latest if time is None else time
        self._last_gap = max(time, self._last_gap)
        self._gaps[client] = max(time, self._gaps.pop(client, 0))
        drop_oldest(self._gaps, self._room)

    def lose_end(self, producer: int) -> None:
        """An EndTxn of this producer has no answer, or another client ended its transaction before it did."""
        for batches in self._of_producer.get(producer, {}).values():
            for waiting in batches.values():
                waiting.lost = True

    def finish(self) -> None:
        """The capture is over."""
        for batch, waiting in self.give_up():
            if waiting.offset is not None:
                first = self.first_open.get(batch.place, waiting.offset)
                self.first_open[batch.place] = min(first, waiting.offset)

    def give_up(self, last: int | None = None) -> list[tuple[SentBatch, _WaitingBatch]]:
        """Decide the batches that wait, up to the one of this number; return those whose transaction is open: its end
        would have been seen, whoever asked."""
        found = []
        for batch, waiting in [
            *takewhile(lambda each: last is None or each[1].number <= last, self._waiting.items())
        ]:
            # Without an offset a broker did not say that it took the batch.
            is_taken = waiting.sent is not None and waiting.offset is not None
            is_seen = batch.producer in self._coordinated and not waiting.lost and is_taken
            is_ended = is_taken and (waiting.offset or 0) < self._stable.get(batch.place, 0)
            is_open = is_seen and not is_ended and (waiting.sent or 0) > self._last_gap
            if is_open:
                found.append((batch, waiting))
            self._decide(batch, ONGOING if is_open else None)
        return found

    def _last_gap_of(self, client: ClientKey) -> int:
        return max(self._gaps.get(client, -1), self._gaps.get((None, client[1]), -1))

    def _ends_it(self, end: _TransactionEnd, batch: SentBatch, waiting: _WaitingBatch) -> bool:
        """True if a batch was produced before this end, and no other one may be lost between: of its coordinator's
        client, or of any where that is not seen."""
        if (
            waiting.lost
            or waiting.sent is None
            or waiting.sent >= end.time
            or batch.epoch not in end.epochs
            or end.place not in (None, batch.place)
        ):
            return False
        client = self._coordinated.get(batch.producer)
        gap = self._last_gap if client is None else self._last_gap_of(client)
        return max(gap, self._last_gap_of(end.client)) < waiting.sent

    def _coordinate(self, producer: int, client: ClientKey) -> None:
        self._coordinated.pop(producer, None)
        self._coordinated[producer] = client
        drop_oldest(self._coordinated, self._room)

    def _end(self, producer: int, end: _TransactionEnd) -> None:
        ends = self._ends.setdefault(producer, [])
        insort(ends, end, key=lambda each: each.time)
        del ends[:-ENDS_KEPT]
        drop_oldest(self._ends, self._room)
        places = self._of_producer.get(producer, {})
        chosen = [*places] if end.place is None else [end.place]
        for batch, waiting in [each for place in chosen for each in places.get(place, {}).items()]:
            if self._ends_it(end, batch, waiting):
                self.settle(batch, end.outcome)

    # ------------------------------------------------------------------ by offsets

    def note_stable(self, place: Place, offset: int) -> None:
        """A broker told the last stable offset of a partition."""
        self._stable[place] = max(offset, self._stable.pop(place, 0))
        drop_oldest(self._stable, self._room)

    def read(
        self, place: Place, ranges: Iterable[Range], markers: Mapping[int, Iterable[tuple[int, bool]]]
    ) -> None:
        """A Fetch had all that the partition has at these offsets, and in them these markers: offsets, and whether they
        commit, of each producer."""
        log = self._logs.setdefault(place, _LogPart())
        drop_oldest(self._logs, self._room)
        if log.count > LOG_KEPT or len(log.seen) > LOG_KEPT:
            log = self._logs[place] = _LogPart()
        for first, end in ranges:
            log.seen.add(first, end)
        for producer, told in markers.items():
            own = log.markers.setdefault(producer, [])
            for marker in told:
                if marker not in own[-1:]:
                    insort(own, marker)
                    log.count += 1
            for batch, waiting in [*self._of_producer.get(producer, {}).get(place, {}).items()]:
                if (outcome := self._by_marker(batch, waiting)) is not None:
                    self.settle(batch, outcome)

    def _by_marker(self, batch: SentBatch, waiting: _WaitingBatch) -> str | None:
        """By the first marker behind the batch, if no other one is missing before it."""
        log = self._logs.get(batch.place)
        markers = log.markers.get(batch.producer) if log is not None else None
        if log is None or not markers or waiting.offset is None:
            return None
        at = bisect_right(markers, (waiting.offset, True))
        seen = log.seen.around(waiting.offset)
        return ENDS[markers[at][1]] if at < len(markers) and seen and markers[at][0] < seen[1] else None

    def _decide(self, batch: SentBatch, outcome: str | None) -> None:
        self.decided.append((self._waiting.pop(batch).number, outcome))
        places = self._of_producer[batch.producer]
        del places[batch.place][batch]
        if not places[batch.place]:
            del places[batch.place]
        if not places:
            del self._of_producer[batch.producer]
