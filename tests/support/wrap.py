"""Frames inside other frames and link layers, written from their specifications byte by byte: a function each, which
takes an Ethernet frame."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from struct import pack
from typing import NamedTuple

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


def pppoe(frame: bytes) -> bytes:
    """A session of RFC 2516."""
    inside = _ppp(frame)
    return frame[:12] + b"\x88\x64" + pack(">BBHH", 0x11, 0, 0x2A, len(inside)) + inside


def pptp(frame: bytes) -> bytes:
    """GRE version 1 with key, sequence and acknowledgment number (RFC 2637), PPP with address and control inside."""
    inside = b"\xff\x03" + _ppp(frame)
    return _outer4(47, pack(">HHHHII", 0x3081, 0x880B, len(inside), 7, 1, 2) + inside)


def wccp_1(frame: bytes) -> bytes:
    """GRE with the number of WCCP, and the packet right behind it."""
    return _outer4(47, pack(">HH", 0, 0x883E) + frame[14:])


def wccp_2(frame: bytes) -> bytes:
    """draft-mclaggan-wccp-v2rev1: the same with a redirect header, here of a dynamic service."""
    return _outer4(47, pack(">HHBBBB", 0, 0x883E, 0x80, 90, 0, 5) + frame[14:])


def pbb(frame: bytes) -> bytes:
    """IEEE 802.1ah: a backbone VLAN and an I-TAG around the frame."""
    return MACS + b"\x88\xa8\x00\x07\x88\xe7" + pack(">I", 0x00ABCDEF) + frame


def vn_tag(frame: bytes) -> bytes:
    """new-pelissier-vntag-seg-0508 of IEEE 802.1: a destination and a source interface."""
    return frame[:12] + b"\x89\x26" + pack(">I", 5 << 16 | 9) + frame[12:]


def e_tag(frame: bytes) -> bytes:
    """IEEE 802.1BR."""
    return frame[:12] + b"\x89\x3f" + pack(">HHH", 9, 5, 0) + frame[12:]


def fabricpath(frame: bytes) -> bytes:
    """An outer header with tree and time to live, then the frame; a check sequence of its own is behind all."""
    addresses = bytes.fromhex("020001000a01020002000b01")
    return addresses + b"\x89\x03" + pack(">H", 1 << 6 | 32) + frame + b"FCS!"


# ---------------------------------------------------------------------- other link layers


def _ppp(frame: bytes) -> bytes:
    return (b"\x00\x21" if frame[12:14] == IP4 else b"\x00\x57") + frame[14:]


def ppp(frame: bytes) -> bytes:
    return _ppp(frame)


def ppp_framed(frame: bytes) -> bytes:
    return b"\xff\x03" + _ppp(frame)


def ppp_short(frame: bytes) -> bytes:
    """Protocol field compression (RFC 1661 §6.5)."""
    return _ppp(frame)[1:]


def cisco_hdlc(frame: bytes) -> bytes:
    return b"\x0f\x00" + frame[12:]


def ppp_ether(frame: bytes) -> bytes:
    return pppoe(frame)[14:]


def pktap(frame: bytes) -> bytes:
    """Apple's net/pktap.h, the first version."""
    head = pack("<III24sIIIII20s", 108, 1, 1, b"en0", 1, 2, 14, 0, 4711, b"java")
    return head.ljust(108, b"\0") + frame


def pktap_raw(frame: bytes) -> bytes:
    """A longer header, around an IP packet."""
    head = pack("<III24sIIIII20s", 156, 1, 12, b"utun3", 1, 2, 0, 0, 4711, b"java")
    return head.ljust(156, b"\0") + frame[14:]


def _nflog(frame: bytes, order: str) -> bytes:
    def field(kind: int, value: bytes) -> bytes:
        return pack(order + "HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)

    head = pack(">BBH", 2 if frame[12:14] == IP4 else 10, 0, 5)
    fields = field(1, frame[12:14] + b"\1\0") + field(10, b"prefix:\0")
    return head + fields + field(9, frame[14:]) + field(11, pack(">I", 1000))


def nflog(frame: bytes) -> bytes:
    """Linux' nfnetlink_log.h: a packet between other fields, from a little-endian host."""
    return _nflog(frame, "<")


def nflog_big_endian(frame: bytes) -> bytes:
    return _nflog(frame, ">")


def ipoib(frame: bytes) -> bytes:
    """RFC 4391 §6, behind 40 bytes that tell addresses."""
    return bytes(20) + bytes(range(20)) + frame[12:14] + bytes(2) + frame[14:]


def erf(frame: bytes) -> bytes:
    """A record of Endace's type ETH, with one extension header and without a frame check sequence."""
    body = b"\x11" + bytes(7) + bytes(2) + frame
    body += bytes(-len(body) % 8)
    return pack("<Q", 0) + pack(">BBHHH", 0x82, 4, 16 + len(body), 0, len(frame)) + body


class Wrap(NamedTuple):
    """A function from an Ethernet frame to a packet, and the LINKTYPE_ value of what it gives."""

    around: Callable[[bytes], bytes]
    link_type: int = 1


WRAPS: dict[str, Wrap] = {
    wrap.__name__: Wrap(wrap)
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
        pppoe,
        pptp,
        wccp_1,
        wccp_2,
        pbb,
        vn_tag,
        e_tag,
        fabricpath,
    )
} | {
    f"{wrap.__name__}_{link_type}": Wrap(wrap, link_type)
    for link_type, wrap in (
        (9, ppp),
        (9, ppp_framed),
        (9, ppp_short),
        (50, ppp_framed),
        (50, cisco_hdlc),
        (51, ppp_ether),
        (104, cisco_hdlc),
        (149, pktap),
        (197, erf),
        (239, nflog),
        (239, nflog_big_endian),
        (242, ipoib),
        (258, pktap),
        (258, pktap_raw),
    )
}
ROOM = 200
"""Most bytes that a wrap adds."""


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
