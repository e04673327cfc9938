"""Messages between the first process and its workers, through two pipes each; texts go through memory they share.

That is a ring of bytes a worker: it puts there what it has room for, and tells how much and where lines end in it; the
first process writes it from there, and tells how much of it that was.
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
from typing import Any, NoReturn

from kinspect.errors import KinspectError

SCANNED, TEXT, DONE, FAILED, TURN, STOP, TAKEN = range(7)
RING_BYTES = 8 * 1024 * 1024
"""Text of a worker that waits for others'; with more it has to wait itself."""
_HEAD = struct.Struct("<BQ")  # kind and size of a message
_RECEIVED = 64 * 1024


class LostError(Exception):
    """The other process is gone."""


def fork(work: Callable[[Link], None], others: list[JobWorker]) -> JobWorker:
    """A process that does `work` and ends; `others`: those that are there already. Raises KinspectError."""
    hears, tells = os.pipe()
    told, tell = os.pipe()
    try:
        ring = memoryview(mmap.mmap(-1, RING_BYTES))
        pid = os.fork()
    except OSError as error:
        raise KinspectError(f"--jobs: cannot start a process: {error.strerror}") from None
    if pid:
        os.close(tells)
        os.close(told)
        return JobWorker(pid, hears, tell, ring)
    foreign = [hears, tell, *(end for other in others for end in (other.hears, other.tells))]
    _begin(work, Link(told, tells, ring), foreign)


def _begin(work: Callable[[Link], None], link: Link, foreign: list[int]) -> NoReturn:
    # It must not return into what the first process goes on with.
    try:
        # Only the first process has a copy of the other ends: with it, all of them end.
        for end in foreign:
            os.close(end)
        # The first process says when it is over.
        for ending in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending, signal.SIG_IGN)
        work(link)
    finally:
        os._exit(0)


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
        """Raises LostError."""
        left = memoryview(_HEAD.pack(kind, len(data)) + data)
        try:
            while left:
                left = left[os.write(self._tells, left) :]
        except BrokenPipeError:
            raise LostError from None

    def send_text(self, ends: array[int], text: bytes) -> None:
        """The text of its next lines, in which they end there; waits for room. Raises LostError."""
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
        """The next message, None if there is none yet. Raises LostError."""
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
    """A worker, as the first process sees it."""

    def __init__(self, pid: int, hears: int, tells: int, ring: memoryview) -> None:
        self._pid = pid
        self.hears = hears
        self.tells = tells
        os.set_blocking(hears, False)
        os.set_blocking(tells, False)
        self._received = bytearray()
        self.to_send = bytearray()
        self.scanned: deque[Any] = deque()
        self.pieces: deque[tuple[memoryview, bool]] = deque()
        """Of its next lines' text, and whether a line ends there."""
        self.taken = 0
        """Bytes of those that were written since it last heard of it."""
        self._ring = ring
        self._at = 0
        self.share: dict[str, Any] | None = None
        self._status: int | None = None

    def status(self) -> int:
        """What it ended with, when it has ended."""
        if self._status is None:
            _, self._status = os.waitpid(self._pid, 0)
        return self._status

    def end(self) -> None:
        """End it, if it has not ended."""
        os.close(self.hears)
        os.close(self.tells)
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            self.status()

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """Those that have come whole. Raises LostError behind the last one."""
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
        """To be sent when there is room."""
        self.to_send += _HEAD.pack(kind, len(data)) + data

    def send_waiting(self) -> None:
        """As much as there is room for; a worker that has ended tells of that by itself."""
        try:
            sent = os.write(self.tells, self.to_send)
        except BlockingIOError:
            return
        except BrokenPipeError:
            sent = len(self.to_send)
        del self.to_send[:sent]

    def take_text(self, data: bytes) -> None:
        """The text of its next lines: its size, and where in it lines end."""
        size, *ends = array("Q", data)
        text = self._ring[self._at : self._at + size]
        self._at = (self._at + size) % RING_BYTES
        ends.insert(0, 0)
        self.pieces += [(text[at:end], True) for at, end in pairwise(ends)]
        if ends[-1] < size:
            self.pieces.append((text[ends[-1] :], False))

    def tell_taken(self) -> None:
        """That there is room for more, if much was taken."""
        if self.taken >= RING_BYTES // 4:
            self.send(TAKEN, self.taken.to_bytes(8, "little"))
            self.taken = 0
