"""Requests in flight on one connection, found by correlation id, the oldest first."""

from __future__ import annotations

from collections import deque

from kinspect.kafka.exchange import Exchange


class Pending:
    """Requests that wait for a response, in the order they were sent. A correlation id may repeat."""

    __slots__ = ("_doubtful", "_first", "_in_order", "_next", "_oldest", "_repeated")

    def __init__(self) -> None:
        self._in_order: dict[int, Exchange] = {}
        # By correlation id, the number of the oldest request, and those of younger ones where there are some.
        self._first: dict[int | None, int] = {}
        self._repeated: dict[int | None, deque[int]] = {}
        self._next = 0
        self._oldest = 0  # no older number is in flight
        self._doubtful = 0

    def __len__(self) -> int:
        return len(self._in_order)

    def add(self, exchange: Exchange) -> None:
        number = self._next
        self._next = number + 1
        self._in_order[number] = exchange
        correlation_id = exchange.correlation_id
        if correlation_id in self._first:
            self._repeated.setdefault(correlation_id, deque()).append(number)
        else:
            self._first[correlation_id] = number

    def oldest(self) -> Exchange | None:
        """The request that has waited longest."""
        in_order = self._in_order
        if not in_order:
            return None
        # Not `next(iter(...))`: a dict looks for its first entry among all that were deleted before it.
        while self._oldest not in in_order:
            self._oldest += 1
        return in_order[self._oldest]

    def doubt(self) -> None:
        """Responses were lost: every request that waits now may have had its answer."""
        self._doubtful = self._next

    def is_doubtful(self) -> bool:
        """Whether the oldest request may have had its answer in a hole."""
        return self._oldest < self._doubtful and self.oldest() is not None and self._oldest < self._doubtful

    def holds(self, correlation_id: int | None) -> bool:
        """Whether a request with this correlation id waits (None: a raw SASL token)."""
        return correlation_id in self._first

    def first(self, correlation_id: int | None) -> Exchange:
        """The oldest request with this correlation id; there must be one."""
        return self._in_order[self._first[correlation_id]]

    def take(self, correlation_id: int | None) -> tuple[Exchange, bool]:
        """Remove and return the oldest request with this correlation id (there must be one), and whether it
        overtakes older ones."""
        number = self._first.pop(correlation_id)
        younger = self._repeated.get(correlation_id)
        if younger is not None:
            self._first[correlation_id] = younger.popleft()
            if not younger:
                del self._repeated[correlation_id]
        exchange = self._in_order[number]
        overtakes = self.oldest() is not exchange
        del self._in_order[number]
        return exchange, overtakes

    def take_next(self, correlation_id: int) -> Exchange | None:
        """Remove and return the oldest request if it has this correlation id, and no doubt and no other request is in
        the way; else None, and nothing is removed."""
        number = self._oldest
        if self._first.get(correlation_id) != number or number < self._doubtful or self._repeated:
            return None
        del self._first[correlation_id]
        self._oldest = number + 1
        return self._in_order.pop(number)

    def take_oldest(self) -> Exchange | None:
        """Remove and return the request that has waited longest."""
        exchange = self.oldest()
        return None if exchange is None else self.take(exchange.correlation_id)[0]

    def correlation_ids(self) -> list[int]:
        """The distinct correlation ids in flight, about in the order they were first used."""
        return [c for c in self._first if c is not None]
