"""What tasks do, without Spark: iterators of Arrow batches in and out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter
from zlib import crc32

import pyarrow as pa

from kinspect.kafka.exchange import Exchange
from kinspect.model import Caps
from kinspect.pipeline import Line
from kinspect.spark.asked import Asked, Tell
from kinspect.spark.facts import FactsLedger
from kinspect.spark.handover import adopt, hand_over, let_go
from kinspect.spark.index import Index, Report, examine
from kinspect.spark.pieces import pack_facts, pack_report, pack_times
from kinspect.spark.reading import Begin, Splits
from kinspect.spark.routes import Part
from kinspect.spark.rows import segment_batch, segment_batches, segment_row, segments_of
from kinspect.spark.splits import Split
from kinspect.spark.strand import Setting, Strand, StrandLedger
from kinspect.spark.tables import COMPLETION, Row, make_batch

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Iterable[pa.RecordBatch]], Batches]

MOVES = pa.schema([("split", pa.int64()), ("what", pa.binary())])
"""What a relay gives: the split that begins with it, or `FACTS`."""
FACTS = -1
PIECE = pa.schema([("piece", pa.binary())])
# A batch of rows is handed on when its lines' messages take so many bytes, or it has so many rows.
_ROWS, _BYTES = 1000, 2 * 1024 * 1024
# What a row takes beside the messages it shows.
_ROW_BYTES = 1024
# How seldom Python looks for unreachable cycles, of which decoding makes none, while a task runs.
_COLLECTED_EACH = 50_000, 10, 10


def unhurried(task: Task) -> Task:
    """The task, with less time spent on looking for garbage. Afterwards it is as before: others use the process too."""

    def run(batches: Iterable[pa.RecordBatch]) -> Batches:
        before = gc.get_threshold()
        gc.set_threshold(*_COLLECTED_EACH)
        try:
            yield from task(batches)
        finally:
            gc.set_threshold(*before)

    return run


def examining(splits: list[tuple[int, Split]], caps: Caps) -> Task:
    """Looks at the splits whose positions in `splits` come in; gives pieces for `pieces.unpack`."""

    def task(batches: Iterable[pa.RecordBatch]) -> Batches:
        for position in numbers(batches):
            for part in examine(*splits[position], caps):
                yield piece(pack_report(part) if isinstance(part, Report) else pack_times(*part))

    return unhurried(task)


def scanning(index: Index, caps: Caps) -> Task:
    """Gives the segments of the index's splits whose positions come in; behind the last, those from fragments."""
    splits = index.splits
    fragments = [segment_row(ordinal, segment) for _, ordinal, segment in index.fragments]

    def task(batches: Iterable[pa.RecordBatch]) -> Batches:
        for position in numbers(batches):
            if position < len(splits):
                yield from segment_batches(splits[position], caps)
            elif fragments:
                yield segment_batch(fragments)

    return unhurried(task)


def learning(setting: Setting) -> Task:
    """Takes the segments of some connections in the order of the run; gives their `Facts`."""

    def task(batches: Iterable[pa.RecordBatch]) -> Batches:
        strand = Strand(setting, FactsLedger)
        ledger = strand.ledger
        assert isinstance(ledger, FactsLedger)
        seen = False
        for batch in batches:
            seen = True
            strand.feed(*segments_of(batch))
        if seen:
            for _ in strand.finish():
                pass
            yield piece(pack_facts(ledger.facts()))

    return unhurried(task)


def relaying(setting: Setting, splits: Splits, parts: list[bytes]) -> Task:
    """Does the parts (`Part.pack`) whose positions come in: gives rows of `MOVES`."""

    def task(batches: Iterable[pa.RecordBatch]) -> Batches:
        for position in numbers(batches):
            part = Part.unpack(parts[position])
            waiting: dict[int, list[bytes]] = {}
            for group, legs in (part.groups or {}).items():
                for split in legs:
                    waiting.setdefault(split, []).append(group)
            strand = Strand(setting, FactsLedger)
            for item in splits.read(part):
                if not isinstance(item, Begin):
                    strand.feed(*item)
                elif item.split in waiting:
                    strand.advance(item.ordinal)
                    for data in hand_over(strand, frozenset(waiting[item.split])):
                        yield _move(item.split, data)
            for _ in strand.finish():
                pass
            ledger = strand.ledger
            assert isinstance(ledger, FactsLedger)
            yield _move(FACTS, pack_facts(ledger.facts()))

    return unhurried(task)


