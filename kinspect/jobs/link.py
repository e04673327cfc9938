"""Messages between the first process and its workers, through two pipes each."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, NoReturn

from kinspect.errors import KinspectError

SCANNED, TEXT, DONE, FAILED, TURN, STOP = range(6)
_HEAD = struct.Struct("<BQ")  # kind and size of a message
_RECEIVED = 96 * 1024
_PIPE_BYTES = 1024 * 1024
"""What a pipe takes, where that can be asked for: with less, processes wait for each other more often."""


class LostError(Exception):
    """The other process is gone."""


def fork(work: Callable[[Link], None], others: list[Worker]) -> Worker:
    """A process that does `work` and ends; `others`: those that are there already. Raises KinspectError."""
    hears, tells = os.pipe()
    told, tell = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        raise KinspectError(f"--jobs: cannot start a process: {error.strerror}") from None
    if pid:
        os.close(tells)
        os.close(told)
        return Worker(pid, hears, tell)
    _begin(work, told, tells, [hears, tell, *(end for other in others for end in (other.hears, other.tells))])


def _begin(work: Callable[[Link], None], hears: int, tells: int, foreign: list[int]) -> NoReturn:
    # It must not return into what the first process goes on with.
    try:
        # Only the first process has a copy of the other ends: with it, all of them end.
        for end in foreign:
            os.close(end)
        # The first process says when it is over.
        for ending in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending, signal.SIG_IGN)
        work(Link(hears, tells))
    finally:
        os._exit(0)


class Link:
    """A worker's ends of the pipes."""

    def __init__(self, hears: int, tells: int) -> None:
        self._hears = hears
        self._tells = tells
        self._arrived = select.poll()
        self._arrived.register(hears, select.POLLIN)
        with suppress(AttributeError, OSError):
            fcntl.fcntl(tells, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def send(self, kind: int, *parts: bytes) -> None:
        """Raises LostError."""
        left = [memoryview(part) for part in (_HEAD.pack(kind, sum(map(len, parts))), *parts)]
        try:
            while left:
                sent = os.writev(self._tells, left)
                while left and sent >= len(left[0]):
                    sent -= len(left.pop(0))
                if sent:
                    left[0] = left[0][sent:]
        except BrokenPipeError:
            raise LostError from None

    def receive(self, wait: bool) -> tuple[int, bytes] | None:
        """The next message, None if there is none yet. Raises LostError."""
        if not wait and not self._arrived.poll(0):
            return None
        kind, size = _HEAD.unpack(self._exactly(_HEAD.size))
        return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = os.read(self._hears, size - len(data))
            if not more:
                raise LostError
            data += more
        return bytes(data)


class Worker:
    """A worker, as the first process sees it."""

    def __init__(self, pid: int, hears: int, tells: int) -> None:
        self._pid = pid
        self.hears = hears
        self.tells = tells
        os.set_blocking(hears, False)
        os.set_blocking(tells, False)
        self._head = b""
        self._kind = self._wanted = 0
        self._received: list[bytes] = []
        self.to_send = bytearray()
        self.scanned: deque[Any] = deque()
        self.texts: deque[memoryview] = deque()
        self.waiting = 0
        """Bytes of them."""
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
                data = os.read(self.hears, min(self._wanted or _HEAD.size - len(self._head), _RECEIVED))
            except BlockingIOError:
                return
            if not data:
                raise LostError
            if self._wanted:
                self._received.append(data)
                self._wanted -= len(data)
                if not self._wanted:
                    whole = b"".join(self._received)
                    self._received.clear()
                    yield self._kind, whole
                continue
            self._head += data
            if len(self._head) == _HEAD.size:
                self._kind, self._wanted = _HEAD.unpack(self._head)
                self._head = b""

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
        """The text of its next lines."""
        begin = 8 + 8 * int.from_bytes(data[:8], "little")
        view = memoryview(data)
        ends, text = view[8:begin].cast("Q").tolist(), view[begin:]
        self.texts += [text[at:end] for at, end in pairwise([0, *ends])]
        self.waiting += len(text)
