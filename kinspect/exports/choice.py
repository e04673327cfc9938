"""The sink that notes, in a first reading, which packets show the exchanges that pass the filters."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from struct import pack
from typing import TYPE_CHECKING, Any, Final

from kinspect.exports.chosenpackets import SPANS_KEPT, EndPair, Spans
from kinspect.filters.filter import Filter
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Line
from kinspect.kafka.fields.secrets import TOPICS
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.kafka.wire.pair import KAFKA, SASL_TOKEN
from kinspect.protocol import schema
from kinspect.sink import CONNECTION, EXCHANGE, RunInput, Sink, SinkReport
from kinspect.tcp.flowkeys import pair

if TYPE_CHECKING:
    from kinspect.exports.comments import Comments
    from kinspect.exports.plaintext import Encrypted

REUSED: Final = "reuse"
ENDED: Final = ("closed", "reset")
"""Reasons of unanswered requests that a packet shows."""
STARTS: Final[frozenset[int | None]] = schema.apis_with("begins", "login", "connection") | {None}
"""APIs, and raw SASL tokens, that show who the client is."""
RECORDS: Final = View(records=True)
NO_ID: Final = -(1 << 31) - 1
LAST_ID: Final = 1 << 31
STARTS_KEPT: Final = 16
"""Number of exchanges whose frames are kept of a connection until one passes."""
Shown = tuple[int, list[tuple[int, int]], int | None, int | None, bool]
"""What shows an exchange: the first frame of its connection, the first and last ones of its messages, its correlation
id, the frame of what came in place of the answer, and whether all before it is needed to read it."""


def _shown(exchange: Exchange) -> Shown:
    messages = [each for each in (exchange.request, exchange.response) if each is not None]
    frames = [(each.first_frame, each.last_frame) for each in messages]
    depends = (
        exchange.connection.tls or exchange.fetched is not None or not all(each.complete for each in messages)
    )
    ended = exchange.key[1] if exchange.outcome_reason in ENDED else None
    return exchange.key[2], frames, exchange.correlation_id, ended, depends


def _topic_ids(value: Any) -> Iterator[str]:
    """The topic ids in a line, also in records."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and isinstance(value.get("topic_id"), str):
        yield value["topic_id"]
    for each in parts:
        yield from _topic_ids(each)


