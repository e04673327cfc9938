"""Who has which partitions of a group, change by change: how long members stood still, and partitions had no owner.

A member stands still from the loss of its partitions, or its wish to join, to the assignment that gives it some, over
as many generations as that takes. The time is told of the rebalance with which it began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

UNKNOWN = "unknown"
"""The trigger of a rebalance where nothing tells what began it."""

Assigned = frozenset[tuple[str, int]]


@dataclass(slots=True)
class Rebalance:
    """A rebalance. `seen`: when it was known first. Members are member ids; `stopped` and `unowned` are nanoseconds;
    what is not known is None."""

    generation: int
    seen: int
    started: int | None = None
    ended: int | None = None
    trigger: str = UNKNOWN
    by: str | None = None
    reason: str | None = None
    members: int | None = None
    cooperative: bool | None = None
    stopped: dict[str, int | None] = field(default_factory=dict)
    unowned: dict[tuple[str, int], int | None] = field(default_factory=dict)
    assigned: dict[str, Assigned | None] = field(default_factory=dict)
    revoked: dict[str, Assigned | None] = field(default_factory=dict)


class Kind(Enum):
    """What happens to a member: it joins a group in which nobody else is, or any other; it gives back all that it has
    and waits; it has partitions that it got before the capture began; nothing tells when it began to wait; it is told
    which partitions it has from now on, or what else it has to do; it was given some, or lost them, at a time that was
    not seen; it is no member any more."""

    FOUNDS = auto()
    JOINS = auto()
    STOPS = auto()
    HAS = auto()
    BEGAN_UNSEEN = auto()
    GETS = auto()
    GOES_ON = auto()
    GOT_UNSEEN = auto()
    LOST_UNSEEN = auto()
    GOES = auto()


@dataclass(slots=True)
class Change:
    """Something that happens to a member. `parts`: what it has then, None if that is not known; `rebalance`: the one
    that it belongs to, as far as there is one."""

    time: int
    kind: Kind
    member: str
    rebalance: Rebalance | None = None
    parts: Assigned | None = None


class _Since(NamedTuple):
    time: int
    member: str
    rebalance: Rebalance


def stand_still(changes: Iterable[Change], place: Callable[[str], str]) -> dict[str, Assigned]:
    """Tell rebalances how long members stood still and partitions had no owner; return what each place has at the end,
    or had when its member went, as far as that is known. `place`: what stays of a member when it is started anew."""
    books = _Books()
    for change in sorted(changes, key=lambda change: change.time):
        books.add(change, place(change.member))
    return {**books.had, **books.has}


class _Books:
    """`has`: what each member has; `had`: what those had that went; `owners`: of each partition those that have it;
    `lost`: partitions without one; `waits`: members that stand still; `founded`: when the group was last without
    members."""

    def __init__(self) -> None:
        self.has: dict[str, Assigned] = {}
        self.had: dict[str, Assigned] = {}
        self.owners: dict[tuple[str, int], set[str]] = {}
        self.lost: dict[tuple[str, int], _Since] = {}
        self.waits: dict[str, _Since] = {}
        self.founded: _Since | None = None

    def add(self, change: Change, place: str) -> None:
        time, made = change.time, change.rebalance
        if change.kind is Kind.GETS:
            self._get(change, place)
        elif change.kind is Kind.HAS:
            self._has(place, change.parts)
        elif change.kind is Kind.GOT_UNSEEN and change.parts is not None:
            for part in change.parts:
                self.lost.pop(part, None)
            self._take(place, change.parts)
        elif change.kind is Kind.LOST_UNSEEN:
            self._lose(place, self.has.pop(place, frozenset()), Change(time, change.kind, change.member))
        elif change.kind is Kind.GOES_ON:
            self._end_wait(place, time)
        elif change.kind is Kind.BEGAN_UNSEEN:
            if place not in self.waits and made is not None:
                made.stopped.setdefault(change.member, None)
        else:
            if change.kind is Kind.FOUNDS and made is not None:
                self._found(_Since(time, change.member, made))
            if change.kind is Kind.GOES and place in self.has:
                self.had[place] = self.has[place]
            if change.kind in (Kind.STOPS, Kind.GOES):
                self._lose(place, self.has.pop(place, frozenset()), change)
            if change.kind is Kind.GOES:
                self.waits.pop(place, None)
            else:
                self._wait(change, place)

    def _has(self, place: str, parts: Assigned | None) -> None:
        if parts and place in self.waits:
            # What gave it them was not seen.
            del self.waits[place]
            self.founded = None
        elif place in self.has:
            return
        for part in parts or ():
            self.lost.pop(part, None)
        if parts is not None:
            self._take(place, parts)

    def _wait(self, change: Change, place: str) -> None:
        if place not in self.waits and change.rebalance is not None:
            self.waits[place] = _Since(change.time, change.member, change.rebalance)
            change.rebalance.stopped[change.member] = None

    def _end_wait(self, place: str, time: int) -> None:
        waited = self.waits.pop(place, None)
        if waited is not None:
            waited.rebalance.stopped[waited.member] = time - waited.time

    def _found(self, since: _Since) -> None:
        """Nobody missed what had no owner while the group had no member."""
        self.founded = since
        for part, lost in self.lost.items():
            lost.rebalance.unowned.pop(part, None)
            self.lost[part] = since

    def _take(self, place: str, parts: Assigned) -> None:
        self.has[place] = parts
        for part in parts:
            self.owners.setdefault(part, set()).add(place)

    def _lose(self, place: str, parts: Assigned, change: Change) -> None:
        for part in parts:
            owners = self.owners[part]
            owners.discard(place)
            if not owners:
                del self.owners[part]
                if change.rebalance is not None:
                    self.lost[part] = _Since(change.time, change.member, change.rebalance)
                    change.rebalance.unowned[part] = None

    def _get(self, change: Change, place: str) -> None:
        had, now = self.has.pop(place, frozenset()), change.parts
        waited = self.waits.get(place)
        if now is None:
            self.founded = None
            self.waits.pop(place, None)
            self._lose(place, had, Change(change.time, change.kind, change.member))
            return
        self._lose(place, had - now, change)
        for part in now - had:
            if part not in self.owners:
                self._find_owner(part, change, waited)
        self._take(place, now)
        if now:
            self._end_wait(place, change.time)
        elif had:
            self._wait(change, place)

    def _find_owner(self, part: tuple[str, int], change: Change, waited: _Since | None) -> None:
        since, founded = self.lost.pop(part, None), self.founded
        if since is None and founded is not None and waited is not None:
            # What nobody had before is missed from the group's begin.
            since = founded if waited.rebalance is founded.rebalance else None
        if since is None:
            return
        made = change.rebalance
        if since is not founded and made is not since.rebalance and (made is None or made.trigger == UNKNOWN):
            # Somebody who was not seen may have had it meanwhile.
            return
        since.rebalance.unowned[part] = max(change.time - since.time, since.rebalance.unowned.get(part) or 0)
