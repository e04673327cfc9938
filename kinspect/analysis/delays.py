"""From producers to consumers: records that were produced, and brought to a consumer, joined by partition and offset.

Both are kept until the end, as they may be in parts of a run that merge in any order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kinspect.analysis.delivered import acquired_ranges
from kinspect.analysis.histogram import Histogram
from kinspect.analysis.lags import read_batches
from kinspect.analysis.offsetranges import GrowingRanges, OffsetRanges, Range
from kinspect.analysis.record import EARLIEST, GREATEST, Record
from kinspect.kafka.bodysummary import RecordField, batch_count
from kinspect.kafka.wire.lineorder import LineKey

KEPT = 10_000
"""Batches kept of each partition, those of the last offsets; and of each consumer as many stretches of it, the last
ones."""
BEHIND_ALL = 1 << 63
UNTIMED = -1
"""In place of a time that the capture has not."""

Place = tuple[str, int, int, int, str]
"""Where a message lies: its frames (`latencyanswer.Frames`), and the interface of its connection."""
Batch = tuple[int, int, int, Place]
"""When the Produce request began, and its answer did; the offset behind the last record; where the request lies."""
Stretch = tuple[int, int, int, int, Place]
"""When a Fetch's answer ended; the first offset that it brought, and the one behind the last; how many records are
between them: compaction leaves gaps; where the answer lies."""


@dataclass(slots=True)
class Produced(Record):
    """Batches produced to a partition, by their first offset. `let_go`: how many were not kept; `aborted`: offsets that
    a Fetch told to be of aborted transactions."""

    batches: dict[int, Batch] = field(default_factory=dict, metadata=EARLIEST)
    let_go: int = 0
    aborted: set[Range] = field(default_factory=set)

    def trim(self, most: int) -> int:
        """Let go of what has the smallest offsets; return its number."""
        first = sorted(self.batches)[: max(len(self.batches) - most, 0)]
        for base in first:
            del self.batches[base]
        self.let_go += len(first)
        before = sorted(self.aborted)[: max(len(self.aborted) - most, 0)]
        self.aborted.difference_update(before)
        return len(first) + len(before)


@dataclass(slots=True)
class Consumption(Record):
    """What a consumer was brought of a partition. `let_go`: stretches that were not kept; `passed`: the offset that it
    last asked for, or that behind the last one it was brought, with the key of its line; `committed`: it reads no
    aborted records."""

    stretches: set[Stretch] = field(default_factory=set)
    let_go: int = 0
    passed: tuple[LineKey, int] | None = field(default=None, metadata=GREATEST)
    committed: bool = field(default=False, metadata=GREATEST)

    def trim(self, most: int) -> int:
        """Let go of the oldest stretches; return their number."""
        oldest = sorted(self.stretches)[: max(len(self.stretches) - most, 0)]
        self.stretches.difference_update(oldest)
        self.let_go += len(oldest)
        return len(oldest)


def placed_batches(found: RecordField, base: int) -> Iterator[Range]:
    """The offsets of a Produce's batches, the first of which got the offset `base`; those behind one whose number of
    records is not known are not."""
    for batch in found.batches():
        count = batch_count(batch)
        if count is None:
            return
        yield base, base + count
        base += count


def brought(found: RecordField, partition: dict[str, Any], asked: int) -> Iterator[tuple[int, int, int]]:
    """Stretches of records that a partition of an answer brings its consumer: the first offset, the one behind the
    last, and how many records; `asked`: the offset before which the consumer drops records. Without control records,
    those of transactions that the answer tells to be aborted, and those that a share group's member did not acquire."""
    _, blanks = read_batches(found.batches(), partition.get("aborted_transactions"))
    left_out = frozenset(blanks)
    acquired = partition.get("acquired_records")
    given = [(asked, BEHIND_ALL)] if acquired is None else acquired_ranges(acquired)
    ends = [end for _, end in given]
    last: tuple[int, int, int] | None = None
    for batch in found.batches():
        count, base, last_offset = batch_count(batch), batch["base_offset"], batch.get("last_offset")
        if count is None or base is None or last_offset is None or (base, last_offset + 1) in left_out:
            continue
        for at in range(bisect_right(ends, base), len(given)):
            begin, behind = given[at]
            first, end = max(base, begin), min(last_offset + 1, behind)
            if first >= end:
                break
            # Of a part of a batch with gaps nobody knows where these are.
            here = min(count, end - first)
            if last is not None and last[1] == first and last[2] == first - last[0] and here == end - first:
                last = last[0], end, last[2] + here
            else:
                if last is not None:
                    yield last
                last = first, end, here
    if last is not None:
        yield last


