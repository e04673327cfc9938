"""A whole terminal to draw on, and its keys.

`rich.live` is not used: it writes every line of every frame, without synchronized output, which flickers on slow
terminals. It reads no keys either, and knows nothing of Ctrl-Z, other processes in the foreground or terminals without
Unicode.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

# Alternate screen, no cursor, no wrapping; and back, from the last line where there is no alternate screen.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_CLEAR = "\x1b[H\x1b[2J"
# Synchronized output: a frame between these is shown at once by terminals that know them, and as it comes by others.
FRAME, _SHOWN = "\x1b[?2026h", "\x1b[?2026l"

# For terminals without Unicode; names that they cannot show have question marks.
_PLAIN = str.maketrans("─→…–≥", "->.->")


class Screen:
    """Context in which `draw` shows lines. Standard error, if that is a terminal too, is held back meanwhile and
    printed afterwards."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stream: TextIO = console.file  # type: ignore[assignment]
        self._size = (0, 0)
        self._shown: list[Text] = []
        self._before: list[Any] | None = None
        self._keys = False
        self._stopped = False
        self._returned = False
        self._errors: io.StringIO | None = None
        self._standard_error = sys.stderr

    def __enter__(self) -> Screen:
        self._previous = {
            number: signal.signal(number, handle)
            for number, handle in ((signal.SIGTSTP, self._note_stop), (signal.SIGCONT, self._note_return))
        }
        self._standard_error = sys.stderr
        if sys.stderr.isatty():
            self._errors = sys.stderr = io.StringIO()
        try:
            self._take()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        sys.stderr = self._standard_error
        # The terminal may be gone, or the stream closed: then nothing has to be restored.
        with suppress(OSError, ValueError):
            self._give_back()
        if self._errors is not None:
            with suppress(OSError, ValueError):
                sys.stderr.write(self._errors.getvalue())
                sys.stderr.flush()

    @property
    def said(self) -> str:
        """The last line written to standard error."""
        lines = self._errors.getvalue().splitlines() if self._errors is not None else []
        return lines[-1] if lines else ""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal now."""
        try:
            found = os.get_terminal_size(self._stream.fileno())
        except OSError:
            found = os.terminal_size((0, 0))
        return found.columns or 80, found.lines or 24

    def draw(self, lines: Sequence[Text]) -> None:
        """Show the lines of a frame, made for `size`: only those that changed are written, all at once. In the
        background the terminal is another's, and nothing is shown."""
        if _is_others(self._stream.fileno()):
            self._returned = True
            return
        size = self.size
        parts = [FRAME]
        if size != self._size:
            self._size = size
            self._shown = []
            parts.append(_CLEAR)
        for number, line in enumerate(lines):
            if number >= len(self._shown) or self._shown[number] != line:
                parts.append(f"\x1b[{number + 1};1H{self._written(line, size[0])}")
        self._shown = [*lines]
        self._write("".join([*parts, _SHOWN]))

    def pressed(self) -> str:
        """The keys pressed since the last call. A Ctrl-Z since then takes effect now."""
        if self._stopped:
            self._stopped = False
            self._give_back()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._returned = True
        if _is_others(self._stream.fileno()):
            return ""
        if self._returned:
            # Other processes had the terminal, also if this one was stopped by a SIGSTOP.
            self._returned = False
            self._take()
        if not self._keys or not select.select([0], [], [], 0)[0]:
            return ""
        pressed = os.read(0, 64)
        self._keys = bool(pressed)
        return pressed.decode(errors="replace")

    def _take(self) -> None:
        self._keys = _is_ours(0)
        if self._keys:
            if self._before is None:
                self._before = termios.tcgetattr(0)
            tty.setcbreak(0)
        self._size = (0, 0)
        self._write(_ENTER)

    def _give_back(self) -> None:
        try:
            self._write(f"\x1b[{self.size[1]};1H{_LEAVE}")
        finally:
            before, self._before = self._before, None
            if before is not None:
                with suppress(termios.error):
                    # Keys typed meanwhile are not for the shell.
                    termios.tcsetattr(0, termios.TCSAFLUSH, before)

    def _written(self, line: Text, width: int) -> str:
        line = line.copy()
        line.rstrip()
        with self._console.capture() as captured:
            self._console.print(line, soft_wrap=True, end="")
        # A line up to the edge leaves the cursor on its last character, which would be erased.
        return captured.get() + ("\x1b[K" if line.cell_len < width else "")

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding
        if not encoding.lower().startswith("utf"):
            text = text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
        self._stream.write(text)
        self._stream.flush()

    def _note_stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopped = True

    def _note_return(self, _signal: int, _frame: FrameType | None) -> None:
        self._returned = True


def _is_others(descriptor: int) -> bool:
    """True if it is the terminal of this process, with another process group in the foreground."""
    try:
        return os.tcgetpgrp(descriptor) != os.getpgrp()
    except OSError:
        return False


def _is_ours(descriptor: int) -> bool:
    """True if it is a terminal with this process in the foreground."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False
