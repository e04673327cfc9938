"""Plays: what packets do to one connection, and to the table of them."""

from dataclasses import replace

import pytest
from playbook import END, MS, SECOND, Play, a, b, closed, data, fin, gap, handshake

from kinspect.model import BEHIND_GAPS, Caps
from kinspect.tcp.delivery import LATE_PACKETS, LINGER_PACKETS
from kinspect.tcp.reassembly import GRACE_NS, LATE_NS, REMEMBERED
from kinspect.tcp.reorder import PIECE_BYTES
from kinspect.tcp.runclock import ISLANDS, LOOK_EACH, PATIENCE

HELLO = handshake()
GET, ANSWER = b"get it", b"answer"


def exchange(turn):
    """The `turn`th request and response, 6 bytes each."""
    at = 1 + 6 * turn
    return [a("A", at, at, GET), b("A", at, at + 6, ANSWER)]


def exchanges(first, last):
    return [packet for turn in range(first, last) for packet in exchange(turn)]


CALM = [data(0, GET), data(1, ANSWER)]
MANY = 20  # exchanges: more packets than a hole waits for


@pytest.mark.parametrize(
    ("packets", "events"),
    [
        pytest.param(HELLO + exchange(0), [*CALM, END], id="in order"),
        pytest.param(
            [*HELLO, *exchange(0), a("FA", 7, 7), b("FA", 7, 8), a("A", 8, 8)],
            [*CALM, fin(0), fin(1), closed("fin")],
            id="both sides close",
        ),
        pytest.param(
            [*HELLO, a("FA", 1, 1, GET), b("A", 1, 8, ANSWER), b("FA", 7, 8)],
            [data(0, GET), fin(0), data(1, ANSWER), fin(1), closed("fin")],
            id="data with FIN, half-closed",
        ),
        pytest.param(
            [a("S", 0, payload=b"early"), b("SA", 0, 6), a("A", 6, 1, b"late")],
            [data(0, b"early"), data(0, b"late"), END],
            id="data with SYN",
        ),
        pytest.param(
            [*HELLO, a("A", 4, 1, b"two"), a("A", 1, 1, b"one")],
            [data(0, b"one"), data(0, b"two"), END],
            id="out of order",
        ),
        pytest.param(
            [*HELLO, a("FA", 4, 1), b("A", 1, 1), a("A", 1, 1, b"one")],
            [data(0, b"one"), fin(0), END],
            id="FIN before the data",
        ),
        pytest.param(
            [*HELLO, a("A", 1, 1, GET), a("A", 1, 1, GET), b("A", 1, 7, ANSWER)],
            [*CALM, END],
            id="retransmitted",
        ),
        pytest.param(
            [*HELLO, a("A", 1, 1, b"abcd"), a("A", 3, 1, b"XXef")],
            [data(0, b"abcd"), data(0, b"ef"), END],
            id="overlap with delivered bytes: the first win",
        ),
        pytest.param(
            [*HELLO, a("A", 5, 1, b"efgh"), a("A", 3, 1, b"cdXXXXij"), a("A", 1, 1, b"abX")],
            [data(0, b"ab"), data(0, b"cd"), data(0, b"efgh"), data(0, b"ij"), END],
            id="overlap with waiting bytes: the first win",
        ),
        pytest.param(
            [*HELLO, *exchange(0), b("A", 6, 7), a("A", 7, 7), b("A", 6, 7, b"?"), *exchange(1)],
            [*CALM, *CALM, END],
            id="keep-alives",
        ),
        pytest.param(
            [*HELLO, a("A", 1, 1, b"g"), b("A", 1, 1), a("A", 1, 1, b"g"), b("A", 1, 2), a("A", 2, 1, b"et")],
            [data(0, b"g"), data(0, b"et"), END],
            id="zero-window probes",
        ),
        pytest.param(
            [b("SA", 0, 1), a("S", 0), a("A", 1, 1), *exchange(0)],
            [*CALM, END],
            id="SYN behind its SYN-ACK",
        ),
        pytest.param(
            [a("S", 0), a("S", 0), b("SA", 0, 1), a("S", 0), b("SA", 0, 1), a("A", 1, 1), *exchange(0)],
            [*CALM, END],
            id="SYNs retransmitted",
        ),
        pytest.param([*HELLO, *exchange(0)[::-1]], [*CALM, END], id="a response before its request"),
        pytest.param(
            [*HELLO, *exchange(0), exchange(1)[1], exchange(2)[1], exchange(1)[0], exchange(2)[0]],
            [*CALM, *CALM, *CALM, END],
            id="responses before their requests",
        ),
        pytest.param(exchange(3), [*CALM, END], id="no SYN"),
        pytest.param(
            exchange(3)[::-1] + exchange(4),
            [data(1, GET), data(0, ANSWER), data(1, GET), data(0, ANSWER), END],
            id="no SYN, the response first",
        ),
        pytest.param(
            [a("A", 7, 7), *exchange(2)[1:], exchange(1)[1], exchange(1)[0], exchange(2)[0]],
            [*CALM, *CALM, END],
            id="no SYN, what the peer acknowledged says where the stream starts",
        ),
        pytest.param(
            [b("A", 7, 1), a("A", 7, 7), *exchange(1), *exchange(2)],
            [data(1, GET), data(0, ANSWER), data(1, GET), data(0, ANSWER), END],
            id="no SYN, bytes on their way before the first packet are no hole",
        ),
        pytest.param(
            [b("A", 7, 1), a("A", 7, 7), *exchange(2), *exchange(3)],
            [gap(1, 6), gap(0, 6), data(1, GET), data(0, ANSWER), data(1, GET), data(0, ANSWER), END],
            id="no SYN, those behind it are",
        ),
        pytest.param(
            [
                a("A", 7, 7),
                b("A", 1, 7),
                b("SA", 0, 1),
                b("A", 1, 7, ANSWER),
                a("A", 1, 1, GET),
                *exchange(1),
            ],
            [*CALM, *CALM, END],
            id="the SYN-ACK behind an acknowledgment of the first response",
        ),
        pytest.param(
            [b("A", 7, 13, ANSWER), a("A", 13, 13), exchange(2)[0], a("A", 7, 7, GET), exchange(2)[1]],
            [data(1, GET), data(0, ANSWER), data(1, GET), data(0, ANSWER), END],
            id="no SYN, the first bytes late",
        ),
        pytest.param(
            [a("A", 7, 7), a("A", 7, 7, GET), b("A", 6, 7, b"?"), b("A", 7, 13, ANSWER)],
            [*CALM, END],
            id="no SYN, a keep-alive first",
        ),
        pytest.param(
            [*HELLO, a("A", 1, 1, GET, missing=4), b("A", 1, 11, ANSWER), a("A", 11, 7, GET)],
            [data(0, GET), gap(0, 4, "snaplen"), data(1, ANSWER), data(0, GET), END],
            id="cut by the snap length",
        ),
        pytest.param(
            [*HELLO, a("A", 1, 1, missing=6), a("A", 1, 1, GET), b("A", 1, 7, ANSWER)],
            [gap(0, 6, "snaplen"), data(1, ANSWER), END],
            id="cut, then again whole: the first wins",
        ),
        pytest.param(
            [*HELLO, b("A", 1, 7, ANSWER)],
            [gap(0, 6), data(1, ANSWER), END],
            id="a lost request, at the end",
        ),
        pytest.param(
            [*HELLO, *exchange(0), a("A", 13, 7), a("A", 7, 7, GET)],
            [*CALM, data(0, GET), END],
            id="a bare acknowledgment before its data",
        ),
        pytest.param(
            [*HELLO, a("A", 1, 1, GET), a("A", 7, 7)],
            [data(0, GET), gap(1, 6), END],
            id="a lost last response",
        ),
        pytest.param(
            [*HELLO, b("FA", 1, 1), b("A", 2, 2)],
            [fin(1), fin(0), closed("fin")],
            id="a lost FIN that was acknowledged",
        ),
        pytest.param(
            [*HELLO, *exchange(0), a("A", 7 + 2**31, 7, b"elsewhere"), b("A", 7, 2**31), *exchange(1)],
            [*CALM, *CALM, END],
            id="numbers from nowhere",
        ),
        pytest.param(
            [*HELLO, a("FA", 1, 1), a("A", 2, 1, b"after FIN"), b("A", 1, 2, ANSWER)],
            [fin(0), data(0, b"after FIN"), data(1, ANSWER), END],
            id="data after FIN",
        ),
        pytest.param(
            [*HELLO, a("A", 13, 13, GET), b("A", 13, 19, ANSWER), *exchange(0), *exchange(1)],
            [*CALM, *CALM, *CALM, END],
            id="holes on both sides",
        ),
    ],
)
def test_one_connection(packets, events):
    play = Play(packets)
    assert play.events == events
    for cut in range(1, len(packets)):
        assert Play(packets, cuts=[cut]).events == events


