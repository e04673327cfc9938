"""Brokers: a row for each address that was asked, and for each node that nobody asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from shlex import quote
from typing import Any, NamedTuple

from kinspect.analysis import releases
from kinspect.analysis.answer import Answer, ResultContext, Row
from kinspect.analysis.dialects import APACHE, UNKNOWN_DIALECT, apache_keys, dialect
from kinspect.analysis.leaders import DELETED, NO_EPOCH, NO_LEADER, LeaderChange, Leaders, changes, leaders
from kinspect.analysis.record import GREATEST, Record, later
from kinspect.analysis.releases import KRAFT, ZOOKEEPER, Offer
from kinspect.answers.celltexts import ERROR, UNKNOWN, known, listed, plain, releases_text
from kinspect.answers.definition import Clock, Definition, FilterWords, Key
from kinspect.filters.filterdefinitions import TIMES, cutting_more
from kinspect.kafka.bodysummary import REQUEST_DATA, RESPONSE_DATA, error_counts
from kinspect.kafka.connection.roles import CLUSTER
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.metadata import ip_text, node_structs
from kinspect.kafka.fields.envelope import inner_response
from kinspect.kafka.view.view import iso_time
from kinspect.kafka.wire.endpoints import endpoint
from kinspect.kafka.wire.learnednames import METADATA_TOPIC_ID
from kinspect.kafka.wire.lineorder import LAST, LineKey
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import ANSWERED
from kinspect.protocol import schema
from kinspect.protocol.apikeys import (
    API_VERSIONS,
    BEGIN_QUORUM_EPOCH,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    CONTROLLED_SHUTDOWN,
    DELETE_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    DESCRIBE_TOPIC_PARTITIONS,
    END_QUORUM_EPOCH,
    ENVELOPE,
    FETCH,
    FIND_COORDINATOR,
    LEADER_AND_ISR,
    METADATA,
    PRODUCE,
    SHARE_FETCH,
    STOP_REPLICA,
    UPDATE_METADATA,
    VOTE,
)
from kinspect.protocol.primitives import ZERO_UUID

OFFER_LONGEST = 1000
"""APIs in the longest ApiVersions answer that is looked at."""
METADATA_ZOOKEEPER, QUORUM_LEADER, DESCRIBED = "metadata_zookeeper", "quorum_leader", "describe_cluster"
CONTROLLERS = 2
"""Endpoint type of a DescribeCluster that asks a controller (KIP-919)."""
LOOPBACK = ("127.0.0.1", "::1")
UNKNOWN_TOPICS = 3, 100
"""Codes of a topic that there is not, by its name or its id."""
TOPIC = "--topic"
"""The option of the filter that lets pass all that shows who leads a topic, and nothing of others."""
METADATA_TOPICS = frozenset({"__cluster_metadata", "@metadata"})

_LEADER_FIELDS = frozenset(
    """
    responses.topic responses.name responses.topic_id node_endpoints responses.partitions.partition_index
    responses.partitions.current_leader responses.partitions.error_code responses.partition_responses.index
    responses.partition_responses.current_leader
    """.split()
)
_ASKED_METADATA = frozenset({"cluster_id", "topics.topic", "topics.topic_id"})

Struct = dict[str, Any]
Address = tuple[str, int]
"""A host, by name or IP address, and a port."""


@dataclass(slots=True)
class _Broker(Record):
    """An address that was asked: what was seen of it, and what its responses say.

    `nodes`: addresses that it names of its cluster; `foreign`: APIs it answered that no release of Apache's has. Of
    what changes, the last is kept, with the key of its line: `controller`, the node id in Metadata of a broker in
    ZooKeeper mode, and when it was said; `described` in DescribeCluster of such a one; `active` in what only
    controllers of KRaft are asked, "here" for its own; `called` the node it was asked for.
    """

    requests: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    nodes: set[Address] = field(default_factory=set)
    foreign: set[int] = field(default_factory=set)
    cluster_id: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    offer: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    mode: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    controller: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    described: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    active: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    called: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)


@dataclass(slots=True)
class _Node(Record):
    """The node at an address, by messages."""

    node_id: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    rack: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)


class _Controller(NamedTuple):
    key: Any
    node_id: int
    known_by: str
    at: int | None = None


class Brokers(Answer):
    """Accumulator of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self._brokers = self.records(_Broker)
        self._nodes = self.records(_Node)
        self._leaders = self.records(Leaders)

    def add(self, exchange: Exchange) -> None:
        broker = self._brokers.of(*_address(exchange))
        if broker is None:
            return
        broker.requests += exchange.request is not None
        for code, count in error_counts(exchange).items():
            self.count(broker.errors, schema.error_name(code, exchange.api_key), count)
        api_key = exchange.api_key
        add = _ADD.get(api_key)
        if add is not None:
            add(self, exchange, broker)
        elif exchange.outcome == ANSWERED and api_key not in apache_keys():
            self.keep(broker.foreign, api_key)

    def add_carried(self, exchange: Exchange) -> None:
        """Its broker's address is not known."""

    # ------------------------------------------------------------------ what exchanges say

    def _add_versions(self, exchange: Exchange, broker: _Broker) -> None:
        body = _body(exchange.response)
        apis = body.get("api_keys") or []
        if body.get("error_code") or len(apis) > OFFER_LONGEST:
            return
        whole = [each for each in apis if "max_version" in each]
        offer = tuple(sorted((each["api_key"], each["min_version"], each["max_version"]) for each in whole))
        if offer and len(whole) == len(apis):
            broker.offer = later(broker.offer, exchange.key, offer)
            broker.mode = later(broker.mode, exchange.key, releases.mode(offer))
            self._add_called(exchange, broker, _body(exchange.request).get("node_id"))

    def _add_metadata(self, exchange: Exchange, broker: _Broker) -> None:
        body = _body(exchange.response)
        self._add_nodes(exchange, broker, exchange.response)
        broker.cluster_id = later(broker.cluster_id, exchange.key, body.get("cluster_id"))
        self._add_controller(exchange, broker, body.get("controller_id"), exchange.key[0] or None)
        self._add_leaders(exchange, body.get("topics"), "partitions")
        self._add_gone(exchange, body.get("topics"), *UNKNOWN_TOPICS)

    @staticmethod
    def _add_controller(exchange: Exchange, broker: _Broker, node_id: Any, at: int | None) -> None:
        """`at`: when it was said."""
        known = _node_id(node_id)
        broker.controller = later(broker.controller, exchange.key, None if known is None else (known, at))

    def _add_cluster(self, exchange: Exchange, broker: _Broker) -> None:
        body = _body(exchange.response)
        self._add_nodes(exchange, broker, exchange.response)
        if body.get("error_code"):
            return
        broker.cluster_id = later(broker.cluster_id, exchange.key, body.get("cluster_id") or None)
        # A broker of KRaft names any live one; a controller names the active one.
        asks_controllers = body.get("endpoint_type") == CONTROLLERS
        if asks_controllers:
            broker.mode = later(broker.mode, exchange.key, KRAFT)
        node_id = _node_id(body.get("controller_id"))
        if node_id is not None:
            broker.described = later(broker.described, exchange.key, (node_id, asks_controllers))

    def _add_answer(self, exchange: Exchange, broker: _Broker) -> None:
        """A response that may name nodes only."""
        self._add_nodes(exchange, broker, exchange.response)

    def _add_data(self, exchange: Exchange, broker: _Broker) -> None:
        """Produce, Fetch, ShareFetch: they name the leader if the client asked another node (KIP-951)."""
        response = exchange.response
        if response is None:
            return
        body = response.facts(_LEADER_FIELDS).body or {}
        if body.get("node_endpoints"):
            self._add_nodes(exchange, broker, response)
        for topic in body.get("responses") or ():
            parts = "partition_responses" if exchange.api_key == PRODUCE else "partitions"
            index = "index" if exchange.api_key == PRODUCE else "partition_index"
            for part in topic.get(parts) or ():
                current = part.get("current_leader") or {}
                if current.get("leader_id", NO_LEADER) >= 0:
                    self._claim(
                        exchange, topic, part.get(index), current["leader_id"], current.get("leader_epoch")
                    )
                    if _is_metadata(topic):
                        broker.active = later(broker.active, exchange.key, current["leader_id"])
        if exchange.api_key == FETCH:
            self._add_metadata_fetch(exchange, broker, body)

    def _add_metadata_fetch(self, exchange: Exchange, broker: _Broker, answer: Struct) -> None:
        """Replicas fetch the metadata topic from the active controller."""
        if exchange.request is None or exchange.role not in CLUSTER:
            return
        asked = exchange.request.facts(_ASKED_METADATA).body or {}
        if any(map(_is_metadata, asked.get("topics") or ())):
            broker.mode = later(broker.mode, exchange.key, KRAFT)
            broker.cluster_id = later(broker.cluster_id, exchange.key, asked.get("cluster_id"))
            codes = [
                part.get("error_code")
                for each in answer.get("responses") or ()
                for part in each.get("partitions") or ()
            ]
            if codes and not any(codes):
                broker.active = later(broker.active, exchange.key, "here")

    def _add_quorum(self, exchange: Exchange, broker: _Broker) -> None:
        """DescribeQuorum, Vote, BeginQuorumEpoch, EndQuorumEpoch."""
        self._add_nodes(exchange, broker, exchange.response)
        request, answer = _body(exchange.request), _body(exchange.response)
        broker.cluster_id = later(broker.cluster_id, exchange.key, request.get("cluster_id"))
        self._add_called(exchange, broker, request.get("voter_id"))
        for topic in answer.get("topics") or ():
            for part in topic.get("partitions") or ():
                leader = _node_id(part.get("leader_id"))
                if part.get("error_code") or not _is_metadata(topic):
                    continue
                broker.mode = later(broker.mode, exchange.key, KRAFT)
                if leader is not None and exchange.api_key != END_QUORUM_EPOCH:
                    self._claim(
                        exchange, topic, part.get("partition_index"), leader, part.get("leader_epoch")
                    )
                    broker.active = later(broker.active, exchange.key, leader)

    def _add_called(self, exchange: Exchange, broker: _Broker, node_id: Any) -> None:
        """Some requests name the node that they are for (KIP-853, KIP-1242); another one refuses them."""
        if _body(exchange.response).get("error_code") == 0:
            broker.called = later(broker.called, exchange.key, _node_id(node_id))

    def _add_registration(self, exchange: Exchange, broker: _Broker) -> None:
        """BrokerRegistration, BrokerHeartbeat: the active controller takes them."""
        request, answer = exchange.request, _body(exchange.response)
        if request is None:
            return
        broker.cluster_id = later(broker.cluster_id, exchange.key, _body(request).get("cluster_id"))
        self._add_nodes(exchange, broker, request)
        broker.mode = later(broker.mode, exchange.key, KRAFT)
        if answer.get("error_code") == 0:
            broker.active = later(broker.active, exchange.key, "here")

    def _add_control(self, exchange: Exchange, broker: _Broker) -> None:
        """LeaderAndIsr, UpdateMetadata: what a controller tells brokers in ZooKeeper mode."""
        body = _body(exchange.request)
        if exchange.request is None:
            return
        broker.mode = later(broker.mode, exchange.key, ZOOKEEPER)
        if not body.get("is_k_raft_controller"):
            self._add_controller(exchange, broker, body.get("controller_id"), exchange.request.last_time)
        for part in body.get("ungrouped_partition_states") or ():
            self._claim(
                exchange, part, part.get("partition_index"), part.get("leader"), part.get("leader_epoch")
            )
        for topic in body.get("topic_states") or ():
            for part in topic.get("partition_states") or ():
                self._claim(
                    exchange, topic, part.get("partition_index"), part.get("leader"), part.get("leader_epoch")
                )
        for node in body.get("live_brokers") or ():
            ends = node.get("endpoints") or [{"host": node.get("v0_host"), "port": node.get("v0_port")}]
            self._add_node(exchange, broker, node.get("id"), ends, node.get("rack"))

    def _add_shutdown(self, exchange: Exchange, broker: _Broker) -> None:
        """StopReplica, ControlledShutdown: there are none in KRaft."""
        broker.mode = later(broker.mode, exchange.key, ZOOKEEPER)

    def _add_leaders(self, exchange: Exchange, topics: Any, partitions: str) -> None:
        for topic in topics or ():
            for part in topic.get(partitions) or ():
                self._claim(
                    exchange,
                    topic,
                    part.get("partition_index"),
                    part.get("leader_id"),
                    part.get("leader_epoch"),
                )

    def _add_deleted(self, exchange: Exchange, broker: _Broker) -> None:
        self._add_gone(exchange, _body(exchange.response).get("responses"), 0)

    def _add_envelope(self, exchange: Exchange, broker: _Broker) -> None:
        """A broker hands a DeleteTopics of its client on to the controller (KIP-590)."""
        data = _body(exchange.response).get(RESPONSE_DATA)
        inner = data and inner_response(_body(exchange.request).get(REQUEST_DATA), data)
        if inner and inner.header.api_key == DELETE_TOPICS:
            self._add_gone(exchange, (inner.decoded.body or {}).get("responses"), 0)

    def _add_gone(self, exchange: Exchange, topics: Any, *codes: int) -> None:
        """Note the topics that are no more, by one of the codes."""
        for topic in topics or ():
            if topic.get("error_code") in codes:
                name = topic.get("name") or topic.get("topic_name")
                for key in {(name or "", ZERO_UUID), (name or "", topic.get("topic_id") or ZERO_UUID)}:
                    if key != ("", ZERO_UUID):
                        _forget(self._leaders.of(*_address(exchange), *key), exchange)

    def _add_described_topics(self, exchange: Exchange, broker: _Broker) -> None:
        self._add_leaders(exchange, _body(exchange.response).get("topics"), "partitions")

    # ------------------------------------------------------------------ kept

    def _claim(
        self, exchange: Exchange, topic: Struct, index: int | None, leader: int | None, epoch: int | None
    ) -> None:
        name = topic.get("name") or topic.get("topic") or topic.get("topic_name")
        topic_id = topic.get("topic_id") or ZERO_UUID
        if index is None or leader is None or leader < DELETED or (not name and topic_id == ZERO_UUID):
            return
        advertised = self._leaders.of(*_address(exchange), name or "", topic_id)
        if leader == DELETED:
            _forget(advertised, exchange)
            return
        claim = index, NO_EPOCH if epoch is None else epoch, leader
        if advertised is not None and (claim in advertised.first or self._has_room()):
            advertised.add(claim, exchange.key)

    def _add_nodes(self, exchange: Exchange, broker: _Broker, message: WireMessage | None) -> None:
        for struct, node_id in node_structs(message):
            self._add_node(
                exchange, broker, node_id, [struct, *(struct.get("listeners") or ())], struct.get("rack")
            )

    def _add_node(
        self,
        exchange: Exchange,
        broker: _Broker,
        node_id: int | None,
        ends: Iterable[Struct],
        rack: str | None,
    ) -> None:
        for end in ends:
            host, port = end.get("host"), end.get("port")
            if not host or port is None or node_id is None or node_id < 0:
                continue
            node = self._nodes.of(host, port)
            if node is not None:
                node.node_id = later(node.node_id, exchange.key, node_id)
                node.rack = later(node.rack, exchange.key, rack)
                self.keep(broker.nodes, (host, port))

    # ------------------------------------------------------------------ the whole

    def result(self, context: ResultContext) -> list[Row]:
        brokers, nodes = dict(self._brokers.items()), dict(self._nodes.items())
        claims: dict[Address, dict[tuple[Any, ...], Leaders]] = {}
        for (ip, port, *topic), found in self._leaders.items():
            claims.setdefault((ip, port), {})[tuple(topic)] = found
        rows: list[Row] = []
        for members in _clusters(brokers, nodes):
            rows += _Cluster(members, brokers, nodes, claims, context).rows()
        return sorted(rows, key=_place)


