"""Packets of a capture one by one, as an interface would give them, by a clock that tests set."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

from kinspect.capture import open_timeline, slice_block
from kinspect.capture.captureworker import BEAT_NS
from kinspect.capture.timeline import SourceStatus
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.pair import ANSWERED
from kinspect.model import Block
from kinspect.pipeline import Inspector

BEAT = BEAT_NS / 1_000_000_000
LONGEST = 0.2
"""No line waits longer."""
APART = ((0.0005,), (0.02,), (0.3,), (0.001, 0.078, 0.1), (0.001, 0.074, 0.074, 0.1))
"""Seconds between packets, over and over."""


class Trickle:
    """In place of a `Live`: packets as far `apart`, and in a silence a block without packets each beat.

    `now`: the time in seconds; `came`: when each frame came.
    """

    files = ("lo",)

    def __init__(self, path: str, apart: tuple[float, ...]) -> None:
        self.now = 1000.0
        self.came: dict[int, float] = {}
        self.status = SourceStatus([])
        self.secrets: list[bytes] = []
        self._path = path
        self._apart = cycle(apart)

    def monotonic(self) -> float:
        return self.now

    def close(self) -> None: ...

    def __iter__(self) -> Iterator[Block]:
        for block in open_timeline([self._path]):
            for at in range(len(block)):
                yield from self._silence(next(self._apart))
                self.came[block.first_frame + at] = self.now
                yield slice_block(block, at, at + 1)
        yield from self._silence(3 * BEAT)

    def _silence(self, seconds: float) -> Iterator[Block]:
        until = self.now + seconds
        while until - self.now > BEAT:
            self.now += BEAT
            yield Block(b"", 1, [], [], [], [], [])
        self.now = until

    def completed(self) -> list[float]:
        """Times at which the answered exchanges were complete, in order."""
        inspector = Inspector()
        timeline = open_timeline([self._path])
        lines = [line for block in timeline for line in inspector.feed(block)] + [*inspector.finish()]
        answered = [line for line in lines if isinstance(line, Exchange) and line.outcome == ANSWERED]
        return sorted(self.came[exchange.key[1]] for exchange in answered)
