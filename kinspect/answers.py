"""Answers about a run: lines that pass its filters are counted, and each answer's object is made of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinspect.analysis.answer import Answer, rows_of
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import iso_time
from kinspect.kafka.wire.names import LearnedNames
from kinspect.output.answers import document


class Counted:
    """The `Writer` of a run whose lines are counted. `answers`: accumulators by the names of their answers."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self._answers = answers
        self.lines: frozenset[str] = frozenset().union(*(answer.lines for answer in answers.values()))
        """Types of the lines that the answers take."""

    def exchange(self, exchange: Exchange) -> None:
        for answer in self._answers.values():
            answer.add(exchange)

    def line(self, line: dict[str, Any]) -> None:
        for answer in self._answers.values():
            answer.add_connection(line)

    def flush(self) -> None:
        """Nothing is buffered."""

    def objects(
        self, summary: dict[str, Any], names: LearnedNames, first: int | None, last: int | None
    ) -> list[dict[str, Any]]:
        """The answers' objects, in their order. `summary`: the `summary` line's object; `names`: those the run told;
        `first`, `last`: the times of its first and last packet, in nanoseconds."""
        span = iso_time(first), iso_time(last)
        found = []
        for name, answer in self._answers.items():
            rows, unresolved = rows_of(answer, names, last)
            told = {**summary, "unresolved_topic_ids": unresolved}
            found.append(document(name, told, span, rows, answer.left_out))
        return found
