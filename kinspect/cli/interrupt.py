"""Signals that end a command: Ctrl-C, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
"""Signals that ask for an end, with the names that people know."""
ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a command which has no terminal to lose."""
ENDED_BY_SIGNAL = 128
"""Added to a signal's number to make an exit status of it, as shells do."""

PATIENCE_SECONDS = 0.5
"""Time for the work in progress after a signal that does not come from a person."""
LAST_SECONDS = 0.25
"""Time for the closing output."""


class LateError(BaseException):
    """A signal asked for an end, and there is no more time for the work in progress."""


class Interrupt:
    """Context in which the first signal (`received`) ends `guard`'s iteration, or calls `stop` if given, which ends it
    soon. The work on the current item is finished first. After SIGTERM and SIGHUP it has only `patience` seconds: then,
    as at a second signal, it is broken off by LateError. Outside of `breakable`, a second signal raises
    KeyboardInterrupt.

    SIGHUP stays ignored where it is (as by nohup). `hangup`: called first for SIGHUP; nothing ends if it returns True.
    """

    def __init__(
        self,
        stop: Callable[[], None] | None = None,
        signals: tuple[signal.Signals, ...] = ENDING,
        hangup: Callable[[], bool] | None = None,
        patience: float | None = None,
    ) -> None:
        self.received: signal.Signals | None = None
        self._hangup = hangup
        self._stop = stop
        self._signals = signals
        self._patience = PATIENCE_SECONDS if patience is None else patience
        self._late = False
        self._waiting = False
        self._breakable = False

    def __enter__(self) -> Interrupt:
        self._previous = {
            number: signal.signal(number, self._handle)
            for number in self._signals
            if number != signal.SIGHUP or self._hangup or signal.getsignal(number) is not signal.SIG_IGN
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
                # Only here may the handler raise: a wait for input would otherwise go on.
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
        """Context in which LateError may be raised, but for the wait for items."""
        try:
            self._breakable = True
            if self._late:
                # Without any time left, the closing output gets a little.
                signal.setitimer(signal.ITIMER_REAL, LAST_SECONDS, LAST_SECONDS)
            yield
        finally:
            self._breakable = False

    @property
    def name(self) -> str:
        """Name of the signal that asked for the end."""
        return SIGNALS[self.received or signal.SIGINT]

    @property
    def status(self) -> int:
        """Exit status of a command that a signal ended; 0 if none did."""
        return 0 if self.received is None else ENDED_BY_SIGNAL + self.received

    def _is_over(self) -> bool:
        return self._late if self._stop is not None else self.received is not None

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP and self._hangup is not None and self._hangup():
            return
        if self.received is not None:
            first = not self._late
            self._hurry()
            # The awaited item comes soon, and half of it would be of no use.
            if not (first and self._waiting and self._stop is not None):
                raise KeyboardInterrupt
            return
        self.received = signal.Signals(number)
        if number != signal.SIGINT:
            # Repeated: cleaning up on the way may wait too.
            signal.setitimer(signal.ITIMER_REAL, self._patience, LAST_SECONDS)
        if self._stop is not None:
            self._stop()
        elif self._waiting:
            raise KeyboardInterrupt

    def _hurry(self, *_: object) -> None:
        self._late = True
        if self._breakable and not self._waiting:
            raise LateError
