"""What is open at the end of a part of an endless run, and how the next part goes on with it. Without Spark.

Connections are dealt to a fixed number of strands by their ends. Of each strand everything that a `Strand` has under
way is carried as bytes (`kinspect.state`); of the run, what all strands are told.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from struct import Struct
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from kinspect import state
from kinspect.kafka.exchange import Exchange
from kinspect.kafka.flow import community_id
from kinspect.kafka.holdings import EXCHANGE_BYTES
from kinspect.kafka.ledger import HELD_LINES, Ledger
from kinspect.kafka.view import View
from kinspect.model import Caps
from kinspect.pipeline import Line
from kinspect.spark.asked import filter_of
from kinspect.spark.facts import FactsLedger
from kinspect.spark.pieces import pack_facts
from kinspect.spark.portion import Slice
from kinspect.spark.rows import SEGMENT_ROWS, segment_batch, segment_row, segments_of
from kinspect.spark.strand import Setting, Strand, StrandLedger
from kinspect.spark.tables import COMPLETION, Row, Table, make_batch, open_table
from kinspect.spark.tasks import Batches, Task, piece
from kinspect.tcp.recent import LOOK_BACK

STRAND = "strand"
STRAND_ROWS = pa.schema([(STRAND, pa.int32()), *SEGMENT_ROWS])
"""What is shuffled: segments with their strand. What is carried comes before them, in pieces with ordinals below 0."""
CARRY, FRAMES = "carry", "frames"
CARRY_ROWS = pa.schema([(STRAND, pa.int32()), ("ordinal", pa.int64()), ("payload", pa.binary())])
"""What is carried of a strand; `strand` -1: of the run."""
RUN = -1

_PIECE_BYTES = 4 * 1024 * 1024
_BEFORE_ALL = -(1 << 40)
_ROWS, _BYTES, _ROW_BYTES = 1000, 2 * 1024 * 1024, 1024
_PLACE = Struct(">Q")
# Of a strand in the first pass: before which place it completed everything, then its facts.
_WAITING = Struct(">q")
NOTHING_WAITS = (1 << 62) - 1

Keyed = tuple[bytes, Line]


class Names(Sequence[str]):
    """The names of a run's files by their numbers; of those nobody refers to any more they are not known."""

    def __init__(self, names: dict[int, str]) -> None:
        self.by_number = names

    def __getitem__(self, number: Any) -> Any:
        return self.by_number[number]

    def __len__(self) -> int:
        return len(self.by_number)


# ---------------------------------------------------------------------- a strand

CARRIED: dict[str, set[str]] = {"StrandLedger": {"noted"}, "_Tcp": {"_last_ordinal"}, "_Seen": {"_earlier"}}
LEFT: dict[str, set[str]] = {
    "StrandLedger": {"_places", "_foreign_uses", "_keyed", "first_uses", "now", "closing"},
    "_Tcp": {"_recent", "_seen", "_ledger", "_run_clock", "_places", "_moment"},
    "_Seen": {"_taken", "_ordinals", "_known", "_passed"},
}
"""Fields that classes of `strand.py` have beyond those of `state.PLACES`: which `carried` carries, and which need not
be. A test fails when there are others."""


def begin(
    setting: Setting, ledger_type: type[StrandLedger], data: bytes | None
) -> tuple[Strand, list[Keyed]]:
    """A strand that goes on where `carried` left it (None: with nothing), and the lines that waited for their order.

    Raises StateError.
    """
    strand = Strand(setting, ledger_type)
    if data is None:
        strand.tcp._last_ordinal = setting.clock.first - 1
        return strand, []
    ledger, tcp = strand.ledger, strand.tcp
    expects_secrets = ledger.expects_secrets
    last, ordinals, noted, lines = state.load(data, _places(strand), _given(ledger), ledger)
    tcp._last_ordinal = last
    tcp._seen._earlier = ordinals
    ledger.noted.update(noted)
    ledger.expects_secrets = ledger.expects_secrets or expects_secrets
    # Secrets may have come that connections wait for.
    tcp._moment = (setting.places.before, 0, 0, 0)
    for decryptor in tuple(ledger._decryptors):
        decryptor.retry()
    tcp._moment = None
    return strand, lines


