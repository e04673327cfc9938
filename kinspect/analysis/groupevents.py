"""Events of groups, as exchanges show them: plain tuples in the order of their lines' keys.

Members of classic groups send JoinGroup, SyncGroup, Heartbeat and LeaveGroup; those of consumer groups (KIP-848), share
groups (KIP-932) and streams groups (KIP-1071) send heartbeats alone, in which a member epoch of 0 joins, -1 leaves, and
-2 leaves for a while (static members).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.fields.groupbytes import GROUP_BYTES, read_group_bytes
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.kafka.wire.message import WireMessage

NONE, ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING = 0, 22, 25, 27
MEMBER_ID_REQUIRED, FENCED_INSTANCE, FENCED_EPOCH = 79, 82, 110
WELL = frozenset({NONE, REBALANCING})
"""Error codes of answers to members that are in the group."""
JOINING, LEAVING_FOR_A_WHILE = 0, -2
"""Member epochs of requests."""

Struct = dict[str, Any]
Fields = tuple[frozenset[str], frozenset[str]]
"""Fields of a request and of its answer."""
Partitions = tuple[tuple[str, tuple[int, ...]], ...]
"""Topics, by name or by id, or sub-topologies, with their partitions."""


class JoinedGroup(NamedTuple):
    """A JoinGroup. `asked`: the member id in the request; `member`: the one in the answer, if there is one. `owned`:
    what the member says it has, None if its metadata has no place for that; `members`: what the leader is told, member
    ids with instance ids. `error` is None without an answer; times are nanoseconds."""

    key: LineKey
    begin: int
    end: int
    error: int | None
    asked: str
    member: str
    instance: str | None
    generation: int
    leader: str
    protocol: str | None
    reason: str | None
    topics: tuple[str, ...] | None
    owned: Partitions | None
    members: tuple[tuple[str, str | None], ...]


class SyncedGroup(NamedTuple):
    """A SyncGroup. `assigned`: what the member got, None if that is not known; `given`: what the leader gives;
    `has_assignment`: true if the answer has one, of whatever protocol."""

    key: LineKey
    begin: int
    end: int
    error: int | None
    member: str
    generation: int
    assigned: Partitions | None
    given: tuple[tuple[str, Partitions | None], ...]
    has_assignment: bool


class RefusedRequest(NamedTuple):
    """A Heartbeat or an OffsetCommit of a member that was answered with an error."""

    key: LineKey
    begin: int
    end: int
    error: int
    member: str
    heartbeat: bool


class LeftGroup(NamedTuple):
    """A LeaveGroup that was not refused: member id, instance id and reason of those that leave."""

    key: LineKey
    begin: int
    end: int
    members: tuple[tuple[str, str | None, str | None], ...]


class MemberHeartbeat(NamedTuple):
    """A heartbeat by which the member or the broker changes something. `asked` is the member epoch of the request,
    `epoch` of the answer; `assigned`, `owned` and `topics` are None where they are not sent, as nothing changed;
    `status`: what the broker says of the group's state (KIP-1071)."""

    key: LineKey
    begin: int
    end: int
    error: int | None
    member: str
    instance: str | None
    asked: int
    epoch: int
    assigned: Partitions | None
    owned: Partitions | None
    topics: tuple[str, ...] | None
    status: str | None


JOIN_FIELDS = (
    frozenset(
        "group_id member_id group_instance_id session_timeout_ms protocol_type protocols reason".split()
    ),
    frozenset(
        """
        error_code generation_id protocol_name leader member_id members.member_id members.group_instance_id
        """.split()
    ),
)
SYNC_FIELDS = (
    frozenset({"group_id", "member_id", "generation_id", "protocol_type", "assignments"}),
    frozenset({"error_code", "protocol_type", "assignment"}),
)
HEARTBEAT_FIELDS = (frozenset({"group_id", "member_id", "group_instance_id"}), frozenset({"error_code"}))
LEAVE_FIELDS = (frozenset({"group_id", "member_id", "members"}), frozenset({"error_code", "members"}))
BEAT_FIELDS = (
    frozenset(
        """
        group_id member_id member_epoch instance_id server_assignor subscribed_topic_names
        subscribed_topic_regex topic_partitions active_tasks
        """.split()
    ),
    frozenset(
        """
        error_code member_id member_epoch heartbeat_interval_ms assignment active_tasks status.status_detail
        """.split()
    ),
)


def bodies(exchange: Exchange, fields: Fields) -> tuple[Struct, Struct | None]:
    """Fields of the request and of the answer, as far as they could be read; None without an answer."""
    request, response = exchange.request, exchange.response
    asked = _body(request, fields[0]) or {}
    return asked, _body(response, fields[1])


def _body(message: WireMessage | None, fields: frozenset[str]) -> Struct | None:
    return None if message is None else message.facts(fields).body


def _whole_list(message: WireMessage | None, fields: frozenset[str], name: str) -> list[Struct]:
    """A list in a message that was read to its end: of a part of it nobody knows who is missing."""
    decoded = None if message is None else message.decode(fields)
    return (decoded.body or {}).get(name) or [] if decoded is not None and decoded.complete else []


def times(exchange: Exchange) -> tuple[LineKey, int, int]:
    """The key, the time at which the request began, and that of its answer's end. Where the capture has no times they
    are those of the key."""
    key = exchange.key
    begin, end = exchange.timestamp, exchange.completed_at
    return key, key[0] if begin is None else begin, key[0] if end is None else end


