"""The indexer in a process of its own, which is forked before the screen is made and begins with all loaded modules.

It sends batches through a pipe. A closed pipe shows that nobody reads them any more.
"""

from __future__ import annotations

import os
import signal
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import orjson

from kinspect.errors import KinspectError
from kinspect.tui.index.answers import AnswerProcess
from kinspect.tui.index.batchpipe import receive_batch, send_batch
from kinspect.tui.index.captures import index
from kinspect.tui.index.indexer import Inputs, LivePackets, RowBatch, index_live
from kinspect.tui.index.spool import Spool

_NICE = 5
ENDED = "the process that reads the captures ended early: what is listed is not all"


class IndexProcess:
    """Reads `inputs` beside this process; messages that cannot be read again go into `spool`. `packets`: a capture that
    is to be started, in place of the inputs' files. `answers`: counts answers over what was read."""

    def __init__(self, inputs: Inputs, spool: Spool, packets: LivePackets | None = None) -> None:
        self.answers = AnswerProcess(inputs, spool)
        self._reader, writer = Pipe(duplex=False)
        self._live = packets is not None
        self._pid: int | None = os.fork()
        if self._pid == 0:
            self.answers.close_inherited()
            _work(self._reader, writer, inputs, spool, packets)
        writer.close()

    def receive(self) -> RowBatch | str | None:
        """Wait for the next batch; None after the last one; an error is a text."""
        try:
            return receive_batch(self._reader)
        except (EOFError, OSError):
            return None

    def stop(self) -> None:
        """Stop reading: a live capture ends with the packets up to now, whose batches still come; files end at once."""
        if self._live:
            self._signal(signal.SIGTERM)
        else:
            self._kill()

    def leave(self) -> None:
        """End a live capture soon: waiting packets are counted and not decoded, and the last batch follows."""
        self._signal(signal.SIGUSR1)

    def _signal(self, number: int) -> None:
        if self._pid is not None:
            os.kill(self._pid, number)

    def end(self) -> None:
        """Kill the process, and the one that answers; may be called again."""
        self.answers.end()
        self._kill()

    def _kill(self) -> None:
        pid, self._pid = self._pid, None
        if pid is None:
            return
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _work(
    reader: Connection, writer: Connection, inputs: Inputs, spool: Spool, packets: LivePackets | None
) -> None:
    """Work of the forked process, to its end."""
    try:
        # The keys belong to the screen's process, which ends this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.nice(_NICE)
        reader.close()
        try:
            if packets is None:
                index(inputs, spool, lambda batch: send_batch(writer, batch))
            else:
                signal.signal(signal.SIGTERM, lambda *_: packets.stop())
                signal.signal(signal.SIGUSR1, lambda *_: packets.leave())
                index_live(inputs, spool, packets, lambda batch: send_batch(writer, batch))
        except BrokenPipeError:
            pass
        except KinspectError as error:
            writer.send_bytes(orjson.dumps(str(error)))
        except Exception as error:
            writer.send_bytes(orjson.dumps(f"internal error: {error!r}; what is listed is not all"))
    finally:
        os._exit(0)
