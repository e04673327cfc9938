"""Fragments in any order give the packet they were cut from."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, fragment6
from scapy.layers.l2 import Dot1Q
from scapy.layers.vxlan import VXLAN
from scapypackets import KEY4, KEY6, PAYLOAD, V4, V6, block_of, ethernet, tcp

from kinspect.link import Dissector
from kinspect.model import Caps, Counts, Segment

LONG = PAYLOAD * 7
MS = 1_000_000


def pieces(packet, size=104):
    """The packet's fragments, as frames."""
    return [bytes(part) for part in fragment(packet, size)]


WHOLE = ethernet() / IP(**V4, id=77, ttl=9) / tcp(LONG)
PARTS = pieces(WHOLE)


class Link:
    """A dissector fed with one packet a block."""

    def __init__(self, caps=None):
        self.counts = Counts()
        self.dissector = Dissector(caps or Caps(), self.counts)
        self.frame = 0

    def feed(self, packets, times=None, missing=0):
        rows = []
        for number, packet in enumerate(packets):
            self.frame += 1
            block = block_of([packet], wire_lengths=[len(packet) + missing])
            block.first_frame = self.frame
            block.times = [self.frame * 1000 if times is None else times[number]]
            rows += [Segment(*row) for row in self.dissector.segments(block)]
        return rows

    def end(self):
        """The counts at the end; they hold every packet once."""
        self.dissector.flush()
        counts = self.counts
        assert counts.packets == self.frame
        assert counts.packets == (
            counts.tcp_segments + counts.fragments + sum(counts.undecoded_packets.values())
        )
        return counts


def payload(segment):
    return segment.data[segment.start : segment.end]


@given(st.permutations(range(len(PARTS))))
def test_any_order(order):
    link = Link()
    (segment,) = link.feed([PARTS[index] for index in order])
    assert payload(segment) == LONG
    assert segment.key == KEY4
    assert (segment.seq, segment.ack, segment.flags, segment.missing) == (0xFFFFFFF0, 77, 0x18, 0)
    assert (segment.time, segment.frame) == (len(PARTS) * 1000, len(PARTS))
    assert segment.mark == 77 << 48 | 9 << 24 | 6 << 16 | segment.mark & 0xFFFF
    counts = link.end()
    assert (counts.fragments, counts.duplicate_packets, counts.overlapping_fragments) == (
        len(PARTS) - 1,
        0,
        0,
    )


