"""A part of an endless run: the packets of some files, ordered behind those of the parts before.

As `kinspect.spark.index` does for captures that are all there; here some packets of a file may have been taken before,
and some have to wait for files that are not complete yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kinspect import link
from kinspect.errors import CaptureError
from kinspect.model import FRAME_BITS, Caps, Counts, Segment
from kinspect.spark.clock import Clock, Numbers, Places
from kinspect.spark.failure import error_of
from kinspect.spark.index import NO_TIME, Proven, Report, _add_counts, _assemble, _drops
from kinspect.spark.rows import segment_batches
from kinspect.spark.splits import Split


class File(NamedTuple):
    """A file of the run: its number (from 1), how many of its packets were taken before, and whether a part of the run
    had it before, even if it took none of them."""

    number: int
    taken: int
    begun: bool


@dataclass(slots=True)
class Standing:
    """Where a run stands: how many packets and TCP segments it has taken, up to when, and which was the last."""

    packets: int = 0
    segments: int = 0
    clock: int = 0
    until: int = 0
    """The time, in the order of the run, of the last packet."""
    start: int | None = None
    last: tuple[int | None, int] = (None, 0)
    places: dict[int, int] = field(default_factory=dict)
    """Of packets that are still referred to, by frame."""


class Slice(NamedTuple):
    """What is taken of a split: the frames from `begin` to before `end`."""

    proven: Proven
    begin: int
    end: int

    def batches(self, caps: Caps) -> Iterator[pa.RecordBatch]:
        """Its segments, as `segment_batches` gives them."""
        for batch in segment_batches(self.proven, caps):
            frames = batch.column("frame").to_numpy()
            inside = (frames >= self.begin) & (frames < self.end)
            if inside.all():
                yield batch
            elif inside.any():
                yield batch.filter(pa.array(inside))


@dataclass(slots=True)
class Portion:
    """What a part of the run takes."""

    slices: list[Slice]
    clock: Clock
    places: Places
    fragments: list[tuple[int, Segment]]
    """Segments put together from fragments, with their ordinals."""
    standing: Standing
    """Where the run stands behind it."""
    taken: list[int]
    """By file, how many of its packets were taken by now, and before."""
    packets: list[int]
    """By file, how many it has."""
    late: int
    """Packets that come before others which were taken already."""
    errors: list[CaptureError]
    counts: Counts
    secrets: list[bytes]


def take(
    files: list[File],
    proven: list[tuple[Split, Report]],
    until: tuple[int, int] | None,
    standing: Standing,
    dissector: link.Dissector,
    counts: Counts,
    caps: Caps,
) -> Portion:
    """The packets of `files` (as `index.prove` looked at them) that are next.

    `until`: a time, and how many of `files` come before a file that begins then and is not among them: of those
    packets up to that time are taken, of the others packets before it. None: all. `dissector` puts fragments
    together, also with those of earlier parts; `counts` are its.
    """
    sizes = [len(report.times) for _, report in proven]
    starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    times = _joined([report.times for _, report in proven], np.int64)
    carries = _joined([report.carries_tcp for _, report in proven], np.bool_)
    file_of = np.repeat(np.array([split.file for split, _ in proven], np.int64), sizes)
    bounds = np.searchsorted(file_of, np.arange(len(files) + 1)) if len(files) else np.zeros(1, np.int64)
    frame = np.arange(len(times)) - bounds[file_of] + 1
    numbers = np.array([file.number for file in files], np.int64)
    before = np.array([file.taken for file in files], np.int64)
    reference = (numbers[file_of] << FRAME_BITS) | frame

    latest = times.copy()
    for begin, end in pairwise(bounds):
        latest[begin:end] = np.maximum.accumulate(times[begin:end])
    wanted = frame > before[file_of]
    if until is not None:
        time, rank = until
        wanted &= (latest < time) | ((latest == time) & (file_of < rank))
    order = np.argsort(latest, kind="stable")
    order = order[wanted[order]].astype(np.int64)

    place = np.full(len(times), -1, np.int64)
    place[order] = np.arange(len(order)) + standing.packets
    fragments = [
        (int(starts[number]) + fragment.number, fragment)
        for number, (_, report) in enumerate(proven)
        for fragment in report.fragments
        if wanted[int(starts[number]) + fragment.number]
    ]
    whole = _assemble(fragments, place, reference, caps, counts, dissector)
    for position, _ in whole:
        carries[position] = True
    ordinal = np.full(len(times), -1, np.int64)
    ordinal[order] = np.cumsum(carries[order]) - carries[order] + standing.segments
    carrying = order[carries[order]]
    clock = Clock.of(times[carrying], reference[carrying], standing.segments, standing.clock)
    counted = np.bincount(file_of[order], minlength=len(files)) if len(files) else []
    taken = [file.taken + int(count) for file, count in zip(files, counted, strict=True)]
    packets = [int(end - begin) for begin, end in pairwise(bounds)]
    portion = Portion(
        slices=[],
        clock=clock,
        places=Places.of(order, reference, standing.packets, standing.places),
        fragments=[(int(ordinal[at]), segment) for at, segment in whole],
        standing=_behind(standing, order, latest, times, reference, len(carrying), clock),
        taken=taken,
        packets=packets,
        late=int((latest[order] < standing.until).sum()),
        errors=[],
        counts=counts,
        secrets=[],
    )
    for _, report in proven:
        portion.secrets += report.secrets
    # Of a file that is taken in several parts, with the first one.
    fresh = [report for split, report in proven if not files[split.file].begun]
    counts.kernel_drops = _drops(fresh)
    for report in fresh:
        _add_counts(counts, report.counts)
    completed: dict[int, set[int]] = {}
    for position, _ in whole:
        number = int(np.searchsorted(starts, position, side="right")) - 1
        completed.setdefault(number, set()).add(int(position - starts[number]))
    for number, (split, report) in enumerate(proven):
        begin = int(starts[number])
        if report.error is not None and taken[split.file] == packets[split.file]:
            portion.errors.append(error_of(report.error))
        inside = np.flatnonzero(wanted[begin : int(starts[number + 1])])
        if len(inside):
            low, high = int(inside[0]), int(inside[-1]) + 1
            breaks = [0, *(np.flatnonzero(np.diff(place[begin + low : begin + high]) != 1) + 1).tolist()]
            runs = tuple(
                (low + at, int(place[begin + low + at]), int(ordinal[begin + low + at])) for at in breaks
            )
            first = int(reference[begin])
            found = Proven(split, first, len(report.times), runs, frozenset(completed.get(number, ())))
            portion.slices.append(Slice(found, first + low, first + high))
    return portion


def is_timeless(report: Report) -> bool:
    """Whether some packets have no time: nobody can tell where in an endless run they belong."""
    return bool((report.times == NO_TIME).any())


def _joined(arrays: list[Numbers], kind: type) -> Numbers:
    return np.concatenate([*arrays, np.empty(0, kind)])


def _behind(
    standing: Standing,
    order: Numbers,
    latest: Numbers,
    times: Numbers,
    reference: Numbers,
    segments: int,
    clock: Clock,
) -> Standing:
    """Where the run stands behind the packets `order`."""
    if not len(order):
        return standing
    last = order[-1]
    return Standing(
        packets=standing.packets + len(order),
        segments=standing.segments + segments,
        clock=max(standing.clock, clock.last),
        until=max(standing.until, int(latest[last])),
        start=int(times[order[0]]) if standing.start is None else standing.start,
        last=(int(times[last]), int(reference[last])),
    )
