"""What happened when: counts and latencies in slots of time, for plots, in a bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from kinspect import state
from kinspect.analysis.answer import Answer, ResultContext, Row
from kinspect.analysis.histogram import Histogram
from kinspect.analysis.record import Record
from kinspect.analysis.traffic import UNKNOWN_API, faults
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import epoch_ns, iso_time, milliseconds
from kinspect.kafka.wire.pair import KAFKA
from kinspect.model import NS_PER_MS, NS_PER_SECOND

SLOT_NS = NS_PER_MS
"""Length of a slot, doubled as often as there are too many."""
SLOTS_MOST = 240
"""Largest number of slots from the first to the last one."""
KEPT = 200 * SLOTS_MOST
"""Largest number of records, of slots and of APIs in them: of two parts that are merged, too."""


@dataclass(slots=True)
class _Slot(Record):
    """What began in a slot of time. `closed`: connections whose last packet is in it."""

    exchanges: int = 0
    failed: int = 0
    bytes: int = 0
    opened: int = 0
    closed: int = 0


@dataclass(slots=True)
class _ApiSlot(Record):
    """Exchanges of an API that began in a slot."""

    count: int = 0
    latency: Histogram = field(default_factory=Histogram)


class OverTime(Answer):
    """Accumulator of a row for each slot of time, from the first to the last one in which something happened. Slots lie
    at multiples of their length: so the result does not depend on the order, nor on how a run is divided."""

    lines = frozenset({"exchange", "connection"})

    def __init__(self) -> None:
        super().__init__()
        self._length = SLOT_NS
        self._slots = self.records(_Slot, KEPT)
        self._apis = self.records(_ApiSlot, KEPT)
        self._ends: list[int] = []
        """Numbers of the first and the last slot; empty if there is none."""

    def add(self, exchange: Exchange) -> None:
        time = exchange.timestamp
        if time is None:
            self.unmeasured += 1
            return
        at = self._at(time)
        slot, of_api = self._slots.of(at), self._apis.of(at, exchange.api or UNKNOWN_API)
        if slot is None or of_api is None:
            return
        slot.exchanges += 1
        slot.failed += any(True for _ in faults(exchange))
        messages = (exchange.request, exchange.response)
        slot.bytes += sum([message.size for message in messages if message is not None])
        of_api.count += 1
        latency = exchange.latency_ns
        if latency is not None:
            self.measure(of_api.latency, latency)

    def add_connection(self, line: dict[str, Any]) -> None:
        begin, end = line["timestamp"], line["completed_at"]
        if line["kind"] != KAFKA or begin is None or end is None:
            return
        # Once slots are longer, the number of a time is another one.
        self._at(epoch_ns(end))
        first = self._slots.of(self._at(epoch_ns(begin)))
        last = self._slots.of(self._at(epoch_ns(end)))
        if first is not None and last is not None:
            first.opened += 1
            last.closed += 1

    def result(self, context: ResultContext) -> list[Row]:
        if not self._ends:
            return []
        apis: dict[int, dict[str, Row]] = {}
        for (at, name), found in self._apis.items():
            apis.setdefault(at, {})[name] = {"count": found.count, **_quantiles(found.latency)}
        rows = []
        connections = 0
        for at in range(self._ends[0], self._ends[1] + 1):
            slot = self._slots.known(at) or _Slot()
            connections += slot.opened
            rows.append(
                {
                    "begin": iso_time(at * self._length),
                    "seconds": self._length / NS_PER_SECOND,
                    "exchanges": slot.exchanges,
                    "failed": slot.failed,
                    "bytes": slot.bytes,
                    "connections": connections,
                    "apis": apis.get(at, {}),
                }
            )
            connections -= slot.closed
        return rows

    def _at(self, time: int) -> int:
        """The number of a time's slot; slots become longer if there would be too many."""
        at = time // self._length
        self._ends = [min([at, *self._ends]), max([at, *self._ends])]
        while self._ends[1] - self._ends[0] >= SLOTS_MOST:
            self._widen(2 * self._length)
        return time // self._length

    def _widen(self, length: int) -> None:
        """Make slots so long, a multiple of what they are; longer ones stay."""
        if length <= self._length:
            return
        ratio = length // self._length
        self._length = length
        self._ends = [at // ratio for at in self._ends]
        for store in (self._slots, self._apis):
            store.rekey(lambda key: (key[0] // ratio, *key[1:]))
        self._buckets = sum(found.latency.size for _, found in self._apis.items())

    def merge(self, other: Self) -> None:
        self._widen(other._length)
        other._widen(self._length)
        super().merge(other)
        self.unmeasured += other.unmeasured
        for time in [at * self._length for at in other._ends]:
            self._at(time)

    def to_bytes(self) -> bytes:
        return state.to_bytes([super().to_bytes(), self._length, self._ends, self.unmeasured])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        own, *rest = state.from_bytes(data)
        made = super().from_bytes(own)
        made._length, made._ends, made.unmeasured = rest
        return made


def _quantiles(latency: Histogram) -> Row:
    """Quantiles in milliseconds."""
    spread = latency.result()
    return {
        "p50": milliseconds(spread.median),
        "p95": milliseconds(spread.p95),
        "p99": milliseconds(spread.p99),
    }
