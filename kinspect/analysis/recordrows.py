"""A row for each record of a run's exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import starmap
from typing import Final

from kinspect.analysis.client import ClientKey
from kinspect.analysis.heldrows import HeldRows
from kinspect.analysis.messagebody import Struct
from kinspect.analysis.offsetranges import GrowingRanges
from kinspect.analysis.recordevents import PUT, REMEMBERED, RecordEvent, RecordEvents, place_in
from kinspect.analysis.recordfates import Place, RecordFates, SentBatch
from kinspect.filters.values import PRODUCED
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.view.batchrows import BatchRows
from kinspect.model import NS_PER_SECOND, drop_oldest

LIVE_ROWS: Final = 4096
LIVE_NS: Final = 5 * NS_PER_SECOND
"""Rows that may wait in a capture that goes on, and for how long."""
RANGES_KEPT: Final = 1_000_000
"""Ranges of offsets that were seen, of all partitions."""
_OWN: Final = frozenset({"note_group", "note_producer", "settle"})
"""Events that `RecordRows` takes itself."""


class RecordRows:
    """Makes the rows that `choose` takes, those of a batch at a time, in the order of the lines. `line`: gives that of
    an exchange, of which the body of a side is looked at, with keys and values as `choose` needs them; `control`:
    control records have rows."""

    def __init__(
        self,
        line: Callable[[Exchange, str], Struct],
        choose: Callable[[BatchRows], BatchRows],
        control: bool = False,
    ) -> None:
        self.events = RecordEvents(line, control)
        self._choose = choose
        self._fates = RecordFates()
        self._held = HeldRows()
        # The groups that a client is in, None for several; transactional ids of producers.
        self._groups: dict[ClientKey, str | None] = {}
        self._ids: dict[int, str] = {}

    @property
    def undecided(self) -> int:
        """Batches whose transaction there was no room to wait for."""
        return self._fates.dropped + self._held.given_up

    def take(self, line: Line, shows: bool = True) -> Iterator[BatchRows]:
        """Take the next line, and give what it decides; without `shows` it only says something about others."""
        time = line.completed_at or 0 if isinstance(line, Exchange) else 0
        return self.apply(self.events.of(line), time, self._choose if shows else _nothing)

    def apply(
        self, events: Iterable[RecordEvent], time: int, choose: Callable[[BatchRows], BatchRows]
    ) -> Iterator[BatchRows]:
        """Take the events of the next line, of this time, and give what they decide."""
        for name, *told in events:
            if name == PUT:
                yield from self._put(time, choose, *told)
            else:
                getattr(self if name in _OWN else self._fates, name)(*told)
        yield from self._settled()

    def note_group(self, client: ClientKey, name: str) -> None:
        """A client is in a group."""
        self._groups[client] = name if self._groups.get(client, name) == name else None
        drop_oldest(self._groups, REMEMBERED)

    def settle(self, batch: tuple[Place, int, int, int], outcome: str) -> None:
        """This became of a batch, as `SentBatch` has it."""
        self._fates.settle(SentBatch(*batch), outcome)

    def note_producer(self, producer: int, name: str) -> None:
        """A producer has a transactional id."""
        self._ids[producer] = name
        drop_oldest(self._ids, REMEMBERED)

    def is_behind_open(self, row: Struct) -> bool:
        """Whether a record that was passed on stands behind a transaction that was left open: no consumer of committed
        records gets it before that ends."""
        first = self._fates.first_open.get(place_in(row))
        return first is not None and row["offset"] is not None and row["offset"] > first

    def let_go(self, now: int) -> Iterator[BatchRows]:
        """What is held for too long while the capture goes on, or is too much."""
        while (first := self._held.first) is not None:
            number, time = first
            if self._held.rows <= LIVE_ROWS and now - time <= LIVE_NS:
                break
            self._fates.give_up(number)
            yield from self._settled()

    def finish(self) -> Iterator[BatchRows]:
        """What is held."""
        self._fates.finish()
        return self._settled()

    def close(self) -> None:
        """Give back what it is held in."""
        self._held.close()

    def _settled(self) -> Iterator[BatchRows]:
        decided, self._fates.decided = self._fates.decided, []
        for number, outcome in decided:
            self._held.decide(number, outcome)
        return self._passed()

    def _passed(self) -> Iterator[BatchRows]:
        return starmap(_decided, self._held.passed())

    def _put(
        self,
        time: int,
        choose: Callable[[BatchRows], BatchRows],
        rows: BatchRows,
        outcome: str | None,
        sent_batch: tuple[Place, int, int, int] | None = None,
        offset: int | None = None,
        sent: int | None = None,
        member: ClientKey | None = None,
    ) -> Iterator[BatchRows]:
        """Hold rows, or pass them on. `outcome`: of their batch, which is `sent_batch` if that is to be found out;
        `member`: the client whose group they were fetched for."""
        shared, number = rows.shared, 0
        if sent_batch is not None:
            outcome, number = self._fates.fate(SentBatch(*sent_batch), offset, sent)
        if shared["direction"] != PRODUCED:
            shared["transactional_id"] = self._ids.get(shared["producer_id"])
        if member is not None:
            shared["group"] = self._groups.get(member)
        chosen = choose(rows) if rows else rows
        # What waits holds up what stands behind it, whether or not it is shown.
        if number or (chosen and len(self._held)):
            self._held.put(chosen, outcome, number, time)
            yield from self._passed()
        elif chosen:
            yield _decided(chosen, outcome)


def _nothing(rows: BatchRows) -> BatchRows:
    return rows.first(0)


def _decided(rows: BatchRows, outcome: str | None) -> BatchRows:
    rows.shared["transaction"] = outcome
    return rows


class SeenOffsets:
    """Which records were seen, by topic, partition and offset. `forgotten`: partitions for whose offsets there was no
    room."""

    def __init__(self, room: int = RANGES_KEPT) -> None:
        self.forgotten = 0
        self._room = room
        self._ranges = 0
        self._seen: dict[Place, GrowingRanges] = {}

    def is_new(self, row: Struct) -> bool:
        """Add the record of a row; false if it was seen."""
        place = place_in(row)
        seen = self._seen.pop(place, None)
        if seen is None:
            # Those that came before their topic's name was known.
            seen = self._seen.pop((row["topic_id"] or "", place[1]), None) or GrowingRanges()
        self._seen[place] = seen
        before = len(seen)
        is_new = bool(seen.add(row["offset"], row["offset"] + 1))
        self._ranges += len(seen) - before
        if self._ranges > self._room:
            self._ranges -= len(self._seen.pop(next(iter(self._seen))))
            self.forgotten += 1
        return is_new
