"""Requests that brokers forward in Envelopes count once: as the client's own, or for the client inside."""

import json
import random
from functools import partial

import pytest
from support.captures import CAPTURES
from support.client import Client, recorded
from support.packets import packets
from support.pcap import framed, pcap

import kinspect
from kinspect.analysis.answer import ResultContext
from kinspect.analysis.metrics import ERRORS, TOPIC_ERRORS, KafkaMetrics
from kinspect.analysis.traffic import Traffic
from kinspect.answers import answers, open_answer
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.protocol import Message, encode_request, encode_response

DELETE_TOPICS, ENVELOPE = 20, 58
NOT_CONTROLLER, DENIED = 41, 29
ALICE = b"\0\0" + b"\x05User" + b"\x06alice" + b"\0\0"
BROKER, CONTROLLER = ("10.0.0.9", 9092), ("10.0.0.8", 9093)
WITH_ENVELOPES = (
    *("2.8.1/kraft-2nodes.pcap.gz", "4.4.0/controller_single.pcap"),
    *("4.4.0/cluster_kraft.pcap.gz", "4.4.0/voter.pcap.gz"),
)


def request(number=7, topic="t", client="app"):
    body = {"topic_names": [topic], "timeout_ms": 1}
    return encode_request(Message(DELETE_TOPICS, 4, number, body, client))


def answer(number=7, topic="t", code=DENIED):
    body = {"throttle_time_ms": 0, "responses": [{"name": topic, "error_code": code}]}
    return encode_response(Message(DELETE_TOPICS, 4, number, body))


class Cluster:
    """A client of a broker that forwards to a controller."""

    def __init__(self):
        self.client = Client("app", broker=BROKER)
        self.broker = Client("1", port=50000, broker=CONTROLLER)
        self.broker.wait(1)

    def asks(self, takes=0.1, **own):
        """The client's own request, sent before the broker's next one, and answered so much later."""
        self.client.talk.time_us = self.broker.talk.time_us - 1000
        self.client.talk.client_sends(framed(request(**own)))
        self.client.wait(takes)
        self.client.talk.broker_sends(framed(answer(**{k: v for k, v in own.items() if k != "client"})))

    def forwards(self, told=None, code=0):
        """The broker's Envelope. `told`: the answer that it gets inside; `code`: the error of its own."""
        asked = {
            "request_data": request(),
            "request_principal": ALICE,
            "client_host_address": b"\x0a\0\0\1",
        }
        self.broker.ask(ENVELOPE, 0, asked, {"response_data": told, "error_code": code}, takes=0.01)

    def write(self, folder, both=True):
        """A capture at the broker, or, without `both`, of what it says to the controller."""
        path = folder / "forwarded.pcap"
        path.write_bytes(recorded(*[self.client] * both, self.broker))
        return path


@pytest.fixture
def rows(answer_rows):
    return lambda path, name, *options: answer_rows(name, *options, path)


def told(row, *keys):
    return tuple(row[key] for key in keys)


@pytest.fixture
def both(tmp_path):
    """A request and the Envelope that carries it."""
    cluster = Cluster()
    cluster.asks()
    cluster.forwards(answer())
    return cluster.write(tmp_path)


