"""Requests in flight on one connection, found by correlation id, the oldest first."""

from __future__ import annotations

from collections import deque

from kinspect.kafka.exchange import Exchange


class Pending:
    """Requests that wait for a response, in the order they were sent. A correlation id may repeat."""

    __slots__ = ("_by_correlation", "_doubtful", "_in_order", "_next")

    def __init__(self) -> None:
        self._in_order: dict[int, Exchange] = {}
        self._by_correlation: dict[int | None, deque[int]] = {}
        self._next = 0
        self._doubtful = 0

    def __len__(self) -> int:
        return len(self._in_order)

    def add(self, exchange: Exchange) -> None:
        number = self._next
        self._next = number + 1
        self._in_order[number] = exchange
        self._by_correlation.setdefault(exchange.correlation_id, deque()).append(number)

    def oldest(self) -> Exchange | None:
        """The request that has waited longest."""
        return next(iter(self._in_order.values()), None)

    def doubt(self) -> None:
        """Responses were lost: every request that waits now may have had its answer."""
        self._doubtful = self._next

    def is_doubtful(self) -> bool:
        """Whether the oldest request may have had its answer in a hole."""
        return next(iter(self._in_order), self._doubtful) < self._doubtful

    def holds(self, correlation_id: int | None) -> bool:
        """Whether a request with this correlation id waits (None: a raw SASL token)."""
        return correlation_id in self._by_correlation

    def first(self, correlation_id: int | None) -> Exchange:
        """The oldest request with this correlation id; there must be one."""
        return self._in_order[self._by_correlation[correlation_id][0]]

    def take(self, correlation_id: int | None) -> tuple[Exchange, bool]:
        """Remove and return the oldest request with this correlation id (there must be one), and whether it
        overtakes older ones."""
        numbers = self._by_correlation[correlation_id]
        number = numbers.popleft()
        if not numbers:
            del self._by_correlation[correlation_id]
        overtakes = next(iter(self._in_order)) != number
        return self._in_order.pop(number), overtakes

    def take_oldest(self) -> Exchange | None:
        """Remove and return the request that has waited longest."""
        exchange = self.oldest()
        return None if exchange is None else self.take(exchange.correlation_id)[0]

    def correlation_ids(self) -> list[int]:
        """The distinct correlation ids in flight, in the order they were first used."""
        return [c for c in self._by_correlation if c is not None]
