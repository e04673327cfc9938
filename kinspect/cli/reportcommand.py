"""`kinspect report`: captures in, a page of all answers out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any

import click

from kinspect import __version__
from kinspect.analysis.overtime import OverTime
from kinspect.answers import answers, open_answer
from kinspect.cli import complain
from kinspect.cli.answerscommand import CountedCaptures, make_next_command
from kinspect.cli.completions import files
from kinspect.cli.exportcommand import check_read_twice, export, write_export
from kinspect.cli.interrupt import Interrupt
from kinspect.cli.options import (
    FILTER_OPTIONS,
    INPUT,
    JOBS,
    LIMITS,
    OUTPUT_FILE,
    PROGRESS,
    QUIET,
    Sectioned,
    options,
    usage,
)
from kinspect.cli.outfile import STANDARD
from kinspect.cli.schemaoption import SCHEMA
from kinspect.errors import KinspectError
from kinspect.extras import need
from kinspect.filters.filterdefinitions import FILTERS
from kinspect.output import Style

OVER_TIME = "over time"
COPY = "redacted.pcapng"
"""Name of the file that `--redact` makes a page of."""
NOTHING_ELSE = dict.fromkeys((*FILTERS, "keylog", "names", "topic_names"))
"""Options that were for the captures, not for that file."""
REDACTED = (
    click.option(
        "--redact",
        is_flag=True,
        help="Write the page of what `kinspect export --redact` makes of the captures: it can be sent out.",
    ),
)
SHOWN = (QUIET, PROGRESS, click.option("--utc", is_flag=True, help="Times in UTC (else local time)."))


@click.command(cls=Sectioned)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, shell_complete=files)
@options(OUTPUT_FILE, REDACTED, SHOWN, FILTER_OPTIONS, INPUT, SCHEMA, JOBS, LIMITS)
def report(captures: tuple[str, ...], jobs: int | None, **values: Any) -> int:
    """Write a page of HTML that stands alone: findings, plots over time, and the table of each answer.

    It is for -o FILE, and for a browser; nothing in it asks a network. CAPTURE is what `kinspect read` takes. All
    filters must match; what they leave out is not counted. It needs the extra: pip install 'kinspect[report]'.
    """
    usage(lambda: _check(captures, values))
    if not values["redact"]:
        return _write(captures, jobs, values)
    folder = None if values["output"] == STANDARD else os.path.dirname(values["output"]) or os.curdir
    usual = export.make_context("export", ["--", *captures]).params
    interrupt = Interrupt()
    with TemporaryDirectory(dir=folder) as kept:
        copy = os.path.join(kept, COPY)
        status, lacks = write_export(captures, copy, {**usual, **values}, interrupt)
        if os.path.exists(copy) and not interrupt.received:
            status = max(status, _write((copy,), jobs, {**values, **NOTHING_ELSE}, lacks))
    return interrupt.status or status


def _write(
    captures: tuple[str, ...], jobs: int | None, values: dict[str, Any], lacks: Sequence[str] = ()
) -> int:
    """Write the page; return the exit status. `lacks`: lines on what is missing that the captures do not show."""
    interrupt = Interrupt()
    counting = {**{name: open_answer(name) for name in answers()}, OVER_TIME: OverTime()}
    counted = CountedCaptures(counting, captures, values, interrupt, captures)
    with interrupt:
        if objects := counted.objects(jobs):
            from kinspect.reports.page import page  # loads Matplotlib

            *found, slots = objects
            text = page(found, slots["rows"], Style(utc=values["utc"]), __version__, _filters(values), lacks)
            counted.run.stream.buffer.write(text.encode(errors="backslashreplace"))
            if all(each["capture"]["instead"] for each in found) and not values["quiet"]:
                complain(found[0]["capture"]["instead"])
        status = counted.close()
    return interrupt.status or status


def _filters(values: dict[str, Any]) -> list[str]:
    """The filters that were given, as they were typed."""
    given = make_next_command((), {name: values[name] for name in FILTERS}).options
    return [name if value is None else f"{name} {value}" for name, value in given]


def _check(captures: tuple[str, ...], values: dict[str, Any]) -> None:
    if values["output"] is None:
        raise KinspectError("-o FILE says where the page goes; -o - is standard output")
    need("report", "report")
    if values["redact"]:
        check_read_twice(captures)
