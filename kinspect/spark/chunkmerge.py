"""Merge of an island's chunks: its packets in the order of the run.

Each capture keeps its own order. Packets of several captures are ordered by merge time (`capture.merging`); at equal
times the capture that was named first comes first. Only chunks that overlap are held.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, chain, groupby

import pyarrow as pa

from kinspect.model import FRAME_BITS, Segment
from kinspect.spark.shuffle import CHUNK, EARLIEST, INSERT, NO_TIME, Chunk, pack, rows_of, unpack

HELD_BYTES = 256 * 1024 * 1024
"""Most bytes of an island that are held for earlier packets. Beyond that, the earliest ones go ahead."""

Bases = Mapping[int, tuple[int, int]]
"""By number of a valid split: the packets of its capture before it, and the merge time of the last of them."""
Turn = tuple[int, int]
"""A merge time, and the number of a capture."""
NEVER: Turn = (1 << 63, 0)
_LEFT = -1
"""Split number of the rows that `rest` gave."""
_BEFORE_ALL, _BEHIND_ALL = -1, 1 << 63
"""Frames below and above all others."""


def islands(found: Iterable[pa.RecordBatch], bases: Bases) -> Iterator[Iterator[Chunk]]:
    """Rows of one island after the other, from batches of sorted rows. Rows of invalid splits are left out."""
    rows = (row for batch in found for row in rows_of(batch))
    known = (row for row in rows if row.kind in (CHUNK, INSERT) and row.split in bases)
    return (own for _, own in groupby(known, lambda row: row.island))


class ChunkMerge:
    """Merges rows of an island into its segments in order, as far as they come before `end`.

    `early`: number of times that chunks went ahead because too much was held.
    """

    def __init__(self, bases: Bases, end: Turn = NEVER) -> None:
        self._bases = bases
        self._end = end
        self._lanes: dict[int, _Lane] = {}
        self.early = 0

    def segments(self, rows: Iterator[Chunk]) -> Iterator[list[Segment]]:
        held = 0
        begun = False
        for row in chain(rows, (None,)):
            if not begun and (row is None or row.time != NO_TIME):
                begun = True
                for lane in self._lanes.values():
                    lane.begin()
            if begun:
                bound = (
                    self._end if row is None or held > HELD_BYTES else min(self._end, (row.time, row.file))
                )
                self.early += row is not None and held > HELD_BYTES
                for size, segments in self._until(bound):
                    held -= size
                    yield segments
            if row is not None:
                held += len(row.payload) + len(row.heads)
                if row.file not in self._lanes:
                    self._lanes[row.file] = _Lane(row.file, self._bases)
                self._lanes[row.file].add(row)

    def _until(self, bound: Turn) -> Iterator[tuple[int, list[Segment]]]:
        """Segments that come before `bound`, in order, each list with the number of bytes that are no longer held."""
        if len(self._lanes) == 1 and self._end == NEVER:
            (lane,) = self._lanes.values()
            while lane.ready:
                yield lane.take(None)
            return
        while self._lanes:
            heads = sorted((lane.moment, lane) for lane in self._lanes.values())
            moment, lane = heads[0]
            if moment > bound or not lane.ready:
                return
            other = heads[1][0] if len(heads) > 1 else NEVER
            yield lane.take(min(other, bound))

    def rest(self) -> Iterator[Chunk]:
        """Rows of the segments behind `end`."""
        for lane in self._lanes.values():
            yield from lane.rest()


class _Lane:
    """Chunks of a capture in its order, with the reassembled segments between them."""

    def __init__(self, file: int, bases: Bases) -> None:
        self.moment = NEVER
        """Merge time of the next packet, as far as it is known."""
        self.ready = False
        """True if that packet is loaded."""
        self._file = file
        self._bases = bases
        self._latest = EARLIEST
        self._counts: dict[int, int] = {}
        # Splits and numbers of the next chunks.
        self._places: deque[tuple[int, int]] = deque()
        self._waiting: dict[tuple[int, int], Chunk] = {}
        self._inserts: list[tuple[Segment, int]] = []
        self._segments: list[Segment] = []
        self._turns: list[int] = []
        self._size = 0

    def __lt__(self, other: _Lane) -> bool:
        return self._file < other._file

    def add(self, row: Chunk) -> None:
        if row.kind == INSERT:
            self._inserts += zip(*self._unpack(row), strict=True)
        else:
            if row.chunks is not None:
                self._counts[row.split] = row.chunks
            if row.number >= 0:
                self._waiting[row.split, row.number] = row
            if self._places and self._places[0] == (row.split, row.number) and not self._segments:
                self._load()

    def begin(self) -> None:
        """Orders the chunks, once the rows with their numbers have been added."""
        self._inserts.sort(key=lambda pair: pair[0][9], reverse=True)
        for split in sorted(self._counts, key=lambda split: (self._bases[split], split)):
            self._places += ((split, number) for number in range(self._counts[split]))
        self._load()

    def take(self, until: Turn | None) -> tuple[int, list[Segment]]:
        """Takes the packets up to `until` (None: all loaded ones). Returns the freed bytes (a number) and them."""
        count = len(self._segments)
        if until is not None:
            time, file = until
            count = (bisect_right if self._file <= file else bisect_left)(self._turns, time)
        taken = self._segments[:count]
        if count < len(self._segments):
            self._segments, self._turns = self._segments[count:], self._turns[count:]
            self.moment = self._turns[0], self._file
            return 0, taken
        size, self._size = self._size, 0
        self._load()
        return size, taken

    def rest(self) -> Iterator[Chunk]:
        """Rows of the packets that were not taken, as a split before all others."""
        left = [self._waiting[place] for place in self._places]
        if self._segments:
            packed = pack(self._segments, self._file << FRAME_BITS, self._turns)
            left.insert(0, Chunk(CHUNK, b"", self._turns[0], self._file, _LEFT, 0, None, *packed))
        if left:
            yield Chunk(CHUNK, b"", NO_TIME, self._file, _LEFT, -1, len(left), b"", b"")
        for number, row in enumerate(left):
            yield row._replace(split=_LEFT, number=number, chunks=None, time=max(row.time, EARLIEST))

    def _load(self) -> None:
        """Loads the next chunk, and the reassembled segments before and within it."""
        self._segments, turns = [], list[int]()
        row = self._waiting.pop(self._places[0], None) if self._places else None
        last = _BEFORE_ALL if self._places else _BEHIND_ALL
        if row is not None:
            self._places.popleft()
            self._size = len(row.payload) + len(row.heads)
            self._segments, turns = self._unpack(row)
            self._latest = max(self._latest, self._bases[row.split][1])
            last = self._segments[-1][9]
        between, inserts = [], self._inserts
        while inserts and inserts[-1][0][9] < last:
            between.append(inserts.pop())
        if between:
            both = [*zip(self._segments, turns, strict=True), *between]
            both.sort(key=lambda pair: pair[0][9])
            self._segments, turns = [segment for segment, _ in both], [turn for _, turn in both]
        self.ready = bool(self._segments)
        if self.ready:
            self._turns = [*accumulate(turns, max, initial=self._latest)][1:]
            self._latest = self._turns[-1]
            self.moment = self._turns[0], self._file
        else:
            # A segment before a chunk that is still missing holds all others back.
            self.moment = (max(self._latest, inserts[-1][1]), self._file) if inserts else NEVER

    def _unpack(self, row: Chunk) -> tuple[list[Segment], list[int]]:
        return unpack(row.heads, row.payload, (row.file << FRAME_BITS) + self._bases[row.split][0])
