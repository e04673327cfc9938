"""Moments, joined where they follow each other closely."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kinspect.model import NS_PER_SECOND

QUIET_NS = 10 * NS_PER_SECOND
"""Moments belong to one burst if no more lies between two that follow each other."""


class Burst(NamedTuple):
    """The first and the last of moments in nanoseconds since the epoch, and their number."""

    first: int
    last: int
    times: int


class Bursts:
    """Bursts in their order, the same in whatever order their moments come."""

    __slots__ = ("_bursts",)

    def __init__(self, bursts: Iterable[Burst] = ()) -> None:
        self._bursts = _joined(bursts)

    def add(self, time: int, times: int = 1) -> None:
        """Count a moment."""
        bursts = self._bursts
        last = bursts[-1] if bursts else None
        if last is not None and last.first <= time <= last.last + QUIET_NS:
            bursts[-1] = Burst(last.first, max(last.last, time), last.times + times)
        else:
            near = self._near(time)
            bursts[near] = _joined([*bursts[near], Burst(time, time, times)])

    def joins(self, time: int) -> bool:
        """True if a moment would make no burst of its own."""
        near = self._bursts[self._near(time)]
        return any(burst.first - QUIET_NS <= time <= burst.last + QUIET_NS for burst in near)

    def _near(self, time: int) -> slice:
        """The bursts on both sides of a moment, which alone may join with it."""
        at = bisect_right(self._bursts, time, key=lambda burst: burst.first)
        return slice(max(at - 1, 0), at + 1)

    def merge(self, other: Bursts) -> None:
        """Add the moments of another one, which stays as it is."""
        self._bursts = _joined([*self._bursts, *other._bursts])

    def __iter__(self) -> Iterator[Burst]:
        return iter(self._bursts)

    def __len__(self) -> int:
        return len(self._bursts)

    def around(self, part: Burst) -> Burst:
        """The burst that another one is a part of, or equals."""
        found = self._ending_after(part.first - 1)
        return part if found is None or found.first > part.first else found

    def has_after(self, time: int, within: int) -> bool:
        """True if there is a moment after that time, no later than so many nanoseconds."""
        found = self._ending_after(time)
        return found is not None and found.first <= time + within

    def has_all_along(self, other: Burst, within: int) -> bool:
        """True if there are moments all along another burst and after it, from so many nanoseconds behind its first."""
        found = self._ending_after(other.last)
        return found is not None and found.first <= other.first + within

    def _ending_after(self, time: int) -> Burst | None:
        """The first burst that ends after that time."""
        at = bisect_right(self._bursts, time, key=lambda burst: burst.last)
        return self._bursts[at] if at < len(self._bursts) else None

    def state(self) -> list[Any]:
        """Plain values for `from_state`."""
        return [list(burst) for burst in self._bursts]

    @classmethod
    def from_state(cls, values: Sequence[Any]) -> Bursts:
        """The bursts that have this `state`."""
        return cls(Burst(*value) for value in values)


def _joined(bursts: Iterable[Burst]) -> list[Burst]:
    found: list[Burst] = []
    for burst in sorted(bursts):
        if found and burst.first <= found[-1].last + QUIET_NS:
            before = found[-1]
            found[-1] = Burst(before.first, max(before.last, burst.last), before.times + burst.times)
        else:
            found.append(burst)
    return found
