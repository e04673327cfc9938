"""Which topics groups are about, as the wire says: by subscriptions, assignments, offsets read and committed; and which
groups a client is in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kinspect.analysis import groupevents as events
from kinspect.analysis.answer import Answer, ResultContext, Topic
from kinspect.analysis.client import ClientKey, client_key
from kinspect.analysis.groupevents import JOIN_FIELDS, SYNC_FIELDS, Fields, Partitions, Struct, bodies
from kinspect.analysis.membership import BY_EPOCH
from kinspect.analysis.record import Record
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.fetched import topic_ref
from kinspect.protocol import schema
from kinspect.protocol.apikeys import (
    JOIN_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    STREAMS_GROUP_HEARTBEAT,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)

Ties = Iterator[tuple[str | None, Iterable[Topic]]]
_NAMED = (frozenset({"group_id", "groups.group_id"}), frozenset[str]())


@dataclass(slots=True)
class GroupTopics(Record):
    """Topics that a group is about."""

    topics: set[Topic] = field(default_factory=set)


@dataclass(slots=True)
class _ClientGroups(Record):
    """Groups that a client id at an address is in."""

    groups: set[str] = field(default_factory=set)


class ClientGroups:
    """The groups that clients are in, with the topics that these are about, as records of an answer."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._clients = answer.records(_ClientGroups)
        self._tied = answer.records(GroupTopics)

    def add(self, exchange: Exchange) -> None:
        """Add what a request says."""
        if (
            exchange.api_key in MEMBER_APIS
            and (client := self._clients.of(*client_key(exchange))) is not None
        ):
            asked, _ = bodies(exchange, _NAMED)
            for named in asked.get("groups") or [asked]:
                self._answer.keep(client.groups, named.get("group_id"))
        for group, topics in ties(exchange):
            tied = self._tied.of(group)
            if tied is not None:
                for topic in topics:
                    self._answer.keep(tied.topics, topic)

    def named(self, context: ResultContext) -> Callable[[ClientKey, str | None], list[str]]:
        """What gives the groups of a client that are about a topic by its name; all of them of a topic that is not
        known."""
        tied = {
            group: {context.topic_name(topic) for topic in found.topics}
            for (group,), found in self._tied.items()
        }
        clients = {client: found.groups for client, found in self._clients.items()}

        def groups(client: ClientKey, topic: str | None) -> list[str]:
            found = clients.get(client, set())
            return sorted(group for group in found if topic is None or topic in tied.get(group, ()))

        return groups


def ties(exchange: Exchange) -> list[tuple[str, list[Topic]]]:
    """The groups whose topics an exchange shows, with these topics."""
    tying = _TIES.get(exchange.api_key or 0)
    if tying is None or exchange.request is None:
        return []
    fields, find = tying
    asked, answer = bodies(exchange, fields)
    return [
        (group, known)
        for group, topics in find(exchange, asked, answer or {})
        if group and (known := [(name or None, topic_id) for name, topic_id in topics if name or topic_id])
    ]


def _joined(exchange: Exchange, asked: Struct, answer: Struct) -> Ties:
    event = events.joined(exchange, asked, answer)
    yield asked.get("group_id"), [(topic, None) for topic in (*(event.topics or ()), *_names(event.owned))]


def _synced(exchange: Exchange, asked: Struct, answer: Struct) -> Ties:
    event = events.synced(exchange, asked, answer)
    assigned = [event.assigned, *(given for _, given in event.given)]
    yield asked.get("group_id"), [(topic, None) for given in assigned for topic in _names(given)]


def _names(partitions: Partitions | None) -> Iterator[str]:
    return (topic for topic, _ in partitions or ())


def _beaten(_: Exchange, asked: Struct, answer: Struct) -> Ties:
    assignment = answer.get("assignment") or {}
    named = [
        *(asked.get("topic_partitions") or ()),
        *(assignment.get("topic_partitions") or ()),
        *(assignment.get("assigned_topic_partitions") or ()),
    ]
    names = asked.get("subscribed_topic_names") or ()
    yield asked.get("group_id"), [*((name, None) for name in names), *map(topic_ref, named)]


def _streamed(_: Exchange, asked: Struct, answer: Struct) -> Ties:
    parts = (asked.get("topology") or {}).get("subtopologies") or ()
    names = [name for part in parts for name in part.get("source_topics") or ()]
    names += [
        one["name"] for part in parts for one in part.get("repartition_source_topics") or () if "name" in one
    ]
    yield asked.get("group_id"), [(name, None) for name in names]


def _offsets(_: Exchange, asked: Struct, answer: Struct) -> Ties:
    """Offsets of one group, or of several (OffsetFetch 8). What is refused is about the topic all the same."""
    group = asked.get("group_id")
    for body in (asked, answer):
        for one in ({"group_id": group, **body}, *(body.get("groups") or ())):
            yield one.get("group_id"), [topic_ref(topic) for topic in one.get("topics") or ()]


_OFFSETS = frozenset(
    """
    group_id topics.name topics.topic_id groups.group_id groups.topics.name groups.topics.topic_id
    """.split()
)
_BEATS = (frozenset({"group_id", "subscribed_topic_names", "topic_partitions"}), frozenset({"assignment"}))
_TOPOLOGY = (
    frozenset(
        {
            "group_id",
            "topology.subtopologies.source_topics",
            "topology.subtopologies.repartition_source_topics",
        }
    ),
    frozenset[str](),
)
_TIES: dict[int, tuple[Fields, Callable[[Exchange, Struct, Struct], Ties]]] = {
    JOIN_GROUP: (JOIN_FIELDS, _joined),
    SYNC_GROUP: (SYNC_FIELDS, _synced),
    **dict.fromkeys(BY_EPOCH, (_BEATS, _beaten)),
    STREAMS_GROUP_HEARTBEAT: (_TOPOLOGY, _streamed),
    **dict.fromkeys(
        (OFFSET_COMMIT, TXN_OFFSET_COMMIT, OFFSET_FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE),
        ((_OFFSETS, _OFFSETS - {"group_id"}), _offsets),
    ),
}
"""APIs that tie groups to topics: the fields that are needed, and what finds the ties."""
TYING = frozenset(_TIES)
MEMBER_APIS = schema.apis_with("member") | {OFFSET_FETCH, SHARE_FETCH}
"""APIs whose requests name the group their client is in."""