def test_bytes_on_their_way_before_the_first_packet_are_no_hole_when_acknowledged_in_parts():
    play = [b("A", 7, 1), a("A", 13, 7)]
    for turn in range(2 * MANY):
        at = 7 + 6 * turn
        play += [b("A", at, 7 if turn < MANY else 13, ANSWER), a("A", 13, at + 6)]
    assert Play(play).events == [*[data(0, ANSWER)] * 2 * MANY, END]


def test_numbers_wrap():
    for first in range(2**32 - 20, 2**32):
        isn = first, 2**32 - 7
        packets = [*HELLO, *exchanges(0, 4), exchange(5)[0], exchange(4)[0], exchange(5)[1], exchange(4)[1]]
        for packet in packets:
            packet.isn = isn
        assert Play(packets).events == [*CALM * 6, END]
        for packet in packets:
            packet.isn = (1000, 5000)


# Lost packets.


def test_a_hole_that_was_acknowledged_is_given_up_after_so_many_packets():
    lost = exchange(0)[0]
    packets = [packet for packet in HELLO + exchanges(0, MANY) if packet != lost]
    play = Play(packets, flush=False)
    assert play.events[:2] == [gap(0, 6), data(1, ANSWER)]
    assert play.stream(0) == b"?" * 6 + GET * (MANY - 1)
    assert play.stream(1) == ANSWER * MANY
    assert len(play.events) == 2 * MANY
    early = Play(packets[: 3 + Caps().reorder_packets], flush=False)
    assert early.events == []


