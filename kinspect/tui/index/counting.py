"""Answers counted over listed exchanges: over the captures, read again, or over the messages in the spool."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kinspect.analysis.answer import Answer
from kinspect.answers.counter import AnswerCounter
from kinspect.capture import open_timeline
from kinspect.errors import KinspectError
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.run import Run
from kinspect.sink import CONNECTION
from kinspect.tui.index.indexer import ClosedConnection, Inputs, RowBatch
from kinspect.tui.index.recordpage import page_definition
from kinspect.tui.index.row import NONE
from kinspect.tui.index.spool import Spool
from kinspect.tui.index.store import Store

PIECE = 256
"""Exchanges of the spool counted without a word on how far it is."""
NO_OPTIONS: Mapping[str, Any] = {}

Tell = Callable[[float], None]
"""Takes how much is done, from 0 to 1; raises if nobody waits for the result."""


class AnswerQuery(NamedTuple):
    """An answer to count. `listed`: numbers of rows, ascending, as an array of type `I`; `rows`: number of all rows;
    `whole`: true if these are all exchanges of the captures; `options`: those of the filter that leaves rows out;
    `kept`: all rows, where they cannot be read again; `own`: the options of the page's class."""

    name: str
    listed: bytes
    rows: int
    whole: bool
    options: Sequence[str] = ()
    kept: RowBatch | None = None
    own: Mapping[str, Any] = NO_OPTIONS


class AnswerResult(NamedTuple):
    """An answer's object, and the number of exchanges whose bytes were not there to be counted."""

    found: dict[str, Any]
    lost: int = 0


def query_for(
    store: Store,
    name: str,
    listed: array[int],
    rows: int,
    options: Sequence[str] = (),
    own: Mapping[str, Any] = NO_OPTIONS,
) -> AnswerQuery:
    """The question for an answer over listed rows of a store that has `rows` in all. `options`: those of the filter
    that leaves the others out; `own`: those of the page's class."""
    kept = None if store.inputs.can_reread else store.whole()
    return AnswerQuery(name, listed.tobytes(), rows, store.done and not store.stopped, options, kept, own)


def count(inputs: Inputs, spool: Spool, query: AnswerQuery, tell: Tell) -> AnswerResult:
    """The answer to the question. Raises KinspectError, and what `tell` does."""
    answer = page_definition(query.name).answer(**query.own)
    if query.kept is None:
        return AnswerResult(_over_captures(inputs, query, answer, tell))
    return _over_spool(inputs, spool, query, query.kept, answer, tell)


class _Listed:
    """Adds to an answer the listed ones of all exchanges, which come in order. `seen`: number of the last one."""

    def __init__(self, answer: Answer, listed: bytes) -> None:
        self._answer = answer
        self._places = iter(array("I", listed))
        self._next = next(self._places, None)
        self.seen = 0

    @property
    def is_done(self) -> bool:
        """True if all listed exchanges have come."""
        return self._next is None

    def add(self, lines: Iterable[Line]) -> None:
        """Take the next lines."""
        for line in lines:
            if isinstance(line, Exchange):
                self.seen = line.order
                if self._next == line.order - 1:
                    self._answer.take(line)
                    self._next = next(self._places, None)
                    continue
            self._answer.hear(line)


def _over_captures(inputs: Inputs, query: AnswerQuery, answer: Answer, tell: Tell) -> dict[str, Any]:
    """Count while the captures are read again, up to the last exchange that was known."""
    listed = _Listed(answer, query.listed)
    timeline = open_timeline(inputs.paths, skew_ns=inputs.caps.skew_ns)
    run = Run(timeline, inputs.inspector(emit=answer.lines))
    try:
        for lines in run.pieces():
            listed.add(lines)
            tell(timeline.status.bytes_read / (timeline.bytes_total or 1))
            if listed.seen >= query.rows and not query.whole:
                break
    finally:
        timeline.close()
    if not listed.is_done:
        raise KinspectError("the captures are not what was indexed: did they change meanwhile?")
    span = run.filter.start, run.inspector.end[0]
    (found,) = AnswerCounter({query.name: answer}).objects(
        run.summary(), run.inspector.names, span, query.options
    )
    return found


def _over_spool(
    inputs: Inputs, spool: Spool, query: AnswerQuery, kept: RowBatch, answer: Answer, tell: Tell
) -> AnswerResult:
    """Count what a live capture or a pipe gave, as far as its messages were kept."""
    store = Store(inputs, spool)
    store.add(kept)
    listed = array("I", query.listed)
    closed = _Closed(answer, store.closed)
    lost = 0
    for number, index in enumerate(listed):
        closed.pass_to(index)
        try:
            answer.take(store.exchange(index))
        except KinspectError:
            lost += 1
        if number % PIECE == 0:
            tell(number / len(listed))
    closed.pass_to(query.rows)
    end = store[query.rows - 1].completed_at if query.rows else NONE
    span = store.start, None if end == NONE else end
    # Until the end the number of packets is unknown.
    summary = store.summary or {**inputs.inspector().summary(), "packets": None, "exchanges": query.rows}
    (found,) = AnswerCounter({query.name: answer}).objects(summary, store.names, span, query.options)
    return AnswerResult(found, lost)


class _Closed:
    """Adds to an answer the connections that ended, each behind the exchanges before its end."""

    def __init__(self, answer: Answer, closed: list[ClosedConnection]) -> None:
        self._answer = answer
        self._closed = deque(closed if CONNECTION in answer.lines else ())

    def pass_to(self, row: int) -> None:
        """Add those that ended before that row."""
        while self._closed and self._closed[0][0] <= row:
            self._answer.add_connection(self._closed.popleft()[1])
