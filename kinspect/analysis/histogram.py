"""Durations in buckets that grow with them: quantiles with a stated error, in a bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

LONGEST_NS = 1 << 50
"""Longer durations, of thirteen days and more, share a bucket."""
ERROR = 1 / 128
"""Largest relative difference between a quantile and the true one."""

# Durations below 2**7 have a bucket each; above, each doubling is cut into 2**6 buckets: 2,881 in all.
_BITS = 6
_EXACT = 2 << _BITS
_WITHIN = (1 << _BITS) - 1


class Spread(NamedTuple):
    """Quantiles in nanoseconds; `greatest` is exact, the others within `ERROR`. All None where nothing was added."""

    median: int | None = None
    p95: int | None = None
    p99: int | None = None
    greatest: int | None = None


class Histogram:
    """Takes durations in nanoseconds. A negative one, of a capture with a bent clock, counts as 0."""

    __slots__ = ("_buckets", "_count", "_greatest")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self._count = 0
        self._greatest = 0

    @property
    def size(self) -> int:
        """Number of its buckets."""
        return len(self._buckets)

    def has(self, ns: int) -> bool:
        """True if a duration needs no new bucket."""
        return _bucket(ns) in self._buckets

    def add(self, ns: int, times: int = 1) -> bool:
        """Add a duration, so many times; return True if it needed a new bucket."""
        at = _bucket(ns)
        count = self._buckets.get(at, 0)
        self._buckets[at] = count + times
        self._count += times
        self._greatest = max(self._greatest, ns)
        return not count

    def merge(self, other: Histogram) -> None:
        buckets = self._buckets
        for at, count in other._buckets.items():
            buckets[at] = buckets.get(at, 0) + count
        self._count += other._count
        self._greatest = max(self._greatest, other._greatest)

    def state(self) -> list[Any]:
        """Plain values for `from_state`."""
        return [self._buckets, self._count, self._greatest]

    @classmethod
    def from_state(cls, values: Sequence[Any]) -> Histogram:
        """The histogram that has this `state`."""
        histogram = cls()
        buckets, histogram._count, histogram._greatest = values
        histogram._buckets = dict(buckets)
        return histogram

    def result(self) -> Spread:
        if not self._count:
            return Spread()
        median, p95, p99 = self.quantiles(50, 95, 99)
        return Spread(median, p95, p99, self._greatest)

    def quantiles(self, *percents: int) -> Iterator[int]:
        """The quantiles at these percentages (ascending), in nanoseconds; something must have been added."""
        seen = 0
        steps = iter(sorted(self._buckets.items()))
        value = 0
        for percent in percents:
            rank = -(-percent * self._count // 100)
            while seen < rank:
                at, count = next(steps)
                seen += count
                value = _middle(at)
            yield min(value, self._greatest)

    def beyond(self, value: int) -> tuple[int, int]:
        """How many of what was added are greater than a value, and how many greater or equal, by their buckets."""
        bucket = _bucket(value)
        greater = sum(count for at, count in self._buckets.items() if at > bucket)
        return greater, greater + self._buckets.get(bucket, 0)

    @property
    def count(self) -> int:
        """How many were added."""
        return self._count


class Quantiles(dict[str, Any]):
    """Quantiles by their names, as a row has them, with what they are of: `histogram`."""

    def __init__(self, histogram: Histogram, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        self.histogram = histogram


def _bucket(ns: int) -> int:
    if ns < _EXACT:
        return max(ns, 0)
    ns = min(ns, LONGEST_NS)
    shift = ns.bit_length() - _BITS - 1
    return (shift << _BITS) + (ns >> shift)


def _middle(at: int) -> int:
    if at < _EXACT:
        return at
    shift = (at >> _BITS) - 1
    return ((at & _WITHIN) + _WITHIN + 1 << shift) + (1 << shift >> 1)
