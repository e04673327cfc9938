"""The sink that notes, in a first reading, which packets show the exchanges that pass the filters."""

from __future__ import annotations

from kinspect.exports.chosenpackets import SPANS_KEPT, EndPair, Spans
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Line
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.sink import CONNECTION, EXCHANGE, RunInput, Sink, SinkReport

REUSED = "reuse"


class Choice(Sink):
    """Takes the exchanges that pass, and their connections. `report`: what was written of them, in lines for people."""

    lines = frozenset({EXCHANGE, CONNECTION})
    whole = True

    def __init__(self) -> None:
        self.spans = Spans()
        self.connections = 0
        self.names = LearnedNames()
        """Those of the run."""
        self.report: list[str] = []
        self._randoms: dict[int, bytes] = {}
        self._passing: set[int] = set()

    def take(self, line: Line) -> None:
        if isinstance(line, Exchange):
            self._passing.add(line.key[2])
            self.spans.add_told(self._told(line))
        elif isinstance(line, ConnectionLine):
            self._end(line)

    @property
    def randoms(self) -> list[bytes]:
        """Client randoms of the TLS connections whose packets are written."""
        return [random for first, random in self._randoms.items() if first in self.spans.begins]

    @property
    def tellers(self) -> int:
        """Number of connections that are only written as far as they tell names."""
        return len(self.spans.begins) - len(self.spans.whole)

    def close(self, read: RunInput) -> SinkReport:
        return SinkReport(self.report)

    def _told(self, exchange: Exchange) -> list[tuple[int, int, int, int]]:
        """Keys of the lines of other connections that tell names which the exchange has."""
        ids = [
            *exchange.summary.topic_ids,
            *(topic_id for _, topic_id in exchange.session_topics if topic_id),
        ]
        broker = exchange.connection.broker_ip, exchange.connection.broker_port
        keys = self.names.sources(ids, broker, exchange.key)
        return [key for key in keys if key[2] != exchange.key[2]]

    def _end(self, line: ConnectionLine) -> None:
        first, last = line.key[2], line.evidence.frames[1]
        of: EndPair = line.client, line.broker
        if first in self._passing:
            self._passing.discard(first)
            self.connections += 1
            # Another one's first packet ends it.
            self.spans.add_connection(of, first, line.key[1] if line.end_reason == REUSED else last)
        else:
            self.spans.pass_over(of, first)
        if line.tls_random is not None and len(self._randoms) < SPANS_KEPT:
            self._randoms[first] = line.tls_random
