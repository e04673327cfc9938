from hypothesis import given
from hypothesis import strategies as st

from kinspect.tcp.reorder import DATA, FINISH, Arrival, HeldSegments


def arrival(number):
    return Arrival(number, 0, 0, number, -1)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=30))
def test_the_first_seen_bytes_win_and_repeats_are_counted(runs):
    held, model, repeated = HeldSegments(), {}, 0
    for number, (start, size) in enumerate(runs):
        payload = bytes([number]) * size
        repeated += held.add(start, start + size, DATA, payload, arrival(number))
        for at in range(start, start + size):
            model.setdefault(at, number)
    assert held.size == len(model)
    assert repeated == sum(size for _, size in runs) - len(model)
    found, last = {}, 0
    while held.pieces:
        piece = held.pop()
        assert last <= piece.start < piece.end == piece.start + len(piece.data)
        last = piece.end
        for at, value in enumerate(piece.data, piece.start):
            assert value == piece.arrival.number
            found[at] = value
    assert found == model
    assert held.size == 0


def test_a_fin_stands_before_the_byte_at_its_offset_and_once():
    held = HeldSegments()
    held.add(0, 4, DATA, b"abcd", arrival(1))
    held.add_mark(4, FINISH, arrival(2))
    held.add_mark(4, FINISH, arrival(3))
    held.add(4, 6, DATA, b"ef", arrival(4))
    assert [(piece.start, piece.kind) for piece in held.pieces] == [(0, DATA), (4, FINISH), (4, DATA)]
