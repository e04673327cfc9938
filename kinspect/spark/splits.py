"""A large capture read in splits, each by a task of its own, which finds where its first packet begins.

Nothing marks where a packet begins, so that is guessed: a run of records each of which is plausible and ends where the
next one begins. The guess is proven when the split before ends exactly there, which the reports of all splits show.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import cbor2

from kinspect.capture import slice_block
from kinspect.capture.boundary import Records, records_of
from kinspect.capture.formats import open_capture
from kinspect.capture.reader import BLOCK_SIZE, Findings
from kinspect.capture.source import read_at_least
from kinspect.errors import CaptureError
from kinspect.model import Block, Counts
from kinspect.spark.chunks import EARLIEST
from kinspect.spark.storage import CaptureBytes, shown

SPLIT_BYTES = 64 * 1024 * 1024
NS_PER_DAY = 86_400 * 1_000_000_000
LAST_TIMES = 3
"""So many last packets tell when a run ended."""

# Where a packet is looked for, behind the place where a split begins.
_WINDOW = 1024 * 1024


class Split(NamedTuple):
    """The packets of a capture from byte `start` to before `end` (None: to its end), by where a packet's data begins.

    `number` counts the splits of a run, `file` its captures. `begin`: where a record is known to begin; None: one is to
    be found from `start` on. `size`: of the capture when the run began, None if nobody knows. `stops`: where other
    splits begin; the first one met ends this one. `after`: packets that end up to there were read before. `first_time`:
    that of the capture's first packet, where captures are known by it.
    """

    number: int
    file: int
    path: str
    size: int | None
    start: int = 0
    end: int | None = None
    begin: int | None = 0
    stops: frozenset[int] = frozenset()
    after: int = 0
    first_time: int | None = None


def plan(file: int, path: str, size: int | None, split_bytes: int) -> Iterator[Split]:
    """The splits of a capture, in order, numbered from 0. Of one that cannot be cut, the first reads everything."""
    whole = size or 1
    step = split_bytes if split_bytes > 0 else whole
    for number, start in enumerate(range(0, whole, step)):
        end = start + step if start + step < whole else None
        yield Split(number, file, path, size or None, start, end, None if start else 0)


def shares(splits: Iterable[Split], task_bytes: int) -> list[list[Split]]:
    """The splits that each task reads: small ones together."""
    found: list[list[Split]] = []
    left = 0
    for split in splits:
        size = (split.end or split.size or 0) - max(split.start, split.after)
        if not found or size > left:
            found.append([])
            left = task_bytes
        found[-1].append(split)
        left -= size
    return found


@dataclass(slots=True)
class Report:
    """What is told of a split, or of the fragments put together in a task (`split` -1)."""

    split: int = -1
    file: int = 0
    packets: int = 0
    whole: bool = False
    """Whether it is all of a capture that cannot be cut."""
    began: int | None = None
    """Where its first record begins, None if there is none."""
    first: int | None = None
    next: int | None = None
    """Where the data of its first packet begins, and that of the first one left to the split behind."""
    describes: bool = False
    """Whether pcapng packets behind it are to be read by blocks that it holds."""
    error: tuple[str, str, bool] | None = None
    """`CaptureError.values`."""
    secrets: list[bytes] = field(default_factory=list)
    drops: dict[tuple[int, ...], int] = field(default_factory=dict)
    first_time: int | None = None
    latest: int = EARLIEST
    """When its last packet takes its turn."""
    last: list[tuple[int, int]] = field(default_factory=list)
    """Of the last packets that have a time: when each takes its turn, and its time."""
    days: list[int] = field(default_factory=list)
    """Those of its packets, since the epoch."""
    untimed: bool = False
    """Whether there are packets without a time."""
    fragments: int = 0
    counts: Counts = field(default_factory=Counts)

    def to_bytes(self) -> bytes:
        return cbor2.dumps(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Report:
        told = cbor2.loads(data)
        told["counts"] = Counts(**told["counts"])
        told["last"] = [tuple(packet) for packet in told["last"]]
        return cls(**told)

    def see(self, times: list[int | None], turns: list[int]) -> None:
        """Notes the times of packets, and when they take their turn."""
        self.latest = turns[-1]
        known = [time for time in times if time is not None]
        self.untimed |= len(known) < len(times)
        if known:
            self.first_time = known[0] if self.first_time is None else self.first_time
            ends = zip(turns[-LAST_TIMES:], times[-LAST_TIMES:], strict=True)
            self.last += [(turn, time) for turn, time in ends if time is not None]
            del self.last[:-LAST_TIMES]
            low, high = min(known) // NS_PER_DAY, max(known) // NS_PER_DAY
            days = {low} if low == high else {time // NS_PER_DAY for time in known}
            self.days = sorted(days.union(self.days))


def read_split(split: Split, report: Report) -> Iterator[Block]:
    """The blocks of a split, their frames numbered from 1; the report is told where they lie, and what lies among them.

    Raises CaptureError for damage, after everything before it.
    """
    findings = Findings(report.drops, report.secrets)
    from_begin = not split.start and not split.after
    records = None if from_begin and split.end is None else _records_of(split.path)
    if records is None and from_begin:
        report.whole, report.began = True, 0
        for block in _blocks(CaptureBytes(split.path, end=split.size), findings):
            report.packets += len(block)
            yield block
    elif records is not None:
        report.began = _found(split, records) if split.begin is None else split.begin
        if report.began is not None:
            yield from _cut_blocks(split, report, records, findings)
    elif split.first_time is not None:
        what = "went on after it was taken, and can be read on only as pcap or pcapng that is not compressed"
        raise CaptureError(f"{shown(split.path)}: {what}; the rest of it is lost")


def _cut_blocks(split: Split, report: Report, records: Records, findings: Findings) -> Iterator[Block]:
    source = CaptureBytes(split.path, records.prefix if report.began else b"", report.began or 0, split.size)
    for block in _blocks(source, findings):
        base = source.position - len(block.data)
        low, high = _range(split, block, base)
        if low < high:
            report.first = block.starts[low] + base if report.first is None else report.first
            taken = block if high - low == len(block) else slice_block(block, low, high)
            taken.first_frame = block.first_frame + low if split.after else report.packets + 1
            report.packets += high - low
            yield taken
        if high < len(block):
            report.next = block.starts[high] + base
            break
    report.describes = len(findings.descriptions) > records.described


def _range(split: Split, block: Block, base: int) -> tuple[int, int]:
    """Which packets of a block are the split's; the buffer of the block begins at byte `base` of the file."""
    low = bisect_left(block.starts, split.start - base)
    if split.after:
        low = bisect_right(block.ends, split.after - base)
    high = len(block) if split.end is None else bisect_left(block.starts, split.end - base)
    if split.stops:
        high = next((at for at in range(low, high) if block.starts[at] + base in split.stops), high)
    return low, max(low, high)


def _blocks(source: CaptureBytes, findings: Findings) -> Iterator[Block]:
    with closing(source):
        yield from open_capture(source, 1, BLOCK_SIZE, findings)


def boundary(split: Split) -> int | None:
    """Where the data of the first packet behind the split begins, by the guess that the split behind makes."""
    report = Report()
    next(read_split(split._replace(start=split.end or 0, end=None, begin=None), report), None)
    return report.first


def _records_of(path: str) -> Records | None:
    with closing(CaptureBytes(path)) as source:
        return records_of(source)


def _found(split: Split, records: Records) -> int | None:
    """Where a record begins in the split, as far as can be told; None: none does."""
    # Data that begins in the split may have its header before it.
    offset = max(0, split.start - records.header)
    with closing(CaptureBytes(split.path, start=offset)) as source:
        data = read_at_least(source, b"", _WINDOW, _WINDOW)
    at = records.first(data, offset)
    return None if at is None or (split.end is not None and offset + at >= split.end) else offset + at
