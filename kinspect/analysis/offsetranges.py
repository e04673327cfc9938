"""Ranges of offsets, and how many offsets of another one are in them."""

from __future__ import annotations

from bisect import bisect_left
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
