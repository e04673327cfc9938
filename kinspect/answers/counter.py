"""Answers about a run: lines that pass its filters are counted, and each answer's object is made of that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kinspect.analysis.answer import Answer, ResultContext, rows_of
from kinspect.answers.answerobject import document
from kinspect.answers.incomplete import AnswerCounts
from kinspect.filters.filter import Filter
from kinspect.filters.natcopies import NatCopies
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.view.view import iso_time
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.sink import Sink

LOST = ("gaps", "kernel_drops", "queue_drops", "late_packets", "caps_hit")
"""Keys of the summary that count losses in the middle of a run."""


class AnswerCounter(Sink):
    """Counts the lines of a run. `answers`: accumulators by the names of their answers."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self._answers = answers
        self.lines = frozenset().union(*(answer.lines for answer in answers.values()))
        self._filter: Filter | None = None

    def serve(self, chosen: Filter) -> None:
        """Let the run's filter pass what serves rows of an answer: that one alone counts it. Each answer tells copies
        itself, and counts them."""
        chosen.drop("no_twins")
        exempt_apis: dict[str, set[int]] = defaultdict(set)
        copies: dict[frozenset[tuple[str, frozenset[int]]], NatCopies] = defaultdict(NatCopies)
        for answer in self._answers.values():
            for option, keys in answer.exempt_apis.items():
                exempt_apis[option] |= keys
            answer.share(
                copies[frozenset(each for each in answer.exempt_apis.items() if each[0] in chosen.options)]
            )
        chosen.exempt(exempt_apis)
        self._filter = chosen

    def take(self, line: Line) -> None:
        if not isinstance(line, Exchange):
            fields = line.to_dict()
            for answer in self._answers.values():
                answer.add_connection(fields)
            return
        chosen = self._filter
        served, passes = ((), None) if chosen is None else (chosen.let, chosen.passes)
        for answer in self._answers.values():
            if all([line.api_key in answer.exempt_apis.get(option, ()) for option in served]):
                answer.take(line, passes)

    def part(self) -> Any:
        return [answer.to_bytes() for answer in self._answers.values()]

    def merge(self, part: Any) -> None:
        for answer, own in zip(self._answers.values(), part, strict=True):
            answer.merge(answer.from_bytes(own))

    def objects(
        self,
        summary: dict[str, Any],
        names: LearnedNames,
        times: tuple[int | None, int | None],
        options: Sequence[str] = (),
        instead: str | None = None,
        ended: Iterable[str] = (),
    ) -> list[dict[str, Any]]:
        """The answers' objects, in their order. `summary`: the `summary` line's object; `names`: those the run learned;
        `times`: those of its first and last packet, in nanoseconds; `options`: those of its filter; `instead`: what
        there is where nothing passed it; `ended`: why not all was read."""
        span = iso_time(times[0]), iso_time(times[1])
        since, until, unknown = None, None, {}
        if self._filter is not None:
            since, until, unknown = self._filter.begin, self._filter.end, self._filter.unknown
        begin = max((time for time in (times[0], since) if time is not None), default=None)
        end = min((time for time in (times[1], until) if time is not None), default=None)
        lossy = any(summary[key] for key in LOST) or summary["outcomes"]["orphan"] > 0
        found = []
        for name, counted in self._answers.items():
            answer = counted.settled(names)
            passed = answer.exchanges + (answer.twins or 0)
            left_out = frozenset(options if passed < summary["exchanges"] else ())
            rows, unresolved = rows_of(
                answer, ResultContext(names, begin, end, lossy, left_out, self._chooses)
            )
            rows = [row for row in rows if answer.is_chosen(row, self._chooses)]
            capture = {"unknown_to_filters": unknown, **summary, "unresolved_topic_ids": unresolved}
            served = () if self._filter is None else answer.exempt_apis
            groups, no_room = answer.groups_under_way, answer.left_out + answer.unmeasured
            # What was let pass to serve rows may serve none; or it does, as a name came too late for the filter.
            served_none = instead is not None and not rows
            hint = instead if served_none or not answer.exchanges else None
            taken = (0, 0) if served_none else (answer.exchanges, answer.twins)
            counts = AnswerCounts(*taken, groups, no_room, answer.unproven)
            made = document(name, capture, span, rows, counts, options, served, hint, ended)
            if answer.address_names:
                made["capture"]["names"] = answer.address_names
            found.append(made)
        return found

    def _chooses(self, option: str, names: Sequence[str]) -> bool:
        return self._filter is None or self._filter.chooses(option, names)
