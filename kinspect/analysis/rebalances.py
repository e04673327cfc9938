"""Rebalances of classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup of all members, put in order.

The coordinator answers all JoinGroups of a generation at once, when the last member has come or time is up; the leader
then sends what each member gets with its SyncGroup, whose answers end the rebalance.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kinspect.analysis.groupevents import (
    FENCED_INSTANCE,
    ILLEGAL_GENERATION,
    MEMBER_ID_REQUIRED,
    NONE,
    REBALANCING,
    UNKNOWN_MEMBER,
    JoinedGroup,
    LeftGroup,
    Partitions,
    RefusedRequest,
    SyncedGroup,
    flat,
)
from kinspect.analysis.standstill import Assigned, ChangeKind, MemberChange, Rebalance, stand_still

MEMBER_JOINED, MEMBER_LEFT, TIMED_OUT = "member_joined", "member_left", "session_timeout"
SUBSCRIPTION_CHANGED, REJOINED = "subscription_changed", "rejoined"
LEFT, FENCED, STATIC_LEAVE = "left", "fenced", "static_leave"

_COOPERATIVE: Final = {
    **dict.fromkeys(("cooperative-sticky", "compatible", "sessioned"), True),
    **dict.fromkeys(("range", "roundrobin", "sticky", "default"), False),
}
"""Whether members keep what they have in a rebalance, by the protocols of Kafka's consumers and of Connect (KIP-429,
KIP-415)."""

_REJOIN: Final = frozenset({ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING, FENCED_INSTANCE})
"""Error codes upon which a member joins again."""


class MemberTimes(NamedTuple):
    """What all lines show of a member. `first`: its first line; `alive`: its last request that was answered well;
    `held`: its first commit of offsets, when it had partitions; `calm`: its first heartbeat answered without a
    rebalance; nanoseconds. `patience`: it is timed out after so many nanoseconds without a request."""

    first: int | None
    alive: int | None
    patience: int | None
    held: int | None
    calm: int | None

    def timed_out_at(self) -> int | None:
        """When its session ended, if it was not heard of again."""
        if self.alive is None or self.patience is None:
            return None
        return self.alive + self.patience


NOBODY: Final = MemberTimes(None, None, None, None, None)


class Departure(NamedTuple):
    """When a member left, how, and why in its own words. `at_latest`: it had left by that time, at some time before."""

    time: int
    how: str | None
    reason: str | None = None
    at_latest: bool = False


class Trigger(NamedTuple):
    """What began a rebalance."""

    time: int
    what: str
    member: str
    reason: str | None = None


@dataclass(slots=True)
class GroupHistory:
    """What happened in a group. `joined`: when members came, as far as they were seen to come; `ids`: all members;
    `has`: what each has at the end, by its instance id if there is one."""

    rebalances: list[Rebalance] = field(default_factory=list)
    joined: dict[str, int] = field(default_factory=dict)
    departures: dict[str, Departure] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    has: dict[str, Assigned] = field(default_factory=dict)

    def departs(self, member: str, departure: Departure, known: MemberTimes) -> None:
        """Note that a member left, unless it had left before, came later or was there later."""
        came = self.joined.get(member, departure.time)
        heard = departure.time if known.alive is None else known.alive
        if member not in self.departures and max(came, heard) <= departure.time:
            self.departures[member] = departure


@dataclass(slots=True)
class _Round:
    """The JoinGroups and SyncGroups of one generation. `answered`: when its first JoinGroup was; `ids`: its members
    by the leader's word, with their instance ids; `there`: those seen."""

    generation: int
    answered: int
    previous: _Round | None
    leader: str = ""
    joins: dict[str, JoinedGroup] = field(default_factory=dict)
    syncs: dict[str, SyncedGroup] = field(default_factory=dict)
    ids: dict[str, str | None] | None = None
    there: set[str] = field(default_factory=set)

    @property
    def members(self) -> set[str]:
        return self.there | set(self.ids or ())


