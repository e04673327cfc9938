"""What exchanges have that a filter left out: where it left out all of them, that is what could have been asked for."""

from __future__ import annotations

from collections.abc import Iterable

KEPT = 1000
"""Values counted at once of one kind; beyond that the rarer half is forgotten."""
VALUE_CHARACTERS = 250
"""Kept of a value: a topic's name has 249 at most."""

Counts = dict[str, int]
Seen = dict[str, dict[str, Counts]]
"""By filter option and by what is counted (`topics`): in how many exchanges each value was. Plain, as it goes
to another process as JSON."""

LONGEST = "longest latency (or wait)"
"""What is not counted: of it the greatest stands here, in nanoseconds."""


def count(counts: Counts, values: Iterable[str]) -> None:
    """Add the values of one exchange."""
    for value in values:
        value = value[:VALUE_CHARACTERS]
        counts[value] = counts.get(value, 0) + 1
    _prune(counts)


def longest(kinds: dict[str, Counts], nanoseconds: int) -> None:
    """Note how long one exchange took."""
    kinds[LONGEST] = {LONGEST: max(nanoseconds, kinds.get(LONGEST, {}).get(LONGEST, 0))}


def may_be_more(counts: Counts) -> bool:
    """Whether some may have been forgotten."""
    return len(counts) >= KEPT // 2


def add(seen: Seen, more: Seen) -> None:
    """Add what another process saw."""
    for option, kinds in more.items():
        there = seen.setdefault(option, {})
        for kind, counts in kinds.items():
            if kind == LONGEST:
                longest(there, counts[LONGEST])
                continue
            known = there.setdefault(kind, {})
            for value, times in counts.items():
                known[value] = known.get(value, 0) + times
            _prune(known)


def _prune(counts: Counts) -> None:
    if len(counts) > KEPT:
        for value in sorted(counts, key=counts.__getitem__)[: len(counts) - KEPT // 2]:
            del counts[value]
