"""The first process: gives the workers their turns, and writes the texts of their lines in the order of the run."""

from __future__ import annotations

from array import array
from collections import deque
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from kinspect import extensions
from kinspect.background import watch
from kinspect.errors import CaptureError, KinspectError, capture_error
from kinspect.jobs.worker import CHUNKS_AHEAD, ENTRY, LOW_BITS, Names, Nodes
from kinspect.jobs.workerlink import DONE, SCANNED, STOP, TEXT, TURN, JobWorker
from kinspect.kafka.wire.lineorder import LineOrder
from kinspect.model import Counts, added
from kinspect.sink import Sink, WrittenLine

_WATCH_SECONDS = 0.1

CHANGED = (
    "the captures changed while they were read, and the output may be wrong at their end;"
    " --jobs 1 reads a capture that is still being written"
)
FRAGMENT_CAPS = frozenset({"fragments", "fragment_bytes"})
"""Every worker scans all fragments."""


class TextOutput(Sink):
    """The first process's sink: the texts of the workers' lines are put into it, in order, and their parts merged."""

    def chunk(self, packets: int, bytes_read: int, told: list[Any]) -> None:
        """Take the progress of all workers in packets and bytes. `told`: what `WorkerJob.chunk` of each returned."""

    def learn(self, names: Names, nodes: Nodes) -> None:
        """Take the topic names and node ids that all workers learned from the lines of a chunk."""

    def stopped(self) -> bool:
        """True if no more lines are to be written."""
        return False


class WorkerTotals(NamedTuple):
    """Counts of all workers. `counts`: of the packets, the same for each worker; `totals`: the sum of their
    `Ledger.totals`; `unresolved`: number of topic ids without a name."""

    counts: Counts
    totals: dict[str, Any]
    unresolved: int
    errors: list[CaptureError]


class LineMerge:
    """One run with these workers: merges their lines into the order of the run."""

    def __init__(self, output: TextOutput, workers: list[JobWorker]) -> None:
        self._output = output
        self._workers = workers
        self._order: LineOrder[int] = LineOrder()  # line numbers
        self._due: deque[int] = deque()  # workers whose lines are written next
        self._text = b""  # the received part of the next line
        self._turns = 0
        self._last = False
        self._asked = False

    def run(self) -> WorkerTotals:
        """Run until all workers are done. Raises KinspectError if a worker died or if workers read different input,
        and the exceptions that workers raise."""
        while at_work := {worker.channel: worker for worker in self._workers if worker.share is None}:
            for channel in watch(at_work, _WATCH_SECONDS):
                self._hear(at_work[channel])
            while all(worker.scanned for worker in self._workers):
                self._turn([worker.scanned.popleft() for worker in self._workers])
            self._write()
            self._stop()
        return self._add_up([worker.share or {} for worker in self._workers])

    def _hear(self, worker: JobWorker) -> None:
        """Take what has come from a worker."""
        while worker.share is None and (message := worker.receive(0)):
            kind, *values = message
            if kind == SCANNED:
                worker.scanned.append(values)
            elif kind == TEXT:
                worker.take_text(*values)
            elif kind == DONE:
                (worker.share,) = values

    def _turn(self, told: list[Any]) -> None:
        """Put the lines of a chunk in order once all workers reported it, and give the workers their turn."""
        order = self._order
        agreed, bytes_read, *_ = told[0]
        if self._last or any(each[0] != agreed for each in told):
            raise KinspectError(CHANGED)
        packets, segments, self._last = agreed
        self._output.chunk(packets, bytes_read, [each[-1] for each in told])
        entries = [entry for _, _, packed, *_ in told for entry in ENTRY.iter_unpack(packed)]
        entries.sort(key=itemgetter(0))
        for place, high, low, frame, first_frame, number, size, line in entries:
            order.add((high << LOW_BITS | low, frame, first_frame, number), place, size, line)
        order.pass_to(segments)
        if self._last:
            order.rest()
        ready = [array("Q") for _ in told]
        lines = order.ready()
        owners = [line % len(told) for line in lines]
        for owner, line in zip(owners, lines, strict=True):
            ready[owner].append(line)
        self._due += owners
        names = [*chain.from_iterable(new[0] for *_, new, _ in told)]
        nodes = [*chain.from_iterable(new[1] for *_, new, _ in told)]
        self._output.learn(names, nodes)
        for worker, own in zip(self._workers, ready, strict=True):
            worker.channel.queue(TURN, names, nodes, own.tobytes())
        self._turns += 1

    def _write(self) -> None:
        """Write the texts that have arrived, up to the first line that is not whole."""
        due, workers, came = self._due, self._workers, False
        while due and (pieces := (worker := workers[number := due[0]]).pieces):
            text, ends = pieces.popleft()
            came = True
            worker.taken += len(text)
            self._text += text
            if ends:
                due.popleft()
                if self._text:
                    self._output.put(WrittenLine(self._text, worker=number))
                    self._text = b""
        if came:
            self._output.flush()
            for worker in workers:
                worker.tell_taken()

    def _stop(self) -> None:
        """Stop all workers at the same chunk if no more lines are to be written. It is one that none has reached."""
        if not self._asked and self._output.stopped():
            self._asked = True
            for worker in self._workers:
                worker.channel.queue(STOP, self._turns + CHUNKS_AHEAD)

    def _add_up(self, shares: list[dict[str, Any]]) -> WorkerTotals:
        first = shares[0]
        totals: dict[str, Any] = {}
        unresolved: set[str] = set()
        for share in shares:
            totals = added(totals, share["totals"])
            unresolved.update(share["unresolved"])
        for cap in FRAGMENT_CAPS & totals["caps_hit"].keys():
            totals["caps_hit"][cap] = first["totals"]["caps_hit"][cap]
        totals["late_lines"] = self._order.late
        errors = [capture_error(*error) for error in first["errors"]]
        for line in first["extensions"]:
            extensions.tell(line)
        for share in shares:
            self._output.merge(share["part"])
        return WorkerTotals(Counts(**first["counts"]), totals, len(unresolved), errors)
