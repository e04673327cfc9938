"""`kinspect read`: captures in, exchanges out."""

from __future__ import annotations

from typing import Any

import click

from kinspect.capture import Timeline, open_timeline
from kinspect.cli import complain, outfile
from kinspect.cli.completions import files
from kinspect.cli.interrupt import Interrupt, LateError
from kinspect.cli.options import (
    FILTER_OPTIONS,
    INPUT,
    JOBS,
    LIMITS,
    OUTPUT,
    SORT,
    Sectioned,
    make_caps,
    options,
)
from kinspect.cli.outputoptions import OUTPUT_OPTIONS
from kinspect.cli.readrun import RUN_FACTS, RUN_RULES, ReadRun, RunOptions, open_run, run_options
from kinspect.cli.rules import check
from kinspect.cli.schemaoption import SCHEMA


@click.command(cls=Sectioned)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, shell_complete=files)
@options(OUTPUT, OUTPUT_OPTIONS, SORT, FILTER_OPTIONS, INPUT, SCHEMA, JOBS, LIMITS)
def read(captures: tuple[str, ...], jobs: int | None, **values: Any) -> int:
    """Decode captures into exchanges, each a request with its response.

    CAPTURE is a file of packets (pcap, pcapng, snoop, ERF), plain or compressed (gzip, zstd, lz4), or - for
    standard input. Several files are one timeline, as rotated captures are.

    All filters must match. One filter may have several values, repeated or separated by commas; one of them must
    match. Values are case-sensitive globs (orders-*). A leading ! negates (--api '!Heartbeat').
    """
    check(RUN_RULES, RUN_FACTS)
    requested = run_options(values, captures)
    timeline = open_timeline(captures, skew_ns=make_caps(values).skew_ns)
    interrupt = Interrupt()
    count = process_count(jobs, requested, timeline)
    run = open_run(requested, timeline, interrupt)
    with interrupt:
        return read_all(run, timeline, count)


def read_all(run: ReadRun, timeline: Timeline, count: int) -> int:
    """Read with `count` processes, and end the run; returns the exit status."""
    interrupt = run.interrupt
    try:
        found = _read(run, timeline, count)
    except LateError:
        complain(f"stopped by {interrupt.name}: --jobs had no time to end in order, the output is cut")
        outfile.discard(run.stream)
        return interrupt.status
    run.tally.unread = sum(error.unread for error in timeline.errors)
    status = run.close(found)
    return interrupt.status or status


def process_count(asked: int | None, options: RunOptions, timeline: Timeline) -> int:
    """Number of processes to read with, given the requested number. It is 1 if lines depend on earlier ones: with a
    limit on those in the order of completion, and in some formats. Only one process sends (`--otlp`)."""
    made = options.format
    shared = made is not None and (made.sorted_jobs if options.sort else made.jobs)
    if asked == 1 or options.stops_at is not None or options.otlp is not None or not shared:
        return 1
    from kinspect.jobs import processes

    return processes(asked, timeline)


def _read(run: ReadRun, timeline: Timeline, count: int) -> dict[str, Any] | None:
    """Read with `count` processes. Return the summary's object if other processes made it, else None."""
    if count == 1:
        run.run()
        return None
    from kinspect.cli.sharedread import read_shared

    return read_shared(run, timeline, count)