class Classic:
    """The history of a classic group, from its events, each list in the order of its lines. `lossy`: some may have been
    lost."""

    def __init__(
        self,
        joins: Sequence[JoinedGroup],
        syncs: Sequence[SyncedGroup],
        refused: Sequence[RefusedRequest],
        leaves: Sequence[LeftGroup],
        known: dict[str, MemberTimes],
        lossy: bool = False,
    ) -> None:
        self._lossy = lossy
        self._joins, self._syncs, self._refused = joins, syncs, refused
        self._leaves = leaves
        self._known = known
        self._came: dict[str, JoinedGroup] = {}
        self._had: dict[str, Assigned | None] = {}
        self._topics: dict[str, tuple[str, ...]] = {}
        answers: list[RefusedRequest | SyncedGroup] = [*refused, *syncs]
        self._rejoin_answers = _by_member((one.member, one.end) for one in answers if one.error in _REJOIN)
        # Heartbeats answered with a rebalance, with their members.
        self._stirred = sorted((one.end, one.member) for one in refused if _is_sign(one))
        self.history = GroupHistory()
        replaced = self._learn_members()
        self._add_leaves()
        for member, departure in replaced:
            self.history.departs(member, departure, self._of(member))
        self._rounds = self._make_rounds()
        self._add_refusals()
        self._changes: list[MemberChange] = []
        began = self._begins()
        for number, one in enumerate(self._rounds):
            self._add_dropped(one)
            self._add_rebalance(one, began[number])
        self._add_departures()
        self.history.has = stand_still(self._changes, self._place)

    # ------------------------------------------------------------------ members

    def _of(self, member: str) -> MemberTimes:
        return self._known.get(member, NOBODY)

    def _is_new(self, join: JoinedGroup) -> bool:
        """True if a member comes with this JoinGroup: it has no id before, or one that it has just been given."""
        return self._came.get(join.member) is join

    def _learn_members(self) -> list[tuple[str, Departure]]:
        """Learn who joined. Return members whose place another one took: a static one that joins anew has a new id."""
        holders: dict[str, str] = {}
        replaced = []
        handed = set()
        for join in self._joins:
            if join.error == MEMBER_ID_REQUIRED:
                handed.add(join.member)
            if join.error != NONE:
                continue
            self.history.ids.add(join.member)
            first = self._of(join.member).first
            handed_out = join.asked in handed and (first is None or join.begin <= first)
            if (not join.asked or handed_out) and join.member not in self._came:
                self._came[join.member] = join
                self.history.joined[join.member] = join.begin
            for member, instance in ((join.member, join.instance), *join.members):
                if instance is not None:
                    self.history.instances[member] = instance
            if join.instance is not None:
                before = holders.get(join.instance, join.member)
                if before != join.member:
                    replaced.append((before, Departure(join.end, FENCED)))
                holders[join.instance] = join.member
        return replaced

    def _add_leaves(self) -> None:
        holders = {instance: member for member, instance in self.history.instances.items()}
        for leave in self._leaves:
            for member, instance, reason in leave.members:
                gone = member or holders.get(instance or "", "")
                if gone:
                    departure = Departure(leave.begin, LEFT, reason)
                    self.history.departs(gone, departure, NOBODY)

    def _add_refusals(self) -> None:
        refusals: list[RefusedRequest | SyncedGroup | JoinedGroup] = [
            *self._refused,
            *self._syncs,
            *self._joins,
        ]
        for one in sorted(refusals, key=lambda one: one.key):
            known = self._of(one.member)
            if one.error == FENCED_INSTANCE:
                self.history.departs(one.member, Departure(one.end, FENCED), known)
            elif one.error == UNKNOWN_MEMBER and known.alive is not None:
                self.history.departs(one.member, self._silence(one.member, one.end), known)

    def _silence(self, member: str, seen: int) -> Departure:
        """How a member left of which it is seen, at a time, that it is no longer there."""
        over = self._of(member).timed_out_at()
        if self._lossy:
            # It may have been heard of later, or have said that it leaves.
            return Departure(seen, None, at_latest=True)
        return Departure(seen, None) if over is None or over > seen else Departure(over, TIMED_OUT)

    def _add_dropped(self, one: _Round) -> None:
        """Members of the generation before that the leader is not told of."""
        if one.previous is None or one.ids is None:
            return
        for member in sorted(one.previous.members - one.members):
            self.history.departs(member, self._silence(member, one.answered), self._of(member))

    # ------------------------------------------------------------------ generations

    def _make_rounds(self) -> list[_Round]:
        """Generations, in their order. A smaller generation than the last one begins anew: the group was empty, or its
        coordinator forgot it."""
        rounds: list[_Round] = []
        current: dict[int, _Round] = {}
        done: list[JoinedGroup | SyncedGroup] = [one for one in self._joins if one.error == NONE]
        done += [one for one in self._syncs if one.error is not None]
        # Of a cut message the generation is not known.
        for event in sorted((one for one in done if one.generation >= 0), key=lambda one: one.key):
            one = current.get(event.generation)
            if isinstance(event, SyncedGroup):
                if one is None and event.error == NONE:
                    one = self._open(rounds, current, event.generation, event.begin)
                if one is not None:
                    _sync(one, event)
                continue
            if one is None or not self._fits(one, event):
                one = self._open(rounds, current, event.generation, event.end)
            one.leader = one.leader or event.leader
            one.there.add(event.member)
            if event.begin <= one.answered or event.member in (one.ids or ()):
                one.joins.setdefault(event.member, event)
            if event.members:
                one.ids = {**(one.ids or {}), **dict(event.members)}
                self.history.ids.update(one.ids)
        return rounds

    def _fits(self, one: _Round, join: JoinedGroup) -> bool:
        return one.leader in ("", join.leader) or join.instance is not None

    def _open(
        self, rounds: list[_Round], current: dict[int, _Round], generation: int, answered: int
    ) -> _Round:
        previous = rounds[-1] if current else None
        if previous is not None and generation <= previous.generation:
            current.clear()
            previous = None
        current[generation] = one = _Round(generation, answered, previous)
        rounds.append(one)
        return one

    # ------------------------------------------------------------------ how long members stood still

    def _begins(self) -> list[dict[str, int | None]]:
        """For each generation, from when its members could know of it; None where unknown."""
        own = [(join.member, join.begin) for join in self._joins]
        signs = _by_member(own + [(member, end) for end, member in self._stirred])
        ends: dict[str, int] = {}
        found: list[dict[str, int | None]] = []
        for one in self._rounds:
            began: dict[str, int | None] = {}
            for member in sorted(one.joins.keys() | one.syncs.keys()):
                times = signs.get(member, [])
                first = bisect_right(times, ends.get(member, -1))
                sync = one.syncs.get(member)
                known = first < len(times) and (sync is None or times[first] <= sync.begin)
                join = one.joins.get(member)
                if known and not (join is not None and self._is_new(join)):
                    calm = self._of(member).calm
                    # An earlier response that told it so may not have been seen, or was lost.
                    known = member in ends or (calm is not None and calm <= times[first])
                    known &= not self._lossy or join is None or times[first] < join.begin
                began[member] = times[first] if known else None
                if sync is not None:
                    ends[member] = sync.end
            found.append(began)
        return found

    def _add_changes(
        self, one: _Round, made: Rebalance, began: dict[str, int | None], had: dict[str, Assigned | None]
    ) -> None:
        """What a generation does to its members. Eager ones give all back before they join. Of cooperative ones those
        wait for it that have nothing; others go on until they know what they lose."""
        first = min((time for time in began.values() if time is not None), default=0)
        founds = bool(one.ids) and all(self._founds(one, member) for member in one.members)
        for member, since in began.items():
            before, sync = had.get(member), one.syncs.get(member)
            if since is None or (before is None and not self._held(member, since)):
                if not made.cooperative:
                    self._changes.append(MemberChange(one.answered, ChangeKind.LOST_UNSEEN, member, made))
                self._changes.append(MemberChange(one.answered, ChangeKind.BEGAN_UNSEEN, member, made))
            elif made.cooperative and before != frozenset():
                made.stopped[member] = _partly(since, sync, made.revoked.get(member, frozenset()), before)
                self._changes.append(MemberChange(since, ChangeKind.HAS, member, made, before))
            elif founds:
                self._changes.append(
                    MemberChange(
                        since, ChangeKind.FOUNDS if since == first else ChangeKind.JOINS, member, made
                    )
                )
            else:
                self._changes.append(MemberChange(since, ChangeKind.STOPS, member, made))
            if sync is None and self._lossy:
                self._changes.append(MemberChange(one.answered, ChangeKind.GETS, member, made))
            elif sync is not None and sync.error == NONE:
                got = made.assigned.get(member)
                kind = ChangeKind.GOES_ON if got is None and sync.has_assignment else ChangeKind.GETS
                self._changes.append(MemberChange(sync.end, kind, member, made, got))

    def _add_unseen(self, one: _Round, made: Rebalance, began: dict[str, int | None]) -> None:
        """What the leader gave to members whose own messages were not seen, and what they had before."""
        given = {
            member: parts
            for member, parts in made.assigned.items()
            if member not in began and parts is not None
        }
        before = one.previous.members if one.previous is not None else set()
        for member in sorted(before - began.keys()):
            self._changes.append(MemberChange(one.answered, ChangeKind.LOST_UNSEEN, member, made))
        end = max((sync.end for sync in one.syncs.values() if sync.given), default=one.answered)
        for member, parts in sorted(given.items()):
            self._changes.append(MemberChange(end, ChangeKind.GOT_UNSEEN, member, made, parts))

    def _held(self, member: str, time: int) -> bool:
        """True of a member that is seen to have had partitions, where it is unknown which."""
        held = self._of(member).held
        return held is not None and held <= time

    def _founds(self, one: _Round, member: str) -> bool:
        """True of a member that was not there before a generation."""
        join = one.joins.get(member)
        before = map(self._place, one.previous.members) if one.previous is not None else ()
        return join is not None and self._is_new(join) and self._place(member) not in before

    def _add_departures(self) -> None:
        """Members that went, as changes of the generation that was made thereafter."""
        made = self.history.rebalances
        answered = [one.answered for one in self._rounds]
        gone: dict[str, int] = {}
        for one in self._rounds:
            if one.previous is not None and one.ids is not None:
                gone.update(dict.fromkeys(one.previous.members - one.members, one.answered))
        for member, departure in self.history.departures.items():
            if departure.how == FENCED and member in self.history.instances:
                # Another one with its instance id has its place.
                continue
            time = min(departure.time, gone.get(member, departure.time))
            after = bisect_left(answered, time)
            self._changes.append(
                MemberChange(time, ChangeKind.GOES, member, made[after] if after < len(made) else None)
            )

    # ------------------------------------------------------------------ rebalances

    def _add_rebalance(self, one: _Round, began: dict[str, int | None]) -> None:
        trigger = self._trigger(one)
        if trigger is not None and not self._is_first(one, trigger):
            trigger = None
        done = {member: sync.end for member, sync in one.syncs.items() if sync.error == NONE}
        made = Rebalance(
            one.generation,
            one.answered,
            started=None if trigger is None else self._started(one, trigger),
            ended=max(done.values()) if one.ids and one.ids.keys() <= done.keys() else None,
            members=None if one.ids is None else len(one.ids),
        )
        if trigger is not None:
            made.trigger, made.by, made.reason = trigger.what, trigger.member, trigger.reason
        if one.previous is None:
            self._had = {}
        had = {member: self._before(one, member) for member in one.there | set(one.syncs)}
        made.assigned = _assigned(one)
        made.cooperative = _is_cooperative(one, had)
        for member in sorted(had):
            lost = self._lost(made, member, had[member])
            if lost is None or lost:
                made.revoked[member] = lost
        self._add_changes(one, made, began, had)
        self._add_unseen(one, made, began)
        self._had.update({self._place(member): found for member, found in made.assigned.items()})
        self._topics.update(
            {self._place(join.member): join.topics for join in one.joins.values() if join.topics is not None}
        )
        self.history.ids.update(one.members)
        self.history.rebalances.append(made)

    def _lost(self, made: Rebalance, member: str, before: Assigned | None) -> Assigned | None:
        """What a rebalance took from a member; None if that is not known."""
        if before == frozenset() or member not in made.assigned:
            return frozenset()
        now = made.assigned[member]
        return None if before is None or now is None else before - now

    def _place(self, member: str) -> str:
        """What stays of a member when it is started anew: the instance id of a static one."""
        return self.history.instances.get(member, member)

    def _before(self, one: _Round, member: str) -> Assigned | None:
        """What a member had before a rebalance."""
        place = self._place(member)
        if place in self._had:
            return self._had[place]
        if member in self.history.joined:
            return frozenset()
        join = one.joins.get(member)
        # An eager member gives all back before it joins, and owns nothing then.
        return frozenset(flat(join.owned)) if join is not None and join.owned else None

    def _is_first(self, one: _Round, trigger: Trigger) -> bool:
        """True if nothing can have come before that was not seen: all members are known that joined, how those went
        that did not, and that the group was calm before."""
        if one.ids is None or not one.ids.keys() <= one.joins.keys():
            return False
        before, new = one.previous, all(map(self._is_new, one.joins.values()))
        if before is None:
            calm = [known.calm for member in one.ids if (known := self._of(member)).calm is not None]
            return new or min(calm, default=trigger.time) < trigger.time
        gone = [self.history.departures.get(member) for member in before.members - one.members]
        how = [departure is not None and departure.how is not None for departure in gone]
        # An empty group has a generation too.
        return all(how) and before.ids is not None and (new or before.generation + 1 == one.generation)

    def _started(self, one: _Round, trigger: Trigger) -> int | None:
        """The first sign of a rebalance."""
        signs = [join.begin for join in one.joins.values()]
        since = one.previous.answered if one.previous is not None else -1
        first = bisect_right(self._stirred, (since, ""), key=lambda sign: (sign[0], ""))
        last = bisect_right(self._stirred, (one.answered, ""), key=lambda sign: (sign[0], ""))
        signs += [time for time, member in self._stirred[first:last] if member in one.members]
        if trigger.what != TIMED_OUT:
            signs.append(trigger.time)
        return min(signs, default=None)

    def _trigger(self, one: _Round) -> Trigger | None:
        """The first of all events that could begin it: the coordinator needs no more than one."""
        found = [*self._leavers(one), *self._joiners(one), *self._timed_out(one)]
        return min(found, key=lambda trigger: trigger.time, default=None)

    def _leavers(self, one: _Round) -> list[Trigger]:
        departures = self.history.departures
        old = {join.member for join in one.joins.values() if not self._is_new(join)}
        before = one.previous.members if one.previous is not None else set()
        if one.previous is None and old:
            # Those that are not known to have been members may have been.
            before = set(departures)
        found = [
            Trigger(departures[member].time, MEMBER_LEFT, member, departures[member].reason)
            for member in sorted(before & departures.keys())
            if departures[member].how == LEFT and _is_between(one, departures[member].time)
        ]
        # Where all have left nobody is there to rebalance: the next one to join begins.
        gone = {trigger.member for trigger in found}
        return found if old or before - gone else []

    def _joiners(self, one: _Round) -> Iterable[Trigger]:
        places = set(map(self._place, one.previous.members)) if one.previous is not None else set()
        for join in one.joins.values():
            if self._is_new(join) and self._place(join.member) not in places:
                yield Trigger(join.begin, MEMBER_JOINED, join.member, join.reason)
            elif not self._had_to_rejoin(one, join):
                changed = self._is_changed(join)
                yield Trigger(
                    join.begin, SUBSCRIPTION_CHANGED if changed else REJOINED, join.member, join.reason
                )

    def _had_to_rejoin(self, one: _Round, join: JoinedGroup) -> bool:
        """True if a member that joins again was told to do so, or may have been before the capture began."""
        if self._is_new(join):
            return False
        first = self._of(join.member).first
        if one.previous is None and (first is None or first >= join.begin):
            return True
        answers = self._rejoin_answers.get(join.member, [])
        since = one.previous.answered if one.previous is not None else -1
        return bisect_left(answers, since) < bisect_right(answers, join.begin)

    def _is_changed(self, join: JoinedGroup) -> bool:
        """True if a member subscribes to other topics than when it joined before."""
        before = self._topics.get(self._place(join.member))
        return before is not None and join.topics is not None and join.topics != before

    def _timed_out(self, one: _Round) -> Iterable[Trigger]:
        if one.previous is None:
            return
        for member in one.previous.members - one.members:
            departure = self.history.departures.get(member)
            over = self._of(member).timed_out_at()
            if (
                over is not None
                and over <= one.answered
                and (departure is None or departure.how == TIMED_OUT)
            ):
                yield Trigger(over, TIMED_OUT, member)


