"""Messages between the first process and its workers, through a pair of sockets each."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NoReturn

from kinspect.errors import KinspectError

SCANNED, TEXT, DONE, FAILED, TURN, STOP = range(6)
_HEAD = struct.Struct("<BQ")  # kind and size of a message
_RECEIVED = 96 * 1024


class LostError(Exception):
    """The other process is gone."""


def fork(work: Callable[[Link], None], others: list[Worker]) -> Worker:
    """A process that does `work` and ends; `others`: those that are there already. Raises KinspectError."""
    here, there = socket.socketpair()
    try:
        pid = os.fork()
    except OSError as error:
        raise KinspectError(f"--jobs: cannot start a process: {error.strerror}") from None
    if pid:
        there.close()
        here.setblocking(False)
        return Worker(pid, here)
    _begin(work, there, [here, *(other.socket for other in others)])


def _begin(work: Callable[[Link], None], there: socket.socket, foreign: list[socket.socket]) -> NoReturn:
    # It must not return into what the first process goes on with.
    try:
        # Only the first process has a copy of the other ends: with it, all of them end.
        for end in foreign:
            end.close()
        # The first process says when it is over.
        for ending in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending, signal.SIG_IGN)
        work(Link(there))
    finally:
        os._exit(0)


class Link:
    """A worker's end of the connection with the first process."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._arrived = select.poll()
        self._arrived.register(end, select.POLLIN)

    def send(self, kind: int, *parts: bytes) -> None:
        """Raises LostError."""
        try:
            self._socket.sendall(_HEAD.pack(kind, sum(map(len, parts))))
            for part in parts:
                self._socket.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
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
            more = self._socket.recv(size - len(data))
            if not more:
                raise LostError
            data += more
        return bytes(data)


class Worker:
    """A worker, as the first process sees it."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        self._pid = pid
        self.socket = end
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
        self.socket.close()
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            self.status()

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """Those that have come whole. Raises LostError behind the last one."""
        while True:
            try:
                data = self.socket.recv(min(self._wanted or _HEAD.size - len(self._head), _RECEIVED))
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

    def take_text(self, data: bytes) -> None:
        """The text of its next lines."""
        begin = 8 + 8 * int.from_bytes(data[:8], "little")
        view = memoryview(data)
        ends, text = view[8:begin].cast("Q").tolist(), view[begin:]
        self.texts += [text[at:end] for at, end in pairwise([0, *ends])]
        self.waiting += len(text)