def test_a_packet_that_the_capture_delayed_is_no_hole():
    for delay in range(1, 30):
        packets = HELLO + exchanges(0, MANY)
        packets.insert(5 + delay, packets.pop(5))
        assert Play(packets, flush=False).log == Play(HELLO + exchanges(0, MANY), flush=False).log


def test_every_lost_packet_is_a_gap_of_its_own_and_nothing_lags():
    lost = [exchange(turn)[turn % 2] for turn in range(0, 400, 4)]
    packets = [packet for packet in HELLO + exchanges(0, 420) if packet not in lost]
    play = Play(packets, flush=False)
    assert [len(sizes) for sizes in play.gaps] == [100, 0]
    assert len(play.log) == 840
    assert max(frame for _, frame in play.stamps) == len(packets)


def test_what_was_lost_in_one_go_is_one_gap():
    packets = HELLO + exchanges(0, 60)
    lost = [packet for packet in packets[3:23] if packet.side == 0]
    play = Play([packet for packet in packets if packet not in lost], flush=False)
    assert play.gaps == ([60], [])
    assert play.stream(0) == b"?" * 60 + GET * 50


def others_at(time):
    """Enough of other connections for the run's clock to come there."""
    enough = (ISLANDS + PATIENCE) * LOOK_EACH
    return [a("S", 0, port=1000 + number, at=time) for number in range(enough)]


def test_a_hole_that_was_acknowledged_is_given_up_by_time():
    packets = [*HELLO, b("A", 1, 7, ANSWER)]
    given_up = [(1, *gap(0, 6)), (1, *data(1, ANSWER))]
    own = Play([*packets, *[b("A", 7, 7, at=2 * SECOND)] * LATE_PACKETS], flush=False)
    # A capture may be quiet for long between two packets that it swapped.
    swapped = Play([*packets, a("A", 1, 1, GET, at=2 * SECOND)], flush=False)
    assert [event[1:] for event in swapped.log] == CALM
    run = Play([*packets, *others_at(2 * SECOND + GRACE_NS + MS * 10)], flush=False)
    assert own.log == [event for event in run.log if event[0] == 1] == given_up
    # What one other connection says of the time is of no account.
    wrong = Play([*packets, a("S", 0, port=1, at=9000 * SECOND), a("A", 1, 1, GET)], flush=False)
    assert [event[1:] for event in wrong.log if event[0] == 1] == CALM


