"""Names of topic ids and node ids at addresses: what tells them, and from when on they count."""

from __future__ import annotations

import tracemalloc
from ipaddress import ip_address
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from conversation import (
    BROKER,
    CLIENT,
    MS,
    Conversation,
    Wire,
    heartbeat,
    heartbeat_answer,
    request,
    response,
)
from exchanges import OTHER_ID, TOPIC_ID, bare, batch, exchange
from hypothesis import given
from hypothesis import strategies as st

import kinspect
from kinspect.kafka.connection.kafkaconnection import KafkaConnection
from kinspect.kafka.exchange.metadata import cluster_metadata, ip_text, may_have_metadata
from kinspect.kafka.wire import endpoints
from kinspect.kafka.wire.learnednames import NODES_KEPT, LearnedNames
from kinspect.kafka.wire.lineorder import UNPLACED, LineNumbering
from kinspect.protocol import schema
from kinspect.protocol.primitives import ZERO_UUID

CAPTURES = Path(__file__).parents[2] / "captures"
METADATA = 3
BROKER_ENDS = ("10.0.0.9", 9092)


def node(node_id: int, host: str = "10.0.0.9", port: int = 9092, **more: Any) -> dict[str, Any]:
    return {"node_id": node_id, "host": host, "port": port, **more}


# ---------------------------------------------------------------------- names


def test_names_told_beside_ids() -> None:
    topics = [
        {"error_code": 0, "name": "orders", "topic_id": TOPIC_ID, "partitions": []},
        {"error_code": 3, "name": "nope", "topic_id": ZERO_UUID, "partitions": []},
        {"error_code": 100, "name": None, "topic_id": OTHER_ID, "partitions": []},
    ]
    assert cluster_metadata(exchange(METADATA, 12, None, {"topics": topics})).names == [(TOPIC_ID, "orders")]


def test_names_told_deep_inside() -> None:
    assigned = {"topic_partitions": [{"topic_id": TOPIC_ID, "topic_name": "orders", "partitions": [0]}]}
    member = {"assignment": assigned, "target_assignment": {"topic_partitions": []}}
    assert cluster_metadata(exchange(69, 1, None, {"groups": [{"members": [member]}]})).names == [
        (TOPIC_ID, "orders")
    ]


@pytest.mark.parametrize(("api_key", "version"), [(4, 5), (4, 7), (6, 7), (6, 8)])
def test_names_that_a_controller_tells_in_its_requests(api_key: int, version: int) -> None:
    topics = [{"topic_name": "orders", "topic_id": TOPIC_ID}, {"topic_name": "old", "topic_id": ZERO_UUID}]
    found = cluster_metadata(exchange(api_key, version, {"topic_states": topics}))
    assert found == ((), (), [(TOPIC_ID, "orders")])


def test_names_that_a_client_asks_for_may_be_wrong() -> None:
    asked = {"topics": [{"name": "orders", "topic_id": TOPIC_ID}]}
    assert cluster_metadata(exchange(METADATA, 12, asked)) == ((), (), ())


def test_names_in_requests_serve_the_whole_run_and_no_line() -> None:
    capture = CAPTURES / "3.9.2" / "cluster_zk.pcap.gz"
    told = kinspect.answer("topics", capture)
    assert told["capture"]["unresolved_topic_ids"] == 0
    replicated = {row["topic"] for row in told["rows"] if row["direction"] == "replicate"}
    assert replicated == {"pc-zk", "pc-zk-del", "__consumer_offsets", "__transaction_state"}
    nameless = {
        topic for line in kinspect.read(capture) for topic in line.to_dict()["topics"] if len(topic) == 22
    }
    assert len(nameless) == 4


def test_what_tells_names_or_nodes() -> None:
    tellers = [
        (api.key, version)
        for api in schema.apis()
        for version in api.versions
        if may_have_metadata(api.key, version)
    ]
    first = {key: min(v for k, v in tellers if k == key) for key, _ in tellers}
    names = {19: 7, 20: 6, 69: 0, 75: 0, 77: 0, 90: 0, 91: 0, 92: 0}
    # Metadata and FindCoordinator always, DescribeCluster; of others NOT_LEADER's endpoints (KIP-951) and those of
    # controllers (KIP-853)
    nodes = {0: 10, 1: 16, 3: 0, 10: 0, 52: 1, 53: 1, 54: 1, 55: 2, 59: 1, 60: 0, 78: 0, 79: 0, 82: 0}
    asked = {4: 5, 6: 7}
    assert first == names | nodes | asked
    assert not may_have_metadata(METADATA, 9999)
    assert cluster_metadata(bare(METADATA, 12)) == ((), (), ())
    assert cluster_metadata(exchange(12, 4, None, {"error_code": 0})) == ((), (), ())


