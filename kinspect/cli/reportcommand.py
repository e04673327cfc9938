"""`kinspect report`: captures in, a page of all answers out."""

from __future__ import annotations

from typing import Any

import click

from kinspect import __version__
from kinspect.analysis.overtime import OverTime
from kinspect.answers import answers, open_answer
from kinspect.answers.counter import AnswerCounter
from kinspect.capture import open_timeline
from kinspect.cli.answerscommand import NOT_ASKED, nothing_passed, read_counted
from kinspect.cli.completions import files
from kinspect.cli.interrupt import Interrupt
from kinspect.cli.options import (
    FILTER_OPTIONS,
    INPUT,
    JOBS,
    LIMITS,
    LINES_ALONE,
    OUTPUT_FILE,
    PROGRESS,
    QUIET,
    Sectioned,
    make_caps,
    options,
    usage,
)
from kinspect.cli.readrun import open_run, run_options
from kinspect.cli.schemaoption import SCHEMA
from kinspect.errors import KinspectError
from kinspect.extras import need
from kinspect.output import JSONL, Style

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
    counted = AnswerCounter({**{name: open_answer(name) for name in answers()}, OVER_TIME: OverTime()})
    asked = run_options(
        {**NOT_ASKED, **LINES_ALONE, **values, "format_name": JSONL, "emit": sorted(counted.lines)}, captures
    )
    counted.serve(asked.filter)
    timeline = open_timeline(captures, skew_ns=make_caps(asked.values).skew_ns)
    interrupt = Interrupt()
    run = open_run(asked, timeline, interrupt, counted)
    run.counts_errors = False
    with interrupt:
        summary = read_counted(run, timeline, jobs)
        if not run.nothing_read:
            from kinspect.reports.page import page  # loads Matplotlib

            span = run.tally.first, run.tally.last
            run.note_stop()
            *found, slots = counted.objects(
                summary, run.inspector.names, span, run.filter.options, nothing_passed(run), run.ended
            )
            text = page(found, slots["rows"], Style(utc=values["utc"]), __version__)
            run.stream.buffer.write(text.encode(errors="backslashreplace"))
        asked.values["quiet"] = True
        status = run.close(summary)
    return interrupt.status or status


def _check(values: dict[str, Any]) -> None:
    if values["output"] is None:
        raise KinspectError("-o FILE says where the page goes; -o - is standard output")
    need("report", "report")
