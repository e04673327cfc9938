"""Progress of a command, on standard error: a line that comes after a second, and goes away."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinspect.capture.timeline import Packets

PATIENCE_SECONDS = 1.0
"""Time without output until the line is shown."""
INTERVAL_SECONDS = 0.2
LINE_SECONDS = 10.0
"""Interval of lines where they cannot be taken away: in a file, and on a terminal without cursor movement."""
PLAIN = ("", "dumb", "unknown")
"""Values of TERM for terminals without cursor movement."""
ERASE = "\r\x1b[K"
WIDTH = 80

_shown: list[ProgressLine] = []


def wanted(asked: bool | None) -> bool:
    """True if progress is to be shown. `asked`: the option; None: it was not given."""
    return sys.stderr.isatty() if asked is None else asked


def make_way() -> None:
    """Take the line away before something else is written to the terminal."""
    for progress in _shown:
        progress.hide()


class ProgressLine:
    """A line on how far a command is. `tell`: its text, from the seconds so far and the arguments of `update`."""

    def __init__(self, tell: Callable[..., str]) -> None:
        self._tell = tell
        self._begun = time.monotonic()
        self._next = self._begun + PATIENCE_SECONDS
        self._stays = not sys.stderr.isatty() or os.environ.get("TERM", "") in PLAIN
        self._is_up = False
        _shown.append(self)

    def update(self, *now_at: int) -> None:
        """Show the line if it is time for that; cheap enough to be called for every block."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (LINE_SECONDS if self._stays else INTERVAL_SECONDS)
        text = self._tell(now - self._begun, *now_at)
        if self._stays:
            sys.stderr.write(f"{text}\n")
        else:
            self._is_up = True
            sys.stderr.write(ERASE + text[: _width() - 1])
        sys.stderr.flush()

    def hide(self) -> None:
        """Take the line away, for as long as other output comes."""
        if self._is_up:
            self._is_up = False
            sys.stderr.write(ERASE)
            sys.stderr.flush()
        self._next = max(self._next, time.monotonic() + PATIENCE_SECONDS)

    def stop(self) -> None:
        """Take the line away for good."""
        self.hide()
        self._next = float("inf")
        if self in _shown:
            _shown.remove(self)


def of_reading(packets: Packets, doing: str = "reading") -> ProgressLine:
    """The progress of a reading. `update` may be told the number of bytes, if other processes read; `doing`: what it is
    done for."""

    def tell(seconds: float, bytes_read: int | None = None) -> str:
        # Loaded when there is something to show: most runs are shorter than that.
        from kinspect import wording

        status = packets.status
        done, total = status.bytes_read if bytes_read is None else bytes_read, status.bytes_total
        speed = done / seconds
        rate = f"{wording.size(speed)}/s"
        if not total:
            return f"{doing}: {wording.size(done)}, {rate}, {wording.duration(seconds)}"
        done = min(done, total)
        left = f", {wording.duration((total - done) / speed)} left" if done else ""
        return f"{doing}: {100 * done // total}% of {wording.size(total)}, {rate}{left}"

    return ProgressLine(tell)


@contextmanager
def working(doing: str) -> Iterator[None]:
    """Context of work that has no parts to count."""
    if not wanted(None):
        yield
        return
    # Loaded where there is a terminal. A handler of signals may not write: it may come within another write.
    from threading import Event, Thread

    progress, done = ProgressLine(lambda seconds: f"{doing}: {seconds:.0f}s"), Event()

    def show() -> None:
        while not done.wait(INTERVAL_SECONDS):
            progress.update()

    thread = Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        progress.stop()


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or WIDTH
    except OSError:
        return WIDTH
