"""Identity of a connection: its ends, its id, and the Community ID that Zeek, Suricata and Arkime print too."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import pack
from typing import Final, Protocol

from kinspect.kafka.wire.hashes import sha1
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.model import Caps, Counts, Evidence, Origin

TCP: Final = 6
IPV4_BYTES: Final = 4

Address = tuple[bytes, int]


class Flow(Protocol):
    """A connection as the reassembly knows it; pairs are indexed by direction."""

    @property
    def addresses(self) -> tuple[Address, Address]: ...
    @property
    def syn(self) -> int | None: ...
    @property
    def start_time(self) -> int | None: ...
    @property
    def packets(self) -> tuple[int, int]: ...
    @property
    def bytes(self) -> tuple[int, int]: ...
    @property
    def conflicts(self) -> tuple[int, int]: ...
    @property
    def handshake(self) -> tuple[tuple[int, int], tuple[int, int]] | None: ...
    @property
    def stepped_at(self) -> int | None: ...
    @property
    def evidence(self) -> Evidence: ...


class SharedState(Protocol):
    """State that all connections of a run share (the ledger)."""

    @property
    def names(self) -> LearnedNames: ...
    @property
    def files(self) -> Sequence[str]: ...
    @property
    def caps(self) -> Caps: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def origin(self) -> Origin: ...


@dataclass(slots=True, eq=False, repr=False)
class Endpoints:
    """Client and broker of a connection, and the state that its exchanges share: learned `names`, input `files`, caps.
    One object a connection, equal to itself alone.

    Addresses are text, as `10.0.0.1`. `connection_id`: see the function of that name; `community_id`: Community ID v1.
    `tls`: True if the connection was decrypted. `host`, `interface`: where its first packet was captured, if known.
    `handshake`: the sequence numbers of the client's and the broker's SYN, and the hops that the client's had left (its
    TTL); None if one was not seen.
    """

    client_ip: str
    client_port: int
    broker_ip: str
    broker_port: int
    connection_id: str
    community_id: str
    names: LearnedNames
    files: Sequence[str]
    caps: Caps
    counts: Counts
    tls: bool = False
    host: str | None = None
    interface: str | None = None
    handshake: tuple[int, int, int] | None = None


def endpoints_of(
    flow: Flow, client: int, ledger: SharedState, tls: bool = False, interface: str | None = None
) -> Endpoints:
    """The ends of `flow`. `client`: the client's direction (0 or 1); `tls`: True if the connection was decrypted;
    `interface`: that of its first packet."""
    own, other = flow.addresses[client], flow.addresses[1 - client]
    syns = flow.handshake
    return Endpoints(
        client_ip=ip_text(own[0]),
        client_port=own[1],
        broker_ip=ip_text(other[0]),
        broker_port=other[1],
        connection_id=connection_id(own, other, flow.start_time),
        community_id=community_id(own, other),
        names=ledger.names,
        files=ledger.files,
        caps=ledger.caps,
        counts=ledger.counts,
        tls=tls,
        host=ledger.origin.host,
        interface=interface,
        handshake=None if syns is None else (syns[client][0], syns[1 - client][0], syns[client][1]),
    )


def likely_client(flow: Flow) -> int:
    """The direction of the side that opened the connection; without its SYN, the one with the higher port."""
    if flow.syn is not None:
        return flow.syn
    (_, port), (_, other) = flow.addresses
    return 0 if port >= other else 1


@lru_cache(4096)
def ip_text(address: bytes) -> str:
    """4 or 16 address bytes as text."""
    if len(address) == IPV4_BYTES:
        return ".".join(map(str, address))
    from ipaddress import ip_address

    return str(ip_address(address))


def endpoint(ip: str, port: int) -> str:
    """Address and port as text: `10.0.0.1:9092`, `[::1]:9092`."""
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def connection_id(client: Address, broker: Address, start_time: int | None) -> str:
    """`client:port-broker:port@start`, the start in nanoseconds since the epoch (0 where the capture has no time)."""
    both = "-".join(endpoint(ip_text(ip), port) for ip, port in (client, broker))
    return f"{both}@{start_time or 0}"


def community_id(one: Address, other: Address) -> str:
    """Community ID v1 of a TCP flow (the specification's algorithm: ordered endpoints, SHA-1, base64), with seed 0."""
    (ip_a, port_a), (ip_b, port_b) = sorted((one, other))
    data = bytes(2) + ip_a + ip_b + bytes((TCP, 0)) + pack(">HH", port_a, port_b)
    return "1:" + binascii.b2a_base64(sha1(data, usedforsecurity=False).digest(), newline=False).decode()
