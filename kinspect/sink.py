"""What takes the lines of a run: output formats, answers, tables, telemetry, the live view."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from kinspect.errors import CaptureError
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Gap, Line
from kinspect.kafka.view.batchrows import BatchRows

EXCHANGE, CONNECTION, GAP, SUMMARY = "exchange", "connection", "gap", "summary"
STATS = "stats"
"""A type of lines that `live` alone has."""
KINDS: dict[type[Line], str] = {Exchange: EXCHANGE, ConnectionLine: CONNECTION, Gap: GAP}
"""Types of lines by their classes."""


class RunInput(NamedTuple):
    """The input of a run that is over. `begun`: some of it was read; `first`: time of its first packet, in ns."""

    files: list[str]
    errors: list[CaptureError]
    begun: bool
    first: int | None


class SinkReport(NamedTuple):
    """What a sink reports at its end: messages for people, and the exit status."""

    messages: list[str]
    status: int = 0


class WrittenLine(NamedTuple):
    """A line as a sink wrote it: its bytes, for people the heading that it stands below, and the number of the worker
    of `--jobs` that made it."""

    text: bytes
    heading: str = ""
    worker: int = 0


class Sink:
    """Taker of the lines of a run that pass its filter, and of what the run reports about itself.

    Of each run there is one, or one in each process of `--jobs`: what these take comes to the first one as pieces, line
    by line in the order of the run, or as a part of all at the end. A sink has what it needs of this; the rest does
    nothing.
    """

    lines: frozenset[str] = frozenset()
    """Types of lines that it takes."""
    header = b""
    """The line that a file of it begins with, as one of CSV does."""
    ending = b"\n"
    """What each of its lines ends with."""
    whole = False
    """It looks at all of an exchange, whatever is written of it."""

    def take(self, line: Line) -> bool | None:
        """Take a line of these types. False: there is nothing to show of it."""

    def tell(self, line: dict[str, Any]) -> None:
        """Take a line of type `summary` or `stats`."""

    def tell_rows(self, rows: BatchRows) -> None:
        """Take rows of what a run found, where it writes these."""
        for row in rows:
            self.tell(row)

    def flush(self) -> None:
        """Some packets were read, or time passed."""

    def finish(self) -> None:
        """Write what was kept back: nothing is taken any more."""

    def close(self, read: RunInput) -> SinkReport:
        """Let everything count that was taken."""
        return SinkReport([])

    def discard(self) -> None:
        """The command ends: what does not count by now never will."""

    @property
    def caps_hit(self) -> Mapping[str, int]:
        """Limits of its own that it reached, for the summary."""
        return {}

    def follow(self, number: int) -> "Sink":
        """The sink of worker `number` of `--jobs`, in place of this one."""
        return self

    def text(self) -> bytes:
        """What a worker's sink took since the last call, as bytes for `put`."""
        return b""

    def put(self, piece: WrittenLine) -> None:
        """Take a line that was taken elsewhere, or before."""

    def part(self) -> Any:
        """What a worker's sink took in all, of types that CBOR has."""

    def merge(self, part: Any) -> None:
        """Add what a worker's sink took."""


class PieceSink(Sink, ABC):
    """A sink that makes a piece of each line, for itself to write, at once or later."""

    @abstractmethod
    def piece(self, line: Line) -> WrittenLine:
        """A line as it is written; without text if there is nothing to show of it."""

    def has(self, exchange: Exchange) -> bool:
        """True if there is anything to show of the exchange."""
        return True

    def take(self, line: Line) -> bool | None:
        piece = self.piece(line)
        if not piece.text:
            return False
        self.put(piece)
        return None

    def finish(self) -> None:
        self.flush()

    def follow(self, number: int) -> Sink:
        return WorkerSink(self)


class WorkerSink(Sink):
    """The sink of a worker of `--jobs`, where `shown` of the first process writes."""

    def __init__(self, shown: PieceSink) -> None:
        self.lines = shown.lines
        self._shown = shown
        self._text = b""

    def take(self, line: Line) -> bool | None:
        self._text = self._shown.piece(line).text
        return None if self._text else False

    def text(self) -> bytes:
        text, self._text = self._text, b""
        return text
