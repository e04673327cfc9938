"""Captures built from a script of what the two ends of a TCP connection send.

    conversation = Conversation(client=("10.0.0.1", 40000), broker=("10.0.0.9", 9092))
    conversation.open()
    conversation.client_sends(request)
    conversation.broker_sends(response)
    conversation.close()
    path.write_bytes(pcap(conversation.packets))

Every send is cut into segments of at most `mss` bytes and acknowledged by the other end. `packets` is a plain list
of `Packet`: drop some, swap some, repeat some or join the lists of several conversations before they are written.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import NamedTuple

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
ETHERNET = 1
START_US = 1_700_000_000_000_000
STEP_US = 100
DEFAULT_MSS = 1460
CLIENT, BROKER = 0, 1


class Packet(NamedTuple):
    """An Ethernet frame and the time it was seen at, in microseconds since the epoch."""

    time_us: int
    data: bytes


def pcap(packets: list[Packet], link_type: int = ETHERNET, snap_length: int = 262144) -> bytes:
    """A little-endian microsecond pcap file; packets longer than `snap_length` are cut as tcpdump cuts them."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap_length, link_type)]
    for time_us, data in packets:
        kept = data[:snap_length]
        parts += [struct.pack("<IIII", *divmod(time_us, 1_000_000), len(kept), len(data)), kept]
    return b"".join(parts)


def tcp_frame(
    source: tuple[str, int],
    target: tuple[str, int],
    sequence: int,
    acknowledged: int,
    flags: int,
    payload: bytes = b"",
) -> bytes:
    """Ethernet, IPv4 and TCP around a payload. Checksums are zero, as with offloading."""
    tcp = struct.pack(
        ">HHIIBBHHH",
        source[1],
        target[1],
        sequence & 0xFFFFFFFF,
        acknowledged & 0xFFFFFFFF,
        5 << 4,
        flags,
        65535,
        0,
        0,
    )
    total = 20 + len(tcp) + len(payload)
    addresses = IPv4Address(source[0]).packed + IPv4Address(target[0]).packed
    ip = struct.pack(">BBHHHBBH", 0x45, 0, total, 0, 0x4000, 64, 6, 0) + addresses
    return b"\x02\0\0\0\0\1\x02\0\0\0\0\2\x08\x00" + ip + tcp + payload


@dataclass
class Conversation:
    """One TCP connection. `sequences` are the initial sequence numbers of client and broker; packets are
    `STEP_US` apart from `time_us` on."""

    client: tuple[str, int] = ("10.0.0.1", 40000)
    broker: tuple[str, int] = ("10.0.0.9", 9092)
    mss: int = DEFAULT_MSS
    sequences: tuple[int, int] = (1000, 5000)
    time_us: int = START_US
    packets: list[Packet] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._next = list(self.sequences)

    def open(self) -> None:
        """The three-way handshake."""
        self._packet(CLIENT, SYN)
        self._packet(BROKER, SYN | ACK)
        self._packet(CLIENT, ACK)

    def client_sends(self, data: bytes) -> None:
        self._send(CLIENT, data)

    def broker_sends(self, data: bytes) -> None:
        self._send(BROKER, data)

    def close(self) -> None:
        """FIN from the client, then from the broker."""
        self._packet(CLIENT, FIN | ACK)
        self._packet(BROKER, FIN | ACK)
        self._packet(CLIENT, ACK)

    def reset(self) -> None:
        """RST from the client."""
        self._packet(CLIENT, RST | ACK)

    def _send(self, sender: int, data: bytes) -> None:
        for start in range(0, len(data), self.mss):
            self._packet(sender, PSH | ACK, data[start : start + self.mss])
        self._packet(1 - sender, ACK)

    def _packet(self, sender: int, flags: int, payload: bytes = b"") -> None:
        ends = (self.client, self.broker)
        acknowledged = self._next[1 - sender] if flags & ACK else 0
        frame = tcp_frame(ends[sender], ends[1 - sender], self._next[sender], acknowledged, flags, payload)
        self.packets.append(Packet(self.time_us, frame))
        self._next[sender] += len(payload) + (1 if flags & (SYN | FIN) else 0)
        self.time_us += STEP_US


def framed(message: bytes) -> bytes:
    """A Kafka message with its four-byte size."""
    return struct.pack(">i", len(message)) + message
