"""Connection of `kinspect live` and its view."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kinspect.answers.counter import AnswerCounter
from kinspect.capture.livecapture import OngoingCapture
from kinspect.cli.health import health
from kinspect.cli.progress import PLAIN
from kinspect.cli.readrun import ReadRun, RunOptions
from kinspect.cli.rules import OptionRule
from kinspect.output import TABLE

if TYPE_CHECKING:
    from kinspect.tui.live.liveloop import LiveView
    from kinspect.tui.live.picture import CaptureState

VIEW = "view"
VIEW_RULES = (
    OptionRule(
        "view", f"--format {VIEW} draws on a terminal; there are others for files and pipes", unless="tty"
    ),
    OptionRule("view", f"--format {VIEW}: TERM={{term}} cannot be drawn on", unless=f"shown={VIEW}"),
    OptionRule("progress", f"{{}} is not for --format {VIEW}", "view"),
)


def format_for_terminal() -> str:
    """The format that `auto` means on this terminal."""
    return TABLE if os.environ.get("TERM", "") in PLAIN else VIEW


def come_from(capture: OngoingCapture, values: dict[str, Any]) -> str:
    """The interfaces and the filter in the kernel, for a summary."""
    passing = "" if values["bpf"] is None else f", of those that pass {values['bpf']!r}"
    return capture.files[0] + passing


def open_view(options: RunOptions, capture: OngoingCapture) -> LiveView | None:
    """The view of a capture; None if it is printed in another way."""
    if options.format_name != VIEW:
        return None
    from kinspect.output.console import make_console
    from kinspect.tui.live.liveloop import LiveView
    from kinspect.tui.live.screen import Screen

    title = [capture.files[0], *filter(None, [options.values["bpf"]])]
    if options.filter.active:
        title.append("filtered")
    screen = Screen(make_console(sys.stdout, options.values["color"]))
    return LiveView(screen, ", ".join(title), capture.stop, utc=options.values["utc"])


def status_of(capture: OngoingCapture, run: ReadRun) -> Callable[[], CaptureState]:
    """A function that gives the view the state of the capture."""
    from kinspect.tui.live.picture import CaptureState

    def status() -> CaptureState:
        now = health(capture, run)
        return CaptureState(
            now.packets,
            now.bytes,
            now.kernel_drops,
            now.queue_drops,
            now.queue_bytes,
            now.connections,
            now.away,
        )

    return status


def answered_by(run: ReadRun) -> Callable[[AnswerCounter], dict[str, Any]]:
    """A function that gives the view an answer's object as it is now."""

    def answered(counted: AnswerCounter) -> dict[str, Any]:
        # What waits is not lost.
        summary = {**run.summary(), "left_packets": 0}
        span = run.tally.first, run.tally.last
        return counted.objects(summary, run.inspector.names, span, run.filter.options)[0]

    return answered