def joined(exchange: Exchange, asked: Struct, answer: Struct | None) -> JoinedGroup:
    """The event of a JoinGroup."""
    answer = answer or {}
    chosen = answer.get("protocol_name") or None
    offered = [one for one in asked.get("protocols") or () if "metadata" in one]
    mine = next((one for one in offered if one.get("name") == chosen), offered[0] if offered else {})
    reader = GROUP_BYTES["JoinGroupRequest", "metadata"]
    metadata = read_group_bytes(reader, mine.get("metadata"), asked.get("protocol_type", "")) or {}
    topics, owned = metadata.get("topics"), metadata.get("owned_partitions")
    member = asked.get("member_id") or ""
    error = answer.get("error_code")
    return JoinedGroup(
        *times(exchange),
        # An answer that was cut before the member id says nothing of a member.
        None if error == NONE and not answer.get("member_id") else error,
        member,
        answer.get("member_id") or member,
        asked.get("group_instance_id"),
        answer.get("generation_id", -1),
        answer.get("leader") or "",
        chosen,
        asked.get("reason") or None,
        None if topics is None else tuple(sorted(topics)),
        None if owned is None else _named(owned),
        tuple(
            (one.get("member_id", ""), one.get("group_instance_id"))
            for one in _whole_list(exchange.response, JOIN_FIELDS[1], "members")
        ),
    )


def synced(exchange: Exchange, asked: Struct, answer: Struct | None) -> SyncedGroup:
    """The event of a SyncGroup."""
    answer = answer or {}
    kind = answer.get("protocol_type") or asked.get("protocol_type")
    return SyncedGroup(
        *times(exchange),
        answer.get("error_code"),
        asked.get("member_id") or "",
        asked.get("generation_id", -1),
        _assignment(answer.get("assignment"), kind),
        tuple(
            (one.get("member_id", ""), _assignment(one.get("assignment"), kind))
            for one in _whole_list(exchange.request, SYNC_FIELDS[0], "assignments")
        ),
        answer.get("assignment") is not None,
    )


def _assignment(data: bytes | None, kind: str | None) -> Partitions | None:
    """The partitions in a classic assignment, which for none may have no bytes; None if it cannot be read."""
    if data == b"":
        return ()
    found = read_group_bytes(GROUP_BYTES["SyncGroupResponse", "assignment"], data, kind)
    return None if found is None else _named(found.get("assigned_partitions") or ())


def left(exchange: Exchange, asked: Struct, answer: Struct | None) -> LeftGroup | None:
    """The event of a LeaveGroup; None if all of it was refused. A client that leaves may not wait for the answer."""
    answer = answer or {}
    if answer.get("error_code"):
        return None
    refused = {
        (one.get("member_id"), one.get("group_instance_id"))
        for one in answer.get("members") or ()
        if one.get("error_code")
    }
    members = asked.get("members")
    if members is None:
        members = [{"member_id": asked["member_id"]}] if asked.get("member_id") else []
    leaving = tuple(
        (one.get("member_id") or "", one.get("group_instance_id"), one.get("reason") or None)
        for one in members
        if (one.get("member_id"), one.get("group_instance_id")) not in refused
    )
    return LeftGroup(*times(exchange), leaving) if leaving else None


def beat(exchange: Exchange, asked: Struct, answer: Struct | None) -> MemberHeartbeat | None:
    """The event of a heartbeat; None if nothing happens in it."""
    found = MemberHeartbeat(
        *times(exchange),
        None if answer is None else answer.get("error_code"),
        (answer or {}).get("member_id") or asked.get("member_id") or "",
        asked.get("instance_id"),
        asked.get("member_epoch", 0),
        (answer or {}).get("member_epoch", 0),
        _assigned(answer or {}),
        _parts(asked.get("topic_partitions", asked.get("active_tasks"))),
        _subscription(asked),
        "; ".join(
            one["status_detail"] for one in (answer or {}).get("status") or () if one.get("status_detail")
        )
        or None,
    )
    tells = any(part is not None for part in (found.assigned, found.owned, found.topics))
    goes_on = found.error == NONE and found.asked == found.epoch and found.asked > JOINING
    return None if goes_on and not tells else found


def _assigned(answer: Struct) -> Partitions | None:
    """What a heartbeat's answer assigns: of streams groups, active tasks; None if nothing changes."""
    if "active_tasks" in answer:
        return _parts(answer["active_tasks"])
    assignment = answer.get("assignment")
    if assignment is None:
        return None
    # Releases 3.5 and 3.6 name it otherwise.
    return _parts(assignment.get("topic_partitions", assignment.get("assigned_topic_partitions")))


def _subscription(asked: Struct) -> tuple[str, ...] | None:
    names, pattern = asked.get("subscribed_topic_names"), asked.get("subscribed_topic_regex")
    if names is None and pattern is None:
        return None
    return tuple(sorted(names or ())) + ((pattern,) if pattern else ())


def _parts(entries: Iterable[Struct] | None) -> Partitions | None:
    """Partitions of topics by id, or tasks of sub-topologies."""
    if entries is None:
        return None
    return tuple(
        (one.get("topic_id") or one.get("subtopology_id") or "", tuple(one.get("partitions") or ()))
        for one in entries
    )


def _named(entries: Iterable[Struct]) -> Partitions:
    return tuple((one["topic"], tuple(one["partitions"])) for one in entries)


def size(event: Sequence[Any]) -> int:
    """One for the event, and one for each name and number in its lists."""
    return 1 + sum(_held(value) for value in event[1:] if isinstance(value, tuple))


def _held(value: Any) -> int:
    return sum(map(_held, value)) if isinstance(value, tuple) else 1 if value is not None else 0


def flat(partitions: Partitions) -> Iterator[tuple[str, int]]:
    """Each partition with its topic."""
    return ((topic, index) for topic, indexes in partitions for index in indexes)