class Slowest(NamedTuple):
    """The record that took longest: nanoseconds, partition, offset, where its request lies and the answer with it."""

    delay: int
    partition: int
    offset: int
    produced: Place
    brought: Place


class PartitionLog:
    """The batches that were produced to a partition, in the order of their offsets. `floor`: the offset below which
    some were let go, else None."""

    def __init__(self, produced: Produced) -> None:
        self._firsts = sorted(produced.batches)
        self._batches = [produced.batches[first] for first in self._firsts]
        self.floor = self._firsts[0] if produced.let_go and self._firsts else None
        self.aborted = produced.aborted

    def within(self, first: int, end: int) -> Iterator[tuple[int, int, Batch]]:
        """Batches with the offsets of a range that they have: the first one, and the one behind the last."""
        at = max(bisect_right(self._firsts, first) - 1, 0)
        while at < len(self._firsts) and self._firsts[at] < end:
            batch = self._batches[at]
            one = max(self._firsts[at], first), min(batch[2], end)
            if one[0] < one[1]:
                yield *one, batch
            at += 1

    def left(self, offset: int, others: Iterable[Range]) -> int:
        """Records from an offset on that are in none of these ranges."""
        had = OffsetRanges(others)
        found = self.within(offset, self._batches[-1][2]) if self._batches else ()
        return sum(end - first - had.count(first, end) for first, end, _ in found)

    def ends_before(self, offset: int) -> bool:
        """True if nothing was produced from an offset on."""
        return not self._batches or self._batches[-1][2] <= offset


NO_BATCHES = PartitionLog(Produced())


class Delays:
    """What a consumer was brought of a topic. `records`: those whose Produce was seen; `untimed`: those of them whose
    delay is not known; `again`: how many more times it was brought a record; `two_clocks`: the ends of a delay are of
    two files or interfaces."""

    def __init__(self) -> None:
        self.records = self.untimed = self.again = 0
        self.delay, self.produce, self.wait = Histogram(), Histogram(), Histogram()
        self.two_clocks = False
        self.slowest: Slowest | None = None

    def add(self, partition: int, log: PartitionLog, stretches: Iterable[Stretch]) -> None:
        """Join what was brought of a partition, in the order of time, with what was produced to it."""
        had = GrowingRanges()
        for ended, first, end, count, place in sorted(stretches):
            fresh = had.add(first, end)
            left = min(count, sum(end - first for first, end in fresh))
            self.again += count - left
            for one in fresh:
                for begin, behind, batch in log.within(*one):
                    records = min(behind - begin, left)
                    left -= records
                    if records:
                        self._measure(records, batch, ended, (partition, begin), place)

    def _measure(self, records: int, batch: Batch, ended: int, where: tuple[int, int], place: Place) -> None:
        began, answered, _, produced = batch
        self.records += records
        # A Produce that was sent again after it had been written began later than its records were there.
        if UNTIMED in (began, answered, ended) or ended < began:
            self.untimed += records
            return
        cut, delay = min(max(answered, began), ended), ended - began
        self.delay.add(delay, records)
        self.produce.add(cut - began, records)
        self.wait.add(ended - cut, records)
        self.two_clocks |= (produced[0], produced[-1]) != (place[0], place[-1])
        if self.slowest is None or delay > self.slowest.delay:
            self.slowest = Slowest(delay, *where, produced, place)