# ---------------------------------------------------------------------- nodes

TELLERS: list[tuple[int, int, dict[str, Any]]] = [
    (METADATA, 0, {"brokers": [node(7)]}),
    (METADATA, 13, {"brokers": [node(7, rack="a")]}),
    (10, 0, node(7)),
    (10, 6, {"coordinators": [node(7, key="g")]}),
    (60, 2, {"brokers": [{"broker_id": 7, "host": "10.0.0.9", "port": 9092}]}),
    (0, 10, {"node_endpoints": [node(7)]}),
    (1, 16, {"node_endpoints": [node(7, rack="a")]}),
    (1, 18, {"responses": [], "node_endpoints": [node(7)]}),
    (78, 2, {"node_endpoints": [node(7)]}),
    (79, 2, {"node_endpoints": [node(7)]}),
    (52, 2, {"node_endpoints": [node(7)]}),
    (55, 2, {"nodes": [{"node_id": 7, "listeners": [{"name": "C", "host": "10.0.0.9", "port": 9092}]}]}),
    (82, 0, {"current_leader": {"leader_id": 7, "leader_epoch": 1, "host": "10.0.0.9", "port": 9092}}),
]


@pytest.mark.parametrize(("api_key", "version", "body"), TELLERS)
def test_nodes_of_a_response(api_key: int, version: int, body: dict[str, Any]) -> None:
    assert cluster_metadata(exchange(api_key, version, None, body)).nodes == [(*BROKER_ENDS, 7)]


def test_node_of_a_host_name_an_unknown_coordinator_or_a_bootstrap_server_is_none() -> None:
    brokers = [node(1, "kafka-1.example"), node(-1), node(-2, "10.0.0.8"), node(2, ""), node(3, "::1", 9093)]
    assert cluster_metadata(exchange(METADATA, 9, None, {"brokers": brokers})).nodes == [("::1", 9093, 3)]
    assert cluster_metadata(exchange(10, 3, None, {"error_code": 15, **node(-1, "", -1)})).nodes == []


def test_node_with_an_address_written_otherwise() -> None:
    brokers = [node(1, "2001:DB8:0:0::1")]
    assert cluster_metadata(exchange(METADATA, 9, None, {"brokers": brokers})).nodes == [
        ("2001:db8::1", 9092, 1)
    ]


@given(
    st.ip_addresses().map(str),
    st.integers(0, 65535),
    st.none() | st.text("abc-1", max_size=9),
    st.booleans(),
    st.binary(max_size=40),
)
def test_node_told_at_the_end_of_a_response_is_seen(
    host: str, port: int, rack: str | None, fetch: bool, records: bytes
) -> None:
    fetched = {"partitions": [{"partition_index": 0, "error_code": 6, "records": records}]}
    produced = {"partition_responses": [{"index": 0, "error_code": 6}]}
    topic = {"topic_id": TOPIC_ID, **(fetched if fetch else produced)}
    body = {"responses": [topic], "node_endpoints": [node(3, host, port, rack=rack)]}
    found = exchange(*((1, 18) if fetch else (0, 13)), None, body)
    assert cluster_metadata(found).nodes == [(host, port, 3)]


def test_a_fetch_that_tells_no_node_is_not_decoded_for_it() -> None:
    found = exchange(
        1, 17, None, {"responses": [{"topic_id": TOPIC_ID, "partitions": [{"records": batch((b"k", b"v"))}]}]}
    )
    assert cluster_metadata(found) == ((), (), ())
    assert found.response is not None
    assert found.response._decoded is None


# ---------------------------------------------------------------------- from when on


