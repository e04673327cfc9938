"""The second pass: a task merges the chunks of its islands, and decodes each island as `kinspect read` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import cbor2
import pyarrow as pa

from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.wire.names import LearnedNames
from kinspect.model import added
from kinspect.pipeline import one_by_one, relax_collector
from kinspect.spark.merge import Bases, ChunkMerge, islands
from kinspect.tables.builder import TableBuilder
from kinspect.tables.request import Request
from kinspect.tls import KeyLog

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
EndPlace = tuple[int | None, int]
"""Time and frame reference of the run's last packet."""

SUMMARY = "summary"
PIECE = pa.schema([("piece", pa.binary())])


@dataclass(slots=True)
class RunContext:
    """State that the islands of a run share, beside its request."""

    files: list[str]
    bases: Bases
    start: int | None
    end: EndPlace
    secrets: list[bytes]
    names: tuple[list[Any], list[Any]] = ([], [])
    """Learned topic names and node ids, each with the key of its line: the arguments of `LearnedNames.add`."""

    def keylog(self) -> KeyLog:
        keylog = KeyLog()
        for text in self.secrets:
            keylog.add(text)
        return keylog


def tagged_schema(request: Request) -> pa.Schema:
    """Columns of `decoding`: a struct for each table and a summary, only one of which is not null in a row."""
    tables = [(name, pa.struct(list(table.schema))) for name, table in request.open().items()]
    return pa.schema([*tables, (SUMMARY, pa.binary())])


def learning(run: RunContext, request: Request) -> Task:
    """A task that gives the names learned from its islands: `RunContext.names` as CBOR."""

    def task(found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        relax_collector()
        names, keylog = LearnedNames(), run.keylog()
        for rows in islands(found, run.bases):
            inspector = request.inspector(names, keylog, frozenset(), run.files)
            for segments in ChunkMerge(run.bases).segments(rows):
                inspector.feed_segments(segments)
                inspector.idle()
            for _ in inspector.finish(run.end):
                pass
        told = cbor2.dumps(names.take_new())
        yield pa.RecordBatch.from_arrays([pa.array([told], pa.binary())], schema=PIECE)

    return task


def decoding(run: RunContext, request: Request) -> Task:
    """A task that gives the rows of its islands, then a summary."""

    def task(found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        relax_collector()
        names, keylog = LearnedNames(dict(request.names)), run.keylog()
        names.add(*run.names)
        made = Made(request, run.start)
        for rows in islands(found, run.bases):
            inspector = request.inspector(names, keylog, made.emit, run.files)
            merge = ChunkMerge(run.bases)
            for segments in merge.segments(rows):
                inspector.feed_segments(segments)
                yield from made.add(one_by_one(inspector.idle()))
            yield from made.add(inspector.finish(run.end))
            if merge.early:
                inspector.counts.hit("merge_bytes")
            made.totals = added(made.totals, inspector.totals())
            names.take_new()
        made.unresolved = names.unresolved
        yield from made.rest()
        yield made.summary()

    return task


class Made:
    """Rows of all tables made from lines. The column that is not null names the row's table."""

    def __init__(self, request: Request, start: int | None) -> None:
        passes = request.filter()
        passes.start = start
        self._schema = tagged_schema(request)
        self._builder = TableBuilder(request.open(), passes, request.run_id, request.capture_point)
        self.emit = self._builder.emit
        self.totals: dict[str, Any] = {}
        self.unresolved: set[str] = set()

    def add(self, lines: Iterable[Line]) -> Iterator[pa.RecordBatch]:
        """Takes lines; gives full batches."""
        return self._tagged(self._builder.add(lines))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Gives the batches that are not full."""
        return self._tagged(self._builder.rest())

    def summary(self, **more: Any) -> pa.RecordBatch:
        """The summary row: number of rows, totals and unresolved topic ids as CBOR, and the values of `more`."""
        sums = {"rows": self._builder.made, "totals": self.totals, "unresolved": sorted(self.unresolved)}
        told = pa.array([cbor2.dumps({**sums, **more})], pa.binary())
        (batch,) = self._tagged([(SUMMARY, told)])
        return batch

    def _tagged(self, found: Iterable[tuple[str, pa.Array]]) -> Iterator[pa.RecordBatch]:
        for name, rows in found:
            arrays = [rows if kind.name == name else pa.nulls(len(rows), kind.type) for kind in self._schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)
