"""Runs whose output is rows that are no lines: in which formats, and how one begins and ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import click

from kinspect.capture import open_timeline
from kinspect.cli.interrupt import Interrupt
from kinspect.cli.options import AUTO, Option, asked_format, make_caps, make_style
from kinspect.cli.readcommand import process_count, read_all
from kinspect.cli.readrun import ReadRun, RunOptions, open_run
from kinspect.output import JSONL, TABLE, Opening
from kinspect.sink import Sink

ROW_FORMATS = {JSONL: "kinspect.output.jsonl", "csv": "kinspect.output.csvlines"}
"""Modules whose `open_rows` makes a sink of rows, by the names of formats; commands add those of their own rows."""


def row_format_option(formats: Iterable[str], text: str) -> Option:
    """`--format`, one of `formats`; `text`: what the help says of some."""
    return click.option(
        "--format",
        "format_name",
        type=click.Choice([AUTO, *formats]),
        default=AUTO,
        help=f"auto: {TABLE} on a terminal, else {JSONL}; {text}.",
    )


class RowSink(Sink):
    """Makes rows of a run's lines, and tells them to `written`. `values`: those of all options."""

    whole = True
    formats: ClassVar[Mapping[str, str]]
    """Modules as in `ROW_FORMATS`."""
    keys: ClassVar[Sequence[str]]
    """Those of a row, in their order."""

    def __init__(self, asked: RunOptions, values: dict[str, Any]) -> None:
        self.asked, self.values = asked, values
        self.written = Sink()

    def open(self, run: ReadRun) -> None:
        """Begin the output of a run."""
        run.counts_errors = False
        self.written = self.make_rows(run)
        run.stream.file.put_header(self.written.header)
        run.stream.file.ending = self.written.ending

    @property
    def format(self) -> str:
        """The name of the format that is asked for."""
        return asked_format(self.values, JSONL)

    def make_rows(self, run: ReadRun, folder: str | None = None) -> Any:
        """The sink of rows in that format. `folder`: in whose files they stand."""
        opening = Opening(
            run.stream,
            self.asked.view,
            make_style(self.values),
            path=folder,
            force=self.values["force"],
            rolls=run.packets.status.bytes_total is None,
        )
        return import_module(self.formats[self.format]).open_rows(opening, self.keys)

    def flush(self) -> None:
        self.written.flush()

    def finish(self) -> None:
        self.written.flush()


def print_rows(captures: tuple[str, ...], sink: RowSink, jobs: int | None = 1) -> int:
    """Read captures into a sink of rows, with `jobs` processes as `--jobs` has it; returns the exit status."""
    timeline = open_timeline(captures, skew_ns=make_caps(sink.asked.values).skew_ns)
    interrupt = Interrupt()
    count = process_count(jobs, sink.asked, timeline)
    run = open_run(sink.asked, timeline, interrupt, sink)
    sink.open(run)
    with interrupt:
        return read_all(run, timeline, count)
