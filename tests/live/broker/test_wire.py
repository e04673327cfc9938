"""`kafka_wire.forward` between real clients and a real broker: they work as without it, and what they say is seen."""

import os
import threading
from pathlib import Path

import pytest
from broker import scenarios
from live.conftest import CLONE_NEWNET, enter_network
from support.scripted import RawClient

import kinspect
from kinspect.wiretest.expectations import Wire

pytestmark = [pytest.mark.tools, pytest.mark.broker]

CLIENTS = {"java": "apache-kafka-java", "librdkafka": "confluent-kafka-python", "aiokafka": None}
"""Kafka's own client, that of confluent-kafka, and aiokafka: the software that they say they are."""


@pytest.fixture
def within(new_lab):
    """Runs a function in the broker's network; threads that it makes are there, too."""
    inside = os.open(Path("/run/netns", new_lab.inside[-1]), os.O_RDONLY)

    def run(function, *arguments):
        found = []

        def work():
            enter_network("setns", inside, CLONE_NEWNET)
            found.append(function(*arguments))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return found[0]

    yield run
    os.close(inside)


@pytest.fixture
def wire(tmp_path):
    made = Wire(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_real_clients(new_lab, within, wire, client):
    name = f"txn_{client}"
    wire.expect(api="Produce", client_id=f"{name}-*", count="3..", acks=-1)
    wire.expect(api="Fetch", client_id=f"{name}-checker*", isolation_level=1)
    wire.expect(api="EndTxn", count="3..", error_count=0)
    wire.expect(api="TxnOffsetCommit", group=f"{name}-group", transactional_id=f"{name}-id")
    wire.never(api="Metadata", per_second__gt=30)
    wire.never(error="NOT_LEADER_OR_FOLLOWER,UNKNOWN_SERVER_ERROR,CORRUPT_MESSAGE")
    wire.versions(min={"Produce": 3, "Fetch": 4})
    if CLIENTS[client]:
        wire.expect(api="Produce", client__software_name=CLIENTS[client])
    servers = within(wire.forward, new_lab.server.servers)
    told = scenarios.run(client, ["txn", name, servers, "", "{}"], new_lab.server, new_lab.inside)
    wire.check()
    exchanges = [*kinspect.read(*wire.kept())]
    # Nothing went past it: all that was produced, and every address that was named.
    produced = [each for each in exchanges if each.api == "Produce"]
    assert sum(each.summary.record_count for each in produced) >= len(told["facts"].get("delivered", [])) > 0
    named = {
        (broker["host"], broker["port"])
        for each in exchanges
        if each.api == "Metadata" and each.response is not None
        for broker in each.response.body["brokers"]
    }
    ports = {each.connection.broker_port for each in exchanges}
    assert named
    assert {host for host, _ in named} == {"127.0.0.1"}
    assert {port for _, port in named} <= ports
    assert ports.isdisjoint(new_lab.server.ports)
    wire.expect(api="Produce", acks=1, name="weak")
    with pytest.raises(AssertionError, match=r"failed: weak\n.*\n +seen +acks = -1 in \d+ of \d+ exchanges"):
        wire.check()


def test_what_brokers_advertise_in_all_versions(new_lab, within, wire):
    servers = within(wire.forward, new_lab.server.servers)

    def asked():
        with RawClient(servers) as client:
            ranges = {
                each["api_key"]: range(each["min_version"], each["max_version"] + 1)
                for each in client.ask(18, 2, {})["api_keys"]
            }
            bodies = {3: {"topics": None}, 60: {"endpoint_type": 1}}
            return [
                client.ask(key, version, body)["brokers"]
                for key, body in bodies.items()
                for version in ranges[key]
                if version
            ]

    answers = within(asked)
    assert len(answers) > 10
    for (broker,) in answers:
        assert broker["host"] == "127.0.0.1"
        assert broker["port"] not in new_lab.server.ports
