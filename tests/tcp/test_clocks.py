"""Times that go backwards, and directions captured with different clocks."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playbook import MS, Play, a, b, handshake

from kinspect.model import Caps

GET, ANSWER = b"get it", b"answer"


def talk(turns, step, begin=0):
    """`step` nanoseconds from packet to packet."""
    packets = handshake()
    for turn in range(turns):
        at = 1 + 6 * turn
        packets += [a("A", at, at, GET), b("A", at, at + 6, ANSWER), a("A", at + 6, at + 6)]
    return [replace(packet, at=10**9 + number * step) for number, packet in enumerate(packets)][begin:]


def skewed(packets, side, by):
    moved = [replace(packet, at=packet.at + by * MS * (packet.side == side)) for packet in packets]
    return sorted(moved, key=lambda packet: packet.at)


def causal(play, turns):
    """True if each response comes behind its request, and nothing is lost."""
    assert len(play.connections) == 1
    done = {0: 0, 1: 0}
    client = 0 if play.connections[0].addresses[0][1] == 40000 else 1
    for event in play.events:
        assert event[0] in ("data", "closed")
        if event[0] == "data":
            done[event[1]] += len(event[2])
            assert done[1 - client] <= done[client] <= done[1 - client] + 6
    return done == {0: 6 * turns, 1: 6 * turns}


@pytest.mark.parametrize("by", [-50, -20, -3, 3, 20, 50])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("step", [MS // 20, MS, 30 * MS])
@pytest.mark.parametrize("begin", [0, 3, 5])
def test_two_clocks(by, side, step, begin):
    packets = talk(60, step, begin)
    play = Play(skewed(packets, side, by))
    reference = Play(packets)
    assert play.events == reference.events or causal(play, 59 if begin == 5 else 60)
    assert play.gaps == ([], [])


def test_more_than_may_wait_for_the_other_clock_comes_out_of_order_and_whole():
    packets = talk(8000, MS // 500)  # 24,000 packets in 48 ms
    play = Play(skewed(packets, 1, -50), Caps(buffered_segments=400))
    assert play.counts.caps_hit == {}
    assert play.events[0] == ("data", 1, ANSWER)
    assert (play.stream(0), play.stream(1)) == (GET * 8000, ANSWER * 8000)


def test_a_loss_on_a_connection_with_a_handshake_does_not_wait_for_clocks():
    packets = talk(40, MS // 100)
    del packets[3]
    play = Play(packets, flush=False)
    assert play.events[0] == ("gap", 0, 6, "capture_loss")
    assert len(play.events) > 70


@given(st.data())
def test_times_out_of_order_in_a_file(data):
    packets = talk(30, MS)
    delays = data.draw(st.lists(st.integers(0, 6), min_size=len(packets), max_size=len(packets)))
    jitter = data.draw(st.lists(st.integers(-30, 30), min_size=len(packets), max_size=len(packets)))
    order = sorted(range(3, len(packets)), key=lambda index: index + delays[index])
    captured = packets[:3] + [packets[index] for index in order]
    captured = [
        replace(packet, at=packet.at + shift * MS) for packet, shift in zip(captured, jitter, strict=True)
    ]
    play = Play(captured)
    assert causal(play, 30)
    stamps = {(packet.at, number) for number, packet in enumerate(captured, 1)}
    assert set(play.stamps[:-1]) <= stamps
