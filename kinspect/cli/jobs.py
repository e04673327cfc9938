"""`read --jobs`: the work of each process, and the output of all of them (see `kinspect.jobs`)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kinspect.capture import Timeline
from kinspect.cli.options import EXCHANGE
from kinspect.cli.run import ReadRun, make_inspector
from kinspect.cli.sink import SharedSink
from kinspect.jobs import run_shared
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.output import LINE_FORMATS, LineTexts, line_texts
from kinspect.output.ordered import Ordered
from kinspect.output.tally import Tally
from kinspect.pipeline import summary_line

if TYPE_CHECKING:
    from kinspect.analysis.answer import Answer

_LARGE_PIECE = 16 * 1024
"""Size from which pieces of text (on average over a write) are written one by one, not joined."""


def read_shared(
    run: ReadRun, timeline: Timeline, count: int, answer: Answer | Ordered | None = None
) -> dict[str, Any]:
    """Do the work of `ReadRun.run` with `count` workers; return the `summary` line's object. `answer`: what the run
    counts or keeps, where it writes no lines yet.

    Raises what `run_shared` does, and LateError if a signal leaves no time.
    """
    run.stream.flush()
    if run.options.keylog is not None:
        # The workers would see later additions to it at different times.
        run.options.keylog.close()
    try:
        with run.interrupt.breakable():
            timeline.set_clocks()
            shares = run_shared(
                lambda *own: _job(run, answer, *own),
                count,
                _Written(run),
            )
    finally:
        run.stop()
    run.packets.status.errors[:] = shares.errors
    run.inspector.counts = shares.counts
    if not run.nothing_read:
        run.begin()
    if answer is not None:
        for own in shares.own:
            part: Any = answer.from_bytes(own["counted"])
            answer.merge(part)
    for own in shares.own:
        for sink, written in zip(_shared(run), own.get("written", ()), strict=True):
            sink.add_share(written)
    first, *others = [Tally(**own["tally"]) for own in shares.own]
    for tally in (first, *others):
        run.tally.add(tally)
    run.tally.first, run.tally.last = first.first, first.last
    return summary_line(run.inspector.files, shares.counts, shares.totals, shares.unresolved)


def _shared(run: ReadRun) -> list[SharedSink]:
    """The sinks that each process has."""
    return [sink for sink in run.sinks if isinstance(sink, SharedSink)]


def _job(run: ReadRun, answer: Answer | Ordered | None, number: int, count: int) -> _Reading:
    if answer is not None:
        return _Counting(run, answer, number, count)
    return (_Writing if _shared(run) else _Reading)(run, number, count)


class _Reading:
    """A worker's `WorkerJob`: the lines that pass the filter, as text."""

    def __init__(self, run: ReadRun, number: int, count: int) -> None:
        from kinspect.jobs.worker import own_islands

        self.run = run
        taken = frozenset[str]().union(*(sink.lines for sink in run.sinks))
        run.inspector = make_inspector(run.options, run.packets, taken, **own_islands(number, count))
        name, view = run.options.format_name, run.options.view
        run.writer = self._kept = _Kept(line_texts(name, view) if name in LINE_FORMATS else None)
        run.follow()
        self._shown = EXCHANGE in run.inspector.emit

    def wants(self, line: Line) -> bool:
        return self._shown or not isinstance(line, Exchange)

    def text(self, line: Line) -> bytes:
        self._kept.text = b""
        self.run.show_one(line)
        return self._kept.text

    def chunk(self, *_: Any) -> Any:
        """Send nothing beside the lines."""

    def share(self) -> dict[str, Any]:
        return {"tally": asdict(self.run.tally)}


class _Counting(_Reading):
    """A worker's `WorkerJob` where lines are counted or kept, not written."""

    def __init__(self, run: ReadRun, answer: Answer | Ordered, number: int, count: int) -> None:
        counted = run.writer
        super().__init__(run, number, count)
        self._answer = answer
        run.writer = counted

    def wants(self, line: Line) -> bool:
        return True

    def text(self, line: Line) -> bytes:
        self.run.show_one(line)
        return b""

    def chunk(self, *learned: Any) -> Any:
        """The names learned, which rows are resolved with at the end."""
        return learned

    def share(self) -> dict[str, Any]:
        return {**super().share(), "counted": self._answer.to_bytes()}


class _Writing(_Reading):
    """A worker's `WorkerJob` where each process writes what its sinks take."""

    def __init__(self, run: ReadRun, number: int, count: int) -> None:
        super().__init__(run, number, count)
        for sink in _shared(run):
            sink.follow(number)

    def wants(self, line: Line) -> bool:
        return True

    def share(self) -> dict[str, Any]:
        return {**super().share(), "written": [sink.share() for sink in _shared(self.run)]}


class _Kept:
    """The writer of one line at a time. `texts`: those of its format; None: it has no lines."""

    def __init__(self, texts: LineTexts | None) -> None:
        self._texts = texts
        self.text = b""

    def exchange(self, exchange: Exchange) -> None:
        if self._texts is not None:
            self.text = self._texts.exchange(exchange)

    def line(self, line: dict[str, Any]) -> None:
        if self._texts is not None:
            self.text = self._texts.line(line)

    def flush(self) -> None:
        """Nothing is buffered: each line is whole."""


class _Written:
    """The `TextOutput` of all workers."""

    def __init__(self, run: ReadRun) -> None:
        self._run = run

    def chunk(self, packets: int, bytes_read: int, told: list[Any]) -> None:
        if packets:
            self._run.begin()
        for learned in filter(None, told):
            self._run.inspector.names.add(*learned)
        if self._run.progress is not None:
            self._run.progress.update(bytes_read)

    def write(self, pieces: list[tuple[int, memoryview, bool]]) -> None:
        stream = self._run.stream.file
        views: list[memoryview] | list[bytes] = [piece for _, piece, _ in pieces]
        if sum(map(len, views)) < _LARGE_PIECE * len(views):
            views = [b"".join(views)]
        stream.writelines(views)
        stream.flush()

    def stopped(self) -> bool:
        return self._run.interrupt.received is not None
