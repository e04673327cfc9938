"""How clients are configured, as far as their requests tell: a row for each client id, address and role."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

from kinspect.analysis.answer import Answer, ResultContext, Row
from kinspect.analysis.client import client_key, newest_versions
from kinspect.analysis.histogram import Histogram, Quantiles
from kinspect.analysis.messagebody import Struct, direction_of, message_body
from kinspect.analysis.record import GREATEST, LATEST, Record, later
from kinspect.analysis.windows import Windows
from kinspect.answers.celltexts import NOTE, listed, plain, reading, software
from kinspect.answers.definition import Clock, Definition, Key
from kinspect.filters.filterdefinitions import CLIENTS, CONNECTIONS, END, START, cutting_more
from kinspect.filters.values import CONSUMED, REPLICATED
from kinspect.kafka.bodysummary import RecordField, RecordRoom, batch_count
from kinspect.kafka.connection.roles import CONSUMER, FOLLOWER, HIDDEN, PRODUCER, role_of
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import milliseconds
from kinspect.kafka.wire.endpoints import endpoint
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import ANSWERED
from kinspect.model import NS_PER_MS, drop_oldest
from kinspect.output.columns import Column
from kinspect.protocol import schema
from kinspect.protocol.apikeys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    END_TXN,
    FETCH,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    SHARE_FETCH,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from kinspect.records.compression import CODECS
from kinspect.records.recordsetreader import RecordSetReader
from kinspect.records.v2 import HEADER
from kinspect.wording import counted

CONNECTIONS_KEPT: Final = 20_000
"""Connections whose last requests are known: of more, those that were silent for longest are forgotten."""
MEMBERS_KEPT: Final = 1000
"""Most members of groups known of a stretch of a connection; of more, all are forgotten."""
STRETCHES_KEPT: Final = 4
"""Last stretches of a connection, between gaps, whose last requests are known."""
TIMES_KEPT: Final = 1000
"""Metadata requests of a client whose intervals are measured: the first ones."""
ALL_TIMES_KEPT: Final = 500_000
"""Most times of Metadata requests of all clients: those with more have no intervals."""
PARTITIONS_KEPT: Final = 1000
"""Most partitions of a client whose replicas, and where it fetches them, are known."""
LONGEST_LINGER_NS: Final = 3_600_000 * NS_PER_MS
"""A record that is older when it is sent has another time than that of its making."""
EXPANDED_MOST: Final = 2048
"""Largest size in bytes of a compressed batch that is expanded: to expand large ones takes longer than all the rest."""

TEXT_SAMPLE: Final = 1024
"""Bytes of a batch that tell whether it is text."""
TEXT_SHARE: Final = 0.7
"""Least share of these that are printable ASCII."""
TEXT_BYTES: Final = 1_000_000
TINY_BYTES: Final = 1000
"""A batch of fewer bytes is tiny."""
TINY_PER_SECOND: Final = 20.0
QUICK_NS: Final = 50 * NS_PER_MS
"""A Fetch that is answered sooner without a record did not wait for one."""
POLLS_PER_SECOND: Final = 20.0
SOON_NS: Final = 200 * NS_PER_MS
"""A commit is soon after the one before it in less."""
COMMITS_PER_SECOND: Final = 5.0
WIDE_BYTES: Final = 1000
"""A Fetch of as many bytes names some thirty partitions."""
WIDE_FETCHES: Final = 100
SHORT_SESSION_MS: Final = 10_000
HEARTBEAT_SHARE: Final = 0.4
HEARTBEATS_LEAST: Final = 3
PRODUCERS_LEAST: Final = 20
RECORDS_A_PRODUCER: Final = 10
FAR_LEAST: Final = 10

IDEMPOTENT: Final = (
    "apache-kafka-java",
    "confluent-kafka",
    "kafka-python",
    "kgo",
    "librdkafka",
    "platformatic-kafka",
    "sarama",
)
"""Beginnings of names of software that can be an idempotent producer, in each version that names itself (KIP-511)."""

_READERS: Final = {CONSUMED: CONSUMER, REPLICATED: FOLLOWER, None: HIDDEN}
"""The role of who sends a Fetch, by the direction of its records."""
_PIPELINES: Final = frozenset({PRODUCER, CONSUMER, FOLLOWER})
"""Roles of clients that send requests before others are answered."""
_SINCE: Final = ()
"""Where the exchanges of a stretch are counted."""
_BEGAN: Final = ("began",)
"""Where the time of its first exchange is."""
_TINY, _POLLS, _COMMITS = "tiny", "polls", "commits"
_PRINTABLE: Final = bytes([*range(0x20, 0x7F), *b"\t\n\r"])
_RESETS: Final = frozenset({-1, -2})
_HEARTBEATS: Final = frozenset({HEARTBEAT}) | schema.apis_with("member", "epoch")
_REGULAR: Final = _HEARTBEATS | {OFFSET_COMMIT}
_MEMBER_APIS: Final = frozenset({JOIN_GROUP, SYNC_GROUP}) | _REGULAR
_OF_TRANSACTIONS: Final = frozenset({ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT})

_PRODUCED: Final = frozenset("transactional_id acks timeout_ms topic_data.partition_data.records".split())
_ASKED: Final = frozenset(
    """
    replica_id replica_state.replica_id max_wait_ms min_bytes max_bytes isolation_level session_id session_epoch
    topics.partitions.partition_max_bytes rack_id
    """.split()
)
_FETCHED: Final = frozenset(
    """
    error_code session_id responses.topic responses.topic_id responses.partitions.partition_index
    responses.partitions.records
    """.split()
)
_MEMBER: Final = frozenset(
    """
    group_id member_id group_instance_id instance_id session_timeout_ms rebalance_timeout_ms rack_id server_assignor
    protocols.name
    """.split()
)
_STARTED: Final = frozenset({"transactional_id", "transaction_timeout_ms"})
_LISTED: Final = frozenset({"replica_id", "topics.partitions.timestamp"})
_RACKS: Final = frozenset({"brokers.node_id", "brokers.rack"})
_REPLICAS: Final = frozenset(
    """
    topics.name topics.topic_id topics.partitions.partition_index topics.partitions.replica_nodes
    """.split()
)

_TOLD: Final[dict[str, tuple[str, ...]]] = {
    "produce": ("acks", "timeout_ms"),
    "fetch": ("min_bytes", "max_wait_ms", "max_bytes", "isolation_level", "rack_id"),
    "partition": ("partition_max_bytes",),
    "member": ("session_timeout_ms", "rebalance_timeout_ms", "group_instance_ids", "rack_id"),
    "assignor": ("assignors",),
    "producer": ("transaction_timeout_ms",),
}
"""Keys of a row whose values are counted together."""
TOLD: Final = (
    "acks timeout_ms min_bytes max_wait_ms max_bytes partition_max_bytes isolation_level rack_id session_timeout_ms"
    " rebalance_timeout_ms group_instance_ids assignors auto_offset_reset transaction_timeout_ms codecs"
).split()
"""Keys of what requests tell."""
FLAGS: Final = ("idempotent", "transactional", "fetch_sessions")
MEASURED: Final = (
    "batch_records batch_bytes batches_a_request compression_ratio linger_ms heartbeat_ms commit_interval_ms"
    " metadata_interval_ms in_flight"
).split()
"""Keys of what requests show."""
RATIO_PARTS: Final = 1000
"""Parts of a ratio, as histograms hold whole numbers."""

Lately = dict[tuple[Any, ...], int]
"""Times of the last requests of a stretch of a connection, by what they are; at `_SINCE` a count."""


def _first_times(one: set[int], other: set[int]) -> set[int]:
    return {*sorted(one | other)[:TIMES_KEPT]}


@dataclass(slots=True)
class _Settings(Record):
    """What the requests of a client in one role carry and show. Flags are None, 0 or 1. `told`: requests by the name in
    `_TOLD` and the values of its keys; `brokers`: connections by broker; `text_bytes`: those of uncompressed batches of
    text; `wide`: large Fetches without a session; `read_from`: answers with records by rack, node, topic and partition.
    """

    software: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    told: dict[tuple[Any, ...], int] = field(default_factory=dict)
    codecs: dict[str, int] = field(default_factory=dict)
    idempotent: int | None = field(default=None, metadata=GREATEST)
    transactional: int | None = field(default=None, metadata=GREATEST)
    fetch_sessions: int | None = field(default=None, metadata=GREATEST)
    batch_records: Histogram = field(default_factory=Histogram)
    batch_bytes: Histogram = field(default_factory=Histogram)
    batches_a_request: Histogram = field(default_factory=Histogram)
    compression_ratio: Histogram = field(default_factory=Histogram)
    linger: Histogram = field(default_factory=Histogram)
    heartbeat: Histogram = field(default_factory=Histogram)
    commit: Histogram = field(default_factory=Histogram)
    in_flight: Histogram = field(default_factory=Histogram)
    heartbeats: int = 0
    records: int = 0
    text_bytes: int = 0
    tiny: int = 0
    fetches: int = 0
    empty_fetches: int = 0
    wide: int = 0
    wide_bytes: int = 0
    started: int = 0
    brokers: dict[str, int] = field(default_factory=dict)
    read_from: dict[tuple[Any, ...], int] = field(default_factory=dict)
    windows: Windows = field(default_factory=Windows)


@dataclass(slots=True)
class _Sender(Record):
    """What a client sends in any role. `gaps`: how often others of its requests may be missing between those seen;
    `offers`: 1 if its broker has InitProducerId; `resets`: ListOffsets by −1 and −2; `answered`, `metadata`: Metadata
    requests that were answered, and times of all; `racks`: of nodes; `replicas`: nodes by topic and partition."""

    requests: int = 0
    gaps: int = 0
    software: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    offers: int | None = field(default=None, metadata=GREATEST)
    resets: dict[int, int] = field(default_factory=dict)
    answered: int = 0
    metadata: set[int] = field(default_factory=set, metadata={"choose": _first_times})
    racks: dict[int, tuple[LineKey, str]] = field(default_factory=dict, metadata=LATEST)
    replicas: dict[tuple[str, int], tuple[LineKey, tuple[int, ...]]] = field(
        default_factory=dict, metadata=LATEST
    )


@dataclass(slots=True)
class _Stretches:
    """A connection's exchanges between those before which others may be missing, by the number of the first one's line:
    lines of a later stretch may come before those of an earlier one. `first`: number of the first exchange, `behind`:
    its sender if something may be missing before it."""

    first: int
    behind: _Sender | None = None
    known: dict[int, Lately] = field(default_factory=dict)

    def of(self, number: int, begins: bool) -> Lately:
        """That of an exchange. `begins`: it is the first one."""
        start = number if begins else max([each for each in self.known if each <= number], default=0)
        if start not in self.known:
            self.known[start] = {}
            if len(self.known) > STRETCHES_KEPT:
                oldest = min(self.known)
                lately = self.known.pop(oldest)
                if oldest == start:
                    return lately
        return self.known[start]


class Settings(Answer):
    """Accumulator of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self._times = 0
        self._uses = self.records(_Settings)
        self._senders = self.records(_Sender)
        self._connections: dict[str, _Stretches] = {}

    def add(self, exchange: Exchange) -> None:
        client = client_key(exchange)
        sender = self._senders.of(*client)
        if sender is None:
            return
        lately = self._of_connection(exchange, sender)
        request, api_key = exchange.request, exchange.api_key
        if request is None:
            return
        sender.requests += 1
        # A cut one may be of any client.
        sender.gaps += exchange.client_id is None and not request.complete
        name, version = exchange.software_name, exchange.software_version
        named = (name, version) if name or version else None
        sender.software = later(sender.software, exchange.key, named)
        if api_key is None:
            return
        if api_key in (API_VERSIONS, LIST_OFFSETS, METADATA):
            self._add_of_any_role(sender, exchange, request)
        role = (
            _READERS[direction_of(*message_body(request, _ASKED))]
            if api_key == FETCH
            else role_of(api_key, request)
        )
        if role is None:
            return
        use = self._uses.of(*client, None if role == HIDDEN else role)
        if use is None:
            return
        use.software = later(use.software, exchange.key, named)
        if role in _PIPELINES and lately[_SINCE] > exchange.in_flight and _is_queue_known(exchange, request):
            self.measure(use.in_flight, exchange.in_flight)
        if api_key == PRODUCE:
            self._add_produce(use, exchange, request, lately)
        elif api_key in (FETCH, SHARE_FETCH):
            self._add_fetch(use, exchange, request)
        elif api_key in _MEMBER_APIS:
            self._add_member(use, exchange, request, lately)
        elif api_key == INIT_PRODUCER_ID:
            self._add_start(use, request)
        elif api_key in _OF_TRANSACTIONS and role == PRODUCER:
            use.transactional = 1

    def _of_connection(self, exchange: Exchange, sender: _Sender) -> Lately:
        """The last requests of an exchange's connection, none where others may be missing since."""
        name, number = exchange.connection.connection_id, exchange.key[-1]
        known = self._connections.pop(name, None) or _Stretches(number)
        self._connections[name] = known
        drop_oldest(self._connections, CONNECTIONS_KEPT)
        behind = sender if exchange.after_gap and exchange.request is not None else None
        if number <= known.first:
            # What may be missing before a connection's first exchange is not between two others.
            known.first, known.behind, behind = number, behind, known.behind
        if behind is not None:
            behind.gaps += 1
        sender.gaps += exchange.request is None
        begins = exchange.request is None or exchange.after_gap
        lately = known.of(number, begins)
        if len(lately) > MEMBERS_KEPT:
            lately.clear()
        lately.setdefault(_BEGAN, exchange.timestamp or 0)
        lately[_SINCE] = 0 if begins else lately.get(_SINCE, 0) + 1
        return lately

    # ------------------------------------------------------------------ what exchanges say

    def _add_of_any_role(self, sender: _Sender, exchange: Exchange, request: WireMessage) -> None:
        if exchange.api_key == API_VERSIONS:
            told = newest_versions(exchange)
            if told is not None:
                sender.offers = max(sender.offers or 0, INIT_PRODUCER_ID in told)
        elif exchange.api_key == LIST_OFFSETS:
            asked, _ = message_body(request, _LISTED)
            if asked.get("replica_id", -1) < 0:
                times = {
                    part.get("timestamp")
                    for topic in asked.get("topics") or ()
                    for part in topic.get("partitions") or ()
                }
                for time in _RESETS & times:
                    self.count(sender.resets, time)
        else:
            sender.answered += exchange.outcome == ANSWERED
            if request.first_time is not None:
                self._keep_time(sender, request.first_time)
            self._add_racks(sender, exchange)

    def _keep_time(self, sender: _Sender, time: int) -> None:
        if time in sender.metadata:
            return
        if self._times >= ALL_TIMES_KEPT:
            self.left_out += 1
            sender.gaps += 1
            return
        sender.metadata.add(time)
        self._times += 1
        # Looking for the first ones is worth it only now and then.
        if len(sender.metadata) > 2 * TIMES_KEPT:
            sender.metadata = _first_times(sender.metadata, set())
            self._times -= TIMES_KEPT + 1

    def _add_racks(self, sender: _Sender, exchange: Exchange) -> None:
        """Where brokers are, and in a cluster of several racks which of them have a partition."""
        told, _ = message_body(exchange.response, _RACKS)
        racks = {node["rack"] for node in told.get("brokers") or () if node.get("rack")}
        if len(racks) < 2:
            return
        for node in told["brokers"]:
            if node.get("rack"):
                self.keep_last(sender.racks, node["node_id"], exchange.key, node["rack"])
        told, _ = message_body(exchange.response, _REPLICAS)
        for topic in told.get("topics") or ():
            for part in topic.get("partitions") or ():
                nodes = tuple(part.get("replica_nodes") or ())
                for name in (topic.get("name"), topic.get("topic_id")):
                    place = name, part.get("partition_index")
                    if name and (place in sender.replicas or len(sender.replicas) < 2 * PARTITIONS_KEPT):
                        self.keep_last(sender.replicas, place, exchange.key, nodes)

    def _add_produce(self, use: _Settings, exchange: Exchange, request: WireMessage, lately: Lately) -> None:
        body, whole = message_body(request, _PRODUCED)
        self.count(use.told, ("produce", body.get("acks"), body.get("timeout_ms")))
        if whole or "transactional_id" in body:
            use.transactional = max(use.transactional or 0, body.get("transactional_id") is not None)
        here = exchange.client_id, PRODUCE
        if here not in lately:
            lately[here] = 0
            self.count(use.brokers, endpoint(exchange.connection.broker_ip, exchange.connection.broker_port))
        room = RecordRoom(exchange.connection.caps)
        batches = 0
        for topic in body.get("topic_data") or ():
            for part in topic.get("partition_data") or ():
                if part.get("records"):
                    batches += self._add_batches(
                        use, exchange, request.first_time, part["records"], room, lately[_BEGAN]
                    )
        if whole:
            self.measure(use.batches_a_request, batches)

    def _add_batches(
        self, use: _Settings, exchange: Exchange, sent: int | None, value: bytes, room: RecordRoom, since: int
    ) -> int:
        """Count the batches of a record set; return how many there are. Records from before `since` may have
        waited for the connection."""
        found = RecordField(value, True, room, exchange.connection.counts).batches()
        for position, batch in found.placed():
            size, codec, count = batch["size"], batch["compression"], batch_count(batch)
            self.count(use.codecs, codec)
            self.measure(use.batch_bytes, size)
            if count is not None:
                self.measure(use.batch_records, count)
                use.records += count
            producer_id = batch["producer_id"]
            use.idempotent = max(use.idempotent or 0, producer_id is not None and producer_id >= 0)
            if batch["is_transactional"]:
                use.transactional = 1
            if size < TINY_BYTES:
                use.tiny += 1
                if sent is not None:
                    use.windows.add(_TINY, sent)
            made = batch["base_timestamp_ms"] if batch["timestamp_type"] == "CreateTime" else None
            waited = None if sent is None or made is None else sent - made * NS_PER_MS
            if sent and waited is not None and 0 <= waited <= min(sent - since, LONGEST_LINGER_NS):
                self.measure(use.linger, waited)
            content = position + (HEADER.size if batch["magic"] == 2 else 0)
            if codec == "none":
                if _is_text(value[content : min(content + TEXT_SAMPLE, position + size)]):
                    use.text_bytes += size
            elif batch["magic"] == 2 and codec in CODECS and size <= EXPANDED_MOST:
                self._add_ratio(use, value[content : position + size], codec, room, exchange)
        return len(found)

    def _add_ratio(
        self, use: _Settings, content: bytes, codec: str, room: RecordRoom, exchange: Exchange
    ) -> None:
        """Measure what a batch's content takes expanded."""
        reader = RecordSetReader(room.left(False)[0], 0, 0, False)
        expanded = reader.expand(CODECS.index(codec), content, 0) if content else None
        room.spend(False, reader.result, exchange.connection.counts)
        if expanded is not None:
            ratio = (HEADER.size + len(expanded)) / (HEADER.size + len(content))
            self.measure(use.compression_ratio, round(ratio * RATIO_PARTS))

    def _add_fetch(self, use: _Settings, exchange: Exchange, request: WireMessage) -> None:
        asked, whole = message_body(request, _ASKED)
        self.count(use.told, ("fetch", *[asked.get(key) for key in _TOLD["fetch"]]))
        sizes = {
            part.get("partition_max_bytes")
            for topic in asked.get("topics") or ()
            for part in topic.get("partitions") or ()
        }
        for size in sizes - {None}:
            self.count(use.told, ("partition", size))
        answer, answered = message_body(exchange.response, _FETCHED)
        if exchange.api_key == FETCH:
            session = _session(asked, whole, answer)
            if session is not None:
                use.fetch_sessions = max(use.fetch_sessions or 0, session)
            if session == 0 and request.size >= WIDE_BYTES:
                use.wide += 1
                use.wide_bytes += request.size
        if answered and exchange.outcome == ANSWERED:
            self._add_fetched(use, exchange, request, asked.get("rack_id"), answer)

    def _add_fetched(
        self, use: _Settings, exchange: Exchange, request: WireMessage, rack: str | None, answer: Struct
    ) -> None:
        """Count an answer, with records or without."""
        parts = [
            (topic, part["partition_index"])
            for topic in answer.get("responses") or ()
            for part in topic.get("partitions") or ()
            if part.get("records")
        ]
        use.fetches += 1
        use.empty_fetches += not parts
        for topic, index in parts if rack else ():
            place = rack, exchange.node_id, topic.get("topic") or topic.get("topic_id"), index
            if exchange.node_id is not None and len(use.read_from) < PARTITIONS_KEPT:
                self.count(use.read_from, place)
        waited, time = exchange.latency_ns, request.first_time
        if parts or answer.get("error_code") or time is None or waited is None:
            return
        if waited < QUICK_NS:
            use.windows.add(_POLLS, time)

    def _add_member(self, use: _Settings, exchange: Exchange, request: WireMessage, lately: Lately) -> None:
        body, _ = message_body(request, _MEMBER)
        rebalance = body.get("rebalance_timeout_ms")
        told = (
            body.get("session_timeout_ms"),
            # Of an epoch's members −1 means unchanged (KIP-848).
            None if rebalance == -1 else rebalance,
            body.get("group_instance_id") or body.get("instance_id"),
            body.get("rack_id"),
        )
        if any(value is not None for value in told):
            self.count(use.told, ("member", *told))
        names = [each.get("name") for each in body.get("protocols") or ()]
        for name in dict.fromkeys([*names, body.get("server_assignor")]):
            if name is not None:
                self.count(use.told, ("assignor", name))
        api_key, time = exchange.api_key, request.first_time
        if time is None or "group_id" not in body or api_key not in _REGULAR:
            return
        # Names may be long, and there are many connections.
        member = (hash((exchange.client_id, api_key, body.get("group_id"), body.get("member_id"))),)
        before = lately.get(member)
        lately[member] = time
        if before is None or time < before:
            return
        if api_key != OFFSET_COMMIT:
            use.heartbeats += 1
            self.measure(use.heartbeat, time - before)
        else:
            self.measure(use.commit, time - before)
            if time - before < SOON_NS:
                use.windows.add(_COMMITS, time)

    def _add_start(self, use: _Settings, request: WireMessage) -> None:
        """Count a producer that asks for its id."""
        body, whole = message_body(request, _STARTED)
        self.count(use.told, ("producer", body.get("transaction_timeout_ms")))
        use.started += 1
        use.idempotent = 1
        if whole or "transactional_id" in body:
            use.transactional = max(use.transactional or 0, body.get("transactional_id") is not None)

    # ------------------------------------------------------------------ the whole

    def result(self, context: ResultContext) -> list[Row]:
        senders = {key: sender for key, sender in self._senders.items() if sender.requests}
        uses = dict(self._uses.items())
        for client in senders.keys() - {key[:2] for key in uses}:
            uses[*client, None] = _Settings(software=senders[client].software)
        # Requests of a client between two others may have been left out by all filters but these.
        is_whole = not cutting_more(context.options, START, END, CONNECTIONS, CLIENTS)
        rows = [_row(key, use, senders.get(key[:2], _Sender()), is_whole) for key, use in uses.items()]
        return sorted(rows, key=_place)


