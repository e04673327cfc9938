"""Writes captures of every variant, from the specifications and without kinspect's own tables."""

from __future__ import annotations

import gzip
from pathlib import Path
from struct import pack
from typing import NamedTuple

import cramjam

from kinspect.capture import open_timeline
from kinspect.capture.timeline import Timeline
from kinspect.model import FRAME_BITS, FRAME_MASK

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


class Packet(NamedTuple):
    """A packet that a test writes and reads back; `time` in nanoseconds."""

    time: int | None
    data: bytes
    wire: int
    link_type: int = 1


def packets(count: int, *, start: int = START, step: int = 1000, size: int = 20) -> list[Packet]:
    """Packets of different sizes with different bytes."""
    return [
        Packet(start + i * step, bytes([i % 256]) * (size + i % 7), size + i % 7 + (i % 3) * 100)
        for i in range(count)
    ]


def pcap(
    content: list[Packet],
    *,
    order: str = "<",
    magic: int = 0xA1B2C3D4,
    link_field: int = 1,
    snaplen: int = 262144,
) -> bytes:
    unit = 1 if magic == 0xA1B23C4D else 1000
    parts = [pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, link_field)]
    for packet in content:
        seconds, rest = divmod(packet.time or 0, SECOND)
        parts.append(pack(order + "IIII", seconds, rest // unit, len(packet.data), packet.wire))
        if magic == 0xA1B2CD34:
            parts.append(pack(order + "IHBB", 2, 0x0800, 4, 0))
        parts.append(packet.data)
    return b"".join(parts)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


class Pcapng:
    """Collects blocks in one byte order."""

    def __init__(self, order: str = "<") -> None:
        self.order = order
        self.parts: list[bytes] = []

    def bytes(self) -> bytes:
        return b"".join(self.parts)

    def block(self, kind: int, body: bytes) -> Pcapng:
        length = len(padded(body)) + 12
        self.parts.append(
            pack(self.order + "II", kind, length) + padded(body) + pack(self.order + "I", length)
        )
        return self

    def option(self, code: int, value: bytes) -> bytes:
        return pack(self.order + "HH", code, len(value)) + padded(value)

    def section(self, version: tuple[int, int] = (1, 0)) -> Pcapng:
        return self.block(0x0A0D0D0A, pack(self.order + "IHHq", 0x1A2B3C4D, *version, -1))

    def interface(
        self,
        link_type: int = 1,
        *,
        snaplen: int = 0,
        tsresol: int | None = None,
        tsoffset: int | None = None,
        fcslen: int | None = None,
    ) -> Pcapng:
        options = b"".join(
            [
                self.option(2, b"eth0"),
                self.option(9, bytes([tsresol])) if tsresol is not None else b"",
                self.option(14, pack(self.order + "q", tsoffset)) if tsoffset is not None else b"",
                self.option(13, bytes([fcslen])) if fcslen is not None else b"",
                self.option(0, b""),
            ]
        )
        return self.block(1, pack(self.order + "HHI", link_type, 0, snaplen) + options)

    def enhanced(
        self, ticks: int, data: bytes, wire: int, interface: int = 0, options: bytes = b""
    ) -> Pcapng:
        body = pack(self.order + "5I", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire)
        return self.block(6, body + padded(data) + options)

    def old(self, ticks: int, data: bytes, wire: int, interface: int = 0) -> Pcapng:
        body = pack(self.order + "HH4I", interface, 7, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire)
        return self.block(2, body + padded(data))

    def simple(self, data: bytes, wire: int) -> Pcapng:
        return self.block(3, pack(self.order + "I", wire) + padded(data))

    def statistics(
        self, interface: int = 0, *, ifdrop: int | None = None, osdrop: int | None = None, start: int = 0
    ) -> Pcapng:
        options = self.option(2, pack(self.order + "II", start >> 32, start & 0xFFFFFFFF)) if start else b""
        options += self.option(4, pack(self.order + "Q", 1000))
        options += self.option(5, pack(self.order + "Q", ifdrop)) if ifdrop is not None else b""
        options += self.option(7, pack(self.order + "Q", osdrop)) if osdrop is not None else b""
        return self.block(5, pack(self.order + "III", interface, 0, 0) + options + self.option(0, b""))

    def secrets(self, text: bytes, kind: int = 0x544C534B) -> Pcapng:
        return self.block(10, pack(self.order + "II", kind, len(text)) + padded(text))


def pcapng(content: list[Packet], order: str = "<") -> bytes:
    """One section, one interface in microseconds."""
    file = Pcapng(order).section().interface()
    for packet in content:
        file.enhanced((packet.time or 0) // 1000, packet.data, packet.wire)
    return file.bytes()


COMPRESS = {
    "gzip": gzip.compress,
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
}


class Read(NamedTuple):
    packets: list[Packet]
    frames: list[tuple[int, int]]
    """File index and frame number."""
    timeline: Timeline

    @property
    def messages(self) -> list[str]:
        return [str(error) for error in self.timeline.errors]


def read(*paths: Path | str, block_size: int | None = None) -> Read:
    """All that a timeline hands out, and the timeline; checks what must hold of every block."""
    names = [str(path) for path in paths]
    timeline = open_timeline(names) if block_size is None else open_timeline(names, block_size=block_size)
    found: list[Packet] = []
    frames: list[tuple[int, int]] = []
    for block in timeline:
        count = len(block)
        assert count > 0
        assert isinstance(block.data, bytes)
        columns = (block.times, block.starts, block.ends, block.wire_lengths, block.link_types)
        assert {len(column) for column in columns} == {count}
        for i, (time, start, end, wire, link_type) in enumerate(zip(*columns, strict=True)):
            assert 0 <= start <= end <= len(block.data)
            assert end - start <= wire
            found.append(Packet(time, block.data[start:end], wire, link_type))
            frame = block.first_frame + i
            frames.append((frame >> FRAME_BITS, frame & FRAME_MASK))
    assert timeline.packets == len(found)
    return Read(found, frames, timeline)
