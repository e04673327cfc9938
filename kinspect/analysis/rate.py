"""Rates a second, over the last seconds."""

from __future__ import annotations

NS_PER_SECOND = 1_000_000_000
WINDOW_NS = 5 * NS_PER_SECOND
STEP_NS = NS_PER_SECOND // 4


class Rate:
    """Amounts over a window that moves on in steps. Times are nanoseconds of any clock that does not go back."""

    __slots__ = ("_amounts", "_begun", "_steps")

    def __init__(self, window_ns: int = WINDOW_NS) -> None:
        self._steps = window_ns // STEP_NS
        self._amounts: dict[int, int] = {}
        self._begun: int | None = None

    def add(self, now: int, amount: int) -> None:
        """Add an amount that came at `now`."""
        self._begun = now if self._begun is None else min(self._begun, now)
        step = now // STEP_NS
        self._amounts[step] = self._amounts.get(step, 0) + amount
        self._forget(max(self._amounts))

    def merge(self, other: Rate) -> None:
        for step, amount in other._amounts.items():
            self._amounts[step] = self._amounts.get(step, 0) + amount
        begins = [begun for begun in (self._begun, other._begun) if begun is not None]
        self._begun = min(begins, default=None)
        if self._amounts:
            self._forget(max(self._amounts))

    def result(self, now: int) -> float:
        """The amount a second, over the window that ends at `now` or as much of it as there was."""
        if self._begun is None:
            return 0.0
        self._forget(now // STEP_NS)
        begin = max(self._begun, (now // STEP_NS - self._steps) * STEP_NS)
        # Amounts of the first moment are no rate yet.
        return sum(self._amounts.values()) * NS_PER_SECOND / max(now - begin, NS_PER_SECOND)

    def _forget(self, newest: int) -> None:
        for step in [step for step in self._amounts if step < newest - self._steps]:
            del self._amounts[step]