def test_a_hole_nobody_acknowledged_waits_for_the_retransmission():
    late = [a("A", 7 + 6 * turn, 1, GET) for turn in range(300)]
    dup_acks = [b("A", 1, 1) for _ in late]
    mixed = [packet for pair in zip(late, dup_acks, strict=True) for packet in pair]
    play = Play([*HELLO, *mixed, a("A", 1, 1, b"first!"), b("A", 1, 1 + 6 * 301, ANSWER)], flush=False)
    assert play.events == [data(0, b"first!"), *[data(0, GET)] * 300, data(1, ANSWER)]
    late[-1].at = 9 * SECOND
    play = Play([*HELLO, *late, *others_at(10 * SECOND)], flush=False)
    assert play.log[0] == (1, *gap(0, 6))


def test_one_direction_alone_never_waits_long():
    requests = [packet for packet in HELLO + exchanges(0, 400) if packet.side == 0]
    assert Play(requests, flush=False).events == [data(0, GET)] * 400
    without = [packet for packet in requests if packet != exchange(50)[0]]
    assert Play(without, flush=False).stream(0) == GET * 50 + b"?" * 6 + GET * 349
    responses = [packet for packet in HELLO + exchanges(0, 200) if packet.side == 1]
    play = Play(responses, flush=False)
    assert play.events == [data(1, ANSWER)] * 200
    assert play.connections[0].syn == 0


def test_a_direction_that_vanishes_holds_the_other_up_for_a_while_only():
    packets = HELLO + exchanges(0, 5) + [packet for packet in exchanges(5, 205) if packet.side == 1]
    play = Play(packets, flush=False)
    assert len(play.stream(1)) > 6 * (205 - Caps().reorder_packets * 2)
    assert play.stream(0) == GET * 5 + b"?" * (len(play.stream(1)) - 30)


# The ends.


@pytest.mark.parametrize(
    ("packets", "events"),
    [
        pytest.param([a("R", 7)], [*CALM, closed("reset")], id="next number"),
        pytest.param([a("RA", 7, 7)], [*CALM, closed("reset")], id="with ACK"),
        pytest.param(
            [a("A", 7, 7, GET), a("R", 7)], [*CALM, data(0, GET), closed("reset")], id="what the peer has"
        ),
        pytest.param(
            [a("A", 13, 7, GET), a("R", 19)], [*CALM, gap(0, 6), data(0, GET), closed("reset")], id="hole"
        ),
        pytest.param(
            [a("R", 7), b("A", 7, 7, b"swapped")], [*CALM, data(1, b"swapped"), closed("reset")], id="swap"
        ),
        pytest.param([a("R", 7 + 100_000), *exchange(1)], [*CALM, *CALM, END], id="ahead of the window"),
        pytest.param([a("R", 6), *exchange(1)], [*CALM, *CALM, END], id="behind the window"),
        pytest.param([b("R", 2**31), *exchange(1)], [*CALM, *CALM, END], id="nowhere"),
    ],
)
def test_reset(packets, events):
    assert Play([*HELLO, *exchange(0), *packets]).events == events


def test_a_reset_closes_after_a_while_with_its_own_time():
    play = Play([*HELLO, a("R", 1), *others_at(3 * SECOND)], flush=False)
    assert play.log == [(1, *closed("reset"))]
    assert play.stamps == [(4 * MS, 4)]
    play = Play([*HELLO, a("R", 1), *[b("A", 1, 1)] * LINGER_PACKETS], flush=False)
    assert play.log == [(1, *closed("reset"))]
    assert play.stamps == [(4 * MS, 4)]


def test_a_refused_connection():
    assert Play([a("S", 0), b("RA", -5000, 1)]).events == [closed("reset")]
    assert Play([a("S", 0), b("RA", -5000, 9)]).events == [END]


def test_a_stray_reset_is_no_connection():
    assert Play([a("R", 5), b("RA", 1, 1)]).connections == []


