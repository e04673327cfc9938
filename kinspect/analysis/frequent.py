"""The most frequent of any number of names, in a bounded memory.

The counters are those of Misra and Gries ("Finding repeated elements", 1982), merged as Agarwal and others showed
("Mergeable summaries", 2012): a count is never too high, and too low by no more than `missed`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

NAMES_KEPT = 1000

K = TypeVar("K", bound=Hashable)


class Ranking(NamedTuple, Generic[K]):
    """Names with their amounts, the greatest first, equals in the order of names. `others`: the amount not in `names`.
    `missed`: how much too low an amount may be; 0 as long as there were no more names than are kept."""

    names: list[tuple[K, int]]
    others: int = 0
    missed: int = 0


class Frequent(Generic[K]):
    """Adds up amounts by name. Of more than `kept` names the greatest stay; `missed` is then at most the sum of all
    amounts, divided by `kept` + 1."""

    __slots__ = ("_amounts", "_kept", "_missed", "_total")

    def __init__(self, kept: int = NAMES_KEPT) -> None:
        self._kept = kept
        self._amounts: dict[K, int] = {}
        self._total = 0
        self._missed = 0

    def add(self, name: K, amount: int = 1) -> None:
        self._amounts[name] = self._amounts.get(name, 0) + amount
        self._total += amount
        # Looking for the least is worth it only now and then.
        if len(self._amounts) > 2 * self._kept:
            self._shorten()

    def merge(self, other: Frequent[K]) -> None:
        amounts = self._amounts
        for name, amount in other._amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
        self._total += other._total
        self._missed += other._missed
        if len(amounts) > 2 * self._kept:
            self._shorten()

    def result(self, shown: int) -> Ranking[K]:
        """The `shown` greatest amounts."""
        ranked = sorted(self._amounts.items(), key=lambda item: (-item[1], item[0]))[:shown]
        return Ranking(ranked, self._total - sum(amount for _, amount in ranked), self._missed)

    def __len__(self) -> int:
        """Number of names kept now: all there were if none were given up."""
        return len(self._amounts)

    def _shorten(self) -> None:
        least = sorted(self._amounts.values(), reverse=True)[self._kept]
        self._missed += least
        self._amounts = {name: amount - least for name, amount in self._amounts.items() if amount > least}