def _is_queue_known(exchange: Exchange, request: WireMessage) -> bool:
    """True if all requests ahead of an answered one were answered behind its begin."""
    if exchange.service_ns is None or not exchange.queue_known:
        return False
    before, begin = exchange.previous_response_end, request.first_time
    return not exchange.in_flight or (before is not None and begin is not None and before > begin)


def _session(asked: Struct, whole: bool, answer: Struct) -> int | None:
    """1 for a Fetch of a session, 0 for one without; None for one that ends a session, or if that is not known."""
    epoch = asked.get("session_epoch")
    if epoch is None:
        return 0 if whole else None
    if epoch > 0:
        return 1
    if epoch < 0:
        return None if asked.get("session_id") else 0
    made = None if answer.get("error_code") else answer.get("session_id")
    return None if made is None else int(made != 0)


def _is_text(sample: bytes) -> bool:
    return len(sample) - len(sample.translate(None, _PRINTABLE)) >= TEXT_SHARE * len(sample) > 0


def _place(row: Row) -> tuple[Any, ...]:
    """The order of rows: those with findings first, then those that tell most."""
    names = row["client_id"] or "", row["client_ip"], row["role"] or "", row["client_id"] is None
    return -len(row["findings"]), -sum(row[key] is not None for key in TOLD), *names


