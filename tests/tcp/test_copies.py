"""Packets that a capture holds more than once, and bytes that come again."""

from dataclasses import replace
from sys import getrefcount

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playbook import END, MS, Play, a, b, closed, data, fin, gap, handshake

from kinspect.model import Counts, Segment
from kinspect.tcp.connection import HalfConnection
from kinspect.tcp.recentpackets import KEPT_ROWS, LOOKED_AT, RecentPackets

GET, ANSWER = b"get it", b"answer"


def talk(turns=3, close=True):
    """A conversation with bare acknowledgments in it; packets carry marks of their own and a time."""
    packets = handshake()
    for turn in range(turns):
        at = 1 + 6 * turn
        packets += [
            a("A", at, at, GET),
            b("A", at, at + 6),
            b("A", at, at + 6, ANSWER),
            a("A", at + 6, at + 6),
        ]
    if close:
        at = 1 + 6 * turns
        packets += [a("FA", at, at), b("FA", at, at + 1), a("A", at + 1, at + 1)]
    return marked(packets)


NUMBERED, UNNUMBERED = 48, 32  # where a packet's mark has what tells its sendings apart


def marked(packets, by=UNNUMBERED):
    return [
        replace(packet, mark=(1000 + number) << by | 64 << 24, at=number * MS)
        for number, packet in enumerate(packets)
    ]


EVENTS = [data(0, GET), data(1, ANSWER)] * 3 + [fin(0), fin(1), closed("fin")]


@given(st.data())
def test_copies_change_nothing_and_are_counted(draw):
    packets = talk()
    captured, copies = [], 0
    for packet in packets:
        captured.append(packet)
        for _ in range(draw.draw(st.integers(0, 2))):
            late = draw.draw(st.integers(0, 8)) * MS
            # A routed copy has another time to live.
            copy = replace(
                packet, at=packet.at + late, mark=packet.mark - draw.draw(st.integers(0, 1)) * (1 << 24)
            )
            captured.append(copy)
            copies += 1
    captured.sort(key=lambda packet: packet.at)
    play = Play(captured)
    assert play.events == EVENTS
    assert play.counts.duplicate_packets == copies
    assert play.counts.retransmitted_bytes == play.counts.conflicting_bytes == 0
    # The last packet comes when both sides have ended.
    assert play.connections[0].packets == (9, 8)


@pytest.mark.parametrize("cuts", [None, list(range(1, 35))])
def test_every_packet_twice(cuts):
    packets = talk()
    twice = [packet for packet in packets for _ in range(2)]
    assert len(twice) == 36
    play = Play(twice, cuts=cuts)
    assert play.events == EVENTS
    assert play.counts.duplicate_packets == 18


def test_copies_of_packets_that_wait():
    packets = talk(1, close=False)
    later = marked([*packets[:3], a("A", 4, 1, b"two"), a("A", 4, 1, b"two"), a("A", 1, 1, b"one")])
    later[4] = replace(later[3], at=later[4].at)
    play = Play(later)
    assert play.events == [data(0, b"one"), data(0, b"two"), END]
    assert (play.counts.duplicate_packets, play.counts.retransmitted_bytes) == (1, 0)


@pytest.mark.parametrize(
    "change",
    [dict(at=15 * MS), dict(mark=5 << 32), dict(payload=b"get i"), dict(flags="FA"), dict(ack=0)],
)
def test_what_is_no_copy_is_a_retransmission(change):
    packets = talk(1, close=False)
    again = {"at": packets[-1].at, **change}
    play = Play([*packets, replace(packets[3], **again)])
    assert play.counts.duplicate_packets == 0
    assert play.counts.retransmitted_bytes == len(again.get("payload", GET))


