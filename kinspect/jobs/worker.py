"""A worker: reads the whole input, and formats the lines of its own connections."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, TypeAlias
from zlib import crc32

from kinspect import extensions
from kinspect.jobs.chunks import CHUNK_BYTES
from kinspect.jobs.workerlink import DONE, SCANNED, STOP, WorkerLink
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.model import Block
from kinspect.run import Run
from kinspect.sink import KINDS, Sink

CHUNKS_AHEAD = 4
"""Most chunks that a worker reads before it had its turn for them."""
TEXT_BYTES = 64 * 1024
"""Text that a worker sends at once; the last line may exceed it."""

# A line's place, the parts of its key (the time in two words, as it has no bound), its size, and its number among all
# lines. That number modulo the number of workers is the number of the line's worker.
ENTRY = struct.Struct("<QqQQQQQQ")
LOW_BITS = 64
_LOW = (1 << LOW_BITS) - 1
PORTS = 4
"""Bytes of both ports, at the end of a pair's key."""


Names: TypeAlias = list[tuple[str, str, LineKey]]
Nodes: TypeAlias = list[tuple[str, int, int, LineKey]]
"""What lines showed, with the key of the line: names by topic id, and addresses with the node there."""


class WorkerJob(Sink):
    """A worker's sink of a run, whose inspector has the options of `own_islands`: it takes lines when their turn has
    come, and has the text of each for the first process."""

    run: Run

    def chunk(self, names: Names, nodes: Nodes) -> Any:
        """Report to the first process beside the lines of a chunk, of types that CBOR has. `names`, `nodes`: topic
        names and node ids learned from those lines."""


def own_islands(number: int, count: int) -> dict[str, Any]:
    """Options of the `Inspector` of worker `number` of `count`: it takes its own share of the islands."""
    # By the ports alone: connections that address translation made of one are counted in one process.
    return {"takes": lambda pair: crc32(bytes(sorted(pair[-PORTS:]))) % count == number, "ordered": False}


def work(job: Callable[[int, int], WorkerJob], number: int, count: int, link: WorkerLink) -> None:
    """Run a worker: read the packets, and send its counts."""
    link.send(DONE, _Reader(job(number, count), number, count, link).read())


class _Reader:
    def __init__(self, job: WorkerJob, number: int, count: int, link: WorkerLink) -> None:
        self._job = job
        self._link = link
        # Lines by number, in order of arrival; None for dropped ones.
        self._lines: dict[int, Line | None] = {}
        self._came, self._count = number, count
        self._scanned = self._turns = 0
        self._stop: int | None = None

    def read(self) -> dict[str, Any]:
        """Read all packets, or up to the chunk at which the first process stops it. Returns this worker's counts."""
        # No line is handed on by itself: they arrive.
        for _ in self._job.run.all_lines(self._chunks):
            pass
        self._tell(True)
        while self._turns < self._scanned:
            self._hear(True)
        return {"part": self._job.part(), "extensions": extensions.kept, **self._counted()}

    def _chunks(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """The blocks; each chunk of them is reported before the block after it."""
        filled = 0
        for block in blocks:
            if filled >= CHUNK_BYTES:
                filled = 0
                self._tell(False)
                if not self._may_read():
                    return
            filled += block.ends[-1] - block.starts[0]
            yield block

    def _counted(self) -> dict[str, Any]:
        run = self._job.run
        return {
            "counts": asdict(run.counts()),
            "totals": run.inspector.totals(),
            "unresolved": list(run.inspector.names.unresolved),
            "errors": [error.values for error in run.packets.status.errors],
        }

    def _tell(self, last: bool) -> None:
        """Report the lines and names of the chunk that was read."""
        job, inspector = self._job, self._job.run.inspector
        lines, came, pack = self._lines, self._came, ENTRY.pack
        entries = []
        for place, size, line in inspector.arrived():
            time, frame, first_frame, number = line.key
            entries.append(pack(place, time >> LOW_BITS, time & _LOW, frame, first_frame, number, size, came))
            lines[came] = line if KINDS[type(line)] in job.lines else None
            came += self._count
        self._came = came
        self._scanned += 1
        counts, names = inspector.counts, inspector.learned.take_new()
        self._link.send(
            SCANNED,
            [counts.packets, counts.tcp_segments, last],
            job.run.packets.status.bytes_read,
            b"".join(entries),
            names,
            job.chunk(*names),
        )

    def _may_read(self) -> bool:
        """True if the worker is to read another chunk. Waits while it is too far ahead."""
        while self._hear(self._scanned - self._turns >= CHUNKS_AHEAD):
            pass
        return self._stop is None or self._scanned < self._stop

    def _hear(self, wait: bool) -> bool:
        """Handle the next message of the first process. Returns False if there is none."""
        message = self._link.receive(wait)
        if message is None:
            return False
        kind, *values = message
        if kind == STOP:
            (self._stop,) = values
            return True
        names, nodes, ready = values
        self._job.run.inspector.names.add(names, nodes)
        self._turns += 1
        self._send_texts(array("Q", ready))
        return True

    def _send_texts(self, ready: array[int]) -> None:
        """Send the texts of the lines with these numbers."""
        job, took = self._job, self._lines.pop
        texts, ends, size = [], array("Q"), 0
        for number in ready:
            line = took(number)
            if line is not None:
                job.take(line)
                text = job.text()
                texts.append(text)
                size += len(text)
            ends.append(size)
            if size >= TEXT_BYTES:
                self._link.send_text(ends, b"".join(texts))
                texts, ends, size = [], array("Q"), 0
        self._link.send_text(ends, b"".join(texts))
