"""Brokers: rows equal plain sums over the lines of `kinspect read`, and what is known of the clusters."""

import json
import re
from collections import Counter, defaultdict
from functools import partial

import pytest
from support.captures import CAPTURES, FOLDERS, each_folder, each_of
from support.client import Client, recorded
from support.pcap import framed

from kinspect.analysis.releases import releases
from kinspect.answers.brokersanswer import ANSWER
from kinspect.protocol import schema

PRODUCE, FETCH, METADATA, LEADER_AND_ISR, UPDATE_METADATA = 0, 1, 3, 4, 6
FIND_COORDINATOR, API_VERSIONS, VOTE, DESCRIBE_QUORUM, DESCRIBE_CLUSTER = 10, 18, 52, 55, 60
HEARTBEAT = 63


@pytest.fixture
def rows(answer_rows):
    return partial(answer_rows, "brokers")


# ---------------------------------------------------------------------- all captures


def address(line):
    ip, port = line["broker"]["ip"], line["broker"]["port"]
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


@each_folder
def test_counts_are_plain_sums_over_the_lines(lines, rows, folder):
    for path in sorted(path for path in folder.iterdir() if ".pcap" in path.name):
        requests, errors, nodes, clusters = Counter(), defaultdict(Counter), {}, {}
        for line in lines(path):
            at = address(line)
            response = line["response"] or {"errors": [], "body": {}}
            requests[at] += line["request"] is not None
            errors[at].update(error["name"] for error in response["errors"])
            nodes[at] = line["broker"]["node_id"] if line["broker"]["node_id"] is not None else nodes.get(at)
            if line["api"] == "Metadata":
                clusters[at] = (response["body"] or {}).get("cluster_id") or clusters.get(at)
        found = {row["address"]: row for row in rows(path) if row["requests"] or row["address"] in requests}
        assert {at: row["requests"] or 0 for at, row in found.items()} == requests, path
        for at, row in found.items():
            assert row["errors"] == errors[at], path
            assert nodes[at] in (None, row["node_id"]), path
            assert clusters.get(at) in (None, row["cluster_id"]), path


each_release = each_of([folder for folder in FOLDERS if folder.name[0].isdigit()])


@each_release
def test_a_release_is_among_those_that_its_brokers_may_be(rows, folder):
    told = [row for path in sorted(folder.glob("*.pcap*")) for row in rows(path) if row["releases"]]
    assert all(folder.name in row["releases"] for row in told)
    line = folder.name.rpartition(".")[0]
    assert all(name.startswith(line) for row in told for name in row["releases"])
    # ApiVersions came with 0.10.0.
    assert told or folder.name == "0.8.2.2"


@each_release
def test_a_mode_is_that_of_the_cluster(rows, folder):
    for path in sorted(folder.glob("*.pcap*")):
        is_old = folder.name.startswith(("0.", "1.", "2."))
        is_kraft = "kraft" in path.name or not (is_old or "zk" in path.name)
        for row in rows(path):
            assert row["mode"] in (None, "kraft" if is_kraft else "zookeeper"), path


# ---------------------------------------------------------------------- known clusters


def by_port(found):
    return {int(row["address"].rpartition(":")[2]): row for row in found}


@pytest.mark.parametrize(
    ("release", "ports"),
    [
        ("0.8.2.2", (23002, 23003)),
        ("0.10.0.1", (23101, 23102)),
        ("2.0.1", (23601, 23602)),
        ("2.8.2", (23801, 23802)),
    ],
)
def test_a_controller_of_brokers_in_zookeeper_mode(rows, release, ports):
    found = by_port(rows(CAPTURES / release / "controller-2brokers.pcap.gz"))
    assert {port: row["node_id"] for port, row in found.items()} == dict(zip(ports, (0, 1), strict=True))
    for row in found.values():
        assert (row["mode"], row["controller"]["node_id"]) == ("zookeeper", 0)
        assert row["controller"]["known_by"] == "metadata_zookeeper"
    # Broker 1 shut down; node 0 has what both replicate.
    (change,) = found[ports[0]]["leader_changes"]
    assert (change["from"], change["to"]) == (1, 0)
    assert change["partition"] in found[ports[0]]["leads"]


