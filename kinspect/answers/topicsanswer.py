"""Who produces to and consumes from which topic: a row for each topic, direction, client id and client address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from shlex import quote
from typing import Any, ClassVar

from kinspect.analysis.answer import ROWS_KEPT, Answer, ResultContext, Row
from kinspect.analysis.client import client_key
from kinspect.analysis.delivered import delivered
from kinspect.analysis.grouptopics import MEMBER_APIS, TYING, ClientGroups
from kinspect.analysis.messagebody import Struct, direction_of, message_body
from kinspect.analysis.record import GREATEST, TimedRecord, later
from kinspect.answers.celltexts import ERROR, known, listed, plain, software
from kinspect.answers.definition import Definition, Key
from kinspect.filters.values import CONSUMED, PRODUCED
from kinspect.kafka.bodysummary import RecordField, RecordRoom
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.fetched import Partitions, TopicRef, topic_ref
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import NO_RESPONSE
from kinspect.output.columns import Column
from kinspect.protocol import schema
from kinspect.protocol.apikeys import FETCH, PRODUCE, SHARE_FETCH

TOPICS_COUNTED = ROWS_KEPT
"""Most topics that a request of a fetch session is counted for, though it stands for more and does not name them."""
NO_TOPIC: TopicRef = (None, None)
"""Topics that are not known of a fetch session."""
RECORD_APIS = frozenset({PRODUCE, FETCH, SHARE_FETCH})
"""Keys of the APIs whose record sets are counted."""

_PRODUCED = frozenset(
    {"transactional_id", "acks", "topic_data.name", "topic_data.topic_id", "topic_data.partition_data"}
)
_PRODUCE_ERRORS = frozenset(
    """
    responses.name responses.topic_id responses.partition_responses.index
    responses.partition_responses.error_code
    """.split()
)
_ASKED = frozenset(
    """
    replica_id replica_state session_id session_epoch share_session_epoch topics.topic
    topics.topic_id topics.partitions.partition topics.partitions.partition_index forgotten_topics_data
    """.split()
)
FETCHED_FIELDS = frozenset(
    """
    error_code session_id responses.topic responses.topic_id responses.partitions.partition_index
    responses.partitions.error_code responses.partitions.records responses.partitions.aborted_transactions
    responses.partitions.acquired_records
    """.split()
)

READER_KEYS: Mapping[str, tuple[str, ...]] = {"--topic": ("topic", "topic_id"), "--group": ("groups",)}
"""Keys that filters choose by, of a row of a topic and who reads it."""


@dataclass(slots=True)
class TopicUse(TimedRecord):
    """One client's use of one topic. `seen`: messages with its records that were read to their end; `answers`: answers
    that were, or were not due."""

    partitions: set[int] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    transactional_ids: set[str] = field(default_factory=set)
    software: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    principal: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    requests: int = 0
    batches: int = 0
    records: int = 0
    delivered: int = 0
    uncounted: int = 0
    bytes: int = 0
    codecs: dict[str, int] = field(default_factory=dict)
    acks: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    incomplete: int = 0
    seen: int = 0
    answers: int = 0


class Topics(Answer):
    """Accumulator of the rows. `use`: what it counts of a topic."""

    use: ClassVar[type[TopicUse]] = TopicUse

    # The name of a topic's id may come later; groups are known by their members' requests.
    exempt_apis: ClassVar[Mapping[str, frozenset[int]]] = {
        "--topic": RECORD_APIS | MEMBER_APIS | TYING,
        "--group": frozenset({FETCH}),
    }
    row_keys: ClassVar[Mapping[str, tuple[str, ...]]] = READER_KEYS

    def __init__(self) -> None:
        super().__init__()
        self._uses = self.records(self.use)
        self._groups = ClientGroups(self)

    def add(self, exchange: Exchange) -> None:
        if exchange.request is None:
            return
        if exchange.api_key == PRODUCE:
            self._add_produce(exchange, exchange.request)
        elif exchange.api_key in (FETCH, SHARE_FETCH):
            self._add_fetch(exchange, exchange.request)
        self._groups.add(exchange)

    # ------------------------------------------------------------------ what exchanges say

    def _add_produce(self, exchange: Exchange, request: WireMessage) -> None:
        body, whole = message_body(request, _PRODUCED)
        room = RecordRoom(exchange.connection.caps)
        errors, answered = _errors(exchange.response)
        answered = answered or exchange.outcome == NO_RESPONSE
        for topic, partitions in topics_in(body, "topic_data", "partition_data").items():
            use = self._use(exchange, topic, PRODUCED)
            if use is None:
                continue
            use.requests += 1
            use.incomplete += not whole
            use.seen += whole
            use.answers += answered
            if body.get("acks") is not None:
                self.count(use.acks, str(body["acks"]))
            self.keep(use.transactional_ids, body.get("transactional_id"))
            for partition in partitions:
                self.keep(use.partitions, partition.get("index"))
                self._add_records(use, exchange, room, partition)
            for name in errors.get(topic, ()):
                self.count(use.errors, name)

    def _add_fetch(self, exchange: Exchange, request: WireMessage) -> None:
        asked, whole = message_body(request, _ASKED)
        answer, answered = message_body(exchange.response, FETCHED_FIELDS)
        room = RecordRoom(exchange.connection.caps)
        direction = CONSUMED if exchange.api_key == SHARE_FETCH else direction_of(asked, whole)
        named, fetched = _asked_for(exchange, asked, whole), topics_in(answer, "responses", "partitions")
        if not whole and (use := self._uses.of(NO_TOPIC, direction, *client_key(exchange))) is not None:
            use.incomplete += 1
        for topic in self._counted(named, fetched):
            use = self._use(exchange, topic, direction)
            if use is None:
                continue
            use.requests += 1
            use.incomplete += not whole or (exchange.response is not None and not answered)
            use.seen += answered
            use.answers += answered
            for index in named.get(topic, frozenset()) - use.partitions:
                self.keep(use.partitions, index)
            for partition in fetched.get(topic, ()):
                self.keep(use.partitions, partition.get("partition_index"))
                self._add_records(use, exchange, room, partition)
                if partition.get("error_code"):
                    self.count(use.errors, schema.error_name(partition["error_code"], exchange.api_key))
            if answer.get("error_code"):
                self.count(use.errors, schema.error_name(answer["error_code"], exchange.api_key))

    def _counted(self, named: Partitions, fetched: Mapping[TopicRef, Any]) -> Iterable[TopicRef]:
        """Topics of a fetch: all that its answer has, and the first ones that it stands for."""
        if len(named) <= TOPICS_COUNTED:
            return {**named, **fetched}
        own = [topic for topic in (NO_TOPIC,) if topic in named]
        found = dict.fromkeys((*own, *fetched, *islice(named, TOPICS_COUNTED)))
        self.left_out += len(named) - sum(topic in named for topic in found)
        return found

    def _add_records(self, use: TopicUse, exchange: Exchange, room: RecordRoom, partition: Struct) -> None:
        """Count the batches of a partition's record set."""
        value = partition.get("records")
        if value is None:
            return
        found = RecordField(value, True, room, exchange.connection.counts)
        use.bytes += len(value)
        use.batches += len(found.batches())
        for batch in found.batches():
            self.count(use.codecs, batch["compression"])
        if found.count is None:
            use.uncounted += 1
        else:
            use.records += found.count
            use.delivered += delivered(found, partition) or 0

    def _use(self, exchange: Exchange, topic: TopicRef, direction: str | None) -> TopicUse | None:
        use = self._uses.of(topic, direction, *client_key(exchange))
        if use is None:
            return None
        use.note_time(exchange.timestamp)
        name, version = exchange.software_name, exchange.software_version
        use.software = later(use.software, exchange.key, (name, version) if name or version else None)
        use.principal = later(use.principal, exchange.key, exchange.principal)
        return use

    # ------------------------------------------------------------------ the whole

    def result(self, context: ResultContext) -> list[Row]:
        groups_of = self._groups.named(context)
        rows = []
        for key, topic_id, use in self._named(context):
            topic, direction, client_id, client_ip = key
            groups = groups_of((client_id, client_ip), topic) if direction == CONSUMED else []
            rows.append(_row(key, topic_id, use, groups))
        return sorted(rows, key=_place)

    def _named(self, context: ResultContext) -> list[tuple[tuple[Any, ...], str | None, TopicUse]]:
        """What was counted, by the name of the topic, with its id."""
        uses: dict[tuple[Any, ...], TopicUse] = {}
        ids: dict[tuple[Any, ...], str | None] = {}
        for (topic, direction, *client), use in self._uses.items():
            key = context.topic_name(topic), direction, *client
            uses.setdefault(key, self.use()).merge(use)
            ids[key] = topic[1] or ids.get(key)
        return [(key, ids[key], use) for key, use in uses.items()]


