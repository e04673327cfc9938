"""Work in another process, which is forked: it begins with everything that was loaded and compiled.

A `Child` and the process that started it exchange messages, through a channel that ends when either of them does. What
goes wrong in a child is such a message; of one that ends without a word, the message says how it ended.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import cbor2

from kinspect import extensions
from kinspect.errors import KinspectError

FAILED, OWN = range(2)
"""Kinds of messages: what went wrong; a user's own kinds are numbers from `OWN` on."""
_RECEIVED = 256 * 1024
_HEAD = struct.Struct("<Q")  # size of a message


class LostError(Exception):
    """The other process has ended, or listens no more."""


class Channel:
    """One end of a channel. A message is a kind and values of types that CBOR has: nothing in it can become code."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._received = bytearray()
        self._to_send: deque[memoryview] = deque()
        _HELD.add(self)

    def fileno(self) -> int:
        """The end's descriptor."""
        return self._end.fileno()

    def close(self) -> None:
        """Close it; may be called again."""
        self._end.close()

    def stop(self) -> None:
        """Send no more, which the other process finds as it finds the end. May be called from a signal handler."""
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_WR)

    def send(self, kind: int, *values: Any) -> None:
        """Send a message, waiting for room. Raises LostError."""
        self._put(kind, values)
        room = select.poll()
        room.register(self._end, select.POLLOUT)
        while not self._flush():
            room.poll()

    def fail(self, error: BaseException, who: str) -> None:
        """Send an exception, with its traceback in `who`. Raises LostError."""
        import traceback  # only for this

        where = f"in {who}: {''.join(traceback.format_exception(error))}"
        # Names of files may hold what no text can.
        note = where.encode(errors="backslashreplace").decode()
        if isinstance(error, OSError):
            self.send(FAILED, "system", [error.errno, error.strerror], note)
        elif isinstance(error, KinspectError):
            self.send(FAILED, "known", [str(error)], note)
        else:
            self.send(FAILED, "internal", [repr(error)], note)

    def queue(self, kind: int, *values: Any) -> None:
        """Send a message as far as there is room, and the rest in `watch`. A process that has ended gets none."""
        self._put(kind, values)
        self.flush()

    def flush(self) -> None:
        """Send what is queued, as far as there is room."""
        with suppress(LostError):
            self._flush()

    def _put(self, kind: int, values: tuple[Any, ...]) -> None:
        data = cbor2.dumps([kind, *values])
        self._to_send.append(memoryview(_HEAD.pack(len(data)) + data))

    def _flush(self) -> bool:
        """Send as far as there is room; True if that was all. Raises LostError."""
        waiting = self._to_send
        try:
            while waiting:
                waiting[0] = waiting[0][self._end.send(waiting[0]) :]
                if not waiting[0]:
                    waiting.popleft()
        except BlockingIOError:
            return False
        except OSError:
            waiting.clear()
            raise LostError from None
        return True

    def receive(self, seconds: float | None = None) -> list[Any] | None:
        """The next message, its kind and its values; None if none has come within that time. Raises LostError, and what
        `fail` told."""
        while (message := self._taken()) is None:
            try:
                data = self._end.recv(_RECEIVED)
            except BlockingIOError:
                if not watch([self], seconds) and seconds is not None:
                    return None
                continue
            except OSError:
                data = b""
            if not data:
                raise LostError
            self._received += data
        if message[0] == FAILED:
            _, kind, arguments, note = message
            error = _ERRORS[kind](*arguments)
            error.add_note(note)
            raise error
        return message

    def _taken(self) -> list[Any] | None:
        received = self._received
        if len(received) < _HEAD.size:
            return None
        end = _HEAD.size + _HEAD.unpack_from(received)[0]
        if len(received) < end:
            return None
        with memoryview(received)[_HEAD.size : end] as data:
            message: list[Any] = cbor2.loads(data)
        del received[:end]
        return message

    def events(self) -> int:
        """What to wait for: messages, and room if some are queued."""
        return select.POLLIN | (select.POLLOUT if self._to_send else 0)

    def pass_on(self, end: socket.socket) -> None:
        """Give the other process the end of another channel. Raises LostError."""
        try:
            socket.send_fds(self._end, [b"?"], [end.fileno()])
        except OSError:
            raise LostError from None

    def passed_on(self) -> socket.socket:
        """Wait for the end that `pass_on` gives. Raises LostError."""
        watch([self])
        descriptors = socket.recv_fds(self._end, 1, 1)[1]
        if not descriptors:
            raise LostError
        return socket.socket(fileno=descriptors[0])


_HELD: WeakSet[Channel] = WeakSet()
"""The ends that this process holds. Processes that it starts do not: ends are heard of."""


