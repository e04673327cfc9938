import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinspect.analysis.bursts import QUIET_NS, Burst, Bursts, _joined
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


@given(TIMES, st.integers(0, 200), st.integers(0, 200), st.integers(0, 30))
def test_what_is_around_and_after_is_the_same_looked_for_one_by_one(seconds, time, other, within):
    made, first, last = bursts(seconds), min(time, other) * NS_PER_SECOND, max(time, other) * NS_PER_SECOND
    part, within = Burst(first, last, 1), within * NS_PER_SECOND
    assert made.around(part) == next((each for each in made if each.first <= first <= each.last), part)
    assert made.has_after(last, within) == any(
        last < each.last and each.first <= last + within for each in made
    )
    assert made.has_all_along(part, within) == any(
        each.first <= first + within and last < each.last for each in made
    )


@pytest.mark.parametrize("step", [1, 7919])
def test_a_burst_costs_the_same_among_many(monkeypatch, step):
    """Few bursts are looked at, wherever another one comes."""
    looked = 0

    def joined(some):
        nonlocal looked
        looked += len(some)
        return _joined(some)

    monkeypatch.setattr("kinspect.analysis.bursts._joined", joined)
    many = 1000
    made = bursts([number * step % many * 20 for number in range(many)])
    assert len(made) == many
    assert looked <= 3 * many
