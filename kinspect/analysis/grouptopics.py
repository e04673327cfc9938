"""Which topics groups are about, as the wire says: by subscriptions, assignments, offsets read and committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kinspect.analysis import groupevents as events
from kinspect.analysis.answer import Topic
from kinspect.analysis.groupevents import JOIN_FIELDS, SYNC_FIELDS, Fields, Partitions, Struct, bodies
from kinspect.analysis.membership import BY_EPOCH
from kinspect.analysis.record import Record
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.fetched import topic_ref
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


@dataclass(slots=True)
class GroupTopics(Record):
    """Topics that a group is about."""

    topics: set[Topic] = field(default_factory=set)


def ties(exchange: Exchange) -> list[tuple[str, list[Topic]]]:
    """The groups whose topics an exchange shows, with these topics."""
    told = _TOLD.get(exchange.api_key or 0)
    if told is None or exchange.request is None:
        return []
    fields, find = told
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
_BEATS = (
    frozenset({"group_id", "subscribed_topic_names", "topic_partitions"}),
    frozenset({"assignment"}),
)
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
_TOLD: dict[int, tuple[Fields, Callable[[Exchange, Struct, Struct], Ties]]] = {
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
TYING = frozenset(_TOLD)