def _sync(one: _Round, sync: SyncedGroup) -> None:
    if sync.member in one.there and sync.member not in one.joins:
        # A static member that was started anew when all had been answered: it gets what it had, and nobody else stops.
        return
    one.there.add(sync.member)
    before = one.syncs.get(sync.member)
    if before is None or before.error != NONE:
        one.syncs[sync.member] = sync
    if sync.given and sync.error == NONE and one.ids is None:
        one.ids = {member: None for member, _ in sync.given}


def _partly(
    since: int, sync: SyncedGroup | None, lost: Assigned | None, before: Assigned | None
) -> int | None:
    """Nanoseconds for which a cooperative member stood still that had something: until it knew what it lost."""
    if sync is None or lost is None or before is None:
        return None
    return sync.end - since if lost else 0


def _is_between(one: _Round, time: int) -> bool:
    """True for a time after the generation before was made, and before this one was."""
    return (one.previous is None or time > one.previous.answered) and time <= one.answered


def _assigned(one: _Round) -> dict[str, Assigned | None]:
    """What each member got, by its own answer or by what the leader gave."""
    found: dict[str, Assigned | None] = {}
    for sync in one.syncs.values():
        if sync.error == NONE:
            found.update({member: _set(given) for member, given in sync.given})
    for member, sync in one.syncs.items():
        if sync.error == NONE and (sync.assigned is not None or member not in found):
            found[member] = _set(sync.assigned)
    return found


def _set(partitions: Partitions | None) -> Assigned | None:
    return None if partitions is None else frozenset(flat(partitions))


def _is_cooperative(one: _Round, had: dict[str, Assigned | None]) -> bool | None:
    """True if members keep what they have, by the protocol's name, else by what they say they own (KIP-429): eager
    ones give all back before they join."""
    for join in one.joins.values():
        if join.protocol in _COOPERATIVE:
            return _COOPERATIVE[join.protocol]
    said = [join for join in one.joins.values() if join.topics is not None]
    if any(join.owned is None for join in said):
        return False
    if any(join.owned for join in said):
        return True
    return False if any(had.get(join.member) for join in said) else None


def _is_sign(refused: RefusedRequest) -> bool:
    return refused.heartbeat and refused.error == REBALANCING


def _by_member(times: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Times of each member, in order."""
    found: dict[str, list[int]] = {}
    for member, time in sorted(times):
        found.setdefault(member, []).append(time)
    return found
