"""Traffic of the last minute, and of the whole time since the beginning."""

from __future__ import annotations

from collections import deque

from kinspect.analysis.rate import NS_PER_SECOND
from kinspect.analysis.traffic import Traffic

SLOT_NS = 10 * NS_PER_SECOND
SLOTS = 6


class RecentTraffic:
    """Traffic by the time it came, in slots of ten seconds: the last minute is the slot that is being filled and the
    six before it. Times are nanoseconds of any clock that does not go back."""

    def __init__(self, now: int) -> None:
        self._begun = now
        self._slot = now // SLOT_NS
        self._current = Traffic()
        self._closed: deque[tuple[int, Traffic]] = deque()
        self._whole = Traffic()
        self._minute = Traffic()

    def at(self, now: int) -> Traffic:
        """The accumulator to which exchanges at `now` are added."""
        self._turn(now)
        return self._current

    def minute(self, now: int) -> tuple[Traffic, float]:
        """Traffic of the last minute, and its seconds: fewer at the beginning."""
        self._turn(now)
        begun = max(self._begun, (self._slot - SLOTS) * SLOT_NS)
        return self._with_current(self._minute), (now - begun) / NS_PER_SECOND

    def whole(self, now: int) -> tuple[Traffic, float]:
        """Traffic since the beginning, and its seconds."""
        self._turn(now)
        return self._with_current(self._whole), (now - self._begun) / NS_PER_SECOND

    def _with_current(self, before: Traffic) -> Traffic:
        together = Traffic()
        together.merge(before)
        together.merge(self._current)
        return together

    def _turn(self, now: int) -> None:
        """Begin the slot of `now`."""
        slot = now // SLOT_NS
        if slot <= self._slot:
            return
        self._whole.merge(self._current)
        self._closed.append((self._slot, self._current))
        while self._closed and self._closed[0][0] < slot - SLOTS:
            self._closed.popleft()
        self._minute = Traffic()
        for _, traffic in self._closed:
            self._minute.merge(traffic)
        self._slot, self._current = slot, Traffic()
