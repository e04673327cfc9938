"""Rows of large captures, made by several processes (see `kinspect.jobs`), the same as those of one process."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from typing import Any, cast

import cbor2

from kinspect.capture import Timeline
from kinspect.jobs import run_shared
from kinspect.jobs.linemerge import TextOutput
from kinspect.jobs.worker import Names, Nodes, WorkerJob, own_islands
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.pipeline import EXCHANGES_ONLY, summary_line
from kinspect.sink import WrittenLine
from kinspect.tui.index import row
from kinspect.tui.index.indexer import (
    BATCH_ROWS,
    BATCH_SECONDS,
    NO_METADATA,
    CaptureRun,
    Inputs,
    Metadata,
    OfferedNames,
    PendingBatch,
    RowBatch,
    RowMaker,
)
from kinspect.tui.index.spool import Messages, Spool
from kinspect.tui.index.texts import UNKEPT, TextNumbers


def index_shared(
    inputs: Inputs, spool: Spool, timeline: Timeline, count: int, send: Callable[[RowBatch], None]
) -> None:
    """Index the inputs like `captures.index`, with `count` workers. Raises the errors of `run_shared` and `send`."""
    merged = _Merged(spool, timeline.bytes_total, send)
    try:
        shares = run_shared(lambda *own: _Indexing(inputs, timeline, *own), count, merged)
    finally:
        timeline.close()
    summary = summary_line(inputs.names, shares.counts, shares.totals, shares.unresolved)
    send(merged.batch().ended(shares.errors, summary))


class _Indexing(WorkerJob):
    """The text of an exchange is its row, followed in CBOR by everything new with it: texts, names for filters, names
    that it reported, and its messages if they cannot be read again."""

    lines = EXCHANGES_ONLY

    def __init__(self, inputs: Inputs, timeline: Timeline, number: int, count: int) -> None:
        self._first = number == 0  # it sends where packets are
        plain = inputs.plain
        inspector = inputs.inspector(**own_islands(number, count))
        self._run = self.run = CaptureRun(timeline, inspector, plain if self._first else frozenset())
        self._messages = _Messages()
        self._maker = RowMaker(self._messages, plain)
        self._made: tuple[bytes, Metadata] = b"", NO_METADATA

    def take(self, line: Line) -> None:
        self._made = self._maker.make(cast(Exchange, line))

    def text(self) -> bytes:
        maker, (made, metadata) = self._maker, self._made
        texts, seen, messages = maker.take_texts(), maker.seen.take(), self._messages.take()
        if not (texts or seen or messages or metadata is not NO_METADATA):
            return made
        return made + cbor2.dumps([texts, seen, metadata, messages])

    def chunk(self, names: Names, nodes: Nodes) -> Any:
        self._maker.hear(names, nodes)
        if not self._first:
            return None
        return [self._run.filter.start, *self._run.take_places()]


class _Messages:
    """Takes the messages of one exchange in place of the spool, which belongs to the first process."""

    def __init__(self) -> None:
        self._last: Messages | None = None

    def add(self, messages: Messages) -> int:
        self._last = messages
        return row.NOWHERE

    def take(self) -> Messages | None:
        last, self._last = self._last, None
        return last


class _Merged(TextOutput):
    """Batches of all workers' rows, as one indexer makes them."""

    def __init__(self, spool: Spool, bytes_total: int | None, send: Callable[[RowBatch], None]) -> None:
        self._spool = spool
        self._bytes_total = bytes_total
        self._send = send
        self._pending = PendingBatch()
        self._start: int | None = None
        self._places: list[tuple[int, int]] = []
        self._descriptions: list[tuple[int, int, bytes]] = []
        self._numbering = TextNumbers()
        # Numbers of each worker's texts in this process.
        self._numbers: dict[int, array[int]] = {}
        self._seen = OfferedNames()
        self._bytes_read = 0
        self._sent = time.monotonic()

    def chunk(self, packets: int, bytes_read: int, told: list[Any]) -> None:
        self._bytes_read = bytes_read
        self._start, places, descriptions = told[0]
        self._places += [(frame, offset) for frame, offset in places]
        self._descriptions += [(file, offset, block) for file, offset, block in descriptions]

    def flush(self) -> None:
        now = time.monotonic()
        if now - self._sent >= BATCH_SECONDS or len(self._pending) >= BATCH_ROWS:
            self._sent = now
            self._send(self.batch())

    def put(self, piece: WrittenLine) -> None:
        text = piece.text
        made, metadata = bytearray(text[: row.SIZE]), NO_METADATA
        numbers = self._numbers.setdefault(piece.worker, array("I", [UNKEPT]))
        if len(text) > row.SIZE:
            texts, seen, told, messages = cbor2.loads(text[row.SIZE :])
            numbers.extend(map(self._numbering.of_text, texts))
            for option, name in seen:
                self._seen.add(option, name)
            metadata = Metadata(*told)
            if messages is not None:
                request, response = messages
                row.put_spool(made, self._spool.add((request, response)))
        row.renumber(made, numbers)
        self._pending.add(bytes(made), metadata)

    def batch(self) -> RowBatch:
        """The results since the last batch."""
        read, (places, self._places) = (self._bytes_read, self._bytes_total), (self._places, [])
        descriptions, self._descriptions = self._descriptions, []
        texts, seen = self._numbering.take(), self._seen.take()
        batch = self._pending.take(texts, seen, self._start, read, self._spool.refused)
        return batch._replace(places=places, descriptions=descriptions)
