"""Packets of a capture as a plain list, to be changed and decoded again.

`packets(path)` reads one, `blocks` hands a list to the `Inspector`, `Tcp` takes an Ethernet frame apart and puts it
together again with another payload.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kinspect.capture import open_timeline
from kinspect.link import segments
from kinspect.model import SYN, Block, Counts

PACKETS_A_BLOCK = 100


class Packet(NamedTuple):
    """A packet as it was captured. `origin` is its frame in the capture it comes from, `cut` how many bytes of
    it the snap length took."""

    time: int | None
    data: bytes
    origin: int = 0
    cut: int = 0
    link_type: int = 1


@lru_cache(maxsize=8)
def packets(path: Path) -> tuple[Packet, ...]:
    """The packets of a capture; one that ends in the middle of a packet has those before it."""
    return tuple(
        Packet(
            block.times[index],
            block.data[start:end],
            (block.first_frame & 0xFFFFFFFF) + index,
            block.wire_lengths[index] - (end - start),
            block.link_types[index],
        )
        for block in open_timeline([path])
        for index, (start, end) in enumerate(zip(block.starts, block.ends, strict=True))
    )


# Offset of the network layer, and of its type, by link type; a VLAN tag is four bytes more.
NETWORK = {0: (4, None), 1: (14, 12), 101: (0, None), 113: (16, 14), 276: (20, 0)}
VLAN_TAGS = (b"\x81\x00", b"\x88\xa8")
ICMP = (1, 58)


def _addresses(data: bytes | bytearray, at: int) -> list[int]:
    """Where a byte of each address of an IP header stands that keeps it in its kind of network."""
    version = data[at] >> 4 if len(data) > at else 0
    return [at + offset for offset in {4: (14, 18), 6: (20, 36)}.get(version, ()) if len(data) > at + offset]


def moved(packet: Packet, number: int, hops: int = 0) -> Packet:
    """A packet on other addresses: both get `number` in a byte that keeps them in their kind of network, as do those
    that an ICMP error quotes. `hops`: those that it made to get there."""
    at, kind = NETWORK[packet.link_type]
    data = bytearray(packet.data)
    while kind is not None and data[kind : kind + 2] in VLAN_TAGS:
        at, kind = at + 4, at + 2
    if places := _addresses(data, at):
        left, protocol, header = (8, 9, (data[at] & 15) * 4) if data[at] >> 4 == 4 else (7, 6, 40)
        data[at + left] = (data[at + left] - hops) % 256
        if data[at + protocol] in ICMP:
            places += _addresses(data, at + header + 8)
    for place in places:
        data[place] ^= number
    return packet._replace(data=bytes(data))


def blocks(taken: Iterable[Packet]) -> Iterator[Block]:
    """The packets as a reader would hand them on."""
    taken = list(taken)
    for first in range(0, len(taken), PACKETS_A_BLOCK):
        run = taken[first : first + PACKETS_A_BLOCK]
        bounds = [0]
        for packet in run:
            bounds.append(bounds[-1] + len(packet.data))
        yield Block(
            b"".join(packet.data for packet in run),
            first + 1,
            [packet.time for packet in run],
            bounds[:-1],
            bounds[1:],
            [len(packet.data) + packet.cut for packet in run],
            [packet.link_type for packet in run],
        )


def cut_at(packet: Packet, size: int) -> Packet:
    """A packet as a snap length leaves it."""
    lost = max(len(packet.data) - size, 0)
    return packet._replace(data=packet.data[:size], cut=packet.cut + lost)


def nanosecond_pcap(taken: Iterable[Packet]) -> bytes:
    """The packets, all of one link type, as a pcap file."""
    taken = list(taken)
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, taken[0].link_type)]
    for packet in taken:
        size = len(packet.data)
        parts += [struct.pack("<IIII", *divmod(packet.time, 10**9), size, size + packet.cut), packet.data]
    return b"".join(parts)


def aligned(found: Iterable[Packet], whole: Iterable[Packet]) -> list[Packet]:
    """`found` with the frames its packets have in `whole`, of which some were left out or cut short.

    Raises ValueError for a packet that is not there.
    """
    rest, placed = iter(whole), []
    for packet in found:
        for other in rest:
            if packet.time == other.time and other.data.startswith(packet.data):
                placed.append(packet._replace(origin=other.origin))
                break
        else:
            raise ValueError(f"packet {packet.origin} is none of the original's")
    return placed


# ---------------------------------------------------------------------- one frame taken apart

IP_OF_ETHER_TYPE = {0x0800: 4, 0x86DD: 6}


@dataclass(frozen=True)
class Tcp:
    """Positions of the parts of an Ethernet frame with IP (no extension headers) and TCP."""

    data: bytes
    version: int
    tcp: int
    payload: int
    end: int

    @property
    def ends(self) -> tuple[bytes, bytes]:
        """Sender and receiver, address and port."""
        size = 4 if self.version == 4 else 16
        first = self.tcp - 2 * size if self.version == 6 else 26
        addresses = self.data[first : first + size], self.data[first + size : first + 2 * size]
        return addresses[0] + self.data[self.tcp : self.tcp + 2], addresses[1] + self.data[
            self.tcp + 2 : self.tcp + 4
        ]

    @property
    def seq(self) -> int:
        return int.from_bytes(self.data[self.tcp + 4 : self.tcp + 8], "big")

    @property
    def flags(self) -> int:
        return self.data[self.tcp + 13]

    @property
    def carried(self) -> bytes:
        """The payload."""
        return self.data[self.payload : self.end]

    @property
    def ack(self) -> int:
        return int.from_bytes(self.data[self.tcp + 8 : self.tcp + 12], "big")

    def carrying(self, seq: int, payload: bytes, flags: int, number: int) -> bytes:
        """The frame with another payload at `seq`, as another sending of the sender's.

        `number` tells sendings apart: IPv4's identification, the TCP checksum under IPv6. Checksums are wrong, as
        they are with offloading.
        """
        frame = bytearray(self.data[: self.payload])
        struct.pack_into(">I", frame, self.tcp + 4, seq % 2**32)
        frame[self.tcp + 13] = flags
        if self.version == 4:
            struct.pack_into(">H", frame, 16, self.payload - 14 + len(payload))
            struct.pack_into(">H", frame, 18, number)
        else:
            struct.pack_into(">H", frame, 18, self.payload - self.tcp + len(payload))
            struct.pack_into(">H", frame, self.tcp + 16, number)
        return bytes(frame) + payload


def tcp(data: bytes) -> Tcp | None:
    """The frame's parts; None if it is no TCP over IP over Ethernet, or not whole."""
    version = IP_OF_ETHER_TYPE.get(int.from_bytes(data[12:14], "big"))
    if version == 4 and data[23] == 6:
        start, end = 14 + 4 * (data[14] & 15), 14 + int.from_bytes(data[16:18], "big")
    elif version == 6 and data[20] == 6:
        start, end = 54, 54 + int.from_bytes(data[18:20], "big")
    else:
        return None
    payload = start + 4 * (data[start + 12] >> 4)
    return Tcp(data, version, start, payload, end) if payload <= end <= len(data) else None


