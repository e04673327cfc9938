"""The second pass: a task merges the chunks of its islands, and decodes each island as `kinspect read` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import cbor2
import pyarrow as pa

from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.model import added
from kinspect.pipeline import EndPlace, relax_collector
from kinspect.protocol import schema
from kinspect.run import IslandRun
from kinspect.spark.chunkmerge import Bases, ChunkMerge, islands
from kinspect.tables.request import Request
from kinspect.tables.taggedrows import NamedRows, TaggedRows
from kinspect.tls.keylog import KeyLog

Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
NamingTask = Callable[[Iterable[pa.RecordBatch]], Iterator[NamedRows]]

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


def _island_runs(
    found: Iterable[pa.RecordBatch],
    run: RunContext,
    request: Request,
    names: LearnedNames,
    emit: frozenset[str],
) -> Iterator[tuple[IslandRun, ChunkMerge]]:
    """The runs of a task's islands, one after the other, each with what merges its chunks."""
    relax_collector()
    keylog = run.keylog()
    for rows in islands(found, run.bases):
        merge = ChunkMerge(run.bases)
        inspector = request.inspector(names, keylog, emit, run.files)
        yield IslandRun(merge.segments(rows), inspector, run.end), merge


def learning(run: RunContext, request: Request) -> Task:
    """A task that gives the names learned from its islands: `RunContext.names` as CBOR."""

    def task(found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema.lay_over(request.definitions)
        names = LearnedNames()
        for island, _ in _island_runs(found, run, request, names, frozenset()):
            for _ in island.all_lines():
                pass
        told = cbor2.dumps(names.take_new())
        yield pa.RecordBatch.from_arrays([pa.array([told], pa.binary())], schema=PIECE)

    return task


def decoding(run: RunContext, request: Request) -> NamingTask:
    """A task that gives the rows of its islands, then a summary."""

    def task(found: Iterable[pa.RecordBatch]) -> Iterator[NamedRows]:
        schema.lay_over(request.definitions)
        names = request.known_names()
        names.add(*run.names)
        made = TaggedRows(request, run.start)
        for island, merge in _island_runs(found, run, request, names, made.emit):
            for lines in island.pieces():
                yield from made.add(lines)
            if merge.early:
                island.inspector.counts.hit("merge_bytes")
            made.totals = added(made.totals, island.inspector.totals())
            names.take_new()
        made.unresolved = names.unresolved
        yield from made.rest()
        yield made.summary()

    return task