class _Cluster:
    """Addresses that name each other."""

    def __init__(
        self,
        members: set[Address],
        brokers: dict[Any, _Broker],
        nodes: dict[Any, _Node],
        claims: dict[Address, dict[tuple[Any, ...], Leaders]],
        context: ResultContext,
    ) -> None:
        self._brokers = {address: brokers[address] for address in members if address in brokers}
        self._nodes = {address: nodes[address] for address in members if address in nodes}
        self._context = context
        self._by_ip = {same: address for address in sorted(self._nodes) for same in _same(*address)}
        ids = {node.node_id[1] for node in self._nodes.values() if node.node_id}
        self._only_node = min(ids) if len(ids) == 1 else None
        modes = {broker.mode[1] for broker in self._brokers.values() if broker.mode}
        # Brokers that migrate have another mode than their controllers.
        self._mode = min(modes) if len(modes) == 1 else None
        self._cluster_id = _last(broker.cluster_id for broker in self._brokers.values())
        self._controller = self._known_controller()
        by_topic: dict[tuple[Any, ...], list[Leaders]] = {}
        for address in self._brokers:
            for topic, claimed in claims.get(address, {}).items():
                by_topic.setdefault(topic, []).append(claimed)
        # Where a filter left out what may show a newer leader, nobody knows who leads.
        self._leaders_known = not cutting_more(context.options - {TOPIC}, *TIMES)
        self._leads: dict[int, list[str]] = {}
        self._changes: dict[int, list[Row]] = {}
        for name, (found, gone) in _by_name(by_topic, context).items():
            if not context.chooses(TOPIC, [name]):
                continue
            for index, leader in leaders(found, gone).items():
                self._leads.setdefault(leader, []).append(f"{name}-{index}")
            for change in changes(found):
                for node_id in (change.before, change.now):
                    self._changes.setdefault(node_id, []).append(_change(name, change))

    def rows(self) -> Iterator[Row]:
        """The rows of the addresses that were asked, and of the other nodes."""
        for address, broker in self._brokers.items():
            yield self._row(address, self._node_id(address), broker)
        shown = {self._node_of(address) for address in self._brokers}
        for address, node in self._nodes.items():
            # A host name of the only node is most likely that of an address that was asked.
            may_be_asked = self._only_node is not None and bool(shown) and ip_text(address[0]) is None
            if address not in shown and node.node_id is not None and not may_be_asked:
                yield self._row(address, node.node_id[1], _Broker())

    def _row(self, address: Address, node_id: int | None, broker: _Broker) -> Row:
        asked = address in self._brokers
        advertised = self._node_of(address) if asked else address
        node = self._nodes.get(advertised) if advertised is not None else None
        by_ip = asked or ip_text(address[0]) is not None
        offer = _offer(broker.offer[1]) if broker.offer else ()
        spoken, known_by = dialect(offer, broker.foreign, self._cluster_id)
        return {
            "node_id": node_id,
            "address": endpoint(*address) if by_ip else None,
            "advertised": endpoint(*advertised) if advertised is not None else None,
            "rack": node.rack[1] if node is not None and node.rack else None,
            "cluster_id": self._cluster_id,
            "mode": broker.mode[1] if broker.mode else self._mode,
            "releases": [*releases.releases(offer)] if spoken == APACHE else [],
            "dialect": spoken,
            "dialect_known_by": known_by,
            "ranges": {schema.api_name(key) or str(key): [low, high] for key, low, high in offer} or None,
            "controller": self._controller,
            "leads": self._led_by(node_id),
            "leader_changes": [] if node_id is None else sorted(self._changes.get(node_id, ()), key=_moment),
            "requests": broker.requests or (None if asked else 0),
            "errors": dict(sorted(broker.errors.items())),
        }

    def _led_by(self, node_id: int | None) -> list[str] | None:
        """Partitions; None where nobody knows."""
        if node_id is None or not self._leaders_known:
            return None
        return sorted(self._leads.get(node_id, ()))

    def _node_of(self, address: Address) -> Address | None:
        """The address at which messages place the node that was asked at `address`."""
        if address in self._nodes:
            return address
        if address in self._by_ip:
            return self._by_ip[address]
        # An IP address with another port is another listener's.
        near = [each for each in self._nodes if each[1] == address[1] or ip_text(each[0]) is None]
        if self._only_node is not None and near:
            return min(near, key=lambda each: (each[1] != address[1], each))
        return None

    def _node_id(self, address: Address) -> int | None:
        node_id = self._context.names.node_id(*address, LAST)
        if node_id is not None:
            return node_id
        node = self._nodes.get(self._node_of(address) or ("", 0))
        called = self._brokers[address].called
        known = node.node_id if node is not None and node.node_id else called
        return known[1] if known else None

    def _known_controller(self) -> Row | None:
        """The controller last named by a node that knows it."""
        found: list[_Controller] = []
        for address, broker in self._brokers.items():
            mode = broker.mode[1] if broker.mode else self._mode
            if broker.active is not None:
                key, node = broker.active
                node_id = self._node_id(address) if node == "here" else node
                if node_id is not None:
                    found.append(_Controller(key, node_id, QUORUM_LEADER))
            if broker.described is not None:
                key, (node_id, asks_controllers) = broker.described
                if asks_controllers or mode == ZOOKEEPER:
                    found.append(_Controller(key, node_id, DESCRIBED))
            if broker.controller is not None and mode == ZOOKEEPER:
                key, (node_id, at) = broker.controller
                found.append(_Controller(key, node_id, METADATA_ZOOKEEPER, at))
        if not found:
            return None
        last = max(found)
        return {
            "node_id": last.node_id,
            "at": iso_time(last.at or last.key[0] or None),
            "known_by": last.known_by,
        }


