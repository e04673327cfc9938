"""Plays of connections that go on behind their end, and of two at once on the same addresses and ports."""

from dataclasses import replace
from itertools import zip_longest

import pytest
from playbook import END, MS, SECOND, Play, a, b, closed, data, fin, gap, handshake

from kinspect.model import FRAME_BITS, Caps

HELLO = handshake()
OTHER_ISN = 800_000_000, 2_900_000_000
GET, ANSWER = b"get it", b"answer"


def fins(at=13):
    return [a("FA", at, at), b("FA", at, at + 1)]


def talk(first, last, **more):
    """Requests and responses, 6 bytes each."""
    packets = []
    for turn in range(first, last):
        at = 1 + 6 * turn
        packets += [a("A", at, at, GET, **more), b("A", at, at + 6, ANSWER, **more)]
    return packets


def others(count):
    """Packets of other connections, so that nothing waits for those of this one any more."""
    return [a("S", 0, port=1000 + number) for number in range(count)]


def streams(play):
    """Streams of each connection of port 40000, by direction."""
    found = []
    for number, connection in enumerate(play.connections, 1):
        ports = [port for _, port in connection.addresses]
        if 40000 in ports:
            client = ports.index(40000)
            found.append((play.stream(client, number), play.stream(1 - client, number)))
    return found


@pytest.mark.parametrize(
    "end", [fins(), [b("R", 13)], [a("R", 13)], [b("RA", 13, 13)]], ids=["fin", "rst", "rst of a", "rst ack"]
)
def test_other_numbers_behind_an_end_are_another_connection(end):
    again = talk(0, 3, isn=OTHER_ISN)
    play = Play([*HELLO, *talk(0, 2), *end, *others(9), *again])
    assert streams(play) == [(GET * 2, ANSWER * 2), (GET * 3, ANSWER * 3)]
    assert play.counts.ignored_bytes == 0


def test_one_side_alone_is_a_connection_too():
    again = [packet for packet in talk(0, 3, isn=OTHER_ISN) if packet.side == 0]
    play = Play([*HELLO, *talk(0, 2), *fins(), *again])
    assert streams(play) == [(GET * 2, ANSWER * 2), (GET * 3, b"")]


@pytest.mark.parametrize("between", [0, 9])
@pytest.mark.parametrize("side", ["a", "b"])
def test_a_reset_whose_sender_goes_on(side, between):
    reset = [a("R", 7)] if side == "a" else [b("RA", 7, 7)]
    play = Play([*HELLO, *talk(0, 1), *reset, *others(between), *talk(1, 5)])
    assert streams(play) == [(GET * 5, ANSWER * 5)]
    assert play.counts.ignored_bytes == 0


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_reset_whose_sender_goes_on_later(side):
    reset = [a("R", 7)] if side == "a" else [b("RA", 7, 7)]
    play = Play([*HELLO, *talk(0, 1), *reset, *(replace(packet, at=3 * SECOND) for packet in talk(1, 5))])
    found = streams(play)
    assert b"".join(sent for _, sent in found) == ANSWER * 5
    requests = b"".join(sent for sent, _ in found)
    # What came between the reset and its sender's next packet is not known to be of a connection.
    assert requests == GET * 5 or (side == "b" and requests == GET * 4)
    assert play.counts.ignored_bytes == (5 * len(GET) - len(requests))
    assert len(found) == 2


def test_what_was_under_way_when_a_reset_came_is_no_connection():
    late = [a("A", 13 + 6 * turn, 13, GET, at=3 * SECOND) for turn in range(5)]
    play = Play([*HELLO, *talk(0, 2), b("R", 13), *others(9), *late])
    assert streams(play) == [(GET * 2, ANSWER * 2)]
    assert play.counts.ignored_bytes == 5 * len(GET)


@pytest.mark.parametrize("reset", [a("R", 13, 13), a("RA", 13, 13), b("R", 13, 13), b("RA", 13, 13)])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_ports_used_again_after_a_reset_lose_no_message(reset, first):
    old = [*HELLO, *talk(0, 2), reset]
    again = [
        replace(packet, at=2 * SECOND + number * MS, isn=(OTHER_ISN[0], OTHER_ISN[1]))
        for number, packet in enumerate(talk(0, 3)[first:])
    ]
    play = Play([*old, *again])
    events = [event for event in play.log if event[0] == 2 and event[1] == "data"]
    assert len(events) == 6 - first
    assert play.counts.ignored_bytes == 0


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("side", [a, b])
def test_a_fin_whose_sender_goes_on_did_not_end_it(side, counted):
    at = 7 + counted
    more = [side("A", at, 7, b"more"), side("A", at + 4, 7, b"more")]
    play = Play([*HELLO, *talk(0, 1), side("FA", 7, 7), *more])
    direction = more[0].side
    assert play.events[2:] == [fin(direction), data(direction, b"more"), data(direction, b"more"), END]


def test_a_fin_that_was_guessed_was_a_lost_byte_if_its_sender_goes_on():
    play = Play([*HELLO, *talk(0, 1), b("A", 7, 8), *[b("A", 7, 8)] * 40, a("A", 8, 7, b"more")])
    assert play.events[2:] == [fin(0), gap(0, 1), data(0, b"more"), END]