def _row(key: tuple[Any, ...], use: _Settings, sender: _Sender, is_whole: bool) -> Row:
    client_id, client_ip, role = key
    name, version = use.software[1] if use.software else (None, None)
    seen = _Seen(use, sender, name, _told(use, sender, role))
    intervals = {
        "heartbeat_ms": use.heartbeat,
        "commit_interval_ms": use.commit,
        "metadata_interval_ms": _intervals(sender),
    }
    return {
        "client_id": client_id,
        "client_ip": client_ip,
        "role": role,
        "software_name": name,
        "software_version": version,
        **{key: _texts(seen.told.get(key)) for key in TOLD},
        **{flag: _flag(getattr(use, flag)) for flag in FLAGS},
        "batch_records": _spread(use.batch_records, int),
        "batch_bytes": _spread(use.batch_bytes, int),
        "batches_a_request": _spread(use.batches_a_request, int),
        "compression_ratio": _spread(use.compression_ratio, lambda parts: parts / RATIO_PARTS),
        "linger_ms": _spread(use.linger, milliseconds),
        **{key: _spread(found, milliseconds) if is_whole else None for key, found in intervals.items()},
        "in_flight": _spread(use.in_flight, int),
        "empty_fetches": round(use.empty_fetches / use.fetches, 3) if use.fetches else None,
        "findings": [
            {"finding": name, "evidence": evidence, "advice": finding.advice}
            for name, finding in FINDINGS.items()
            if (evidence := finding.evidence(seen))
        ],
    }


