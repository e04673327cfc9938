"""All answers to a list of packets, or to a capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kinspect.answers import answers, open_answer
from kinspect.answers.counter import AnswerCounter
from kinspect.capture import open_timeline
from kinspect.capture.pythoninput import open_input
from kinspect.filters.filter import filter_from
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.pipeline import Inspector
from kinspect.run import Run
from support.packets import Packet, blocks

Objects = dict[str, dict[str, Any]]


def objects(
    taken: list[Packet], keylog: bytes, limit: int | None = None, **options: str
) -> tuple[Objects, list[Exchange]]:
    """All answers to packets, and the exchanges."""
    counted = AnswerCounter({name: open_answer(name) for name in answers()})
    chosen = filter_from(options)
    counted.serve(chosen)
    inspector = Inspector(emit=frozenset(counted.lines), files=["capture"])
    inspector.add_secrets(keylog)
    run = Run(open_input([*blocks(taken)]), inspector, filter=chosen)
    found = []
    for line in run.all_lines():
        if not isinstance(line, Exchange):
            if chosen.matches_line(line):
                counted.take(line)
        elif chosen.matches(line):
            found.append(line)
            counted.take(line)
            if len(found) == limit:
                break
    ended = ["stopped at --limit"] if limit else []
    span = chosen.start, run.last
    found_answers = counted.objects(run.summary(), inspector.names, span, chosen.options, ended=ended)
    return {answer["answer"]: answer for answer in found_answers}, found


def objects_of(path: Path) -> Objects:
    """All answers to a capture, which is read once, each as `kinspect.answer` gives it."""
    counted = AnswerCounter({name: open_answer(name) for name in answers()})
    timeline = open_timeline([str(path)])
    inspector = Inspector(files=timeline.files, emit=frozenset(counted.lines))
    run = Run(timeline, inspector)
    counted.serve(run.filter)
    for line in run.all_lines():
        counted.take(line)
    span = run.filter.start, run.last
    found = counted.objects(run.summary(), inspector.names, span, run.filter.options)
    return {answer["answer"]: answer for answer in found}
