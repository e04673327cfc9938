"""Packets built by scapy against `link.segments`."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, UDP, IPOption_NOP
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, LLC, SNAP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Dot3, Ether
from scapypackets import KEY6, PAYLOAD, V4, V6, block_of, check, ethernet, one, tcp

from kinspect.link import LINK_TYPES, segments
from kinspect.link.cursor import Cursor
from kinspect.link.fragments import Fragments
from kinspect.link.segments import walk
from kinspect.model import Caps, Counts, Segment

IP_TCP = IP(**V4) / tcp()
IP6_TCP = IPv6(**V6) / tcp()
NULL_AF = struct.Struct("<I"), struct.Struct(">I")


@pytest.mark.parametrize(
    ("packet", "link_type"),
    [
        (ethernet() / IP_TCP, 1),
        (ethernet() / Dot1Q(vlan=0) / IP_TCP, 1),
        (Dot3() / LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / SNAP(OUI=0, code=0x0800) / IP_TCP, 1),
        (CookedLinux(proto=0x0800) / IP_TCP, 113),
        (CookedLinux(proto=0x8100) / Dot1Q(vlan=0) / IP_TCP, 113),
        (CookedLinuxV2(proto=0x0800) / IP_TCP, 276),
        (NULL_AF[0].pack(2) + bytes(IP_TCP), 0),
        (NULL_AF[1].pack(2) + bytes(IP_TCP), 0),
        (NULL_AF[1].pack(2) + bytes(IP_TCP), 108),
        (IP_TCP, 101),
        (IP_TCP, 12),
        (IP_TCP, 14),
        (IP_TCP, 228),
        (ethernet() / IP(**V4, options=[IPOption_NOP()] * 8) / tcp(), 1),
        (ethernet() / IP(**V4) / tcp(options=[("NOP", None), ("NOP", None), ("Timestamp", (1, 2))]), 1),
        (ethernet() / IP(**V4, flags="DF", chksum=0) / tcp(chksum=0xBAD), 1),
        (ethernet() / IP(**V4) / AH(nh=6, payloadlen=4, icv=bytes(12)) / bytes(tcp()), 1),
    ],
)
def test_ipv4_under_every_link_layer(packet, link_type):
    check(one(packet, link_type)[0])


@pytest.mark.parametrize(
    ("packet", "link_type"),
    [
        (ethernet() / IP6_TCP, 1),
        (CookedLinux(proto=0x86DD) / IP6_TCP, 113),
        (CookedLinuxV2(proto=0x86DD) / IP6_TCP, 276),
        *[(order.pack(family) + bytes(IP6_TCP), 0) for order in NULL_AF for family in (10, 24, 28, 30)],
        (IP6_TCP, 101),
        (IP6_TCP, 229),
        (ethernet() / IPv6(**V6) / IPv6ExtHdrHopByHop() / tcp(), 1),
        (ethernet() / IPv6(**V6) / IPv6ExtHdrRouting(addresses=["::1", "::2"]) / tcp(), 1),
        (ethernet() / IPv6(**V6) / IPv6ExtHdrDestOpt() / tcp(), 1),
        (ethernet() / IPv6(**V6) / IPv6ExtHdrFragment(nh=6, offset=0, m=0) / tcp(), 1),
        (ethernet() / IPv6(**V6) / AH(nh=6, payloadlen=4, icv=bytes(12)) / bytes(tcp()), 1),
        (
            ethernet()
            / IPv6(**V6)
            / IPv6ExtHdrHopByHop()
            / IPv6ExtHdrRouting()
            / IPv6ExtHdrDestOpt()
            / tcp(),
            1,
        ),
        (ethernet() / IPv6(**V6, plen=0) / tcp(), 1),
    ],
)
def test_ipv6_with_extension_headers(packet, link_type):
    check(one(packet, link_type)[0], KEY6)


@pytest.mark.parametrize(
    ("tags", "scope"),
    [
        (Dot1Q(vlan=100), "000064"),
        (Dot1Q(vlan=100, prio=7), "000064"),
        (Dot1AD(vlan=7) / Dot1Q(vlan=100), "007064"),
        (Dot1Q(vlan=1) / Dot1Q(vlan=2) / Dot1Q(vlan=3), "002003"),
    ],
)
def test_vlan_ids_stand_behind_the_ports(tags, scope):
    check(one(ethernet() / tags / IP_TCP)[0], scope=bytes.fromhex(scope))
    check(one(ethernet() / tags / IP6_TCP)[0], KEY6, scope=bytes.fromhex(scope))
    check(one(CookedLinux(proto=0x8100) / tags / IP_TCP, 113)[0], scope=bytes.fromhex(scope))


@pytest.mark.parametrize("network", [IP(**V4, ttl=9, id=77), IPv6(**V6, hlim=9)])
def test_a_mark_tells_one_sending_from_the_next(network):
    packets = [ethernet() / network / tcp(), ethernet() / Dot1Q(vlan=3) / network / tcp()]
    first, copy = (one(packet)[0].mark for packet in packets)
    assert first == copy
    assert first >> 24 & 0xFF == 9
    if network.version == 4:
        network.id += 1
        again = one(ethernet() / network / tcp())[0].mark
    else:
        again = one(ethernet() / network / tcp(options=[("Timestamp", (1, 2))]))[0].mark
    assert again >> 32 != first >> 32
    setattr(network, "ttl" if network.version == 4 else "hlim", 8)
    routed = one(ethernet() / network / tcp())[0].mark
    assert network.version == 4 or routed >> 32 == first >> 32
    assert routed >> 24 & 0xFF == 8


def test_padding_and_trailers_are_no_payload():
    check(one(bytes(ethernet() / IP_TCP) + b"trailer!")[0])
    segment, _ = one(bytes(ethernet() / IP(**V4) / tcp(b"")).ljust(60, b"\0"))
    check(segment, payload=b"")
    check(one(bytes(ethernet() / IP6_TCP) + b"trailer!")[0], KEY6)


def test_segmentation_offload_leaves_no_total_length():
    check(one(ethernet() / IP(**V4, len=0) / tcp())[0])
    packet = bytes(ethernet() / IP(**V4, len=0) / tcp())
    segment, _ = one(packet[:-30], wire_length=len(packet))
    assert segment.missing == 30


@pytest.mark.parametrize(
    ("packet", "link_type", "reason"),
    [
        (ethernet() / ARP(), 1, "arp"),
        (ethernet() / IP(**V4) / UDP(), 1, "udp"),
        (ethernet() / IP(**V4) / ICMP(), 1, "icmp"),
        (ethernet() / IP(**V4, proto=253), 1, "ip protocol 253"),
        (Ether(type=0x1234), 1, "ethertype 0x1234"),
        (Dot3() / LLC() / b"12345678", 1, "802.3"),
        (ethernet() / IP(**V4, flags="MF") / tcp(PAYLOAD[:4]), 1, "fragment incomplete"),
        (ethernet() / IP(**V4, flags="MF") / tcp(PAYLOAD[:5]), 1, "malformed"),
        (ethernet() / IP(**V4, frag=4, proto=6) / b"the middle", 1, "fragment incomplete"),
        (
            ethernet() / IPv6(**V6) / IPv6ExtHdrFragment(nh=6, offset=0, m=1) / tcp(PAYLOAD[:4]),
            1,
            "fragment incomplete",
        ),
        (ethernet() / IPv6(**V6, nh=59), 1, "no next header"),
        (b"\0" * 100, 147, "link type 147"),
        (b"\x1f\0\0\0" + b"\0" * 40, 0, "address family 31"),
        (b"\x70" * 40, 101, "malformed"),
        (ethernet() / IP(**V4, ihl=3) / tcp(), 1, "malformed"),
        (ethernet() / IP(**V4, version=5) / tcp(), 1, "malformed"),
        (ethernet() / IP(**V4, len=39) / tcp(), 1, "malformed"),
        (ethernet() / IP(**V4) / tcp(dataofs=4), 1, "malformed"),
        (ethernet() / IP(**V4) / tcp(b"", dataofs=6), 1, "malformed"),
        (b"", 1, "malformed"),
    ],
)
def test_what_holds_no_segment_is_counted_by_its_reason(packet, link_type, reason):
    assert one(packet, link_type) == (None, reason)


@pytest.mark.parametrize(
    ("packet", "headers", "link_type"),
    [
        (ethernet() / IP_TCP, 54, 1),
        (ethernet() / Dot1Q(vlan=0) / IP_TCP, 58, 1),
        (ethernet() / IPv6(**V6) / IPv6ExtHdrHopByHop() / tcp(), 82, 1),
        (CookedLinuxV2(proto=0x0800) / IP_TCP, 60, 276),
    ],
)
def test_cut_by_the_snap_length_at_every_byte(packet, headers, link_type):
    whole = bytes(packet)
    for size in range(len(whole)):
        segment, reason = one(whole[:size], link_type, len(whole))
        if size < headers:
            assert reason == "truncated"
        else:
            assert segment.data[segment.start : segment.end] == PAYLOAD[: size - headers]
            assert segment.missing == len(whole) - size


def packets_of_all_kinds():
    return [
        bytes(packet)
        for packet in (
            ethernet() / IP_TCP,
            ethernet() / IP(**V4) / tcp(b""),
            bytes(ethernet() / IP_TCP) + b"pad",
            ethernet() / IP(**V4, len=0) / tcp(),
            ethernet() / IP(**V4, options=[IPOption_NOP()] * 4) / tcp(),
            ethernet() / IP(**V4, id=7, flags="MF") / tcp(PAYLOAD[:4]),
            ethernet() / IP(**V4, id=7, frag=3, proto=6) / PAYLOAD[4:],
            ethernet() / IP(**V4) / UDP(),
            ethernet() / IP6_TCP,
            ethernet() / ARP(),
            bytes(ethernet() / IP_TCP)[:80],
            CookedLinux(proto=0x0800) / IP_TCP,
        )
    ]


def slow_rows(block):
    rows, cursor = [], Cursor(Fragments(Caps(), Counts()))
    for index, (start, end, time, wire, kind) in enumerate(
        zip(block.starts, block.ends, block.times, block.wire_lengths, block.link_types, strict=True)
    ):
        if walk(cursor, block.data, start, end, wire, kind, time):
            numbers = cursor.seq, cursor.ack, cursor.flags
            where = cursor.at, cursor.end, cursor.wire_end - cursor.end
            frame = block.first_frame + index
            rows.append((cursor.key, time, *numbers, cursor.data, *where, frame, cursor.mark))
    return rows


@given(st.data())
def test_the_fast_path_gives_what_the_slow_path_gives(data):
    packets = []
    for packet in data.draw(st.lists(st.sampled_from(packets_of_all_kinds()), max_size=6)):
        changed = bytearray(packet)
        for at, value in data.draw(
            st.dictionaries(st.integers(0, 60), st.integers(0, 255), max_size=2)
        ).items():
            changed[min(at, len(changed) - 1)] = value
        packets.append(bytes(changed))
    for link_type in (1, 113):
        block = block_of(packets, link_type)
        counts = Counts()
        assert segments(block, counts) == slow_rows(block)
        assert counts.packets == len(packets)
        without = counts.fragments + sum(counts.undecoded_packets.values())
        assert without + counts.tcp_segments == counts.packets
        assert counts.bytes == sum(block.wire_lengths)


@given(st.lists(st.binary(max_size=120), max_size=5), st.sampled_from([*LINK_TYPES, 147]), st.integers(0, 99))
def test_any_bytes_give_rows_within_the_packet(packets, link_type, cut):
    block = block_of(packets, link_type, [len(packet) + cut for packet in packets])
    for row in segments(block, Counts()):
        segment = Segment(*row)
        index = segment.frame - block.first_frame
        assert block.starts[index] < segment.start <= segment.end <= block.ends[index]
        assert segment.missing >= 0


def test_a_block_of_mixed_link_types():
    packets = [ethernet() / IP_TCP, IP_TCP, CookedLinux(proto=0x0800) / IP_TCP, ethernet() / IP_TCP]
    block = block_of(packets)
    block.link_types = [1, 101, 113, 1]
    rows = [Segment(*row) for row in segments(block, Counts())]
    assert [row.frame for row in rows] == [1, 2, 3, 4]
    assert all(row.data[row.start : row.end] == PAYLOAD for row in rows)
