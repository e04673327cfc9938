"""Writers of captures, one for each row of `kinspect.capture.fileformats`: packets in, a file's bytes out.

They are written from the formats' specifications. Times are whole microseconds, which every format can tell.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import groupby
from struct import pack

from support.packets import Packet, nanosecond_pcap

Writer = Callable[[Sequence[Packet]], bytes]


def pcapng(packets: Sequence[Packet]) -> bytes:
    """draft-ietf-opsawg-pcapng: two sections of different byte order, and an interface more in the middle of the first.

    An interface is described where its first packet comes.
    """
    third = len(packets) // 3
    parts = []
    for order, runs in (("<", (packets[:third], packets[third : 2 * third])), (">", (packets[2 * third :],))):
        parts.append(_block(order, 0x0A0D0D0A, pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)))
        interface = 0
        for run in runs:
            for link_type, same in groupby(run, key=lambda packet: packet.link_type):
                parts.append(_block(order, 1, pack(order + "HHI", link_type, 0, 0)))
                parts += [_enhanced(order, interface, packet) for packet in same]
                interface += 1
    return b"".join(parts)


def _enhanced(order: str, interface: int, packet: Packet) -> bytes:
    ticks, size = (packet.time or 0) // 1000, len(packet.data)
    head = pack(order + "5I", interface, ticks >> 32, ticks & 0xFFFFFFFF, size, size + packet.cut)
    return _block(order, 6, head + packet.data)


def _block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = len(body) + 12
    return pack(order + "II", kind, size) + body + pack(order + "I", size)


def snoop(packets: Sequence[Packet]) -> bytes:
    """RFC 1761: records are padded to four bytes, which is no part of their included length."""
    parts = [pack(">8sII", b"snoop", 2, 4)]
    for packet in packets:
        seconds, nanoseconds = divmod(packet.time or 0, 10**9)
        size = len(packet.data)
        padding = -size % 4
        lengths = size + packet.cut, size, 24 + size + padding
        parts += [pack(">6I", *lengths, 0, seconds, nanoseconds // 1000), packet.data, bytes(padding)]
    return b"".join(parts)


def erf(packets: Sequence[Packet]) -> bytes:
    """Endace's ERF types reference: records padded to eight bytes, of the types ETH and COLOR_ETH, every other one with
    two extension headers. A frame that was not cut has its check sequence behind it."""
    parts = []
    for number, packet in enumerate(packets):
        seconds, nanoseconds = divmod(packet.time or 0, 10**9)
        kind, extensions = (
            (2, 11)[number % 3 == 2],
            (b"", b"\x91" + bytes(7) + b"\x12" + bytes(7))[number % 2],
        )
        behind = b"" if packet.cut else zlib.crc32(packet.data).to_bytes(4, "little")
        body = extensions + bytes(2) + packet.data + behind
        size = 16 + len(body)
        padding = -size % 8
        parts += [
            pack("<II", (nanoseconds << 32) // 10**9, seconds),
            pack(
                ">BBHHH",
                kind | (0x80 if extensions else 0),
                4,
                size + padding,
                0,
                len(packet.data) + packet.cut + 4,
            ),
            body,
            bytes(padding),
        ]
    return b"".join(parts)


WRITERS: dict[str, Writer] = {
    "pcap": nanosecond_pcap,
    "pcapng": pcapng,
    "snoop": snoop,
    "ERF": erf,
}
"""By the name of the format's row."""