def test_late_packets_of_a_closed_connection_are_ignored():
    end = [a("FA", 7, 7), b("FA", 7, 8)]
    late = [a("A", 8, 8), *exchange(0), a("FA", 7, 7), b("FA", 7, 8), a("R", 8)]
    play = Play([*HELLO, *exchange(0), *end, *late])
    assert play.events == [*CALM, fin(0), fin(1), closed("fin")]
    assert play.tcp.open_connections == 0


# Ports used again.


def test_a_syn_with_another_number_is_another_connection():
    again = [*handshake(isn=(99, 77)), a("A", 1, 1, b"new", isn=(99, 77))]
    play = Play([*HELLO, a("A", 1, 1, b"old"), *again])
    assert play.log == [(1, *data(0, b"old")), (2, *data(0, b"new")), (1, *closed("reuse")), (2, *END)]
    again[0] = replace(again[0], at=2 * SECOND)
    play = Play([*HELLO, a("A", 1, 1, b"old"), *again])
    assert play.log == [(1, *data(0, b"old")), (1, *closed("reuse")), (2, *data(0, b"new")), (2, *END)]
    closing = [a("FA", 4, 1), b("FA", 1, 5)]
    play = Play([*HELLO, a("A", 1, 1, b"old"), *closing, *again])
    assert [event for event in play.log if event[0] == 2] == [(2, *data(0, b"new")), (2, *END)]
    # Its SYN was lost.
    play = Play([*HELLO, a("A", 1, 1, b"old"), *closing, *again[1:]])
    assert [event for event in play.log if event[0] == 2] == [(2, *data(0, b"new")), (2, *END)]


@pytest.mark.parametrize("syns", [HELLO[:1], HELLO[1:2], HELLO[:2]])
def test_a_syn_far_behind_the_first_bytes_of_its_stream(syns):
    for packets in (exchanges(0, 4), exchanges(0, MANY)):
        play = Play([*packets, *syns, *exchanges(MANY, MANY + 1)])
        assert len(play.connections) == 1
        # Another number, or much later: ports used again.
        others = [replace(syn, isn=(99, 77)) for syn in syns], [replace(syn, at=90 * SECOND) for syn in syns]
        for other in others:
            assert len(Play([*packets, *other]).connections) == 2


@pytest.mark.parametrize("end", [[a("FA", 13, 13), b("FA", 13, 14)], [b("R", 13)], []])
@pytest.mark.parametrize("begin", [HELLO, []])
def test_the_same_packets_again_later_are_the_same_connection_twice(begin, end):
    once = [*begin, *exchanges(0, 2), *end]
    others = [a("S", 0, port=1000 + number) for number in range(8)]
    play = Play(once + others + [replace(packet, at=2 * SECOND) for packet in once])
    assert len(play.connections) == 10
    for number in (1, 10):
        assert play.stream(0, number) == GET * 2
        assert play.stream(1, number) == ANSWER * 2


# Time and caps.


def test_a_silent_connection_is_closed_by_the_clock():
    idle = Caps().idle_timeout_ns
    packets = [*HELLO, a("A", 1, 1, b"1"), b("A", 4, 2, b"x")]
    end = [(1, *data(0, b"1")), (1, *gap(1, 3)), (1, *data(1, b"x")), (1, *closed("idle"))]
    next_packet = a("A", 2, 5, at=5 * MS + idle - 1)
    assert (1, *closed("idle")) not in Play([*packets, next_packet], flush=False).log
    next_packet.at += 1
    for more in ([next_packet], others_at(SECOND + 5 * MS + idle)):
        play = Play([*packets, *more], flush=False)
        assert [event for event in play.log if event[0] == 1] == end
        assert play.stamps[3] == (5 * MS + idle, 5)


def test_packets_without_a_time_or_from_the_past():
    assert Play(HELLO + exchanges(0, 3), step=None).events == [*CALM * 3, END]
    assert Play(HELLO + exchanges(0, 3), step=-MS).events == [*CALM * 3, END]


def test_the_longest_silent_connection_gives_way():
    packets = [a("S", 0, port=port) for port in (1, 2, 3)]
    packets += [a("S", 0, port=1), a("S", 0, port=4), a("S", 0, port=5)]
    for step in (MS, None):
        play = Play(packets, Caps(connections=3), flush=False, step=step)
        assert play.log == [(2, *closed("cap")), (3, *closed("cap"))]
        assert play.counts.caps_hit == {"connections": 2}
        assert play.tcp.open_connections == 3


