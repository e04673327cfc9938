"""Searches with a limit of processor time."""

from __future__ import annotations

import pytest

from kinspect.errors import KinspectError
from kinspect.filters import timedpattern
from kinspect.filters.timedpattern import TimedPattern

SLOW, SLOW_TEXT = r"(a+)+$", "a" * 40 + "b"


def test_texts_are_searched_and_those_that_take_too_long_match_nothing():
    pattern = TimedPattern(SLOW, seconds=0.05)
    pattern.prepare(["aaa", SLOW_TEXT, "b"])
    assert [pattern(text) for text in ("aaa", SLOW_TEXT, "b")] == [True, False, False]
    assert pattern.slow == 1
    pattern.prepare(["ba"])
    assert pattern("ba")
    pattern.close()


def test_many_of_them_end_the_run(monkeypatch):
    monkeypatch.setattr(timedpattern, "SLOW_MOST", 0)
    pattern = TimedPattern(SLOW, seconds=0.05)
    with pytest.raises(KinspectError, match="more than 0 texts took longer"):
        pattern.prepare([SLOW_TEXT])
    pattern.close()