def _clusters(brokers: dict[Any, _Broker], nodes: dict[Any, _Node]) -> Iterator[set[Address]]:
    """Sets of addresses that name one another in responses."""
    near: dict[Address, set[Address]] = {address: set() for address in (*brokers, *nodes)}
    by_id: dict[str, Address] = {}
    for address, broker in brokers.items():
        there = set(broker.nodes)
        if broker.cluster_id is not None:
            # Controllers and brokers of KRaft say nothing of each other but their cluster.
            there.add(by_id.setdefault(broker.cluster_id[1], address))
        for other in there:
            near[address].add(other)
            near.setdefault(other, set()).add(address)
    for address in [*near]:
        for same in _same(*address):
            if same in near:
                near[address].add(same)
                near[same].add(address)
    left = sorted(near)
    seen: set[Address] = set()
    for address in left:
        if address in seen:
            continue
        members, waiting = {address}, [address]
        while waiting:
            for other in near[waiting.pop()] - members:
                members.add(other)
                waiting.append(other)
        seen |= members
        yield members


def _by_name(
    claims: dict[tuple[Any, ...], list[Leaders]], context: ResultContext
) -> dict[str, tuple[list[Leaders], LineKey | None]]:
    """Claims by the topic's name, and when it was gone. Of a topic that was deleted and made anew, with another id,
    those of the new one."""
    names = {topic_id: name for name, topic_id in claims if name and topic_id != ZERO_UUID}
    found: dict[str, dict[str, list[Leaders]]] = {}
    gone: dict[str, LineKey] = {}
    for (name, topic_id), each in claims.items():
        known = name or names.get(topic_id) or context.topic(topic_id) or topic_id
        for advertised in each:
            if advertised.last:
                found.setdefault(known, {}).setdefault(topic_id, []).append(advertised)
            if advertised.gone is not None:
                gone[known] = max(gone.get(known, advertised.gone), advertised.gone)
    return {name: (_of_newest(by_id), gone.get(name)) for name, by_id in sorted(found.items())}