def _told(use: _Settings, sender: _Sender, role: str | None) -> dict[str, dict[Any, int]]:
    """Requests by the values that they have, by the keys of these."""
    found: dict[str, dict[Any, int]] = {}
    for (kind, *values), requests in use.told.items():
        for key, value in zip(_TOLD[kind], values, strict=True):
            if value is not None:
                counts = found.setdefault(key, {})
                counts[value] = counts.get(value, 0) + requests
    if role == CONSUMER and found.get("max_wait_ms") and sender.resets:
        found["auto_offset_reset"] = {**sender.resets}
    if use.codecs:
        found["codecs"] = {**use.codecs}
    return found


def _texts(counts: dict[Any, int] | None) -> dict[str, int] | None:
    return None if counts is None else {str(value): counts[value] for value in sorted(counts)}


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _intervals(sender: _Sender) -> Histogram:
    """Times between Metadata requests: none where one may be missing."""
    found = Histogram()
    times = sorted(sender.metadata)[:TIMES_KEPT] if sender.answered and not sender.gaps else []
    for before, time in pairwise(times):
        found.add(time - before)
    return found


def _spread(histogram: Histogram, number: Callable[[int], float | None]) -> Row | None:
    """What was measured; None where nothing was."""
    found = histogram.result()
    if found.median is None or found.p95 is None or found.greatest is None:
        return None
    return Quantiles(histogram, p50=number(found.median), p95=number(found.p95), max=number(found.greatest))