@pytest.mark.parametrize(
    ("cap", "limit"),
    [
        ("buffered_bytes", 60),
        ("buffered_segments", 10),
        ("total_bytes", BEHIND_GAPS * 10 * (PIECE_BYTES + 6)),
    ],
)
def test_caps_on_what_waits(cap, limit):
    packets = [*HELLO, *[a("A", 4 + 9 * turn, 1, b"waits!") for turn in range(11)]]
    play = Play(packets, Caps(**{cap: limit}), flush=False)
    assert play.events == [gap(0, 3), data(0, b"waits!")]
    assert play.counts.caps_hit == {cap: 1}


def test_caps_hold_a_response_back_no_longer():
    packets = [*HELLO, b("A", 1, 7, b"much more than the cap"), a("A", 1, 1, GET)]
    play = Play(packets, Caps(buffered_bytes=10))
    assert play.events == [gap(0, 6), data(1, b"much more than the cap"), END]


def test_ended_connections_are_forgotten():
    packets = []
    for number in range(20_000):
        packets += [a("S", 0, port=number), b("RA", -5000, 1, port=number)]
    play = Play(packets, flush=False)
    assert len(play.connections) == 20_000
    assert play.tcp.open_connections < 1100
    assert len(play.tcp._halves) <= 2 * (REMEMBERED + 1100)
    assert play.counts.caps_hit["ended_connections"] > 20_000 - REMEMBERED - 1100
    late = [a("S", 0, at=2 * LATE_NS, port=number) for number in range(60_000, 60_000 + ISLANDS * LOOK_EACH)]
    play = Play([*packets[:6000], *late], flush=False)
    assert len(play.tcp._islands) == len(late)
    assert "ended_connections" not in play.counts.caps_hit


# What is told.


def test_bytes_carry_the_time_and_frame_of_the_packet_that_brought_them():
    play = Play([*HELLO, a("A", 4, 1, b"two"), a("A", 1, 1, b"oneTWOthree"), a("A", 1, 1, b"one")])
    assert play.events[:3] == [data(0, b"one"), data(0, b"two"), data(0, b"three")]
    assert play.stamps[:3] == [(5 * MS, 5), (4 * MS, 4), (5 * MS, 5)]


def test_a_connection_tells_its_facts():
    lost = [a("A", 4, 4, b"req", at=2 * SECOND), b("A", 9, 7, b"resp", at=3 * SECOND)]
    packets = [*HELLO, a("A", 1, 1, b"req"), a("A", 1, 1, b"req"), b("A", 1, 4, b"res"), *lost]
    play = Play(packets)
    (connection,) = play.connections
    assert connection.addresses == ((b"\x0a\0\0\x01", 40000), (b"\x0a\0\0\x02", 9092))
    assert connection.syn == 0
    assert (connection.start_time, connection.start_frame) == (MS, 1)
    assert (connection.last.time, connection.last.frame) == (3 * SECOND, 8)
    assert connection.end_reason == "capture_end"
    assert connection.packets == (5, 3)
    assert connection.bytes == (6, 7)
    assert play.gaps == ([], [5])
    assert play.counts.retransmitted_bytes == 3


def test_a_connection_without_a_syn_does_not_know_who_opened_it():
    assert Play(exchange(0)).connections[0].syn is None


def test_several_connections_end_in_the_order_of_their_first_packets():
    packets = [a("S", 0, port=port) for port in (3, 1, 2)] + [a("S", 0, port=3, isn=(9, 9))]
    play = Play(packets)
    assert [event[0] for event in play.log] == [1, 2, 3, 4]


def test_first_bytes_that_changed_places_are_no_keep_alive():
    single = [a("A", 1 + number, 1, GET[number : number + 1]) for number in range(len(GET))]
    swapped = [single[1], single[0], *single[2:]]
    assert Play(swapped).stream(0) == GET
    # A keep-alive repeats a byte that the peer acknowledged.
    alive = [b("A", 1, 7), a("A", 7, 1, GET), a("A", 6, 1, b"x")]
    assert Play(alive).stream(1) == GET
