"""Signals that ask for an end: Ctrl-C, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
"""The signals that ask for an end, as people call them."""
ENDING = (signal.SIGINT, signal.SIGTERM)
"""Those that end what has no terminal to lose."""
ENDED_BY_SIGNAL = 128
"""What a shell adds to a signal's number to make an exit status of it."""

PATIENCE_SECONDS = 0.5
"""So long after a signal that does not come from a person, what is being done goes on."""
LAST_SECONDS = 0.25
"""So long may take what is said at the end."""


class LateError(BaseException):
    """A signal asked for an end, and there is no more time for what is being done."""


class Interrupt:
    """Within it, the first signal ends `guard`'s iteration, or calls `stop` if there is one, which is to end it soon.
    `asked` is that signal. What is being done with an item is done to its end; after SIGTERM and SIGHUP for
    `PATIENCE_SECONDS` only: then LateError is raised in it, as by a second signal. Where nobody is `breakable`, that
    raises KeyboardInterrupt.

    SIGHUP stays ignored where it is (as by nohup).
    """

    def __init__(
        self, stop: Callable[[], None] | None = None, signals: tuple[signal.Signals, ...] = ENDING
    ) -> None:
        self.asked: signal.Signals | None = None
        self._stop = stop
        self._signals = signals
        self._late = False
        self._follows = False
        self._waiting = False
        self._breakable = False

    def __enter__(self) -> Interrupt:
        self._previous = {
            number: signal.signal(number, self._handle)
            for number in self._signals
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
        }
        self._previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._hurry)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def guard(self, items: Iterator[T]) -> Iterator[T]:
        """The items up to the first signal; with `stop`, to their end, or until there is no more time."""
        while not self._is_over():
            try:
                # Only here may the handler break in: what waits for input would otherwise wait on.
                self._waiting = True
                if self._is_over():
                    return
                item = next(items)
                self._waiting = False
            except (StopIteration, KeyboardInterrupt):
                return
            finally:
                self._waiting = False
            yield item

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """What is done within it, but for the waiting for items, may be ended by LateError."""
        try:
            self._breakable = True
            if self._late:
                # There was no time even before this: what is said at the end has a little.
                signal.setitimer(signal.ITIMER_REAL, LAST_SECONDS, LAST_SECONDS)
            yield
        finally:
            self._breakable = False

    def follow(self) -> None:
        """This is a process beside the first one, which sees to the time."""
        self._follows = True
        self._breakable = False

    @property
    def name(self) -> str:
        """What asked for the end."""
        return SIGNALS[self.asked or signal.SIGINT]

    @property
    def status(self) -> int:
        """What a command ends with that a signal ended; 0 if none did."""
        return 0 if self.asked is None else ENDED_BY_SIGNAL + self.asked

    def _is_over(self) -> bool:
        return self._late if self._stop is not None else self.asked is not None

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.asked is not None:
            first = not self._late
            self._hurry()
            # What is waited for comes soon, and half of it would be of no use.
            if not (first and self._waiting and self._stop is not None):
                raise KeyboardInterrupt
            return
        self.asked = signal.Signals(number)
        if number != signal.SIGINT and not self._follows:
            # Again and again: what is cleaned up on the way may wait too.
            signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS, LAST_SECONDS)
        if self._stop is not None:
            self._stop()
        elif self._waiting:
            raise KeyboardInterrupt

    def _hurry(self, *_: object) -> None:
        self._late = True
        if self._breakable and not self._waiting:
            raise LateError
