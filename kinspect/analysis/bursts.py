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
            self._bursts = _joined([*bursts, Burst(time, time, times)])

    def joins(self, time: int) -> bool:
        """True if a moment would make no burst of its own."""
        at = bisect_right(self._bursts, time, key=lambda burst: burst.first)
        near = self._bursts[max(at - 1, 0) : at + 1]
        return any(burst.first - QUIET_NS <= time <= burst.last + QUIET_NS for burst in near)

    def merge(self, other: Bursts) -> None:
        """Add the moments of another one, which stays as it is."""
        self._bursts = _joined([*self._bursts, *other._bursts])

    def __iter__(self) -> Iterator[Burst]:
        return iter(self._bursts)

    def __len__(self) -> int:
        return len(self._bursts)

    def around(self, part: Burst) -> Burst:
        """The burst that another one is a part of, or equals."""
        return next((burst for burst in self._bursts if burst.first <= part.first <= burst.last), part)

    def has_after(self, time: int, within: int) -> bool:
        """True if there is a moment after that time, no later than so many nanoseconds."""
        return any(time < burst.last and burst.first <= time + within for burst in self._bursts)

    def has_all_along(self, other: Burst, within: int) -> bool:
        """True if there are moments all along another burst and after it, from so many nanoseconds behind its first."""
        return any(burst.first <= other.first + within and other.last < burst.last for burst in self._bursts)

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
