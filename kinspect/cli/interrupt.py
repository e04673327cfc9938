"""Ctrl-C or SIGTERM ends the reading, not what is being done with what was read."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
"""The signals that ask for an end, as people call them."""
ENDED_BY_SIGNAL = 128
"""What a shell adds to a signal's number to make an exit status of it."""


class Interrupt:
    """Within it, the first Ctrl-C or SIGTERM stops `guard`'s iteration; `asked` is that signal. A second one is not
    held back.
    """

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None
        self._waiting = False

    def __enter__(self) -> Interrupt:
        self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def guard(self, items: Iterator[T]) -> Iterator[T]:
        """The items up to the first signal; what is being done with an item then is done to its end."""
        while not self.asked:
            try:
                # Only here may the handler break in: what waits for input would otherwise wait on.
                self._waiting = True
                if self.asked:
                    return
                item = next(items)
                self._waiting = False
            except (StopIteration, KeyboardInterrupt):
                return
            finally:
                self._waiting = False
            yield item

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        again = self.asked is not None
        self.asked = self.asked or signal.Signals(number)
        if self._waiting or again:
            raise KeyboardInterrupt