# ---------------------------------------------------------------------- what carries which bytes


class Piece(NamedTuple):
    """The payload of one packet: its place in its direction's stream, and how much of it the snap length took."""

    frame: int
    start: int
    end: int
    missing: int


class Streams:
    """Byte ranges of streams by packet. A direction is known by its four-tuple as the packets have it; ports used
    again count as one stream."""

    def __init__(self, taken: Iterable[Packet]) -> None:
        taken = list(taken)
        self.pieces: dict[bytes, list[Piece]] = {}
        self.reused: set[bytes] = set()
        self.opened: dict[bytes, int] = {}
        """The place of the first byte, of directions whose SYN is there."""
        bases: dict[bytes, int] = {}
        for block in blocks(taken):
            for key, _, seq, _, flags, _, start, end, missing, frame, _ in segments(block, Counts()):
                base = bases.setdefault(key, seq)
                place = (seq - base + 2**31) % 2**32 - 2**31
                if flags & SYN:
                    place += 1
                    if self.opened.setdefault(key, place) != place:
                        self.reused.add(key)
                if end - start + missing:
                    piece = Piece(taken[frame - 1].origin, place, place + end - start + missing, missing)
                    self.pieces.setdefault(key, []).append(piece)
        self._frames = {key: [piece.frame for piece in pieces] for key, pieces in self.pieces.items()}

    def between(self, key: bytes, first: int, last: int) -> list[int]:
        """The frames of a direction from `first` to `last` that carry payload."""
        frames = self._frames.get(key, [])
        return frames[bisect_left(frames, first) : bisect_right(frames, last)]

    def spans(self, key: bytes, frames: Iterable[int] | None = None) -> list[tuple[int, int]]:
        """The bytes of a direction that its packets (or those of `frames`) hold, as sorted ranges."""
        wanted = None if frames is None else set(frames)
        joined: list[tuple[int, int]] = []
        for piece in sorted(self.pieces.get(key, []), key=lambda piece: piece.start):
            start, end = piece.start, piece.end - piece.missing
            if start >= end or (wanted is not None and piece.frame not in wanted):
                continue
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        return joined


def holes(spans: list[tuple[int, int]]) -> int:
    """Number of bytes between sorted ranges that lie in none of them."""
    return sum(after[0] - before[1] for before, after in pairwise(spans))
