"""What takes the lines of a run beside, or in place of, the writer of its format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from kinspect.errors import CaptureError
from kinspect.kafka.exchange.lines import Line

if TYPE_CHECKING:
    from kinspect.analysis.metrics import Metric, Series


class Input(NamedTuple):
    """The input of a run that is over. `begun`: some of it was read; `first`: time of its first packet, in ns."""

    files: list[str]
    errors: list[CaptureError]
    begun: bool
    first: int | None


class Closed(NamedTuple):
    """What a sink tells at its end: lines for people, and the exit status."""

    told: list[str]
    status: int = 0


class Sink(Protocol):
    """Taker of lines that passed the filter. `lines`: the types of lines that it takes beside those asked for."""

    lines: frozenset[str]

    def take(self, line: Line) -> None:
        """Take a line."""

    def flush(self) -> None:
        """Some packets were read, or time passed."""

    def close(self, read: Input) -> Closed:
        """Let everything count that was taken. Nothing is taken any more."""

    def discard(self) -> None:
        """The command ends: what does not count by now never will."""


@runtime_checkable
class TellingSink(Sink, Protocol):
    """A sink that takes what a run tells of itself, too."""

    def tell(self, line: dict[str, Any]) -> None:
        """Take a line of type `summary` or `stats`."""

    def watch(self, own: Callable[[], Iterable[tuple[Metric, Series]]]) -> None:
        """Ask for the metrics of kinspect itself now and then. `own`: gives them, in the thread that decodes."""


@runtime_checkable
class SharedSink(Sink, Protocol):
    """A sink of which each process of `--jobs` has one."""

    def follow(self, number: int) -> None:
        """Be the sink of worker `number` of `--jobs`."""

    def share(self) -> dict[str, Any]:
        """Finish a worker's work; what the first process is told of it, of types that CBOR has."""

    def add_share(self, share: dict[str, Any]) -> None:
        """Take what a worker told."""
