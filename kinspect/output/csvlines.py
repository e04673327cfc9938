"""Exchanges as rows of CSV (RFC 4180, lines end with a line feed)."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View
from kinspect.output import Opening
from kinspect.output.cells import cell, json_cell
from kinspect.output.linefacts import at
from kinspect.output.linesink import LineSink

COLUMNS = tuple(
    """
    timestamp completed_at client.ip client.port client.id client.role client.principal broker.ip broker.port
    broker.node_id api api_version correlation_id outcome outcome_reason latency_ms service_ms wait topics groups
    truncated_lists record_count record_bytes error_names problem_count request.size response.size connection_id
    event_id
    """.split()
)
"""The columns without `--fields`, by their paths in an exchange's line."""
LISTS = frozenset({"headers"})
"""Columns of rows that have lists; other lists are JSON of a payload."""


def open_sink(opening: Opening) -> LineSink:
    """Exchanges as rows below the names of the columns."""
    rows = CsvRows(opening.view)
    sink = LineSink(opening, rows.exchange, lambda _: b"")
    sink.header = rows.header
    return sink


def open_rows(opening: Opening, columns: Sequence[str]) -> LineSink:
    """Rows, which the sink is told, below the names of their columns."""
    texts = CsvTexts(columns)
    objects = {name for name in columns if name not in LISTS}

    def text(row: dict[str, Any]) -> bytes:
        return texts.row([(json_cell if name in objects else cell)(row[name]) for name in columns])

    sink = LineSink(opening, lambda _: b"", text)
    sink.header = texts.header
    return sink


class CsvTexts:
    """Rows of cells as text, and the header above them."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._writer = csv.writer(_Text(), lineterminator="\n")
        self.header = self.row(columns)

    def row(self, cells: Sequence[Any]) -> bytes:
        """The text of a row."""
        # It returns what the text's `write` does.
        text: str = self._writer.writerow(cells)
        return text.encode()


class CsvRows(CsvTexts):
    """The row of each exchange, and the header above them."""

    def __init__(self, view: View) -> None:
        self._columns = COLUMNS if view.fields is None else tuple(view.fields)
        self._view = replace(view, fields=self._columns)
        super().__init__(self._columns)

    def exchange(self, exchange: Exchange) -> bytes:
        line = self._view.exchange(exchange)
        return self.row([cell(at(line, column)) for column in self._columns])


class _Text:
    def write(self, text: str) -> str:
        return text