# ---------------------------------------------------------------------- findings


class _Seen(NamedTuple):
    """What findings look at: `told`, requests by value and key."""

    use: _Settings
    sender: _Sender
    software: str | None
    told: dict[str, dict[Any, int]]

    def per_second(self, name: str) -> float:
        """The most a second, over ten seconds."""
        busiest = self.use.windows.busiest().get(name)
        return 0 if busiest is None else busiest.per_second


class SettingRule(NamedTuple):
    """What may be wrong with a client's settings. `evidence`: a text about it, empty if it is not so."""

    evidence: Callable[[_Seen], str]
    advice: str


def _acks(value: int) -> Callable[[_Seen], str]:
    def evidence(seen: _Seen) -> str:
        acks = seen.told.get("acks", {})
        return (
            f"{acks[value]:,} of {counted(sum(acks.values()), 'Produce request')} with acks {value}"
            if value in acks
            else ""
        )

    return evidence


def _not_idempotent(seen: _Seen) -> str:
    requests = seen.told.get("acks", {}).get(-1)
    could = seen.sender.offers and (seen.software or "").startswith(IDEMPOTENT)
    if not requests or not could or seen.use.idempotent != 0:
        return ""
    return f"{counted(requests, 'Produce request')} with acks -1, no batch with a producer id"


