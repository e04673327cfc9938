"""The pass before the tables: what one connection tells of others, and what a run adds up to.

Topic names count for what completes after they were told, on any connection; an orphan response is given an API if
its client was seen to use it, on any connection. Tasks that have some of the connections each tell theirs here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kinspect.kafka import told
from kinspect.kafka.exchange import Exchange
from kinspect.model import Counts
from kinspect.pipeline import Line
from kinspect.spark.strand import Known, Moment, Setting, StrandLedger, Use


class Told(NamedTuple):
    """A response told the name of a topic id. `key`: that of its line. `if_used`: told only if its API was inferred,
    which takes that its client was seen using it before `moment`."""

    topic_id: str
    name: str
    key: bytes
    if_used: Use | None
    moment: Moment | None


@dataclass(slots=True)
class Facts:
    """What a task found, to be merged."""

    told: list[Told] = field(default_factory=list)
    uses: dict[Use, Moment] = field(default_factory=dict)
    totals: dict[str, Any] = field(default_factory=dict)


class FactsLedger(StrandLedger):
    """Keeps no lines: names and uses alone. That a client uses an API is taken for granted, and noted."""

    def __init__(self, setting: Setting, counts: Counts) -> None:
        super().__init__(setting, counts)
        self._told: dict[str, Told] = {}
        self._doubtful: list[Told] = []
        self._assumed: tuple[Use, Moment] | None = None

    def uses(self, client_id: str | None, api_key: int, api_version: int) -> bool:
        if super().uses(client_id, api_key, api_version):
            return True
        if not client_id:
            return False
        self._assumed = (client_id, api_key, api_version), self.now()
        return True

    def _hold(self, line: Line, frame: int) -> None:
        if isinstance(line, Exchange):
            key = self._next_key(line, frame)
            line.order = int.from_bytes(key)
            self._learn(key, line)

    def _learn(self, key: bytes, exchange: Exchange) -> None:
        assumed, self._assumed = self._assumed, None
        response = exchange.response
        if response is None or exchange.api_key is None or exchange.api_version is None:
            return
        if not told.tells_names(exchange.api_key, exchange.api_version):
            return
        doubt = assumed if response.inferred and assumed is not None else (None, None)
        for topic_id, name in told.told_names(exchange):
            found = Told(topic_id, name, key, *doubt)
            if found.if_used is not None:
                self._doubtful.append(found)
            elif topic_id not in self._told or key < self._told[topic_id].key:
                self._told[topic_id] = found

    def facts(self) -> Facts:
        """What was found so far."""
        return Facts([*self._told.values(), *self._doubtful], self.first_uses, self.totals())


def merge(parts: list[Facts]) -> tuple[Known, dict[str, Any]]:
    """What is known of all connections, and the sums."""
    known = Known()
    totals: dict[str, Any] = {}
    for part in parts:
        for use, moment in part.uses.items():
            if use not in known.uses or moment < known.uses[use]:
                known.uses[use] = moment
        totals = added(totals, part.totals)
    for found in (found for part in parts for found in part.told):
        if found.if_used is not None:
            first = known.uses.get(found.if_used)
            if first is None or found.moment is None or not first < found.moment:
                continue
        if found.topic_id not in known.names or found.key < known.names[found.topic_id][1]:
            known.names[found.topic_id] = found.name, found.key
    return known, totals


def added(total: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Both sums, key by key, those of dicts below too."""
    found = dict(total)
    for key, value in part.items():
        if isinstance(value, dict):
            found[key] = added(found.get(key, {}), value)
        else:
            found[key] = found.get(key, 0) + value
    return found
