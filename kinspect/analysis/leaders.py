"""Leaders of partitions over time, as messages show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from kinspect.analysis.record import EARLIEST, GREATEST, LATEST, Record
from kinspect.kafka.wire.lineorder import LineKey

NO_LEADER = -1
NO_EPOCH = -1
DELETED = -2
"""The leader of partitions that are being deleted, as a controller in ZooKeeper mode names it."""

Claim = tuple[int, int, int]
"""A partition's index, a leader epoch (-1 if the message has none), and the leader (-1: there is none)."""


@dataclass(slots=True)
class Leaders(Record):
    """Claims about a topic's partitions, with the keys of the first and the last line that made each. `gone`: the key
    of the last line that said that there is no such topic."""

    first: dict[Claim, LineKey] = field(default_factory=dict, metadata=EARLIEST)
    last: dict[Claim, LineKey] = field(default_factory=dict, metadata=LATEST)
    gone: LineKey | None = field(default=None, metadata=GREATEST)

    def add(self, claim: Claim, key: LineKey) -> None:
        """Note that a line made a claim."""
        self.first[claim] = min(key, self.first.get(claim, key))
        self.last[claim] = max(key, self.last.get(claim, key))


class LeaderChange(NamedTuple):
    """Another leader of a partition than before. `time`: when a message first showed it."""

    time: int
    partition: int
    before: int
    now: int
    epoch: int


def leaders(seen: Iterable[Leaders], gone: LineKey | None = None) -> dict[int, int]:
    """The leader of each partition of a topic, by the latest message: the one of the greatest epoch; none of a topic
    that was `gone` after all messages about it."""
    seen = [*seen]
    if gone is not None and all(key < gone for each in seen for key in each.last.values()):
        return {}
    return {index: [leader for _, leader, _ in reigns][-1] for index, reigns in _reigns(seen)}


def changes(seen: Iterable[Leaders]) -> Iterator[LeaderChange]:
    """The changes of leaders of a topic's partitions."""
    for index, reigns in _reigns(seen):
        for (_, before, _), (epoch, now, first) in pairwise(reigns):
            if before != now:
                yield LeaderChange(first[0], index, before, now, epoch)


def _reigns(seen: Iterable[Leaders]) -> Iterator[tuple[int, list[tuple[int, int, LineKey]]]]:
    """The epochs of each partition in their order, with their leader and the key of the line that first showed it.

    Without epochs (Metadata before v7) leaders follow each other as messages first showed them, and the return of an
    earlier one shows only if it is the last.
    """
    both = Leaders()
    for each in seen:
        both.merge(each)
    by_index: dict[int, dict[tuple[int, int], LineKey]] = {}
    for (index, epoch, leader), key in both.first.items():
        by_index.setdefault(index, {})[epoch, leader] = key
    for index, claims in sorted(by_index.items()):
        with_epoch = {claim: key for claim, key in claims.items() if claim[0] != NO_EPOCH}
        if with_epoch:
            # An epoch has one leader: the one that was shown first, before no leader at all.
            order = sorted(with_epoch, key=lambda claim: (claim[0], claim[1] == NO_LEADER, claims[claim]))
            yield index, [(claim[0], claim[1], claims[claim]) for claim in _first_of_each_epoch(order)]
            continue
        ordered = sorted(claims, key=lambda claim: claims[claim])
        reigns = [(NO_EPOCH, leader, claims[NO_EPOCH, leader]) for _, leader in ordered]
        last = max(claims, key=lambda claim: both.last[index, *claim])
        if last[1] != reigns[-1][1]:
            reigns.append((NO_EPOCH, last[1], both.last[index, *last]))
        yield index, reigns


def _first_of_each_epoch(claims: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    seen: set[int] = set()
    for claim in claims:
        if claim[0] not in seen:
            seen.add(claim[0])
            yield claim