def _of_newest(by_id: dict[str, list[Leaders]]) -> list[Leaders]:
    """The claims of the topic id seen last, and those without an id."""
    last = {topic_id: max(max(each.last.values()) for each in claims) for topic_id, claims in by_id.items()}
    with_id = sorted((key, topic_id) for topic_id, key in last.items() if topic_id != ZERO_UUID)
    newest = with_id[-1][1] if with_id else ZERO_UUID
    nameless = by_id.get(ZERO_UUID, []) if len(with_id) <= 1 else []
    return by_id[newest] + nameless if with_id else nameless


def _forget(advertised: Leaders | None, exchange: Exchange) -> None:
    if advertised is not None:
        advertised.gone = exchange.key if advertised.gone is None else max(advertised.gone, exchange.key)


def _place(row: Row) -> tuple[Any, ...]:
    node_id = row["node_id"]
    names = (
        row["cluster_id"] or "",
        node_id is None,
        node_id or 0,
        row["advertised"] or "",
        row["address"] or "",
    )
    return row["requests"] == 0, *names


def _moment(change: Row) -> tuple[Any, ...]:
    return change["at"] or "", change["partition"], change["epoch"] or 0


def _change(topic: str, change: LeaderChange) -> Row:
    return {
        "at": iso_time(change.time or None),
        "partition": f"{topic}-{change.partition}",
        "from": None if change.before < 0 else change.before,
        "to": None if change.now < 0 else change.now,
        "epoch": None if change.epoch < 0 else change.epoch,
    }


