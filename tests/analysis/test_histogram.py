import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinspect.analysis.histogram import ERROR, LONGEST_NS, Histogram, Spread

DURATIONS = st.lists(st.integers(-(1 << 20), 1 << 60))


def histogram(durations):
    made = Histogram()
    for ns in durations:
        made.add(ns)
    return made


@pytest.mark.parametrize(
    ("durations", "spread"),
    [
        ([], Spread(None, None, None, None)),
        ([7], Spread(7, 7, 7, 7)),
        ([-5], Spread(0, 0, 0, 0)),
        (range(1, 101), Spread(50, 95, 99, 100)),
        ([1] * 99 + [100], Spread(1, 1, 1, 100)),
        ([1] * 98 + [100] * 2, Spread(1, 1, 100, 100)),
        # A bucket from 1,000,000 is 8,192 wide: 999,424 to 1,007,615.
        ([1_000_000] * 2 + [2_000_000], Spread(1_003_520, 2_000_000, 2_000_000, 2_000_000)),
        ([LONGEST_NS * 5], Spread(*[LONGEST_NS + (1 << 43)] * 3, LONGEST_NS * 5)),
    ],
)
def test_quantiles(durations, spread):
    assert histogram(durations).result() == spread


@given(st.lists(st.integers(0, LONGEST_NS), min_size=1), st.integers(1, 100))
def test_a_quantile_is_as_near_as_is_said(durations, percent):
    (found,) = histogram(durations).quantiles(percent)
    true = sorted(durations)[math.ceil(percent * len(durations) / 100) - 1]
    assert abs(found - true) <= true * ERROR


@given(DURATIONS, DURATIONS)
def test_merged_is_added_together(one, other):
    merged = histogram(one)
    merged.merge(histogram(other))
    together = histogram(one + other)
    assert merged.result() == together.result()
    if one or other:
        assert [*merged.quantiles(*range(1, 101))] == [*together.quantiles(*range(1, 101))]


def test_memory_is_bounded():
    made = histogram(
        ns for shift in range(51) for ns in range(1 << shift, 2 << shift, max((1 << shift) // 200, 1))
    )
    made.add(0)
    assert len(made._buckets) == 2881
