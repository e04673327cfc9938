"""The lines of `kinspect read`, and rows of the tables in their shape."""

from __future__ import annotations

import orjson
import pytest

import kinspect
from kinspect.answers import open_answer
from kinspect.answers.counter import AnswerCounter
from kinspect.capture import open_timeline
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View, iso_time
from kinspect.model import Caps
from kinspect.pipeline import Inspector
from kinspect.run import Run

NEVER = -1
"""Least difference of clocks that is set right: none is."""

WHOLE = View(records=True, payload="text")


def lines(paths, emit="exchange", view=WHOLE, caps=None, keylog=b""):
    """The lines of one type, in the order of completion."""
    # Spark takes the times of captures as they stand.
    timeline = open_timeline([str(path) for path in paths], skew_ns=NEVER)
    inspector = Inspector(files=timeline.files, emit=frozenset({emit}), caps=caps or Caps())
    if keylog:
        inspector.add_secrets(keylog)
    found = []
    for block in timeline:
        for text in timeline.secrets:
            inspector.add_secrets(text)
        found += inspector.feed(block)
    found += inspector.finish()
    found.sort(key=lambda line: line.key)
    shown = (view.exchange(line) if isinstance(line, Exchange) else line.to_dict() for line in found)
    return [_in_tables(orjson.loads(orjson.dumps(line))) for line in shown]


def answer(name, paths, **more):
    """The object of `kinspect.answer` as Spark gives it: of times as they stand, and without twins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kinspect.capture.timeline.Timeline.set_clocks", lambda _: None)
        found = kinspect.answer(name, [*map(str, paths)], **more)
    return _without_twins(found)


def every_answer(names, paths, keylog=b""):
    """The objects of several answers, of captures that are read once, as `answer` gives each."""
    counted = AnswerCounter({name: open_answer(name) for name in names})
    timeline = open_timeline([str(path) for path in paths], skew_ns=NEVER)
    inspector = Inspector(files=timeline.files, emit=frozenset(counted.lines))
    inspector.add_secrets(keylog)
    run = Run(timeline, inspector)
    counted.serve(run.filter)
    for line in run.all_lines():
        counted.take(line)
    span = run.filter.start, inspector.end[0]
    return [*map(_without_twins, counted.objects(run.summary(), inspector.names, span, run.filter.options))]


def _without_twins(found):
    assert found["capture"]["twins"] == 0
    found["capture"]["twins"] = None
    return found


def _in_tables(line):
    """The line without what live captures and long lines alone have: tables have no columns for it."""
    for name in ("host", "interface"):
        assert line.pop(name, None) is None
    assert not line.pop("line_truncated", False)
    return line


def line_of(row, kind="exchange"):
    """A row of `exchanges` or `connections` as the line it was made of."""
    line = {"type": kind, **row}
    for name in ("completion", "date", "run_id", "capture_point"):
        line.pop(name, None)
    if "exchange_id" in line:
        line["event_id"] = line.pop("exchange_id")
    _to_text(line, "timestamp")
    _to_text(line, "completed_at")
    for side in ("request", "response"):
        if line.get(side) is not None:
            shown = line[side] = dict(line[side])
            _to_text(shown, "timestamp")
            if shown["body"] is not None:
                shown["body"] = orjson.loads(shown["body"])
    return line


def _to_text(shown, name):
    """Both forms of a time become the line's; they must say the same."""
    nanoseconds, time = shown.pop(f"{name}_ns"), shown[name]
    assert (time is None) == (nanoseconds is None)
    if time is not None:
        assert round(time.timestamp() * 1e6) == nanoseconds // 1000
    shown[name] = iso_time(nanoseconds)


def plain(value):
    """A value of a row of an answer's table as the answer's row has it."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    shown = {name: plain(each) for name, each in value.items()}
    for name in [name for name in value if f"{name}_ns" in value]:
        _to_text(shown, name)
    return shown
