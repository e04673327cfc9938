"""What the connections of one run share: the order of completion, topic names, caps, and what is handed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kinspect.kafka import summary
from kinspect.kafka.names import TopicNames
from kinspect.model import Caps, Counts

if TYPE_CHECKING:
    from kinspect.kafka.exchange import Exchange
    from kinspect.kafka.lines import ConnectionLine, Gap


# What is kept of the versions in use, over all clients.
USES_KEPT = 100_000


class Ledger:
    """Takes finished exchanges in order of completion.

    `emit` names the kinds of lines wanted (`exchange`, `connection`, `gap`); `kafka_ports` are ports whose traffic
    is Kafka's by order of the user; with `heads_only` nobody will ask for a body, and none is decoded.
    """

    def __init__(
        self,
        caps: Caps,
        counts: Counts,
        names: TopicNames,
        emit: frozenset[str],
        kafka_ports: frozenset[int],
        heads_only: bool,
        files: Sequence[str],
    ) -> None:
        self.caps = caps
        self.counts = counts
        self.names = names
        self.emit = emit
        self.kafka_ports = kafka_ports
        self.heads_only = heads_only
        self.files = files
        self.lines: list[Exchange | ConnectionLine | Gap] = []
        self.exchanges = 0
        self.gaps = 0
        self.gap_bytes = 0
        self.skipped_bytes = 0
        self.outcomes: dict[str, int] = {}
        self.connections: dict[str, int] = {}
        self.server_names: dict[str, int] = {}
        self._uses: set[tuple[str, int, int]] = set()

    def finish(self, exchange: Exchange) -> None:
        """Number the exchange, learn the topic names it tells, hand it on."""
        self.exchanges += 1
        exchange.order = self.exchanges
        self.outcomes[exchange.outcome] = self.outcomes.get(exchange.outcome, 0) + 1
        if (
            not self.heads_only
            and exchange.response is not None
            and exchange.api_key is not None
            and exchange.api_version is not None
            and summary.tells_names(exchange.api_key, exchange.api_version)
        ):
            for topic_id, name in summary.told_names(exchange):
                self.names.learn(topic_id, name, exchange.order)
        if "exchange" in self.emit:
            self.lines.append(exchange)

    def note_use(self, client_id: str | None, api_key: int, api_version: int) -> None:
        """A whole request of this API and version came from this client."""
        if client_id and len(self._uses) < USES_KEPT:
            self._uses.add((client_id, api_key, api_version))

    def uses(self, client_id: str | None, api_key: int, api_version: int) -> bool:
        """Whether this API and version was noted of the client, on any connection."""
        return client_id is not None and (client_id, api_key, api_version) in self._uses

    def gap(self, gap: Gap) -> None:
        """Count a gap, hand it on if asked for."""
        self.gaps += 1
        self.gap_bytes += gap.bytes
        if "gap" in self.emit:
            self.lines.append(gap)

    @property
    def wants_connections(self) -> bool:
        """Whether finished connections are handed on."""
        return "connection" in self.emit

    def closed(self, kind: str, server_name: str | None, undecoded_bytes: int) -> None:
        """Count a finished connection."""
        self.connections[kind] = self.connections.get(kind, 0) + 1
        self.skipped_bytes += undecoded_bytes
        if server_name is not None:
            self.server_names[server_name] = self.server_names.get(server_name, 0) + 1
