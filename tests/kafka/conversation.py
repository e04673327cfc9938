"""A scripted connection: what client and broker send, straight into a `KafkaConnection`."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from struct import pack
from typing import Any

from kinspect.kafka.connection.kafkaconnection import KafkaConnection
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.ledger import Ledger
from kinspect.kafka.exchange.lines import ConnectionLine, Gap
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.lineorder import LineNumbering
from kinspect.model import NO_EVIDENCE, Caps, Counts, Evidence
from kinspect.protocol import Message, encode_request, encode_response

CLIENT, BROKER = 0, 1
MS = 1_000_000


def sized(message: bytes) -> bytes:
    """A message as it goes over the wire: its 4-byte size in front."""
    return pack(">i", len(message)) + message


def request(
    api_key: int, version: int, correlation_id: int, body: dict[str, Any], client_id: str | None = "c"
) -> bytes:
    """A request with its size."""
    return sized(encode_request(Message(api_key, version, correlation_id, body, client_id)))


def response(api_key: int, version: int, correlation_id: int, body: dict[str, Any]) -> bytes:
    """A response with its size."""
    return sized(encode_response(Message(api_key, version, correlation_id, body, direction="response")))


def heartbeat(correlation_id: int, client_id: str | None = "c") -> bytes:
    body = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    return request(12, 0, correlation_id, body, client_id)


def heartbeat_answer(correlation_id: int, error_code: int = 0) -> bytes:
    return response(12, 0, correlation_id, {"error_code": error_code})


@dataclass
class Wire:
    """The connection as the reassembly would describe it."""

    syn: int | None = CLIENT
    start_time: int | None = 0
    conflicts: tuple[int, int] = (0, 0)
    packets: tuple[int, int] = (1, 1)
    bytes: tuple[int, int] = (1, 1)
    handshake: tuple[tuple[int, int], tuple[int, int]] | None = None
    stepped_at: int | None = None
    evidence: Evidence = NO_EVIDENCE
    addresses: tuple[tuple[bytes, int], tuple[bytes, int]] = (
        (ip_address("10.0.0.1").packed, 41234),
        (ip_address("10.0.0.9").packed, 9092),
    )


@dataclass
class Conversation:
    """Feeds a connection packet by packet, a millisecond apart, and collects its lines."""

    wire: Wire = field(default_factory=Wire)
    caps: Caps = field(default_factory=Caps)
    kafka_ports: frozenset[int] = frozenset()
    packet: int = 0

    def __post_init__(self) -> None:
        self.counts = Counts()
        emit = frozenset({"exchange", "connection", "gap"})
        names = LearnedNames()
        self.ledger = Ledger(self.caps, self.counts, names, emit, self.kafka_ports, False, ["test.pcap"])
        self._lines: list[Exchange | ConnectionLine | Gap] = []
        self.connection = KafkaConnection(self.wire, LineNumbering(0), self.ledger)

    def _send(self, direction: int, data: bytes) -> Conversation:
        self.packet += 1
        self.connection.data(direction, self.packet * MS, self.packet, data, 0, len(data))
        return self

    def client(self, *messages: bytes) -> Conversation:
        """The client sends these, one packet each."""
        for message in messages:
            self._send(CLIENT, message)
        return self

    def broker(self, *messages: bytes) -> Conversation:
        """The broker sends these, one packet each."""
        for message in messages:
            self._send(BROKER, message)
        return self

    def lose(self, direction: int, size: int) -> Conversation:
        """`size` bytes of a direction are not in the capture."""
        self.packet += 1
        self.connection.gap(direction, self.packet * MS, self.packet, size, "capture_loss")
        return self

    def fin(self, direction: int) -> Conversation:
        self.packet += 1
        self.connection.fin(direction, self.packet * MS, self.packet)
        return self

    def close(self, reason: str = "fin") -> list[Exchange]:
        """The connection ends; returns its exchanges."""
        self.packet += 1
        self.connection.closed(self.packet * MS, self.packet, reason)
        return self.exchanges

    @property
    def lines(self) -> list[Exchange | ConnectionLine | Gap]:
        """Lines handed on so far."""
        self._lines += self.ledger.rest()
        return self._lines

    @property
    def exchanges(self) -> list[Exchange]:
        return [line for line in self.lines if isinstance(line, Exchange)]

    @property
    def line(self) -> ConnectionLine:
        return next(line for line in self.lines if isinstance(line, ConnectionLine))

    @property
    def gaps(self) -> list[Gap]:
        return [line for line in self.lines if isinstance(line, Gap)]


def outcomes(exchanges: list[Exchange]) -> list[tuple[str | None, int | None, str, str | None]]:
    """API, correlation id, outcome and reason of each exchange, in order."""
    return [(e.api, e.correlation_id, e.outcome, e.outcome_reason) for e in exchanges]
