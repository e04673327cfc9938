"""The explorer's application: the screen shows rows while another process adds more."""

from __future__ import annotations

import asyncio
import os
import signal
from types import FrameType
from typing import ClassVar

from textual import on, work
from textual.actions import SkipAction
from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import Input
from textual.worker import WorkerFailed

from kinspect.errors import CaptureError
from kinspect.kafka.view.view import View
from kinspect.tui.index.indexer import RowBatch
from kinspect.tui.index.indexprocess import IndexProcess
from kinspect.tui.index.shownpayloads import ShownPayloads
from kinspect.tui.index.store import Store
from kinspect.tui.screens.main import Main
from kinspect.tui.terminal import Terminal, TerminalDriver

LOOK_SECONDS = 0.5
"""Interval of the checks that the terminal is still there."""


PATIENCE_SECONDS = 0.5
"""Time after a signal for the work in progress."""
SIGNALLED = 128
"""Added to a signal's number to make an exit status of it, as shells do."""


class Explorer(App[None]):
    """Shows the exchanges in `store`, and those that `rows` add to it."""

    TITLE = "kinspect explore"
    ENABLE_COMMAND_PALETTE = False
    # Priority: without it, keys pressed on a screen above the first one do not get here.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Quit", show=False, priority=True)
    ]

    def __init__(
        self,
        store: Store,
        rows: IndexProcess,
        view: View,
        payloads: ShownPayloads,
        *,
        utc: bool = False,
        text: str = "",
    ) -> None:
        super().__init__(driver_class=TerminalDriver)
        self.store = store
        self._rows = rows
        self._terminal = Terminal()
        self.main = Main(store, rows.answers, view, payloads, utc=utc, text=text)
        self.ended_by = 0
        """The signal that ended it; SIGHUP too if the terminal went without one."""
        self.failures: list[BaseException] = []
        """Unexpected errors, to be reported by the caller at the end."""

    def on_mount(self) -> None:
        self.push_screen(self.main)
        self._events = asyncio.get_running_loop()
        # Not by the loop's own handlers, which do not run while it is busy.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._end_soon)
        self.set_interval(LOOK_SECONDS, self._look)
        self._receive()

    def _look(self) -> None:
        if self._terminal.is_gone():
            self._end(signal.SIGHUP)

    def _end_soon(self, number: int, _frame: FrameType | None) -> None:
        self.ended_by = number
        signal.signal(signal.SIGALRM, self._end_now)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
        self._events.call_soon_threadsafe(self._end, number)

    def _end_now(self, *_: object) -> None:
        """Restore the terminal, and end the process with all its threads."""
        try:
            if self._driver is not None:
                self._driver.stop_application_mode()
                self._driver.close()
            self._rows.stop()
            self._rows.answers.end()
        finally:
            os._exit(SIGNALLED + self.ended_by)

    def _end(self, number: int) -> None:
        self.ended_by = number
        if self._terminal.is_gone():
            self._terminal.leave()
        self.exit()

    @on(Main.Failed)
    def _failed(self, event: Main.Failed) -> None:
        self.failures.append(event.error)

    def _handle_exception(self, error: Exception) -> None:
        self.failures.append(error.error if isinstance(error, WorkerFailed) else error)
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        # Textual's prints a traceback with the values of variables, which come from captures.
        self._close_messages_no_wait()

    @work(thread=True, exit_on_error=True)
    def _receive(self) -> None:
        """Take batches until there are no more."""
        while not self.store.done:
            batch = self._rows.receive()
            if not self.is_running:
                if isinstance(batch, RowBatch):
                    self.store.add(batch)
                return
            self.call_from_thread(self._take, batch)

    def _take(self, batch: RowBatch | str | None) -> None:
        store = self.store
        if isinstance(batch, RowBatch):
            store.add(batch)
        elif not store.done:
            store.done = True
            if batch is not None:
                store.errors.append((CaptureError.status, batch))
        self.main.grown()

    def action_stop(self) -> None:
        """Stop reading; rows read so far stay."""
        if not self.store.done:
            self.store.stopped = True
            self._rows.stop()

    def action_interrupt(self) -> None:
        """Quit; where text is selected, leave the key to the widget that copies it."""
        focused = self.screen.focused
        in_input = isinstance(focused, Input) and focused.selected_text
        if in_input or self.screen.get_selected_text() is not None:
            raise SkipAction
        self.exit()

    def on_unmount(self) -> None:
        self._rows.stop()
        self._rows.answers.end()
