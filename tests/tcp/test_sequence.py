from hypothesis import given
from hypothesis import strategies as st

from kinspect.tcp.sequence import distance


def test_distance_wraps():
    assert distance(5, 3) == 2
    assert distance(3, 5) == -2
    assert distance(1, 0xFFFFFFFF) == 2
    assert distance(0xFFFFFFFF, 1) == -2


@given(st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1))
def test_distance_undoes_addition(origin, step):
    assert distance((origin + step) % 2**32, origin) == step
