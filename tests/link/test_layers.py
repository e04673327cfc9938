"""Link layers beside Ethernet, and what stands between Ethernet and IP."""

from itertools import pairwise
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE, Dot1Q, Ether
from scapy.layers.ppp import HDLC, PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapypackets import KEY4, KEY6, PAYLOAD, V4, V6, block_of, check, ethernet, one, tcp
from support import wrap
from support.wrap import WRAPS

from kinspect.link import LINK_TYPES, segments
from kinspect.link.cursor import MAX_DEPTH
from kinspect.link.layertables import LINK_TYPE_NAMES
from kinspect.model import Counts, Segment

IP_TCP = IP(**V4) / tcp()
FRAME = bytes(ethernet() / IP_TCP)
FRAME6 = bytes(ethernet() / IPv6(**V6) / tcp())
LABELLED = pack(">I", 8 << 12 | 1 << 8 | 64) + bytes(IP_TCP)
OUTER = Ether() / IP(src="192.0.2.1", dst="192.0.2.2")
SCOPES = {
    "vlan": b"\0\0\x64",
    "qinq": b"\0\x70\x64",
    "vxlan": b"v\0\0\x10\x92",
    "vxlan_over_ip6": b"v\0\0\x10\x92",
    "geneve": b"g\0\0\0\x63",
    "gre": b"k\0\0\0\5",
    "pbb": b"i\0\xab\xcd\xef",
}


def around(name, frame=FRAME):
    return WRAPS[name].around(frame), WRAPS[name].link_type


@pytest.mark.parametrize("name", WRAPS)
def test_every_wrap(name):
    packet, link_type = around(name)
    scope = SCOPES.get(name, b"")
    check(one(packet, link_type)[0], scope=scope)
    check(one(packet + b"trailer!", link_type)[0], scope=scope)
    check(one(around(name, FRAME6)[0], link_type)[0], KEY6, scope=scope)


@pytest.mark.parametrize("name", WRAPS)
def test_every_wrap_cut_by_the_snap_length_at_every_byte(name):
    packet, link_type = around(name)
    headers = packet.index(PAYLOAD)
    for size in range(len(packet)):
        segment, reason = one(packet[:size], link_type, len(packet))
        if size < headers:
            # Without a whole header nothing tells what the private link type holds.
            assert reason == "truncated" or (link_type, reason) == (149, "link type 149")
        else:
            assert segment.data[segment.start : segment.end] == PAYLOAD[: size - headers]
            assert segment.missing == max(len(PAYLOAD) - (size - headers), 0)


@given(
    st.sampled_from(sorted(WRAPS)),
    st.dictionaries(st.integers(0, 200), st.integers(0, 255), max_size=4),
    st.integers(0, 400),
    st.binary(max_size=40),
)
def test_any_change_gives_rows_within_the_packet(name, changes, size, more):
    packet, link_type = around(name)
    changed = bytearray(packet)
    for at, value in changes.items():
        changed[min(at, len(changed) - 1)] = value
    changed = bytes(changed[:size]) + more
    counts = Counts()
    block = block_of([changed], link_type, [len(changed) + 5])
    for row in segments(block, counts):
        segment = Segment(*row)
        assert block.starts[0] < segment.start <= segment.end <= block.ends[0]
        assert segment.missing >= 0
    assert counts.tcp_segments + sum(counts.undecoded_packets.values()) == 1


def test_wraps_in_one_another():
    inner = wrap.e_tag(wrap.vn_tag(wrap.pppoe(FRAME)))
    check(one(wrap.pbb(inner))[0], scope=SCOPES["pbb"])
    check(one(wrap.pbb(wrap.fabricpath(wrap.vlan(FRAME))))[0], scope=SCOPES["pbb"] + SCOPES["vlan"])
    check(one(wrap.pktap(inner), 258)[0])
    check(one(wrap.erf(wrap.pptp(FRAME)), 197)[0])
    check(one(wrap.pktap(wrap.vlan(FRAME)), 149)[0], scope=SCOPES["vlan"])


@pytest.mark.parametrize("deep", [wrap.pbb, wrap.fabricpath, wrap.pptp, wrap.wccp_1])
def test_tunnels_nest_to_a_fixed_depth(deep):
    packet = FRAME
    for _ in range(MAX_DEPTH):
        packet = deep(packet)
    assert one(packet)[0] is not None
    assert one(deep(packet)) == (None, "nesting")


def test_deep_nesting_of_layers_ends():
    assert one(Ether(type=0x8926) / (b"\0\0\0\0\x89\x26" * 10_000)) == (None, "malformed")
    assert one(Ether(type=0x893F) / (b"\0\0\0\0\0\0\x89\x3f" * 8_000)) == (None, "malformed")
    nested = pack("<III", 108, 1, 258).ljust(108, b"\0")
    assert one(nested * 600, 258) == (None, "malformed")
    fields = pack("<HH", 4, 1) * 16_000
    assert one(b"\2\0\0\0" + fields, 239) == (None, "nflog")


