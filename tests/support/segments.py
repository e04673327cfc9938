"""Packets of TCP connections, byte by byte: Ethernet, IPv4, TCP; and ICMP errors that quote them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from ipaddress import ip_address

from support.packets import Packet

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
CLIENT, BROKER = 0, 1
MS, SECOND = 10**6, 10**9
START = 1_700_000_000 * SECOND


def ipv4(source: str, destination: str, protocol: int, payload: bytes, number: int = 0) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), number & 0xFFFF, 0x4000, 64, protocol, 0)
    return head + ip_address(source).packed + ip_address(destination).packed + payload


def ipv6(source: str, destination: str, protocol: int, payload: bytes) -> bytes:
    head = struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64)
    return head + ip_address(source).packed + ip_address(destination).packed + payload


@dataclass
class TcpConnection:
    """Packets of a connection. Each call adds one, `after` nanoseconds behind the one before."""

    port: int = 40_000
    client: str = "10.0.0.1"
    broker: str = "10.0.0.9"
    broker_port: int = 9092
    time: int = START
    packets: list[Packet] = field(default_factory=list)
    seq: list[int] = field(default_factory=lambda: [1000, 5000])
    last: bytes = b""

    def wait(self, nanoseconds: int) -> TcpConnection:
        self.time += nanoseconds
        return self

    def send(
        self,
        side: int,
        flags: int,
        data: bytes = b"",
        after: int = MS,
        again: bool = False,
        ack: int | None = None,
    ) -> TcpConnection:
        """A segment; `again`: with the numbers of the last one of this size."""
        self.time += after
        ends = [(self.client, self.port), (self.broker, self.broker_port)]
        (source, port), (target, other) = ends[side], ends[1 - side]
        size = len(data) + bool(flags & (SYN | FIN))
        seq = self.seq[side] - (size if again else 0)
        acked = self.seq[1 - side] if ack is None else ack
        tcp = struct.pack(
            ">HHIIBBHHH", port, other, seq, acked if flags & ACK else 0, 5 << 4, flags, 65535, 0, 0
        )
        if not again:
            self.seq[side] += size
        made = ipv6 if ":" in source else ipv4
        more = () if made is ipv6 else (len(self.packets) + 7,)
        self.last = made(source, target, 6, tcp + data, *more)
        kind = b"\x86\xdd" if made is ipv6 else b"\x08\x00"
        self.packets.append(Packet(self.time, bytes(12) + kind + self.last))
        return self

    def syn(self, times: int = 1) -> TcpConnection:
        for number in range(times):
            self.send(CLIENT, SYN, after=MS if not number else SECOND << number - 1, again=number > 0)
        return self

    def open(self) -> TcpConnection:
        return self.syn().send(BROKER, SYN | ACK).send(CLIENT, ACK)

    def say(self, side: int, data: bytes, after: int = MS) -> TcpConnection:
        return self.send(side, PSH | ACK, data, after)

    def repeat(self, side: int, data: bytes, times: int) -> TcpConnection:
        for number in range(times):
            self.send(side, PSH | ACK, data, after=200 * MS << number, again=True)
        return self

    def fin(self, side: int) -> TcpConnection:
        return self.send(side, FIN | ACK)

    def reset(self, side: int) -> TcpConnection:
        if not any(packet.data[47] & ACK for packet in self.packets if len(packet.data) > 47):
            return self.send(BROKER, RST | ACK)
        return self.send(side, RST | ACK)

    def icmp(
        self, kind: int, code: int, mtu: int = 0, sender: str = "10.0.0.254", quoted: int = 28
    ) -> TcpConnection:
        """An error about the last segment."""
        self.time += MS
        body = struct.pack(">BBHI", kind, code, 0, mtu)
        if ":" in self.client:
            packet = ipv6("fd00::fe", self.client, 58, body + self.last[: max(quoted, 48)])
            self.packets.append(Packet(self.time, bytes(12) + b"\x86\xdd" + packet))
        else:
            packet = ipv4(sender, self.client, 1, body + self.last[:quoted], 1)
            self.packets.append(Packet(self.time, bytes(12) + b"\x08\x00" + packet))
        return self


def together(*connections: TcpConnection) -> list[Packet]:
    """All packets in the order of their times."""
    return sorted(
        (packet for connection in connections for packet in connection.packets),
        key=lambda packet: packet.time or 0,
    )