def test_a_quorum_of_kraft(rows):
    found = by_port(rows(CAPTURES / "4.4.0" / "cluster_kraft.pcap.gz"))
    assert {port: row["node_id"] for port, row in found.items()} == {
        **{39090 + node: node for node in (1, 2, 3)},
        **{39100 + node: node for node in (1, 2, 3, 4)},
    }
    assert {row["mode"] for row in found.values()} == {"kraft"}
    assert {row["controller"]["known_by"] for row in found.values()} == {"quorum_leader"}
    assert len({row["cluster_id"] for row in found.values()}) == 1
    assert [found[port]["rack"] for port in (39091, 39092, 39093)] == ["r1", "r2", "r3"]


def test_nodes_of_an_early_quorum(rows):
    found = by_port(rows(CAPTURES / "2.8.1" / "kraft-2nodes.pcap.gz"))
    assert (found[24221]["node_id"], found[24222]["node_id"]) == (1, 2)
    assert found[24221]["cluster_id"] == found[24231]["cluster_id"] == "O5gJHzVFTAeUZ5KqjgF97g"
    assert found[24221]["controller"]["node_id"] == 2
    (change,) = found[24221]["leader_changes"]
    assert (change["partition"], change["from"], change["to"]) == ("@metadata-0", 1, 2)


def test_a_single_node_of_kraft_tells_no_controller(rows):
    """Its Metadata names one."""
    (row,) = rows(CAPTURES / "4.4.0" / "txn_java.pcap.gz")
    assert (row["node_id"], row["mode"], row["controller"]) == (1, "kraft", None)


# ---------------------------------------------------------------------- releases


@pytest.mark.parametrize("name", [name for name in schema.releases() if not name.startswith("0.8")])
def test_a_release_that_offers_all_it_has_is_found(name):
    spoken = schema.releases()[name]
    offer = tuple(sorted((key, known.low, known.high - known.unstable) for key, known in spoken.items()))
    assert name in releases(tuple(each for each in offer if each[1] <= each[2]))


def test_versions_that_no_release_has():
    assert releases(((3, 0, 99),)) == ()


# ---------------------------------------------------------------------- dialects


@each_release
def test_brokers_of_releases_speak_as_apaches_and_tell_ranges(lines, rows, folder):
    for path in sorted(folder.glob("*.pcap*"))[:3]:
        told = {}
        for line in lines(path):
            if line["api"] == "ApiVersions" and line["response"] and not line["response"]["errors"]:
                told[address(line)] = {
                    each["api_key"]: [each["min_version"], each["max_version"]]
                    for each in (line["response"]["body"] or {}).get("api_keys") or ()
                }
        for row in rows(path):
            apis = told.get(row["address"])
            named = apis and {schema.api_name(key): each for key, each in sorted(apis.items())}
            assert row["ranges"] == (named or None), path
            known = ("apache", "api_versions") if named else ("unknown", None)
            assert (row["dialect"], row["dialect_known_by"]) == known, path


# ---------------------------------------------------------------------- made conversations

ZOOKEEPER_APIS = [(METADATA, 0, 5), (UPDATE_METADATA, 0, 4)]
KRAFT_APIS = [(METADATA, 0, 12), (DESCRIBE_QUORUM, 0, 1)]


class Asker(Client):
    """A client that asks about its cluster."""

    def versions(self, apis):
        answer = [{"api_key": key, "min_version": low, "max_version": high} for key, low, high in apis]
        self.ask(API_VERSIONS, 0, {}, {"error_code": 0, "api_keys": answer})

    def metadata(self, brokers=(("10.0.0.9", 9092, 1),), leaders=(), controller=1, cluster="c", version=7):
        told = [
            {"partition_index": index, "leader_id": leader, "leader_epoch": epoch, "error_code": 0}
            for index, leader, epoch in leaders
        ]
        if version < 7:
            told = [{key: value for key, value in each.items() if key != "leader_epoch"} for each in told]
        answer = {
            "brokers": [{"host": host, "port": port, "node_id": node} for host, port, node in brokers],
            "cluster_id": cluster,
            "controller_id": controller,
            "topics": [{"name": "t", "error_code": 0, "partitions": told}],
        }
        self.ask(METADATA, version, {"topics": []}, answer)

    def cluster(self, controller, endpoint_type):
        answer = {
            "endpoint_type": endpoint_type,
            "cluster_id": "c",
            "controller_id": controller,
            "brokers": [],
        }
        self.ask(DESCRIBE_CLUSTER, 1, {"endpoint_type": endpoint_type}, answer)