# ---------------------------------------------------------------------- PPP


@pytest.mark.parametrize(
    ("packet", "link_type"),
    [
        (PPP(proto=0x21) / IP_TCP, 9),
        (HDLC() / PPP(proto=0x21) / IP_TCP, 9),
        (HDLC() / PPP(proto=0x21) / IP_TCP, 50),
        (b"\x8f\0\x08\0" + bytes(IP_TCP), 50),
        (Ether(type=0x8864) / PPPoE(sessionid=7) / PPP(proto=0x21) / IP_TCP, 1),
        (Ether() / Dot1Q(vlan=0, type=0x8864) / PPPoE(sessionid=7) / PPP(proto=0x21) / IP_TCP, 1),
        (PPPoE() / PPP(proto=0x21) / IP_TCP, 51),
        (PPP(proto=0x281) / LABELLED, 9),
        (LABELLED, 219),
    ],
)
def test_ppp_and_labels(packet, link_type):
    check(one(packet, link_type)[0])


def test_a_session_ends_where_its_length_says():
    padded = bytes(IP(**V4, len=0) / tcp(b""))
    inside = b"\0\x21" + padded
    packet = bytes(Ether(type=0x8864)) + pack(">BBHH", 0x11, 0, 7, len(inside)) + inside + bytes(20)
    check(one(packet)[0], payload=b"")


@pytest.mark.parametrize(
    ("packet", "link_type", "reason"),
    [
        (Ether(type=0x8863) / PPPoE(code=9) / bytes(20), 1, "pppoe"),
        (Ether(type=0x8864) / PPPoE(code=0xA7) / bytes(20), 1, "pppoe"),
        (Ether(type=0x8864) / PPPoE(version=2) / PPP(proto=0x21) / IP_TCP, 1, "pppoe"),
        (Ether(type=0x8864) / PPPoE(len=1) / PPP(proto=0x21) / IP_TCP, 1, "malformed"),
        (PPP(proto=0xC021) / bytes(8), 9, "ppp lcp"),
        (PPP(proto=0x00FD) / bytes(8), 9, "ppp compressed"),
        (b"\xfd" + bytes(8), 9, "ppp compressed"),
        (PPP(proto=0x002D) / bytes(8), 9, "ppp compressed tcp"),
        (PPP(proto=0x4021) / bytes(8), 9, "ppp protocol 0x4021"),
        (b"\x0f\0\x20\0" + bytes(8), 50, "ethertype 0x2000"),
        (b"\xff\x03", 9, "malformed"),
        (b"", 50, "malformed"),
    ],
)
def test_ppp_without_tcp(packet, link_type, reason):
    assert one(packet, link_type) == (None, reason)


# ---------------------------------------------------------------------- GRE's other uses


@pytest.mark.parametrize("sequence", [0x1000, 0x1080])
def test_pptp(sequence):
    inside = bytes(PPP(proto=0x21) / IP_TCP)
    numbers = pack(">II", 1, 2)[: 8 if sequence & 0x80 else 4]
    header = pack(">HHHH", 0x2001 | sequence, 0x880B, len(inside), 9)
    outer = OUTER.copy()
    outer[IP].proto = 47
    check(one(bytes(outer / (header + numbers + inside)))[0])


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (pack(">HHHHI", 0x2081, 0x880B, 0, 9, 1), "pptp acknowledgment"),
        (pack(">HHHHI", 0x3001, 0x880B, 0, 9, 1), "pptp acknowledgment"),
        (pack(">HHHHI", 0x3001, 0x880B, 2, 9, 1) + b"\xc0\x21", "ppp lcp"),
        (pack(">HHHHI", 0x3001, 0x0800, 40, 9, 1) + bytes(40), "gre"),
        (pack(">HHHHI", 0x1001, 0x880B, 40, 9, 1) + bytes(40), "gre"),
        (pack(">HHHHI", 0x3002, 0x880B, 40, 9, 1) + bytes(40), "gre"),
        (pack(">HHH", 0x3001, 0x880B, 40), "malformed"),
    ],
)
def test_gre_without_tcp(header, reason):
    outer = OUTER.copy()
    outer[IP].proto = 47
    assert one(outer / header) == (None, reason)


@pytest.mark.parametrize("redirect", [b"", b"\0\0\0\0", b"\x80\x5a\0\5", b"\x40\0\0\5", b"\xc0\x5a\1\2"])
@pytest.mark.parametrize("packet", [IP_TCP, IP(**V4, options=b"\1" * 8) / tcp()])
def test_wccp_with_and_without_its_header(redirect, packet):
    check(one(OUTER / GRE(proto=0x883E) / (redirect + bytes(packet)))[0])
    assert one(OUTER / GRE(proto=0x883E) / (redirect + b"\x70" * 40)) == (None, "malformed")


# ---------------------------------------------------------------------- what tells connections apart


def test_tags_that_name_ports_are_equal_for_both_directions():
    there = pack(">I", 1 << 31 | 5 << 16 | 9)
    back = pack(">I", 9 << 16 | 5)
    keys = {one(bytes(Ether(type=0x8926)) + tag + FRAME[12:])[0].key for tag in (there, back)}
    assert keys == {KEY4}