def _uncompressed(seen: _Seen) -> str:
    size = seen.use.text_bytes
    return f"{size:,} bytes of text without compression" if size >= TEXT_BYTES else ""


def _tiny_batches(seen: _Seen) -> str:
    rate, batches = seen.per_second(_TINY), sum(seen.use.codecs.values())
    if rate < TINY_PER_SECOND or 2 * seen.use.tiny < batches:
        return ""
    return f"{seen.use.tiny:,} of {batches:,} batches below {TINY_BYTES:,} bytes, {rate:.0f} a second"


def _busy_polling(seen: _Seen) -> str:
    rate = seen.per_second(_POLLS)
    if rate < POLLS_PER_SECOND:
        return ""
    return f"{rate:.0f} Fetches a second without a record, each answered within {QUICK_NS // NS_PER_MS} ms"


def _commits_too_often(seen: _Seen) -> str:
    rate = seen.per_second(_COMMITS)
    if rate < COMMITS_PER_SECOND:
        return ""
    return f"{rate:.0f} OffsetCommits a second, each within {SOON_NS // NS_PER_MS} ms of the one before"


def _no_fetch_sessions(seen: _Seen) -> str:
    use = seen.use
    if use.wide < WIDE_FETCHES:
        return ""
    return f"{use.wide:,} Fetches without a session, {use.wide_bytes // use.wide:,} bytes each"