def pause(strand: Strand, setting: Setting) -> list[Keyed]:
    """The part is over: the time of the segments that others had behind the strand's last one passes too."""
    tcp = strand.tcp
    tcp._pass_others(tcp._last_ordinal + 1, setting.clock.segments)
    tcp._last_ordinal = setting.clock.segments - 1
    return strand.ledger.taken()


def carried(strand: Strand, lines: list[Keyed]) -> tuple[bytes, list[int]]:
    """A paused strand as bytes, and the frames that they refer to; `lines` are those that wait for their order."""
    tcp = strand.tcp
    seen = tcp._seen
    # What is farther back than any look will go.
    ordinals = {
        frame: ordinal
        for frame, ordinal in seen._recent_ordinals().items()
        if ordinal > tcp._last_ordinal - LOOK_BACK
    }
    seen._before = [row for row in (seen._before + seen._rows) if row[9] in ordinals]
    seen._rows = []
    frames: set[int] = set()
    open_ones = {community_id(*half.connection.addresses) for half in tcp._halves.values()}
    noted = {name: count for name, count in strand.ledger.noted.items() if name in open_ones}
    rest = [tcp._last_ordinal, ordinals, noted, lines]
    data = state.dump(_places(strand), _given(strand.ledger), rest, frames)
    return data, [frame for frame in frames if tcp._places.has_file(frame)]


def _places(strand: Strand) -> dict[str, object]:
    return {**state.ledger_places(strand.ledger), **state.reassembly_places(strand.tcp)}


def _given(ledger: Ledger) -> dict[str, object]:
    return {**state.ledger_given(ledger), "names": ledger.names}


# ---------------------------------------------------------------------- tasks


def dealing(slices: list[Slice], fragments: list[tuple[int, Any]], strands: int, caps: Caps) -> Task:
    """Gives the segments of the slices whose positions come in, each with its strand; behind the last, those from
    fragments."""

    def task(batches: Iterable[pa.RecordBatch]) -> Batches:
        for batch in batches:
            for position in batch.column(0).to_pylist():
                if position < len(slices):
                    for rows in slices[position].batches(caps):
                        yield _dealt(rows, strands)
                elif fragments:
                    yield _dealt(segment_batch([segment_row(*pair) for pair in fragments]), strands)

    return task


def _dealt(rows: pa.RecordBatch, strands: int) -> pa.RecordBatch:
    numbers = [crc32(ends) % strands for ends in rows.column("ends").to_pylist()]
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int32()), *rows.columns], schema=STRAND_ROWS)


def learning(setting: Setting, ends_here: bool) -> Task:
    """Takes what is carried of strands and their segments, each in order; gives for each what `learned` takes."""

    def task(batches: Iterable[pa.RecordBatch]) -> Batches:
        for _, data, segments in _strands(batches):
            strand, _ = begin(setting, FactsLedger, data)
            for batch in segments:
                strand.feed(*segments_of(batch))
            if ends_here:
                for _ in strand.finish():
                    pass
            else:
                pause(strand, setting)
            yield piece(_told(strand, setting))

    return task


def _told(strand: Strand, setting: Setting) -> bytes:
    ledger = strand.ledger
    assert isinstance(ledger, FactsLedger)
    since = strand.tcp.waiting_since
    place = NOTHING_WAITS if since is None else setting.places.place(since)
    return _WAITING.pack(place) + pack_facts(ledger.facts())


def learned(piece: bytes) -> tuple[int, bytes]:
    """The place before which the strand completed everything, and its packed facts."""
    return _WAITING.unpack_from(piece)[0], piece[_WAITING.size :]


