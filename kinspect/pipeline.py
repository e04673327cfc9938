"""The stages joined: blocks of packets in, finished exchanges out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from kinspect import link
from kinspect.kafka.connection import KafkaConnection
from kinspect.kafka.exchange import Exchange
from kinspect.kafka.ledger import Ledger
from kinspect.kafka.lines import ConnectionLine, Gap
from kinspect.kafka.names import TopicNames
from kinspect.kafka.view import SCHEMA_VERSION
from kinspect.model import Block, Caps, Counts
from kinspect.tcp import Connection, Reassembler

Line = Exchange | ConnectionLine | Gap
EXCHANGES_ONLY = frozenset({"exchange"})


def one_by_one(lines: list[Line]) -> Iterator[Line]:
    """Empties the list from its front: what was decoded of a line is let go before the next is looked at."""
    lines.reverse()
    while lines:
        yield lines.pop()


class Found(Protocol):
    """Blocks of packets, and the TLS key logs that were found with them so far."""

    @property
    def secrets(self) -> list[bytes]: ...
    def __iter__(self) -> Iterator[Block]: ...


def fed(inspector: Inspector, packets: Found) -> Iterator[tuple[Block, list[Line]]]:
    """Each block of the packets with what it completes, the secrets found with it handed on first; those behind the
    last block are handed on before it ends."""
    used = 0
    for block in packets:
        for text in packets.secrets[used:]:
            inspector.add_secrets(text)
        used = len(packets.secrets)
        yield block, inspector.feed(block)
    for text in packets.secrets[used:]:
        inspector.add_secrets(text)


class Inspector:
    """Feed it blocks of packets, it gives exchanges in order of completion. It opens nothing and knows no clock
    but the packets' own.

    `names`: topic names known beforehand, by topic id. `kafka_ports`: ports whose traffic is Kafka whatever its
    first bytes look like. `heads_only`: nobody will ask for a body. `emit`: which kinds of lines are wanted
    (`exchange`, `connection`, `gap`). `files`: names of the inputs, for the frame references; the list
    may grow while packets are fed.
    """

    def __init__(
        self,
        *,
        caps: Caps | None = None,
        names: dict[str, str] | None = None,
        kafka_ports: frozenset[int] = frozenset(),
        heads_only: bool = False,
        emit: frozenset[str] = EXCHANGES_ONLY,
        files: list[str] | None = None,
    ) -> None:
        self.caps = caps or Caps()
        self.counts = Counts()
        self.files: list[str] = files if files is not None else []
        self.names = TopicNames(names)
        self._ledger = Ledger(self.caps, self.counts, self.names, emit, kafka_ports, heads_only, self.files)
        self._link = link.Dissector(self.caps, self.counts)
        self._tcp = Reassembler(self._open, self.caps, self.counts)
        self._last: tuple[int | None, int] = (None, 0)

    def _open(self, connection: Connection) -> KafkaConnection:
        return KafkaConnection(connection, self._ledger)

    @property
    def open_connections(self) -> int:
        """TCP connections, of whatever kind, that have begun and not ended."""
        return self._tcp.open_connections

    def expect_secrets(self) -> None:
        """TLS secrets may come after the packets they are for: let connections wait for them."""
        self._ledger.expects_secrets = True

    def add_secrets(self, text: bytes) -> int:
        """Lines of a TLS key log (NSS key log format), best before the packets they are for; how many were new."""
        return self._ledger.add_secrets(text)

    def feed(self, block: Block) -> list[Line]:
        """Take a block; returns what it completed, in order of completion."""
        self._ledger.order.fed(block.first_frame, len(block))
        self._tcp.feed(self._link.segments(block))
        if len(block):
            self._last = block.times[-1], block.first_frame + len(block) - 1
        return self._ledger.release(self._tcp.waiting_since)

    def finish(self) -> Iterator[Line]:
        """The capture has ended: closes the connections that are open and hands on their lines in order, of which no
        more than the caps allow are there at once. Take them all: only then is every connection closed and counted.
        Nothing may be fed afterwards."""
        self._link.flush()
        for _ in self._tcp.closing(*self._last):
            yield from self._ledger.handed_on()
        yield from self._ledger.rest()

    def abandon(self) -> None:
        """The run stops before the capture does: open connections are counted, what is in flight is not."""
        self._ledger.muted = True
        self._link.flush()
        self._tcp.flush(*self._last)

    def summary(self) -> dict[str, Any]:
        """The `summary` line's object: what was read, what it was, and everything that could not be told."""
        return summary_line(self.files, self.counts, self._ledger.totals(), len(self.names.unresolved))


def summary_line(files: list[str], counts: Counts, totals: dict[str, Any], unresolved: int) -> dict[str, Any]:
    """The `summary` line's object. `counts`: of the packets; `totals`: those of `Ledger.totals`, added up (empty if
    nothing was); `unresolved`: topic ids without a name."""

    def of_all(key: str, kinds: tuple[str, ...]) -> dict[str, int]:
        return {kind: totals.get(key, {}).get(kind, 0) for kind in kinds}

    return {
        "type": "summary",
        "schema_version": SCHEMA_VERSION,
        "files": list(files),
        "packets": counts.packets,
        "bytes": counts.bytes,
        "kernel_drops": counts.kernel_drops,
        "queue_drops": counts.queue_drops,
        "tcp_segments": counts.tcp_segments,
        "packets_without_tcp": dict(sorted(counts.undecoded_packets.items())),
        "duplicate_packets": totals.get("duplicate_packets", 0),
        "retransmitted_bytes": totals.get("retransmitted_bytes", 0),
        "conflicting_bytes": totals.get("conflicting_bytes", 0),
        "fragments": counts.fragments,
        "overlapping_fragments": counts.overlapping_fragments,
        "connections": of_all("connections", ("kafka", "tls", "other", "empty")),
        "server_names": totals.get("server_names", {}),
        "tls_not_decrypted": totals.get("tls_not_decrypted", {}),
        "exchanges": totals.get("exchanges", 0),
        "outcomes": of_all("outcomes", ("answered", "unanswered", "no_response", "orphan")),
        "gaps": totals.get("gaps", 0),
        "gap_bytes": totals.get("gap_bytes", 0),
        "undecoded_bytes": totals.get("undecoded_bytes", 0),
        "unresolved_topic_ids": unresolved,
        "caps_hit": dict(sorted(totals.get("caps_hit", {}).items())),
    }
