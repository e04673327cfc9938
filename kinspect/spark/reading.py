"""The segments of several splits, in the order of the run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeAlias

from kinspect.model import Caps, Segment
from kinspect.spark.index import Index, Proven, canonical_ends
from kinspect.spark.routes import Part
from kinspect.spark.rows import NEVER, numbered

Run: TypeAlias = tuple[list[Segment], Sequence[int]]
"""Segments that follow one another, and their ordinals."""


class Begin(NamedTuple):
    """A split begins: it, and the ordinal of its first segment."""

    split: int
    ordinal: int


class Splits:
    """The splits of an index; the last one is what was put together from fragments."""

    def __init__(self, index: Index, caps: Caps) -> None:
        self._caps = caps
        self._splits: list[Proven] = index.splits
        self._fragments: Run = (
            [segment for _, _, segment in index.fragments],
            [ordinal for _, ordinal, _ in index.fragments],
        )
        self.firsts = [min((group.first for group in groups), default=NEVER) for groups in index.groups]

    def read(self, part: Part) -> Iterator[Begin | Run]:
        """The segments that a part takes, with where its splits begin among them."""
        takes = None if part.groups is None and not part.skipped else _Taken(part)
        for item in self._merged(part.splits):
            if isinstance(item, Begin) or takes is None:
                yield item
                continue
            segments, ordinals = item
            chosen = [at for at, segment in enumerate(segments) if takes[segment[0]]]
            if len(chosen) == len(segments):
                yield item
            elif chosen:
                yield [segments[at] for at in chosen], [ordinals[at] for at in chosen]

    def _merged(self, splits: Sequence[int]) -> Iterator[Begin | Run]:
        # The ordinal of each one's next segment; a split is opened when it is its turn.
        heads: list[tuple[int, int]] = [
            (self.firsts[split], split) for split in splits if self.firsts[split] < NEVER
        ]
        heapify(heads)
        opened: dict[int, tuple[Run, Iterator[Run]]] = {}
        while heads:
            ordinal, split = heappop(heads)
            if split not in opened:
                yield Begin(split, ordinal)
                runs = self._runs(split)
                opened[split] = next(runs), runs
            (segments, ordinals), runs = opened[split]
            bound = heads[0][0] if heads else NEVER
            end = len(ordinals) if ordinals[-1] < bound else bisect_left(ordinals, bound)
            yield segments[:end], ordinals[:end]
            rest = (segments[end:], ordinals[end:]) if end < len(ordinals) else next(runs, None)
            if rest is None:
                del opened[split]
            else:
                opened[split] = rest, runs
                heappush(heads, (rest[1][0], split))

    def _runs(self, split: int) -> Iterator[Run]:
        if split == len(self._splits):
            yield self._fragments
        else:
            yield from numbered(self._splits[split], self._caps)


class _Taken(dict[bytes, bool]):
    """Whether a part takes the segments with a key."""

    def __init__(self, part: Part) -> None:
        self._part = part

    def __missing__(self, key: bytes) -> bool:
        ends, groups = canonical_ends(key), self._part.groups
        found = self[key] = ends not in self._part.skipped if groups is None else ends in groups
        return found
