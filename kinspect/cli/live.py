"""`kinspect live`: an interface in, exchanges out as they complete."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

import click

from kinspect.capture.live import open_live
from kinspect.cli import complain
from kinspect.cli.interrupt import SIGNALS
from kinspect.cli.options import FILTERS, INPUT, LIMITS, OUTPUT, Sectioned, options
from kinspect.cli.run import open_run, wanted
from kinspect.cli.types import COUNT, DURATION
from kinspect.output.summary import COUNTED

DROPS = "kernel_drops"


@click.command(cls=Sectioned)
@click.option(
    "-i", "--iface", "interface", required=True, metavar="IFACE", help="Capture from this interface."
)
@click.option("--duration", type=DURATION, help="Stop after so long: 60, 90s, 10m.")
@click.option("--count", type=COUNT, metavar="N", help="Stop after N packets of any kind.")
@options(OUTPUT, FILTERS, INPUT, LIMITS)
def live(interface: str, duration: int | None, count: int | None, **values: Any) -> int:
    """Decode what passes an interface, until Ctrl-C, --duration or --count.

    Every exchange is printed as it completes. Times are those of packets: a silent connection is flushed, and a
    lost packet given up, when a later packet shows how much time has passed.

    Filters are those of `kinspect read`. The right to capture is needed: root, or CAP_NET_RAW.
    """
    asked = wanted(values)
    # The socket first: it is what needs rights, and no file is made for a capture that cannot be.
    capture = open_live(interface, duration_ns=duration, count=count)
    run = open_run(asked, capture)
    run.tally.interface = interface
    with Ending(capture.stop):
        if not values["quiet"]:
            complain(f"capturing on {interface}, Ctrl-C ends it")
        run.run(iter(capture))
    status = run.close()
    if not values["quiet"] and not capture.kernel_drops:
        # The summary names drops alone; of a live capture it is worth knowing that there were none.
        click.echo(COUNTED[DROPS].format(0), err=True)
    return status


class Ending:
    """Within it, the first Ctrl-C or SIGTERM calls `stop`. A second one is not held back."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._asked = False

    def __enter__(self) -> None:
        self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        self._stop()
