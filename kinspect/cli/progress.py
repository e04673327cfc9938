"""Progress of the reading, on standard error."""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any, Protocol

PATIENCE_SECONDS = 1.0
INTERVAL_SECONDS = 0.2


class BytesRead(Protocol):
    """Source of the numbers that the progress bar shows."""

    @property
    def bytes_read(self) -> int: ...
    @property
    def bytes_total(self) -> int | None: ...


class ProgressBar:
    """A bar of the bytes read, shown once the reading has taken a second."""

    def __init__(self, reading: BytesRead) -> None:
        self._reading = reading
        self._next = time.monotonic() + PATIENCE_SECONDS
        self._bar: Any = None

    def update(self, bytes_read: int | None = None) -> None:
        """Show the progress; cheap enough to be called for every block. `bytes_read`: the number, if others read."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + INTERVAL_SECONDS
        if self._bar is None:
            self._bar = _bar()
            self._task = self._bar.add_task("reading", total=self._reading.bytes_total)
            self._bar.start()
        self._bar.update(self._task, completed=self._reading.bytes_read if bytes_read is None else bytes_read)
        self._bar.refresh()

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _bar() -> Any:
    # Loaded when there is something to show: most runs are shorter than that.
    rich = import_module("rich.progress")
    console = import_module("rich.console").Console(stderr=True)
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.DownloadColumn(),
        rich.TransferSpeedColumn(),
        rich.TimeRemainingColumn(),
    )
    return rich.Progress(*columns, console=console, transient=True, auto_refresh=False)
