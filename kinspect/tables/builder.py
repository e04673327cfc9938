"""Lines gathered into Arrow arrays of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.view.view import SCHEMA_VERSION
from kinspect.tables.arrowcolumns import COMPLETION
from kinspect.tables.rows import ROW, Table, TableRow, completion

_ROWS, _BYTES = 1000, 512 * 1024
"""Most rows of an array, and bytes of rows that wait: the garbage collector would search more again and again."""
_ROW_BYTES = 1000
"""Estimated bytes of a row beside its messages."""
_HEADER_BYTES = 100
"""Those of a header beside its value."""
_PLACE_BYTES = 8
"""Bytes of a row's number, which sorts rows that are no lines."""


class TableBuilder:
    """Turns lines, or rows that are no lines, into rows of tables: arrays of structs with the table's name, of at most
    1,000 rows. `made`: number of rows of each table so far; `emit`: the line types of the tables."""

    def __init__(self, tables: Mapping[str, Table], run_id: str, capture_point: str | None) -> None:
        self._common: TableRow = {
            "run_id": run_id,
            "capture_point": capture_point,
            "schema_version": SCHEMA_VERSION,
        }
        self._types = {name: pa.struct(list(table.schema)) for name, table in tables.items()}
        self._rows: dict[str, list[TableRow]] = {name: [] for name in tables}
        self._makers = [(table.emit, table.rows, self._rows[name]) for name, table in tables.items()]
        self._bytes = self._place = 0
        self.made = dict.fromkeys(tables, 0)
        self.emit = frozenset(table.emit for table in tables.values())

    def add(self, lines: Iterable[Line]) -> Iterator[tuple[str, pa.Array]]:
        """Take lines, exchanges and connections; give full arrays."""
        for line in lines:
            if isinstance(line, Exchange):
                kind = "exchange"
                for message in (line.request, line.response):
                    if message is not None and message.raw is not None:
                        self._bytes += len(message.raw)
            else:
                kind = "connection"
            self._common[COMPLETION] = completion(line.key)
            self._make(kind, line)
            if self._bytes >= _BYTES:
                yield from self.rest()

    def add_rows(self, rows: Iterable[TableRow]) -> Iterator[tuple[str, pa.Array]]:
        """Take rows that are no lines, as `records` has them; give full arrays."""
        for row in rows:
            self._place += 1
            self._common[COMPLETION] = self._place.to_bytes(_PLACE_BYTES)
            self._make(ROW, row)
            self._bytes += row["key_size"] or 0
            self._bytes += row["value_size"] or 0
            self._bytes += sum(_HEADER_BYTES + len(str(header["value"])) for header in row["headers"])
            if self._bytes >= _BYTES:
                yield from self.rest()

    def _make(self, kind: str, line: Any) -> None:
        """Make the rows of a line of this type."""
        for emit, make, rows in self._makers:
            if emit == kind:
                before = len(rows)
                for row in make(line):
                    row.update(self._common)
                    rows.append(row)
                self._bytes += _ROW_BYTES * (len(rows) - before)

    def rest(self) -> Iterator[tuple[str, pa.Array]]:
        """Give the remaining rows."""
        for name, rows in self._rows.items():
            while some := rows[:_ROWS]:
                # Taken out first: whoever breaks this off must not get them twice.
                del rows[:_ROWS]
                self.made[name] += len(some)
                yield name, pa.array(some, self._types[name])
        self._bytes = 0
