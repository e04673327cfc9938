"""Answers counted in processes of their own, each forked from one that waits for questions.

That one is forked before the screen is made, and holds none of its threads. A question has a channel of its own, which
ends as soon as nobody waits for the answer; then the process does, too.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Container
from contextlib import closing, suppress
from functools import partial

from kinspect.background import OWN, Channel, Child, ElsewhereError, LostError, spoken
from kinspect.errors import KinspectError
from kinspect.tui.index.counting import AnswerQuery, AnswerResult, count
from kinspect.tui.index.indexer import Inputs, RowBatch
from kinspect.tui.index.reread import StoppedError
from kinspect.tui.index.spool import Spool

NICE = 5
TOLD_SECONDS = 0.1
"""Time between two reports on how far a process is."""
LOOK_SECONDS = 0.05
"""Interval of the checks that somebody still waits for the result."""
ASK, PART, REPLY = range(OWN, OWN + 3)
_WHO = "the process that counts"
_STANDARD = 2
"""The last of the standard streams."""


class AnswerProcess:
    """Counts answers over the rows of a store that has these inputs and this spool."""

    def __init__(self, inputs: Inputs, spool: Spool) -> None:
        # The keys belong to the screen's process, which ends this one.
        self.child = Child(_WHO, partial(_serve, inputs, spool), ignored=(signal.SIGINT,), nice=NICE)
        self.end = self.child.end

    def answer(
        self, query: AnswerQuery, stopped: Callable[[], bool], tell: Callable[[float], None]
    ) -> AnswerResult:
        """Wait for the answer to a question; `tell` is called now and then with the part that is done.

        Raises KinspectError, and StoppedError if `stopped` returns true meanwhile.
        """
        ours, theirs = socket.socketpair()
        with closing(Channel(ours)) as channel:
            try:
                with theirs:
                    self.child.channel.pass_on(theirs)
                # If the process ends before it has got all, the reason is reported.
                with suppress(LostError):
                    channel.send(ASK, *query)
                while not stopped():
                    message = channel.receive(LOOK_SECONDS)
                    if message is None:
                        continue
                    kind, *values = message
                    if kind == REPLY:
                        return AnswerResult(*values)
                    tell(*values)
            except LostError:
                raise KinspectError(self.child.why()) from None
            except (OSError, ElsewhereError) as error:
                raise KinspectError(spoken(error)) from None
        raise StoppedError


def _serve(inputs: Inputs, spool: Spool, asks: Channel) -> None:
    """For each question start another process, until this one is ended."""
    close_others((asks.fileno(), spool.fileno()))
    while True:
        end = asks.passed_on()
        child = Child(_WHO, partial(_work, inputs, spool, end))
        with closing(Channel(end)) as channel:
            _wait_for_end(channel, child.channel)
            # It says no more than what went wrong.
            try:
                child.receive(0)
            except Exception as error:
                with suppress(LostError):
                    channel.fail(error, _WHO)
            child.end()


def _wait_for_end(*channels: Channel) -> None:
    """Wait until the other end of one of them is closed."""
    poll = select.poll()
    for channel in channels:
        poll.register(channel, 0)
    poll.poll()


def close_others(kept: Container[int]) -> None:
    """Close all files but these and the standard outputs: other processes wait for the end of some, as the one that
    writes to standard input."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in map(int, os.listdir("/dev/fd")):
        if number > _STANDARD and number not in kept:
            # The one that listed them is closed already.
            with suppress(OSError):
                os.close(number)


def _work(inputs: Inputs, spool: Spool, end: socket.socket, _: Channel) -> None:
    """Answer the question that comes over a channel."""
    channel, told = Channel(end), 0.0

    def tell(part: float) -> None:
        nonlocal told
        if time.monotonic() - told > TOLD_SECONDS:
            told = time.monotonic()
            channel.send(PART, part)

    query = AnswerQuery(*(channel.receive() or [])[1:])
    kept = None if query.kept is None else RowBatch.told(query.kept)
    channel.send(REPLY, *count(inputs, spool, query._replace(kept=kept), tell))
