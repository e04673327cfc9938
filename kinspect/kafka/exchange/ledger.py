"""State that the connections of one run share: the order of lines, learned names, caps, and totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kinspect.kafka.exchange import metadata
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.holdings import EXCHANGE_BYTES, Holdings
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.wire.fetched import FetchRoom
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.lineorder import BEHIND, LineOrder
from kinspect.model import BEHIND_GAPS, NOWHERE, Caps, Counts, Origin, Progress
from kinspect.tls.keylog import KeyLog

if TYPE_CHECKING:
    from kinspect.kafka.exchange.lines import ConnectionLine, Gap
    from kinspect.tls.decryptor import Decryptor, Deliver, Lost

# Limits on the number of TLS connections that wait for their secrets, and on the bytes each may hold meanwhile.
WAITING_DECRYPTORS: Final = 256
WAITING_BYTES: Final = 256 * 1024

# Classes of the bytes that the reassembly hands on.
BOOKS: Final = (
    "message_bytes",
    "undecoded_bytes",
    "tls_bytes",
    "tls_overhead_bytes",
    "other_bytes",
    "unfinished_bytes",
)

# What may be missing of a connection: its begin, all packets of one side, or too much to know its protocol.
NO_BEGIN: Final = "no_begin"
NO_CLIENT: Final = "no_client"
NO_BROKER: Final = "no_broker"
UNKNOWN: Final = "unknown"
PARTIAL: Final = (NO_BEGIN, NO_CLIENT, NO_BROKER, UNKNOWN)


class Ledger:
    """Takes finished exchanges in order of completion.

    `emit` names the kinds of lines to give (`exchange`, `connection`, `gap`); `kafka_ports` are ports whose traffic
    the user declares to be Kafka's; with `heads_only` no body is needed, and none is decoded;
    without `waits` nobody asks for an exchange's `wait`; `origin` is where the packets come from.
    """

    def __init__(
        self,
        caps: Caps,
        counts: Counts,
        names: LearnedNames,
        emit: frozenset[str],
        kafka_ports: frozenset[int],
        heads_only: bool,
        files: Sequence[str],
        waits: bool = True,
        origin: Origin = NOWHERE,
    ) -> None:
        self.caps = caps
        self.counts = counts
        self.names = names
        self.emit = emit
        self.kafka_ports = kafka_ports
        self.heads_only = heads_only
        self.waits = waits
        self.origin = origin
        self.files = files
        self.holdings = Holdings(caps.total_bytes - caps.total_bytes // BEHIND_GAPS, counts)
        self.fetch_room = FetchRoom(counts)
        self.progress = Progress()
        self.muted = False
        self._order: LineOrder[Line] = LineOrder()
        self.learned = names
        """Receiver of the names that lines report; another object than `names` if those come from other processes."""
        self.arrived: list[tuple[int, int, Line]] | None = None
        """Place, size and line, in order of arrival, if another process sorts them."""
        self._numbered = 0
        self.exchanges = 0
        self.gaps = 0
        self.gap_bytes = 0
        self.gap_causes: dict[str, int] = {}
        self.books: dict[str, int] = {}
        self.outcomes: dict[str, int] = {}
        self.connections: dict[str, int] = {}
        self.partial: dict[str, int] = {}
        self.server_names: dict[str, int] = {}
        self.tls_reasons: dict[str, int] = {}
        self.keylog = KeyLog()
        self.expects_secrets = False
        self._decryptors: dict[Decryptor, None] = {}

    def finish(self, exchange: Exchange) -> None:
        """Take an exchange that is complete and has its key."""
        if self.muted:
            return
        self.exchanges += 1
        self.outcomes[exchange.outcome] = self.outcomes.get(exchange.outcome, 0) + 1
        self._learn(exchange)
        hosts = self.names.hosts
        if hosts.known:
            ends = exchange.connection
            client, broker = (ends.client_ip, ends.client_port), (ends.broker_ip, ends.broker_port)
            names = hosts.of(client, broker, exchange.key)
            exchange.client_name, exchange.broker_name, exchange.client_process = names
        size = EXCHANGE_BYTES
        if exchange.request is not None:
            size += len(exchange.request.raw or b"")
        if exchange.response is not None:
            size += len(exchange.response.raw or b"")
        self._hold(exchange, size)

    def _hold(self, line: Line, size: int) -> None:
        if self.arrived is not None:
            self.arrived.append((self.progress.place, size, line))
            return
        order, holdings = self._order, self.holdings
        order.add(line.key, self.progress.place, size, line)
        while order.bytes and order.bytes + holdings.bytes > holdings.limit:
            self.counts.hit("held_lines")
            order.force()

    def release(self) -> list[Line]:
        """The lines that have waited long enough for earlier ones, in order."""
        self._order.pass_to(self.progress.place)
        return self.handed_on()

    def shortened(self) -> list[Line]:
        """The lines that are released early because too many bytes wait, in order."""
        self._order.shorten()
        return self.handed_on()

    def rest(self) -> list[Line]:
        """All lines that are left, in order."""
        self._order.rest()
        return self.handed_on()

    def handed_on(self) -> list[Line]:
        """The ready lines of the kinds in `emit`, numbered."""
        lines = self._order.ready()
        for line in lines:
            if isinstance(line, Exchange):
                self._numbered += 1
                line.order = self._numbered
        if "exchange" in self.emit:
            return lines
        return [line for line in lines if not isinstance(line, Exchange)]

    def _learn(self, exchange: Exchange) -> None:
        """Learn the topic names and nodes in its messages. A line has names from responses before it; those that
        requests give serve the run as a whole."""
        if (
            not self.heads_only
            and exchange.api_key is not None
            and exchange.api_version is not None
            and metadata.may_have_metadata(exchange.api_key, exchange.api_version)
        ):
            names, nodes, asked = metadata.cluster_metadata(exchange)
            for topic_id, name in names:
                self.learned.learn(topic_id, name, exchange.key)
            for topic_id, name in asked:
                self.learned.learn(topic_id, name, BEHIND)
            for ip, port, node_id in nodes:
                self.learned.learn_node(ip, port, node_id, exchange.key)

    def totals(self) -> dict[str, Any]:
        """Totals of connections and their contents, by the keys of the `summary` line."""
        counts = self.counts
        return {
            "duplicate_packets": counts.duplicate_packets,
            "retransmitted_bytes": counts.retransmitted_bytes,
            "conflicting_bytes": counts.conflicting_bytes,
            "clock_steps": {"connections": counts.stepped_connections, "ms": counts.stepped_ms},
            "connections": dict(self.connections),
            "partial_connections": dict(self.partial),
            "server_names": dict(self.server_names),
            "tls_not_decrypted": dict(self.tls_reasons),
            "exchanges": self.exchanges,
            "outcomes": dict(self.outcomes),
            "gaps": self.gaps,
            "gap_bytes": self.gap_bytes,
            "fetch_sessions_under_way": self.fetch_room.under_way,
            "gap_causes": dict(self.gap_causes),
            **{key: self.books.get(key, 0) for key in BOOKS},
            "repeated_bytes": counts.repeated_bytes,
            "uncompared_bytes": counts.uncompared_bytes,
            "ignored_bytes": counts.ignored_bytes,
            "late_lines": self._order.late,
            "caps_hit": dict(counts.caps_hit),
        }

    def gap(self, gap: Gap) -> None:
        """Count a gap, and hand it on if `emit` has gaps."""
        if self.muted:
            return
        self.gaps += 1
        self.gap_bytes += gap.bytes
        self.gap_causes[gap.cause] = self.gap_causes.get(gap.cause, 0) + 1
        if "gap" in self.emit:
            self._hold(gap, EXCHANGE_BYTES)

    def open_decryptor(self, client: int, deliver: Deliver, lost: Lost) -> Decryptor:
        """A decryptor for a connection whose client sends in direction `client`.

        It waits for secrets that are still to come if there may be any, and if not too many others wait.
        """
        waits = self.expects_secrets and len(self._decryptors) < WAITING_DECRYPTORS
        if waits != self.expects_secrets:
            self.counts.hit("waiting_decryptors")
        from kinspect.tls.decryptor import Decryptor  # most runs have no TLS

        decryptor = Decryptor(self.keylog, client, deliver, lost, WAITING_BYTES if waits else 0)
        if waits:
            self._decryptors[decryptor] = None
        return decryptor

    def forget_decryptor(self, decryptor: Decryptor) -> None:
        """Forget the decryptor of a closed connection."""
        self._decryptors.pop(decryptor, None)

    def add_secrets(self, text: bytes) -> int:
        """Add lines of a TLS key log, for later connections and those that wait; return the number of new secrets."""
        self.expects_secrets = True
        new = self.keylog.add(text)
        if new:
            for decryptor in tuple(self._decryptors):
                decryptor.retry()
        return new

    def closed(
        self,
        kind: str,
        server_name: str | None,
        tls_reason: str | None,
        books: dict[str, int],
        lacks: Sequence[str],
    ) -> None:
        """Count a finished connection; `tls_reason`: why it stayed encrypted; `books`: its bytes by class (`BOOKS`);
        `lacks`: what is missing of it (`PARTIAL`)."""
        self.connections[kind] = self.connections.get(kind, 0) + 1
        for each in lacks:
            self.partial[each] = self.partial.get(each, 0) + 1
        for key, size in books.items():
            self.books[key] = self.books.get(key, 0) + size
        if server_name is not None:
            self.server_names[server_name] = self.server_names.get(server_name, 0) + 1
        if tls_reason is not None:
            self.tls_reasons[tls_reason] = self.tls_reasons.get(tls_reason, 0) + 1

    def connection(self, line: ConnectionLine) -> None:
        """Hand a finished connection on."""
        self._hold(line, EXCHANGE_BYTES)