@dataclass(slots=True)
class Wanted:
    """The tables of a stream, and what may stand in them."""

    tables: tuple[str, ...]
    views: dict[str, View]
    filter: Mapping[str, Any] = field(default_factory=dict)

    def opened(self) -> dict[str, Table]:
        return {name: open_table(name, None, self.views[name]) for name in self.tables}

    @property
    def emit(self) -> frozenset[str]:
        return frozenset(table.emit for table in self.opened().values())

    @property
    def schema(self) -> pa.Schema:
        """A column for each table, of which a row has one, or what is carried."""
        tables = [(name, pa.struct(list(table.schema))) for name, table in self.opened().items()]
        return pa.schema([*tables, (CARRY, pa.struct(list(CARRY_ROWS))), (FRAMES, pa.binary())])


def decoding(setting: Setting, wanted: Wanted, start: int | None, complete: int, ends_here: bool) -> Task:
    """Takes what is carried of strands and their segments, each in order; gives rows of `Wanted.schema`.

    Lines that completed at the place `complete` or behind it wait: others may come before them. With `ends_here`
    nothing is left open, and nothing carried.
    """

    def task(batches: Iterable[pa.RecordBatch]) -> Batches:
        rows = _Rows(wanted, start)
        for number, data, segments in _strands(batches):
            strand, waiting = begin(setting, StrandLedger, data)
            if ends_here:
                waiting = yield from rows.add(waiting, NOTHING_WAITS)
            for batch in segments:
                waiting += yield from rows.add(strand.feed(*segments_of(batch)), complete)
            if ends_here:
                yield from rows.add(waiting, NOTHING_WAITS)
                yield from rows.add(strand.finish(), NOTHING_WAITS)
                continue
            waiting += pause(strand, setting)
            early, waiting = _within_caps(waiting, complete, strand)
            yield from rows.add(early, NOTHING_WAITS)
            yield from rows.carry(number, *carried(strand, waiting), setting)
        yield from rows.rest()

    return task


def _within_caps(waiting: list[Keyed], complete: int, strand: Strand) -> tuple[list[Keyed], list[Keyed]]:
    """The lines that may go, and those that wait on: no more than the caps allow, the first ones go ahead."""
    waiting = sorted(waiting, key=itemgetter(0))
    holdings = strand.ledger.holdings
    size = sum(map(_size, waiting))
    go = 0
    while go < len(waiting):
        if _place(waiting[go][0]) >= complete:
            if len(waiting) - go <= HELD_LINES and size + holdings.bytes <= holdings.limit:
                break
            strand.counts.hit("held_lines")
        size -= _size(waiting[go])
        go += 1
    return waiting[:go], waiting[go:]


def _size(keyed: Keyed) -> int:
    line = keyed[1]
    messages = (line.request, line.response) if isinstance(line, Exchange) else ()
    return EXCHANGE_BYTES + sum(len(message.raw or b"") for message in messages if message is not None)


def _place(key: bytes) -> int:
    place: int = _PLACE.unpack_from(key)[0]
    return place


def _strands(
    batches: Iterable[pa.RecordBatch],
) -> Iterator[tuple[int, bytes | None, Iterator[pa.RecordBatch]]]:
    """The strands in rows that are sorted by strand and ordinal: number, what is carried of it, its segments."""
    parts = _Parts(batches)
    while parts.more():
        number = parts.strand
        pieces = list(parts.carried(number))
        yield number, b"".join(pieces) if pieces else None, parts.segments(number)
        for _ in parts.segments(number):
            raise AssertionError("a strand's segments were not taken")


