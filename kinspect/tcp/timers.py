"""Which connection is due next by the clock. The clock is the packets' own time."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from .connection import Connection

NEVER = 1 << 62


class Timers:
    """Connections by a time; an entry stays until it is taken out, also when its connection ended."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Connection]] = []

    def add(self, at: int, connection: Connection) -> None:
        heappush(self._heap, (at, connection.serial, connection))

    @property
    def first(self) -> int:
        """The earliest time, `NEVER` if there is none."""
        return self._heap[0][0] if self._heap else NEVER

    def pop(self) -> Connection:
        """Takes out the earliest entry; of equal ones that of the oldest connection."""
        return heappop(self._heap)[2]

    def compact(self, connections: int) -> None:
        """Drops entries of ended connections when there are more of them than open `connections`."""
        if len(self._heap) > 2 * connections + 1024:
            self._heap = [entry for entry in self._heap if entry[2].end_reason is None]
            heapify(self._heap)

    def clear(self) -> None:
        self._heap.clear()
