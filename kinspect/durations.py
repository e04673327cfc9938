"""Durations by buckets whose bounds are given, as Prometheus and OpenTelemetry have them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Durations:
    """Numbers of durations by bucket, the last one for those above all `bounds`, and their sum, in the unit of the
    bounds. A negative one, of a capture with a bent clock, counts as 0."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    def add(self, duration: float) -> None:
        duration = max(duration, 0)
        self.counts[bisect_left(self.bounds, duration)] += 1
        self.total += duration

    def copy(self) -> Durations:
        other = Durations(self.bounds)
        other.counts, other.total = [*self.counts], self.total
        return other
