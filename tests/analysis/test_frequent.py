from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kinspect.analysis.frequent import Frequent, Ranking

NAMES = st.lists(st.tuples(st.sampled_from("abcdefghijkl"), st.integers(1, 9)))


def frequent(names, kept):
    made = Frequent(kept)
    for name, amount in names:
        made.add(name, amount)
    return made


def sums(names):
    found = Counter()
    for name, amount in names:
        found[name] += amount
    return found


def test_the_greatest_first_and_the_others_together():
    made = frequent([("b", 2), ("a", 2), ("c", 5), ("d", 1)], 10)
    assert made.result(2) == Ranking([("c", 5), ("a", 2)], others=3, missed=0)
    assert made.result(9) == Ranking([("c", 5), ("a", 2), ("b", 2), ("d", 1)], others=0, missed=0)
    assert Frequent().result(3) == Ranking([], 0, 0)


def test_of_too_many_names_the_least_are_given_up():
    # Two are kept; the fifth name leaves those above the third greatest amount, 2.
    made = frequent([("a", 9), ("b", 5), ("c", 2), ("d", 1), ("e", 1)], 2)
    assert made.result(9) == Ranking([("a", 7), ("b", 3)], others=8, missed=2)


@given(NAMES, st.integers(1, 5))
def test_no_amount_is_wrong_by_more_than_missed(names, kept):
    result = frequent(names, kept).result(99)
    true = sums(names)
    assert result.missed * (kept + 1) <= sum(true.values())
    for name, amount in result.names:
        assert amount <= true[name] <= amount + result.missed
    for name in true.keys() - dict(result.names).keys():
        assert true[name] <= result.missed
    assert sum(amount for _, amount in result.names) + result.others == sum(true.values())


@given(NAMES, NAMES)
def test_merged_is_added_together(one, other):
    merged = frequent(one, 12)
    merged.merge(frequent(other, 12))
    assert merged.result(99) == frequent(one + other, 12).result(99)


@given(NAMES, NAMES, st.integers(1, 5))
def test_merged_beyond_the_cap_is_no_more_wrong(one, other, kept):
    merged = frequent(one, kept)
    merged.merge(frequent(other, kept))
    result, true = merged.result(99), sums(one + other)
    assert result.missed * (kept + 1) <= sum(true.values())
    for name in true:
        amount = dict(result.names).get(name, 0)
        assert amount <= true[name] <= amount + result.missed


def test_memory_is_bounded():
    made = Frequent(100)
    for number in range(100_000):
        made.add(f"name-{number}")
        assert len(made) <= 200
    assert made.result(3).others > 99_900