def test_node_id_counts_from_the_next_exchange_on_and_the_latest_holds() -> None:
    names = LearnedNames()
    key = [(time, 0, 0, 0) for time in range(10)]
    told = [(2, 1), (3, 1), (5, 2), (7, 2)]
    for order in permutations(told):
        names = LearnedNames()
        for time, node_id in order:
            names.learn_node(*BROKER_ENDS, node_id, key[time])
        found = [names.node_id(*BROKER_ENDS, key[time]) for time in range(1, 9)]
        assert found == [None, None, 1, 1, 1, 2, 2, 2]
        assert names.node_id("10.0.0.9", 9093, key[9]) is None
        assert {node for *_, node, _ in names.take_new()[1]} == {1, 2}


def test_the_line_that_told_a_name_first_counts_whenever_it_is_learned() -> None:
    names = LearnedNames({"known": "before"})
    for time, name in ((5, "later"), (3, "orders"), (4, "between")):
        names.learn("id", name, (time, 0, 0, 0))
    names.learn("known", "again", (0, 0, 0, 0))
    assert [names.name("id", (time, 0, 0, 0)) for time in (3, 4, 9)] == [None, "orders", "orders"]
    assert names.name("known", UNPLACED) == "before"
    assert names.take_new()[0][-1] == ("id", "orders", (3, 0, 0, 0))
    assert names.take_new() == ([], [])


def test_node_ids_kept_are_bounded() -> None:
    names = LearnedNames()
    for order in range(NODES_KEPT + 10):
        names.learn_node(*BROKER_ENDS, order, (order, 0, 0, 0))
    assert len(names.take_new()[1]) == NODES_KEPT


def test_node_id_on_the_line_of_any_connection_from_then_on() -> None:
    first = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1))
    other = KafkaConnection(Wire(), LineNumbering(9), first.ledger)
    first.client(request(METADATA, 1, 2, {"topics": []}))
    first.broker(
        response(METADATA, 1, 2, {"brokers": [node(7, rack=None)], "controller_id": 7, "topics": []})
    )
    for direction, data in ((CLIENT, heartbeat(3)), (BROKER, heartbeat_answer(3))):
        first.packet += 1
        other.data(direction, first.packet * MS, first.packet, data, 0, len(data))
    first.client(request(METADATA, 1, 4, {"topics": []}))
    first.broker(
        response(METADATA, 1, 4, {"brokers": [node(8, rack=None)], "controller_id": 8, "topics": []})
    )
    found = first.client(heartbeat(5)).broker(heartbeat_answer(5)).close()
    told_ids = {e.correlation_id: e.to_dict()["broker"]["node_id"] for e in found}
    assert told_ids == {1: None, 2: None, 3: 7, 4: 7, 5: 8}


def test_node_ids_of_recorded_clusters() -> None:
    """All lines behind the first one with an address's node id have it too, on any connection."""
    for name, ids in (("2.8.1/kraft-2nodes", {1, 2}), ("0.8.2.2/controller-2brokers", {0, 1})):
        seen: dict[tuple[str, int], int] = {}
        for found in kinspect.read(CAPTURES / f"{name}.pcap.gz"):
            broker = found.to_dict()["broker"]
            ends = broker["ip"], broker["port"]
            assert broker["node_id"] == seen.setdefault(ends, broker["node_id"]) or seen[ends] is None
            seen[ends] = broker["node_id"]
        assert set(seen.values()) - {None} == ids


ADDRESS_LIKE = st.lists(
    st.one_of(
        st.integers(0, 300).map(str), st.sampled_from(["", "00", "01", "+1", "1_0", "٣", " 1", "x", "1\n"])
    ),
    min_size=3,
    max_size=5,
).map(".".join)


@given(st.one_of(ADDRESS_LIKE, st.ip_addresses().map(str), st.text(max_size=12), st.just("0:0::1")))
def test_an_address_is_what_the_standard_library_takes_for_one(host: str) -> None:
    try:
        expected = str(ip_address(host))
    except ValueError:
        expected = None
    assert ip_text(host) == expected


def test_long_hosts_are_not_kept() -> None:
    tracemalloc.start()
    for number in range(1000):
        assert ip_text(f"{number}{'.' * 10_000}") is None
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000
    assert ip_text("fe80::1%abcdefghijklmno") == "fe80::1%abcdefghijklmno"


@given(st.ip_addresses())
def test_bytes_of_an_address_as_text(address: Any) -> None:
    assert endpoints.ip_text(address.packed) == str(address)
