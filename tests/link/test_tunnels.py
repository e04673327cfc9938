"""Tunnels built by scapy, and by hand, against `link.segments`."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.erspan import ERSPAN_I, ERSPAN_II, ERSPAN_III
from scapy.contrib.geneve import GENEVE, GeneveOptions
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapypackets import KEY4, KEY6, PAYLOAD, V4, V6, block_of, check, ethernet, one, tcp

from kinspect.link import LINK_TYPES, segments
from kinspect.link.cursor import MAX_DEPTH
from kinspect.model import Counts, Segment

OUTER = Ether(src="02:00:00:00:00:11", dst="02:00:00:00:00:12") / IP(src="192.0.2.1", dst="192.0.2.2")
OUTER6 = Ether() / IPv6(src="fd00::a", dst="fd00::b")
IP_TCP = IP(**V4) / tcp()
FRAME = ethernet() / IP_TCP
FRAME6 = ethernet() / IPv6(**V6) / tcp()
OPTIONS = [GeneveOptions(data=bytes(8)), GeneveOptions(data=b"")]


def vxlan(vni=4242, port=4789):
    return UDP(sport=51000, dport=port) / VXLAN(vni=vni, flags="Instance")


def erspan_2(session):
    # Its sequence number is what tells type II from type I.
    return GRE(proto=0x88BE, seqnum_present=1, sequence_number=9) / ERSPAN_II(session_id=session)


@pytest.mark.parametrize(
    ("tunnel", "scope"),
    [
        pytest.param(vxlan() / FRAME, "7600001092", id="vxlan"),
        pytest.param(vxlan(0xFFFFFF, 8472) / FRAME, "7600ffffff", id="vxlan of linux"),
        pytest.param(vxlan() / ethernet() / Dot1Q(vlan=9) / IP_TCP, "7600001092000009", id="vxlan, vlan"),
        pytest.param(UDP(dport=6081) / GENEVE(vni=7) / FRAME, "6700000007", id="geneve"),
        pytest.param(
            UDP(dport=6081) / GENEVE(vni=7, options=OPTIONS) / FRAME, "6700000007", id="geneve, options"
        ),
        pytest.param(
            UDP(dport=6081) / GENEVE(vni=7, proto=0x0800) / IP_TCP, "6700000007", id="geneve, no ethernet"
        ),
        pytest.param(GRE() / IP_TCP, "", id="gre"),
        pytest.param(GRE(chksum_present=1) / IP_TCP, "", id="gre, checksum"),
        pytest.param(GRE(key_present=1, key=0x01020304) / IP_TCP, "6b01020304", id="gre, key"),
        pytest.param(
            GRE(chksum_present=1, key_present=1, key=5, seqnum_present=1) / IP_TCP,
            "6b00000005",
            id="gre, all",
        ),
        pytest.param(GRE(proto=0x6558) / FRAME, "", id="gre, ethernet"),
        pytest.param(GRE(proto=0x6558) / ethernet() / Dot1Q(vlan=9) / IP_TCP, "000009", id="gre, vlan"),
        pytest.param(GRE(proto=0x88BE) / ERSPAN_I() / FRAME, "", id="erspan i"),
        pytest.param(erspan_2(3) / FRAME, "", id="erspan ii"),
        pytest.param(GRE(proto=0x22EB, seqnum_present=1) / ERSPAN_III(o=0) / FRAME, "", id="erspan iii"),
        pytest.param(
            bytes(GRE(proto=0x22EB, seqnum_present=1)) + bytes(11) + b"\1" + bytes(8) + bytes(FRAME),
            "",
            id="erspan iii, platform",
        ),
        pytest.param(IP_TCP, "", id="ip in ip"),
        pytest.param(UDP(dport=6635) / MPLS(s=1) / IP_TCP, "", id="mpls in udp"),
        pytest.param(GRE(proto=0x8847) / MPLS(s=1) / IP_TCP, "", id="mpls in gre"),
        pytest.param(
            GRE(key_present=1, key=5) / IP() / vxlan(6) / FRAME, "6b000000057600000006", id="one in another"
        ),
    ],
)
def test_tunnels(tunnel, scope):
    scope = bytes.fromhex(scope)
    proto = {UDP: 17, GRE: 47, IP: 4}.get(type(tunnel), 47)
    outer = OUTER.copy()
    outer[IP].proto = proto
    packet = bytes(outer / tunnel)
    check(one(packet)[0], scope=scope)
    check(one(ethernet() / Dot1Q(vlan=5) / (outer[IP] / tunnel))[0], scope=scope)
    check(one(packet + b"trailer!")[0], scope=scope)
    outer = OUTER6.copy()
    outer[IPv6].nh = proto
    check(one(outer / tunnel)[0], scope=scope)
    headers = len(packet) - len(PAYLOAD)
    for size in range(len(packet)):
        segment, reason = one(packet[:size], wire_length=len(packet))
        if size < headers:
            assert reason == "truncated"
        else:
            assert segment.data[segment.start : segment.end] == PAYLOAD[: size - headers]
            assert segment.missing == len(packet) - size


@pytest.mark.parametrize(
    "packet",
    [
        OUTER / vxlan() / FRAME6,
        OUTER / IPv6(**V6) / tcp(),
        OUTER6 / IPv6(**V6) / tcp(),
        OUTER / GRE(proto=0x86DD) / IPv6(**V6) / tcp(),
        Ether(type=0x8847) / MPLS(s=1) / IPv6(**V6) / tcp(),
    ],
)
def test_ipv6_inside(packet):
    segment, _ = one(packet)
    assert segment.key[:36] == KEY6
    assert segment.data[segment.start : segment.end] == PAYLOAD


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("ethertype", [0x8847, 0x8848])
def test_mpls_stacks(depth, ethertype):
    labels = b"".join(
        struct.pack(">I", (16 + level) << 12 | (level == depth - 1) << 8 | 64) for level in range(depth)
    )
    check(one(bytes(Ether(type=ethertype)) + labels + bytes(IP_TCP))[0])
    check(one(bytes(ethernet() / Dot1Q(vlan=3, type=ethertype)) + labels + bytes(IP_TCP))[0])


def test_what_looks_like_a_tunnel_and_is_none():
    assert one(OUTER / UDP(dport=4789) / bytes(40)) == (None, "udp")
    assert one(OUTER / UDP(dport=6081) / (b"\xff" * 40)) == (None, "udp")
    assert one(OUTER / UDP(sport=4789, dport=5000) / VXLAN() / FRAME) == (None, "udp")
    assert one(OUTER / GRE(version=1, proto=0x880B) / bytes(20)) == (None, "gre")
    assert one(OUTER / GRE(routing_present=1) / bytes(20)) == (None, "gre")
    assert one(bytes(Ether(type=0x8847)) + b"\0\1\1\x40" + bytes(40)) == (None, "mpls")
    assert one(OUTER / UDP(dport=4789) / b"\x08") == (None, "malformed")


def test_segmentation_offload_inside_a_tunnel_leaves_no_lengths():
    inner = ethernet() / IP(**V4, len=0) / tcp()
    outer = OUTER.copy()
    outer[IP].len = 0
    check(one(outer / UDP(dport=4789, len=0) / VXLAN(vni=1) / inner)[0], scope=b"v\0\0\0\1")


def test_the_tunnels_length_bounds_what_is_inside():
    inner = bytes(ethernet() / IP(**V4) / tcp(b"")).ljust(60, b"\0")
    check(one(bytes(OUTER / vxlan(1) / inner) + b"trailer")[0], payload=b"", scope=b"v\0\0\0\1")


def wrapped(packet, times):
    """An IPv4 packet in so many GRE tunnels."""
    packet = bytes(packet)
    for _ in range(times):
        gre = bytes(GRE(key_present=1, key=7, proto=0x0800)) + packet
        packet = bytes(IP(proto=47, len=20 + len(gre))) + gre
    return bytes(Ether(type=0x0800)) + packet


def test_nesting_ends_at_the_stated_depth():
    for depth in range(1, MAX_DEPTH + 1):
        check(one(wrapped(IP_TCP, depth))[0], scope=b"k\0\0\0\7" * min(depth, 4))
    assert one(wrapped(IP_TCP, MAX_DEPTH + 1)) == (None, "nesting")
    assert one(wrapped(IP_TCP, 1000)) == (None, "nesting")


def test_deep_nesting_of_tunnels_ends():
    many = bytes(Ether(type=0x8847)) + b"\0\0\0\0" * 16000
    assert one(many) == (None, "malformed")
    tags = bytes(Ether(type=0x8100)) + b"\0\1\x81\0" * 16000
    assert one(tags) == (None, "malformed")


ALL = [
    OUTER / vxlan() / FRAME,
    OUTER / UDP(dport=6081) / GENEVE(vni=7, options=OPTIONS) / FRAME,
    OUTER / GRE(chksum_present=1, key_present=1, key=5, seqnum_present=1) / IP_TCP,
    OUTER / erspan_2(3) / FRAME,
    OUTER6 / IP_TCP,
    Ether(type=0x8847) / MPLS(s=0) / MPLS(s=1) / IP_TCP,
    OUTER / GRE() / IP() / vxlan() / FRAME6,
]


@given(
    st.sampled_from([bytes(packet) for packet in ALL]),
    st.dictionaries(st.integers(0, 160), st.integers(0, 255), max_size=4),
    st.integers(0, 300),
    st.binary(max_size=40),
)
def test_any_change_gives_rows_within_the_packet(packet, changes, size, more):
    changed = bytearray(packet)
    for at, value in changes.items():
        changed[min(at, len(changed) - 1)] = value
    changed = bytes(changed[:size]) + more
    for link_type in (*LINK_TYPES, 147):
        counts = Counts()
        block = block_of([changed], link_type, [len(changed) + 5])
        for row in segments(block, counts):
            segment = Segment(*row)
            assert block.starts[0] < segment.start <= segment.end <= block.ends[0]
            assert segment.missing >= 0
            assert len(segment.key) < 36 or len(segment.key) >= len(KEY6)
        assert counts.tcp_segments + sum(counts.undecoded_packets.values()) == 1


def test_the_key_of_a_deeply_tunnelled_ipv4_connection_is_shorter_than_any_of_ipv6():
    tagged = GRE(key_present=1, key=7, proto=0x6558) / ethernet() / Dot1Q(vlan=4095) / IP_TCP
    segment, _ = one(wrapped(IP() / tagged, 6))
    assert segment.key == KEY4 + b"k\0\0\0\7" * 4 + b"\0\x0f\xff"
    assert len(segment.key) < len(KEY6)