class Choice(Sink):
    """Takes the exchanges that pass the filter, and their connections.

    `exchanges_alone`: only the packets of these exchanges are written, and what is needed to decode them. Then the
    filter lets those of `STARTS` pass too: they show who the client is. `every_connection`: those without an exchange
    are taken, too. `report`: what was written, in lines.
    """

    lines = frozenset({EXCHANGE, CONNECTION})
    whole = True

    def __init__(self, chosen: Filter, exchanges_alone: bool = False, every_connection: bool = False) -> None:
        self.spans = Spans()
        self.connections = self.passed_over = 0
        """Numbers of connections that are taken, and of those that are not."""
        self.comments: Comments | None = None
        """Comments on the packets of what passes; None if nobody asks for them."""
        self.names = LearnedNames()
        """Those of the run."""
        self.report: list[str] = []
        self._filter = chosen
        self._alone, self._every = exchanges_alone, every_connection
        if exchanges_alone:
            chosen.exempt(dict.fromkeys(chosen.options, STARTS))
        self._encrypted: dict[int, ConnectionLine] = {}
        self._passing: set[int] = set()
        self._starts: dict[int, list[Shown]] = {}
        self._ids: dict[int, int] = {}
        """Correlation ids of the last exchanges of connections; `LAST_ID` once they did not ascend: then pairing is
        doubtful behind any gap."""
        self._through: dict[int, int] = {}
        """By the first frames of connections of which all is needed up to an exchange: the last frame of that."""

    def take(self, line: Line) -> None:
        if isinstance(line, ConnectionLine):
            self._end(line)
        elif isinstance(line, Exchange):
            if not self._filter.let:
                self._pass(line)
            elif line.api_key is not None or line.kind == SASL_TOKEN:
                self._start(line)

    def _start(self, exchange: Exchange) -> None:
        """Note an exchange that does not pass, but may show who the client is."""
        first = exchange.key[2]
        if first in self._passing:
            self._add(_shown(exchange))
        elif len(self._starts) < SPANS_KEPT:
            found = self._starts.setdefault(first, [])
            if len(found) < STARTS_KEPT:
                found.append(_shown(exchange))

    def _pass(self, exchange: Exchange) -> None:
        first = exchange.key[2]
        self._passing.add(first)
        if self.comments is not None:
            self.comments.add(exchange)
        self.spans.add_told(self._told(exchange))
        if self._alone:
            for each in self._starts.pop(first, ()):
                self._add(each)
            self._add(_shown(exchange))

    def _add(self, shown: Shown) -> None:
        """Add the packets of an exchange. What depends on all before it has its connection up to there."""
        first, frames, own, ended, depends = shown
        before = self._ids.get(first, NO_ID)
        comes_again = own is not None and own <= before
        if own is not None:
            self._ids[first] = LAST_ID if comes_again else own
        if ended is not None:
            self.spans.add(frames[0][0], ended)
        if depends or own is None or comes_again:
            last = max(last for _, last in frames)
            self._through[first] = max(last, self._through.get(first, 0))
            return
        for begin, end in frames:
            self.spans.add(begin, end)

    @property
    def randoms(self) -> list[bytes]:
        """Client randoms of the TLS connections whose packets are written."""
        written = [line.tls_random for first, line in self._encrypted.items() if first in self.spans.begins]
        return [random for random in written if random is not None]

    def encrypted(self) -> dict[int, Encrypted]:
        """The connections whose plaintext is written."""
        from kinspect.exports.plaintext import Encrypted  # loads what decrypts

        spans, found = self.spans, {}
        for first, line in self._encrypted.items():
            if first in spans.begins and line.kind == KAFKA:
                ends = b"".join(ip_address(ip).packed for ip, _ in (line.client, line.broker))
                key = pair(ends + pack(">HH", line.client[1], line.broker[1]))
                until = None if first in spans.whole else spans.told[first]
                found[first] = Encrypted(key, line.client_direction, until)
        return found

    @property
    def tellers(self) -> int:
        """Number of connections that are only written as far as they tell names."""
        return len(self.spans.told.keys() - self.spans.whole - self.spans.opens)

    def close(self, read: RunInput) -> SinkReport:
        return SinkReport(self.report)

    def _told(self, exchange: Exchange) -> list[LineKey]:
        """Keys of the lines of other connections that tell names which the exchange has."""
        ids = [
            *exchange.summary.topic_ids,
            *(topic_id for _, topic_id in exchange.session_topics if topic_id),
        ]
        if not TOPICS.isdisjoint(exchange.summary.topics):
            ids += _topic_ids(RECORDS.exchange(exchange))
        broker = exchange.connection.broker_ip, exchange.connection.broker_port
        keys = self.names.sources(ids, broker, exchange.key)
        return [key for key in keys if self._alone or key[2] != exchange.key[2]]

    def _end(self, line: ConnectionLine) -> None:
        first, last = line.key[2], line.evidence.frames[1]
        of: EndPair = line.client, line.broker
        self._starts.pop(first, None)
        self._ids.pop(first, None)
        if first not in self._passing and not self._every:
            self.passed_over += 1
            self.spans.pass_over(of, first)
        else:
            self._passing.discard(first)
            self.connections += 1
            if self._alone:
                self.spans.add_start(of, first)
                if first in self._through:
                    self.spans.add(first, self._through.pop(first), runs_on=True)
            else:
                # Another one's first packet ends it.
                self.spans.add_connection(of, first, line.key[1] if line.end_reason == REUSED else last)
        if line.tls_random is not None and len(self._encrypted) < SPANS_KEPT:
            self._encrypted[first] = line
