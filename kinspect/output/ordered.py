"""The first exchanges of another order than that of completion: `read --sort`, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from kinspect import state
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.output import Piece, PieceWriter

BYTES_KEPT = 32 * 1024 * 1024
"""Bytes of text that are kept; beyond them the last exchanges of the order go."""
BYTES_HIT = "sorted_bytes"
"""Name of that limit in `caps_hit`, which counts the exchanges that are missing."""

Rank = tuple[int, ...]
"""Place of an exchange: the greatest comes first; of equals, that whose line does. Unknown values come last."""


def _size(exchange: Exchange) -> int:
    return sum(message.size for message in (exchange.request, exchange.response) if message is not None)


def _age(exchange: Exchange) -> int | None:
    time = exchange.timestamp
    return None if time is None else -time


ORDERS: dict[str, Callable[[Exchange], int | None]] = {
    "latency": lambda exchange: exchange.latency_ns,
    "service": lambda exchange: exchange.service_ns,
    "size": _size,
    "time": _age,
}
"""Names of `--sort`, and the value that is the greatest for what comes first."""


class Ordered:
    """A `Writer` that keeps the first exchanges of an order as text, for `show`; parts of a run merge.

    `most`: number of exchanges to keep.
    """

    def __init__(self, writer: PieceWriter, order: str, most: int) -> None:
        self._writer = writer
        self._order = order
        self._most = most
        self._seen = 0
        # A heap, the last of the order on top; those of no higher rank than `_floor` went already.
        self._kept: list[tuple[Rank, Piece]] = []
        self._bytes = 0
        self._floor: Rank = ()

    def exchange(self, exchange: Exchange) -> None:
        """Keep an exchange if it is among the first so far."""
        self._seen += 1
        value = ORDERS[self._order](exchange)
        place = [-number for number in exchange.key]
        rank = (0, *place) if value is None else (1, value, *place)
        full = len(self._kept) == self._most
        if rank > (self._kept[0][0] if full else self._floor):
            self._keep(rank, self._writer.piece(exchange))

    def line(self, line: dict[str, Any]) -> None:
        """Write a line of another type; it comes last."""
        self._writer.line(line)
        self._writer.flush()

    def flush(self) -> None:
        """Nothing is written before `show`."""

    @property
    def missing(self) -> int:
        """Exchanges of the first `most` for whose text there was no room: the last ones of the order."""
        return min(self._most, self._seen) - len(self._kept)

    def show(self) -> None:
        """Write what was kept, in its order."""
        for _, piece in sorted(self._kept, reverse=True):
            self._writer.put(piece)
        self._writer.flush()

    def merge(self, other: Ordered) -> None:
        """Add what another part of the run kept."""
        found = [*self._kept, *other._kept]
        self._kept, self._bytes, self._floor = [], 0, max(self._floor, other._floor)
        self._seen += other._seen
        for rank, piece in found:
            if rank > self._floor:
                self._keep(rank, piece)

    def to_bytes(self) -> bytes:
        """What was kept, for `from_bytes` in another process."""
        return state.to_bytes([self._seen, self._floor, self._kept])

    def from_bytes(self, data: bytes) -> Ordered:
        """The part of the same run that gave these bytes."""
        other = Ordered(self._writer, self._order, self._most)
        other._seen, other._floor, kept = state.from_bytes(data)
        other._kept = [*kept]
        return other

    def _keep(self, rank: Rank, piece: Piece) -> None:
        heappush(self._kept, (rank, piece))
        self._bytes += len(piece[1])
        while len(self._kept) > self._most or (self._bytes > BYTES_KEPT and len(self._kept) > 1):
            self._drop()

    def _drop(self) -> None:
        self._floor, (_, text) = heappop(self._kept)
        self._bytes -= len(text)
