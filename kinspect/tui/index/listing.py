"""The listed rows in their order, computed piece by piece so that no key has to wait."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from kinspect.kafka.wire.wait import BROKER, GROUP_WAIT, IDLE, LONG_POLL, QUEUED, RETRANSMITTED, THROTTLED
from kinspect.tui.index import row
from kinspect.tui.index.listfilter import ListFilter
from kinspect.tui.index.store import Store

PIECE = 4096
"""Rows worked on without a pause."""
COMPLETION = "completion"
"""The order that needs no sorting."""
_UNKNOWN = -(1 << 63)


class RowOrder(NamedTuple):
    """Order of rows: by a name of `KEYS`, `down`: the greatest first."""

    key: str = COMPLETION
    down: bool = False


_CAUSES = (LONG_POLL, GROUP_WAIT, BROKER, QUEUED, THROTTLED, RETRANSMITTED)
"""Causes of waits, those that say least of a problem first."""
_STEP = 1 << 59
"""Distance of two causes: more nanoseconds than most waits have, 18 years."""


def _latency_of_cause(values: row.RowValues) -> int | None:
    """Latency, by cause."""
    latency, cause = row.latency_of(values), row.wait_of(values[row.FLAGS])
    if latency is None or cause is None:
        return None
    return _CAUSES.index(cause) * _STEP + max(0, min(latency, _STEP - 1))


def _unexpected_latency(values: row.RowValues) -> int | None:
    """Latency, that of waits which the client asked for apart."""
    latency = row.latency_of(values)
    if latency is None:
        return None
    return max(0, min(latency, _STEP - 1)) + _STEP * (row.wait_of(values[row.FLAGS]) not in IDLE)


KEYS: dict[str, Callable[[row.RowValues], int | None]] = {
    COMPLETION: lambda values: values[row.COMPLETED_AT],
    "time": row.timestamp_of,
    "latency": row.latency_of,
    "slow": _unexpected_latency,
    "wait": _latency_of_cause,
    "size": row.exchange_size,
}
"""Sort keys of rows. `time` is the time that the list shows; rows come in the order of completion."""


class Listing:
    """The rows of a store that its filter passes, ordered. Rows without a value to be ordered by come last."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.filter = ListFilter(store, {})
        self.order = RowOrder()
        self._seen = 0
        self._passed = array("I")
        self._values = array("q")
        self._ordered: Sequence[int] = self._passed

    def __len__(self) -> int:
        return len(self._ordered)

    def __getitem__(self, place: int) -> int:
        """The row at a place of the list."""
        return self._ordered[-1 - place if self._backwards else place]

    @property
    def _backwards(self) -> bool:
        return self.order == RowOrder(COMPLETION, True)

    @property
    def passed(self) -> array[int]:
        """The listed rows in the order of completion."""
        return self._passed

    def place(self, index: int) -> int | None:
        """A row's place in the list; None if it is not listed."""
        try:
            place = self._ordered.index(index)
        except ValueError:
            return None
        return len(self._ordered) - 1 - place if self._backwards else place

    @property
    def behind(self) -> bool:
        """True if there are rows that `update` has not looked at."""
        return self._seen < self.store.count

    def choose(self, list_filter: ListFilter) -> None:
        """List the rows that another filter passes from now on; `update` finds them."""
        self.filter = list_filter
        self._seen = 0
        self._passed = array("I")
        self._values = array("q")
        self._ordered = self._passed

    def sort(self, order: RowOrder) -> None:
        """Use another order from now on; `update` sorts the rows."""
        self.order = order
        self._values = array("q")
        self._ordered = self._passed

    def update(self) -> Iterator[None]:
        """Bring the list up to date with the store; pauses after every piece."""
        list_filter, order = self.filter, self.order
        while self._seen < self.store.count and self.filter is list_filter:
            stop = min(self._seen + PIECE, self.store.count)
            self._passed.extend(list_filter.passes(self._seen, stop))
            self._seen = stop
            yield
        if order.key != COMPLETION and (self.filter, self.order) == (list_filter, order):
            yield from self._sorted(list_filter, order)

    def _sorted(self, list_filter: ListFilter, order: RowOrder) -> Iterator[None]:
        value = KEYS[order.key]
        rows = self.store.rows
        key = self._values.__getitem__
        places = len(self._passed)
        if not places or (len(self._ordered) == places and self._ordered is not self._passed):
            return
        while len(self._values) < places:
            for index in self._passed[len(self._values) : len(self._values) + PIECE]:
                found = value(row.values(rows, index))
                self._values.append(_UNKNOWN if found is None else found if order.down else -found)
            yield
            if (self.filter, self.order) != (list_filter, order):
                return
        # Sorted pieces are merged in pairs: no step is long, and the last one joins only two.
        runs = [range(start, min(start + PIECE, places)) for start in range(0, places, PIECE)]
        merged: list[Sequence[int]] = []
        pairs: list[tuple[Sequence[int], Sequence[int]]]
        while len(merged) > 1 or runs:
            pairs = [(run, ()) for run in runs] or [*zip_longest(merged[::2], merged[1::2], fillvalue=())]
            runs, merged = [], []
            for one, two in pairs:
                merged.append(sorted([*one, *two], key=key, reverse=True))
                yield
                if (self.filter, self.order) != (list_filter, order):
                    return
        passed = self._passed
        ordered = array("I")
        for start in range(0, places, PIECE):
            ordered.extend([passed[place] for place in merged[0][start : start + PIECE]])
            yield
            if (self.filter, self.order) != (list_filter, order):
                return
        self._ordered = ordered