def test_the_service_of_a_backbone_is_a_network_and_its_vlan_is_not():
    keys = [
        one(Ether() / Dot1Q(vlan=vlan, type=0x88E7) / (pack(">I", 0xE8000000 | service) + FRAME))[0].key
        for vlan, service in ((1, 7), (2, 7), (1, 8))
    ]
    assert keys[0] == keys[1] == KEY4 + b"i\0\0\0\7"
    assert keys[2] == KEY4 + b"i\0\0\0\x08"


def test_a_network_in_a_backbone():
    packet = wrap.pbb(bytes(OUTER / UDP(dport=4789) / VXLAN(vni=1) / FRAME))
    check(one(packet)[0], scope=SCOPES["pbb"] + b"v\0\0\0\1")


# ---------------------------------------------------------------------- PKTAP, NFLOG


def pktap(length=108, kind=1, link_type=1, size=None):
    return pack("<III", length, kind, link_type).ljust(length if size is None else size, b"\0")


@pytest.mark.parametrize("link_type", [258, 149])
def test_the_link_type_that_pktap_names(link_type):
    check(one(pktap() + FRAME, link_type)[0])
    check(one(pktap(200, link_type=12) + bytes(IP_TCP), link_type)[0])
    check(one(pktap(link_type=0) + b"\2\0\0\0" + bytes(IP_TCP), link_type)[0])
    assert one(pktap(link_type=105) + FRAME, link_type) == (None, "link type IEEE802_11 (105)")
    assert one(pktap(link_type=9999) + FRAME, link_type) == (None, "link type 9999")


@pytest.mark.parametrize(
    "packet",
    [
        pktap(107, size=108) + FRAME,
        pktap(kind=0) + FRAME,
        pktap(link_type=1 << 16) + FRAME,
        pktap(5000, size=108) + FRAME,
        bytes(200),
    ],
)
def test_what_is_no_pktap(packet):
    assert one(packet, 258) == (None, "malformed")
    assert one(packet, 149) == (None, "link type 149")


def nflog(*fields, family=2, order="<"):
    head = pack(">BBH", family, 0, 0)
    return head + b"".join(
        pack(order + "HH", 4 + len(value), kind) + value + bytes(-len(value) % 4) for kind, value in fields
    )


@pytest.mark.parametrize("order", "<>")
def test_nflog(order):
    fields = [(1, b"\x08\0\1\0"), (0x8000 | 18, bytes(9)), (9, bytes(IP_TCP)), (10, b"prefix\0")]
    check(one(nflog(*fields, order=order), 239)[0])
    check(one(nflog(*fields[2:], order=order), 239)[0])
    check(one(nflog((0x8000 | 9, bytes(IP_TCP)), order=order), 239)[0])


def test_nflog_of_a_part_of_the_packet():
    segment, _ = one(nflog((9, bytes(IP_TCP)[:-30]), (10, b"behind the packet")), 239)
    assert segment.data[segment.start : segment.end] == PAYLOAD[:-30]
    assert segment.missing == 30


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (nflog((1, bytes(4)), (10, b"prefix\0")), "nflog"),
        (nflog((9, bytes(IP_TCP)), family=7), "address family 7"),
        (nflog((9, b"")), "malformed"),
        (nflog() + pack("<HH", 3, 1) + bytes(40), "malformed"),
        (nflog(), "malformed"),
    ],
)
def test_nflog_without_tcp(packet, reason):
    assert one(packet, 239) == (None, reason)


# ---------------------------------------------------------------------- names


def test_link_types_that_are_not_read_have_the_name_of_the_registry():
    assert one(bytes(40), 105) == (None, "link type IEEE802_11 (105)")
    assert one(bytes(40), 127) == (None, "link type IEEE802_11_RADIOTAP (127)")
    assert one(bytes(40), 147) == (None, "link type 147")
    assert not LINK_TYPE_NAMES.keys() & LINK_TYPES.keys(), (
        "a link type with a function needs no name in the table"
    )
    assert all(before < after for before, after in pairwise(LINK_TYPE_NAMES))
    assert len({*LINK_TYPE_NAMES.values()}) == len(LINK_TYPE_NAMES)


@pytest.mark.parametrize("link_type", [-1, 65536, 65536 + 0x21])
def test_numbers_that_no_link_type_has(link_type):
    assert one(bytes(IP_TCP), link_type) == (None, f"link type {link_type}")


def test_every_link_type_that_is_not_ethernet_has_a_wrap():
    tested = {each.link_type for each in WRAPS.values()}
    # Loopback, raw IP and Linux's cooked captures have theirs in test_segments.py, MPLS above.
    elsewhere = {0, 12, 14, 101, 108, 113, 219, 228, 229, 276}
    assert LINK_TYPES.keys() - tested == elsewhere, "a function and a row of WRAPS in tests/support/wrap.py"
