"""Packets in, lines out: the common part of `kinspect.read` and of the commands that show exchanges."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from kinspect.capture.timeline import Packets, may_bring_secrets, note_capture
from kinspect.filters import Filter
from kinspect.kafka.exchange.lines import Line
from kinspect.model import Block
from kinspect.pipeline import Inspector, one_by_one

HELD_SECONDS = 0.08
"""Time for which lines wait for others that belong before them, where packets come as they are captured. With the time
to the next block, which may be one without packets (`kinspect.capture.worker.BEAT_NS`), it is less than 200 ms."""


class KeyLogText(Protocol):
    """A key log that may grow."""

    def more(self) -> bytes:
        """The text added since the last call."""


@dataclass(slots=True, eq=False, repr=False)
class Run:
    """Feeds an inspector with packets, and with the TLS secrets that the key log and the captures give meanwhile.

    `held_seconds`: time for which lines wait for others that belong before them, where the size of the input is not
    known and packets may come as they are captured. `last`: time of the last packet so far; that of the first one is
    `filter.start`.
    """

    packets: Packets
    inspector: Inspector
    filter: Filter
    keylog: KeyLogText | None
    held_seconds: float = field(default=HELD_SECONDS, kw_only=True)
    released_at: float = field(init=False, default=0.0)
    last: int | None = field(init=False, default=None)

    def prepare(self) -> None:
        """Prepare for the first block."""
        if may_bring_secrets(self.packets.files):
            self.inspector.expect_secrets()

    def feed(self, block: Block) -> list[Line]:
        """Take a block; return the lines whose turn has come."""
        if self.filter.start is None:
            self.filter.start = block.first_time
        if (last := block.last_time) is not None:
            self.last = last
        self.add_secrets()
        lines = self.inspector.feed(block)
        now = time.monotonic()
        if now >= self.released_at + self.held_seconds:
            self.released_at = now
            status = self.packets.status
            if status.bytes_total is None:
                lines += self.inspector.idle(status.reached)
        return lines

    def all_lines(self) -> Iterator[Line]:
        """All lines of all packets."""
        for block in self.packets:
            yield from one_by_one(self.feed(block))
        yield from self.rest()

    def rest(self) -> Iterator[Line]:
        """The lines that the end of the input completes."""
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

    def summary(self) -> dict[str, Any]:
        """The `summary` line's object without the counts of a `Tally`."""
        note_capture(self.inspector.counts, self.packets)
        return self.inspector.summary()
