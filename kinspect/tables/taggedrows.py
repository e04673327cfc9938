"""A share of a run's lines as rows of one schema: rows of all tables, parts of answers, and a summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import cbor2
import pyarrow as pa

from kinspect.analysis.answer import Answer
from kinspect.answers import definition_of
from kinspect.answers.counter import AnswerCounter
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.model import added
from kinspect.tables.builder import TableBuilder
from kinspect.tables.request import Request

SUMMARY = "summary"
COUNTED = "counted"
CONNECTION = "connection"
UNKNOWN = "unknown_to_filters"
PART = pa.schema([("answer", pa.string()), ("state", pa.binary())])
"""A part of an answer, by its name: `Answer.to_bytes`."""


def tagged_schema(request: Request) -> pa.Schema:
    """Columns of `TaggedRows`: a struct for each table, one for parts of answers, and a summary. Only one of them is
    not null in a row."""
    tables = [(name, pa.struct(list(table.schema))) for name, table in request.open().items()]
    return pa.schema([*tables, (COUNTED, pa.struct(list(PART))), (SUMMARY, pa.binary())])


class TaggedRows:
    """Rows of all tables made from lines, and parts of answers. The column that is not null names the row's table."""

    def __init__(self, request: Request, start: int | None) -> None:
        passes = request.filter()
        passes.start = start
        self._schema = tagged_schema(request)
        self._answers = request.open_answers()
        counted = AnswerCounter(self._answers)
        counted.serve(passes)
        self._passes = passes
        self._counted = counted
        self._builder = TableBuilder(request.open(), request.run_id, request.capture_point)
        self.emit = self._builder.emit | counted.lines
        self.totals: dict[str, Any] = {}
        self.unresolved: set[str] = set()

    def add(self, lines: Iterable[Line]) -> Iterator[pa.RecordBatch]:
        """Takes lines; gives full batches."""
        return self._tagged(self._builder.add(self._chosen(lines)))

    def _chosen(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines that pass the filter, counted for the answers."""
        passes, counted = self._passes, self._counted
        for line in lines:
            if isinstance(line, Exchange):
                if not passes.matches(line):
                    continue
                counted.take(line)
                if passes.let:
                    continue
            elif passes.matches_line(line):
                if CONNECTION in counted.lines:
                    counted.take(line)
            else:
                continue
            yield line

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Gives the batches that are not full, and the parts of answers."""
        yield from self._tagged(self._builder.rest())
        if self._answers:
            yield from self._tagged([(COUNTED, pa.array(_parts(self._answers), pa.struct(list(PART))))])

    def summary(self, **more: Any) -> pa.RecordBatch:
        """The summary row: number of rows, totals and unresolved topic ids as CBOR, and the values of `more`."""
        totals = added(self.totals, {UNKNOWN: self._passes.unknown})
        sums = {"rows": self._builder.made, "totals": totals, "unresolved": sorted(self.unresolved)}
        told = pa.array([cbor2.dumps({**sums, **more})], pa.binary())
        (batch,) = self._tagged([(SUMMARY, told)])
        return batch

    def _tagged(self, found: Iterable[tuple[str, pa.Array]]) -> Iterator[pa.RecordBatch]:
        for name, rows in found:
            arrays = [rows if kind.name == name else pa.nulls(len(rows), kind.type) for kind in self._schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def merging(found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task that merges its parts of each answer into one, as they come."""
    wholes: dict[str, Answer] = {}
    for row in (row for batch in found for row in batch.to_pylist()):
        part = definition_of(row["answer"]).answer.from_bytes(row["state"])
        if wholes.setdefault(row["answer"], part) is not part:
            wholes[row["answer"]].merge(part)
    yield pa.RecordBatch.from_pylist(_parts(wholes), PART)


def _parts(answers: Mapping[str, Answer]) -> list[dict[str, Any]]:
    return [{"answer": name, "state": answer.to_bytes()} for name, answer in answers.items()]
