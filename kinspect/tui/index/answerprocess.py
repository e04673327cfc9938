"""Answers counted in processes of their own, each forked from one that waits for questions.

That one is forked before the screen is made, and holds none of its threads. Questions and results are JSON and plain
bytes. A process ends as soon as nobody waits for its result.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Container
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import orjson

from kinspect import extensions
from kinspect.background import Child, error_from, spoken, telling
from kinspect.errors import KinspectError
from kinspect.tui.index.batchpipe import receive_batch, send_batch
from kinspect.tui.index.counting import Question, Reply, count
from kinspect.tui.index.indexer import Inputs
from kinspect.tui.index.reread import StoppedError
from kinspect.tui.index.spool import Spool

NICE = 5
TOLD_SECONDS = 0.1
"""Time between two reports on how far a process is."""
LOOK_SECONDS = 0.05
"""Interval of the checks that somebody still waits for the result."""
_STANDARD = 2
"""The last of the standard streams."""


class AnswerProcess:
    """Counts answers over the rows of a store that has these inputs and this spool."""

    def __init__(self, inputs: Inputs, spool: Spool) -> None:
        self._asks, asked = socket.socketpair()
        # The keys belong to the screen's process, which ends this one; the system removes ended processes.
        ignored = signal.SIGINT, signal.SIGCHLD
        self.child = Child(partial(_serve, asked, inputs, spool), ignored=ignored, nice=NICE)
        asked.close()

    def answer(self, question: Question, stopped: Callable[[], bool], tell: Callable[[float], None]) -> Reply:
        """Wait for the answer to a question; `tell` is called now and then with the part that is done.

        Raises KinspectError, and StoppedError if `stopped` returns true meanwhile.
        """
        ours, theirs = Pipe()
        with ours:
            with theirs:
                self._hand_over(theirs)
            try:
                _ask(ours, question)
                while not stopped():
                    if not ours.poll(LOOK_SECONDS):
                        continue
                    told = orjson.loads(ours.recv_bytes())
                    if isinstance(told, dict):
                        raise KinspectError(spoken(error_from(told["error"])))
                    if isinstance(told, list):
                        return Reply(*told)
                    tell(told)
            except (EOFError, OSError):
                raise KinspectError("the process that counts ended early") from None
        raise StoppedError

    def _hand_over(self, connection: Connection) -> None:
        try:
            socket.send_fds(self._asks, [b"?"], [connection.fileno()])
        except OSError:
            raise KinspectError("the process that counts has ended") from None

    def fileno(self) -> int:
        """Descriptor of this process's end: the process that waits for questions ends when nobody holds it."""
        return self._asks.fileno()

    def end(self) -> None:
        """Kill the process that waits for questions; may be called again."""
        self.child.end()
        self._asks.close()


def _ask(connection: Connection, question: Question) -> None:
    head = {**question._asdict(), "listed": None, "kept": question.kept is not None}
    connection.send_bytes(orjson.dumps(head))
    connection.send_bytes(question.listed)
    if question.kept is not None:
        send_batch(connection, question.kept)


def _asked(connection: Connection) -> Question:
    head: dict[str, Any] = orjson.loads(connection.recv_bytes())
    listed = connection.recv_bytes()
    kept = receive_batch(connection) if head["kept"] else None
    assert not isinstance(kept, BaseException)
    return Question(**{**head, "listed": listed, "kept": kept})


def _serve(asked: socket.socket, inputs: Inputs, spool: Spool) -> None:
    """For each question start another process, until this one is ended."""
    _close_others((asked.fileno(), spool.fileno()))
    while connections := socket.recv_fds(asked, 1, 1)[1]:
        (connection,) = connections
        Child(partial(_work, connection, inputs, spool), foreign=(asked.fileno(),))
        os.close(connection)


def _close_others(kept: Container[int]) -> None:
    """Close all files but these and the standard outputs: other processes wait for the end of some, as the one that
    writes to standard input."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in map(int, os.listdir("/dev/fd")):
        if number > _STANDARD and number not in kept:
            # The one that listed them is closed already.
            with suppress(OSError):
                os.close(number)


def _work(descriptor: int, inputs: Inputs, spool: Spool) -> None:
    """Answer the question that comes over a connection."""
    # The process that reads the captures has them too.
    extensions.tell = extensions.kept.append
    connection, told = Connection(descriptor), 0.0

    def tell(part: float) -> None:
        nonlocal told
        if time.monotonic() - told > TOLD_SECONDS:
            told = time.monotonic()
            connection.send_bytes(orjson.dumps(part))

    telling(
        lambda: connection.send_bytes(orjson.dumps([*count(inputs, spool, _asked(connection), tell)])),
        lambda error: connection.send_bytes(orjson.dumps({"error": error})),
        (BrokenPipeError, EOFError),
        "the process that counts",
    )
