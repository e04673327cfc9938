"""What is kept of a group, and its row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kinspect.analysis.acquisitions import Acquisitions
from kinspect.analysis.answer import Row, Topic
from kinspect.analysis.groupevents import JoinedGroup, LeftGroup, MemberHeartbeat, RefusedRequest, SyncedGroup
from kinspect.analysis.lags import (
    Offsets,
    Partition,
    Place,
    by_name,
    committed_row,
    joined_pending,
    over_time,
    spans_by_name,
)
from kinspect.analysis.rebalances import Classic, Departure, GroupHistory, MemberTimes
from kinspect.analysis.reconciledgroups import ReconciledGroup
from kinspect.analysis.record import EARLIEST, GREATEST, LATEST, LEAST, Record
from kinspect.analysis.standstill import Assigned, Rebalance
from kinspect.kafka.view.view import iso_time, milliseconds

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
MILLISECOND = 1_000_000
MISSED_BEATS = 3
"""A member of which no heartbeat was seen for so many of its intervals, and none later, has timed out."""


@dataclass(slots=True)
class Group(Record):
    """Events of one group, and what was last said of it. `tried`: the kind that a refused request takes it for;
    `begun`: first offsets that were committed or read; `spans`: the last ones of each span of time (`--every`)."""

    kind: tuple[Any, ...] | None = field(default=None, metadata=GREATEST)
    tried: tuple[Any, ...] | None = field(default=None, metadata=GREATEST)
    protocol: tuple[Any, ...] | None = field(default=None, metadata=GREATEST)
    coordinator: tuple[Any, ...] | None = field(default=None, metadata=GREATEST)
    found: tuple[Any, ...] | None = field(default=None, metadata=GREATEST)
    joins: set[JoinedGroup] = field(default_factory=set)
    syncs: set[SyncedGroup] = field(default_factory=set)
    refused: set[RefusedRequest] = field(default_factory=set)
    leaves: set[LeftGroup] = field(default_factory=set)
    beats: set[MemberHeartbeat] = field(default_factory=set)
    committed: dict[Place, Any] = field(default_factory=dict, metadata=LATEST)
    pending: dict[tuple[str, Place], Any] = field(default_factory=dict, metadata={"choose": joined_pending})
    begun: dict[Place, Any] = field(default_factory=dict, metadata=EARLIEST)
    spans: dict[tuple[Place, int], Any] = field(default_factory=dict, metadata=LATEST)
    topics: set[Topic] = field(default_factory=set)
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Member(Record):
    """A member: its client and address, its session timeout or its heartbeats' interval, when it was heard of, and when
    it first committed offsets, and was first told of no rebalance."""

    client: tuple[Any, ...] | None = field(default=None, metadata=LEAST)
    instance: tuple[Any, ...] | None = field(default=None, metadata=GREATEST)
    session: tuple[Any, ...] | None = field(default=None, metadata=GREATEST)
    interval: tuple[Any, ...] | None = field(default=None, metadata=GREATEST)
    first: int | None = field(default=None, metadata=LEAST)
    alive: int | None = field(default=None, metadata=GREATEST)
    held: int | None = field(default=None, metadata=LEAST)
    calm: int | None = field(default=None, metadata=LEAST)
    listed: int = 0


def row(
    group: str,
    found: Group,
    members: dict[str, Member],
    acquired: dict[str, Acquisitions],
    commits: dict[Partition, Any],
    reads: dict[Partition, Any],
    offsets: Offsets,
    lossy: bool,
) -> Row:
    """The row of a group. `acquired`: by members of a share group; `commits`: its last commits; `reads`: how far its
    clients fetched; `lossy`: some of its messages may have been lost."""
    begun = by_name(found.begun, offsets.name, min)
    known = {member: _known(one) for member, one in members.items()}
    classic = Classic(
        _in_order(JoinedGroup, found.joins),
        _in_order(SyncedGroup, found.syncs),
        _in_order(RefusedRequest, found.refused),
        _in_order(LeftGroup, found.leaves),
        known,
        lossy,
    ).history
    seen = found.kind or found.tried
    kind: str | None = seen[1] if seen is not None else None
    reconciled = ReconciledGroup(
        _in_order(MemberHeartbeat, found.beats), known, offsets.name, kind == SHARE, lossy
    ).history
    coordinator = found.coordinator or found.found
    rebalances = sorted([*classic.rebalances, *reconciled.rebalances], key=lambda one: one.seen)
    return {
        "group": group,
        "kind": kind,
        "protocol": found.protocol and found.protocol[1],
        "coordinator": coordinator and coordinator[1],
        "members": _members(members, (classic, reconciled), kind),
        "rebalances": [_rebalance(one, members, kind) for one in rebalances],
        "deliveries": {member: one.row(lossy) for member, one in sorted(acquired.items())},
        "topics": _topics(found, offsets),
        "committed": {
            partition(*where): committed_row(
                where, commits[where], begun.get(where), reads.get(where), offsets
            )
            for where in sorted(commits)
        },
        "errors": dict(sorted(found.errors.items())),
    }


def _topics(found: Group, offsets: Offsets) -> list[str]:
    """Names of its topics; an id that nothing names does not show which one it is."""
    named = {topic or offsets.name(topic_id or "") for topic, topic_id in found.topics}
    return sorted(named - {topic_id for topic, topic_id in found.topics if not topic})


def row_place(row: Row) -> tuple[Any, ...]:
    """The order of rows: groups that stood still for longest first, then those that lag most."""
    stops = [stop or 0 for one in row["rebalances"] for stop in one["stopped_ms"].values()]
    lags = [one["lag"] or 0 for one in row["committed"].values()]
    return -max(stops, default=0), -sum(lags), -len(row["rebalances"]), row["group"]


def member_rows(rows: Iterable[Row]) -> list[Row]:
    """A row for each member of the groups that have rows."""
    return [
        {"group": one["group"], **member, "topics": one["topics"]}
        for one in rows
        for member in one["members"]
    ]


def span_rows(groups: dict[str, Group], offsets: Offsets, every: int) -> list[Row]:
    """A row for each group and span of time with something new: its lag at the end of it."""
    rows = []
    for group, found in sorted(groups.items()):
        for span, lags in over_time(spans_by_name(found.spans, offsets.name), offsets):
            known = [lag for lag in lags.values() if lag is not None]
            rows.append(
                {
                    "group": group,
                    "from": iso_time(span * every),
                    "lag": sum(known) if known else None,
                    "partitions": {partition(*where): lag for where, lag in lags.items()},
                    "topics": _topics(found, offsets),
                }
            )
    return rows


E = TypeVar("E", bound=tuple[Any, ...])


def _in_order(kind: Callable[..., E], events: Iterable[tuple[Any, ...]]) -> list[E]:
    """Events, which may have been carried as plain tuples, in the order of their lines."""
    return [kind(*event) for event in sorted(events, key=lambda event: event[0])]


def _known(member: Member) -> MemberTimes:
    patience = None
    if member.session is not None:
        patience = member.session[1] * MILLISECOND
    elif member.interval is not None:
        patience = member.interval[1] * MILLISECOND * MISSED_BEATS
    return MemberTimes(member.first, member.alive, patience, member.held, member.calm)


def _members(members: dict[str, Member], histories: Iterable[GroupHistory], kind: str | None) -> list[Row]:
    """All members, in the order in which they came."""
    named = task if kind == STREAMS else partition
    joined: dict[str, int] = {}
    departures: dict[str, Departure] = {}
    instances: dict[str, str] = {}
    has: dict[str, Assigned] = {}
    ids: set[str] = {name for name, one in members.items() if one.alive is not None or one.listed}
    for history in histories:
        joined |= history.joined
        departures |= history.departures
        instances |= history.instances
        has |= history.has
        ids |= history.ids
    rows = []
    for name in sorted(ids - {""}, key=lambda name: (joined.get(name, 0), name)):
        member = members.get(name, Member())
        client_id, client_ip = member.client[2:] if member.client else (None, None)
        # If only others name them, it is unknown when they left.
        departure = departures.get(name) if member.client or name in joined else None
        parts = has.get(instances.get(name, name))
        rows.append(
            {
                "member_id": name,
                "instance_id": instances.get(name) or (member.instance and member.instance[1]),
                "client_id": client_id,
                "client_ip": client_ip,
                "joined": iso_time(joined.get(name)),
                "left": iso_time(departure and (None if departure.at_latest else departure.time)),
                "left_how": departure and departure.how,
                "left_reason": departure and departure.reason,
                "partitions": None if parts is None else [named(*one) for one in sorted(parts)],
            }
        )
    return rows


def _label(member: str, members: dict[str, Member]) -> str:
    """The client id of a member; its member id where that is not known."""
    client = members[member].client if member in members else None
    return (client and client[2]) or member


def _rebalance(one: Rebalance, members: dict[str, Member], kind: str | None) -> Row:
    name = task if kind == STREAMS else partition

    def united(parts: list[Assigned]) -> list[str]:
        return [name(*one) for one in sorted({each for part in parts for each in part})]

    return {
        "generation": one.generation,
        "started": iso_time(one.started),
        "ended": iso_time(one.ended),
        "trigger": one.trigger,
        "by": one.by and _label(one.by, members),
        "reason": one.reason,
        "members": one.members,
        "cooperative": one.cooperative,
        "stopped_ms": _by_client(one.stopped, members, lambda stops: milliseconds(max(stops))),
        "unowned_ms": {
            name(*place): None if time is None else milliseconds(time)
            for place, time in sorted(one.unowned.items())
        },
        "assigned": _by_client(one.assigned, members, united),
        "revoked": _by_client(one.revoked, members, united),
    }


V = TypeVar("V")


def _by_client(
    values: dict[str, V | None], members: dict[str, Member], join: Callable[[list[V]], Any]
) -> Row:
    """Values by client id: of several members of one client id as one; None if one is not known. Members that others
    name have none."""
    found: dict[str, list[V | None]] = {}
    for member, value in values.items():
        if member in members and members[member].client:
            found.setdefault(_label(member, members), []).append(value)
    known = {client: [one for one in each if one is not None] for client, each in sorted(found.items())}
    return {client: join(each) if len(each) == len(found[client]) else None for client, each in known.items()}


def partition(topic: str, index: int) -> str:
    """A partition's name: `orders-0`."""
    return f"{topic}-{index}"


def task(subtopology: str, index: int) -> str:
    """A task's name, as Kafka Streams has it: `0_1`."""
    return f"{subtopology}_{index}"
