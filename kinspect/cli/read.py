"""`kinspect read`: captures in, exchanges out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kinspect.capture import Timeline, open_timeline
from kinspect.cli.interrupt import ENDED_BY_SIGNAL, SIGNALS, Interrupt
from kinspect.cli.options import FILTERS, INPUT, JOBS, LIMITS, OUTPUT, Sectioned, options
from kinspect.cli.run import Run, Wanted, open_run, wanted


@click.command(cls=Sectioned)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True)
@options(OUTPUT, FILTERS, INPUT, JOBS, LIMITS)
def read(captures: tuple[str, ...], jobs: int, **values: Any) -> int:
    """Decode captures into exchanges, a request and its response a line.

    CAPTURE is a pcap or pcapng file, plain or compressed (gzip, zstd, lz4), or - for standard input. Several
    files are one timeline, as rotated captures are.

    Filters AND; the values of one filter, repeated or separated by commas, OR. Values are case-sensitive
    globs (orders-*); a leading ! negates (--api '!Heartbeat').
    """
    asked = wanted(values, captures)
    timeline = open_timeline(captures)
    interrupt = Interrupt()
    run, reading = (
        _shared(asked, timeline, interrupt, jobs) if jobs != 1 else _alone(asked, timeline, interrupt)
    )
    with interrupt:
        reading()
    if interrupt.asked:
        run.tally.stopped = f"stopped by {SIGNALS[interrupt.asked]}"
    run.tally.unread = sum(error.unread for error in timeline.errors)
    status = run.close()
    return ENDED_BY_SIGNAL + interrupt.asked if interrupt.asked else status


def _alone(asked: Wanted, timeline: Timeline, interrupt: Interrupt) -> tuple[Run, Callable[[], None]]:
    """The run, its output open, and what reads everything."""
    run = open_run(asked, timeline)
    return run, lambda: run.run(interrupt.guard(iter(timeline)))


def _shared(
    asked: Wanted, timeline: Timeline, interrupt: Interrupt, jobs: int
) -> tuple[Run, Callable[[], None]]:
    """The same with several processes, where that is possible."""
    # Loaded when it is asked for.
    from kinspect.cli.jobs import Turns, processes, run_shared

    count = processes(jobs, asked, timeline)
    if count == 1:
        return _alone(asked, timeline, interrupt)
    turns = Turns(count, interrupt)
    run = open_run(asked, timeline, turns.ordered)
    return run, lambda: run_shared(run, iter(timeline), turns)