class _Parts:
    """Rows in the order in which they come, cut where another strand or the segments begin."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._parts = (part for batch in batches for part in _cut(batch))
        self._next: tuple[int, bool, pa.RecordBatch] | None = next(self._parts, None)

    def more(self) -> bool:
        return self._next is not None

    @property
    def strand(self) -> int:
        assert self._next is not None
        return self._next[0]

    def carried(self, number: int) -> Iterator[bytes]:
        for part in self._take(number, True):
            yield from part.column("payload").to_pylist()

    def segments(self, number: int) -> Iterator[pa.RecordBatch]:
        yield from self._take(number, False)

    def _take(self, number: int, is_carried: bool) -> Iterator[pa.RecordBatch]:
        while self._next is not None and self._next[:2] == (number, is_carried):
            part = self._next[2]
            self._next = next(self._parts, None)
            yield part


def _cut(batch: pa.RecordBatch) -> Iterator[tuple[int, bool, pa.RecordBatch]]:
    strands = batch.column(STRAND).to_numpy()
    is_carried = batch.column("ordinal").to_numpy() < 0
    kinds = strands.astype(np.int64) * 2 + is_carried
    edges = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(kinds)]
    for start, stop in pairwise(edges):
        if start < stop:
            yield int(strands[start]), bool(is_carried[start]), batch.slice(start, stop - start)


def carry_pieces(number: int, data: bytes) -> Iterator[Row]:
    """Rows of `CARRY_ROWS`."""
    for order, at in enumerate(range(0, len(data), _PIECE_BYTES)):
        yield {STRAND: number, "ordinal": _BEFORE_ALL + order, "payload": data[at : at + _PIECE_BYTES]}


class _Rows:
    """Lines made rows of all tables, in batches of one table each."""

    def __init__(self, wanted: Wanted, start: int | None) -> None:
        self._schema = wanted.schema
        self._tables = wanted.opened()
        self._passes = filter_of(wanted.filter)
        self._passes.start = start
        self._made: dict[str, list[Row]] = {name: [] for name in self._tables}
        self._bytes = 0
        self._count = 0

    def add(self, lines: Iterable[Keyed], complete: int) -> Generator[pa.RecordBatch, None, list[Keyed]]:
        """Out: the lines at `complete` or behind it, of which no rows were made."""
        waiting = []
        for key, line in lines:
            if _place(key) >= complete:
                waiting.append((key, line))
                continue
            is_exchange = isinstance(line, Exchange)
            if not self._lets_pass(line):
                continue
            self._bytes += _size((key, line))
            for name, table in self._tables.items():
                if (table.emit == "exchange") == is_exchange:
                    for row in table.rows(line):
                        row[COMPLETION] = key
                        self._made[name].append(row)
                        self._bytes += _ROW_BYTES
                        self._count += 1
            if self._count >= _ROWS or self._bytes >= _BYTES:
                yield from self.rest()
        return waiting

    def _lets_pass(self, line: Line) -> bool:
        if isinstance(line, Exchange):
            return self._passes.matches(line)
        return self._passes.matches_line(line)

    def carry(
        self, number: int, data: bytes, frames: list[int], setting: Setting
    ) -> Iterator[pa.RecordBatch]:
        """What is carried of a strand, and the places of the frames that it refers to."""
        for row in carry_pieces(number, data):
            yield self._batch(CARRY, make_batch([row], CARRY_ROWS))
        pairs = np.array([(frame, setting.places.place(frame)) for frame in frames], np.int64)
        yield self._batch(FRAMES, pa.RecordBatch.from_arrays([pa.array([pairs.tobytes()])], names=["frames"]))

    def rest(self) -> Iterator[pa.RecordBatch]:
        for name, rows in self._made.items():
            if rows:
                yield self._batch(name, make_batch(rows, self._tables[name].schema))
                rows.clear()
        self._bytes = self._count = 0

    def _batch(self, name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = []
        for column in self._schema:
            if column.name != name:
                columns.append(pa.nulls(len(batch), column.type))
            elif name == FRAMES:
                columns.append(batch.column(0))
            else:
                columns.append(pa.StructArray.from_arrays(batch.columns, fields=list(column.type)))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def frame_places(piece: bytes) -> dict[int, int]:
    """The places of frames that `_Rows.carry` packed."""
    return dict(np.frombuffer(piece, np.int64).reshape(-1, 2).tolist())