@pytest.fixture
def made(rows, tmp_path):
    """The rows of what clients did."""

    def made(*clients):
        path = tmp_path / "made.pcap"
        path.write_bytes(recorded(*clients))
        return rows(path)

    return made


@pytest.mark.parametrize(
    ("apis", "cluster", "expected"),
    [
        ([(METADATA, 0, 12), (501, 0, 1), (521, 0, 0), (603, 0, 0)], "c", ("automq", "api_keys")),
        ([(METADATA, 0, 12), (500, 0, 0), (502, 0, 0)], "c", ("inkless", "api_keys")),
        ([(METADATA, 0, 12), (10021, 0, 0)], "c", ("confluent", "api_keys")),
        ([(METADATA, 0, 12), (500, 0, 0), (10021, 0, 0)], "c", ("unknown", None)),
        ([(METADATA, 0, 12), (30000, 0, 0)], "c", ("unknown", None)),
        ([(METADATA, 0, 8), (FETCH, 0, 11)], "redpanda.1b2c", ("redpanda", "cluster_id")),
        ([(METADATA, 0, 99)], "c", ("unknown", None)),
        (None, "lkc-8rgn0m", ("confluent", "cluster_id")),
        (None, "c", ("unknown", None)),
    ],
)
def test_a_dialect_is_known_by_api_keys_and_the_cluster_id(made, apis, cluster, expected):
    client = Asker()
    if apis:
        client.versions(apis)
    client.metadata(cluster=cluster)
    (row,) = made(client)
    assert (row["dialect"], row["dialect_known_by"]) == expected
    named = apis and {schema.api_name(key) or str(key): [low, high] for key, low, high in apis}
    assert row["ranges"] == named
    assert (row["releases"] != []) == (expected[0] == "apache")


def test_an_answered_api_that_apaches_releases_do_not_have_marks_a_dialect(made):
    client = Asker()
    client.metadata()
    for key, answer in ((518, b"\0\0\0\x63" + bytes(8)), (30000, None)):
        client.talk.client_sends(framed(key.to_bytes(2, "big") + b"\0\0\0\0\0\x63\0\x03app" + bytes(5)))
        if answer:
            client.talk.broker_sends(framed(answer))
    (row,) = made(client)
    assert (row["dialect"], row["dialect_known_by"], row["ranges"]) == ("automq", "api_keys", None)


@pytest.mark.parametrize(("key", "shown"), [(517, "automq"), (30000, "unknown"), (None, None)])
def test_tables_tell_a_dialect_other_than_apaches(kinspect, tmp_path, key, shown):
    client = Asker()
    if key:
        client.versions([(METADATA, 0, 12), (key, 0, 0)])
    client.metadata()
    path = tmp_path / "made.pcap"
    path.write_bytes(recorded(client))
    title, row, *_ = kinspect("brokers", "--format", "table", path).out.splitlines()
    assert ("DIALECT" in title.split()) == (shown is not None)
    assert shown is None or shown in row.split()


def test_metadata_tells_the_controller_in_zookeeper_mode_alone(made):
    for apis, expected in ((ZOOKEEPER_APIS, 1), (KRAFT_APIS, None), (None, None)):
        client = Asker()
        if apis:
            client.versions(apis)
        client.metadata()
        (row,) = made(client)
        assert (row["controller"] or {"node_id": None})["node_id"] == expected


def test_describe_cluster_tells_it_of_controllers_and_in_zookeeper_mode(made):
    for apis, endpoint_type, expected in ((ZOOKEEPER_APIS, 1, 5), (KRAFT_APIS, 1, None), (KRAFT_APIS, 2, 5)):
        client = Asker()
        client.versions(apis)
        client.cluster(5, endpoint_type)
        (row,) = made(client)
        assert row["controller"] == (
            expected and {"node_id": 5, "at": row["controller"]["at"], "known_by": "describe_cluster"}
        )