def watch(channels: Iterable[Channel], seconds: float | None = None) -> list[Channel]:
    """Wait, for that time at most, until something comes, or there is room for what is queued, which is sent. Returns
    the channels of which something has come, or the end."""
    poll, ends = select.poll(), {channel.fileno(): channel for channel in channels}
    for descriptor, channel in ends.items():
        poll.register(descriptor, channel.events())
    found = []
    for descriptor, events in poll.poll(None if seconds is None else seconds * 1000):
        if events & select.POLLOUT:
            ends[descriptor].flush()
        if events & ~select.POLLOUT:
            found.append(ends[descriptor])
    return found


class Child:
    """Another process, which does `work` with its end of a channel, reports what goes wrong in it, and ends.

    `who`: what it is called, and `loss`: what its early end means, for people; `foreign`: descriptors of this process
    that it does not hold; `ignored`: signals that are this process's to answer. To be made before there are threads.
    Raises KinspectError if the system cannot start a process.
    """

    def __init__(
        self,
        who: str,
        work: Callable[[Channel], object],
        loss: str = "",
        *,
        foreign: Iterable[int] = (),
        ignored: Iterable[int] = (),
        nice: int = 0,
    ) -> None:
        self._who = who
        self._loss = loss
        self._status: int | None = None
        self._waiting = threading.RLock()
        ours, theirs = socket.socketpair()
        try:
            self.pid = os.fork()
        except OSError as error:
            raise KinspectError(f"cannot start {who}: {error.strerror}") from None
        if self.pid:
            theirs.close()
            self.channel = Channel(ours)
            return
        status = 1
        # It must not return into the code of the first process.
        try:
            # What is looked at for garbage is written to, and so copied from the first process.
            gc.freeze()
            ours.close()
            for held in _HELD:
                held.close()
            for descriptor in foreign:
                os.close(descriptor)
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)
            os.nice(nice)
            # The first process reports what is said of other packages.
            extensions.tell = extensions.kept.append
            self._do(work, Channel(theirs))
            status = 0
        finally:
            os._exit(status)

    def _do(self, work: Callable[[Channel], object], channel: Channel) -> None:
        with suppress(LostError):
            try:
                work(channel)
            except LostError:
                raise
            except MemoryError as error:
                full = KinspectError(self._ended("ran out of memory"))
                channel.fail(full.with_traceback(error.__traceback__), self._who)
            except BaseException as error:
                channel.fail(error, self._who)

    def receive(self, seconds: float | None = None) -> list[Any] | None:
        """Its next message (see `Channel.receive`). Raises what went wrong in it, and KinspectError at its end."""
        try:
            return self.channel.receive(seconds)
        except LostError:
            raise KinspectError(self._ended(how_ended(self.status()))) from None

    def why(self) -> str:
        """Why it ended, as shown to the user: what went wrong in it, or else how it ended."""
        while True:
            try:
                self.receive()
            except Exception as error:
                return spoken(error, self._loss)

    def _ended(self, how: str) -> str:
        return f"{self._who} {how}" + (f"; {self._loss}" if self._loss else "")

    @property
    def running(self) -> bool:
        """True while the process runs. May be asked in any thread."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def status(self) -> int:
        """Exit status of the process once it has ended; of a signal, its number below 0. May be asked in any thread."""
        with self._waiting:
            if self._status is None:
                try:
                    status = os.waitpid(self.pid, 0)[1]
                except ChildProcessError:
                    # A signal's handler may have asked in the meantime.
                    if self._status is None:
                        raise
                else:
                    self._status = os.waitstatus_to_exitcode(status)
            return self._status

    def tell(self, number: int) -> None:
        """Send it a signal, unless its end was heard of."""
        if self._status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self) -> None:
        """Kill it if it has not ended, and close the channel; may be called again."""
        self.tell(signal.SIGKILL)
        self.status()
        self.channel.close()


def how_ended(status: int) -> str:
    """How a process ended, by its status; of a signal, its number below 0."""
    if status >= 0:
        return f"ended with status {status}"
    number = -status
    name = signal.Signals(number).name if number in {*signal.Signals} else f"signal {number}"
    # The system gives no other sign of it.
    return f"was ended by {name}" + (", as when memory runs out" if number == signal.SIGKILL else "")


class ElsewhereError(Exception):
    """An unexpected exception of another process; its `repr` is that of the original."""

    def __repr__(self) -> str:
        return str(self)


_ERRORS: dict[str, Callable[..., Exception]] = {
    "system": OSError,
    "known": KinspectError,
    "internal": ElsewhereError,
}


def spoken(error: BaseException, loss: str = "") -> str:
    """An exception as shown to the user; `loss`: what is added where it is an unexpected one."""
    if isinstance(error, KinspectError):
        return str(error)
    return f"internal error: {error!r}" + (f"; {loss}" if loss else "")
