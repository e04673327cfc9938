"""Messages between the first process and its workers, through two pipes each; texts go through shared memory.

Each worker has a ring buffer. It puts text there as far as there is room, and reports the size and where lines end. The
first process writes the text from there, and reports how much of it was written.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import struct
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from kinspect.background import Child
from kinspect.errors import KinspectError

SCANNED, TEXT, DONE, FAILED, TURN, STOP, TAKEN = range(7)
RING_BYTES = 8 * 1024 * 1024
"""Most text of a worker that waits for the text of other workers. With more, the worker waits itself."""
_HEAD = struct.Struct("<BQ")  # kind and size of a message
_RECEIVED = 64 * 1024


class LostError(Exception):
    """The other process has ended."""


def fork(work: Callable[[Link], None], others: list[JobWorker]) -> JobWorker:
    """Start a process that does `work` and ends. `others`: the workers started before.

    Raises KinspectError if the system cannot start one.
    """
    hears, tells = os.pipe()
    told, tell = os.pipe()
    try:
        ring = memoryview(mmap.mmap(-1, RING_BYTES))
        child = Child(
            lambda: work(Link(told, tells, ring)),
            # Only the first process may hold the other ends: they close when it ends.
            foreign=[hears, tell, *(end for other in others for end in (other.hears, other.tells))],
            # The first process decides when the run ends.
            ignored=(signal.SIGINT, signal.SIGTERM),
        )
    except OSError as error:
        raise KinspectError(f"--jobs: cannot start a process: {error.strerror}") from None
    os.close(tells)
    os.close(told)
    return JobWorker(child, hears, tell, ring)


class Link:
    """A worker's ends of the pipes, and of its ring."""

    def __init__(self, hears: int, tells: int, ring: memoryview) -> None:
        self._hears = hears
        self._tells = tells
        self._arrived = select.poll()
        self._arrived.register(hears, select.POLLIN)
        self._received: deque[tuple[int, bytes]] = deque()
        self._ring = ring
        self._at = 0
        self._room = RING_BYTES

    def send(self, kind: int, data: bytes) -> None:
        """Send a message, waiting for room in the pipe. Raises LostError."""
        left = memoryview(_HEAD.pack(kind, len(data)) + data)
        try:
            while left:
                left = left[os.write(self._tells, left) :]
        except BrokenPipeError:
            raise LostError from None

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
            self.send(TEXT, array("Q", [size, *ends[:whole]]).tobytes())
            left, ends = left[size:], array("Q", [end - size for end in ends[whole:]])

    def receive(self, wait: bool) -> tuple[int, bytes] | None:
        """The next message, kind and data; None if there is none yet and not `wait`. Raises LostError."""
        while not self._received:
            if not wait and not self._arrived.poll(0):
                return None
            self._hear()
        return self._received.popleft()

    def _hear(self) -> None:
        kind, size = _HEAD.unpack(self._exactly(_HEAD.size))
        data = self._exactly(size)
        if kind == TAKEN:
            self._room += int.from_bytes(data, "little")
        else:
            self._received.append((kind, data))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = os.read(self._hears, size - len(data))
            if not more:
                raise LostError
            data += more
        return bytes(data)


class JobWorker:
    """The first process's end of a worker: its pipes, its ring and its process."""

    def __init__(self, child: Child, hears: int, tells: int, ring: memoryview) -> None:
        self.child = child
        self.hears = hears
        self.tells = tells
        os.set_blocking(hears, False)
        os.set_blocking(tells, False)
        self._received = bytearray()
        self.to_send = bytearray()
        self.scanned: deque[Any] = deque()
        self.pieces: deque[tuple[memoryview, bool]] = deque()
        """Pieces of its next lines' text; True with those that end a line."""
        self.taken = 0
        """Bytes of text that were written and not yet reported to the worker."""
        self._ring = ring
        self._at = 0
        self.share: dict[str, Any] | None = None

    def end(self) -> None:
        """Close the pipes, and kill the process if it has not ended."""
        os.close(self.hears)
        os.close(self.tells)
        self.child.end()

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """Complete messages that have arrived, kind and data. Raises LostError after the last one."""
        while True:
            try:
                data = os.read(self.hears, _RECEIVED)
            except BlockingIOError:
                return
            if not data:
                raise LostError
            self._received += data
            while len(self._received) >= _HEAD.size:
                kind, size = _HEAD.unpack_from(self._received)
                end = _HEAD.size + size
                if len(self._received) < end:
                    break
                message = bytes(self._received[_HEAD.size : end])
                del self._received[:end]
                yield kind, message

    def send(self, kind: int, data: bytes) -> None:
        """Queue a message, to be sent when the pipe has room."""
        self.to_send += _HEAD.pack(kind, len(data)) + data

    def send_waiting(self) -> None:
        """Send queued messages as far as the pipe has room. Those to a worker that has ended are dropped."""
        try:
            sent = os.write(self.tells, self.to_send)
        except BlockingIOError:
            return
        except BrokenPipeError:
            sent = len(self.to_send)
        del self.to_send[:sent]

    def take_text(self, data: bytes) -> None:
        """Take the next text from the ring. `data`: its size and where lines end in it, as `Link.send_text` sends."""
        size, *ends = array("Q", data)
        text = self._ring[self._at : self._at + size]
        self._at = (self._at + size) % RING_BYTES
        ends.insert(0, 0)
        self.pieces += [(text[at:end], True) for at, end in pairwise(ends)]
        if ends[-1] < size:
            self.pieces.append((text[ends[-1] :], False))

    def tell_taken(self) -> None:
        """Report written bytes to the worker once they are a quarter of the ring."""
        if self.taken >= RING_BYTES // 4:
            self.send(TAKEN, self.taken.to_bytes(8, "little"))
            self.taken = 0
