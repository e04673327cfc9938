"""A share of a run's lines as named rows: those of all tables, parts of answers, and a summary."""

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
NamedRows = tuple[str, pa.Array]
"""Some rows, with the name of their table; `COUNTED`: parts of answers; `SUMMARY`: one summary, as CBOR."""


def tagged_schema(request: Request) -> pa.Schema:
    """A column for each name of the rows of `TaggedRows`: a struct for each table, one for parts of answers, and a
    summary."""
    tables = [(name, pa.struct(list(table.schema))) for name, table in request.open().items()]
    return pa.schema([*tables, (COUNTED, pa.struct(list(PART))), (SUMMARY, pa.binary())])


def tagged(found: Iterable[NamedRows], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Named rows as rows of one schema. The column that is not null is that of their name."""
    for name, rows in found:
        arrays = [rows if kind.name == name else pa.nulls(len(rows), kind.type) for kind in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class TaggedRows:
    """Rows of all tables made from lines, parts of answers, and a summary, by their names."""

    def __init__(self, request: Request, start: int | None) -> None:
        passes = request.filter()
        passes.start = start
        self._answers = request.open_answers()
        counted = AnswerCounter(self._answers)
        counted.serve(passes)
        self._passes = passes
        self._counted = counted
        self._builder = TableBuilder(request.open(), request.run_id, request.capture_point)
        self.emit = self._builder.emit | counted.lines
        self.totals: dict[str, Any] = {}
        self.unresolved: set[str] = set()

    def add(self, lines: Iterable[Line]) -> Iterator[NamedRows]:
        """Takes lines; gives full arrays of rows."""
        return self._builder.add(self._chosen(lines))

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

    def rest(self) -> Iterator[NamedRows]:
        """Gives the arrays that are not full, and the parts of answers."""
        yield from self._builder.rest()
        if self._answers:
            yield COUNTED, pa.array(_parts(self._answers), pa.struct(list(PART)))

    def summary(self, **more: Any) -> NamedRows:
        """The summary: number of rows, totals and unresolved topic ids, and the values of `more`."""
        totals = added(self.totals, {UNKNOWN: self._passes.unknown})
        sums = {"rows": self._builder.made, "totals": totals, "unresolved": sorted(self.unresolved)}
        return SUMMARY, pa.array([cbor2.dumps({**sums, **more})], pa.binary())


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
