"""The chunks of an island, merged: its packets in the order of the run.

Each capture keeps its own order; between captures the packet comes first whose turn it is first (`capture.merging`),
and of equal ones that of the capture named first. Only chunks that overlap are held.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, chain, groupby

import pyarrow as pa

from kinspect.model import FRAME_BITS, Segment
from kinspect.spark.chunks import CHUNK, EARLIEST, INSERT, NO_TIME, Chunk, pack, rows_of, unpack

HELD_BYTES = 256 * 1024 * 1024
"""Bytes of an island that are held until others come before them. Of more, the earliest go ahead."""

Bases = Mapping[int, tuple[int, int]]
"""By split that counts: the packets of its capture before it, and when the last of them takes its turn."""
Turn = tuple[int, int]
"""A time, and the number of a capture."""
NEVER: Turn = (1 << 63, 0)
_LEFT = -1
"""The split of rows that were left before."""
_BEFORE_ALL, _BEHIND_ALL = -1, 1 << 63
"""Frames."""


def islands(found: Iterable[pa.RecordBatch], bases: Bases) -> Iterator[Iterator[Chunk]]:
    """The rows of each island, of sorted rows in batches."""
    rows = (row for batch in found for row in rows_of(batch))
    known = (row for row in rows if row.kind in (CHUNK, INSERT) and row.split in bases)
    return (own for _, own in groupby(known, lambda row: row.island))


class ChunkMerge:
    """Rows of an island in, its segments in order out, as far as they come before `end`.

    `early`: how often chunks went ahead since too much was held.
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
        """What comes before `bound`, with how many bytes it took."""
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
        """What comes behind `end`, as rows."""
        for lane in self._lanes.values():
            yield from lane.rest()


class _Lane:
    """The chunks of a capture, in its order, and what was put together from fragments between them."""

    def __init__(self, file: int, bases: Bases) -> None:
        self.moment = NEVER
        """When its next packet comes, as far as one is known."""
        self.ready = False
        """Whether that packet is there."""
        self._file = file
        self._bases = bases
        self._latest = EARLIEST
        self._counts: dict[int, int] = {}
        # The splits and numbers of the chunks to come.
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
        """All rows were there that tell how many chunks there are."""
        self._inserts.sort(key=lambda pair: pair[0][9], reverse=True)
        for split in sorted(self._counts, key=lambda split: (self._bases[split], split)):
            self._places += ((split, number) for number in range(self._counts[split]))
        self._load()

    def take(self, until: Turn | None) -> tuple[int, list[Segment]]:
        """The packets up to `until` (None: all that are there), and how many bytes are not held any more."""
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
        """What was not taken, as rows of a split before all others."""
        left = [self._waiting[place] for place in self._places]
        if self._segments:
            packed = pack(self._segments, self._file << FRAME_BITS, self._turns)
            left.insert(0, Chunk(CHUNK, b"", self._turns[0], self._file, _LEFT, 0, None, *packed))
        if left:
            yield Chunk(CHUNK, b"", NO_TIME, self._file, _LEFT, -1, len(left), b"", b"")
        for number, row in enumerate(left):
            yield row._replace(split=_LEFT, number=number, chunks=None, time=max(row.time, EARLIEST))

    def _load(self) -> None:
        """Goes on with the next chunk."""
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
            # What comes before a chunk that is not there yet lets nothing pass.
            self.moment = (max(self._latest, inserts[-1][1]), self._file) if inserts else NEVER

    def _unpack(self, row: Chunk) -> tuple[list[Segment], list[int]]:
        return unpack(row.heads, row.payload, (row.file << FRAME_BITS) + self._bases[row.split][0])