@given(st.data())
def test_repeated_and_overlapping_fragments_with_the_same_bytes(data):
    stream = bytes(WHOLE[IP].payload)
    cuts = [0, *sorted(data.draw(st.sets(st.integers(1, len(stream) // 8), max_size=9))), -1]
    runs = [(start * 8, stop * 8 if stop > 0 else len(stream)) for start, stop in pairwise(cuts)]
    units = st.integers(0, len(stream) // 8)
    for start, stop in data.draw(st.lists(st.tuples(units, units), max_size=6)):
        if start < stop:
            runs.append((start * 8, stop * 8))
    frames = [
        ethernet()
        / IP(**V4, id=5, proto=6, frag=start // 8, flags="MF" if stop < len(stream) else 0)
        / stream[start:stop]
        for start, stop in data.draw(st.permutations(runs))
        if stop > start
    ]
    link = Link()
    (segment,) = link.feed(frames)[:1]
    assert payload(segment) == LONG
    link.end()


def test_several_packets_at_once():
    packets = [ethernet() / IP(**V4, id=number) / tcp(bytes([number]) * 500) for number in range(20)]
    cut = [pieces(packet) for packet in packets]
    link = Link()
    rows = link.feed([parts[index] for index in (2, 0, 4, 3, 1) for parts in cut])
    assert [payload(row) for row in rows] == [bytes([number]) * 500 for number in range(20)]
    assert link.end().fragments == 80


def test_the_bytes_that_came_first_win_and_overlaps_are_counted():
    stream = bytes(WHOLE[IP].payload)
    head = ethernet() / IP(**V4, id=5, proto=6, flags="MF") / stream[:64]
    other = ethernet() / IP(**V4, id=5, proto=6, flags="MF", frag=4) / (b"\xff" * 64)
    tail = ethernet() / IP(**V4, id=5, proto=6, frag=8) / stream[64:]
    longer = ethernet() / IP(**V4, id=5, proto=6, frag=200) / b"behind the end"
    link = Link()
    assert link.feed([head, other]) == []
    (segment,) = link.feed([tail])
    assert payload(segment)[:44] == LONG[:44]
    assert payload(segment)[44:76] == b"\xff" * 32
    assert payload(segment)[76:] == LONG[76:]
    assert link.counts.overlapping_fragments == 2
    link = Link()
    (segment,) = link.feed([tail, longer, head])
    assert payload(segment) == LONG
    assert link.end().overlapping_fragments == 1


def test_copies_of_fragments_are_counted_once():
    twice = [part for part in PARTS for _ in range(2)]
    for order in (twice, PARTS + PARTS, twice[::-1]):
        link = Link()
        (segment,) = link.feed(order)
        assert payload(segment) == LONG
        counts = link.end()
        assert counts.duplicate_packets == len(PARTS)
        assert counts.undecoded_packets == {}
    link = Link()
    again = link.feed(PARTS + PARTS, [0] * len(PARTS) + [11 * MS] * len(PARTS))
    assert [payload(row) for row in again] == [LONG, LONG]


@pytest.mark.parametrize("tags", [None, Dot1Q(vlan=5)])
def test_the_packet_of_a_tunnel_in_fragments_and_fragments_inside(tags):
    inner = ethernet() / IP(**V4, id=3) / tcp(LONG)
    outer = ethernet() / IP(src="192.0.2.1", dst="192.0.2.2", id=9) / UDP(sport=5, dport=4789) / VXLAN(vni=8)
    if tags is not None:
        outer = ethernet() / tags / outer.payload
    scope = b"v\0\0\0\x08"
    (segment,) = Link().feed(pieces(outer / inner)[::-1])
    assert (payload(segment), segment.key) == (LONG, KEY4 + scope)
    (segment,) = Link().feed([outer / part for part in pieces(inner)])
    assert (payload(segment), segment.key) == (LONG, KEY4 + scope)
    link = Link()
    both = []
    for number, part in enumerate(pieces(inner, 304)):
        outer[IP].id = number
        both += pieces(outer / part)
    (segment,) = link.feed(both[::-1])
    assert (payload(segment), segment.key) == (LONG, KEY4 + scope)
    assert link.end().fragments == len(both) - 1


def test_the_same_identification_in_two_tunnels():
    parts = pieces(WHOLE)
    outer = ethernet() / IP(src="192.0.2.1", dst="192.0.2.2") / UDP(dport=4789)
    link = Link()
    rows = link.feed([outer / VXLAN(vni=vni) / part for part in parts for vni in (1, 2)])
    assert [row.key[12:] for row in rows] == [b"v\0\0\0\1", b"v\0\0\0\2"]


@given(st.randoms(use_true_random=False))
def test_ipv6(random):
    packet = IPv6(**V6, hlim=9) / IPv6ExtHdrHopByHop() / IPv6ExtHdrFragment(id=7) / tcp(LONG)
    parts = [bytes(ethernet() / part) for part in fragment6(packet, 200)]
    assert len(parts) > 4
    random.shuffle(parts)
    link = Link()
    (segment,) = link.feed(parts)
    assert (payload(segment), segment.key) == (LONG, KEY6)
    assert segment.mark >> 24 & 0xFF == 9
    assert link.end().fragments == len(parts) - 1


def test_cut_by_the_snap_length():
    parts = pieces(WHOLE)
    link = Link()
    rows = link.feed([*parts[:3], *parts[4:]])
    rows += link.feed([parts[3][:60]], missing=len(parts[3]) - 60)
    (segment,) = rows
    # The bytes behind the first cut are there and not handed on: a segment has one end.
    taken = 3 * 104 + 60 - 34 - 20
    assert payload(segment) == LONG[:taken]
    assert segment.missing == len(LONG) - taken
    rows = Link().feed([part[:34] for part in parts], missing=104)
    assert rows == []


def test_the_next_fragment_comes_too_late():
    link = Link()
    assert link.feed(PARTS[:-1], [number * 30_000 * MS for number in range(len(PARTS) - 1)]) == []
    assert link.counts.undecoded_packets == {}
    last = len(PARTS) * 30_000 * MS
    assert link.feed(PARTS[-1:], [last]) == []
    assert link.counts.undecoded_packets == {"fragment incomplete": len(PARTS) - 1}
    (segment,) = link.feed(PARTS[:-1], [last] * (len(PARTS) - 1))
    assert payload(segment) == LONG
    assert link.end().caps_hit == {}


def test_packets_without_a_time_never_come_too_late():
    link = Link()
    (segment,) = link.feed(PARTS, [None, 0, *[None] * (len(PARTS) - 3), 30_000 * MS])
    assert (payload(segment), segment.time) == (LONG, 30_000 * MS)
    assert Link().feed(PARTS * 2, [None] * len(PARTS * 2))[1:] == []


def test_what_is_never_completed_is_counted_at_the_end():
    link = Link()
    assert link.feed(PARTS[:-1]) == []
    other = pieces(ethernet() / IP(**V4, id=78) / tcp(LONG))
    (segment,) = link.feed(other, [3600_000 * MS] * len(other))
    assert segment.time == 3600_000 * MS
    assert link.counts.undecoded_packets == {}
    assert link.end().undecoded_packets == {"fragment incomplete": len(PARTS) - 1}
    assert link.counts.caps_hit == {}


OTHERS = [
    bytes(ethernet() / packet)
    for packet in (
        *(
            IP(**V4, id=5, frag=offset, flags=flags, proto=6) / bytes(16)
            for offset in (0, 2)
            for flags in (0, "MF")
        ),
        *(IP(**V4, id=6, frag=offset, flags="MF", proto=6) / bytes(8) for offset in range(4)),
        *(fragment(IP(**V4, id=7) / tcp(LONG), 304)),
        IPv6(**V6) / IPv6ExtHdrFragment(id=77, offset=1, m=0, nh=6) / bytes(8),
        IP(**V4, id=77) / UDP() / b"no fragment",
        IP(**V4, id=77) / tcp(b"whole"),
    )
]
TIMES = st.none() | st.integers(0, 1 << 62) | st.integers(0, 60_000 * MS)


@given(
    st.lists(st.tuples(st.sampled_from(PARTS), st.integers(0, 20_000 * MS)), max_size=20),
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from(OTHERS), TIMES), max_size=60),
)
def test_other_packets_change_nothing(own, others):
    """Fragments of a packet that come late, again or never, among others whose times are as they like."""
    link, mixed = Link(), Link()
    alone, among = [], []
    time = 0
    for number, (part, later) in enumerate([*own, (None, 0)]):
        for _, other, wrong in (row for row in others if row[0] == number):
            mixed.feed([other], [wrong])
        if part is not None:
            time += later
            alone += link.feed([part], [time])
            among += mixed.feed([part], [time])
    assert [row._replace(frame=0) for row in among] == [row._replace(frame=0) for row in alone]
    mixed.end()
    assert mixed.counts.caps_hit == {}


def test_caps():
    first = [pieces(ethernet() / IP(**V4, id=number) / tcp(LONG))[0] for number in range(10)]
    link = Link(Caps(fragments=3))
    assert link.feed(first) == []
    assert link.counts.caps_hit == {"fragments": 7}
    link = Link(Caps(fragment_bytes=500))
    assert link.feed(first) == []
    assert link.counts.caps_hit == {"fragment_bytes": 6}
    assert link.end().undecoded_packets == {"fragment incomplete": 10}


def test_a_cap_is_hit_where_what_it_takes_might_be_of_use():
    whole = [pieces(ethernet() / IP(**V4, id=number) / tcp(LONG)) for number in range(100)]
    for caps in (Caps(fragments=20), Caps(fragment_bytes=20 * len(LONG))):
        for step, hit in ((MS, True), (3 * MS, False)):
            link = Link(caps)
            times = [number * step for number, parts in enumerate(whole) for _ in parts]
            assert len(link.feed([part for parts in whole for part in parts], times)) == 100
            assert bool(link.end().caps_hit) is hit
    for step, hit in ((1000 * MS, True), (6000 * MS, False)):
        link = Link(Caps(fragments=20))
        assert link.feed([parts[0] for parts in whole], [number * step for number in range(100)]) == []
        assert link.counts.undecoded_packets == {"fragment incomplete": 80}
        assert bool(link.end().caps_hit) is hit


def test_few_wrong_times_do_not_hide_that_a_cap_was_hit():
    link = Link(Caps(fragments=20))
    first = [pieces(ethernet() / IP(**V4, id=number) / tcp(LONG))[0] for number in range(100)]
    wrong = [number * MS if number % 3 else 3600_000 * MS for number in range(100)]
    assert link.feed(first, wrong) == []
    assert link.end().caps_hit == {"fragments": 80}


@pytest.mark.parametrize(
    "packet",
    [
        IP(**V4, frag=8191, proto=6) / bytes(9),
        IP(**V4, flags="MF", proto=6) / bytes(9),
        IP(**V4, frag=1, proto=6),
    ],
)
def test_no_fragment(packet):
    link = Link()
    assert link.feed([ethernet() / packet]) == []
    assert link.end().undecoded_packets == {"malformed": 1}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(0, 12) | st.sampled_from([8100, 8191]),
            st.booleans(),
            st.binary(max_size=64),
            st.sampled_from([4, 6, 17, 44, 47]),
            st.none() | st.integers(0, 40_000 * MS),
            st.booleans(),
        ),
        max_size=40,
    )
)
def test_any_fragments_are_taken(rows):
    link = Link(Caps(fragment_bytes=2000, fragments=2))
    for number, offset, more, data, protocol, time, v6 in rows:
        if v6:
            headers = IPv6(**V6) / IPv6ExtHdrFragment(id=number, offset=offset, m=more, nh=protocol)
        else:
            headers = IP(**V4, id=number, frag=offset, flags="MF" if more else 0, proto=protocol)
        link.feed([ethernet() / headers / data], [time])
    link.end()
    assert link.dissector.fragments._held == 0
