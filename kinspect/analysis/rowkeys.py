"""What rows can be apart by: the names of `--by`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

from kinspect.analysis.answer import ResultContext, Row, Topic, topics_of
from kinspect.analysis.client import client_key
from kinspect.errors import KinspectError
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import iso_time
from kinspect.kafka.wire.endpoints import Endpoints, endpoint
from kinspect.model import NS_PER_SECOND

NS_PER_MINUTE = 60 * NS_PER_SECOND
NO_TOPIC: Topic = (None, None)
TOPIC, PARTITION = "topic", "partition"
PLACES = frozenset({TOPIC, PARTITION})

Partition = tuple[Topic, str | None]
"""A topic and a partition's number as text."""
NO_PARTITION: Partition = (NO_TOPIC, None)
Place = tuple[Topic, Partition]
"""A topic with one of its partitions, or with none."""


class RowKey(NamedTuple):
    """`keys`: those of a row; `values`: an exchange's, each a tuple of as many where there are several keys."""

    keys: tuple[str, ...]
    values: Callable[[Exchange], Sequence[Any]]


def _minute(exchange: Exchange) -> str | None:
    time = exchange.timestamp
    return None if time is None else iso_time(time - time % NS_PER_MINUTE)


def _broker(ends: Endpoints) -> str | None:
    return endpoint(ends.broker_ip, ends.broker_port) if ends.broker_ip else None


def _is_partly_known(exchange: Exchange) -> bool:
    """True for a Fetch of a session that began before its connection was seen: it stands for unknown topics too."""
    return exchange.fetched is not None and not exchange.fetched.whole


def _topics(exchange: Exchange) -> list[Topic]:
    found = topics_of(exchange)
    return [*found, NO_TOPIC] if _is_partly_known(exchange) or not found else found


def _partitions(exchange: Exchange) -> list[Partition]:
    found = _partitions_named(exchange)
    return [*found, NO_PARTITION] if _is_partly_known(exchange) or not found else found


def _partitions_named(exchange: Exchange) -> list[Partition]:
    summary = exchange.summary
    return [partition_of(name, summary.unresolved_topic_ids) for name in summary.partitions]


def _places(exchange: Exchange) -> list[Place]:
    """Each partition with its topic, and each topic of which there is none."""
    partitions = _partitions_named(exchange)
    there = {topic for topic, _ in partitions}
    alone = [(topic, NO_PARTITION) for topic in _topics(exchange) if topic not in there]
    return [(partition[0], partition) for partition in partitions] + alone


def topic_of(name: str, nameless: Container[str]) -> Topic:
    """A topic, by its name or its id. `nameless`: ids that have no name."""
    return (None, name) if name in nameless else (name, None)


def partition_of(name: str, nameless: Container[str]) -> Partition:
    """A partition, by a text such as `topic-0`. `nameless`: ids of topics that have no name."""
    topic, _, index = name.rpartition("-")
    return topic_of(topic, nameless), index


BY = {
    "api": RowKey(("api",), lambda exchange: [exchange.api]),
    "client": RowKey(("client_id", "client_ip"), lambda exchange: [client_key(exchange)]),
    "principal": RowKey(("principal",), lambda exchange: [exchange.principal]),
    "transactional_id": RowKey(
        ("transactional_id",), lambda exchange: exchange.summary.transactional_ids or [None]
    ),
    "broker": RowKey(("broker",), lambda exchange: [_broker(exchange.connection)]),
    TOPIC: RowKey((TOPIC,), _topics),
    PARTITION: RowKey((PARTITION,), _partitions),
    "minute": RowKey(("minute",), lambda exchange: [_minute(exchange)]),
}
"""Names of `--by`."""


def names_of(text: str | None, default: str, known: Collection[str] = BY.keys()) -> list[str]:
    """The names in a text such as `client,minute`; `default` without one. Raises KinspectError for one that is not
    among `known`."""
    found = [name.strip() for name in (default if text is None else text).split(",")]
    if unknown := [name for name in found if name not in known]:
        raise KinspectError(f"--by cannot be {unknown[0]!r}; it is one of {', '.join(known)}")
    return list(dict.fromkeys(found))


def keys_of(
    names: Sequence[str], exchange: Exchange, place: Place | None = None
) -> Iterable[tuple[Any, ...]]:
    """The keys of the rows that an exchange counts for; topics and partitions are of one place. `place`: of several the
    only one."""
    values = [BY[name].values(exchange) for name in names]
    places: Sequence[Place] = [place] if place else _places(exchange) if set(names) >= PLACES else ()
    if not places:
        return product(*values)
    found: list[tuple[Any, ...]] = []
    for topic, partition in places:
        at = {TOPIC: topic, PARTITION: partition}
        found += product(
            *[[at[name]] if name in at else own for name, own in zip(names, values, strict=True)]
        )
    return found


def named(names: Iterable[str], values: Iterable[Any], context: ResultContext) -> tuple[Any, ...]:
    """Values with the names of topics that the whole run learned."""
    return tuple(_named(name, value, context) for name, value in zip(names, values, strict=True))


def _named(name: str, value: Any, context: ResultContext) -> Any:
    if name == TOPIC:
        return context.topic_name(value)
    if name == PARTITION:
        topic, index = value
        return None if index is None else f"{context.topic_name(topic)}-{index}"
    return value


def keys(names: Iterable[str], values: Iterable[Any]) -> Row:
    """The keys of a row."""
    row: Row = {}
    for name, value in zip(names, values, strict=True):
        own = BY[name].keys
        row.update(zip(own, value if len(own) > 1 else (value,), strict=True))
    return row
