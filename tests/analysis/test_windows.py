import random

from hypothesis import given
from hypothesis import strategies as st

from kinspect.analysis.windows import HALVES_KEPT, NS_PER_SECOND, Busiest, Windows

TIMES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 10**7)), min_size=1, max_size=2 * HALVES_KEPT
)


def windows(seconds):
    made = Windows()
    for name, second in seconds:
        made.add(name, second * NS_PER_SECOND)
    return made


def test_busiest_of_each_name():
    made = windows([("a", 0), ("a", 9), ("a", 10), ("b", 25), ("b", 26), ("b", 27), ("a", 31), ("a", 32)])
    assert made.busiest() == {"a": Busiest(0, 0.2), "b": Busiest(25 * NS_PER_SECOND, 0.3)}


def test_a_burst_over_the_border_of_two_windows_is_one():
    for begin in range(20):
        made = windows([("a", begin + number * 4 // 60) for number in range(60)])
        assert made.busiest()["a"].per_second == 6


def test_nothing_counted_has_no_busiest():
    assert Windows().busiest() == {}


def test_windows_grow_where_there_are_many():
    made = windows([("a", 10 * number) for number in range(HALVES_KEPT + 1)])
    assert made.busiest() == {"a": Busiest(0, 0.1)}
    assert len(made.state()[1]) <= HALVES_KEPT


@given(TIMES, st.integers(1, 3))
def test_parts_in_any_order_give_the_whole(seconds, seed):
    whole = windows(seconds)
    rng = random.Random(seed)
    parts = [Windows() for _ in range(3)]
    for name, second in seconds:
        rng.choice(parts).add(name, second * NS_PER_SECOND)
    rng.shuffle(parts)
    merged = Windows()
    for part in parts:
        merged.merge(Windows.from_state(part.state()))
    assert merged.busiest() == whole.busiest()
    assert sorted(merged.state()[1]) == sorted(whole.state()[1])
