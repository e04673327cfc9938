"""Rebalances of groups whose members send heartbeats alone: consumer (KIP-848), share (KIP-932), streams (KIP-1071).

The coordinator raises the group's epoch when a member comes, goes or changes its subscription, and tells each member in
the answers to its heartbeats what it is to have: first what to give back, then, once others have given back, what more
it gets. A member that goes on with what it keeps does not stand still.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kinspect.analysis.groupevents import (
    FENCED_EPOCH,
    JOINING,
    LEAVING_FOR_A_WHILE,
    NONE,
    UNKNOWN_MEMBER,
    MemberHeartbeat,
    Partitions,
    flat,
)
from kinspect.analysis.rebalances import (
    FENCED,
    LEFT,
    MEMBER_JOINED,
    MEMBER_LEFT,
    NOBODY,
    REJOINED,
    STATIC_LEAVE,
    SUBSCRIPTION_CHANGED,
    TIMED_OUT,
    Departure,
    GroupHistory,
    MemberTimes,
    Trigger,
)
from kinspect.analysis.standstill import UNKNOWN, Assigned, ChangeKind, MemberChange, Rebalance, stand_still

NEW = 2
"""The greatest epoch that a group has with its first member."""


@dataclass(slots=True)
class _Part:
    """A member's part in a rebalance. `told_at` and `done`: when it was first told of another assignment, and when the
    broker knew that it has it."""

    before: Assigned | None
    told_at: int | None = None
    done: int | None = None


@dataclass(slots=True)
class _Epoch:
    """`whole`: all members were seen since the group's begin."""

    rebalance: Rebalance
    whole: bool
    parts: dict[str, _Part] = field(default_factory=dict)


