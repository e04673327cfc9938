"""Splits of a large capture, each read by a task of its own.

Nothing marks where a packet begins in the middle of a file, so the task guesses: it looks for a run of plausible
records, each of which ends where the next one begins. The split before proves the guess if it ends exactly there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import cbor2

from kinspect.capture import slice_block
from kinspect.capture.boundary import RecordShape, records_of
from kinspect.capture.fileformats import open_capture
from kinspect.capture.reader import BLOCK_SIZE, Findings
from kinspect.capture.source import read_at_least
from kinspect.errors import CaptureError
from kinspect.model import NS_PER_DAY, Block, Counts
from kinspect.spark.shuffle import EARLIEST
from kinspect.spark.storage import CaptureBytes, shown

SPLIT_BYTES = 64 * 1024 * 1024
LAST_TIMES = 3
"""Number of last packets that decide when a run ended."""

# Bytes behind the start of a split in which its first packet is searched.
_WINDOW = 1024 * 1024


class Split(NamedTuple):
    """Packets of a capture whose data begins at byte `start` or later and before `end` (None: to the end of the file).

    `number` counts the splits of a run, `file` its captures. `begin`: offset of a known record; None: the first one
    from `start` on is searched. `size`: bytes of the capture when the run began, None if unknown. `stops`: offsets at
    which other splits begin; the first of them ends this one. `after`: packets up to this offset were read before.
    `first_time`: time (ns) of the capture's first packet, where that identifies captures.
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
    """Splits of a capture, in order, numbered from 0. The first one reads all of a capture that cannot be cut."""
    whole = size or 1
    step = split_bytes if split_bytes > 0 else whole
    for number, start in enumerate(range(0, whole, step)):
        end = start + step if start + step < whole else None
        yield Split(number, file, path, size or None, start, end, None if start else 0)


def shares(splits: Iterable[Split], task_bytes: int) -> list[list[Split]]:
    """Lists of splits, one for each task: small splits share a task, which reads about `task_bytes`."""
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
class SplitReport:
    """Report of a scanned split, or of the fragments that a task reassembled (`split` -1)."""

    split: int = -1
    file: int = 0
    packets: int = 0
    whole: bool = False
    """True if the split is the whole of a capture that cannot be cut."""
    began: int | None = None
    """Offset of its first record, None if there is none."""
    first: int | None = None
    next: int | None = None
    """Offsets of the data of its first packet, and of the first packet of the split behind."""
    describes: bool = False
    """True if it holds pcapng blocks that packets behind it depend on."""
    error: tuple[str, str, bool] | None = None
    """`CaptureError.values`."""
    secrets: list[bytes] = field(default_factory=list)
    drops: dict[tuple[int, ...], int] = field(default_factory=dict)
    first_time: int | None = None
    latest: int = EARLIEST
    """Merge time of its last packet."""
    last: list[tuple[int, int]] = field(default_factory=list)
    """Merge time and time of the last packets that have a time."""
    days: list[int] = field(default_factory=list)
    """Days of its packets, counted from the epoch."""
    untimed: bool = False
    """True if some packets have no time."""
    fragments: int = 0
    counts: Counts = field(default_factory=Counts)

    def to_bytes(self) -> bytes:
        return cbor2.dumps(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> SplitReport:
        told = cbor2.loads(data)
        told["counts"] = Counts(**told["counts"])
        told["last"] = [tuple(packet) for packet in told["last"]]
        return cls(**told)

    def see(self, times: list[int | None], turns: list[int]) -> None:
        """Adds the times and merge times of packets."""
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


def read_split(split: Split, report: SplitReport) -> Iterator[Block]:
    """Blocks of a split, with frames numbered from 1. Fills the offsets, secrets and drops of the report.

    Raises CaptureError for damage, after all blocks before it.
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


def _cut_blocks(
    split: Split, report: SplitReport, records: RecordShape, findings: Findings
) -> Iterator[Block]:
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
    """Indices of a block's packets that belong to the split. `base`: offset of the block's buffer in the file."""
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
    """Offset of the data of the first packet behind the split, as the split behind guesses it."""
    report = SplitReport()
    next(read_split(split._replace(start=split.end or 0, end=None, begin=None), report), None)
    return report.first


def _records_of(path: str) -> RecordShape | None:
    with closing(CaptureBytes(path)) as source:
        return records_of(source)


def _found(split: Split, records: RecordShape) -> int | None:
    """Offset of the first record in the split, guessed; None if there is none."""
    # The header of the first packet may lie before the split.
    offset = max(0, split.start - records.header)
    with closing(CaptureBytes(split.path, start=offset)) as source:
        data = read_at_least(source, b"", _WINDOW, _WINDOW)
    at = records.first(data, offset)
    return None if at is None or (split.end is not None and offset + at >= split.end) else offset + at