@pytest.mark.parametrize("late", [15, 32, 100])
@pytest.mark.parametrize("turns", [3, 30, 300])
@pytest.mark.parametrize("others", [0, 1, 40])
def test_a_copy_with_the_number_of_its_packet_is_known_at_any_delay(late, turns, others):
    packets = marked(talk(turns), NUMBERED)
    both = packets + [
        replace(packet, at=packet.at + late * MS, mark=packet.mark - (1 << 24)) for packet in packets
    ]
    both += [
        replace(packet, port=7000 + number)
        for number in range(others)
        for packet in packets[3 : 1 + 4 * min(turns, 30)]
    ]
    both.sort(key=lambda packet: packet.at)
    play = Play(both)
    first = [event[1:] for event in play.log if event[0] == 1]
    assert first == [data(0, GET), data(1, ANSWER)] * turns + EVENTS[-3:]
    assert play.counts.duplicate_packets == len(packets)
    assert play.counts.retransmitted_bytes == 0


def test_a_packet_sent_again_has_a_number_of_its_own():
    packets = marked(talk(1, close=False), NUMBERED)
    again = replace(packets[3], at=packets[-1].at, mark=packets[3].mark + (1 << 48))
    late = replace(packets[3], at=packets[3].at + 101 * MS)
    for packet in (again, late):
        play = Play([*packets, packet])
        assert (play.counts.duplicate_packets, play.counts.retransmitted_bytes) == (0, len(GET))


@pytest.mark.parametrize(("apart", "hits"), [(MS, True), (200 * MS, False)])
def test_traces_of_all_connections_are_bounded(apart, hits):
    most, halves = 100 * 16, [HalfConnection(0) for _ in range(9)]
    counts = Counts()
    recent = RecentPackets(counts, 100 * MS, {}, most)
    for turn, half in enumerate(halves):
        mark = (1 + turn) << NUMBERED
        rows = [
            Segment(b"", turn * apart, number, 0, 0, b"", 0, 0, 0, number, mark)
            for number in range(2 * LOOKED_AT)
        ]
        first, _ = recent.add(rows)
        for index in range(len(rows)):
            recent.link(half, first + index)
    sizes = [len(half.trace) for half in halves]
    assert sizes == [0] * 6 + [LOOKED_AT * 16] * 3
    assert sum(sizes) <= most
    assert (counts.caps_hit.get("traced_packets", 0) > 0) == hits


def test_traces_of_busy_connections_keep_what_a_copy_may_be_of():
    """Each is shortened to the packets of the clocks' difference before one is dropped."""
    halves, counts = [HalfConnection(0) for _ in range(4)], Counts()
    recent = RecentPackets(counts, 100 * MS, {}, 4 * 300 * 16)
    for number in range(2_000):
        for half in halves:
            row = Segment(b"", number * MS, number, 0, 0, b"", 0, 0, 0, number, 1 << NUMBERED)
            first, _ = recent.add([row])
            recent.link(half, first)
    assert all(len(half.trace) >= 100 * 16 for half in halves)
    assert sum(len(half.trace) for half in halves) <= 4 * 300 * 16
    assert not counts.caps_hit


def test_only_so_many_packets_are_looked_back_at():
    packets = talk(1, close=False)
    again = replace(packets[3], at=packets[-1].at)
    for count, copies in ((LOOKED_AT - 3, 1), (LOOKED_AT + 1, 0)):
        own = [a("A", 7 + number, 7, b"x", at=again.at) for number in range(count)]
        others = [a("S", 0, port=1000 + number, at=again.at) for number in range(300)]
        for cuts in (None, [3], [20], [30, 120]):
            play = Play([*packets, *own, *others, again], cuts=cuts)
            assert play.counts.duplicate_packets == copies


@pytest.mark.parametrize("count", range(2 * LOOKED_AT, 4 * LOOKED_AT, 7))
def test_rows_are_let_go_only_behind_those_looked_at(count):
    packets = talk(1, close=False)
    own = [
        replace(packet, at=packets[-1].at)
        for packet in marked([a("A", 7 + n, 7, b"x") for n in range(count)])
    ]
    for back, copies in ((LOOKED_AT, 1), (LOOKED_AT + 1, 0)):
        rows = [*packets, *own, replace(own[-back], at=own[-1].at)]
        for cuts in (None, [50], range(7, len(rows), 7)):
            assert Play(rows, cuts=cuts).counts.duplicate_packets == copies


