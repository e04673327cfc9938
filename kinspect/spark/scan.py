"""The first pass: a task reads splits, dissects their packets and gives the rows that are shuffled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from struct import Struct

import cbor2
import pyarrow as pa

from kinspect import link
from kinspect.capture import slice_block
from kinspect.capture.merging import AROUND, NEAR, is_plain, merge_times
from kinspect.errors import CaptureError, UnreadableError
from kinspect.link.cursor import Cursor
from kinspect.link.fragments import PART
from kinspect.model import FRAME_BITS, Block, Caps, Counts, Segment
from kinspect.spark.chunks import (
    EARLIEST,
    FRAGMENT,
    INSERT,
    NO_TIME,
    Chunk,
    Gather,
    batches,
    pack,
    rows_of,
)
from kinspect.spark.failure import ToldError, told_of
from kinspect.spark.merge import Bases
from kinspect.spark.splits import Reading, Split
from kinspect.tcp.keys import pair

NS_PER_DAY = 86_400 * 1_000_000_000
LAST_TIMES = 3
"""So many last packets tell when a run ended."""

# What waits to be shuffled: bytes of captures.
_HELD_BYTES = 32 * 1024 * 1024
_PACKET = Struct("<qIIQ")
"""Of a fragment: time, length on the wire, link type, frame."""


@dataclass(slots=True)
class Report:
    """What is told of a split, or of the fragments put together in a task (`split` -1): places as in `Reading`."""

    split: int = -1
    file: int = 0
    packets: int = 0
    whole: bool = False
    began: int | None = None
    first: int | None = None
    next: int | None = None
    describes: bool = False
    error: ToldError | None = None
    secrets: list[bytes] = field(default_factory=list)
    drops: dict[tuple[int, ...], int] = field(default_factory=dict)
    first_time: int | None = None
    latest: int = EARLIEST
    """When its last packet takes its turn."""
    last: list[tuple[int, int]] = field(default_factory=list)
    """Of the last packets that have a time: when each takes its turn, and its time."""
    days: list[int] = field(default_factory=list)
    """Those of its packets, since the epoch."""
    fragments: int = 0
    counts: Counts = field(default_factory=Counts)

    def to_bytes(self) -> bytes:
        return cbor2.dumps(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Report:
        told = cbor2.loads(data)
        told["counts"] = Counts(**told["counts"])
        told["last"] = [tuple(packet) for packet in told["last"]]
        told["error"] = told["error"] and ToldError(*told["error"])
        return cls(**told)

    def see(self, block: Block, turns: list[int]) -> None:
        """Notes the times of a block, and when its packets take their turn."""
        self.latest = turns[-1]
        times = [time for time in block.times if time is not None]
        if times:
            self.first_time = times[0] if self.first_time is None else self.first_time
            ends = zip(turns[-LAST_TIMES:], block.times[-LAST_TIMES:], strict=True)
            self.last += [(turn, time) for turn, time in ends if time is not None]
            del self.last[:-LAST_TIMES]
            low, high = min(times) // NS_PER_DAY, max(times) // NS_PER_DAY
            days = {low} if low == high else {time // NS_PER_DAY for time in times}
            self.days = sorted(days.union(self.days))


Tell = Callable[[dict[int, bytes]], None]
"""Takes reports, by the number of their split."""


def scanning(
    shares: list[list[Split]], caps: Caps, tries: int, tell: Tell
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task for each of `shares`, by its number. `tries`: how often a task is tried."""

    def task(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from batches(row for split in shares[number] for row in scan(split, caps, tries, tell))

    return task


def scan(split: Split, caps: Caps, tries: int, tell: Tell) -> Iterator[Chunk]:
    """The rows of a split, and fragments for others to put together.

    Raises UnreadableError if the system fails to read it and there is another try.
    """
    collector = Collector()
    report = Report(split.number, split.file)
    yield from scanned(split, caps, tries, report, collector)
    tell({split.number: report.to_bytes()})


def scanned(
    split: Split, caps: Caps, tries: int, report: Report, collector: Collector | None = None
) -> Iterator[Chunk]:
    """The rows of a split; `report` is filled. Fragments are put together, if they do not go to the `collector`."""
    reading = Reading(split)
    dissector = link.Dissector(caps, report.counts, collector)
    turns_of: dict[int, int] = {}
    gather, islands = Gather(split.file, split.number, turns_of), _Islands()
    held = 0
    try:
        for block, turns in in_turn(reading):
            report.see(block, turns)
            if turns != block.times:
                frames = enumerate(zip(turns, block.times, strict=True), block.first_frame)
                turns_of |= {frame: turn for frame, (turn, time) in frames if turn != time}
            of_island: dict[bytes, list[Segment]] = {}
            for segment in dissector.segments(block):
                of_island.setdefault(islands[segment[0]], []).append(segment)
            for island, segments in of_island.items():
                yield from gather.add(island, segments)
            if collector is not None and collector.seen:
                collector.seen = False
                for row in _fragments(block, split, turns, caps):
                    report.fragments += 1
                    yield row
            held += len(block.data)
            if held >= _HELD_BYTES:
                held = 0
                yield from gather.flush()
    except UnreadableError as error:
        if tries_left(tries):
            raise
        report.error = told_of(error)
    except CaptureError as error:
        report.error = told_of(error)
    dissector.flush()
    yield from gather.finish()
    report.packets = reading.packets
    report.whole, report.describes = reading.whole, reading.describes
    report.began, report.first, report.next = reading.began, reading.first, reading.next
    report.secrets, report.drops = reading.findings.secrets, reading.findings.drops


def in_turn(blocks: Iterable[Block]) -> Iterator[tuple[Block, list[int]]]:
    """The blocks of a split; with each, when its packets take their turn among those of other captures.

    That is what `capture.Timeline` does, as far as packets of this split tell. Raises what iterating raises, behind all
    that was read before.
    """
    source = iter(blocks)
    ahead: deque[Block] = deque()
    times: list[int] = []
    before: list[int] = []
    failed: list[CaptureError] = []

    def read(packets: int) -> None:
        while len(times) < packets and not failed:
            try:
                block = next(source, None)
            except CaptureError as error:
                failed.append(error)
                return
            if block is None:
                return
            ahead.append(block)
            last = times[-1] if times else before[-1] if before else EARLIEST
            for own in block.times:
                last = last if own is None else own
                times.append(last)

    turn = EARLIEST
    read(1)
    while ahead:
        block = ahead.popleft()
        size = len(block)
        read(size + NEAR)
        merged = times[:size]
        if not is_plain(times[: size + NEAR]):
            read(size + AROUND)
            merged = merge_times(before, times, size)
        before = [*before, *merged[-AROUND:]][-AROUND:]
        del times[:size]
        turns = [*accumulate(merged, max, initial=turn)][1:]
        turn = turns[-1]
        yield block, turns
        read(1)
    if failed:
        raise failed[0]


def task_number() -> int:
    """Which of the tasks of a stage runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def tries_left(tries: int) -> bool:
    """Whether the task that runs is tried again if it fails."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() + 1 < tries


class _Islands(dict[bytes, bytes]):
    """The island of a segment's key."""

    def __missing__(self, key: bytes) -> bytes:
        found = self[key] = pair(key)
        return found


# ---------------------------------------------------------------------- fragments


class Collector:
    """Takes fragments without putting them together: their other parts may lie in another split."""

    def __init__(self) -> None:
        self.seen = False
        self.key = b""

    def take(self, cursor: Cursor, key: bytes, offset: int, more: bool, protocol: int) -> int:
        self.seen = True
        self.key = key + cursor.networks
        return cursor.stop(PART)


def _fragments(block: Block, split: Split, turns: list[int], caps: Caps) -> Iterator[Chunk]:
    """The packets of a block that are fragments, by the key of their datagram."""
    collector = Collector()
    dissector = link.Dissector(caps, Counts(), collector)
    for at, time in enumerate(turns):
        collector.seen = False
        packet = slice_block(block, at, at + 1)
        dissector.segments(packet)
        if collector.seen:
            own = packet.times[0]
            place = packet.first_frame
            head = _PACKET.pack(
                NO_TIME if own is None else own, packet.wire_lengths[0], packet.link_types[0], place
            )
            data = packet.data[packet.starts[0] : packet.ends[0]]
            key = collector.key
            yield Chunk(FRAGMENT, key, time, split.file, split.number, place, None, head, data)


def assembling(
    bases: Bases, caps: Caps, tell: Tell
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A task that puts fragments together, all of a datagram in one task. `bases`: of the splits that count."""

    def task(found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        report = Report()
        rows = (row for batch in found for row in rows_of(batch))
        yield from batches(_assemble(rows, bases, caps, report))
        # The packets were counted where they were read.
        report.counts.packets = report.counts.bytes = 0
        tell({-1 - task_number(): report.to_bytes()})

    return task


def _assemble(rows: Iterator[Chunk], bases: Bases, caps: Caps, report: Report) -> Iterator[Chunk]:
    datagram = b""
    dissector = link.Dissector(caps, report.counts)
    for row in rows:
        if row.split not in bases:
            continue
        if row.island != datagram:
            dissector.flush()
            datagram, dissector = row.island, link.Dissector(caps, report.counts)
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
