"""The first exchanges of another order than that of completion: `read --sort`, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any, cast

from kinspect import state
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.sink import PieceSink, Sink, WrittenLine

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


class Ordered(Sink):
    """Keeps the first exchanges of an order as pieces, for `shown` to write at the end; parts of a run merge.

    `most`: number of exchanges to keep.
    """

    def __init__(self, shown: PieceSink, order: str, most: int) -> None:
        self.lines = shown.lines
        self._shown = shown
        self._order = order
        self._most = most
        self._seen = 0
        # A heap, the last of the order on top; those of no higher rank than `_floor` went already.
        self._kept: list[tuple[Rank, WrittenLine]] = []
        self._bytes = 0
        self._floor: Rank = ()
        self._told: list[dict[str, Any]] = []

    def take(self, line: Line) -> bool | None:
        """Keep an exchange if it is among the first so far."""
        exchange = cast(Exchange, line)
        if not self._shown.has(exchange):
            return False
        self._seen += 1
        value = ORDERS[self._order](exchange)
        place = [-number for number in exchange.key]
        rank = (0, *place) if value is None else (1, value, *place)
        full = len(self._kept) == self._most
        if rank > (self._kept[0][0] if full else self._floor):
            self._keep(rank, self._shown.piece(exchange))
        return None

    def tell(self, line: dict[str, Any]) -> None:
        """Keep a line of another type; it comes last."""
        self._told.append(line)

    @property
    def caps_hit(self) -> Mapping[str, int]:
        missing = self.missing
        return {BYTES_HIT: missing} if missing else {}

    @property
    def missing(self) -> int:
        """Exchanges of the first `most` for whose text there was no room: the last ones of the order."""
        return min(self._most, self._seen) - len(self._kept)

    def finish(self) -> None:
        """Write what was kept, in its order."""
        for _, piece in sorted(self._kept, reverse=True):
            self._shown.put(piece)
        for line in self._told:
            self._shown.tell(line)
        self._shown.finish()

    def part(self) -> Any:
        return state.to_bytes([self._seen, self._floor, self._kept])

    def merge(self, part: Any) -> None:
        seen, floor, kept = state.from_bytes(part)
        found = [*self._kept, *((rank, WrittenLine(*piece)) for rank, piece in kept)]
        self._kept, self._bytes, self._floor = [], 0, max(self._floor, floor)
        self._seen += seen
        for rank, piece in found:
            if rank > self._floor:
                self._keep(rank, piece)

    def _keep(self, rank: Rank, piece: WrittenLine) -> None:
        heappush(self._kept, (rank, piece))
        self._bytes += len(piece.text)
        while len(self._kept) > self._most or (self._bytes > BYTES_KEPT and len(self._kept) > 1):
            self._drop()

    def _drop(self) -> None:
        self._floor, piece = heappop(self._kept)
        self._bytes -= len(piece.text)
