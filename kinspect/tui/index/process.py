"""The indexer in a process of its own, which is forked before the screen is made and begins with all loaded modules.

It sends batches through a pipe. A closed pipe shows that nobody reads them any more.
"""

from __future__ import annotations

import signal
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from kinspect import extensions
from kinspect.background import Child, spoken, telling
from kinspect.tui.index.answerprocess import NICE, AnswerProcess
from kinspect.tui.index.batchpipe import receive_batch, send_batch, send_error
from kinspect.tui.index.captures import index
from kinspect.tui.index.indexer import Inputs, LivePackets, RowBatch, index_live
from kinspect.tui.index.spool import Spool

ENDED = "the process that reads the captures ended early: what is listed is not all"


class IndexProcess:
    """Reads `inputs` beside this process; messages that cannot be read again go into `spool`. `packets`: a capture that
    is to be started, in place of the inputs' files. `answers`: counts answers over what was read."""

    def __init__(self, inputs: Inputs, spool: Spool, packets: LivePackets | None = None) -> None:
        self.answers = AnswerProcess(inputs, spool)
        self._reader, writer = Pipe(duplex=False)
        self._live = packets is not None
        self.child = Child(
            partial(_work, writer, inputs, spool, packets),
            foreign=(self._reader.fileno(), self.answers.fileno()),
            # The keys belong to the screen's process, which ends this one.
            ignored=(signal.SIGINT,),
            nice=NICE,
        )
        writer.close()

    def receive(self) -> RowBatch | str | None:
        """Wait for the next batch; None after the last one; an error is a text."""
        try:
            batch = receive_batch(self._reader)
        except (EOFError, OSError):
            return None
        return batch if isinstance(batch, RowBatch) else spoken(batch, "; what is listed is not all")

    def stop(self) -> None:
        """Stop reading: a live capture ends with the packets up to now, whose batches still come; files end at once."""
        if self._live:
            self.child.tell(signal.SIGTERM)
        else:
            self.child.end()

    def leave(self) -> None:
        """End a live capture soon: waiting packets are counted and not decoded, and the last batch follows."""
        self.child.tell(signal.SIGUSR1)

    def end(self) -> None:
        """Kill the process, and the one that answers; may be called again."""
        self.answers.end()
        self.child.end()


def _work(writer: Connection, inputs: Inputs, spool: Spool, packets: LivePackets | None) -> None:
    """Read, and send batches, or what went wrong."""
    # They go with the last batch.
    extensions.tell = extensions.kept.append
    send = partial(send_batch, writer)
    if packets is None:
        work = partial(index, inputs, spool, send)
    else:
        signal.signal(signal.SIGTERM, lambda *_: packets.stop())
        signal.signal(signal.SIGUSR1, lambda *_: packets.leave())
        work = partial(index_live, inputs, spool, packets, send)
    telling(work, partial(send_error, writer), BrokenPipeError, "the process that reads")
