"""`kinspect report`: captures in, a page of all answers out."""

from __future__ import annotations

from typing import Any

import click

from kinspect import __version__
from kinspect.analysis.overtime import OverTime
from kinspect.answers import answers, open_answer
from kinspect.cli.answerscommand import CountedCaptures
from kinspect.cli.completions import files
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
from kinspect.cli.schemaoption import SCHEMA
from kinspect.errors import KinspectError
from kinspect.extras import need
from kinspect.output import Style

OVER_TIME = "over time"
SHOWN = (QUIET, PROGRESS, click.option("--utc", is_flag=True, help="Times in UTC (else local time)."))


@click.command(cls=Sectioned)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, shell_complete=files)
@options(OUTPUT_FILE, SHOWN, FILTER_OPTIONS, INPUT, SCHEMA, JOBS, LIMITS)
def report(captures: tuple[str, ...], jobs: int | None, **values: Any) -> int:
    """Write a page of HTML that stands alone: findings, plots over time, and the table of each answer.

    It is for -o FILE, and for a browser; nothing in it asks a network. CAPTURE is what `kinspect read` takes. All
    filters must match; what they leave out is not counted. It needs the extra: pip install 'kinspect[report]'.
    """
    usage(lambda: _check(values))
    interrupt = Interrupt()
    counting = {**{name: open_answer(name) for name in answers()}, OVER_TIME: OverTime()}
    counted = CountedCaptures(counting, captures, values, interrupt, captures)
    with interrupt:
        if objects := counted.objects(jobs):
            from kinspect.reports.page import page  # loads Matplotlib

            *found, slots = objects
            text = page(found, slots["rows"], Style(utc=values["utc"]), __version__)
            counted.run.stream.buffer.write(text.encode(errors="backslashreplace"))
        status = counted.close()
    return interrupt.status or status


def _check(values: dict[str, Any]) -> None:
    if values["output"] is None:
        raise KinspectError("-o FILE says where the page goes; -o - is standard output")
    need("report", "report")
