"""The clock of a run and the order of its packets, for tasks that see only some of the packets.

A reassembly runs its timers at the packets of all connections. A task that has some of the connections learns from
`Clock` when the others' packets would have let a timer run out.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kinspect.model import FRAME_BITS

Numbers: TypeAlias = Any
"""A numpy array of int64."""
_CHUNK = 1 << 16


class Chunk(NamedTuple):
    """TCP segments that follow one another in the run, packed: their times and frames.

    `before` and `after`: the clock (the latest time of any segment) before the first and after the last of them.
    `sorted`: no segment has a time before that of an earlier one.
    """

    first: int
    size: int
    before: int
    after: int
    sorted: bool
    times: bytes
    frames: bytes


class Clock:
    """All TCP segments of a run by ordinal. Without chunks it tells nothing: for a task that has them all itself."""

    def __init__(self, chunks: list[Chunk], segments: int) -> None:
        self.segments = segments
        self._chunks = chunks
        self._firsts = [chunk.first for chunk in chunks]
        self._open = lru_cache(4)(self._unpacked)

    def __reduce__(self) -> tuple[type[Clock], tuple[list[Chunk], int]]:
        return Clock, (self._chunks, self.segments)

    @classmethod
    def of(cls, times: Numbers, frames: Numbers, before: int = 0, clock: int = 0) -> Clock:
        """The clock of segments in the order of the run, of which `before` came before, up to the time `clock`."""
        chunks = []
        for first in range(0, len(times), _CHUNK):
            part = times[first : first + _CHUNK]
            running = np.maximum.accumulate(np.concatenate(([clock], part)))
            chunks.append(
                Chunk(
                    before + first,
                    len(part),
                    clock,
                    int(running[-1]),
                    bool((running[1:] == part).all()),
                    _packed(part),
                    _packed(frames[first : first + _CHUNK]),
                )
            )
            clock = int(running[-1])
        return cls(chunks, before + len(times))

    @property
    def first(self) -> int:
        """The ordinal of the first segment, or of the one to come if there is none."""
        return self._chunks[0].first if self._chunks else self.segments

    @property
    def last(self) -> int:
        """The clock after the last segment; 0 if there is none."""
        return self._chunks[-1].after if self._chunks else 0

    def at(self, ordinal: int) -> int | None:
        """The clock at a segment if it is later than the segment's own time, else None."""
        number = bisect_right(self._firsts, ordinal) - 1
        if number < 0:
            return None
        chunk = self._chunks[number]
        if chunk.sorted:
            return None
        times, clocks, _ = self._open(number)
        at = ordinal - chunk.first
        return int(clocks[at]) if clocks[at] > times[at] else None

    def ascends(self, first: int, last: int) -> bool:
        """Whether the clock is at each of the segments from `first` to `last` the segment's own time."""
        begin = max(bisect_right(self._firsts, first) - 1, 0)
        end = bisect_right(self._firsts, last)
        return all(chunk.sorted for chunk in self._chunks[begin:end])

    def first_due(self, begin: int, end: int, deadline: int) -> tuple[int, int, int, int] | None:
        """The first segment of those from `begin` to before `end` at which the clock has reached `deadline`.

        Out: its ordinal, its own time, its frame and the clock; None if there is no such segment.
        """
        number = max(bisect_right(self._firsts, begin) - 1, 0)
        while number < len(self._chunks) and begin < end:
            chunk = self._chunks[number]
            stop = min(end, chunk.first + chunk.size)
            if chunk.after >= deadline and begin < stop:
                times, clocks, frames = self._open(number)
                at = begin - chunk.first
                at += int(np.searchsorted(clocks[at : stop - chunk.first], deadline))
                if at < stop - chunk.first:
                    return chunk.first + at, int(times[at]), int(frames[at]), int(clocks[at])
            begin = max(begin, stop)
            number += 1
        return None

    def _unpacked(self, number: int) -> tuple[Numbers, Numbers, Numbers]:
        chunk = self._chunks[number]
        times = _numbers(chunk.times)
        clocks = np.maximum(np.maximum.accumulate(times), chunk.before)
        return times, clocks, _numbers(chunk.frames)


class Places:
    """Where each frame stands in the run: runs of frames that follow one another. `before` packets came earlier; only
    of some of those it is known."""

    def __init__(self, runs: dict[int, tuple[list[int], list[int]]], before: int = 0) -> None:
        self._runs = runs
        self.before = before

    @classmethod
    def of(
        cls,
        order: Numbers,
        references: Numbers,
        before: int = 0,
        known: Mapping[int, int] | None = None,
    ) -> Places:
        """`order`: the packets in the order of the run, as positions in `references`, behind `before` others; `known`:
        places of some of those others, by frame."""
        runs: dict[int, tuple[list[int], list[int]]] = {}
        for frame, place in sorted((known or {}).items()):
            firsts, shifts = runs.setdefault(frame >> FRAME_BITS, ([], []))
            firsts.append(frame)
            shifts.append(place - frame)
        if len(order):
            frames = references[order]
            begins = [0, *(np.flatnonzero(np.diff(frames) != 1) + 1).tolist()]
            for begin in begins:
                firsts, shifts = runs.setdefault(int(frames[begin]) >> FRAME_BITS, ([], []))
                firsts.append(int(frames[begin]))
                shifts.append(before + begin - int(frames[begin]))
        return cls(runs, before)

    def has_file(self, frame: int) -> bool:
        """Whether there are packets of the frame's file."""
        return frame >> FRAME_BITS in self._runs

    def place(self, frame: int) -> int:
        """The frame's place, from 0."""
        firsts, shifts = self._runs.get(frame >> FRAME_BITS, ((), ()))
        at = bisect_right(firsts, frame) - 1
        return frame + shifts[at] if at >= 0 else 0


def _packed(numbers: Numbers) -> bytes:
    return zlib.compress(np.diff(numbers, prepend=np.int64(0)).tobytes(), 6)


def _numbers(packed: bytes) -> Numbers:
    return np.cumsum(np.frombuffer(zlib.decompress(packed), np.int64))
