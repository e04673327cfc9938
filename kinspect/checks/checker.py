"""All rules together: a run's exchanges in, a row for each rule out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kinspect.answers.incomplete import why_mistimed, why_unseen
from kinspect.checks.wirerule import TIMES_MOST, Row, WireRule
from kinspect.filters.natcopies import NatCopies
from kinspect.kafka.exchange.exchange import Exchange


class RuleChecker:
    """Gives exchanges to rules. One that the capture has twice, before and behind address translation, counts once."""

    def __init__(self, rules: Sequence[WireRule]) -> None:
        self._rules = rules
        rates = [rule for rule in rules if rule.per_second is not None]
        for rule in rates:
            rule.times_most = TIMES_MOST // len(rates)
        self._copies = NatCopies()
        self._begun = False

    def take(self, exchange: Exchange, start: int | None) -> None:
        """Take the next exchange, in the order of completion. `start`: time of the capture's first packet."""
        if not self._begun:
            self._begun = True
            for rule in self._rules:
                rule.begin(start)
        if not self._copies.seen(exchange):
            for rule in self._rules:
                rule.take(exchange)

    def results(
        self, summary: dict[str, Any], ended: Iterable[str] = (), *, allow_unknown: bool = False
    ) -> list[Row]:
        """A row for each rule. `summary`: the `summary` line's object, with `unknown_to_filters`; `ended`: why not all
        was read; `allow_unknown`: as of `WireRule.result`."""
        unseen, mistimed = why_unseen(summary, ended), why_mistimed(summary)
        return [rule.result(unseen, mistimed, allow_unknown) for rule in self._rules]
