"""Lines of a run besides exchanges: connections and gaps."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import SCHEMA_VERSION, iso_time, milliseconds
from kinspect.kafka.wire.eventid import event_id
from kinspect.kafka.wire.hostnames import NO_NAMES, EndNames
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.model import ICMP_ERRORS, NO_EVIDENCE, Evidence

GAP_CAUSES: Final = ("capture_loss", "snaplen", "mid_start")


class Gap(NamedTuple):
    """Bytes of one direction that the capture lacks. With the cause `mid_start` they are captured, but their message
    boundaries are unknown.

    `direction` is their sender (`client` or `broker`); `offset` and `bytes` count that direction's stream from
    its first seen byte; `cause` is one of `GAP_CAUSES`. `key`: its place in the order of lines.
    `host`, `interface`: as those of its connection, as its `names` are.
    """

    key: LineKey
    connection_id: str
    direction: str
    time: int | None
    offset: int
    bytes: int
    cause: str
    exchanges_hit: int
    host: str | None = None
    interface: str | None = None
    names: EndNames = NO_NAMES

    def to_dict(self) -> dict[str, Any]:
        """The gap as the JSON line's object."""
        return {
            "type": "gap",
            "schema_version": SCHEMA_VERSION,
            "event_id": event_id(f"gap|{self.connection_id}|{self.direction}|{self.offset}"),
            "host": self.host,
            "interface": self.interface,
            "connection_id": self.connection_id,
            "direction": self.direction,
            "timestamp": iso_time(self.time),
            "offset": self.offset,
            "bytes": self.bytes,
            "cause": self.cause,
            "exchanges_hit": self.exchanges_hit,
            "line_truncated": False,
        }


ALIKE: Final = """
    connection_id community_id kind server_name alpn tls_version tls_cipher_suite tls_status tls_reason
    handshake_seen end_reason exchanges gaps gap_bytes conflicting_bytes undecoded_bytes
""".split()
"""Keys of a connection's object, in their order, that have the names of its fields."""


ClientRandom: TypeAlias = bytes


class ConnectionLine(NamedTuple):
    """A finished connection: its ends, times, amounts, kind and end reason.

    `kind` is `kafka`, `tls`, `other` or `empty` (no payload). `packets` and `bytes` are the client's and the
    broker's; of a connection that is not Kafka "client" means the side that opened it, as far as known.
    `conflicting_bytes` were sent again with another value; the first one counts.
    `client_direction` is the client's direction in `evidence` and in `tls_alerts`, which have direction, level and
    description. `tls_random`: the client random, by which key logs name it. `file`, `frames`: where its first and
    last packet stand, None for a last one in another file.
    `end_reason` is the reassembly's word (docs/architecture.md). `key`: its place in the order of lines. `host`,
    `interface`: where its first packet was captured, if known; `names`: those of its ends, if known.
    """

    key: LineKey
    connection_id: str
    community_id: str
    client: tuple[str, int]
    broker: tuple[str, int]
    start_time: int | None
    end_time: int | None
    kind: str
    server_name: str | None
    alpn: tuple[str, ...]
    tls_version: str | None
    tls_cipher_suite: str | None
    tls_status: str | None
    tls_reason: str | None
    end_reason: str
    handshake_seen: bool
    packets: tuple[int, int]
    bytes: tuple[int, int]
    exchanges: int
    gaps: int
    gap_bytes: int
    conflicting_bytes: int
    undecoded_bytes: int
    client_id: str | None
    principal: str | None
    software_name: str | None
    software_version: str | None
    host: str | None = None
    interface: str | None = None
    names: EndNames = NO_NAMES
    client_direction: int = 0
    first_bytes: str | None = None
    answered_with: str | None = None
    decode_as: bool = False
    evidence: Evidence = NO_EVIDENCE
    tls_handshake: str | None = None
    tls_alerts: Sequence[tuple[int, int | None, int | None]] = ()
    tls_random: ClientRandom | None = None
    file: str | None = None
    frames: tuple[int, int | None] = (0, 0)

    def _side(self, direction: int | None) -> str | None:
        """The sender of a direction."""
        return None if direction is None else "client" if direction == self.client_direction else "broker"

    def to_dict(self) -> dict[str, Any]:
        """The connection as the JSON line's object."""
        return {
            "type": "connection",
            "schema_version": SCHEMA_VERSION,
            "event_id": event_id(f"connection|{self.connection_id}"),
            "host": self.host,
            "interface": self.interface,
            "timestamp": iso_time(self.start_time),
            "completed_at": iso_time(self.end_time),
            "client": {
                "ip": self.client[0],
                "port": self.client[1],
                "id": self.client_id,
                "principal": self.principal,
                "software_name": self.software_name,
                "software_version": self.software_version,
                "name": self.names.client_name,
                "process": self.names.client_process,
                "packets": self.packets[0],
                "bytes": self.bytes[0],
            },
            "broker": {
                "ip": self.broker[0],
                "port": self.broker[1],
                "name": self.names.broker_name,
                "packets": self.packets[1],
                "bytes": self.bytes[1],
            },
            **{key: getattr(self, key) for key in ALIKE},
            "alpn": list(self.alpn),
            **self._evidence(),
            "frames": {
                "file": self.file,
                "first": self.frames[0],
                "last": self.frames[1],
                "packets": sum(self.packets),
            },
            "line_truncated": False,
        }

    def _evidence(self) -> dict[str, Any]:
        """The keys that tell of why it failed."""
        evidence = self.evidence
        last = evidence.unacknowledged
        return {
            "syns": evidence.syns,
            "refused": evidence.refused,
            "icmp": [
                {
                    "error": ICMP_ERRORS[error.error],
                    "mtu": error.mtu or None,
                    "count": error.times,
                    "timestamp": iso_time(error.time),
                }
                for error in evidence.errors
            ],
            "ended_by": self._side(evidence.ended_by),
            "idle_before_end_ms": milliseconds(evidence.silence),
            "unacknowledged": None
            if last is None
            else {
                "sender": self._side(last.direction),
                "bytes": last.size,
                "times": last.times,
                "idle_before_ms": milliseconds(max(last.silence, 0)),
                "full_sized_acknowledged": last.full_sized,
            },
            "first_bytes": self.first_bytes,
            "answered_with": self.answered_with,
            "decode_as": self.decode_as,
            "tls_handshake": self.tls_handshake,
            "tls_alerts": [*map(self._alert, self.tls_alerts)],
        }

    def _alert(self, alert: tuple[int, int | None, int | None]) -> dict[str, str | None]:
        from kinspect.tls.handshake import ALERT_LEVELS, ALERTS  # most runs have no TLS

        direction, level, description = alert
        return {
            "sender": self._side(direction),
            "level": None if level is None else ALERT_LEVELS.get(level, str(level)),
            "description": None if description is None else ALERTS.get(description, str(description)),
        }


Line: TypeAlias = Exchange | ConnectionLine | Gap
