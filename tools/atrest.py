"""The explorer without a terminal, at rest after each key: its event loop tells when it only waits."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

from textual import events, screen
from textual.app import App
from textual.keys import key_to_character

# Nobody watches: a frame need not wait for its turn.
screen.UPDATE_PERIOD = 0.001
SOON_SECONDS = 0.03
"""Timers due so soon count as work, not as waiting: animations have 60 frames a second."""


class _Selector(selectors.DefaultSelector):
    """Selector of an event loop, which resolves `waiting` as soon as the loop would wait for files or a later timer."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[asyncio.Future[None]] = []

    def select(self, timeout: float | None = None) -> Any:
        busy = timeout is not None and timeout < SOON_SECONDS
        found = super().select(timeout if busy or not self.waiting else 0)
        if not (busy or found):
            for future in self.waiting:
                future.set_result(None)
            self.waiting.clear()
        return found


class Loop(asyncio.SelectorEventLoop):
    """An event loop with a wait for rest."""

    def __init__(self) -> None:
        self._files = _Selector()
        super().__init__(self._files)

    async def rest(self) -> None:
        """Wait until the loop has nothing to do but to wait for time, threads or files."""
        future = self.create_future()
        self._files.waiting.append(future)
        await future


def press(app: App[Any], key: str) -> None:
    """Press a key as Textual's pilot does, but without its poll for a busy process every 20 ms."""
    app.post_message(events.Key(key, key_to_character(key)))
