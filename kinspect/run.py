"""Packets in, lines out: the one place where an inspector is fed."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from kinspect.capture.timeline import Packets, may_bring_secrets, note_capture
from kinspect.filters.filter import Filter
from kinspect.kafka.exchange.lines import Line
from kinspect.model import Block, Counts, Segment
from kinspect.pipeline import EndPlace, Inspector, one_by_one

HELD_SECONDS = 0.08
"""Time for which lines wait for others that belong before them, where packets come as they are captured. With the time
to the next block, which may be one without packets (`kinspect.capture.captureworker.BEAT_NS`), it is less than 200
ms."""


class KeyLogText(Protocol):
    """A key log that may grow."""

    def more(self) -> bytes:
        """The text added since the last call."""


Piece = TypeVar("Piece")
Through: TypeAlias = Callable[[Iterator[Piece]], Iterator[Piece]]
"""What the pieces of a source pass through on their way to the inspector: it may look at each, and end them."""


class Feeding(Generic[Piece]):
    """Feeds an inspector with the pieces of a source, to their end."""

    __slots__ = ()
    inspector: Inspector

    @abstractmethod
    def source(self) -> Iterable[Piece]:
        """The pieces, to be iterated once."""

    def prepare(self) -> None:
        """Prepare for the first piece."""

    @abstractmethod
    def feed(self, piece: Piece) -> list[Line]:
        """Take a piece; return the lines whose turn has come."""

    @abstractmethod
    def rest(self) -> Iterator[Line]:
        """The lines that the end of the source completes."""

    def fed(self, through: Through[Piece] = iter) -> Iterator[Iterator[Line]]:
        """The lines whose turn comes with each piece."""
        self.prepare()
        for piece in through(iter(self.source())):
            yield one_by_one(self.feed(piece))

    def pieces(self, through: Through[Piece] = iter) -> Iterator[Iterator[Line]]:
        """The lines whose turn comes with each piece, and with the end."""
        yield from self.fed(through)
        yield self.rest()

    def all_lines(self, through: Through[Piece] = iter) -> Iterator[Line]:
        """All lines."""
        for lines in self.pieces(through):
            yield from lines


@dataclass(slots=True, eq=False, repr=False)
class Run(Feeding[Block]):
    """Feeds an inspector with packets, and with the TLS secrets that the key log and the captures give meanwhile.

    `late_secrets`: secrets may come after the packets they are for, whatever the captures are. `held_seconds`: time for
    which lines wait for others that belong before them, where the size of the input is not known and packets may come
    as they are captured. `due`: that time has passed with the block fed last. `last`: time of the last packet so far;
    that of the first one is `filter.start`.
    """

    packets: Packets
    inspector: Inspector
    filter: Filter = field(default_factory=Filter, kw_only=True)
    keylog: KeyLogText | None = field(default=None, kw_only=True)
    late_secrets: bool = field(default=False, kw_only=True)
    held_seconds: float = field(default=HELD_SECONDS, kw_only=True)
    released_at: float = field(init=False, default=0.0)
    due: bool = field(init=False, default=False)
    last: int | None = field(init=False, default=None)

    def source(self) -> Packets:
        return self.packets

    def prepare(self) -> None:
        if self.late_secrets or may_bring_secrets(self.packets.files):
            self.inspector.expect_secrets()

    def feed(self, piece: Block) -> list[Line]:
        if self.filter.start is None:
            self.filter.start = piece.first_time
        if (last := piece.last_time) is not None:
            self.last = last
        self.add_secrets()
        lines = self.inspector.feed(piece)
        now = time.monotonic()
        self.due = now >= self.released_at + self.held_seconds
        if self.due:
            self.released_at = now
            status = self.packets.status
            if status.bytes_total is None:
                lines += self.inspector.idle(status.reached)
        return lines

    def rest(self) -> Iterator[Line]:
        # Some secrets may stand behind the last packet.
        self.add_secrets()
        return self.inspector.finish()

    def add_secrets(self) -> None:
        """Hand on the secrets that the key log and the captures gave since the last block."""
        if self.keylog is not None and (text := self.keylog.more()):
            self.note_secrets(self.inspector.add_secrets(text))
        self.inspector.add_found(self.packets.secrets)

    def note_secrets(self, new: int) -> None:
        """Take note of the number of new secrets in a piece of the key log."""

    def counts(self) -> Counts:
        """What was counted of the packets."""
        note_capture(self.inspector.counts, self.packets)
        return self.inspector.counts

    def summary(self) -> dict[str, Any]:
        """The `summary` line's object without the counts of a `Tally`."""
        self.counts()
        return self.inspector.summary()


@dataclass(slots=True, eq=False, repr=False)
class IslandRun(Feeding[list[Segment]]):
    """Feeds an inspector with the segments of one island, which other processes dissected: none that belongs before one
    of them comes later, so no line waits. `end`: time and frame of the last packet of all islands; `last`: time of the
    last segment so far.
    """

    segments: Iterable[list[Segment]]
    inspector: Inspector
    end: EndPlace
    last: int | None = None

    def source(self) -> Iterable[list[Segment]]:
        return self.segments

    def feed(self, piece: list[Segment]) -> list[Line]:
        times = [segment[1] for segment in piece if segment[1] is not None]
        self.last = max(times if self.last is None else [self.last, *times], default=None)
        return self.inspector.feed_segments(piece) + self.inspector.idle()

    def rest(self) -> Iterator[Line]:
        return self.inspector.finish(self.end)

    def resume(self, state: bytes) -> list[Line]:
        """Go on with the island from `Inspector.suspend`; return the lines that secrets added meanwhile complete."""
        self.inspector.resume(state)
        return self.inspector.idle()
