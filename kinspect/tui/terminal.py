"""The explorer's terminal, which may go away while it is drawn on: a closed window, a lost connection.

Not every terminal that goes sends SIGHUP. Reading from it then ends at once, again and again, and writing fails.
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
    """Those of the standard streams that are a terminal now."""

    def __init__(self) -> None:
        self._streams = [stream for stream in _STREAMS if os.isatty(stream)]

    def is_gone(self) -> bool:
        """Whether one of them is gone."""
        poll = select.poll()
        for stream in self._streams:
            poll.register(stream, 0)
        return any(events & _GONE for _, events in poll.poll(0))

    def leave(self) -> None:
        """Let the streams lead nowhere, so that nothing fails that is still written to them."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in self._streams:
            os.dup2(nowhere, stream)
        os.close(nowhere)
        self._streams = []


class TerminalDriver(LinuxDriver):
    """Textual's own, whose threads outlive the terminal: else the one that draws would wait for them for ever."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file: Any = _Output(self._file)

    def run_input_thread(self) -> None:
        with suppress(OSError):
            super().run_input_thread()


class _Output:
    """A stream of which it does not matter whether anything arrives."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.fileno = stream.fileno

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()
