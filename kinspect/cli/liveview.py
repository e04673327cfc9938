"""What joins `kinspect live` and its view."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from kinspect.capture.live import Live
from kinspect.cli.run import Run, Wanted
from kinspect.output import TABLE

if TYPE_CHECKING:
    from kinspect.tui.live.picture import Status
    from kinspect.tui.live.view import LiveView

VIEW = "view"
PLAIN = ("", "dumb", "unknown")
"""Values of TERM of terminals on which text cannot be placed."""


def format_for_terminal() -> str:
    """The format that `auto` means on this terminal."""
    return TABLE if os.environ.get("TERM", "") in PLAIN else VIEW


def open_view(options: Wanted, capture: Live) -> LiveView:
    """The view of a capture. Raises click.UsageError if it cannot be drawn."""
    if options.path is not None or not sys.stdout.isatty():
        raise click.UsageError(f"--format {VIEW} draws on a terminal; there are others for files and pipes")
    if format_for_terminal() != VIEW:
        raise click.UsageError(f"--format {VIEW}: TERM={os.environ.get('TERM', '')} cannot be drawn on")
    if options.values["progress"]:
        raise click.UsageError(f"--progress is not for --format {VIEW}")
    from kinspect.output.console import make_console
    from kinspect.tui.live.screen import Screen
    from kinspect.tui.live.view import LiveView

    screen = Screen(make_console(sys.stdout, options.values["color"]))
    return LiveView(screen, capture.files[0], capture.stop, utc=options.values["utc"])


def status_of(capture: Live, run: Run) -> Callable[[], Status]:
    """What tells the view how the capture stands."""
    from kinspect.tui.live.picture import Status

    def status() -> Status:
        return Status(*capture.counters, run.inspector.open_connections)

    return status
