"""Packets of every link type: rows that lie within their packets, and every packet counted."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack

from support.wrap import WRAPS

from kinspect.link import LINK_TYPES, Dissector
from kinspect.link.cursor import Cursor
from kinspect.link.fragments import Fragments
from kinspect.link.segments import walk
from kinspect.model import QUOTED, Block, Caps, Counts, Segment

from ..script import Script, short
from ..traffic import CAPTURES, every

TYPES = (*LINK_TYPES, 147)
SECOND = 1_000_000_000
CAPS = Caps(fragment_bytes=4096, fragments=4)

Packet = tuple[int, int, bytes, int]
"""Link type, time, captured bytes, length on the wire."""
Row = tuple[bytes, int | None, int, int, int, bytes, int, int, int]


def script(data: bytes) -> list[Packet]:
    """Link type, an octet for what the snap length cut and the time since the last packet, size, bytes."""
    steps = Script(data)
    packets: list[Packet] = []
    time = 0
    while steps.left:
        link_type = TYPES[steps.byte() % len(TYPES)]
        octet = steps.byte()
        time += (octet >> 6) * 12 * SECOND
        captured = steps.take(steps.short())
        packets.append((link_type, time, captured, len(captured) + (octet & 63) * 8))
    return packets


def write(packets: list[tuple[int, bytes]]) -> bytes:
    """Whole packets of link types."""
    return b"".join(bytes((TYPES.index(kind), 0)) + short(len(data)) + data for kind, data in packets)


def fuzz(data: bytes) -> None:
    packets = script(data)
    counts = Counts()
    dissector = Dissector(CAPS, counts, quotes=True)
    rows = [row(segment) for segment in dissector.segments(block(packets, 1, b"\x45" * 5))]
    dissector.flush()
    assert counts.packets == len(packets)
    found = sum(not row[4] & QUOTED for row in rows)
    assert counts.tcp_segments == found
    undecoded = sum(counts.undecoded_packets.values())
    assert counts.packets == found + undecoded + counts.fragments, "packets went uncounted"

    alone = Counts()
    dissector = Dissector(CAPS, alone, quotes=True)
    one_by_one = [
        row(segment)
        for index, packet in enumerate(packets)
        for segment in dissector.segments(block([packet], index + 1, b""))
    ]
    dissector.flush()
    assert one_by_one == rows, "rows depend on the block that a packet is in"
    assert alone == counts
    assert list(slowly(packets)) == rows, "the quick way gives other rows than the layers"


def block(packets: list[Packet], first_frame: int, before: bytes) -> Block:
    found = Block(b"", first_frame, [], [], [], [], [])
    buffer = before
    for link_type, time, data, wire in packets:
        found.times.append(time)
        found.starts.append(len(buffer))
        buffer += data
        found.ends.append(len(buffer))
        found.wire_lengths.append(wire)
        found.link_types.append(link_type)
    found.data = buffer + before
    return found


def row(segment: Segment) -> Row:
    key, time, seq, ack, flags, data, start, end, missing, frame, mark = segment
    assert len(key) >= 12
    assert 0 <= start <= end <= len(data)
    assert missing >= 0
    assert 0 <= seq < 1 << 32
    assert 0 <= ack < 1 << 32
    assert 0 <= mark < 1 << 64
    return key, time, seq, ack, flags, data[start:end], missing, frame, mark


def slowly(packets: list[Packet]) -> Iterator[Row]:
    """The rows without the short cut for usual packets."""
    cursor = Cursor(Fragments(CAPS, Counts()))
    for index, (link_type, time, data, wire) in enumerate(packets):
        if walk(cursor, data, 0, len(data), wire, link_type, time):
            yield (
                cursor.key,
                time,
                cursor.seq,
                cursor.ack,
                cursor.flags,
                cursor.data[cursor.at : cursor.end],
                cursor.wire_end - cursor.end,
                index + 1,
                cursor.mark,
            )


# ---------------------------------------------------------------------- seeds


def ipv4(protocol: int, payload: bytes, fragment: int = 0) -> bytes:
    total = 20 + len(payload)
    return pack(">BBHHHBBHII", 0x45, 0, total, 7, fragment, 64, protocol, 0, 0x0A000001, 0x0A000002) + payload


def ipv6(following: int, payload: bytes) -> bytes:
    return pack(">IHBB", 0x60000000, len(payload), following, 64) + bytes(range(32)) + payload


def udp(port: int, payload: bytes) -> bytes:
    return pack(">HHHH", 40000, port, 8 + len(payload), 0) + payload


def ethernet(ethertype: int, payload: bytes) -> bytes:
    return bytes(12) + pack(">H", ethertype) + payload


def seeds() -> Iterator[bytes]:
    for path in sorted((CAPTURES / "variants").glob("*.pcap*")):
        packets = [(kind, data) for data, _, kind in every(path)]
        yield write([packet for packet in packets if len(packet[1]) < 300][:4])
    tcp = pack(">HHIIBBHHH", 40000, 9092, 1, 2, 0x50, 0x18, 9, 0, 0) + b"payload of a segment that is long"
    inside = ipv4(6, tcp)
    frame = ethernet(0x0800, inside)
    later = ipv6(6, tcp)
    for packet in (
        frame,
        ethernet(0x86DD, later),
        ethernet(0x88A8, pack(">HHHH", 5, 0x8100, 6, 0x0800) + inside),
        ethernet(0x8847, pack(">II", 0x00010040, 0x00020140) + inside),
        ethernet(0x0800, ipv4(1, pack(">BBHI", 3, 4, 0, 1400) + inside)),
        ethernet(0x86DD, ipv6(58, pack(">BBHI", 2, 0, 0, 1280) + later)),
        ethernet(0x0800, ipv4(4, inside)),
        ethernet(0x0800, ipv4(41, later)),
        ethernet(0x0800, ipv4(17, udp(4789, pack(">II", 0x08000000, 0x00002A00) + frame))),
        ethernet(0x0800, ipv4(17, udp(6081, pack(">BBHII", 1, 0, 0x6558, 0x2A00, 0x01020300) + frame))),
        ethernet(0x0800, ipv4(17, udp(6635, pack(">I", 0x00010140) + inside))),
        ethernet(0x0800, ipv4(47, pack(">HHI", 0x2000, 0x0800, 77) + inside)),
        ethernet(0x0800, ipv4(47, pack(">HHIII", 0x1000, 0x88BE, 1, 0x10000005, 0) + frame)),
        ethernet(0x0800, ipv4(47, pack(">HHIIII", 0x1000, 0x22EB, 1, 0x20000005, 0, 0) + frame)),
        ethernet(0x86DD, ipv6(0, b"\x3c\0" + bytes(6) + b"\x06\0" + bytes(6) + tcp)),
        ethernet(0x86DD, ipv6(51, b"\x06\x04" + bytes(22) + tcp)),
        ethernet(0x86DD, ipv6(43, b"\x06\0" + bytes(6) + tcp)),
    ):
        yield write([(1, packet)])
    for wrap in WRAPS.values():
        yield write([(wrap.link_type, wrap.around(each)) for each in (frame, ethernet(0x86DD, later))])
    parts = [ipv4(6, tcp[:24], 0x2000), ipv4(6, tcp[24:48], 0x2003), ipv4(6, tcp[48:], 6)]
    yield write([(1, ethernet(0x0800, part)) for part in parts])
    yield write([(101, part) for part in reversed(parts)])
    halves = [
        ipv6(44, b"\x06\0" + pack(">HI", 1, 9) + tcp[:24]),
        ipv6(44, b"\x06\0" + pack(">HI", 24, 9) + tcp[24:]),
    ]
    yield write([(229, half) for half in halves])
    yield write([(228, inside), (0, pack("<I", 2) + inside), (108, pack(">I", 24) + later)])
