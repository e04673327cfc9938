"""Blocks of the kernel's ring to blocks of packets; made up, without a socket."""

import struct

import pytest
from support.pcap import Conversation, tcp_frame

from kinspect.capture.tpacket import COOKED, LINK_TYPES, read_ring_block
from kinspect.link import segments
from kinspect.model import Counts

from .ringblocks import ETHERNET, LOOPBACK, OUTGOING, SECOND, packet, ring_block

VLAN_VALID, VLAN_TPID_VALID = 0x10, 0x40


def frame(payload=b"payload"):
    return tcp_frame(("10.0.0.1", 40000), ("10.0.0.9", 9092), 7, 9, 0x18, payload)


def test_times_lengths_and_bytes():
    data = ring_block([packet(5, b"a" * 60), packet(999_999_999, b"b" * 61, length=1500)])
    block = read_ring_block(data, ETHERNET)
    assert block.first_frame == 1
    assert block.times == [SECOND * 10**9 + 5, SECOND * 10**9 + 999_999_999]
    assert [block.data[s:e] for s, e in zip(block.starts, block.ends, strict=True)] == [b"a" * 60, b"b" * 61]
    assert block.wire_lengths == [60, 1500]
    assert block.link_types == [1, 1]


def test_copies_of_what_the_loopback_interface_sends_are_left_out():
    packets = [packet(1, kind=OUTGOING), packet(2), packet(3, kind=OUTGOING), packet(4)]
    for link_type in (ETHERNET, COOKED):
        times = read_ring_block(ring_block(packets, hardware=LOOPBACK), link_type).times
        assert [time % 10**9 for time in times] == [2, 4]
        times = read_ring_block(ring_block(packets, hardware=ETHERNET), link_type).times
        assert [time % 10**9 for time in times] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("status", "tpid", "written"),
    [(VLAN_VALID, 0, 0x8100), (VLAN_VALID | VLAN_TPID_VALID, 0x88A8, 0x88A8)],
)
def test_a_vlan_tag_is_put_back(status, tpid, written):
    whole = frame()
    tagged = packet(1, whole, status=status | 1, tag=0x2005, tpid=tpid)
    block = read_ring_block(ring_block([packet(0, whole), tagged, packet(2, whole)]), ETHERNET)
    plain, with_tag, after = (
        block.data[start:end] for start, end in zip(block.starts, block.ends, strict=True)
    )
    assert plain == after == whole
    assert with_tag == whole[:12] + struct.pack(">HH", written, 0x2005) + whole[12:]
    assert block.wire_lengths[1] == len(whole) + 4
    rows = segments(block, Counts())
    assert [row[5][row[6] : row[7]] for row in rows] == [b"payload"] * 3


def test_a_tag_of_nothing_is_left_alone():
    block = read_ring_block(ring_block([packet(1, b"short", status=VLAN_VALID, tag=5)]), ETHERNET)
    assert block.data[block.starts[0] : block.ends[0]] == b"short"


@pytest.mark.parametrize("tagged", [False, True])
def test_a_cooked_packet_tells_its_interface_and_keeps_its_tag(tagged):
    whole = frame()
    status = VLAN_VALID | VLAN_TPID_VALID if tagged else 0
    packets = [packet(1, whole[14:], status=status | 1, tag=5, tpid=0x88A8, kind=OUTGOING)] * 2
    block = read_ring_block(ring_block(packets, protocol=0x0800, interface=7), COOKED)
    first = block.data[block.starts[0] : block.ends[0]]
    header = struct.pack(">HHIHBB8s", 0x88A8 if tagged else 0x0800, 0, 7, ETHERNET, OUTGOING, 6, b"address!")
    assert first == header + (struct.pack(">HH", 5, 0x0800) if tagged else b"") + whole[14:]
    assert block.wire_lengths == [len(first)] * 2
    assert block.link_types == [COOKED] * 2
    rows = segments(block, Counts())
    assert [row[5][row[6] : row[7]] for row in rows] == [b"payload"] * 2


def test_a_live_capture_reads_as_a_file_does():
    talk = Conversation()
    talk.open()
    talk.client_sends(b"hello")
    data = ring_block([packet(number, frame.data) for number, frame in enumerate(talk.packets)])
    block = read_ring_block(data, LINK_TYPES[LOOPBACK])
    assert [row[5][row[6] : row[7]] for row in segments(block, Counts()) if row[7] > row[6]] == [b"hello"]
