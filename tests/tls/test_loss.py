"""Lost bytes cost the records they hit; damage costs a direction; neither ever gives wrong plaintext."""

import random
import ssl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talks import CLIENT, SERVER, Peers, Reading, long_talk, messages, read, recorded

TLS_12, TLS_13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
CASES = {
    "tls12-gcm": (TLS_12, "ECDHE-RSA-AES256-GCM-SHA384"),
    "tls12-chacha": (TLS_12, "ECDHE-RSA-CHACHA20-POLY1305"),
    "tls12-cbc": (TLS_12, "ECDHE-RSA-AES128-SHA256"),
    "tls13": (TLS_13, None),
}
case = pytest.mark.parametrize("name", CASES)


def application_starts(talk):
    """The first piece with application data."""
    return next(n for n in range(len(talk.pieces)) if read(talk, pieces=n + 1, close=False).events)


def play(talk, holes, keys=None):
    """Read a talk without the bytes of `holes`: (piece, first byte, byte behind the last)."""
    reading = Reading(talk.keys if keys is None else keys)
    for number, (direction, data) in enumerate(talk.pieces):
        position = 0
        for _, start, stop in sorted(hole for hole in holes if hole[0] == number):
            if start < position or start >= len(data):
                continue
            stop = min(stop, len(data))
            if data[position:start]:
                reading.feed(direction, data[position:start])
            reading.gap(direction, stop - start)
            position = stop
        if data[position:]:
            reading.feed(direction, data[position:])
    return reading


def check(talk, reading):
    """Assert that the delivered bytes lie in the sent ones, in order; after a loss of known size exactly there."""
    for direction in (CLIENT, SERVER):
        sent, position, exact = talk.sent[direction], 0, True
        for side, _, _, item in reading.events:
            if side != direction:
                continue
            if isinstance(item, bytes):
                found = sent.find(item, position)
                assert found >= 0
                assert not exact or found == position
                position, exact = found + len(item), True
            elif item is None:
                exact = False
            else:
                position += item


@case
def test_one_lost_piece_costs_itself(name):
    talk = long_talk(*CASES[name])
    start = application_starts(talk)
    for number in range(start + 2, len(talk.pieces) - 4):
        direction, data = talk.pieces[number]
        reading = play(talk, [(number, 0, len(data))])
        check(talk, reading)
        assert reading.status == "decrypting"
        assert [loss[0] for loss in reading.losses] == [direction]
        size = len(talk.sent[direction]) - len(reading.plain[direction])
        assert 0 < size < len(data)
        assert reading.losses[0][2] == (None if name == "tls12-cbc" else size)
        assert reading.plain[1 - direction] == talk.sent[1 - direction]


@case
def test_a_hole_in_a_record_costs_that_record(name):
    talk = long_talk(*CASES[name])
    for number in range(application_starts(talk) + 2, len(talk.pieces) - 4):
        direction, data = talk.pieces[number]
        for hole in ((0, 3), (2, 7), (len(data) // 2, len(data) // 2 + 1), (len(data) - 1, len(data))):
            reading = play(talk, [(number, *hole)])
            check(talk, reading)
            assert len(reading.losses) == 1
            assert len(talk.sent[direction]) - len(reading.plain[direction]) < len(data)


@pytest.mark.parametrize("lost", [10, 38])
def test_a_long_loss(lost):
    talk = Peers(TLS_13).talk([(CLIENT, b"m" * 5000)] * 40 + [(SERVER, b"x")])[0]
    start = application_starts(talk)
    reading = play(talk, [(start + n, 0, 10**6) for n in range(1, 1 + lost)])
    check(talk, reading)
    assert reading.losses == [(CLIENT, start + 2, 5000 * lost)]
    assert reading.status == "decrypting"


def test_more_lost_records_than_are_tried():
    talk = Peers(TLS_13).talk([(CLIENT, b"m" * 10)] * 1200 + [(SERVER, b"x" * 40)])[0]
    start = application_starts(talk)
    reading = play(talk, [(start + n, 0, 100) for n in range(1, 1100)])
    reading.decryptor.closed()
    check(talk, reading)
    assert len(reading.plain[CLIENT]) == 10
    assert reading.losses == [(CLIENT, start + 2, None)]
    assert reading.plain[SERVER] == talk.sent[SERVER]


@case
def test_a_loss_in_the_handshake(name):
    talk = long_talk(*CASES[name])
    hello = len(talk.pieces[1][1])
    assert hello > 900
    for hole in (
        (200, 300),
        (200, hello - 60),
        (hello - 300, hello - 200),
        (hello - 60, hello),
        (200, hello),
    ):
        reading = play(talk, [(1, *hole)])
        check(talk, reading)
        assert reading.both == talk.sent
        assert reading.losses == []
    client = talk.pieces[2][1]
    reading = play(talk, [(2, 0, len(client))])
    check(talk, reading)
    assert reading.plain[SERVER] == talk.sent[SERVER]
    assert reading.plain[CLIENT].endswith(talk.sent[CLIENT][3000:])


def test_a_lost_finish_is_noticed_when_the_next_key_is_used():
    talk = recorded("tls13_fragments")
    number, flight = next((n, data) for n, (side, data) in enumerate(talk.pieces) if side == SERVER)
    reading = play(talk, [(number, 300, 310)])
    assert reading.both == (b"question one\nquestion two\n", b"answer one\nanswer two\n")
    assert reading.losses == []
    assert len(flight) > 600


def test_a_lost_key_update_is_found():
    talk = recorded("tls13_key_update")
    whole = read(talk)
    assert whole.losses == []
    lost = 0
    for number, (direction, data) in enumerate(talk.pieces):
        if number > 4 and len(data) == 27:  # a KeyUpdate by itself
            lost += 1
            reading = play(talk, [(number, 0, len(data))])
            assert reading.both == whole.both
            assert reading.losses == [(direction, number + 1, None)]
    assert lost


@case
@pytest.mark.parametrize("seed", range(6))
def test_losses_of_any_kind(name, seed):
    talk = long_talk(*CASES[name])
    numbers = random.Random(seed)
    start = application_starts(talk)
    holes = []
    for number in range(start + 1, len(talk.pieces)):
        size = len(talk.pieces[number][1])
        if numbers.random() < 0.25:
            first = numbers.randrange(size)
            holes.append((number, first, first + numbers.randint(1, size)))
    reading = play(talk, holes)
    reading.decryptor.closed()
    check(talk, reading)
    assert reading.status == "decrypting"
    hit = sum(len(talk.pieces[number][1]) for number, _, _ in holes)
    assert sum(map(len, reading.both)) >= sum(map(len, talk.sent)) - hit


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(CASES)),
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4000), st.integers(1, 4000))),
)
def test_any_holes_give_true_plaintext(name, holes):
    talk = long_talk(*CASES[name])
    reading = play(talk, [(number, start, start + size) for number, start, size in holes])
    reading.decryptor.closed()
    check(talk, reading)


