"""Ctrl-C ends the reading, not what is being done with what was read."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class Interrupt:
    """Within it, the first Ctrl-C stops `guard`'s iteration; `asked` tells. A second one is not held back."""

    def __init__(self) -> None:
        self.asked = False
        self._waiting = False

    def __enter__(self) -> Interrupt:
        self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._previous)

    def guard(self, items: Iterator[T]) -> Iterator[T]:
        """The items up to the first Ctrl-C; what is being done with an item then is done to its end."""
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

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        if self._waiting or self.asked:
            self.asked = True
            raise KeyboardInterrupt
        self.asked = True
