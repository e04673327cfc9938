import random

from hypothesis import given
from hypothesis import strategies as st

from kinspect.analysis.bursts import QUIET_NS, Burst, Bursts
from kinspect.model import NS_PER_SECOND

TIMES = st.lists(st.integers(0, 200), min_size=1, max_size=50)


def bursts(seconds):
    made = Bursts()
    for second in seconds:
        made.add(second * NS_PER_SECOND)
    return made


def test_moments_that_follow_each_other_closely_are_one_burst():
    made = bursts([0, 10, 21, 40, 31])
    assert [*made] == [Burst(0, QUIET_NS, 2), Burst(21 * NS_PER_SECOND, 40 * NS_PER_SECOND, 3)]
    assert not made.joins(51 * NS_PER_SECOND)
    assert made.joins(50 * NS_PER_SECOND)


def test_what_came_after_a_moment():
    made = bursts([30])
    assert made.has_after(0, 30 * NS_PER_SECOND)
    assert not made.has_after(0, 29 * NS_PER_SECOND)
    assert not made.has_after(30 * NS_PER_SECOND, QUIET_NS)


@given(TIMES, st.integers(1, 3))
def test_parts_in_any_order_give_the_whole(seconds, seed):
    rng = random.Random(seed)
    parts = [Bursts() for _ in range(3)]
    for second in seconds:
        rng.choice(parts).add(second * NS_PER_SECOND)
    joined = Bursts()
    for part in parts:
        joined.merge(Bursts.from_state(part.state()))
    assert [*joined] == [*bursts(seconds)]
    assert all(joined.joins(second * NS_PER_SECOND) for second in seconds)
