"""Lines of type `stats`: how a live run keeps up, every few seconds and at its end."""

from __future__ import annotations

import time
from typing import Any

import click

from kinspect.capture.livecapture import OngoingCapture
from kinspect.cli.health import health
from kinspect.cli.options import split
from kinspect.cli.readrun import ReadRun
from kinspect.cli.rules import OptionRule
from kinspect.cli.types import DURATION
from kinspect.kafka.view.view import SCHEMA_VERSION, iso_time
from kinspect.kafka.wire.eventid import event_id
from kinspect.model import NS_PER_SECOND
from kinspect.sink import STATS

INTERVAL_NS = 10 * NS_PER_SECOND
STATS_INTERVAL = (
    click.option(
        "--stats-interval",
        type=DURATION,
        help=f"How often --emit {STATS} gives a line.  [default: {DURATION.written(INTERVAL_NS)}]",
    ),
)
STATS_RULES = (OptionRule("stats_interval", f"{{}} is for --emit {STATS}", unless=f"types={STATS}"),)
GROWING = """
    captured_packets captured_bytes kernel_drops queue_drops interface_losses output_blocked_seconds exchanges shown
""".split()
"""Counts since the run began, of which a line has the growth since the line before too."""


def stats_interval(values: dict[str, Any]) -> int | None:
    """Nanoseconds from a line to the next; None if none are asked for. Raises click.UsageError."""
    return (values["stats_interval"] or INTERVAL_NS) if STATS in split("--emit", values["emit"]) else None


class Stats:
    """The lines of a run, each with what changed since the one before."""

    def __init__(self, capture: OngoingCapture, run: ReadRun) -> None:
        self._capture = capture
        self._run = run
        self._before: dict[str, Any] = dict.fromkeys(GROWING, 0)
        self._at = time.monotonic_ns()

    def line(self, now: int) -> dict[str, Any]:
        """The line of this moment; `now`: the time by `time.monotonic_ns`."""
        run, capture = self._run, self._capture
        found = health(capture, run)
        checked = run.counts_errors and not run.tally.unchecked
        counted = {
            "captured_packets": found.packets,
            "captured_bytes": found.bytes,
            "kernel_drops": found.kernel_drops,
            "queue_drops": found.queue_drops,
            "interface_losses": sum(each.losses for each in found.interfaces.values()),
            "output_blocked_seconds": _seconds(found.blocked_ns),
            "exchanges": run.inspector.totals()["exchanges"],
            "shown": run.tally.shown,
        }
        before, self._before = self._before, counted
        since, self._at = now - self._at, now
        line = {
            "type": STATS,
            "schema_version": SCHEMA_VERSION,
            "event_id": "",
            "host": capture.origin.host,
            "interface": capture.files[0],
            "timestamp": iso_time(time.time_ns()),
            **counted,
            "problems": run.tally.problems if checked else None,
            "interfaces": [
                {
                    "name": name,
                    "captured_packets": each.packets,
                    "captured_bytes": each.bytes,
                    "kernel_drops": each.kernel_drops,
                    "queue_drops": each.queue_drops,
                    "losses": each.losses,
                    "up": bool(each.up),
                }
                for name, each in found.interfaces.items()
            ],
            "queue_bytes": found.queue_bytes,
            "queue_limit_bytes": found.queue_limit,
            "decode_lag_seconds": _seconds(found.lag_ns),
            "open_connections": found.connections,
            "since_last": {
                "seconds": _seconds(since),
                **{key: round(counted[key] - before[key], 3) for key in GROWING},
            },
            "line_truncated": False,
        }
        return {**line, "event_id": event_id(f"{STATS}|{line}")}


def _seconds(nanoseconds: int) -> float:
    return round(nanoseconds / NS_PER_SECOND, 3)