def decoding(
    setting: Setting,
    splits: Splits,
    parts: list[bytes],
    asked: Asked,
    start: int | None,
    tell: Tell,
) -> Task:
    """Does the parts whose positions come in, each with what its connections had under way (rows of `MOVES`; at least
    one, without a value if there is nothing): gives the rows of a table. `start`: when the run's first packet was."""

    def task(batches: Iterable[pa.RecordBatch]) -> Batches:
        rows = Rows(asked, start)
        moves = (zip(batch.column(0).to_pylist(), batch.column(1), strict=True) for batch in batches)
        for position, handed in groupby(chain.from_iterable(moves), itemgetter(0)):
            strand = Strand(setting, StrandLedger)
            states = [what.as_py() for _, what in handed if what.is_valid]
            for lines in _decoded(strand, splits, Part.unpack(parts[position]), states):
                yield from rows.add(lines)
            tell(position, strand.ledger.names.unresolved, strand.counts.caps_hit)
        yield from rows.rest()

    return unhurried(task)


def _decoded(
    strand: Strand, splits: Splits, part: Part, states: list[bytes]
) -> Iterator[Iterable[tuple[bytes, Line]]]:
    for item in splits.read(part):
        if not isinstance(item, Begin):
            yield strand.feed(*item)
        elif states:
            adopt(strand, states, item.ordinal)
            states.clear()
    onward: dict[int, list[bytes]] = {}
    for group, split in part.onward.items():
        onward.setdefault(splits.firsts[split], []).append(group)
    for ordinal in sorted(onward):
        yield strand.advance(ordinal)
        let_go(strand, frozenset(onward[ordinal]))
    yield strand.finish()


def tabling(setting: Setting, asked: Asked, start: int | None, tell: Tell) -> Task:
    """Takes the segments of some connections in the order of the run; gives the rows of a table. `start`: the time of
    the run's first packet."""

    def task(batches: Iterable[pa.RecordBatch]) -> Batches:
        strand = Strand(setting, StrandLedger)
        rows = Rows(asked, start)
        part = 0
        for batch in batches:
            part = part or crc32(batch.column("ends")[0].as_py())
            yield from rows.add(strand.feed(*segments_of(batch)))
        yield from rows.add(strand.finish())
        yield from rows.rest()
        tell(part, strand.ledger.names.unresolved, strand.counts.caps_hit)

    return unhurried(task)


class Rows:
    """Lines made rows of a table, in batches. `start`: the time of the run's first packet, if it is known."""

    def __init__(self, asked: Asked, start: int | None = None) -> None:
        table = asked.table()
        self._schema = table.schema
        self._rows_of = table.rows
        self._passes = asked.filter()
        self._passes.start = start
        self._rows: list[Row] = []
        self._bytes = 0

    def begin(self, times: Sequence[int | None]) -> None:
        """Takes the times of packets that come next: the first one known begins the run."""
        if self._passes.start is None:
            self._passes.start = next((time for time in times if time is not None), None)

    def add(self, lines: Iterable[tuple[bytes, Line]]) -> Batches:
        """Takes lines, each with what sorts it; gives batches that are full."""
        for key, line in lines:
            if isinstance(line, Exchange):
                if not self._passes.matches(line):
                    continue
                self._bytes += sum(
                    len(message.raw or b"")
                    for message in (line.request, line.response)
                    if message is not None
                )
            elif not self._passes.matches_line(line):
                continue
            for row in self._rows_of(line):
                row[COMPLETION] = key
                self._rows.append(row)
                self._bytes += _ROW_BYTES
                if len(self._rows) >= _ROWS or self._bytes >= _BYTES:
                    yield from self.rest()

    def rest(self) -> Batches:
        """The batch that is not full, if there is anything in it."""
        if self._rows:
            yield make_batch(self._rows, self._schema)
        self._rows, self._bytes = [], 0


def numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """What stands in the first column."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _move(split: int, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([split]), pa.array([data], pa.binary())], schema=MOVES)


def piece(data: bytes) -> pa.RecordBatch:
    """A row of `PIECE`."""
    return pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], schema=PIECE)