def _place(row: Row) -> tuple[Any, ...]:
    """The order of rows: the largest first."""
    names = row["topic"] or "", row["direction"] or "", row["client_id"] or "", row["client_ip"]
    return -(row["bytes"] or 0), -row["requests"], *names


def _row(key: tuple[Any, ...], topic_id: str | None, use: TopicUse, groups: list[str]) -> Row:
    topic, direction, client_id, client_ip = key
    name, version = use.software[1] if use.software else (None, None)
    known = topic is not None
    counted = known and bool(use.seen or use.bytes)
    return {
        "topic": topic,
        "topic_id": topic_id,
        "direction": direction,
        "client_id": client_id,
        "client_ip": client_ip,
        "software_name": name,
        "software_version": version,
        "principal": use.principal[1] if use.principal else None,
        "groups": groups,
        "transactional_ids": sorted(use.transactional_ids),
        "partitions": len(use.partitions) if known else None,
        "requests": use.requests,
        "batches": use.batches if counted else None,
        "records": use.records if counted and not use.uncounted else None,
        "delivered": use.delivered if direction == CONSUMED and counted and not use.uncounted else None,
        "bytes": use.bytes if counted else None,
        "codecs": dict(sorted(use.codecs.items())) if counted else None,
        "acks": dict(sorted(use.acks.items())),
        "errors": dict(sorted(use.errors.items())) if use.errors or use.answers else None,
        **use.times,
        "incomplete": use.incomplete,
    }


