"""Values of the exchanges that a filter left out: suggestions for the user if it left out all of them."""

from __future__ import annotations

from collections.abc import Iterable

KEPT = 1000
"""Most values of one kind that are counted at once; beyond that the rarer half is forgotten."""
VALUE_CHARACTERS = 250
"""Characters kept of a value: a topic's name has at most 249."""

ValueCounts = dict[str, int]
SeenValues = dict[str, dict[str, ValueCounts]]
"""Number of exchanges with each value, by filter option and kind of value (`topics`). Plain, since it is passed to
another process as JSON."""

LONGEST, LARGEST = "longest ", "largest "
"""Begins of kinds that are not counted: the only value is the greatest, in nanoseconds or bytes."""


def count_values(counts: ValueCounts, values: Iterable[str]) -> None:
    """Add the values of one exchange."""
    for value in values:
        value = value[:VALUE_CHARACTERS]
        counts[value] = counts.get(value, 0) + 1
    _prune(counts)


def is_greatest(kind: str) -> bool:
    """True for a kind whose only value is the greatest."""
    return kind.startswith((LONGEST, LARGEST))


def note(kinds: dict[str, ValueCounts], kind: str, values: Iterable[str] | int | None) -> None:
    """Add the values of one exchange, or its number if that is known."""
    if isinstance(values, int):
        kinds[kind] = {kind: max(values, kinds.get(kind, {}).get(kind, 0))}
    elif values is not None:
        count_values(kinds.setdefault(kind, {}), values)


def may_be_more(counts: ValueCounts) -> bool:
    """True if some values may have been forgotten."""
    return len(counts) >= KEPT // 2


def add(seen: SeenValues, more: SeenValues) -> None:
    """Add the values seen by another process."""
    for option, kinds in more.items():
        there = seen.setdefault(option, {})
        for kind, counts in kinds.items():
            if is_greatest(kind):
                note(there, kind, counts[kind])
                continue
            known = there.setdefault(kind, {})
            for value, times in counts.items():
                known[value] = known.get(value, 0) + times
            _prune(known)


def _prune(counts: ValueCounts) -> None:
    if len(counts) > KEPT:
        for value in sorted(counts, key=counts.__getitem__)[: len(counts) - KEPT // 2]:
            del counts[value]