def _short_session(seen: _Seen) -> str:
    short = [time for time in seen.told.get("session_timeout_ms", {}) if time < SHORT_SESSION_MS]
    return f"session_timeout_ms {min(short):,}" if short else ""


def _heartbeat_too_slow(seen: _Seen) -> str:
    sessions = seen.told.get("session_timeout_ms", {})
    median = seen.use.heartbeat.result().median
    if not sessions or median is None or seen.use.heartbeats < HEARTBEATS_LEAST:
        return ""
    if median <= HEARTBEAT_SHARE * max(sessions) * NS_PER_MS:
        return ""
    return f"a heartbeat every {median // NS_PER_MS:,} ms, session_timeout_ms {max(sessions):,}"


def _many_producers(seen: _Seen) -> str:
    use, connections = seen.use, max(seen.use.brokers.values(), default=0)
    producers = max(use.started, connections)
    if producers < PRODUCERS_LEAST or use.records >= RECORDS_A_PRODUCER * producers:
        return ""
    what = "InitProducerId request" if use.started >= connections else "connection"
    return f"{counted(producers, what)} for {counted(use.records, 'record')}"


def _replica_far(seen: _Seen) -> str:
    racks = {node: rack for node, (_, rack) in seen.sender.racks.items()}
    far = 0
    for (rack, node, *place), answers in seen.use.read_from.items():
        _, nodes = seen.sender.replicas.get(tuple(place), (None, ()))
        if racks.get(node, rack) != rack and any(racks.get(each) == rack for each in nodes):
            far += answers
    if far < FAR_LEAST:
        return ""
    return f"{counted(far, 'answer')} with records from another rack than the client's, which has a replica"


FINDINGS: Final[dict[str, SettingRule]] = {
    "acks_none": SettingRule(_acks(0), "records are lost unseen: acks=all where that matters"),
    "acks_leader_only": SettingRule(
        _acks(1), "records are lost if the leader fails before its followers have them: acks=all"
    ),
    "not_idempotent": SettingRule(
        _not_idempotent, "retries may write records twice or out of order: enable.idempotence=true"
    ),
    "uncompressed": SettingRule(
        _uncompressed, "text shrinks to a third or less: compression.type=lz4 or zstd"
    ),
    "tiny_batches": SettingRule(_tiny_batches, "let batches fill: linger.ms of 5 to 100, batch.size"),
    "busy_polling": SettingRule(
        _busy_polling, "let the broker wait for records: fetch.max.wait.ms=500, fetch.min.bytes=1 or more"
    ),
    "commits_too_often": SettingRule(
        _commits_too_often, "commit after some hundred records or some seconds, not after each record"
    ),
    "no_fetch_sessions": SettingRule(
        _no_fetch_sessions,
        "each Fetch names all partitions: a client with KIP-227, and room for it at the broker"
        " (max.incremental.fetch.session.cache.slots)",
    ),
    "short_session": SettingRule(
        _short_session, "a pause of the process ends the membership: session.timeout.ms=45000"
    ),
    "heartbeat_too_slow": SettingRule(
        _heartbeat_too_slow, "heartbeat.interval.ms: a third of session.timeout.ms, or less"
    ),
    "many_producers": SettingRule(_many_producers, "use one producer for all records of a process"),
    "replica_far": SettingRule(
        _replica_far, "brokers need replica.selector.class=RackAwareReplicaSelector (KIP-392)"
    ),
}
"""All findings; docs/answers.md has their thresholds and sources."""


