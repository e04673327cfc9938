"""A table with a row for each record. Rows are printed as they come, so the columns' widths are fixed beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from rich.console import Console
from rich.text import Text

from kinspect.kafka.view.view import epoch_ns
from kinspect.output import Opening
from kinspect.output.clock import DayLines
from kinspect.output.columns import REST, Column, aligned, fitted, left_out_text
from kinspect.output.console import make_console
from kinspect.output.escape import escape
from kinspect.output.table import PROBLEM
from kinspect.sink import RunInput, Sink, SinkReport

Row = dict[str, Any]

DIM = "dim"
DASH = "–"
TOGETHER = 1000
"""Lines that wait for one another at most."""


def _payload(name: str) -> Any:
    """Key or value: its text or JSON, or its size; a dash if the record has none."""

    def text(row: Row) -> str:
        value = row[name]
        if row[f"{name}_encoding"] is not None:
            return escape(value if isinstance(value, str) else orjson.dumps(value).decode())
        size = row[f"{name}_size"]
        return DASH if size is None else f"{size} B"

    return text


def _fault(row: Row) -> str:
    return "bad CRC" if row["crc_ok"] is False else row["error"] or ""


def _value(row: Row) -> str:
    shown, fault = row["control"] or _payload("value")(row), _fault(row)
    return f"{fault}: {shown}" if fault else shown


def _topic(row: Row) -> str:
    partition = "?" if row["partition"] is None else row["partition"]
    return f"{escape(row['topic'] or row['topic_id'] or '?')}[{partition}]"


TIME = Column("TIME", rank=3, least=8)
WIDTHS = {
    TIME: 12,
    Column("DIRECTION", lambda row: row["direction"] or "?", rank=4): 9,
    Column("TOPIC", _topic): 24,
    Column("OFFSET", lambda row: DASH if row["offset"] is None else f"{row['offset']}", right=True): 8,
    Column("CLIENT ID", lambda row: escape(row["client_id"] or ""), rank=5, least=8): 14,
    Column("TXN", lambda row: row["transaction"] or "?", rank=2): 9,
    Column("KEY", _payload("key"), rank=1, least=6): 12,
    Column("VALUE", _value, style=lambda row: PROBLEM if _fault(row) else "", least=12): REST,
}


def open_rows(opening: Opening, columns: Sequence[str]) -> RecordTable:
    """Rows, which the sink is told, as lines below their day."""
    style = opening.style
    return RecordTable(make_console(opening.stream, style.color), WIDTHS, utc=style.utc, wide=style.wide)


class RecordTable(Sink):
    """Writes rows as lines. `widths`: of its columns; `wide`: nothing is cut, lines may be longer than the
    terminal is wide."""

    def __init__(self, console: Console, widths: Mapping[Column, int], *, utc: bool, wide: bool) -> None:
        self._console = console
        self._days = DayLines(utc, wide)
        self._wide = wide
        self._widths = {**widths, TIME: 29} if wide else fitted(widths, console.width, 1)
        self._left_out = [column.title for column in widths if column not in self._widths]
        self._rows: list[Text] = []

    def tell(self, row: Row) -> None:
        if self._days.day is None:
            self._add({column: Text(column.title, style="bold") for column in self._widths})
        time = row["timestamp"]
        day, clock = self._days.day_and_time(None if time is None else epoch_ns(time))
        self._rows += self._days.above(day)
        cells = {column: Text(column.text(row), style=column.style(row)) for column in self._widths}
        if TIME in cells:
            cells[TIME] = Text(clock if self._wide else clock[: self._widths[TIME]], style=DIM)
        self._add(cells)
        if len(self._rows) >= TOGETHER:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._console.print(Text("\n").join(rows), soft_wrap=True)

    def close(self, read: RunInput) -> SinkReport:
        if not self._left_out or self._days.day is None:
            return SinkReport([])
        return SinkReport([left_out_text(self._left_out)])

    def _add(self, cells: dict[Column, Text]) -> None:
        widths = self._widths
        if self._wide:
            widths = {column: max(width % REST, cells[column].cell_len) for column, width in widths.items()}
        line = aligned(cells, widths, 1)
        line.rstrip()
        self._rows.append(line)