class ReconciledGroup:
    """The history of such a group, from its heartbeats in the order of their lines. `name`: a topic's by its id;
    `shared`: several members may have a partition at once (KIP-932): that they get it is no rebalance; `lossy`: some
    heartbeats may not have been seen."""

    def __init__(
        self,
        beats: Sequence[MemberHeartbeat],
        known: dict[str, MemberTimes],
        name: Callable[[str], str],
        shared: bool,
        lossy: bool = False,
    ) -> None:
        self._lossy = lossy
        self._known = known
        self._name = name
        self._shared = shared
        self._joining = {beat.member for beat in beats if beat.asked == JOINING and beat.error == NONE}
        self._whole = False
        self._changes: list[MemberChange] = []
        self._pending: list[MemberChange] = []
        self._early: dict[str, tuple[_Part, MemberChange]] = {}
        self._epoch: int | None = None
        self._now: _Epoch | None = None
        self._has: dict[str, Assigned] = {}
        self._topics: dict[str, tuple[str, ...]] = {}
        self._there: set[str] = set()
        self._waiting: list[Trigger] = []
        self._epochs: list[_Epoch] = []
        self.history = GroupHistory()
        for beat in beats:
            if not beat.member:
                continue
            if beat.error not in (NONE, None):
                self._refuse(beat)
            elif beat.asked < JOINING:
                self._leave(beat)
            elif beat.error == NONE:
                self._go_on(beat)
        for epoch in self._epochs:
            self._finish(epoch)
        self._changes += [change for _, change in self._early.values()]
        self.history.has = stand_still(
            self._changes, lambda member: self.history.instances.get(member, member)
        )
        for epoch in self._epochs[-1:]:
            if not _is_settled(epoch.rebalance):
                epoch.rebalance.ended = None

    def _of(self, member: str) -> MemberTimes:
        return self._known.get(member, NOBODY)

    # ------------------------------------------------------------------ one heartbeat after the other

    def _refuse(self, beat: MemberHeartbeat) -> None:
        """A member is no longer one: it was silent for too long, or was thrown out."""
        known = self._of(beat.member)
        if beat.error not in (UNKNOWN_MEMBER, FENCED_EPOCH) or known.alive is None:
            return
        over = known.timed_out_at()
        silent = beat.error == UNKNOWN_MEMBER and over is not None and over <= beat.end
        self._go(beat.member, Departure(beat.end, TIMED_OUT if silent else FENCED))

    def _leave(self, beat: MemberHeartbeat) -> None:
        for_a_while = beat.asked == LEAVING_FOR_A_WHILE
        self._learn(beat)
        self._go(beat.member, Departure(beat.begin, STATIC_LEAVE if for_a_while else LEFT))
        if not for_a_while:
            self._waiting.append(Trigger(beat.begin, MEMBER_LEFT, beat.member))
        if not self._there:
            self._waiting = []

    def _go(self, member: str, departure: Departure) -> None:
        self.history.departures.setdefault(member, departure)
        self._there.discard(member)
        self._has.pop(member, None)
        if departure.how != STATIC_LEAVE:
            self._pending.append(MemberChange(departure.time, ChangeKind.GOES, member))

    def _learn(self, beat: MemberHeartbeat) -> None:
        self.history.ids.add(beat.member)
        if beat.instance is not None:
            self.history.instances[beat.member] = beat.instance

    def _go_on(self, beat: MemberHeartbeat) -> None:
        if self._epoch is None and beat.asked > JOINING:
            self._epoch = beat.asked
        if beat.asked == JOINING:
            self._join(beat)
        elif beat.topics is not None:
            before = self._topics.get(beat.member)
            if before is not None and before != beat.topics:
                self._waiting.append(Trigger(beat.begin, SUBSCRIPTION_CHANGED, beat.member))
        self._learn(beat)
        self._there.add(beat.member)
        if beat.topics is not None:
            self._topics[beat.member] = beat.topics
        if self._epoch is None or beat.epoch > self._epoch:
            self._open(beat)
        if self._now is not None:
            made = self._now.rebalance
            made.reason = made.reason or beat.status
        self._settle()
        self._reconcile(beat)

    def _settle(self) -> None:
        """What members did before belongs to the epoch that is now known."""
        for change in self._pending:
            change.rebalance = None if self._now is None else self._now.rebalance
        self._changes += self._pending
        self._pending = []

    def _join(self, beat: MemberHeartbeat) -> None:
        self._pending.append(MemberChange(beat.begin, self._how_joins(beat), beat.member))
        back = beat.instance is not None and beat.instance in self.history.instances.values()
        was_there = beat.member in self.history.ids
        self._waiting.append(
            Trigger(beat.begin, REJOINED if back or was_there else MEMBER_JOINED, beat.member)
        )
        self.history.joined.setdefault(beat.member, beat.begin)
        self.history.departures.pop(beat.member, None)
        self._has[beat.member] = frozenset()

    def _how_joins(self, beat: MemberHeartbeat) -> ChangeKind:
        """Whether a member founds the group: it is new, or all that were in it are known to have left."""
        self._whole |= self._epoch is None and 0 < beat.epoch <= NEW
        gone = self.history.departures.keys() | (self._joining - self.history.ids) | {beat.member}
        return ChangeKind.FOUNDS if self._whole and self._known.keys() <= gone else ChangeKind.JOINS

    def _open(self, beat: MemberHeartbeat) -> None:
        """A new epoch: the first of all events that could raise it did so."""
        waiting = self._waiting or self._silent(beat)
        own = [one for one in waiting if one.member == beat.member]
        one_event = self._epoch is not None and beat.epoch == self._epoch + 1
        trigger = min(own or (waiting if one_event else []), key=lambda one: one.time, default=None)
        self._waiting = []
        self._epoch = beat.epoch
        # Somebody may have come or gone that was not seen.
        self._whole &= trigger is not None
        if self._shared and trigger is None:
            return
        made = Rebalance(beat.epoch, beat.end)
        if trigger is not None:
            made.started, made.trigger, made.by = trigger.time, trigger.what, trigger.member
        made.cooperative = True
        self._now = _Epoch(made, self._whole)
        self._epochs.append(self._now)

    def _silent(self, beat: MemberHeartbeat) -> list[Trigger]:
        """Members that were not heard of for long before a new epoch, and not again."""
        found: list[Trigger] = []
        if self._lossy:
            return found
        for member in sorted(self._there - {beat.member}):
            over = self._of(member).timed_out_at()
            if over is not None and over <= beat.end:
                self._go(member, Departure(over, TIMED_OUT))
                found.append(Trigger(over, TIMED_OUT, member))
        return found

    def _reconcile(self, beat: MemberHeartbeat) -> None:
        """What a heartbeat says of the member's assignment."""
        owned, given = self._set(beat.owned), self._set(beat.assigned)
        made = None if self._now is None else self._now.rebalance
        if owned is not None and beat.asked > JOINING:
            self._has.setdefault(beat.member, owned)
            self._changes.append(MemberChange(beat.begin, ChangeKind.HAS, beat.member, made, owned))
        if given is not None and self._is_early(beat.member, given):
            change = MemberChange(beat.end, ChangeKind.GETS, beat.member, None, given)
            self._early[beat.member] = _Part(self._has.get(beat.member), told_at=beat.end), change
            self._has[beat.member] = given
            return
        if given is not None:
            self._changes.append(MemberChange(beat.end, ChangeKind.GETS, beat.member, made, given))
        if self._now is None or made is None:
            if given is not None:
                self._has[beat.member] = given
            return
        part = self._now.parts.get(beat.member)
        if part is None:
            if given is None and beat.epoch == beat.asked:
                return
            early = self._early.pop(beat.member, None)
            part = early[0] if early is not None else _Part(self._has.get(beat.member))
            self._now.parts[beat.member] = part
            if early is not None:
                early[1].rebalance = made
                self._changes.append(early[1])
        if given is not None:
            self._has[beat.member] = given
            part.told_at = beat.end if part.told_at is None else part.told_at
        if owned is not None and part.told_at is not None and part.done is None:
            part.done = beat.end
        if given is not None or beat.epoch != beat.asked:
            made.ended = beat.end
        made.assigned[beat.member] = self._has.get(beat.member)

    def _is_early(self, member: str, given: Assigned) -> bool:
        """True if a member loses something again: it is told so before its epoch is raised (KIP-848), and nobody else
        was seen who knows the next one."""
        part = self._now.parts.get(member) if self._now is not None else None
        return part is not None and part.told_at is not None and not self._has.get(member, given) <= given

    def _set(self, partitions: Partitions | None) -> Assigned | None:
        if partitions is None:
            return None
        return frozenset((self._name(topic), index) for topic, index in flat(partitions))

    # ------------------------------------------------------------------ the whole

    def _finish(self, epoch: _Epoch) -> None:
        made = epoch.rebalance
        # Of what was under way when the capture began it is not known what members had.
        seen = made.trigger != UNKNOWN or epoch is not self._epochs[0]
        for member, part in sorted(epoch.parts.items()):
            now = made.assigned.get(member)
            lost = None if part.before is None or now is None or not seen else part.before - now
            if lost is None or lost:
                made.revoked[member] = lost
            # Those that had nothing wait, from when they wished to join.
            if part.before != frozenset():
                made.stopped[member] = _partly(part, lost)
        self.history.rebalances.append(made)
        members = self.history.ids | self._known.keys()
        if epoch.whole and members <= self.history.joined.keys():
            made.members = sum(self._was_there(member, made) for member in members)
        elif self._lossy:
            made.ended = None  # a member that was not seen may have got its share later

    def _was_there(self, member: str, made: Rebalance) -> bool:
        """True of a member when a rebalance ended."""
        end = made.ended or 0
        departure = self.history.departures.get(member)
        return self.history.joined[member] <= end and (departure is None or departure.time > end)


def _is_settled(made: Rebalance) -> bool:
    """False if somebody waits, or a partition has no owner, at the end of what was seen."""
    return None not in made.stopped.values() and None not in made.unowned.values()


def _partly(part: _Part, lost: Assigned | None) -> int | None:
    """Nanoseconds for which a member stood still that had something: until it has given back what it loses."""
    if lost is None:
        return None
    if not lost:
        return 0
    return None if part.done is None or part.told_at is None else part.done - part.told_at
