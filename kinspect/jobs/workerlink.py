"""A worker and the first process's end of it: a channel, and a ring buffer of shared memory for texts.

The worker puts text into its ring as far as there is room, and sends the size and where lines end. The first process
writes the text from there, and reports how much was written. Through the channel, texts would be copied several times.
"""

from __future__ import annotations

import mmap
import signal
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from kinspect.background import OWN, Channel, Child

SCANNED, TEXT, DONE, TURN, STOP, TAKEN = range(OWN, OWN + 6)
RING_BYTES = 8 * 1024 * 1024
"""Most text of a worker that waits for the text of other workers. With more, the worker waits itself."""


class WorkerLink:
    """The worker's end."""

    def __init__(self, channel: Channel, ring: memoryview) -> None:
        self.send = channel.send
        self._channel = channel
        self._received: deque[list[Any]] = deque()
        self._ring = ring
        self._at = 0
        self._room = RING_BYTES

    def send_text(self, ends: array[int], text: bytes) -> None:
        """Send the text of its next lines, waiting for room in the ring. `ends`: where lines end in it. Raises
        LostError."""
        left = memoryview(text)
        while ends:
            while not self._room:
                self._hear()
            size = min(len(left), self._room, RING_BYTES - self._at)
            self._ring[self._at : self._at + size] = left[:size]
            self._at = (self._at + size) % RING_BYTES
            self._room -= size
            whole = bisect_right(ends, size)
            self.send(TEXT, size, ends[:whole].tobytes())
            left, ends = left[size:], array("Q", [end - size for end in ends[whole:]])

    def receive(self, wait: bool) -> list[Any] | None:
        """The next message; None if there is none yet and not `wait`. Raises LostError."""
        while not self._received:
            if not self._hear(None if wait else 0):
                return None
        return self._received.popleft()

    def _hear(self, seconds: float | None = None) -> bool:
        message = self._channel.receive(seconds)
        if message is None:
            return False
        if message[0] == TAKEN:
            self._room += message[1]
        else:
            self._received.append(message)
        return True


class JobWorker(Child):
    """A worker as the first process sees it. `number`: from 0; `work`: what it does with its end."""

    def __init__(self, number: int, work: Callable[[WorkerLink], object]) -> None:
        ring = memoryview(mmap.mmap(-1, RING_BYTES))
        super().__init__(
            f"process {number + 1} of --jobs",
            lambda channel: work(WorkerLink(channel, ring)),
            "the output is not complete",
            # The first process decides when the run ends.
            ignored=(signal.SIGINT, signal.SIGTERM),
        )
        self.scanned: deque[list[Any]] = deque()
        self.pieces: deque[tuple[memoryview, bool]] = deque()
        """Pieces of its next lines' text; True with those that end a line."""
        self.taken = 0
        """Bytes of text that were written and not yet reported to it."""
        self._ring = ring
        self._at = 0
        self.share: dict[str, Any] | None = None

    def take_text(self, size: int, packed: bytes) -> None:
        """Take the next text from the ring. `packed`: where lines end in it, as `WorkerLink.send_text` sends."""
        text = self._ring[self._at : self._at + size]
        self._at = (self._at + size) % RING_BYTES
        ends = [0, *array("Q", packed)]
        self.pieces += [(text[at:end], True) for at, end in pairwise(ends)]
        if ends[-1] < size:
            self.pieces.append((text[ends[-1] :], False))

    def tell_taken(self) -> None:
        """Tell it of written bytes once they are a quarter of the ring."""
        if self.taken >= RING_BYTES // 4:
            self.channel.queue(TAKEN, self.taken)
            self.taken = 0
