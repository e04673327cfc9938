"""`kinspect records`: captures in, records out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from kinspect import filteredvalues
from kinspect.analysis.chosenrecords import LINES, PassingRecords
from kinspect.cli.completions import files
from kinspect.cli.options import (
    FILTER_OPTIONS,
    IN_BODIES,
    INPUT,
    JOBS,
    LIMITS,
    LINE_FACTS,
    LINES_ALONE,
    OUTPUT_FILE,
    ROWS_SHOWN,
    SHOW_SECRETS,
    Sectioned,
    filter_option,
    options,
    usage,
)
from kinspect.cli.payloadoptions import PAYLOAD_RULES, SCHEMA_REGISTRY, form_option
from kinspect.cli.readrun import LimitReachedError, ReadRun, RunOptions, run_options
from kinspect.cli.rowsink import ROW_FORMATS, RowSink, print_rows, row_format_option
from kinspect.cli.rules import OptionRule, check
from kinspect.cli.schemaoption import SCHEMA
from kinspect.cli.types import COUNT
from kinspect.extras import need
from kinspect.filters.filterdefinitions import FILTERS
from kinspect.filters.recordfilters import RECORD_FILTERS, SHARED, RecordFilter
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.view.batchrows import KEYS, BatchRows
from kinspect.model import added
from kinspect.output import JSONL, TABLE
from kinspect.output.filterhint import record_hint
from kinspect.payloads.opendecoder import open_decoder
from kinspect.payloads.payloadforms import TEXT, PayloadForms
from kinspect.sink import SUMMARY, RunInput, Sink, SinkReport, WrittenLine
from kinspect.tables.tablenames import PARQUET
from kinspect.wording import counted

KCAT = "kcat"
TOPIC = "topic"
LIVE_FORMATS = {TABLE: "kinspect.output.recordtable", **ROW_FORMATS, KCAT: "kinspect.output.kcat"}
FORMATS = {**LIVE_FORMATS, PARQUET: "kinspect.tables.files"}

SPLIT = click.option(
    "--split",
    type=click.Choice([TOPIC]),
    help="With -o DIR: a file of each topic, named as it is, in that folder.",
)
WHICH = (
    click.option(
        "--control", is_flag=True, help="Also control records: markers of transactions, and KRaft's."
    ),
    click.option(
        "--once",
        is_flag=True,
        help="Each topic, partition and offset once, the first that passes; no records whose offset is not known.",
    ),
)
SHOWN = (
    row_format_option(
        FORMATS,
        f"csv: lists joined by semicolons, headers as JSON; {KCAT}: what `kcat -P -K` reads; {PARQUET}: a folder",
    ),
    form_option(
        "Show keys, values and headers' values; none: their sizes only. Filters by them work without."
    ),
    SCHEMA_REGISTRY,
    SHOW_SECRETS,
    *WHICH,
    SPLIT,
    click.option("--limit", type=COUNT, metavar="N", help="Stop after N records."),
    *ROWS_SHOWN,
)
CHOOSING = tuple(filter_option(name, row) for name, row in RECORD_FILTERS.items())
OWN_FILTERS = tuple(
    option for name, option in zip(RECORD_FILTERS, CHOOSING, strict=True) if name not in SHARED
)
OTHER_FILTERS = tuple(
    option for name, option in zip(FILTERS, FILTER_OPTIONS, strict=True) if name not in SHARED
)
RECORD_RULES = (
    OptionRule(
        f"format={KCAT}", f"{{}} writes keys and values: give --payload {TEXT}", unless=f"payload={TEXT}"
    ),
    OptionRule(f"format={KCAT}", "{} writes bytes: into a pipe, or -o FILE", "tty"),
    OptionRule("split", "{} makes a file of each topic: say where with -o DIR", unless="path"),
    OptionRule("split", "{} is not for --format {format}: tables are for people", f"format={TABLE}"),
    OptionRule("split", "{} is not for --format {format}: the column topic parts rows", f"format={PARQUET}"),
    OptionRule(f"format={PARQUET}", "{} writes tables: say where with -o DIR", unless="path"),
    *PAYLOAD_RULES,
    OptionRule("control", f"{{}} is not for --format {KCAT}: only brokers write markers", f"format={KCAT}"),
)


class RecordsCommand(Sectioned):
    """The command, with the filters of records among those of exchanges."""

    filters = (*RECORD_FILTERS, *FILTERS)


@click.command(cls=RecordsCommand)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, shell_complete=files)
@options(OUTPUT_FILE, SHOWN, CHOOSING, OTHER_FILTERS, INPUT, SCHEMA, JOBS, LIMITS)
def records(captures: tuple[str, ...], once: bool, control: bool, jobs: int | None, **values: Any) -> int:
    """Print the records that captures hold: produced, consumed and replicated, a row each.

    CAPTURE is what `kinspect read` takes. All filters must match: those of exchanges, and those of records. Whether a
    record was committed is decided by all of the capture, whatever the filters leave out.
    """
    check(RECORD_RULES, LINE_FACTS)
    values = {**values, "once": once, "control": control}
    asked, choice = record_request(values, captures)
    # Other connections say in which group a client is.
    return print_rows(captures, RecordSink(asked, choice, values), 1 if values["group"] else jobs)


def record_request(values: dict[str, Any], inputs: Sequence[str] = ()) -> tuple[RunOptions, RecordFilter]:
    """The request of a run that shows records, and what chooses these."""
    given = {name: values[name] for name in RECORD_FILTERS}
    lines = {**LINES_ALONE, **values, **dict.fromkeys(SHARED, ()), **IN_BODIES}
    if values["format_name"] == PARQUET:
        usage(lambda: need("parquet", f"--format {PARQUET}"))
    if _has_folder(values):
        lines["output"] = os.devnull
    asked = run_options({**lines, "format_name": JSONL, "emit": [SUMMARY]}, inputs)
    choice = usage(lambda: RecordFilter(given, lambda: asked.filter.start))
    asked.filter.exempt_all()
    return asked, choice


def _has_folder(values: dict[str, Any]) -> bool:
    """Whether -o is a folder."""
    return bool(values.get("split")) or values["format_name"] == PARQUET


class RecordSink(RowSink):
    """Writes the rows that the filters choose. `now`: gives the time that a capture which goes on has reached."""

    lines = LINES
    formats = FORMATS
    keys = KEYS

    def __init__(
        self,
        asked: RunOptions,
        choice: RecordFilter,
        values: dict[str, Any],
        now: Callable[[], int | None] = lambda: None,
    ) -> None:
        super().__init__(asked, values)
        forms = PayloadForms(values["payload"], usage(lambda: open_decoder(values["schema_registry"])))
        self._records = PassingRecords(
            asked.view, choice, forms, once=values["once"], control=values["control"]
        )
        self._choice, self._now = choice, now
        self._limit = values["limit"]
        self._count = self._slow = 0

    def open(self, run: ReadRun) -> None:
        super().open(run)
        if not self.values["once"]:
            run.tell_copies()

    def make_rows(self, run: ReadRun, folder: str | None = None) -> Any:
        if not _has_folder(self.values):
            return super().make_rows(run)
        folder, replaces = self.values["output"], self.values["force"]
        rows, suffix = usage(lambda: RowSink.make_rows(self, run, folder)), f".{self.format}"
        if not self.values.get("split"):
            return rows
        from kinspect.cli.topicfiles import TopicFiles

        return usage(lambda: TopicFiles(rows, folder, suffix, replaces))

    def take(self, line: Line) -> None:
        self._write(self._records.take(line, not self.asked.filter.let))
        if self._count == self._limit:
            raise LimitReachedError

    def flush(self) -> None:
        if (now := self._now()) is not None:
            self._write(self._records.let_go(now))
        super().flush()

    def finish(self) -> None:
        self._write(self._records.finish())
        super().finish()

    def close(self, read: RunInput) -> SinkReport:
        records = self._records
        told = [f"{counted(records.found, 'record')}; {self._count:,} shown"]
        if not self._count and (hint := record_hint(self._choice)):
            told.append(hint)
        told += [
            text.format(f"{count:,}")
            for count, text in (
                (records.behind, "left out by --committed, as they stand behind an open transaction: {}"),
                (records.unplaced, "left out by --once, as no offset is known: {}"),
                (records.forgotten, "partitions that --once forgot for want of room: {}"),
                (
                    self._slow + self._choice.slow,
                    "texts that took too long to search, taken for no match: {}",
                ),
                (records.undecided, "batches of transactions there was no room to wait for: {}"),
            )
            if count
        ]
        told += [
            f"left out by {option}, as what it asks for is not known: {count:,}"
            for option, count in sorted(self._choice.unknown.items())
        ]
        return SinkReport(told + self.written.close(read).messages)

    def follow(self, number: int) -> Sink:
        return RecordWorker(self.asked, self._records, self._choice)

    def put(self, piece: WrittenLine) -> None:
        self._write(self._records.apply(piece.text))

    def merge(self, part: Any) -> None:
        self._records.found += part["found"]
        self._choice.unknown = added(self._choice.unknown, part["unknown"])
        filteredvalues.add(_seen(self._choice), part["seen"])
        self._choice.left_out.update(part["left_out"])
        self._slow += part["slow"]

    def discard(self) -> None:
        self._records.close()
        self.written.discard()

    def _write(self, passing: Iterator[BatchRows]) -> None:
        """Write rows, up to the limit."""
        for rows in passing:
            found = rows if self._limit is None else rows.first(self._limit - self._count)
            self._count += len(found)
            self.written.tell_rows(found)
            if self._count == self._limit:
                break


class RecordWorker(Sink):
    """The sink of a worker of `--jobs`: has what lines say of records, and the rows that are chosen, for the first
    process, which alone knows what became of transactions."""

    lines = LINES
    whole = True

    def __init__(self, asked: RunOptions, records: PassingRecords, choice: RecordFilter) -> None:
        self._asked, self._records, self._choice = asked, records, choice
        self._text = b""

    def take(self, line: Line) -> None:
        self._text = self._records.told(line, not self._asked.filter.let)

    def text(self) -> bytes:
        text, self._text = self._text, b""
        return text

    def part(self) -> Any:
        choice = self._choice
        found = {"found": self._records.found, "unknown": choice.unknown, "slow": choice.slow}
        self._records.close()
        return {**found, "seen": _seen(choice), "left_out": [*choice.left_out]}


def _seen(choice: RecordFilter) -> filteredvalues.SeenValues:
    """The values that its filters left out, which others can be added to."""
    return {option: {left.kind: left.counts} for option, left in choice.seen.items()}
