"""Requests in flight on one connection, found by correlation id, the oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.state import fields, fill

if TYPE_CHECKING:
    from kinspect.kafka.wire.endpoints import Endpoints

NO_GAP: Final = -1
SIZE_BYTES: Final = 4
WAITED_FOR: Final = 16
"""Number of requests, each sent after the answer to the one before, that show that a client waits for each."""
MOST_RUNS: Final = 8
"""Number of runs of ids beyond which ids are taken to come again."""
REPEATED_AMONG: Final = 64
"""Number of requests in flight, the oldest first, that may be known to have been sent again."""


class Pending:
    """Requests that wait for a response, in the order they were sent. A correlation id may repeat.

    Some clients use one id for all requests, or a few over and over. Then an answer does not show which request or
    answer was lost, and pairing is unsure until nothing is in flight. `unseen`: the connection was not seen from its
    start, so requests may have been in flight before.
    """

    STATE: ClassVar = """
        _doubtful _gap _last_id _mixed _newest _next _overlapped _passed _recur _runs lost
    """.split()
    __slots__ = (*STATE, "_first", "_in_order", "_oldest", "_repeated")

    def __init__(self, unseen: bool) -> None:
        self._in_order: dict[int, Exchange] = {}
        # By correlation id, the number of the oldest request, and those of younger ones where there are some.
        self._first: dict[int | None, int] = {}
        self._repeated: dict[int | None, deque[int]] = {}
        self._next = 0
        self._oldest = 0  # no older number is in flight
        self._doubtful = 0
        self.lost = False  # the answer to a request that the capture lost may still come
        self._gap = 0 if unseen else NO_GAP  # requests from this number on follow lost ones
        self._newest = NO_GAP  # requests from this number on follow all lost ones
        self._passed = False  # the answers to the lost requests seem to have passed
        self._mixed = False  # a request other than the oldest with its id may have been answered
        self._last_id: int | None = None
        self._runs: list[list[int]] = []  # the ids so far as runs that ascend, each its first and last
        self._recur: bool | None = None  # an id may have come again; None: there were no two
        self._overlapped = False  # two requests were in flight at once

    def state(self) -> list[Any]:
        """State for `restore`, as plain values."""
        waiting = [(number, exchange.state()) for number, exchange in self._in_order.items()]
        return [fields(self, self.STATE), waiting]

    def restore(self, state: Sequence[Any], ends: Endpoints) -> list[Exchange]:
        """Continue with the requests of `state`, and return them."""
        own, waiting = state
        for number, of_exchange in waiting:
            exchange = Exchange.from_state(of_exchange, ends)
            self._in_order[number] = exchange
            if exchange.correlation_id in self._first:
                self._repeated.setdefault(exchange.correlation_id, deque()).append(number)
            else:
                self._first[exchange.correlation_id] = number
        fill(self, self.STATE, own)
        restored: Sequence[Sequence[int]] = self._runs
        self._runs = [list(run) for run in restored]
        self._oldest = min(self._in_order, default=self._next)
        return [*self._in_order.values()]

    def __len__(self) -> int:
        return len(self._in_order)

    def add(self, exchange: Exchange) -> None:
        number = self._next
        self._next = number + 1
        if not self._in_order:
            self._mixed = False
            if self._passed:
                self._gap = NO_GAP
                self._passed = False
                self.lost = self.lost and not self._recur
            exchange.queue_known = self._gap == NO_GAP
        else:
            exchange.queue_known = self._waits_behind()
            if not self._overlapped:
                self._overlapped = self._gap != NO_GAP or not self.is_doubtful()
        self._in_order[number] = exchange
        correlation_id = exchange.correlation_id
        if not self._recur and correlation_id is not None:
            self._note_id(correlation_id)
        if correlation_id in self._first:
            self._repeated.setdefault(correlation_id, deque()).append(number)
        else:
            self._first[correlation_id] = number

    def _waits_behind(self) -> bool:
        """True if the youngest request here is not answered: answers to all older ones may lie in a gap."""
        youngest = next(reversed(self._in_order))
        return youngest >= self._doubtful and self._in_order[youngest].doubt is None

    def _note_id(self, correlation_id: int) -> None:
        """Note a request's id, and whether it may have come before. Java's clients have a run of ids for logins."""
        last, self._last_id = self._last_id, correlation_id
        runs = self._runs
        if last is None:
            runs.append([correlation_id, correlation_id])
            return
        ascends = correlation_id > last
        # Ids of requests that were lost are not known.
        recurs = len(runs) > MOST_RUNS or (self._gap != NO_GAP and not ascends)
        for low, high in runs[:-1] if ascends else runs:
            recurs = recurs or low <= correlation_id <= high
        self._recur = recurs
        if self._recur and self._gap == NO_GAP:
            self.lost = False
        if ascends:
            runs[-1][1] = correlation_id
        else:
            runs.append([correlation_id, correlation_id])

    def oldest(self) -> Exchange | None:
        """The request that has waited longest."""
        in_order = self._in_order
        if not in_order:
            return None
        # Not `next(iter(...))`: a dict finds its first entry by passing all deleted ones.
        while self._oldest not in in_order:
            self._oldest += 1
        return in_order[self._oldest]

    def doubt(self) -> None:
        """Note that responses were lost: every waiting request may have been answered."""
        self._doubtful = self._next

    def come_to(self, correlation_id: int | None) -> None:
        """Note that the broker has come to the response to this request: those to younger ones come behind it, and lie
        in no gap so far. If it is the first one of a connection not seen from its start, those to older requests came
        before the capture began."""
        if self._recur is not False:
            return
        number = self._first[correlation_id]
        if not self._gap:
            self._doubtful = max(self._doubtful, number)
        self._doubtful = min(self._doubtful, number + 1)

    def is_doubtful(self) -> bool:
        """True if the answer to the oldest request may lie in a gap, or none was due."""
        oldest = self.oldest()
        return oldest is not None and (self._oldest < self._doubtful or oldest.doubt is not None)

    def may_be_answered(self, by: Exchange) -> bool:
        """True if the oldest request is doubtful, and the client's next message `by` suggests that it was answered: it
        is a raw token, or has the same correlation id and the client waits for each answer."""
        older = self.oldest()
        if older is None or not self.is_doubtful():
            return False
        same = older.correlation_id == by.correlation_id and not self._overlapped
        return same or older.correlation_id is None

    def mix(self) -> None:
        """Note that a request was given up when the next one with its id arrived: the next answer may be to either."""
        self._mixed = True

    def lose_requests(self) -> None:
        """Note that requests were lost: their answers may come before those to later requests."""
        if self._gap == NO_GAP:
            self._gap = self._next
        self._newest = self._next
        self.lost = True
        self._passed = False

    def orphaned(self) -> None:
        """Note an answer that no request here waits for. Where ids come again, others of the same id may still come."""
        waits = not self._overlapped and (self._recur is True or self._gap > 0)
        self._passed = self._recur is False or waits

    def is_unsure(self, correlation_id: int | None, early: bool) -> bool:
        """True if an answer with this correlation id may belong to another request than the oldest that has it.
        `early`: it came before that one."""
        number = self._first[correlation_id]
        doubtful = number < self._doubtful or self._in_order[number].doubt is not None
        if correlation_id in self._repeated and doubtful:
            self._mixed = True
        after_gap = self.follows_lost(correlation_id)
        recur = early if self._recur is None else self._recur
        return self._mixed or (recur and (after_gap or number < self._doubtful))

    def follows_lost(self, correlation_id: int | None) -> bool:
        """True if requests that were lost may have been in flight before the oldest one with this correlation id."""
        return self._gap != NO_GAP and self._first[correlation_id] >= self._gap

    def holds(self, correlation_id: int | None) -> bool:
        """True if a request with this correlation id waits (None: a raw SASL token)."""
        return correlation_id in self._first

    def first(self, correlation_id: int | None) -> Exchange:
        """The oldest request with this correlation id; there must be one."""
        return self._in_order[self._first[correlation_id]]

    def take(self, correlation_id: int | None) -> bool:
        """Remove the oldest request with this correlation id; there must be one. Returns True if its answer overtakes
        those to older ones."""
        number = self._first[correlation_id]
        overtakes = self.oldest() is not self._in_order[number]
        follows_all = number >= self._newest
        if self._recur is False:
            # A broker answers in order: the answers to requests that were lost before this one have passed.
            if follows_all:
                self.lost = False
            if self._gap != NO_GAP and number >= self._gap:
                self._gap = NO_GAP if follows_all else number + 1
                self._passed = False
        elif self._gap != NO_GAP and follows_all and not self._overlapped:
            self._passed = self._passed or not self._gap or number >= WAITED_FOR
        self._remove(correlation_id)
        return overtakes

    def _remove(self, correlation_id: int | None) -> Exchange:
        number = self._first.pop(correlation_id)
        younger = self._repeated.get(correlation_id)
        if younger is not None:
            self._first[correlation_id] = younger.popleft()
            if not younger:
                del self._repeated[correlation_id]
        if number == self._oldest:
            self._oldest = number + 1
        return self._in_order.pop(number)

    def take_next(self, correlation_id: int) -> Exchange | None:
        """Remove and return the oldest request if it has this correlation id and its pairing is certain; else None, and
        nothing is removed."""
        number = self._oldest
        if (
            self._first.get(correlation_id) != number
            or number < self._doubtful
            or self._repeated
            or self._mixed
            or self._gap != NO_GAP
            or self.lost
        ):
            return None
        del self._first[correlation_id]
        self._oldest = number + 1
        return self._in_order.pop(number)

    def take_oldest(self) -> Exchange | None:
        """Remove and return the request that has waited longest, without an answer."""
        exchange = self.oldest()
        return None if exchange is None else self._remove(exchange.correlation_id)

    def repeated(self, start: int, end: int) -> None:
        """Note that the client sent these bytes of its stream again; the requests longest in flight are looked at."""
        self.oldest()
        for number in range(self._oldest, min(self._oldest + REPEATED_AMONG, self._next)):
            exchange = self._in_order.get(number)
            request = None if exchange is None else exchange.request
            if exchange is not None and request is not None:
                within = request.offset < end and start < request.offset + SIZE_BYTES + request.size
                exchange.retransmitted = exchange.retransmitted or within

    def correlation_ids(self) -> list[int]:
        """The distinct correlation ids in flight, about in the order they were first used."""
        return [c for c in self._first if c is not None]
