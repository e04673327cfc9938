"""Messages from the capturing process to the decoding one, through a pipe and a bounded queue before it.

A message has a head with the state of the capture and the length of the content that follows.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import deque
from contextlib import suppress
from itertools import islice
from struct import Struct
from typing import Any, BinaryIO, NamedTuple

QUEUE_BYTES = 256 * 1024 * 1024

_PIPE_BYTES = 1024 * 1024
_SET_PIPE_BYTES = 1031  # F_SETPIPE_SZ of Linux
_PIECES_AT_ONCE = 16

# Kind, length of the content, number of the first packet, the counters, and the number of interfaces: each of these has
# a row behind the head.
_HEAD = Struct("=BQQ8QH")
_ROW = Struct("=6Q")
_PACKETS, _END = 0, 1


class InterfaceCounters(NamedTuple):
    """Packets and bytes that one interface gave, and packets of it that the kernel (None: not known, if it is not this
    host's) and the queue dropped. `losses`: how often it went away; `up`: 0 while it is away."""

    packets: int = 0
    bytes: int = 0
    kernel_drops: int | None = 0
    queue_drops: int = 0
    losses: int = 0
    up: int = 1


class Counters(NamedTuple):
    """State of a capture: packets and bytes on the wire, packets dropped by the kernel (ring full; None: not
    known), packets not decoded (queue full), bytes waiting in the queue, and packets written whole into files.
    `reached`: packets up to this time, in nanoseconds since the epoch, have been captured; 0 if not known. `told_at`:
    when the capturing process said so, by `time.monotonic_ns`. `interfaces`: what each of them has of the first four,
    in the order of the rings."""

    packets: int = 0
    bytes: int = 0
    kernel_drops: int | None = 0
    queue_drops: int = 0
    waiting: int = 0
    saved: int = 0
    reached: int = 0
    told_at: int = 0
    interfaces: tuple[InterfaceCounters, ...] = ()


class Handover(NamedTuple):
    """A pcapng section with packets numbered from `first` (empty: no packets, but time has passed), or the capturing
    process's report at its end."""

    counters: Counters
    first: int
    section: bytes
    end: dict[str, Any] | None


class Outbox:
    """The capturing side. It never waits for the other one, and drops what finds no room: so it is no `Channel`."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._full = False
        # Views: a message that goes through a small pipe in many parts is not copied.
        self._pieces: deque[memoryview] = deque()
        self.waiting = 0
        """Bytes in the queue."""
        self.drops = 0
        """Packets that found no room in the queue."""
        self.open = True
        """True while the other side is there."""
        os.set_blocking(descriptor, False)
        with suppress(OSError):
            fcntl.fcntl(descriptor, _SET_PIPE_BYTES, _PIPE_BYTES)

    def packets(self, counters: Counters, first: int, prelude: bytes, blocks: list[bytes]) -> bool:
        """Queue packet blocks, numbered from `first`, behind those that describe them; return False if they are
        dropped, since the queue is full."""
        # A full queue drops packets until it is half empty: one long run of packets is worth more than many short ones.
        self._full = self.waiting > (self._limit // 2 if self._full else self._limit)
        if self._full:
            self.drops += len(blocks)
        else:
            self._put(_PACKETS, counters, first, prelude + b"".join(blocks))
        return not self._full

    def beat(self, counters: Counters) -> None:
        """Send the counters alone; skipped while earlier messages are still waiting."""
        if not self.waiting:
            self._put(_PACKETS, counters, 0, b"")

    def end(self, counters: Counters, told: dict[str, Any]) -> None:
        """Queue the last message."""
        self._put(_END, counters, 0, json.dumps(told).encode())

    def _put(self, kind: int, counters: Counters, first: int, content: bytes) -> None:
        if self.open:
            *totals, interfaces = counters
            head = _HEAD.pack(kind, len(content), first, *totals, len(interfaces))
            head += b"".join([_ROW.pack(*row) for row in interfaces])
            self._pieces += map(memoryview, (head, content))
            self.waiting += len(head) + len(content)

    def fileno(self) -> int:
        return self._descriptor

    def send(self) -> None:
        """Write as much as the pipe takes without blocking."""
        try:
            while self._pieces:
                self._sent(os.writev(self._descriptor, [*islice(self._pieces, _PIECES_AT_ONCE)]))
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.open = False
            self._pieces.clear()
            self.waiting = 0

    def _sent(self, size: int) -> None:
        self.waiting -= size
        while self._pieces and size >= len(self._pieces[0]):
            size -= len(self._pieces.popleft())
        if size:
            self._pieces[0] = self._pieces[0][size:]


class Inbox:
    """The decoding side."""

    def __init__(self, descriptor: int) -> None:
        self._file: BinaryIO = os.fdopen(descriptor, "rb", buffering=_PIPE_BYTES)

    def message(self) -> Handover | None:
        """Wait for the next message and return it; None if the other side ended without its last message."""
        head = self._file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        kind, length, first, *totals, interfaces = _HEAD.unpack(head)
        rows = self._file.read(interfaces * _ROW.size)
        content = self._file.read(length)
        if len(content) < length:
            return None
        each = tuple(InterfaceCounters(*row) for row in _ROW.iter_unpack(rows))
        end = json.loads(content) if kind == _END else None
        return Handover(Counters(*totals)._replace(interfaces=each), first, b"" if end else content, end)

    def close(self) -> None:
        self._file.close()
