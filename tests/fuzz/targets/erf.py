"""The bytes of an ERF file: as those of a pcap file, and once more behind records that make any bytes ERF."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack

from support.formats import erf
from support.packets import packets

from ..traffic import CAPTURES
from . import pcap

RECORDS = (bytes(8) + pack(">BBHHH", 22, 0, 16, 0, 0)) * 3


def fuzz(data: bytes) -> None:
    pcap.fuzz(data)
    pcap.fuzz(RECORDS + data)


def record(kind: int, body: bytes, length: int, wire: int) -> bytes:
    return pack("<II", 1 << 31, 1_700_000_000) + pack(">BBHHH", kind, 4, length, 3, wire) + body


def seeds() -> Iterator[bytes]:
    few = [packet for packet in packets(CAPTURES / "4.4.0" / "nano.pcap") if len(packet.data) < 100][:4]
    data = erf(few)
    yield data
    yield from pcap.compressed(data)
    for kind in (1, 2, 5, 17, 20, 21, 22, 23, 27, 31, 48):
        yield record(kind, b"a packet of some kind...", 40, 20) * 2
    extensions = b"\x91" + bytes(7) + b"\x12" + bytes(7)
    yield record(0x82, extensions + b"\0\0frame.", 40, 6) * 3
    yield record(0x82, extensions[:8] * 3, 40, 6) * 3
    yield record(2, b"", 16, 6) + record(2, bytes(8), 15, 6)
