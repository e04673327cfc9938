"""Frames inside other frames, written from the RFCs byte by byte: a function from frame to frame each."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from struct import pack

from support.packets import Packet

ADDRESSES = bytes((192, 0, 2, 1, 192, 0, 2, 2))
MACS = bytes.fromhex("0200000000a10200000000a2")
IP4, IP6 = b"\x08\x00", b"\x86\xdd"


def _ip4(protocol: int, payload: bytes) -> bytes:
    return pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 7, 0, 64, protocol, 0) + ADDRESSES + payload


def _ip6(next_header: int, payload: bytes) -> bytes:
    addresses = bytes.fromhex("fd00") + bytes(13) + b"\1" + bytes.fromhex("fd00") + bytes(13) + b"\2"
    return pack(">IHBB", 6 << 28, len(payload), next_header, 64) + addresses + payload


def _udp(port: int, payload: bytes) -> bytes:
    # The length has 16 bits; the loopback's packets of 64 KiB do not go through a tunnel.
    return pack(">HHHH", 51000, port, 8 + len(payload), 0) + payload


def _outer4(protocol: int, payload: bytes) -> bytes:
    return MACS + IP4 + _ip4(protocol, payload)


def vlan(frame: bytes) -> bytes:
    """802.1Q."""
    return frame[:12] + b"\x81\x00\x00\x64" + frame[12:]


def qinq(frame: bytes) -> bytes:
    """802.1ad."""
    return frame[:12] + b"\x88\xa8\x00\x07\x81\x00\x00\x64" + frame[12:]


def mpls(frame: bytes) -> bytes:
    """Two labels (RFC 3032)."""
    return frame[:12] + b"\x88\x47" + pack(">II", 100 << 12 | 64, 200 << 12 | 1 << 8 | 64) + frame[14:]


def vxlan(frame: bytes) -> bytes:
    """RFC 7348."""
    return _outer4(17, _udp(4789, pack(">II", 0x08000000, 4242 << 8) + frame))


def vxlan_over_ip6(frame: bytes) -> bytes:
    return MACS + IP6 + _ip6(17, _udp(4789, pack(">II", 0x08000000, 4242 << 8) + frame))


def geneve(frame: bytes) -> bytes:
    """RFC 8926, with an option of eight bytes."""
    header = pack(">BBHI", 2, 0, 0x6558, 99 << 8)
    return _outer4(17, _udp(6081, header + b"\x01\x02\x03\x01\0\0\0\x2a" + frame))


def gre(frame: bytes) -> bytes:
    """RFC 2784, with the key of RFC 2890, around the IP packet."""
    return _outer4(47, pack(">H2sI", 0x2000, frame[12:14], 5) + frame[14:])


def gre_of_frames(frame: bytes) -> bytes:
    return _outer4(47, pack(">HH", 0, 0x6558) + frame)


def erspan_2(frame: bytes) -> bytes:
    """draft-foschiano-erspan §4.2: GRE with a sequence number, then version, VLAN, session and index."""
    return _outer4(47, pack(">HHI", 0x1000, 0x88BE, 9) + pack(">II", 1 << 28 | 100 << 16 | 3, 1) + frame)


def ip_in_ip(frame: bytes) -> bytes:
    """RFC 2003; RFC 4213 for version 6."""
    return _outer4(4 if frame[12:14] == IP4 else 41, frame[14:])


def ip_in_ip6(frame: bytes) -> bytes:
    """RFC 2473."""
    return MACS + IP6 + _ip6(4 if frame[12:14] == IP4 else 41, frame[14:])


WRAPS: dict[str, Callable[[bytes], bytes]] = {
    wrap.__name__: wrap
    for wrap in (
        vlan,
        qinq,
        mpls,
        vxlan,
        vxlan_over_ip6,
        geneve,
        gre,
        gre_of_frames,
        erspan_2,
        ip_in_ip,
        ip_in_ip6,
    )
}
ROOM = 100
"""What a wrap adds at most."""


def fragmented(packets: Sequence[Packet], size: int, seed: object) -> list[Packet]:
    """IP packets with more than `size` bytes of payload in fragments of at most so many, a third of them shuffled.

    `size` is a multiple of 8.
    """
    rng = random.Random(f"fragments {seed}")
    found: list[Packet] = []
    for number, packet in enumerate(packets):
        pieces = (_fragments4 if packet.data[12:14] == IP4 else _fragments6)(packet.data, size, number + 1)
        if rng.random() < 1 / 3:
            rng.shuffle(pieces)
        found += [packet._replace(data=data) for data in pieces]
    return found


def _fragments4(frame: bytes, size: int, number: int) -> list[bytes]:
    header_end = 14 + 4 * (frame[14] & 15)
    header, payload = frame[14:header_end], frame[header_end : 14 + int.from_bytes(frame[16:18], "big")]
    if len(payload) <= size:
        return [frame]
    return [
        frame[:14]
        + header[:2]
        + pack(
            ">HHH",
            len(header) + len(payload[at : at + size]),
            number & 0xFFFF,
            (0x2000 if at + size < len(payload) else 0) | at // 8,
        )
        + header[8:]
        + payload[at : at + size]
        for at in range(0, len(payload), size)
    ]


def _fragments6(frame: bytes, size: int, number: int) -> list[bytes]:
    payload = frame[54 : 54 + int.from_bytes(frame[18:20], "big")]
    if len(payload) <= size:
        return [frame]
    return [
        frame[:18]
        + pack(">HB", 8 + len(payload[at : at + size]), 44)
        + frame[21:54]
        + pack(">BBHI", frame[20], 0, at | (at + size < len(payload)), number)
        + payload[at : at + size]
        for at in range(0, len(payload), size)
    ]
