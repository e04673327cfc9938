"""`read --jobs`: the work of each process, and the output of all of them (see `kinspect.jobs`)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kinspect.capture import Timeline
from kinspect.cli.readrun import ReadRun, make_inspector
from kinspect.jobs import run_shared
from kinspect.jobs.linemerge import TextOutput
from kinspect.jobs.worker import Names, Nodes, WorkerJob, own_islands
from kinspect.kafka.exchange.lines import Line
from kinspect.output.tally import Tally
from kinspect.pipeline import summary_line
from kinspect.sink import WrittenLine


def read_shared(run: ReadRun, timeline: Timeline, count: int) -> dict[str, Any]:
    """Do the work of `ReadRun.run` with `count` workers; return the `summary` line's object.

    Raises what `run_shared` does, and LateError if a signal leaves no time.
    """
    run.stream.flush()
    if run.options.keylog is not None:
        # The workers would see later additions to it at different times.
        run.options.keylog.close()
    try:
        with run.interrupt.breakable():
            timeline.set_clocks()
            shares = run_shared(lambda *own: _Job(run, *own), count, _Written(run))
    finally:
        run.stop()
    run.packets.status.errors[:] = shares.errors
    run.inspector.counts = shares.counts
    if not run.nothing_read:
        run.begin()
    return summary_line(run.inspector.files, shares.counts, shares.totals, shares.unresolved)


class _Job(WorkerJob):
    """What the sinks of a worker make of the lines that pass the filter."""

    run: ReadRun

    def __init__(self, run: ReadRun, number: int, count: int) -> None:
        self.run = run
        run.give_to(sink.follow(number) for sink in run.sinks)
        run.inspector = make_inspector(run.options, run.packets, run.sinks, **own_islands(number, count))
        run.follow()
        self.lines = run.inspector.emit

    def take(self, line: Line) -> None:
        self.run.show_one(line)

    def text(self) -> bytes:
        return b"".join([sink.text() for sink in self.run.sinks])

    def part(self) -> Any:
        return {"tally": asdict(self.run.tally), "parts": [sink.part() for sink in self.run.sinks]}


class _Written(TextOutput):
    """What the workers made, for the sinks of the run."""

    def __init__(self, run: ReadRun) -> None:
        self._run = run

    def chunk(self, packets: int, bytes_read: int, told: list[Any]) -> None:
        if packets:
            self._run.begin()
        if self._run.progress is not None:
            self._run.progress.update(bytes_read)

    def learn(self, names: Names, nodes: Nodes) -> None:
        # Answers are resolved with them at the end.
        self._run.inspector.names.add(names, nodes)

    def put(self, piece: WrittenLine) -> None:
        for sink in self._run.sinks:
            sink.put(piece)

    def flush(self) -> None:
        self._run.flush()

    def merge(self, part: Any) -> None:
        tally = Tally(**part["tally"])
        self._run.tally.add(tally)
        # Each worker reads all packets.
        self._run.tally.first, self._run.tally.last = tally.first, tally.last
        for sink, own in zip(self._run.sinks, part["parts"], strict=True):
            sink.merge(own)

    def stopped(self) -> bool:
        return self._run.interrupt.received is not None
