"""`kinspect read`: captures in, exchanges out."""

from __future__ import annotations

from typing import Any

import click

from kinspect.capture import open_timeline
from kinspect.cli.interrupt import ENDED_BY_SIGNAL, SIGNALS, Interrupt
from kinspect.cli.options import FILTERS, INPUT, LIMITS, OUTPUT, Sectioned, options
from kinspect.cli.run import open_run, wanted


@click.command(cls=Sectioned)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True)
@options(OUTPUT, FILTERS, INPUT, LIMITS)
def read(captures: tuple[str, ...], **values: Any) -> int:
    """Decode captures into exchanges, a request and its response a line.

    CAPTURE is a pcap or pcapng file, plain or compressed (gzip, zstd, lz4), or - for standard input. Several
    files are one timeline, as rotated captures are.

    Filters AND; the values of one filter, repeated or separated by commas, OR. Values are case-sensitive
    globs (orders-*); a leading ! negates (--api '!Heartbeat').
    """
    asked = wanted(values, captures)
    timeline = open_timeline(captures)
    run = open_run(asked, timeline)
    with Interrupt() as interrupt:
        run.run(interrupt.guard(iter(timeline)))
    if interrupt.asked:
        run.tally.stopped = f"stopped by {SIGNALS[interrupt.asked]}"
    status = run.close()
    return ENDED_BY_SIGNAL + interrupt.asked if interrupt.asked else status
