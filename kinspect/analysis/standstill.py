"""Who has which partitions of a group, change by change: how long members stood still, and partitions had no owner.

A member stands still from the loss of its partitions, or its wish to join, to the assignment that gives it some, over
as many generations as that takes. The time belongs to the rebalance with which it began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

UNKNOWN = "unknown"
"""The trigger of a rebalance where it is unknown what began it."""

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


class ChangeKind(Enum):
    """What happens to a member; `_Books` has a method for each."""

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
class MemberChange:
    """Something that happens to a member. `parts`: what it has then, None if that is not known; `rebalance`: the one
    that it belongs to, as far as there is one."""

    time: int
    kind: ChangeKind
    member: str
    rebalance: Rebalance | None = None
    parts: Assigned | None = None


class _Since(NamedTuple):
    time: int
    member: str
    rebalance: Rebalance


def stand_still(changes: Iterable[MemberChange], place: Callable[[str], str]) -> dict[str, Assigned]:
    """Tell rebalances how long members stood still and partitions had no owner; return what each place has at the end,
    or had when its member went, as far as that is known. `place`: what stays of a member when it is started anew."""
    books = _Books()
    for change in sorted(changes, key=lambda change: change.time):
        _DOES[change.kind](books, change, place(change.member))
    return {**books.had, **books.has}


class _Books:
    """`has`: what each member has; `had`: what those had that went; `owners`: of each partition those that have it;
    `lost`: partitions without one; `waits`: members that stand still, None if nobody knows since when; `founded`: when
    the group was last without members."""

    def __init__(self) -> None:
        self.has: dict[str, Assigned] = {}
        self.had: dict[str, Assigned] = {}
        self.owners: dict[tuple[str, int], set[str]] = {}
        self.lost: dict[tuple[str, int], _Since] = {}
        self.waits: dict[str, _Since | None] = {}
        self.founded: _Since | None = None

    # ------------------------------------------------------------------ what happens to a member

    def found(self, change: MemberChange, place: str) -> None:
        """Nobody missed what had no owner while the group had no member."""
        if change.rebalance is not None:
            self.founded = _Since(change.time, change.member, change.rebalance)
            for part, lost in self.lost.items():
                lost.rebalance.unowned.pop(part, None)
                self.lost[part] = self.founded
        self.wait(change, place)

    def wait(self, change: MemberChange, place: str) -> None:
        """It stands still from now on, if it does not already."""
        if place not in self.waits and change.rebalance is not None:
            self.waits[place] = _Since(change.time, change.member, change.rebalance)
            change.rebalance.stopped[change.member] = None

    def stop(self, change: MemberChange, place: str) -> None:
        """It gives back all that it has, and waits."""
        self._lose(place, self.has.pop(place, frozenset()), change)
        self.wait(change, place)

    def own(self, change: MemberChange, place: str) -> None:
        """It says what it has: what gave it that was not seen if it waits."""
        parts = change.parts
        if parts and place in self.waits:
            del self.waits[place]
            self.founded = None
        elif place in self.has:
            return
        if parts is not None:
            self._take(place, parts)

    def begin_unseen(self, change: MemberChange, place: str) -> None:
        """It stands still, and it is unknown from when on."""
        if place not in self.waits and change.rebalance is not None:
            self.waits[place] = None
            change.rebalance.stopped.setdefault(change.member, None)

    def get(self, change: MemberChange, place: str) -> None:
        """It has these partitions from now on, and no others."""
        had, now = self.has.pop(place, frozenset()), change.parts
        waited = self.waits.get(place)
        if now is None:
            self.founded = None
            self.waits.pop(place, None)
            self._lose(place, had)
            return
        self._lose(place, had - now, change)
        for part in now - had:
            if part not in self.owners:
                self._find_owner(part, change, waited)
        self._take(place, now)
        if now:
            self.go_on(change, place)
        elif had:
            self.wait(change, place)

    def go_on(self, change: MemberChange, place: str) -> None:
        """It has something to do, and stands still no more."""
        waited = self.waits.pop(place, None)
        if waited is not None:
            waited.rebalance.stopped[waited.member] = change.time - waited.time

    def get_unseen(self, change: MemberChange, place: str) -> None:
        """It was given these partitions at a time that was not seen."""
        self.waits.pop(place, None)
        self._take(place, change.parts or frozenset())

    def lose_unseen(self, change: MemberChange, place: str) -> None:
        """It lost what it had at a time that was not seen."""
        self._lose(place, self.has.pop(place, frozenset()))

    def go(self, change: MemberChange, place: str) -> None:
        """It is no member any more."""
        if place in self.has:
            self.had[place] = self.has[place]
        self._lose(place, self.has.pop(place, frozenset()), change)
        self.waits.pop(place, None)

    # ------------------------------------------------------------------ owners

    def _take(self, place: str, parts: Assigned) -> None:
        self.has[place] = parts
        for part in parts:
            self.lost.pop(part, None)
            self.owners.setdefault(part, set()).add(place)

    def _lose(self, place: str, parts: Assigned, change: MemberChange | None = None) -> None:
        """Take partitions from a member; nobody knows since when if there is no `change`."""
        for part in parts:
            owners = self.owners[part]
            owners.discard(place)
            if not owners:
                del self.owners[part]
                if change is not None and change.rebalance is not None:
                    self.lost[part] = _Since(change.time, change.member, change.rebalance)
                    change.rebalance.unowned[part] = None

    def _find_owner(self, part: tuple[str, int], change: MemberChange, waited: _Since | None) -> None:
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


_DOES: dict[ChangeKind, Callable[[_Books, MemberChange, str], None]] = {
    ChangeKind.FOUNDS: _Books.found,
    ChangeKind.JOINS: _Books.wait,
    ChangeKind.STOPS: _Books.stop,
    ChangeKind.HAS: _Books.own,
    ChangeKind.BEGAN_UNSEEN: _Books.begin_unseen,
    ChangeKind.GETS: _Books.get,
    ChangeKind.GOES_ON: _Books.go_on,
    ChangeKind.GOT_UNSEEN: _Books.get_unseen,
    ChangeKind.LOST_UNSEEN: _Books.lose_unseen,
    ChangeKind.GOES: _Books.go,
}