# ---------------------------------------------------------------------- a terminal


def _values(row: Row, keys: Iterable[str], text: Callable[[Any], str]) -> str:
    return ", ".join(f"{key} {text(row[key])}" for key in keys if row[key] is not None)


def _counts(counts: dict[str, int]) -> str:
    """Values, the most frequent first."""
    return "/".join(value or '""' for value in sorted(counts, key=lambda value: -counts[value]))


def _measure(found: Row) -> str:
    return "/".join(f"{found[name]:,.4g}" if found[name] < 1000 else f"{found[name]:,.0f}" for name in found)


def _details(row: Row, _: Clock) -> list[str]:
    told = [_values(row, TOLD, _counts), _values(row, FLAGS, lambda flag: "yes" if flag else "no")]
    measured = [
        _values(row, MEASURED, _measure),
        _values(row, ["empty_fetches"], lambda share: f"{share:.0%}"),
    ]
    lines = {"sent: ": told, "measured (p50/p95/max): ": measured}
    return [
        *(f"{each['finding']}: {each['evidence']}; {each['advice']}" for each in row["findings"]),
        *(name + ", ".join(filter(None, texts)) for name, texts in lines.items() if any(texts)),
    ]


_MEANINGS: Final = {
    "acks": "Produce requests by acks",
    "timeout_ms": "Produce requests by timeout_ms",
    "min_bytes": "Fetches by min_bytes",
    "max_wait_ms": "Fetches by max_wait_ms",
    "max_bytes": "Fetches by max_bytes",
    "partition_max_bytes": "Fetches by partition_max_bytes of their partitions",
    "isolation_level": "Fetches by isolation_level",
    "rack_id": "Requests by the rack that they name",
    "session_timeout_ms": "JoinGroup requests by session_timeout_ms",
    "rebalance_timeout_ms": "Requests of members by rebalance_timeout_ms",
    "group_instance_ids": "Requests of members by group_instance_id",
    "assignors": "Requests of members by assignors that they name",
    "auto_offset_reset": "ListOffsets by -1 (latest) and -2 (earliest)",
    "transaction_timeout_ms": "InitProducerId requests by transaction_timeout_ms",
    "codecs": "Produced batches by compression",
    "idempotent": "Whether a batch had a producer id",
    "transactional": "Whether a request named a transactional id",
    "fetch_sessions": "Whether a Fetch was one of a session",
    "batch_records": "Records of produced batches",
    "batch_bytes": "Bytes of produced batches",
    "batches_a_request": "Batches of Produce requests",
    "compression_ratio": "Expanded bytes of compressed batches for each byte on the wire",
    "linger_ms": "From the time of a batch's first record to its request",
    "heartbeat_ms": "Between heartbeats of a member",
    "commit_interval_ms": "Between OffsetCommits of a member",
    "metadata_interval_ms": "Between Metadata requests of the client, in any role",
    "in_flight": "Requests ahead of an answered one on its connection",
}


ANSWER = Definition(
    Settings,
    help="How clients are configured, as far as the wire shows, and what may be wrong with it.",
    page="m",
    page_help="what requests tell of a client's settings, and what may be wrong",
    columns=(
        Key("client_id", "text", "", "CLIENT ID", opens="client-id"),
        Key("client_ip", "text", "", "ADDRESS", plain, rank=3, opens="client-host"),
        Key("role", "text", "Role that its requests show", "ROLE"),
        Key("software_name", "text", "As the client named itself"),
        Key("software_version", "text"),
        Column("SOFTWARE", software, rank=2, least=24),
        *(Key(key, "counts", _MEANINGS[key]) for key in TOLD),
        *(Key(key, "bool", _MEANINGS[key]) for key in FLAGS),
        *(Key(key, "measure", _MEANINGS[key]) for key in MEASURED),
        Key("empty_fetches", "double", "Share of answered Fetches without a record"),
        Key(
            "findings",
            "setting_findings",
            "What may be wrong",
            "FINDINGS",
            lambda found: listed([each["finding"] for each in found], len(found)),
            style=NOTE,
        ),
    ),
    structs={
        "measure": "p50 double, p95 double, max double",
        "setting_finding": "finding text, evidence text, advice text",
    },
    identity="client_id role",
    addresses="client_ip",
    compared=" ".join([*TOLD, *FLAGS, *MEASURED]),
    nothing="no client was seen",
    more=lambda file, rows: reading(file, rows[0]["client_id"], None),
    details=_details,
    folds=lambda row: not row["findings"] and all(row[key] is None for key in (*TOLD, *FLAGS)),
    folded=lambda rows: f"and {counted(len(rows), 'row')} without settings",
)
