"""A share of a run's lines as rows of one schema: rows of all tables, and a summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import cbor2
import pyarrow as pa

from kinspect.kafka.exchange.lines import Line
from kinspect.tables.builder import TableBuilder
from kinspect.tables.request import Request

SUMMARY = "summary"


def tagged_schema(request: Request) -> pa.Schema:
    """Columns of `Made`: a struct for each table and a summary, only one of which is not null in a row."""
    tables = [(name, pa.struct(list(table.schema))) for name, table in request.open().items()]
    return pa.schema([*tables, (SUMMARY, pa.binary())])


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
