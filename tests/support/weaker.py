"""Is what an answer says of a part of a capture weaker than, or equal to, what it says of the whole?

Values by their kind: a kind takes a value of the part, the whole's values it may stand for (several where a part's row
does not know its whole key) and what the `Part` is, and is true if the value is no contradiction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

Row = dict[str, Any]


class Part(NamedTuple):
    """A part of a capture. `ends_early`: what is open at its end may go on in the whole; `lacks`: it is one that lacks
    something a reader of it can know of."""

    ends_early: bool = False
    lacks: bool = True


NAMELESS = re.compile(r"[A-Za-z0-9_-]{22}-\d+$")
"""A partition whose topic has no name."""

Kind = Callable[[Any, list[Any], Part], bool]
Kinds = Mapping[str, Kind]


def fact(now: Any, was: list[Any], part: Part) -> bool:
    """The same, or not known."""
    return now is None or now in was


def count(now: Any, was: list[Any], part: Part) -> bool:
    """No larger, or not known; no number where the whole has none."""
    known = [each for each in was if each is not None]
    return now is None or (bool(known) and now <= sum(known))


def first(now: Any, was: list[Any], part: Part) -> bool:
    """No earlier, or not known."""
    return now is None or any(each is not None and each <= now for each in was)


def last(now: Any, was: list[Any], part: Part) -> bool:
    """No later, or not known; a number no larger."""
    return now is None or any(each is not None and now <= each for each in was)


def names(now: Any, was: list[Any], part: Part) -> bool:
    """No name more."""
    return now is None or {*now} <= {name for each in was for name in each or ()}


def counts(now: Any, was: list[Any], part: Part) -> bool:
    """No name more, and no larger count."""
    return now is None or all(
        times is None or times <= sum((each or {}).get(name) or 0 for each in was)
        for name, times in now.items()
    )


def anything(now: Any, was: list[Any], part: Part) -> bool:
    """Nothing that is compared: texts made of what is, and measures of other events than the whole's."""
    return True


def place(now: Any, was: list[Any], part: Part) -> bool:
    """Where in the capture something lies: in a part elsewhere."""
    return True


def so_far(*words: Any, kind: Kind = fact) -> Kind:
    """What at an early end may also be one of these."""
    return lambda now, was, part: kind(now, was, part) or (part.ends_early and now in words)


def at_end(kind: Kind) -> Kind:
    """What is so at the end: at an early one it may be otherwise."""
    return lambda now, was, part: part.ends_early or kind(now, was, part)


def flag(weaker: Any) -> Kind:
    """A fact that has a value besides null with which it says less."""
    return lambda now, was, part: now == weaker or fact(now, was, part)


def within(**kinds: Kind) -> Kind:
    """An object with these keys."""
    return lambda now, was, part: (
        now is None or not [*_differences(now, [each for each in was if each is not None], kinds, part)]
    )


def each(**kinds: Kind) -> Kind:
    """A list of objects with these keys: each says no more than one of the whole's, and no two than the same."""

    def says_less(now: Any, was: list[Any], part: Part) -> bool:
        there = [entry for entries in was for entry in entries or ()]
        fitting = [
            [at for at, other in enumerate(there) if not [*_differences(entry, [other], kinds, part)]]
            for entry in now or ()
        ]
        return _fit_apart(fitting)

    return says_less


def _fit_apart(fitting: list[list[int]]) -> bool:
    """True if each can have one that fits it for itself."""
    taken: dict[int, int] = {}

    def find(number: int, tried: set[int]) -> bool:
        for at in fitting[number]:
            if at not in tried:
                tried.add(at)
                if at not in taken or find(taken[at], tried):
                    taken[at] = number
                    return True
        return False

    return all(find(number, set()) for number in range(len(fitting)))


def by_name(kind: Kind) -> Kind:
    """An object whose keys are names: of each no more than the whole says of it; null says nothing. Partitions of a
    topic that the part knows by its id alone are not found by it."""

    def says_less(now: Any, was: list[Any], part: Part) -> bool:
        return all(
            kind(value, found, part)
            if (found := [entries[name] for entries in was if entries and name in entries])
            else value is None or NAMELESS.match(name) is not None
            for name, value in (now or {}).items()
        )

    return says_less


def _differences(now: Row, was: list[Row], kinds: Kinds, part: Part) -> Iterator[str]:
    for key, value in now.items():
        there = [row[key] for row in was]
        if not there or not kinds[key](value, there, part):
            yield f"{key}: {value!r}, not {there[0] if len(there) == 1 else there!r}"


class Rows(NamedTuple):
    """How rows of an answer are compared. `key`: the columns that a row is known by, each with others whose values are
    as good; `kinds`: of all columns; `says_lack`: true for a row that says what the part lacks, and no more;
    `is_so_far`: true for one of what is so at the end: at an early one it may be otherwise."""

    key: Mapping[str, tuple[str, ...]]
    kinds: Kinds
    says_lack: Callable[[Row], bool] = lambda _: False
    is_so_far: Callable[[Row], bool] = lambda _: False

    def contradictions(self, now: list[Row], was: list[Row], part: Part) -> Iterator[str]:
        """What the part's rows say and the whole's do not."""
        for row in now:
            found = [other for other in was if self._is_of(row, other)]
            name = ", ".join(str(row[key]) for key in self.key)
            if self.says_lack(row) or (part.ends_early and self.is_so_far(row)):
                continue
            if not found:
                yield f"{name}: no such row"
                continue
            kinds = {**self.kinds, **dict.fromkeys(self.key, anything)}
            yield from (f"{name}: {text}" for text in _differences(row, found, kinds, part))

    def are_same(self, now: list[Row], was: list[Row]) -> bool:
        """True if nothing is missing but for places in the capture."""
        places = {key for key, kind in self.kinds.items() if kind is place}
        return [{**row, **dict.fromkeys(places)} for row in now] == [
            {**row, **dict.fromkeys(places)} for row in was
        ]

    def _is_of(self, row: Row, other: Row) -> bool:
        """True if the whole's row may be the part's."""
        return all(
            row[key] is None or row[key] in (other[key], *(other[name] for name in others))
            for key, others in self.key.items()
        )
