"""Packets of several interfaces in the order of their times."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from operator import itemgetter
from typing import NamedTuple

_time = itemgetter(0)


class PacketBatch(NamedTuple):
    """Packets in order: times, lengths on the wire, and pcapng blocks."""

    times: list[int]
    lengths: list[int]
    blocks: list[bytes]

    def first(self, size: int) -> PacketBatch:
        if size == len(self.times):
            return self
        return PacketBatch(self.times[:size], self.lengths[:size], self.blocks[:size])


class PacketOrder:
    """Merges batches of several interfaces; releases packets that no earlier one can precede any more."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, bytes]] = []
        self._arrivals: deque[tuple[int, int]] = deque()
        self._settled = 0

    def add(self, batch: PacketBatch, at: int) -> None:
        """Add a batch that was taken at the moment `at`."""
        self._rows += zip(*batch, strict=True)
        self._arrivals.append((at, max(batch.times)))

    def settled(self, until: int, left: list[int]) -> PacketBatch:
        """Release the packets up to the latest one taken until the moment `until`, which is long enough ago for all
        earlier ones to be there. `left`: latest times of interfaces that have more to be taken now."""
        while self._arrivals and self._arrivals[0][0] <= until:
            self._settled = max(self._settled, self._arrivals.popleft()[1])
        self._rows.sort(key=_time)
        size = bisect_right(self._rows, min([self._settled, *left]), key=_time)
        taken, self._rows = self._rows[:size], self._rows[size:]
        return PacketBatch([row[0] for row in taken], [row[1] for row in taken], [row[2] for row in taken])
