"""The bytes of a snoop file: as those of a pcap file."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack

from support.formats import snoop
from support.packets import packets

from ..traffic import CAPTURES
from .pcap import compressed, fuzz

__all__ = ["fuzz", "seeds"]


def seeds() -> Iterator[bytes]:
    for path in sorted((CAPTURES / "variants").glob("*vlan.pcap*")):
        yield snoop(packets(path)[:4])
    few = [packet for packet in packets(CAPTURES / "4.4.0" / "nano.pcap") if len(packet.data) < 100][:4]
    data = snoop(few)
    yield data
    yield from compressed(data)
    for kind in (0, 8, 14, 18, 26, 0x80000005, 5):
        yield data[:12] + pack(">I", kind) + data[16:]
    yield data[:8] + pack(">I", 3) + data[12:]
    drops = pack(">6I", 5, 3, 36, 7, 1, 2) + bytes(12)
    yield data[:16] + drops + drops[:8] + pack(">I", 20) + drops[12:]