def test_the_last_that_is_told_is_the_controller(made):
    client = Asker()
    client.versions(KRAFT_APIS)
    for leader in (1, 2):
        part = {
            "partition_index": 0,
            "leader_id": leader,
            "leader_epoch": leader,
            "current_voters": [],
            "observers": [],
        }
        answer = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [part]}]}
        client.ask(DESCRIBE_QUORUM, 1, {"topics": []}, answer)
    (row,) = made(client)
    assert (row["controller"]["node_id"], row["controller"]["known_by"]) == (2, "quorum_leader")


def test_who_takes_heartbeats_is_the_controller(made):
    client, broker = Asker(), Client("1", 40001)
    client.metadata([("10.0.0.9", 9092, 3)])
    broker.ask(HEARTBEAT, 0, {"broker_id": 1}, {"error_code": 0})
    (row,) = made(client, broker)
    assert (row["mode"], row["controller"]["node_id"]) == ("kraft", 3)


def test_leaders_follow_their_epochs(made):
    first, second = Asker(), Asker(port=40001)
    nodes = [("10.0.0.9", 9092, 1), ("10.0.0.8", 9092, 2)]
    first.metadata(nodes, [(0, 1, 4), (1, 2, 4)])
    second.meet(first)
    second.metadata(nodes, [(0, 2, 5), (1, 2, 5)])
    first.meet(second)
    # A broker that lags behind tells an old epoch.
    first.metadata(nodes, [(0, 1, 4), (1, 2, 4)])
    one, two = sorted(made(first, second), key=lambda row: row["node_id"])
    assert (one["leads"], two["leads"]) == ([], ["t-0", "t-1"])
    (change,) = one["leader_changes"]
    assert {key: change[key] for key in ("partition", "from", "to", "epoch")} == {
        "partition": "t-0",
        "from": 1,
        "to": 2,
        "epoch": 5,
    }
    assert two["leader_changes"] == one["leader_changes"]


def test_no_leader_is_null(made):
    client = Asker()
    client.metadata(leaders=[(0, 1, 4)])
    client.metadata(leaders=[(0, -1, 5)])
    client.metadata(leaders=[(0, 1, 6)])
    (row,) = made(client)
    assert [(change["from"], change["to"]) for change in row["leader_changes"]] == [(1, None), (None, 1)]
    assert row["leads"] == ["t-0"]


DELETE_TOPICS = 20


def test_nobody_leads_a_topic_that_was_deleted(made):
    client = Asker()
    client.metadata(leaders=[(0, 1, 4)])
    deleted = {"throttle_time_ms": 0, "responses": [{"name": "t", "error_code": 0}]}
    client.ask(DELETE_TOPICS, 4, {"topic_names": ["t"], "timeout_ms": 1}, deleted)
    (row,) = made(client)
    assert row["leads"] == []
    client.metadata(leaders=[(0, 1, 0)])
    (row,) = made(client)
    assert row["leads"] == ["t-0"]


def test_a_topic_that_was_not_deleted_is_still_led(made):
    client = Asker()
    client.metadata(leaders=[(0, 1, 4)])
    refused = {"throttle_time_ms": 0, "responses": [{"name": "t", "error_code": 29}]}
    client.ask(DELETE_TOPICS, 4, {"topic_names": ["t"], "timeout_ms": 1}, refused)
    (row,) = made(client)
    assert row["leads"] == ["t-0"]


@pytest.mark.parametrize("path", ["4.4.0/cluster_kraft", "3.9.2/cluster_zk", "2.8.2/adminclient"])
def test_deleted_topics_of_captures_are_not_led(rows, path):
    """One deletes in an Envelope, one tells a leader of -2, one asks the broker itself."""
    found = {partition for row in rows(CAPTURES / f"{path}.pcap.gz") for partition in row["leads"]}
    assert found
    assert not [name for name in found if name.startswith(("pc-rep-x-", "pc-zk-del-", "canyon-adm-"))]


def test_leaders_without_epochs_follow_each_other(made):
    client = Asker()
    for leader in (1, 1, 2, 2):
        client.metadata([("10.0.0.9", 9092, 1), ("10.0.0.8", 9092, 2)], [(0, leader, -1)], version=5)
    one, two = sorted(made(client), key=lambda row: row["node_id"])
    (change,) = one["leader_changes"]
    assert (change["from"], change["to"], change["epoch"]) == (1, 2, None)
    assert (one["leads"], two["leads"]) == ([], ["t-0"])


