"""The bytes of a pcapng file: as those of a pcap file."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack

from ..traffic import CAPTURES, content
from .pcap import compressed, fuzz

__all__ = ["fuzz", "seeds"]


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    size = pack(order + "I", len(body) + 12)
    return pack(order + "I", kind) + size + body + size


def seeds() -> Iterator[bytes]:
    for path in sorted(CAPTURES.glob("*/*.pcapng*")):
        yield content(path)[:2000]
    for order in "<>":
        data = block(0x0A0D0D0A, pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)
        options = pack(order + "HHB3xHHqHHB3xHH", 9, 1, 0x86, 14, 8, 5, 13, 1, 4, 0, 0)
        data += block(1, pack(order + "HHI", 1, 0, 96) + options, order)
        data += block(1, pack(order + "HHI", 101, 0, 0), order)
        data += block(2, pack(order + "HHIIII", 1, 0, 1, 2, 5, 9) + b"olden", order)
        data += block(3, pack(order + "I", 6) + b"simple", order)
        data += block(6, pack(order + "IIIII", 0, 1, 2, 8, 8) + b"enhanced", order)
        data += block(5, pack(order + "IIIHHQHHQ", 0, 1, 2, 5, 8, 3, 7, 8, 4), order)
        data += block(10, pack(order + "II", 0x544C534B, 16) + b"CLIENT_RANDOM aa", order)
        yield data
        yield from compressed(data)
