"""Records that add up, so that parts of a run merge in any order."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Self

from kinspect.analysis.bursts import Bursts
from kinspect.analysis.histogram import Histogram
from kinspect.analysis.windows import Windows
from kinspect.kafka.view.view import iso_time
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.model import added

LEAST: Final = {"choose": min}
"""Metadata of a field that is None or the least of all values."""
GREATEST: Final = {"choose": max}
"""Metadata of a field that is None or the greatest of all values. Of what changes, such as a version, that is the last
one: a pair of a line's key and the value, see `later`."""


def _latest(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    return {**one, **{name: value for name, value in other.items() if name not in one or one[name] < value}}


LATEST: Final = {"choose": _latest}
"""Metadata of a dict whose values begin with the key of a line: of each name the last one stays."""


def _earliest(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    return {**one, **{name: value for name, value in other.items() if name not in one or value < one[name]}}


EARLIEST: Final = {"choose": _earliest}
"""Metadata of such a dict of which the first one of each name stays."""


def _known(mine: Any, its: Any) -> Any:
    """Of a set or dict what has the names of another one; of bursts none."""
    if isinstance(mine, Bursts):
        return Bursts()
    return mine & its if isinstance(mine, set) else {name: its[name] for name in its if name in mine}


def _joined(one: Any, other: Any) -> Any:
    both = type(one)()
    both.merge(one)
    both.merge(other)
    return both


_MERGE: dict[type, Callable[[Any, Any], Any]] = {
    int: operator.add,
    set: operator.or_,
    dict: added,
    Histogram: _joined,
    Windows: _joined,
    Bursts: _joined,
}
_PLAIN: dict[type, Callable[[Any], Any]] = {
    set: list,
    Histogram: Histogram.state,
    Windows: Windows.state,
    Bursts: Bursts.state,
}
_RESTORE: dict[type, Callable[[Any], Any]] = {
    set: set,
    Histogram: Histogram.from_state,
    Windows: Windows.from_state,
    Bursts: Bursts.from_state,
}
_NAMES = (set, dict, Bursts)
"""Types of fields that grow with what is kept."""


@dataclass(slots=True)
class Record:
    """Base of dataclasses that merge field by field: numbers add up, dicts of numbers too, key by key; sets are united,
    histograms, windows and bursts joined. A field that may be None says in its metadata which of two values stays."""

    def names(self) -> int:
        """Number of names in its sets and dicts, and of bursts."""
        kept = [getattr(self, each.name) for each in fields(self)]
        return sum(len(value) for value in kept if isinstance(value, _NAMES))

    def merge(self, other: Self, grows: bool = True) -> int:
        """Add what another record of the same thing counted, which stays as it is. `grows`: False if its sets and dicts
        get no new names. Returns how many were left out."""
        left_out = 0
        for each in fields(self):
            mine, its = getattr(self, each.name), getattr(other, each.name)
            if not grows and isinstance(mine, _NAMES):
                known = _known(mine, its)
                left_out += len(its) - len(known)
                its = known
            choose = each.metadata.get("choose")
            if choose is None:
                found = _MERGE[type(mine)](mine, its)
            else:
                found = choose(mine, its) if None not in (mine, its) else its if mine is None else mine
            setattr(self, each.name, found)
        return left_out

    def state(self) -> list[Any]:
        """Plain values for `from_state`."""
        values = [getattr(self, each.name) for each in fields(self)]
        return [_PLAIN[type(value)](value) if type(value) in _PLAIN else value for value in values]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Self:
        """The record that has this `state`."""
        record = cls()
        for each, value in zip(fields(cls), state, strict=True):
            restore = _RESTORE.get(type(getattr(record, each.name)))
            setattr(record, each.name, value if restore is None else restore(value))
        return record


@dataclass(slots=True)
class TimedRecord(Record):
    """A record of exchanges, with the times at which the first and the last of them began."""

    first: int | None = field(default=None, metadata=LEAST)
    last: int | None = field(default=None, metadata=GREATEST)

    def note_time(self, time: int | None) -> None:
        """Note when an exchange began, if that is known."""
        if time is not None:
            self.first = time if self.first is None else min(self.first, time)
            self.last = time if self.last is None else max(self.last, time)

    @property
    def times(self) -> dict[str, str | None]:
        """The keys of the times in a row."""
        return {"first": iso_time(self.first), "last": iso_time(self.last)}


def later(seen: tuple[LineKey, Any] | None, key: LineKey, value: Any) -> tuple[LineKey, Any] | None:
    """The last known value of what may change, with the key of its line; None is no value."""
    return (key, value) if value is not None and (seen is None or seen[0] < key) else seen
