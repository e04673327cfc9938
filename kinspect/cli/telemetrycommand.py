"""`kinspect telemetry`: captures in, the metrics that clients pushed to brokers out."""

from __future__ import annotations

from typing import Any

import click

from kinspect.analysis.telemetryrows import KEYS, METRIC, Row, telemetry_rows
from kinspect.cli.completions import files
from kinspect.cli.options import (
    FILTER_OPTIONS,
    IN_BODIES,
    INPUT,
    LIMITS,
    LINES_ALONE,
    OUTPUT_FILE,
    ROWS_SHOWN,
    Option,
    Sectioned,
    options,
    usage,
)
from kinspect.cli.readrun import LimitReachedError, RunOptions, run_options
from kinspect.cli.rowsink import ROW_FORMATS, RowSink, print_rows, row_format_option
from kinspect.cli.schemaoption import SCHEMA
from kinspect.cli.types import COUNT
from kinspect.filters.filterdefinitions import FILTERS
from kinspect.filters.values import Patterns, glob
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.output import JSONL, TABLE
from kinspect.sink import EXCHANGE, SUMMARY, RunInput, SinkReport
from kinspect.wording import COMMON, counted

FORMATS = {TABLE: "kinspect.output.telemetrytable", **ROW_FORMATS}
SHOWN = (
    row_format_option(FORMATS, "csv: sets of attributes joined by semicolons"),
    click.option("--limit", type=COUNT, metavar="N", help="Stop after N rows."),
    *ROWS_SHOWN,
)
METRIC_FILTER: Option = click.option(
    "--metric",
    multiple=True,
    metavar="PATTERN",
    help="Metrics by their names, with or without org.apache.kafka.; no rows that are of no metric.",
)


class TelemetryCommand(Sectioned):
    """The command, with the filter of metrics among those of exchanges."""

    filters = (METRIC, *FILTERS)


@click.command(cls=TelemetryCommand)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, shell_complete=files)
@options(OUTPUT_FILE, SHOWN, (METRIC_FILTER, *FILTER_OPTIONS), INPUT, SCHEMA, LIMITS)
def telemetry(captures: tuple[str, ...], metric: tuple[str, ...], **values: Any) -> int:
    """Print the metrics that clients pushed to brokers, and what brokers asked for.

    A row each, of KIP-714's pushes. CAPTURE is what `kinspect read` takes. All filters must match.
    """
    defaults = {**IN_BODIES, **LINES_ALONE, "show_secrets": False}
    asked = run_options({**defaults, **values, "format_name": JSONL, "emit": [SUMMARY]}, captures)
    chosen = usage(lambda: Patterns(metric, glob)) if metric else None
    return print_rows(captures, TelemetrySink(asked, values, chosen))


class TelemetrySink(RowSink):
    """Writes the rows of exchanges. `metric`: patterns of names, None: any row."""

    lines = frozenset({EXCHANGE})
    formats = FORMATS
    keys = KEYS

    def __init__(self, asked: RunOptions, values: dict[str, Any], metric: Patterns | None) -> None:
        super().__init__(asked, values)
        self._metric, self._limit = metric, values["limit"]
        self._count = self._found = self._unread = 0

    def take(self, line: Line) -> None:
        if isinstance(line, Exchange):
            for row in telemetry_rows(line):
                self._found += 1
                self._unread += row["problem"] is not None
                if self._passes(row):
                    self._count += 1
                    self.written.tell(row)
                    if self._count == self._limit:
                        raise LimitReachedError

    def close(self, read: RunInput) -> SinkReport:
        told = [f"{counted(self._found, 'row')}; {self._count:,} shown"]
        if self._unread:
            told.append(f"pushes whose metrics could not be read, or not all of them: {self._unread:,}")
        return SinkReport(told + self.written.close(read).messages)

    def _passes(self, row: Row) -> bool:
        name = row["metric"]
        return self._metric is None or (
            name is not None and bool(self._metric.verdict((name, name.removeprefix(COMMON))))
        )
