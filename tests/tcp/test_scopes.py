"""The same addresses and ports in VLANs and tunnels: one connection or several."""

from dataclasses import replace

import pytest
from playbook import END, MS, Play, a, b, closed, data, handshake

from kinspect.tcp.reassembly import REMEMBERED

GET, ANSWER = b"get it", b"answer"
CALM = [data(0, GET), data(1, ANSWER)]

VLAN = {number: number.to_bytes(3, "big") for number in (100, 200, 300)}
VNI = {number: b"v" + number.to_bytes(4, "big") for number in (1, 2)}
TTL = 64 << 24


def talk(turns=3, isn=(1000, 5000), close=False):
    packets = handshake(isn=isn)
    at = 1
    for _ in range(turns):
        packets += [a("A", at, at, GET, isn=isn), b("A", at, at + 6, ANSWER, isn=isn)]
        at += 6
    if close:
        packets += [a("FA", at, at, isn=isn), b("FA", at, at + 1, isn=isn), a("A", at + 1, at + 1, isn=isn)]
    return [
        replace(packet, mark=number << 32 | TTL, at=number * MS) for number, packet in enumerate(packets, 1)
    ]


def inside(scope, packets, hops=64):
    return [replace(packet, scope=scope, mark=packet.mark >> 32 << 32 | hops << 24) for packet in packets]


def sides(packets, requests, responses):
    """Each direction in its own scope."""
    return [replace(packet, scope=responses if packet.side else requests) for packet in packets]


def merged(*captures):
    return sorted((packet for packets in captures for packet in packets), key=lambda packet: packet.at)


def streams(play):
    return [
        (play.stream(0, number), play.stream(1, number)) for number in range(1, len(play.connections) + 1)
    ]


OTHER = (770_000_000, 990_000_000)
ONE = [(GET * 3, ANSWER * 3)]
BEGINS = [0, 3, 4]  # with its handshake, in the middle, with a response


@pytest.mark.parametrize("begin", BEGINS)
@pytest.mark.parametrize(
    ("requests", "responses"),
    [
        (VLAN[100], VLAN[200]),
        (VLAN[100], b""),
        (b"", VLAN[100]),
        (VNI[1], VNI[2]),
        (b"", VNI[1]),
        (VNI[1] + VLAN[100], VNI[1] + VLAN[200]),
    ],
)
def test_directions_in_different_scopes_are_one_connection(begin, requests, responses):
    packets = talk()[begin:]
    play = Play(sides(packets, requests, responses))
    assert len(play.connections) == 1
    assert play.events == Play(packets).events
    assert (
        play.connections[0].addresses
        == ((b"\x0a\0\0\x01", 40000), (b"\x0a\0\0\x02", 9092))[:: -1 if begin == 4 else 1]
    )


@pytest.mark.parametrize("begin", BEGINS)
@pytest.mark.parametrize("other", [OTHER, (1000, 5000)])
@pytest.mark.parametrize("late", [0, 1, 40])
@pytest.mark.parametrize(
    ("one", "two"),
    [(VLAN[100], VLAN[200]), (VNI[1], VNI[2]), (VNI[1] + VLAN[100], VNI[1] + VLAN[200])],
)
def test_both_directions_in_two_scopes_are_two_connections(begin, other, late, one, two):
    first = inside(one, talk()[begin:])
    second = [replace(packet, at=packet.at + late * MS) for packet in inside(two, talk(isn=other)[begin:])]
    play = Play(merged(first, second))
    assert len(play.connections) == 2
    alone = Play(talk()[begin:])
    assert streams(play) == streams(alone) * 2
    assert play.counts.duplicate_packets == play.counts.retransmitted_bytes == 0


@pytest.mark.parametrize(("one", "two"), [(b"", VLAN[100]), (b"", VNI[1]), (VLAN[100], VNI[1])])
def test_other_numbers_under_a_tag_or_without_one_are_two_connections(one, two):
    play = Play(merged(inside(one, talk()), inside(two, talk(isn=OTHER))))
    assert streams(play) == ONE * 2


@pytest.mark.parametrize(
    ("one", "two", "hops"),
    [
        pytest.param(b"", VLAN[100], 64, id="access port and trunk"),
        pytest.param(VLAN[100], VLAN[200], 63, id="before and behind a router"),
        pytest.param(b"", VNI[1], 64, id="inside and outside a tunnel"),
        pytest.param(VLAN[100], VNI[1], 64, id="on a VLAN and in a tunnel"),
    ],
)
@pytest.mark.parametrize("begin", BEGINS)
def test_copies_in_another_scope(one, two, hops, begin):
    packets = talk(close=True)[begin:]
    play = Play(
        [copy for packet in packets for copy in (*inside(one, [packet]), *inside(two, [packet], hops))]
    )
    assert len(play.connections) == 1
    assert play.events == Play(packets).events
    assert play.counts.duplicate_packets == len(packets)


def test_a_connection_that_changes_its_vlan():
    packets = talk(6)
    play = Play(inside(VLAN[100], packets[:9]) + inside(VLAN[200], packets[9:]))
    assert streams(play) == [(GET * 6, ANSWER * 6)]


@pytest.mark.parametrize(("requests", "responses"), [(VLAN[100], VLAN[200]), (b"", VNI[1])])
def test_ports_used_again_by_directions_in_different_scopes(requests, responses):
    captures = [
        [replace(packet, at=packet.at + turn * 5000 * MS) for packet in talk(isn=isn, close=turn < 2)]
        for turn, isn in enumerate([(1000, 5000), OTHER, (5, 6)])
    ]
    play = Play(sides(merged(*captures), requests, responses))
    assert streams(play) == ONE * 3
    assert [connection.end_reason for connection in play.connections] == ["fin", "fin", "capture_end"]


def test_a_connection_may_be_seen_in_any_number_of_scopes():
    packets = talk(200)
    play = Play(
        [replace(packet, scope=number.to_bytes(3, "big")) for number, packet in enumerate(packets, 1)]
    )
    assert streams(play) == [(GET * 200, ANSWER * 200)]
    assert len(play.tcp._halves) < 30


def test_keys_of_ended_connections_are_forgotten():
    packets = []
    for number in range(10_000):
        opening = [a("S", 0, port=number), b("RA", -5000, 1, port=number)]
        packets += sides(opening, VLAN[100], VLAN[200])
    play = Play(packets, flush=False)
    assert len(play.connections) == 10_000
    assert len(play.tcp._halves) <= 3 * (REMEMBERED + 2100)


def test_end():
    assert Play(inside(VLAN[100], talk(1))).events == [*CALM, END]
    assert Play(inside(VLAN[100], talk(1, close=True))).events[-1] == closed("fin")