def test_rows_that_nothing_is_compared_with_are_let_go():
    recent, half = RecentPackets(Counts(), 0, {}), HalfConnection(0)
    rows = [Segment(b"", None, number, 0, 0, b"", 0, 0, 0, number) for number in range(5 * LOOKED_AT)]
    number, _ = recent.add(rows)
    for index in range(len(rows)):
        recent.link(half, number + index)
    references = [getrefcount(row) for row in rows]
    assert [number < references[-1] for number in references] == [True] * (4 * LOOKED_AT) + [
        False
    ] * LOOKED_AT


def test_what_is_kept_of_all_connections_is_bounded():
    packets = talk(1, close=False)
    others = [a("S", 0, port=1000 + number, at=packets[-1].at) for number in range(2 * KEPT_ROWS)]
    again = replace(packets[3], at=packets[-1].at)
    for count, uncompared in ((KEPT_ROWS // 2, 0), (2 * KEPT_ROWS, len(GET))):
        rows = [*packets, *others[:count], again]
        play = Play(rows, cuts=[*range(100, len(rows), 100)])
        assert play.counts.uncompared_bytes == uncompared
        assert play.counts.duplicate_packets == (not uncompared)


def test_packets_without_a_time_are_known_by_their_mark():
    packets = [replace(packet, at=None) for packet in talk() for _ in range(2)]
    play = Play(packets, step=None)
    assert play.events == EVENTS
    assert play.counts.duplicate_packets == 18


def test_two_capture_points_that_both_hold_everything():
    packets = talk(40)
    for late in (1, 20, 50):
        both = packets + [replace(packet, at=packet.at + late * MS) for packet in packets]
        play = Play(sorted(both, key=lambda packet: packet.at))
        assert play.events == [data(0, GET), data(1, ANSWER)] * 40 + EVENTS[-3:]


# Conflicts.

HELLO = handshake()


@pytest.mark.parametrize(
    ("packets", "events", "conflicts"),
    [
        pytest.param(
            [a("A", 1, 1, b"abcd"), a("A", 3, 1, b"XdYY")],
            [data(0, b"abcd"), data(0, b"YY")],
            1,
            id="with delivered bytes",
        ),
        pytest.param(
            [a("A", 1, 1, b"ab"), a("A", 3, 1, b"cd"), a("A", 1, 1, b"XbXX")],
            [data(0, b"ab"), data(0, b"cd")],
            3,
            id="with several packets",
        ),
        pytest.param(
            [a("A", 1, 1, b"ab"), a("A", 1, 1, b"Xb"), a("A", 1, 1, b"Xb"), a("A", 1, 1, b"ab")],
            [data(0, b"ab")],
            2,
            id="the first is what counts",
        ),
        pytest.param(
            [a("A", 5, 1, b"efgh"), a("A", 3, 1, b"cdXfYYij"), a("A", 1, 1, b"abZ")],
            [data(0, b"ab"), data(0, b"cd"), data(0, b"efgh"), data(0, b"ij")],
            4,
            id="with bytes that wait",
        ),
        pytest.param(
            [a("A", 1, 1, b"abcd"), a("A", 1, 1, b"abcd"), a("A", 3, 1, b"cdef")],
            [data(0, b"abcd"), data(0, b"ef")],
            0,
            id="none",
        ),
        pytest.param(
            [a("A", 1, 1, b"abcd"), a("A", 4, 1, b"\0"), a("A", 5, 1, b"ef")],
            [data(0, b"abcd"), data(0, b"ef")],
            0,
            id="a keep-alive",
        ),
        pytest.param(
            [a("A", 1, 1, b"ab", missing=2), a("A", 1, 1, b"abcd")],
            [data(0, b"ab"), gap(0, 2, "snaplen")],
            0,
            id="with what was cut",
        ),
    ],
)
def test_the_first_bytes_win_and_others_are_counted(packets, events, conflicts):
    for cut in range(1, len(packets) + 3):
        play = Play(HELLO + packets, cuts=[cut])
        assert play.events == [*events, END]
        assert play.connections[0].conflicts == (conflicts, 0)
        assert play.counts.conflicting_bytes == conflicts
