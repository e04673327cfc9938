"""Packets built by scapy for the tests of the link layers, and the segments they must give."""

import struct

from scapy.config import conf
from scapy.layers.inet import TCP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from kinspect.link import segments
from kinspect.model import Block, Counts, Segment

# Else scapy asks the network for the addresses that a test leaves out, and waits for answers.
conf.neighbor.resolvers = dict.fromkeys(conf.neighbor.resolvers, lambda *_: "02:00:00:00:00:02")

PAYLOAD = bytes(range(100))
V4 = dict(src="10.1.2.3", dst="10.9.8.7")
V6 = dict(src="fd00::1", dst="2001:db8::9092")
KEY4 = bytes((10, 1, 2, 3, 10, 9, 8, 7)) + struct.pack(">HH", 40123, 9092)
KEY6 = bytes.fromhex("fd00" + 13 * "00" + "01" + "20010db8" + 10 * "00" + "9092") + KEY4[8:]


def tcp(payload=PAYLOAD, **fields):
    packet = TCP(sport=40123, dport=9092, seq=0xFFFFFFF0, ack=77, flags="PA", **fields)
    return packet / Raw(payload) if payload else packet


def ethernet():
    return Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")


def block_of(packets, link_type=1, wire_lengths=None):
    """A block of packets with a byte between them, so that a slip shows."""
    data, starts, ends = b"\xee", [], []
    for packet in packets:
        starts.append(len(data))
        data += bytes(packet)
        ends.append(len(data))
        data += b"\xee"
    lengths = wire_lengths or [end - start for start, end in zip(starts, ends, strict=True)]
    times = [1000 + index for index in range(len(starts))]
    return Block(data, 1, times, starts, ends, lengths, [link_type] * len(starts))


def one(packet, link_type=1, wire_length=None):
    """Result of a single packet: (segment or None, reason or None)."""
    counts = Counts()
    rows = segments(block_of([packet], link_type, [wire_length] if wire_length else None), counts)
    assert counts.packets == 1
    assert counts.tcp_segments == len(rows)
    assert counts.fragments == 0
    reasons = list(counts.undecoded_packets)
    assert len(rows) + len(reasons) == 1
    return (Segment(*rows[0]), None) if rows else (None, reasons[0])


def check(segment, key=KEY4, payload=PAYLOAD, scope=b""):
    assert segment is not None
    assert segment.key == key + scope
    assert (segment.seq, segment.ack, segment.flags) == (0xFFFFFFF0, 77, 0x18)
    assert segment.data[segment.start : segment.end] == payload
    assert (segment.missing, segment.time, segment.frame) == (0, 1000, 1)