def test_a_node_that_nobody_asked_has_a_row(made):
    client = Asker()
    client.metadata([("10.0.0.9", 9092, 1), ("10.0.0.8", 9092, 2), ("broker3", 9092, 3)])
    found = {row["node_id"]: row for row in made(client)}
    assert {node: (row["address"], row["advertised"], row["requests"]) for node, row in found.items()} == {
        1: ("10.0.0.9:9092", "10.0.0.9:9092", 1),
        2: ("10.0.0.8:9092", "10.0.0.8:9092", 0),
        3: (None, "broker3:9092", 0),
    }


def test_the_only_node_is_the_one_that_answers(made):
    client = Asker()
    client.metadata([("kafka.example", 29092, 7)])
    (row,) = made(client)
    assert (row["node_id"], row["address"], row["advertised"]) == (7, "10.0.0.9:9092", "kafka.example:29092")


def test_localhost_is_the_loopback_address(made):
    client, other = Asker(broker=("127.0.0.1", 9092)), Asker(port=40001, broker=("127.0.0.1", 9093))
    for each in (client, other):
        each.metadata([("localhost", 9092, 1), ("localhost", 9093, 2)])
    found = {row["node_id"]: row for row in made(client, other)}
    assert {node: (row["address"], row["advertised"]) for node, row in found.items()} == {
        1: ("127.0.0.1:9092", "localhost:9092"),
        2: ("127.0.0.1:9093", "localhost:9093"),
    }


def test_clusters_are_kept_apart(made):
    """Both have a node 1 and a topic t."""
    here, there = Asker(), Asker(port=40001, broker=("10.9.9.9", 9092))
    here.metadata(leaders=[(0, 1, 1)], cluster="here")
    there.metadata([("10.9.9.9", 9092, 1)], [(0, 1, 1), (1, 1, 1)], cluster="there")
    found = {row["cluster_id"]: row["leads"] for row in made(here, there)}
    assert found == {"here": ["t-0"], "there": ["t-0", "t-1"]}


def test_an_error_instead_of_versions_tells_no_release(made):
    client = Asker()
    client.ask(
        API_VERSIONS,
        0,
        {},
        {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 3}]},
    )
    (row,) = made(client)
    assert (row["releases"], row["mode"], row["errors"]) == ([], None, {"UNSUPPORTED_VERSION": 1})


def test_what_a_controller_tells_brokers(made):
    client = Asker()
    part = {"partition_index": 0, "leader": 1, "leader_epoch": 3, "topic_name": "t"}
    node = {"id": 1, "endpoints": [{"host": "10.0.0.9", "port": 9092}], "rack": "r1"}
    request = {"controller_id": 8, "ungrouped_partition_states": [part], "live_brokers": [node]}
    client.ask(UPDATE_METADATA, 2, request, {"error_code": 0})
    (row,) = made(client)
    assert (row["node_id"], row["rack"], row["mode"], row["leads"]) == (1, "r1", "zookeeper", ["t-0"])
    assert (row["controller"]["node_id"], row["controller"]["known_by"]) == (8, "metadata_zookeeper")


def test_a_vote_names_the_node_it_is_for(made):
    client = Client("raft")
    topic = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    answer = {"partition_index": 0, "leader_id": -1, "leader_epoch": 3}
    client.ask(
        VOTE,
        1,
        {"cluster_id": "c", "voter_id": 6, "topics": [topic]},
        {"error_code": 0, "topics": [{"topic_name": "__cluster_metadata", "partitions": [answer]}]},
    )
    (row,) = made(client)
    assert (row["node_id"], row["cluster_id"], row["mode"], row["controller"]) == (6, "c", "kraft", None)


def test_damaged_messages_are_read_as_far_as_they_go(rows, tmp_path):
    client = Asker()
    client.versions(KRAFT_APIS)
    client.metadata(leaders=[(0, 1, 4)])
    client.cluster(1, 2)
    for cut in range(1, 60):
        path = tmp_path / f"{cut}.pcap"
        path.write_bytes(recorded(client))
        data = [
            each._replace(data=each.data[: max(54, len(each.data) - cut)]) for each in client.talk.packets
        ]
        part = Asker()
        part.talk.packets = data
        path.write_bytes(recorded(part))
        assert all(row["requests"] <= 3 for row in rows(path))