@case
def test_a_flipped_bit_is_noticed(name):
    talk = long_talk(*CASES[name])
    numbers = random.Random(3)
    start = application_starts(talk)
    for number in range(start, len(talk.pieces) - 3):
        direction, data = talk.pieces[number]
        position = numbers.randrange(5, len(data))
        broken = bytearray(data)
        broken[position] ^= 1 << numbers.randrange(8)
        pieces = list(talk.pieces)
        pieces[number] = direction, bytes(broken)
        reading = Reading(talk.keys)
        for side, piece in pieces:
            reading.feed(side, piece)
        check(talk, reading)
        assert reading.status == "failed"
        assert reading.reason == f"{('client', 'server')[direction]}: a record does not authenticate: damage"
        assert reading.losses == [(direction, number + 1, None)]
        assert reading.plain[1 - direction] == talk.sent[1 - direction]


@case
def test_a_broken_header_is_noticed(name):
    talk = long_talk(*CASES[name])
    start = application_starts(talk)
    direction, data = talk.pieces[start]
    for position, value in ((0, 3), (1, 0x13), (3, 0xFF)):
        broken = bytearray(data)
        broken[position] = value
        reading = Reading(talk.keys)
        for side, piece in talk.pieces[:start]:
            reading.feed(side, piece)
        reading.feed(direction, bytes(broken))
        assert reading.reason == f"{('client', 'server')[direction]}: no TLS record where one should begin"


@case
def test_the_end_within_a_record(name):
    talk = long_talk(*CASES[name])
    start = application_starts(talk)
    reading = play(talk, [])
    assert reading.both == talk.sent
    cut = Reading(talk.keys)
    for side, piece in talk.pieces[: start + 1]:
        cut.feed(side, piece[:-1] if piece is talk.pieces[start][1] else piece)
    cut.decryptor.closed()
    assert cut.both == (b"", b"")
    assert (cut.status, cut.losses) == ("decrypting", [])


def test_a_loss_before_the_end_is_told_at_the_end():
    talk = long_talk(TLS_13)
    start = application_starts(talk)
    reading = Reading(talk.keys)
    for side, piece in talk.pieces[: start + 6]:
        reading.feed(side, piece)
    reading.gap(CLIENT, 100)
    reading.feed(CLIENT, b"\x17\x03\x03")
    assert reading.losses == []
    reading.decryptor.closed()
    assert reading.losses == [(CLIENT, start + 7, None)]
    assert reading.status == "decrypting"


def test_a_search_has_an_end():
    talk = long_talk(TLS_13)
    start = application_starts(talk)
    for filler in (b"\x17\x03\x03\x40\x00" * 4000, b"\x17\x03\x03\x00\x20" * 4000, bytes(20_000)):
        reading = Reading(talk.keys)
        for side, piece in talk.pieces[: start + 4]:
            reading.feed(side, piece)
        reading.gap(CLIENT, 10**6)
        for _ in range(70):
            reading.feed(CLIENT, filler)
        assert reading.status == "failed"
        assert reading.reason == "client: records were lost, and none after them authenticates"


def test_cut_packets_give_up_after_the_close():
    talk = Peers(TLS_13).talk(messages(20, 3000))[0]
    reading = Reading(talk.keys)
    for number, (side, piece) in enumerate(talk.pieces):
        reading.feed(side, piece[:60] if number > 2 else piece)
        if number > 2 and len(piece) > 60:
            reading.gap(side, len(piece) - 60)
    reading.decryptor.closed()
    check(talk, reading)
    assert reading.losses
