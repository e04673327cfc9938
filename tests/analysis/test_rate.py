import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinspect.analysis.rate import Rate

SECOND = 1_000_000_000
AMOUNTS = st.lists(st.tuples(st.integers(0, 20 * SECOND), st.integers(0, 1000)))


def rate(amounts):
    made = Rate()
    for now, amount in amounts:
        made.add(now, amount)
    return made


@pytest.mark.parametrize(
    ("amounts", "now", "result"),
    [
        ([], 0, 0),
        ([(0, 500)], 0, 500),  # within the first second: as if it took a whole one
        ([(0, 500)], 2, 250),
        ([(0, 500)], 5, 100),
        ([(0, 500)], 6, 0),
        ([(at, 10) for at in range(101)], 100, 12),  # the sixth is on the edge of the window
        ([(at / 10, 10) for at in range(1000)], 100, 100),
    ],
)
def test_a_second_over_the_window(amounts, now, result):
    assert rate([(int(at * SECOND), amount) for at, amount in amounts]).result(now * SECOND) == result


@given(AMOUNTS, AMOUNTS)
def test_merged_is_added_together(one, other):
    merged = rate(sorted(one))
    merged.merge(rate(sorted(other)))
    now = 20 * SECOND
    assert merged.result(now) == rate(sorted(one + other)).result(now)


def test_memory_is_bounded():
    made = rate((at * SECOND // 100, 1) for at in range(10_000))
    assert len(made._amounts) <= 21