def test_tables_have_a_row_for_all_listeners_of_a_node(kinspect):
    capture = CAPTURES / "4.4.0" / "cluster_kraft.pcap.gz"
    changes = {
        (change["at"], change["partition"])
        for row in json.loads(kinspect("brokers", "--format", "json", capture).out)["rows"]
        for change in row["leader_changes"]
    }
    lines = kinspect("brokers", "--format", "table", "--wide", capture).out.splitlines()
    assert sum(" leads " in line and ", before " in line for line in lines) == len(changes) > 1
    rows = {tuple(line.split()[:2]) for line in lines if re.match(r" +\d+  127", line)}
    assert rows == {
        ("1", "127.0.0.1:39091,39101"),
        ("2", "127.0.0.1:39092,39102"),
        ("3", "127.0.0.1:39093,39103"),
        ("4", "127.0.0.1:39104"),
    }


def test_a_joined_row_adds_up_and_keeps_what_any_listener_tells():
    def listener(node_id, address, **told):
        empty = {
            "cluster_id": "c",
            "advertised": address,
            "releases": [],
            "dialect": "unknown",
            "dialect_known_by": None,
            "ranges": None,
            "mode": None,
            "controller": None,
            "leads": [],
            "leader_changes": [],
            "rack": None,
            "requests": 0,
            "errors": {},
        }
        return {**empty, "node_id": node_id, "address": address, **told}

    rows = [
        listener(1, "[::1]:9092", requests=3, errors={"A": 1}, mode="kraft"),
        listener(None, "10.0.0.9:1", requests=5),
        listener(1, "10.0.0.1:9093", requests=4, errors={"A": 2, "B": 1}, releases=["4.0.0"]),
        listener(1, None, advertised="b1:9094", requests=None),
        listener(None, "10.0.0.9:2", requests=None),
        listener(1, "10.0.0.1:9092", cluster_id="other"),
    ]
    joined = ANSWER.joined(rows)
    cells = [{column.title: column.text(row) for column in ANSWER.titled} for row in joined]
    assert [cell["ADDRESS"] for cell in cells] == [
        "[::1]:9092, 10.0.0.1:9093",
        "10.0.0.9:1",
        "10.0.0.9:2",
        "10.0.0.1:9092",
    ]
    first = cells[0]
    assert (first["REQUESTS"], first["ERRORS"]) == ("7", "A 3, B 1")
    assert (first["RELEASES"], first["MODE"], first["ADVERTISED"]) == ("4.0.0", "kraft", "b1:9094")
    assert [cell["REQUESTS"] for cell in cells] == ["7", "5", "?", "0"]
    assert (cells[1]["RELEASES"], cells[1]["MODE"], cells[1]["NODE"]) == ("?", "?", "?")


def test_nobody_knows_who_leads_where_newer_leaders_may_be_left_out(rows):
    path = CAPTURES / "4.4.0/cluster_kraft.pcap.gz"
    found = rows(path, "--client-id", "pc-cl*")
    assert found
    assert all(row["leads"] is None for row in found)


def test_topics_that_were_left_out_have_no_leaders(rows):
    path = CAPTURES / "4.4.0/cluster_kraft.pcap.gz"
    found, whole = rows(path, "--topic", "pc-rep"), rows(path)
    assert {name for row in found for name in row["leads"]} == {"pc-rep-0", "pc-rep-1"}
    assert {change["partition"] for row in found for change in row["leader_changes"]} == {
        "pc-rep-0",
        "pc-rep-1",
    }
    leads = {row["address"]: row["leads"] for row in whole}
    assert all({*row["leads"]} <= {*leads[row["address"]]} for row in found)


def test_requests_that_were_not_captured_are_not_known(kinspect, tmp_path):
    client = Asker()
    for _ in range(5):
        client.metadata()
    asked = client.talk.packets[0].data[26:30]
    client.talk.packets = [packet for packet in client.talk.packets if packet.data[26:30] != asked]
    path = tmp_path / "answers.pcap"
    path.write_bytes(recorded(client))
    (row,) = json.loads(kinspect("brokers", "--format", "json", "--decode-as", "9092", path).out)["rows"]
    assert row["requests"] is None
