"""The explorer without a terminal, at rest after each key: its event loop tells when nothing is left but to wait."""

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
"""What is due so soon is not waited for, it is done: things that slide do so 60 times a second."""


class _Selector(selectors.DefaultSelector):
    """What a loop asks for files, and would wait for them so many seconds: none while it has something to do."""

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
    """An event loop to rest in."""

    def __init__(self) -> None:
        self._files = _Selector()
        super().__init__(self._files)

    async def rest(self) -> None:
        """Wait until nothing is left to do but to wait: for time, threads or files."""
        future = self.create_future()
        self._files.waiting.append(future)
        await future


def press(app: App[Any], key: str) -> None:
    """As Textual's pilot does, which then looks every 20 ms whether the process is busy."""
    app.post_message(events.Key(key, key_to_character(key)))