def _last(values: Iterable[tuple[Any, Any] | None]) -> Any:
    known = [value for value in values if value is not None]
    return max(known)[1] if known else None


def _offer(value: Any) -> Offer:
    return tuple(tuple(each) for each in value)


def _address(exchange: Exchange) -> Address:
    return exchange.connection.broker_ip, exchange.connection.broker_port


def _body(message: WireMessage | None) -> Struct:
    return {} if message is None else message.facts().body or {}


def _node_id(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _is_metadata(topic: Struct) -> bool:
    return (
        topic.get("topic_id") == METADATA_TOPIC_ID
        or (topic.get("topic_name") or topic.get("topic")) in METADATA_TOPICS
    )


def _same(host: str, port: int) -> Iterator[Address]:
    """The addresses by IP address that a host and a port stand for, as far as that is known."""
    hosts = LOOPBACK if host == "localhost" else (ip_text(host),)
    yield from ((ip, port) for ip in hosts if ip is not None)


_ADD: dict[int | None, Callable[[Brokers, Exchange, _Broker], None]] = {
    PRODUCE: Brokers._add_data,
    FETCH: Brokers._add_data,
    METADATA: Brokers._add_metadata,
    LEADER_AND_ISR: Brokers._add_control,
    STOP_REPLICA: Brokers._add_shutdown,
    UPDATE_METADATA: Brokers._add_control,
    CONTROLLED_SHUTDOWN: Brokers._add_shutdown,
    FIND_COORDINATOR: Brokers._add_answer,
    API_VERSIONS: Brokers._add_versions,
    DELETE_TOPICS: Brokers._add_deleted,
    ENVELOPE: Brokers._add_envelope,
    VOTE: Brokers._add_quorum,
    BEGIN_QUORUM_EPOCH: Brokers._add_quorum,
    END_QUORUM_EPOCH: Brokers._add_quorum,
    DESCRIBE_QUORUM: Brokers._add_quorum,
    DESCRIBE_CLUSTER: Brokers._add_cluster,
    BROKER_REGISTRATION: Brokers._add_registration,
    BROKER_HEARTBEAT: Brokers._add_registration,
    DESCRIBE_TOPIC_PARTITIONS: Brokers._add_described_topics,
    SHARE_FETCH: Brokers._add_data,
}


WORDS = {
    METADATA_ZOOKEEPER: "by Metadata",
    QUORUM_LEADER: "leads the quorum",
    DESCRIBED: "by DescribeCluster",
}


def _joined(rows: list[Row]) -> list[Row]:
    """A row for each node, with those of its listeners as `listeners`; one for each address whose node is not known."""
    nodes: dict[Any, list[Row]] = {}
    for row in rows:
        known_node = row["node_id"] is not None
        nodes.setdefault((row["cluster_id"], row["node_id"]) if known_node else len(nodes), []).append(row)
    return [
        {
            **listeners[0],
            "listeners": listeners,
            "requests": _sum([each["requests"] for each in listeners]),
            "errors": dict(sum((Counter(each["errors"]) for each in listeners), Counter())),
        }
        for listeners in nodes.values()
    ]


def _sum(counts: list[int | None]) -> int | None:
    """The sum of those that are known; None if none is."""
    return sum(filter(None, counts)) or (None if None in counts else 0)


def _each(text: Callable[[Row], str]) -> Callable[[Row], str]:
    """What is known of any of a node's listeners, once each."""

    def texts(row: Row) -> str:
        found = dict.fromkeys(filter(None, map(text, row["listeners"])))
        return ", ".join(each for each in found if each != UNKNOWN) or next(iter(found), "")

    return texts


def _addresses(row: Row) -> str:
    """The addresses of a node's listeners: ports of one host together."""
    ports: dict[str, list[str]] = {}
    for address in [each["address"] for each in row["listeners"] if each["address"] is not None]:
        host, _, port = address.rpartition(":")
        ports.setdefault(host, []).append(port)
    return ", ".join(f"{host}:{','.join(found)}" for host, found in ports.items()) or UNKNOWN


def _dialect(row: Row) -> str:
    """Nothing for Apache's, and where it offers nothing to know it by."""
    return (
        "" if row["dialect"] == APACHE or not (row["dialect_known_by"] or row["ranges"]) else row["dialect"]
    )


def _controller(row: Row) -> str:
    controller = row["controller"]
    if controller is None or row["node_id"] is None:
        return known(None)
    return WORDS[controller["known_by"]] if controller["node_id"] == row["node_id"] else ""


def _advertised(row: Row) -> str:
    return "" if row["advertised"] == row["address"] else known(row["advertised"])


def _leads(partitions: list[str] | None) -> str:
    return known(None if partitions is None else len(partitions))


def _details(row: Row, clock: Clock) -> list[str]:
    """What the node leads instead of another one; of each moment one line."""
    moves: dict[tuple[str, int | None, int | None], list[str]] = {}
    for change in row["leader_changes"]:
        if change["to"] in (row["node_id"], None):
            moves.setdefault((clock(change["at"]), change["from"], change["to"]), []).append(
                change["partition"]
            )
    return [
        f"{at} {_node(after)} leads {listed(partitions)}, before it {_node(before)}"
        for (at, before, after), partitions in moves.items()
    ]


def _node(node_id: int | None) -> str:
    return "nobody" if node_id is None else f"node {node_id}"


def _notes(rows: list[Row], capture: Row) -> list[str]:
    if not any(each["releases"] for row in rows for each in row["listeners"]):
        return []
    return [
        "RELEASES fit what a broker offers; patch releases that are newer than this kinspect may fit too."
    ]


def _more(file: str, rows: list[Row]) -> str:
    first = rows[0]["listeners"][0]
    host, _, port = str(first["address"] or first["advertised"]).rpartition(":")
    errors = " --errors-only" * bool(first["errors"])
    return f"kinspect read {file} --broker-host {quote(host.strip('[]'))} --port {quote(port)}{errors}"


def _filters(row: Row) -> FilterWords:
    """Of all listeners; nothing for a broker that no connection leads to: only responses name its address."""
    ends = [each["address"].rpartition(":") for each in row["listeners"] if each["address"] is not None]
    if ends:
        yield "broker-host", ",".join(dict.fromkeys(str(ip_address(host.strip("[]"))) for host, *_ in ends))
        yield "port", ",".join(dict.fromkeys(port for *_, port in ends))


ANSWER = Definition(
    Brokers,
    help="Which nodes there are: addresses, releases, the controller, leaders.",
    page="7",
    page_help="nodes, releases, leaders",
    columns=(
        Key("node_id", "int", "", "NODE"),
        Key("address", "text", "IP address and port", "ADDRESS", cell=_addresses, opens=_filters),
        Key(
            "advertised",
            "text",
            "Host and port as responses name them",
            "ADVERTISED",
            cell=_each(_advertised),
            rank=4,
        ),
        Key("rack", "text", "", "RACK", cell=_each(lambda row: plain(row["rack"])), rank=5),
        Key("cluster_id", "text", "", "CLUSTER", rank=6),
        Key("mode", "text", "kraft or zookeeper", "MODE", cell=_each(lambda row: known(row["mode"])), rank=3),
        Key(
            "releases",
            "texts",
            "Releases that fit its ApiVersions response",
            "RELEASES",
            cell=_each(lambda row: releases_text(row["releases"])),
        ),
        Key(
            "dialect",
            "text",
            "apache, another implementation of the protocol, or unknown",
            "DIALECT",
            cell=_each(_dialect),
        ),
        Key("dialect_known_by", "text", "api_versions, api_keys or cluster_id"),
        Key("ranges", "ints_map", "Least and greatest version of each API that it offers"),
        Key(
            "controller",
            "controller",
            "Controller of its cluster, and how it is known",
            "CONTROLLER",
            cell=_controller,
            rank=1,
        ),
        Key("leads", "texts", "Partitions that it leads", "LEADS", _leads, right=True),
        Key("leader_changes", "leader_changes", "Partitions that it won or lost"),
        Key("requests", "long", "", "REQUESTS"),
        Key(
            "errors", "counts", "Error codes of its responses, by name", "ERRORS", listed, rank=2, style=ERROR
        ),
    ),
    order="NODE, ADDRESS, ADVERTISED, RELEASES, DIALECT, MODE, CONTROLLER, LEADS, REQUESTS, ERRORS, RACK, CLUSTER",
    structs={
        "controller": "node_id int, at time, known_by text",
        "leader_change": "at time, partition text, from int, to int, epoch int",
    },
    identity="node_id",
    addresses="address",
    compared="advertised rack cluster_id mode releases dialect ranges",
    unknown={"releases": [], "dialect": UNKNOWN_DIALECT},
    nothing="no broker was asked",
    more=_more,
    details=_details,
    notes=_notes,
    joined=_joined,
)