@pytest.mark.parametrize("apart", [100 * MS, 5 * SECOND])
@pytest.mark.parametrize("first", [0, 1])
def test_two_connections_at_once_are_told_apart_by_their_numbers(apart, first):
    one, other = talk(first, 3), talk(0, 3, isn=OTHER_ISN)
    both = [packet for pair in zip_longest(one, other) for packet in pair if packet is not None]
    begin = [*HELLO, *talk(0, first)]
    packets = [*begin, *handshake(isn=OTHER_ISN), *both]
    found = streams(Play([replace(p, at=n * MS + (n >= len(begin)) * apart) for n, p in enumerate(packets)]))
    assert (GET * 3, ANSWER * 3) in found
    for direction, told in ((0, GET), (1, ANSWER)):
        assert b"".join(sent[direction] for sent in found) == told * 6
    # One that was silent before is not known to be that which speaks again.
    assert len(found) == 2 + (apart > SECOND)


def test_the_old_connection_is_closed_where_it_is_silent():
    later = [a("S", 0, port=1, at=3 * SECOND), a("S", 0, port=2, at=3 * SECOND + MS)]
    play = Play([*HELLO, *talk(0, 1), *handshake(isn=OTHER_ISN), *talk(0, 1, isn=OTHER_ISN), *later])
    assert (1, *closed("reuse")) in play.log
    assert streams(play) == [(GET, ANSWER)] * 2


def test_one_packet_alone_is_no_connection():
    stray = a("A", 1, 1, b"forged", isn=OTHER_ISN)
    for packets in ([stray], [stray, stray], [stray, *others(4)]):
        play = Play([*HELLO, *talk(0, 1), *packets, *talk(1, 3)])
        assert streams(play) == [(GET * 3, ANSWER * 3)]
        assert play.counts.ignored_bytes == sum(len(packet.payload) for packet in packets)


def test_a_packet_waits_a_second_for_another():
    stray, answer = talk(0, 1, isn=OTHER_ISN)
    for after, first in ((SECOND // 2, GET), (2 * SECOND, b"")):
        answer = replace(answer, at=after)
        play = Play(
            [*HELLO, *talk(0, 1), *fins(7), stray, *[replace(other, at=after) for other in others(2)], answer]
        )
        assert streams(play) == [(GET, ANSWER), (first, ANSWER)]
        assert play.counts.ignored_bytes == len(GET) - len(first)


def test_much_that_fits_nothing_is_let_go_and_counted():
    caps = Caps()
    strays = [a("A", 1, 1, bytes(60000), isn=(turn << 25, 900)) for turn in range(1, 100)]
    play = Play([*HELLO, *talk(0, 1), *fins(7), *strays], caps)
    assert streams(play) == [(GET, ANSWER)]
    assert play.counts.ignored_bytes == 99 * 60000


def test_a_flood_of_handshakes_loses_no_connection():
    floods = [a("S", 0, isn=((turn << 25) % 2**32, 77)) for turn in range(1, 60)]
    play = Play([*HELLO, *talk(0, 1), *floods, *talk(1, 2)])
    assert b"".join(sent for sent, _ in streams(play)) == GET * 2
    assert len(play.connections) >= 60


def test_without_times_no_more_packets_wait_than_may():
    strays = [
        a("A", 1, 1, b"x", isn=((turn * 77_777_777) % 2**32, turn % 2**31), port=turn % 60000)
        for turn in range(9000)
    ]
    ended = [packet for turn in range(9000) for packet in (a("S", 0, port=turn), b("R", 1, port=turn))][:20]
    play = Play([*ended, *HELLO, *talk(0, 1), *fins(7), *strays], step=None)
    assert len(play.tcp._strays._waiting) == 0


def test_other_bytes_in_one_of_several_files_are_no_other_connection():
    """A connection that began in an earlier file."""
    first = [*HELLO, *talk(0, 1)]
    second = [*talk(1, 2), a("A", 7, 7, b"GET IT"), *talk(2, 3)]
    rows = [packet.segment(at, at * MS) for at, packet in enumerate(first, 1)]
    rows += [
        packet.segment(at, (10 + at) * MS)._replace(frame=at + (1 << FRAME_BITS))
        for at, packet in enumerate(second, 1)
    ]
    play = Play([], flush=False)
    play.tcp.feed(rows)
    play.tcp.flush()
    play.check_books(rows)
    assert streams(play) == [(GET * 3, ANSWER * 3)]
    assert play.counts.conflicting_bytes == 5


def test_a_long_loss_is_one_connection_still():
    far = 1 << 27
    play = Play([*HELLO, *talk(0, 1), b("A", 7, far), a("A", far, 7, GET), b("A", 7, far + 6, ANSWER)])
    assert len(play.connections) == 1
    assert play.events[2:] == [gap(0, far - 7), data(0, GET), data(1, ANSWER), END]


def test_a_connection_that_gave_way_comes_back():
    play = Play([*HELLO, *talk(0, 2), *others(3), *talk(2, 4)], Caps(connections=2))
    assert streams(play) == [(GET * 2, ANSWER * 2), (GET * 2, ANSWER * 2)]


def test_the_same_numbers_in_two_files_with_other_bytes_are_two_connections():
    def of_host(number, request, answer):
        packets = [
            *HELLO,
            a("A", 1, 1, request),
            b("A", 1, 7, answer),
            a("A", 7, 7, request),
            b("A", 7, 13, answer),
        ]
        rows = [
            replace(packet, mark=number).segment(at, at * MS + number) for at, packet in enumerate(packets, 1)
        ]
        return [row._replace(frame=row.frame + (number << FRAME_BITS)) for row in rows]

    one, other = of_host(0, b"get 01", b"answer"), of_host(1, b"get 02", b"denied")
    play = Play([], flush=False)
    rows = [row for pair in zip(one, other, strict=True) for row in pair]
    play.tcp.feed(rows)
    play.tcp.flush()
    play.check_books(rows)
    assert streams(play) == [(b"get 01" * 2, b"answer" * 2), (b"get 02" * 2, b"denied" * 2)]