def topics_in(body: Struct | None, topics: str, partitions: str) -> dict[TopicRef, list[Struct]]:
    """What a body has of each topic's partitions. Brokers may name a topic more than once."""
    found: dict[TopicRef, list[Struct]] = {}
    for topic in (body or {}).get(topics) or ():
        found.setdefault(topic_ref(topic), []).extend(topic.get(partitions) or ())
    return found


def _asked_for(exchange: Exchange, asked: Struct, whole: bool) -> Partitions:
    """The partitions that a fetch names, or those of its session; `NO_TOPIC` too if it has others."""
    session = exchange.fetched
    found = (
        session.partitions
        if session is not None
        else {
            topic: frozenset(index for part in parts if (index := index_of(part)) is not None)
            for topic, parts in topics_in(asked, "topics", "partitions").items()
        }
    )
    others = whole and session is not None and not session.whole
    return {**found, NO_TOPIC: frozenset()} if others else found


def index_of(partition: Struct) -> int | None:
    return partition.get("partition", partition.get("partition_index"))


def _errors(response: WireMessage | None) -> tuple[dict[TopicRef, list[str]], bool]:
    """Names of the error codes in an answer to Produce, by topic; and whether it was read to its end."""
    body, whole = message_body(response, _PRODUCE_ERRORS)
    return {
        topic: [schema.error_name(part["error_code"], PRODUCE) for part in parts if part.get("error_code")]
        for topic, parts in topics_in(body, "responses", "partition_responses").items()
    }, whole


def _delivered(row: Row) -> str:
    """Where it is not all records."""
    return "" if row["delivered"] in (None, row["records"]) else known(row["delivered"])


def reading_topic(file: str, rows: list[Row], command: str = "read") -> str:
    """The command that shows the first topic of the rows."""
    named = [row["topic"] for row in rows if row["topic"]]
    return f"kinspect {command} {file}" + (f" --topic {quote(named[0])}" if named else "")


USE_KEYS = (
    Key("topic", "text", "Topic name, or its id if the capture has no name for it", "TOPIC", opens="topic"),
    Key("topic_id", "text"),
    Key("direction", "text", "produce, consume or replicate", "DIRECTION"),
    Key("client_id", "text", "", "CLIENT ID", opens="client-id"),
)
"""Keys of a row for each topic, direction and client."""

ANSWER = Definition(
    Topics,
    help="Who produces to and consumes from which topic.",
    page="2",
    page_help="who produces and consumes",
    columns=(
        *USE_KEYS,
        Key("client_ip", "text", "", "ADDRESS", plain, rank=2, opens="client-host"),
        Key("software_name", "text"),
        Key("software_version", "text"),
        Column("SOFTWARE", software, rank=3),
        Key("principal", "text", "User name that the client logged in as", "PRINCIPAL", plain, rank=6),
        Key(
            "groups",
            "texts",
            "Groups of the same client id and address, tied to the topic",
            "GROUPS",
            listed,
            rank=1,
        ),
        Key("transactional_ids", "texts"),
        Key("partitions", "long", "Number of the topic's partitions that it used"),
        Key(
            "requests",
            "long",
            "Requests that named the topic, or stood for it in a fetch session",
            "REQUESTS",
        ),
        Key("batches", "long", "Batches on the wire, with rejected ones and retries"),
        Key("records", "long", "Records of these batches", "RECORDS"),
        Key("delivered", "long", "Records that reached a consumer", "DELIVERED", cell=_delivered),
        Key("bytes", "long", "Bytes of these batches", "BYTES"),
        Key("codecs", "counts", "Batches by compression", "CODECS", listed, rank=4),
        Key("acks", "counts", "Requests by acks, of producers", "ACKS", lambda acks: listed([*acks]), rank=5),
        Key(
            "errors",
            "counts",
            "Error codes of responses for the topic, by name",
            "ERRORS",
            listed,
            style=ERROR,
        ),
        Key("first", "time", "When the first request began"),
        Key("last", "time", "When the last request began"),
        Key("incomplete", "long", "Requests and responses that could not be read to their end"),
    ),
    order="TOPIC, DIRECTION, CLIENT ID, ADDRESS, REQUESTS, RECORDS, DELIVERED, BYTES, ERRORS, GROUPS, CODECS, ACKS, "
    "PRINCIPAL, SOFTWARE",
    identity="topic direction client_id",
    addresses="client_ip",
    compared="principal acks records",
    nothing="no topic was produced to or consumed from",
    more=reading_topic,
)
