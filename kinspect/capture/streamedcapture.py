"""Packets of a capture that is made elsewhere meanwhile.

    capture = StreamedCapture(sender_of("ssh host tcpdump -U -w -"), CaptureLimits(), QUEUE_BYTES)
    capture.start()
    for block in capture:
        ...                              # model.Block

A thread reads it, through the readers of all formats, into a bounded queue. If that is full, the sender waits: nothing
that it sends is dropped here.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from kinspect.background import spoken
from kinspect.capture.captureworker import BEAT_NS, CaptureLimits
from kinspect.capture.handover import Counters, InterfaceCounters
from kinspect.capture.reader import new_block
from kinspect.capture.sender import StreamSender
from kinspect.capture.source import unreadable
from kinspect.capture.timeline import SourceStatus, open_timeline, slice_block
from kinspect.errors import CaptureError
from kinspect.model import NS_PER_MS, NS_PER_SECOND, Block, Origin


class StreamSource:
    """The bytes that a sender sends. They end early with `stop`, and `duration_ns` nanoseconds after the first read."""

    def __init__(self, sender: StreamSender, duration_ns: int | None) -> None:
        self.name = sender.name
        self.position = 0
        self.stopped = False
        """They ended early."""
        self.sent_all = False
        """They came to their end."""
        self._sender = sender
        self._duration_ns = duration_ns
        self._deadline: int | None = None
        self._descriptor: int | None = None
        self._told, self._tell = os.pipe()
        self._can_stop = True

    def read(self, size: int) -> bytes:
        try:
            if self._descriptor is None:
                self._descriptor = self._sender.open()
                if self._duration_ns is not None:
                    self._deadline = time.monotonic_ns() + self._duration_ns
            if not self._wait(self._descriptor):
                self.stopped = True
                return b""
            data = os.read(self._descriptor, size)
        except OSError as error:
            raise unreadable(self.name, error) from error
        self.position += len(data)
        self.sent_all = not data
        return data

    def _wait(self, descriptor: int) -> bool:
        """Wait for bytes, or their end; False if they are to end early."""
        while True:
            poll = select.poll()
            aside = self._sender.aside()
            for each in (descriptor, self._told, *(() if aside is None else (aside,))):
                poll.register(each, select.POLLIN)
            left = None if self._deadline is None else self._deadline - time.monotonic_ns()
            if left is not None and left <= 0:
                return False
            ready = {each for each, _ in poll.poll(None if left is None else left / NS_PER_MS + 1)}
            if self._told in ready:
                return False
            if aside in ready:
                self._sender.listen()
            if descriptor in ready:
                return True

    def stop(self) -> None:
        """Let the bytes end. May be called from a signal handler, and in another process that has the pipe."""
        if self._can_stop:
            os.write(self._tell, b"!")

    def forget(self) -> None:
        """Give back what `stop` needs, once nobody waits for bytes."""
        if self._can_stop:
            self._can_stop = False
            os.close(self._told)
            os.close(self._tell)

    def release(self) -> None: ...

    def close(self) -> None: ...


class StreamedCapture:
    """The packets of a stream, each as soon as it is there, until it is stopped, the time is over, there are enough
    packets, or the stream ends. Between them come several blocks without packets a second, so that the consumer sees
    time pass. It stands for an interface; where it is, and what the kernel there dropped, is known only if the
    stream says so.
    """

    origin = Origin(None, lambda _: None)

    def __init__(self, sender: StreamSender, plan: CaptureLimits, queue_bytes: int) -> None:
        self.files = [sender.name]
        self.queue_limit = queue_bytes
        self._sender = sender
        self._source = StreamSource(sender, plan.duration_ns)
        self._timeline = open_timeline(self.files, open_input=lambda _: self._source)
        self._most = sys.maxsize if plan.packets is None else plan.packets
        self._errors: list[CaptureError] = []
        self._thread: threading.Thread | None = None
        # What the thread and the consumer share.
        self._changed = threading.Condition()
        self._blocks: deque[tuple[int, Block]] = deque()
        self._waiting = 0
        self._ended = False
        self._given_up = False
        self._packets = 0
        self._bytes = 0
        self._drops: int | None = None
        self._next_frame = 1
        self._told_at = time.monotonic_ns()

    worker = None
    """No process of kinspect captures."""

    def start(self, foreign: object = ()) -> None:
        """Start to read."""
        self._thread = threading.Thread(target=self._read, name="stream", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Another process reads it."""
        self._sender.leave()

    def __iter__(self) -> Iterator[Block]:
        while self._thread is not None:
            with self._changed:
                self._wait(lambda: bool(self._blocks) or self._ended, BEAT_NS)
                if self._blocks:
                    self._told_at, block = self._blocks.popleft()
                    self._waiting -= len(block.data)
                    self._next_frame = block.first_frame + len(block)
                    self._changed.notify()
                elif self._ended:
                    return
                else:
                    self._told_at, block = time.monotonic_ns(), new_block(b"", self._next_frame)
            yield block

    @property
    def counters(self) -> Counters:
        """The state now."""
        return Counters(self._packets, self._bytes, self._drops, waiting=self._waiting, told_at=self._told_at)

    @property
    def status(self) -> SourceStatus:
        return SourceStatus(
            self._errors,
            self._source.position,
            kernel_drops=self._drops,
            queue_drops=0,
            captured_packets=self._packets,
        )

    @property
    def secrets(self) -> list[bytes]:
        return self._timeline.secrets

    @property
    def interfaces(self) -> dict[str, InterfaceCounters]:
        """What came, by the sender's name."""
        return {self.files[0]: InterfaceCounters(self._packets, self._bytes, self._drops)}

    @property
    def capturing(self) -> bool:
        """True while it is read. May be asked in any thread."""
        return self._thread is not None and not self._ended

    def stop(self) -> None:
        """End the capture; waiting packets are still handed on. May be called from a signal handler."""
        self._source.stop()

    def close(self) -> None:
        """End, and wait for the sender's end; packets not yet handed on are dropped. Works before `start`, too."""
        self.stop()
        if self._thread is None:
            self.leave()
            self._source.forget()
            return
        with self._changed:
            self._given_up = True
            self._changed.notify()
        self._thread.join()
        self._thread = None
        self._source.forget()

    def _wait(self, ready: Callable[[], bool], longest_ns: int | None = None) -> None:
        self._changed.wait_for(ready, None if longest_ns is None else longest_ns / NS_PER_SECOND)

    # ------------------------------------------------------------------ the reading thread

    def _read(self) -> None:
        source = self._source
        try:
            for block in self._timeline:
                left = self._most - self._packets
                self._put(block if left >= len(block) else slice_block(block, 0, left))
                if self._given_up or self._packets == self._most:
                    source.stopped = True
                    break
            found = [*self._timeline.errors]
        except Exception as error:
            found = [CaptureError(spoken(error, "the capture ends"))]
        try:
            failed = self._sender.end(source.sent_all)
            # How it ends where it is told to is nothing to complain of.
            if not source.stopped:
                self._errors += self._failures(found, failed)
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify()

    def _put(self, block: Block) -> None:
        with self._changed:
            self._wait(lambda: self._waiting <= self.queue_limit or self._given_up)
            self._blocks.append((time.monotonic_ns(), block))
            self._waiting += len(block.data)
            self._packets += len(block)
            self._bytes += sum(block.wire_lengths)
            self._drops = self._timeline.status.kernel_drops
            self._changed.notify()

    def _failures(self, found: list[CaptureError], failed: str) -> list[CaptureError]:
        """What is wrong with the stream, and what its sender says of it."""
        said = self._sender.said
        if failed:
            # Without a byte, that it is no capture says nothing.
            own = CaptureError(f"{self.files[0]}: {failed}" + (f": {said}" if said else ""))
            return [*found, own] if self._source.position else [own]
        if found and said:
            return [*found, CaptureError(f"{self.files[0]}: the command said: {said}")]
        return found
