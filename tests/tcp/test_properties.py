"""Any legal way to send and capture two streams gives the same streams."""

from hypothesis import given
from hypothesis import strategies as st
from playbook import Play, a, b, handshake

from kinspect.model import Caps

NEAR_WRAP = st.tuples(*[st.integers(2**32 - 400, 2**32 + 50).map(lambda n: n % 2**32)] * 2)


@st.composite
def talks(draw, smallest=1):
    """Two streams in segments, in an order in which they could be sent: (packets, the streams)."""
    isn = draw(NEAR_WRAP)
    sizes = draw(st.lists(st.tuples(st.booleans(), st.integers(smallest, 40)), max_size=40))
    streams = bytearray(), bytearray()
    packets = handshake(isn=isn)
    for number, (side, size) in enumerate(sizes):
        payload = bytes((number * 7 + index) % 251 for index in range(size))
        make = b if side else a
        packets.append(make("A", 1 + len(streams[side]), 1 + len(streams[not side]), payload, isn=isn))
        streams[side].extend(payload)
    return packets, (bytes(streams[0]), bytes(streams[1])), isn


def closing(streams, isn):
    ends = [1 + len(stream) for stream in streams]
    return [
        a("FA", ends[0], ends[1], isn=isn),
        b("FA", ends[1], ends[0] + 1, isn=isn),
        a("A", ends[0] + 1, ends[1] + 1, isn=isn),
    ]


def delivered(play):
    return play.stream(0), play.stream(1)


@given(talks(), st.data())
def test_reordered_repeated_and_overlapping_packets_give_the_same_streams(talk, data):
    packets, streams, isn = talk
    captured = []
    for packet in packets[3:]:
        captured.append(packet)
        if data.draw(st.booleans()):
            # Again, with other borders: some bytes before, some bytes less.
            before = data.draw(st.integers(0, min(packet.seq - 1, 30)))
            less = data.draw(st.integers(0, len(packet.payload) - 1))
            stop = packet.seq - 1 + len(packet.payload) - less
            payload = streams[packet.side][packet.seq - 1 - before : stop]
            make = b if packet.side else a
            captured.append(make("A", packet.seq - before, packet.ack, payload, isn=isn))
    delays = data.draw(st.lists(st.integers(0, 6), min_size=len(captured), max_size=len(captured)))
    order = sorted(range(len(captured)), key=lambda index: index + delays[index])
    captured = [captured[index] for index in order]
    play = Play(packets[:3] + captured + closing(streams, isn))
    assert delivered(play) == streams
    assert play.gaps == ([], [])
    assert play.events[-1] == ("closed", "fin")


@given(talks(), st.data())
def test_a_byte_comes_after_all_that_its_sender_had_acknowledged(talk, data):
    packets, streams, _ = talk
    delays = data.draw(st.lists(st.integers(0, 6), min_size=len(packets), max_size=len(packets)))
    order = sorted(range(3, len(packets)), key=lambda index: index + delays[index])
    play = Play(packets[:3] + [packets[index] for index in order])
    assert delivered(play) == streams
    acks = {
        (packet.side, packet.seq + at): packet.ack for packet in packets for at in range(len(packet.payload))
    }
    done = [1, 1]
    for event in play.events:
        if event[0] == "data":
            for _ in event[2]:
                assert acks[event[1], done[event[1]]] <= done[1 - event[1]]
                done[event[1]] += 1


@given(talks(smallest=2), st.data())
def test_lost_packets_are_gaps_of_their_size(talk, data):
    packets, streams, isn = talk
    lost = data.draw(st.sets(st.integers(3, len(packets) + 9)))
    cut = data.draw(st.dictionaries(st.integers(3, len(packets) + 9), st.integers(1, 40)))
    captured = []
    for index, packet in enumerate(packets):
        if index in cut and packet.payload:
            packet.missing = min(cut[index], len(packet.payload))
            packet.payload = packet.payload[: len(packet.payload) - packet.missing]
        if index not in lost:
            captured.append(packet)
    play = Play(captured + closing(streams, isn))
    (connection,) = play.connections
    for side in (0, 1):
        got = play.stream(side)
        assert len(got) == len(streams[side]) == connection.halves[side].offset
        assert all(seen in (sent, ord("?")) for seen, sent in zip(got, streams[side], strict=True))
        assert connection.bytes[side] == sum(
            len(packet.payload) for packet in captured if packet.side == side
        )


@given(talks(), st.data())
def test_the_cut_into_calls_does_not_matter(talk, data):
    packets, streams, isn = talk
    noisy = data.draw(st.permutations(packets + closing(streams, isn)))
    noisy = [packet for packet in noisy if data.draw(st.integers(0, 9))]
    for packet in noisy:
        packet.at = data.draw(st.none() | st.integers(0, 5)) if data.draw(st.booleans()) else None
        packet.at = packet.at and packet.at * 400_000_000
    caps = Caps(reorder_packets=4, buffered_segments=5, idle_timeout_ns=1_500_000_000)
    whole = Play(noisy, caps)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(noisy)))))
    parts = Play(noisy, caps, cuts)
    assert (parts.log, parts.stamps, parts.counts) == (whole.log, whole.stamps, whole.counts)


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.sampled_from(["S", "SA", "A", "A", "A", "FA", "F", "R", "RA", "", "SFRA"]),
            st.integers(-5, 60) | st.integers(0, 2**32 - 1),
            st.integers(-5, 60) | st.integers(0, 2**32 - 1),
            st.binary(max_size=20),
            st.integers(0, 2),
            st.integers(0, 3_000_000_000) | st.none(),
            st.integers(1, 3),
        ),
        max_size=60,
    )
)
def test_any_packets_are_taken(rows):
    packets = []
    for side, flags, seq, ack, payload, missing, at, port in rows:
        make = b if side else a
        packets.append(make(flags, seq, ack, payload, missing=missing, at=at, port=port))
    caps = Caps(reorder_packets=4, buffered_segments=6, buffered_bytes=60, connections=2)
    play = Play(packets, caps)
    assert play.tcp._delivery.held_bytes == 0
    for number, connection in enumerate(play.connections, 1):
        assert play.log[-1][1] == "closed"
        assert [event for event in play.log if event[0] == number][-1][1:] == (
            "closed",
            connection.end_reason,
        )
