"""Ranges of offsets, and how many offsets of another one are in them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate

Range = tuple[int, int]
"""The first offset, and the one behind the last."""


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Ranges in order, joined where they meet."""
    found: list[Range] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif first < end:
            found.append((first, end))
    return found


class OffsetRanges:
    """Offsets in any ranges, each counted once."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._ranges = joined(ranges)
        self._firsts = [first for first, _ in self._ranges]
        # How many there are before each range.
        self._before = [0, *accumulate(end - first for first, end in self._ranges)]

    def count(self, first: int, end: int) -> int:
        """How many of them are from `first` on, and before `end`."""
        return max(0, self._below(end) - self._below(first))

    def _below(self, offset: int) -> int:
        at = bisect_left(self._firsts, offset)
        return self._before[at] - max(0, self._ranges[at - 1][1] - offset) if at else 0


class GrowingRanges:
    """Offsets that come in ranges, one after the other."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        """How many ranges they are, joined where they meet."""
        return len(self._firsts)

    def around(self, offset: int) -> Range | None:
        """The range that has this offset; None: it has not come."""
        at = bisect_right(self._firsts, offset) - 1
        return (self._firsts[at], self._ends[at]) if at >= 0 and offset < self._ends[at] else None

    def add(self, first: int, end: int) -> list[Range]:
        """Add a range that is not empty; return the parts of it that are new."""
        begin, behind = bisect_left(self._ends, first), bisect_right(self._firsts, end)
        new, at = [], first
        for one, its_end in zip(self._firsts[begin:behind], self._ends[begin:behind], strict=True):
            if at < one:
                new.append((at, one))
            at = max(at, its_end)
        if at < end:
            new.append((at, end))
        if begin < behind:
            first, end = min(first, self._firsts[begin]), max(end, self._ends[behind - 1])
        self._firsts[begin:behind], self._ends[begin:behind] = [first], [end]
        return new
