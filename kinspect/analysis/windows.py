"""Counts over windows of time, in a bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

NS_PER_SECOND = 1_000_000_000
WINDOW_NS = 10 * NS_PER_SECOND
"""Length of a window, doubled as often as there are too many."""
HALVES = 2
"""Windows begin with each half of one: so a burst that is no longer than a half lies in one of them."""
HALVES_KEPT = 256


class Busiest(NamedTuple):
    """The window with the largest count: its begin in nanoseconds since the epoch, and the count a second."""

    begin: int
    per_second: float


class Windows:
    """Counts by name and half of a window. A half exists if something was counted in it; where there would be more than
    `HALVES_KEPT`, each becomes twice as long. So the result does not depend on the order."""

    __slots__ = ("_counts", "_length")

    def __init__(self) -> None:
        self._length = WINDOW_NS // HALVES
        self._counts: dict[tuple[str, int], int] = {}

    def add(self, name: str, time: int) -> None:
        """Count a name at a time in nanoseconds since the epoch."""
        at = name, time // self._length
        self._counts[at] = self._counts.get(at, 0) + 1
        self._fit()

    def merge(self, other: Windows) -> None:
        """Add the counts of another one, which stays as it is."""
        self._widen(other._length)
        ratio = self._length // other._length
        for (name, number), count in other._counts.items():
            at = name, number // ratio
            self._counts[at] = self._counts.get(at, 0) + count
        self._fit()

    def only(self, names: Iterable[str]) -> Windows:
        """The counts of some names."""
        windows, wanted = Windows(), {*names}
        windows._length = self._length
        windows._counts = {at: count for at, count in self._counts.items() if at[0] in wanted}
        return windows

    def _fit(self) -> None:
        while len(self._counts) > HALVES_KEPT:
            self._widen(2 * self._length)

    def _widen(self, length: int) -> None:
        if length > self._length:
            finer, ratio = self._counts, length // self._length
            self._length, self._counts = length, {}
            for (name, number), count in finer.items():
                at = name, number // ratio
                self._counts[at] = self._counts.get(at, 0) + count

    def busiest(self) -> dict[str, Busiest]:
        """The busiest window of each name; of several the first."""
        found: dict[str, tuple[int, int]] = {}
        for (name, number), count in self._counts.items():
            both = count + self._counts.get((name, number + 1), 0)
            found[name] = max(found.get(name, (0, 0)), (both, -number))
        return {
            name: Busiest(-number * self._length, count * NS_PER_SECOND / (HALVES * self._length))
            for name, (count, number) in found.items()
        }

    def state(self) -> list[Any]:
        """Plain values for `from_state`."""
        return [self._length, [[*at, count] for at, count in self._counts.items()]]

    @classmethod
    def from_state(cls, values: Sequence[Any]) -> Windows:
        """The windows that have this `state`."""
        windows = cls()
        windows._length, counts = values
        windows._counts = {(name, number): count for name, number, count in counts}
        return windows