@pytest.fixture
def alone(tmp_path):
    """An Envelope whose client was not captured."""
    cluster = Cluster()
    cluster.forwards(answer())
    return cluster.write(tmp_path, both=False)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_request_and_its_envelope_are_one(rows, both, jobs):
    of = partial(rows, both)
    (error,) = of("errors", "--jobs", jobs)
    assert told(error, "api", "client_id", "count") == ("DeleteTopics", "app", 1)
    assert {row["api"]: row["count"] for row in of("latency", "--jobs", jobs)} == {
        "DeleteTopics": 1,
        "Envelope": 1,
    }
    assert {row["client_id"]: {*row["apis"]} for row in of("clients", "--jobs", jobs)} == {
        "app": {"DeleteTopics"},
        "1": {"Envelope"},
    }
    (finding,) = (row for row in of("summary", "--jobs", jobs) if row["finding"] == "errors")
    assert told(finding, "count", "text") == (1, "DeleteTopics TOPIC_AUTHORIZATION_FAILED")
    errors = {row["address"]: row["errors"] for row in of("brokers", "--jobs", jobs)}
    assert errors == {"10.0.0.9:9092": {"TOPIC_AUTHORIZATION_FAILED": 1}, "10.0.0.8:9093": {}}


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_envelope_alone_counts_for_the_client_inside(rows, alone, jobs):
    of = partial(rows, alone)
    (error,) = of("errors", "--jobs", jobs)
    assert told(error, "api", "client_id", "client_ip", "count", "topics", "principals") == (
        *("DeleteTopics", "app", "10.0.0.1", 1),
        *(["t"], ["alice"]),
    )
    found = {row["client_id"]: row for row in of("clients", "--jobs", jobs)}
    assert told(found["app"], "requests", "connections", "tls", "principal") == (1, 0, None, "alice")
    assert found["app"]["apis"]["DeleteTopics"]["errors"] == {"TOPIC_AUTHORIZATION_FAILED": 1}
    assert told(found["1"], "requests", "connections", "tls") == (1, 1, False)
    assert {*found["1"]["apis"]} == {"Envelope"}
    times = {row["api"]: row for row in of("latency", "--jobs", jobs)}
    assert told(times["DeleteTopics"], "count", "slowest") == (1, None)
    assert times["DeleteTopics"]["latency_ms"]["max"] is None
    assert times["Envelope"]["latency_ms"]["max"] == 10.2
    (finding,) = (row for row in of("summary", "--jobs", jobs) if row["finding"] == "errors")
    assert told(finding, "count", "text") == (1, "DeleteTopics TOPIC_AUTHORIZATION_FAILED")


def test_metrics_and_the_live_views_figures_count_what_an_envelope_holds_once(both):
    metrics, traffic = KafkaMetrics(), Traffic()
    for exchange in kinspect.read(both):
        metrics.add(exchange)
        traffic.add(exchange)
    found = metrics.result()
    assert found[ERRORS.name] == {("DeleteTopics", "TOPIC_AUTHORIZATION_FAILED", "no"): 1}
    assert found[TOPIC_ERRORS.name] == {("t", "TOPIC_AUTHORIZATION_FAILED"): 1}
    result = traffic.result(9)
    assert (result.exchanges, result.failed) == (2, 1)
    assert [(fault.api, times) for fault, times in result.faults.names] == [("DeleteTopics", 1)]


def test_which_broker_was_asked_is_not_known(rows, alone):
    assert [row["broker"] for row in rows(alone, "errors", "--by", "broker")] == [None]
    (row,) = rows(alone, "brokers")
    assert told(row, "address", "requests", "errors") == ("10.0.0.8:9093", 1, {})


@pytest.mark.parametrize(
    ("own", "counted"),
    [
        ({}, 1),
        ({"number": 8}, 2),
        ({"topic": "u"}, 2),
        ({"takes": 0.0005}, 2),
    ],
    ids=["the same", "another id", "other bytes", "answered before"],
)
def test_what_the_same_request_is(rows, tmp_path, own, counted):
    cluster = Cluster()
    cluster.asks(**own)
    cluster.forwards(answer())
    path = cluster.write(tmp_path)
    assert sum(row["count"] for row in rows(path, "errors")) == counted


def test_the_request_of_another_client_is_another_one(rows, tmp_path):
    cluster = Cluster()
    cluster.asks(client="other")
    cluster.forwards(answer())
    assert {row["client_id"] for row in rows(cluster.write(tmp_path), "errors")} == {"app", "other"}


@pytest.mark.parametrize("both", [True, False])
def test_a_request_that_is_forwarded_again_is_one(rows, tmp_path, both):
    cluster = Cluster()
    cluster.asks(takes=1)
    cluster.forwards(code=NOT_CONTROLLER)
    cluster.forwards(answer())
    path = cluster.write(tmp_path, both=both)
    assert sorted(told(row, "api", "error", "count") for row in rows(path, "errors")) == [
        ("DeleteTopics", "TOPIC_AUTHORIZATION_FAILED", 1),
        ("Envelope", "NOT_CONTROLLER", 1),
    ]


