"""The explorer's terminal, which may go away while it is drawn on: a closed window, a lost connection.

Not every terminal that goes away sends SIGHUP. Reads from it then return at once, again and again, and writes fail.
"""

from __future__ import annotations

import os
import select
from contextlib import suppress
from typing import Any, TextIO

from textual.drivers.linux_driver import LinuxDriver

_STREAMS = (0, 1, 2)
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Terminal:
    """The standard streams that are a terminal when it is made."""

    def __init__(self) -> None:
        self._streams = [stream for stream in _STREAMS if os.isatty(stream)]

    def is_gone(self) -> bool:
        """True if one of them is gone."""
        poll = select.poll()
        for stream in self._streams:
            poll.register(stream, 0)
        return any(events & _GONE for _, events in poll.poll(0))

    def leave(self) -> None:
        """Point the streams at the null device, so that later writes do not fail."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in self._streams:
            os.dup2(nowhere, stream)
        os.close(nowhere)
        self._streams = []


class TerminalDriver(LinuxDriver):
    """Textual's driver with threads that outlive the terminal: else the one that draws would wait for them for ever."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file: Any = _Output(self._file)

    def run_input_thread(self) -> None:
        with suppress(OSError):
            super().run_input_thread()


class _Output:
    """A stream that ignores failed writes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.fileno = stream.fileno

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()
