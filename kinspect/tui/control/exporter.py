"""Exports, in threads: copies, JSON lines and packets; and the packets of connections as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from textual.screen import Screen
from textual.worker import get_current_worker

from kinspect.errors import KinspectError
from kinspect.kafka.view.view import View
from kinspect.output import Style
from kinspect.tui.index import export
from kinspect.tui.index.connectionpackets import Row, packet_text
from kinspect.tui.index.reread import StoppedError
from kinspect.tui.index.store import Store
from kinspect.wording import counted

COPIED_BYTES = 1_000_000
"""Largest size of a copy: terminals have no room for more."""

T = TypeVar("T")


class ExchangeExporter:
    """Copies and writes exchanges. `screen` runs the threads; `say(text, wrong=...)` reports how it went."""

    def __init__(
        self, screen: Screen[Any], store: Store, view: View, style: Style, say: Callable[..., None]
    ) -> None:
        self._screen = screen
        self._store = store
        self._view = view
        self._style = style
        self._say = say

    def copy(self, rows: list[int]) -> None:
        """Copy the exchanges' JSON lines to the terminal's clipboard."""
        if rows:
            self._start(partial(self._copied, rows), self._say)

    def write(self, rows: list[int], path: str) -> None:
        """Write the exchanges' JSON lines to a file."""
        self._start(partial(self._written, rows, path), self._say)

    def can_save(self, rows: list[int]) -> bool:
        """True if the exchanges' packets can be read again; else a message says why not."""
        try:
            export.check_kept(self._store, export.stretches(self._store, rows))
        except KinspectError as error:
            self._say(str(error), wrong=True)
            return False
        return True

    def save(self, rows: list[int], path: str) -> None:
        """Save the exchanges' packets to a file."""
        self._start(partial(self._saved, rows, path), self._say)

    def list_packets(self, row: Row, places: list[Row], then: Callable[[str | None], None]) -> None:
        """Call `then` with the result of `packet_text`."""
        self._start(lambda: packet_text(self._store, row, places, self._style, _is_cancelled()), then)

    def _start(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Run `work` in a thread, and call `then` with what it returns, or show its error."""
        self._screen.run_worker(
            partial(self._finish, work, then), group="export", thread=True, exit_on_error=False
        )

    def _finish(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        call = self._screen.app.call_from_thread
        try:
            found = work()
        except StoppedError:
            return
        except (KinspectError, OSError) as error:
            call(self._say, str(error), wrong=True)
            return
        call(then, found)

    def _copied(self, rows: list[int]) -> str:
        app = self._screen.app
        lines: list[bytes] = []
        size = 0
        for line in self._lines(rows):
            lines.append(line)
            size += len(line)
            if size > COPIED_BYTES:
                raise KinspectError(f"more than {COPIED_BYTES:,} bytes are too many to copy: w writes a file")
        app.call_from_thread(app.copy_to_clipboard, b"".join(lines).decode())
        return f"copied {counted(len(rows), 'exchange')}, if the terminal has OSC 52; w writes a file"

    def _written(self, rows: list[int], path: str) -> str:
        with export.whole_file(path) as file:
            for line in self._lines(rows):
                file.write(line)
        return f"wrote {counted(len(rows), 'exchange')} to {path}"

    def _saved(self, rows: list[int], path: str) -> str:
        with export.whole_file(path) as file:
            saved = export.save(self._store, rows, file, _is_cancelled())
        told = f"saved {counted(saved.packets, 'packet')} to {path}"
        if saved.timeless:
            told += f"; {saved.timeless} had no time and got that of the packet before"
        if saved.tls:
            told += "; TLS stays encrypted and the secrets are not in it: to read it again, give --keylog"
        return told

    def _lines(self, rows: list[int]) -> Iterator[bytes]:
        stopped = _is_cancelled()
        for row in rows:
            yield export.json_line(self._view.exchange(self._store.exchange(row, stopped)))


def _is_cancelled() -> Callable[[], bool]:
    worker = get_current_worker()
    return lambda: worker.is_cancelled
