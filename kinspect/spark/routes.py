"""The relay: which task decodes which connections, so that payloads need not move.

A connection is decoded where its packets are read, split by split. What it has under way where a split begins (parts
of messages, requests in flight, what its client told) is found by a relay: a task that reads all splits a connection
is in, one after the other, and pairs without decoding, which is cheap. It hands on what each split has to begin with.
So only that moves.

Connections here are groups: all that is between the same ends. A group whose packets lie in several splits at the same
time (captures of two hosts) has no state where one of them begins: it is decoded by one task that reads them all.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from itertools import pairwise

import orjson

from kinspect.spark.index import Group

MOST_READERS = 4
"""Relays at most: each of them reads what the others read, and with more that is nearly all they do."""


@dataclass(slots=True)
class Part:
    """What one task does: reads `splits`, and takes the segments of `groups` (None: of all but `skipped`).

    A group is given with the splits before which it is handed on: by a relay to each of them; by a task that decodes a
    split to the next one, and that is then no more its own.
    """

    splits: list[int]
    groups: dict[bytes, list[int]] | None = None
    skipped: frozenset[bytes] = frozenset()
    onward: dict[bytes, int] = field(default_factory=dict)

    def pack(self) -> bytes:
        """As tasks are told: many are, so it is only made an object where it is used."""
        groups = self.groups and [[_text(ends), legs] for ends, legs in self.groups.items()]
        onward = [[_text(ends), split] for ends, split in self.onward.items()]
        return orjson.dumps([self.splits, groups, [*map(_text, self.skipped)], onward])

    @staticmethod
    def unpack(data: bytes) -> Part:
        """What `pack` made."""
        splits, groups, skipped, onward = orjson.loads(data)
        return Part(
            splits,
            None if groups is None else {b64decode(ends): legs for ends, legs in groups},
            frozenset(map(b64decode, skipped)),
            {b64decode(ends): split for ends, split in onward},
        )


class Routes:
    """Who does what. `groups`: of each split."""

    def __init__(self, groups: list[list[Group]]) -> None:
        self._groups = groups
        self._packets: dict[bytes, int] = {}
        legs: dict[bytes, list[int]] = {}
        for split in sorted((split for split, found in enumerate(groups) if found), key=self._first):
            for ends, _, _, packets in groups[split]:
                legs.setdefault(ends, []).append(split)
                self._packets[ends] = self._packets.get(ends, 0) + packets
        self.moving: dict[bytes, list[int]] = {}
        """Groups that go from split to split."""
        self.whole: dict[bytes, list[int]] = {}
        """Groups that one task has to read as a whole, with the splits they are in."""
        ended = [max((group.last for group in found), default=-1) for found in groups]
        for ends, splits in legs.items():
            if len(splits) > 1:
                follows = all(ended[one] < self._first(other) for one, other in pairwise(splits))
                (self.moving if follows else self.whole)[ends] = splits

    def _first(self, split: int) -> int:
        return min(group.first for group in self._groups[split])

    def relays(self, count: int) -> list[Part]:
        """What has to be done first: about `count` relays, and the splits that have connections of their own."""
        parts = self._readers({**self.moving, **self.whole}, count)
        for part in parts:
            assert part.groups is not None
            part.groups = {
                ends: legs[1:] if ends in self.moving else [] for ends, legs in part.groups.items()
            }
        for split, found in enumerate(self._groups):
            here = {group.ends for group in found}
            elsewhere = frozenset(ends for ends in here if ends in self.moving or ends in self.whole)
            if len(elsewhere) < len(here):
                parts.append(Part([split], skipped=elsewhere))
        return parts

    def decoding(self, count: int) -> list[Part]:
        """The splits, one a part, in their order, and about `count` readers for groups that cannot be handed on."""
        parts = [
            Part([split], skipped=frozenset(group.ends for group in found if group.ends in self.whole))
            for split, found in enumerate(self._groups)
        ]
        for ends, splits in self.moving.items():
            for split, following in pairwise(splits):
                parts[split].onward[ends] = following
        return parts + self._readers(self.whole, count)

    def _readers(self, groups: dict[bytes, list[int]], count: int) -> list[Part]:
        """Groups dealt out to parts, by how many packets they have."""
        if not groups:
            return []
        shares: list[tuple[int, int, list[bytes]]] = [
            (0, number, []) for number in range(min(count, len(groups)))
        ]
        heapify(shares)
        for ends in sorted(groups, key=lambda ends: (-self._packets[ends], ends)):
            packets, number, share = shares[0]
            share.append(ends)
            heapreplace(shares, (packets + self._packets[ends], number, share))
        return [_reader({ends: groups[ends] for ends in share}) for _, _, share in shares]


def _reader(groups: dict[bytes, list[int]]) -> Part:
    return Part(_union(groups.values()), groups)


def _union(splits: Iterable[list[int]]) -> list[int]:
    return sorted(set().union(*splits))


def _text(ends: bytes) -> str:
    return b64encode(ends).decode()
