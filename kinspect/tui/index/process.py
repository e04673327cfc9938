"""The indexer in a process of its own: forked, so that it begins with all that was loaded, and before the screen is.

It sends batches through a pipe, which also tells it that nobody reads them any more.
"""

from __future__ import annotations

import os
import signal
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from kinspect.tui.index.indexer import Batch, Inputs, index
from kinspect.tui.index.spool import Spool

_NICE = 5
ENDED = "the process that reads the captures ended early: what is listed is not all"


class IndexProcess:
    """Reads `inputs` beside this process; what cannot be read again goes into `spool`."""

    def __init__(self, inputs: Inputs, spool: Spool) -> None:
        self._reader, writer = Pipe(duplex=False)
        self._pid: int | None = os.fork()
        if self._pid == 0:
            _work(self._reader, writer, inputs, spool)
        writer.close()

    def receive(self) -> Batch | str | None:
        """The next batch, when it is there; None after the last one. What went wrong is told as text."""
        try:
            received: Batch | str = self._reader.recv()
        except (EOFError, OSError):
            return None
        return received

    def stop(self) -> None:
        """End it, whatever it does; may be called again."""
        pid, self._pid = self._pid, None
        if pid is None:
            return
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _work(reader: Connection, writer: Connection, inputs: Inputs, spool: Spool) -> None:
    """What the forked process does, to its end."""
    try:
        # The keys belong to the screen's process, which says when it is over.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.nice(_NICE)
        reader.close()
        try:
            index(inputs, spool, writer.send)
        except BrokenPipeError:
            pass
        except Exception as error:
            writer.send(f"internal error: {error!r}; what is listed is not all")
    finally:
        os._exit(0)