def test_a_refused_envelope_alone_says_nothing_of_its_client(rows, tmp_path):
    cluster = Cluster()
    cluster.forwards(code=NOT_CONTROLLER)
    path = cluster.write(tmp_path, both=False)
    assert [row["client_id"] for row in rows(path, "clients")] == ["1"]


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        (("--api", "DeleteTopics"), {"Envelope", "DeleteTopics"}),
        (("--principal", "alice"), {"Envelope", "DeleteTopics"}),
        (("--topic", "t"), {"Envelope", "DeleteTopics"}),
        (("--errors-only",), {"Envelope", "DeleteTopics"}),
        (("--api", "Envelope"), {"Envelope"}),
        (("--client-id", "1"), {"Envelope"}),
        (("--broker-host", "10.0.0.8"), {"Envelope"}),
        (("--min-latency", "5"), {"Envelope"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_an_envelope_holds_passes_the_filter_too(rows, alone, options, counted):
    assert {row["api"] for row in rows(alone, "latency", *options)} == counted


def test_a_deleted_topic_is_gone_whoever_told(rows, tmp_path):
    cluster = Cluster()
    partition = {"error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 4}
    metadata = {
        "brokers": [{"node_id": 1, "host": CONTROLLER[0], "port": CONTROLLER[1]}],
        "topics": [{"error_code": 0, "name": "t", "partitions": [partition]}],
    }
    cluster.broker.ask(3, 7, {"topics": []}, metadata)
    (before,) = rows(cluster.write(tmp_path, both=False), "brokers")
    cluster.forwards(answer(code=0))
    (after,) = rows(cluster.write(tmp_path, both=False), "brokers")
    assert (before["leads"], after["leads"]) == (["t-0"], [])


@pytest.mark.parametrize("name", answers())
@pytest.mark.parametrize("seed", range(3))
def test_parts_merge_to_the_whole_in_any_order(tmp_path, name, seed):
    cluster = Cluster()
    cluster.asks()
    cluster.forwards(answer())
    cluster.broker.wait(1)
    cluster.forwards(answer())
    found = [*kinspect.read(cluster.write(tmp_path))]
    rng = random.Random(seed)
    whole, parts = open_answer(name), [open_answer(name) for _ in range(2)]
    for exchange in found:
        whole.take(exchange)
        parts[exchange.client_id == "app"].take(exchange)
    rng.shuffle(parts)
    one, other = parts
    one.merge(type(other).from_bytes(other.to_bytes()))
    names = LearnedNames()
    assert one.settled(names).result(ResultContext(names)) == whole.settled(names).result(
        ResultContext(names)
    )
    assert whole.settled(names).exchanges == whole.exchanges == len(found)


@pytest.mark.parametrize("capture", WITH_ENVELOPES)
def test_a_capture_at_the_controller_has_the_clients_in_envelopes(tmp_path, capture):
    """Without the clients whose requests were forwarded, the answer has them all the same, and no more."""
    taken = [*packets(CAPTURES / capture)]
    inner = {
        (carried["api"], carried["client_id"])
        for exchange in kinspect.read(CAPTURES / capture)
        if exchange.api_key == ENVELOPE and exchange.summary.error_codes != [NOT_CONTROLLER]
        for carried in [exchange.to_dict()["request"]["body"]["request_data_decoded"]]
    }
    ports = {
        port.to_bytes(2, "big")
        for exchange in kinspect.read(CAPTURES / capture)
        if (exchange.api, exchange.client_id) in inner
        for port in [exchange.connection.client_port]
    }
    path = tmp_path / "controller.pcap"
    path.write_bytes(
        pcap(
            [
                ((packet.time or 0) // 1000, packet.data)
                for packet in taken
                if not ports & {packet.data[34:36], packet.data[36:38]}
            ]
        )
    )
    uses = {
        (api, row["client_id"]): use["requests"]
        for row in kinspect.answer("clients", path)["rows"]
        for api, use in row["apis"].items()
    }
    whole = {
        (api, row["client_id"]): use["requests"]
        for row in kinspect.answer("clients", CAPTURES / capture)["rows"]
        for api, use in row["apis"].items()
    }
    assert inner <= uses.keys()
    assert all(uses[each] <= whole[each] for each in uses)


def test_the_table_of_an_envelope_alone(kinspect, alone):
    table = kinspect("clients", "--format", "table", alone).out
    assert "app" in table
    found = json.loads(kinspect("clients", "--format", "json", alone).out)
    assert found["capture"]["counted"] == found["capture"]["exchanges"] == 1
