"""The indexer in a process of its own, which is forked before the screen is made and begins with all loaded modules.

It sends batches as JSON and plain bytes, neither of which can become code, through a pipe. A closed pipe shows that
nobody reads them any more.
"""

from __future__ import annotations

import os
import signal
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import orjson

from kinspect.errors import KinspectError
from kinspect.tui.index.captures import index
from kinspect.tui.index.indexer import Inputs, LivePackets, RowBatch, index_live
from kinspect.tui.index.spool import Spool

_NICE = 5
ENDED = "the process that reads the captures ended early: what is listed is not all"


class IndexProcess:
    """Reads `inputs` beside this process; messages that cannot be read again go into `spool`. `packets`: a capture that
    is to be started, in place of the inputs' files."""

    def __init__(self, inputs: Inputs, spool: Spool, packets: LivePackets | None = None) -> None:
        self._reader, writer = Pipe(duplex=False)
        self._live = packets is not None
        self._pid: int | None = os.fork()
        if self._pid == 0:
            _work(self._reader, writer, inputs, spool, packets)
        writer.close()

    def receive(self) -> RowBatch | str | None:
        """Wait for the next batch; None after the last one; an error is a text."""
        try:
            told = orjson.loads(self._reader.recv_bytes())
            if isinstance(told, str):
                return told
            rows, texts = self._reader.recv_bytes(), self._reader.recv_bytes()
        except (EOFError, OSError):
            return None
        return _received(told, rows, texts)

    def stop(self) -> None:
        """Stop reading: a live capture ends with the packets up to now, whose batches still come; files end at once."""
        if self._live:
            self._signal(signal.SIGTERM)
        else:
            self.end()

    def leave(self) -> None:
        """End a live capture soon: waiting packets are counted and not decoded, and the last batch follows."""
        self._signal(signal.SIGUSR1)

    def _signal(self, number: int) -> None:
        if self._pid is not None:
            os.kill(self._pid, number)

    def end(self) -> None:
        """Kill the process; may be called again."""
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
                index(inputs, spool, lambda batch: _send(writer, batch))
            else:
                signal.signal(signal.SIGTERM, lambda *_: packets.stop())
                signal.signal(signal.SIGUSR1, lambda *_: packets.leave())
                index_live(inputs, spool, packets, lambda batch: _send(writer, batch))
        except BrokenPipeError:
            pass
        except KinspectError as error:
            writer.send_bytes(orjson.dumps(str(error)))
        except Exception as error:
            writer.send_bytes(orjson.dumps(f"internal error: {error!r}; what is listed is not all"))
    finally:
        os._exit(0)


def _send(writer: Connection, batch: RowBatch) -> None:
    """Send a batch in three pieces: the rest, rows, and texts (JSON, so that no line feed is in them)."""
    descriptions = [(file, offset, block.hex()) for file, offset, block in batch.descriptions]
    apart = {"rows": None, "texts": None, "descriptions": descriptions}
    writer.send_bytes(orjson.dumps({**batch._asdict(), **apart}))
    writer.send_bytes(batch.rows)
    writer.send_bytes(b"\n".join(batch.texts))


def _received(told: dict[str, Any], rows: bytes, texts: bytes) -> RowBatch:
    told["descriptions"] = [
        (file, offset, bytes.fromhex(block)) for file, offset, block in told["descriptions"]
    ]
    told["names"] = [(topic_id, name, tuple(key)) for topic_id, name, key in told["names"]]
    told["nodes"] = [(ip, port, node_id, tuple(key)) for ip, port, node_id, key in told["nodes"]]
    return RowBatch(**{**told, "rows": rows, "texts": texts.split(b"\n") if texts else []})
