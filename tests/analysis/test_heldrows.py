"""Rows that wait for a value decided later."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinspect.analysis.heldrows import HeldRows
from kinspect.kafka.view.batchrows import BatchRows


def passed(held):
    return [([*rows], outcome) for rows, outcome in held.passed()]


@pytest.mark.parametrize("memory", [0, 60, 1 << 20])
@given(waits=st.lists(st.booleans(), max_size=20), seed=st.randoms())
def test_rows_come_in_their_order_with_their_outcome_whatever_is_decided_first(memory, waits, seed):
    written = []
    held = HeldRows(memory)
    for number, wait in enumerate(waits, 1):
        held.put(BatchRows({}, [{"n": number}]), None if wait else "none", number if wait else 0)
        written += passed(held)
    undecided = [number for number, wait in enumerate(waits, 1) if wait]
    seed.shuffle(undecided)
    for number in undecided:
        held.decide(number, f"outcome {number}")
        written += passed(held)
    held.close()
    assert written == [([{"n": n}], f"outcome {n}" if w else "none") for n, w in enumerate(waits, 1)]


@pytest.mark.parametrize("limits", [{"memory": 0, "file": 30}, {"groups": 2}])
def test_without_room_the_oldest_is_passed_on_undecided(limits):
    held = HeldRows(**limits)
    for number in (1, 2, 3):
        held.put(BatchRows({}, [{"n": number}]), None, number)
    assert passed(held) == [([{"n": 1}], None)]
    assert held.given_up == 1
    held.decide(1, "late")
    held.decide(2, "aborted")
    held.decide(3, "open")
    assert passed(held) == [([{"n": 2}], "aborted"), ([{"n": 3}], "open")]
    held.close()
