"""Packets of LINKTYPE_ERF, written from Endace's reference of ERF types."""

from struct import pack

import pytest
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.layers.ppp import HDLC, PPP
from scapypackets import KEY6, PAYLOAD, V4, V6, check, ethernet, one, tcp

ERF = 197
IP_TCP = IP(**V4) / tcp()
FRAME = bytes(ethernet() / IP_TCP)
POS = bytes(HDLC() / PPP(proto=0x21) / IP_TCP)


def record(packet, kind=2, before=bytes(2), extensions=0, behind=b"", more=False):
    """A record around a packet; `more`: its last extension says that another one follows."""
    chain = b"".join(
        bytes([17 | (0x80 if more or n + 1 < extensions else 0)]) + bytes(7) for n in range(extensions)
    )
    packet = bytes(packet) + behind
    body = chain + before + packet
    body += bytes(-len(body) % 8)
    kind |= 0x80 if extensions else 0
    return pack("<Q", 7) + pack(">BBHHH", kind, 4, 16 + len(body), 0, len(packet)) + body


@pytest.mark.parametrize("extensions", [0, 1, 5])
@pytest.mark.parametrize("behind", [b"", b"FCS!"])
@pytest.mark.parametrize(
    ("packet", "kind", "before"),
    [
        *[(FRAME, kind, bytes(2)) for kind in (2, 11, 16, 20)],
        *[(POS, kind, b"") for kind in (1, 10, 15, 19)],
        *[(POS, kind, bytes(4)) for kind in (5, 17)],
        (IP_TCP, 22, b""),
    ],
)
def test_ipv4_in_every_record(packet, kind, before, extensions, behind):
    check(one(record(packet, kind, before, extensions, behind), ERF)[0])


def test_ipv6_in_a_record():
    check(one(record(IPv6(**V6) / tcp(), 23, b""), ERF)[0], KEY6)


def test_a_record_cut_by_the_snap_length_at_every_byte():
    whole = record(FRAME, extensions=2)
    headers = 16 + 16 + 2 + 54
    for size in range(len(whole) - 8):
        segment, reason = one(whole[:size], ERF, len(whole))
        if size < headers:
            assert reason == "truncated"
        else:
            assert segment.data[segment.start : segment.end] == PAYLOAD[: size - headers]
            assert segment.missing == len(PAYLOAD) - (size - headers)


def test_a_packet_cut_in_its_record():
    # 54 bytes of headers, and two to make the record a multiple of eight.
    cut = pack("<Q", 7) + pack(">BBHHH", 2, 4, 16 + 2 + 62, 0, len(FRAME)) + bytes(2) + FRAME[:62]
    segment, _ = one(cut, ERF)
    assert segment.data[segment.start : segment.end] == PAYLOAD[:8]
    assert segment.missing == len(PAYLOAD) - 8


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (record(b"", kind=27), "erf metadata"),
        (record(b"", kind=28), "erf type 28"),
        (record(b"", kind=0x40), "erf type 64"),
        (record(FRAME, kind=21, before=b""), "link type INFINIBAND (247)"),
        (record(FRAME, extensions=3, more=True)[:40], "malformed"),
        (record(FRAME)[:10] + pack(">H", 15) + record(FRAME)[12:], "malformed"),
        (record(FRAME)[:10] + pack(">H", 17) + record(FRAME)[12:], "malformed"),
        (b"", "malformed"),
    ],
)
def test_what_holds_no_segment(data, reason):
    assert one(data, ERF) == (None, reason)
