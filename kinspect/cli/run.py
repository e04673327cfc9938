"""Packets in, lines out: the loop behind the commands that show exchanges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kinspect.capture import Timeline
from kinspect.cli.interrupt import Interrupt
from kinspect.cli.progress import Progress
from kinspect.filters import Filter
from kinspect.kafka.exchange import Exchange
from kinspect.output import Writer
from kinspect.output.summary import Tally
from kinspect.pipeline import Inspector, Line

ALL_READ, UNREADABLE, CUT, INTERRUPTED = 0, 1, 3, 130


class LimitReachedError(Exception):
    """As many lines as were asked for are written."""


@dataclass(slots=True)
class Run:
    """Shows the exchanges (and other lines) of a timeline that pass the filter."""

    timeline: Timeline
    inspector: Inspector
    filter: Filter
    writer: Writer
    limit: int | None = None
    progress: Progress | None = None
    count_damage: bool = True
    """Whether the tally has problems and errors: not where bodies are left undecoded."""
    tally: Tally = field(init=False)
    lines: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.tally = Tally(filtered=self.filter.active, unknown=self.filter.unknown)

    def run(self) -> bool:
        """Read until the end, the limit or Ctrl-C; tells whether it was Ctrl-C."""
        with Interrupt() as interrupt:
            try:
                for block in interrupt.guard(iter(self.timeline)):
                    if self.filter.start is None:
                        self.filter.start = next((time for time in block.times if time is not None), None)
                    self._write(self.inspector.feed(block))
                    if self.progress is not None:
                        self.progress.update()
                self._write(self.inspector.finish())
            except LimitReachedError:
                self.tally.stopped = f"stopped at --limit {self.limit}"
                # For the counts alone: a connection is counted when it ends.
                self.inspector.finish()
            finally:
                self._stop()
        if interrupt.asked:
            self.tally.stopped = "stopped by Ctrl-C"
        return interrupt.asked

    def summary(self) -> dict[str, Any]:
        """The summary line's object."""
        self.inspector.counts.kernel_drops = self.timeline.kernel_drops
        return {
            **self.inspector.summary(),
            "shown": self.tally.shown,
            "unknown_to_filters": dict(self.tally.unknown),
        }

    def _write(self, lines: Iterable[Line]) -> None:
        try:
            for line in lines:
                if self._show(line):
                    self.lines += 1
                    if self.lines == self.limit:
                        raise LimitReachedError
        finally:
            self.writer.flush()

    def _show(self, line: Line) -> bool:
        """Write a line that passes the filter; tells whether it did."""
        if not isinstance(line, Exchange):
            if not self.filter.matches_line(line):
                return False
            self.writer.line(line.to_dict())
        elif self.filter.matches(line):
            self.tally.shown += 1
            self.writer.exchange(line)
            if self.count_damage:
                self.tally.problems += len(line.problems)
                self.tally.errors += line.summary.error_count
        else:
            return False
        return True

    def _stop(self) -> None:
        self.timeline.close()
        if self.progress is not None:
            self.progress.stop()
