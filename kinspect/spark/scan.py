"""The first pass: a task reads splits, dissects their packets and gives the rows to be shuffled."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import accumulate
from struct import Struct

import pyarrow as pa
from pyspark import TaskContext

from kinspect import link
from kinspect.capture.merging import TimedBlocks
from kinspect.errors import CaptureError, UnreadableError
from kinspect.link.cursor import Cursor
from kinspect.link.fragments import PART
from kinspect.model import FRAME_BITS, Block, Caps, Segment
from kinspect.spark.chunkmerge import Bases
from kinspect.spark.shuffle import (
    EARLIEST,
    FRAGMENT,
    INSERT,
    NO_TIME,
    Chunk,
    IslandGrouping,
    batches,
    pack,
    rows_of,
)
from kinspect.spark.splits import Split, SplitReport, read_split
from kinspect.tcp.flowkeys import pair

# Bytes of captures after which waiting packets are flushed.
_HELD_BYTES = 32 * 1024 * 1024
_PACKET = Struct("<qIIQ")
"""Time (ns), length on the wire, link type and frame of a fragment's packet."""

Tell = Callable[[dict[int, bytes]], None]
"""Takes reports as bytes, by the number of their split."""


def scanning(
    shares: list[list[Split]], caps: Caps, tries: int, tell: Tell
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task for each of `shares`, by its number. `tries`: number of times that Spark tries a task.

    It gives fragments as rows, for `assembling`. It raises UnreadableError if the system fails to read and Spark will
    try again.
    """

    def rows(splits: list[Split]) -> Iterator[Chunk]:
        for split in splits:
            report = SplitReport(split.number, split.file)
            yield from scanned(split, caps, tries, report, Collector())
            tell({split.number: report.to_bytes()})

    def task(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from batches(rows(shares[number]))

    return task


def scanned(
    split: Split, caps: Caps, tries: int, report: SplitReport, collector: Collector | None = None
) -> Iterator[Chunk]:
    """Rows of a split; fills `report`. Fragments go to the `collector`; without one they are reassembled here."""
    dissector = link.Dissector(caps, report.counts, collector, quotes=True)
    turns_of: dict[int, int] = {}
    gather, island_of = IslandGrouping(split.file, split.number, turns_of), cache(pair)
    held = 0
    try:
        for block, own in TimedBlocks(read_split(split, report), EARLIEST):
            turns = [*accumulate(own, max, initial=report.latest)][1:]
            report.see(block.times, turns)
            if turns != block.times:
                frames = enumerate(zip(turns, block.times, strict=True), block.first_frame)
                turns_of |= {frame: turn for frame, (turn, time) in frames if turn != time}
            of_island: dict[bytes, list[Segment]] = {}
            for segment in dissector.segments(block):
                of_island.setdefault(island_of(segment[0]), []).append(segment)
            for island, segments in of_island.items():
                yield from gather.add(island, segments)
            if collector is not None and collector.found:
                report.fragments += len(collector.found)
                yield from collector.rows(block, split, turns)
            held += len(block.data)
            if held >= _HELD_BYTES:
                held = 0
                yield from gather.flush()
    except CaptureError as error:
        if isinstance(error, UnreadableError) and tries_left(tries):
            raise
        report.error = error.values
    dissector.flush()
    yield from gather.finish()


def tries_left(tries: int) -> bool:
    """True if Spark will try the running task again when it fails."""
    context = TaskContext.get()
    return context is not None and context.attemptNumber() + 1 < tries


# ---------------------------------------------------------------------- fragments


class Collector:
    """Collects fragments without reassembly: the others of a datagram may lie in another split."""

    def __init__(self) -> None:
        self.found: list[tuple[int, bytes]] = []
        """Positions of fragments in the data of a block, with the keys of their datagrams."""

    def take(self, cursor: Cursor, key: bytes, offset: int, more: bool, protocol: int) -> int:
        self.found.append((cursor.at, key + cursor.networks))
        return cursor.stop(PART)

    def rows(self, block: Block, split: Split, turns: list[int]) -> Iterator[Chunk]:
        """Rows of the packets of a block that are fragments."""
        for place, key in self.found:
            at = bisect_right(block.starts, place) - 1
            time, frame = block.times[at], block.first_frame + at
            head = _PACKET.pack(
                NO_TIME if time is None else time, block.wire_lengths[at], block.link_types[at], frame
            )
            data = block.data[block.starts[at] : block.ends[at]]
            yield Chunk(FRAGMENT, key, turns[at], split.file, split.number, frame, None, head, data)
        self.found.clear()


def assembling(
    bases: Bases, caps: Caps, tell: Tell
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task that reassembles fragments and gives rows of segments. It needs all fragments of a datagram."""

    def task(found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        report = SplitReport()
        rows = (row for batch in found for row in rows_of(batch))
        yield from batches(_assemble(rows, bases, caps, report))
        # The scan has counted these packets.
        report.counts.packets = report.counts.bytes = 0
        context = TaskContext.get()
        tell({-1 - (0 if context is None else context.partitionId()): report.to_bytes()})

    return task


def _assemble(rows: Iterator[Chunk], bases: Bases, caps: Caps, report: SplitReport) -> Iterator[Chunk]:
    datagram = b""
    dissector = link.Dissector(caps, report.counts, quotes=True)
    for row in rows:
        if row.split not in bases:
            continue
        if row.island != datagram:
            dissector.flush()
            datagram = row.island
            dissector = link.Dissector(caps, report.counts, quotes=True)
        time, wire_length, link_type, frame = _PACKET.unpack(row.heads)
        packet = Block(
            row.payload,
            (row.file << FRAME_BITS) + bases[row.split][0] + frame,
            [None if time == NO_TIME else time],
            [0],
            [len(row.payload)],
            [wire_length],
            [link_type],
        )
        for segment in dissector.segments(packet):
            yield Chunk(
                INSERT,
                pair(segment[0]),
                NO_TIME,
                row.file,
                row.split,
                frame,
                None,
                *pack([segment], packet.first_frame - frame, [row.time]),
            )
    dissector.flush()
