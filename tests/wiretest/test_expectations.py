"""What a test expects on the wire: ten broken clients, and one that is as it should be."""

import asyncio
import os
import re
import socket
from contextlib import suppress
from struct import pack
from threading import Thread

import pytest
from crc32c import crc32c
from exchanges import batch
from support.scripted import RawClient, ScriptedBroker

import kinspect
from kinspect.errors import KinspectError
from kinspect.wiretest.expectations import Wire
from kinspect.wiretest.forwarder import AGAIN_SECONDS

TOPIC = "orders"
ISOLATED = {"isolation_level": 1}


@pytest.fixture
def broker():
    with ScriptedBroker() as made:
        yield made


@pytest.fixture
def wire(tmp_path):
    made = Wire(tmp_path)
    yield made
    made.close()


def compressed(codec):
    """A batch that says it is compressed."""
    plain = batch((b"k", b"v"))
    tail = pack(">h", codec) + plain[23:]
    return plain[:17] + pack(">I", crc32c(tail)) + tail


def behave(servers, name="app", **faults):
    """Do what a client does: learn of brokers and a coordinator, produce, fetch, commit."""
    told = {
        "metadata": 1,
        "create": False,
        "topic": TOPIC,
        "acks": -1,
        "produce": 9,
        "fetch": 11,
        "isolation": 1,
        "commits": 1,
        "codec": 4,
    } | faults
    with RawClient(servers, name) as client:
        for _ in range(told["metadata"]):
            asked = {"topics": [{"name": told["topic"]}], "allow_auto_topic_creation": told["create"]}
            (node,) = client.ask(3, 9, asked)["brokers"]
    with RawClient(f"{node['host']}:{node['port']}", name) as client:
        records = compressed(told["codec"])
        partitions = [{"index": 0, "records": records}]
        asked = {
            "acks": told["acks"],
            "timeout_ms": 1000,
            "topic_data": [{"name": told["topic"], "partition_data": partitions}],
        }
        (client.ask if told["acks"] else client.send)(0, told["produce"], asked)
        topics = [{"topic": told["topic"], "partitions": [{"partition": 0, "fetch_offset": 0}]}]
        client.ask(
            1, told["fetch"], {"isolation_level": told["isolation"], "topics": topics, "replica_id": -1}
        )
        coordinator = client.ask(10, 4, {"key_type": 0, "coordinator_keys": ["g"]})["coordinators"][0]
        assert (coordinator["host"], coordinator["port"]) == (node["host"], node["port"])
        for _ in range(told["commits"]):
            client.ask(8, 8, {"group_id": "g", "topics": [{"name": told["topic"], "partitions": []}]})
    return node


def expect_all(wire):
    wire.expect(api="Produce", count=range(1, 4), acks=-1)
    wire.expect(api="Produce", topic=TOPIC)
    wire.expect(
        api="Produce", request__body__topic_data__partition_data__records__batches__compression="zstd"
    )
    wire.never(api="Metadata", per_second__gt=3)
    wire.never(api="Metadata", allow_auto_topic_creation=True)
    wire.versions(max={"Fetch": 12, "Produce": 9}, min={"Produce": 5})
    wire.expect(api="Fetch", isolation_level=1)
    wire.expect(api="OffsetCommit", group="g", count=1)
    wire.expect(api="Metadata,Produce,Fetch", client__id="app")
    wire.never(error="*", name="no errors")


def test_a_client_without_fault(broker, wire):
    expect_all(wire)
    node = behave(wire.forward(broker.address))
    wire.check()
    assert node["port"] != broker.server_address[1]
    assert [
        message.api for message in broker.seen
    ] == "Metadata Produce Fetch FindCoordinator OffsetCommit".split()
    # The capture is whole, and says what the client saw.
    with kinspect.read(*wire.kept()) as reading:
        lines = [exchange.to_dict() for exchange in reading]
        summary = reading.summary
    assert [line["outcome"] for line in lines] == ["answered"] * 5
    assert lines[0]["response"]["body"]["brokers"][0]["port"] == node["port"]
    assert (summary["gaps"], summary["partial_connections"]["no_begin"]) == (0, 0)


BROKEN = {
    "weak acks": ({"acks": 1}, "acks = 1 in 1 of 1 exchange"),
    "no acks": ({"acks": 0}, "acks = 0 in 1 of 1 exchange"),
    "metadata storm": (
        {"metadata": 8},
        "expected at most 3 exchanges with api = Metadata within a second\n.*seen +8",
    ),
    "creates topics": (
        {"create": True},
        "expected no exchange with api = Metadata, allow_auto_topic_creation = true",
    ),
    "too new": ({"fetch": 13}, "seen +Fetch v13 in 1 of 2 exchanges"),
    "too old": ({"produce": 3}, "seen +Produce v3 in 1 of 2 exchanges"),
    "reads aborted records": ({"isolation": 0}, "isolation_level = 0 in 1 of 1 exchange"),
    "does not commit": (
        {"commits": 0},
        "expected 1 exchange with api = OffsetCommit, group = g\n.*seen +no exchange",
    ),
    "commits too often": (
        {"commits": 4},
        "expected 1 exchange with api = OffsetCommit, group = g\n.*seen +4 exchanges",
    ),
    "wrong topic": ({"topic": "order"}, "topic = orders left out 1 exchange with api = Produce: order$"),
    "not compressed": ({"codec": 0}, 'compression = "none" in 1 of 1 exchange'),
    "no name": ({"name": ""}, 'client.id = "" in 3 of 3 exchanges'),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_client_fails_by_its_cause(broker, wire, name):
    faults, cause = BROKEN[name]
    expect_all(wire)
    behave(wire.forward(broker.address), **faults)
    with pytest.raises(AssertionError) as failed:
        wire.check()
    told = str(failed.value)
    assert re.search(cause, told, re.MULTILINE), told
    # Nothing else is blamed.
    assert told.startswith("1 of 10 expectations on the wire not met\nfailed: "), told


def test_errors_of_brokers_are_seen(wire):
    with ScriptedBroker(
        {8: lambda _: {"topics": [{"name": TOPIC, "partitions": [{"error_code": 16}]}]}}
    ) as broker:
        expect_all(wire)
        behave(wire.forward(broker.address))
        with pytest.raises(AssertionError, match=r"failed: no errors\n.*\n.*seen +1 exchange"):
            wire.check()


def test_a_broker_that_is_not_there_is_named(wire):
    with ScriptedBroker() as broker:
        pass
    wire.expect(api="Produce")
    with RawClient(wire.forward(broker.address)) as client:
        assert client.connection.recv(1) == b""
    with pytest.raises(AssertionError) as failed:
        wire.check()
    assert f"broker {broker.address} could not be reached: " in str(failed.value)


@pytest.mark.parametrize("host", ["a" * 300, "\0", "é" * 80, ".", "x..y"])
def test_hosts_that_cannot_be_are_unreachable(broker, wire, host):
    broker.node["host"] = host
    wire.expect(api="Produce")
    with RawClient(wire.forward(broker.address)) as client:
        (node,) = client.ask(3, 9, {"topics": []})["brokers"]
    with RawClient(f"{node['host']}:{node['port']}") as client:
        assert client.connection.recv(1) == b""
    with pytest.raises(AssertionError, match=r" broker \S+ could not be reached: "):
        wire.check()


def test_what_is_not_recorded_may_have_been_anything(broker, wire, monkeypatch):
    """No room is left; then responses that cannot be read are handed on with the brokers' own addresses."""
    monkeypatch.setattr("kinspect.wiretest.recording.BYTES_MOST", 10)
    wire.never(api="Produce")
    behave(wire.forward(broker.address))
    with pytest.raises(AssertionError, match=r"unknown: never(.|\n)*no room to record [\d,]+ bytes"):
        wire.check()
    wire.close()
    monkeypatch.undo()
    monkeypatch.setattr("kinspect.wiretest.advertised.LARGEST", 10)
    other = Wire(wire._folder)
    other.never(api="DeleteTopics")
    behave(other.forward(broker.address))
    with pytest.raises(
        AssertionError, match=r"unknown: never(.|\n)*responses? that may name brokers to which"
    ):
        other.check()
    other.close()


def test_what_was_sent_is_recorded_however_slowly_a_broker_is_found(broker, wire, monkeypatch):
    opened = asyncio.open_connection

    async def slowly(*place, **more):
        for _ in range(3 if place else 0):
            await asyncio.sleep(AGAIN_SECONDS)
        return await opened(*place, **more)

    monkeypatch.setattr(asyncio, "open_connection", slowly)
    partitions = [{"index": 0, "records": batch((b"k", b"v" * 3_000_000))}]
    wire.expect(api="Produce", acks=0)
    with RawClient(wire.forward(broker.address)) as client:
        sending = Thread(
            target=client.send,
            args=(
                0,
                9,
                {"acks": 0, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": partitions}]},
            ),
        )
        sending.start()
        sending.join()
        wire.check()


def test_a_broker_that_takes_nothing_makes_it_unknown(wire, monkeypatch):
    monkeypatch.setattr("kinspect.wiretest.forwarder.SETTLE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        wire.never(api="DeleteTopics")
        with RawClient(wire.forward(f"127.0.0.1:{server.getsockname()[1]}")) as client:
            sending = Thread(target=_send_all, args=(client.connection, bytes(64 << 20)))
            sending.start()
            taken, _ = server.accept()
            assert len(taken.recv(1)) == 1
            with pytest.raises(AssertionError, match="what clients sent, and a broker did not take"):
                wire.check()
            taken.close()
        sending.join()


def _send_all(connection, data):
    with suppress(OSError):
        connection.sendall(data)


def test_who_resets_is_recorded(broker, wire):
    with RawClient(wire.forward(broker.address)) as client:
        client.ask(3, 9, {"topics": []})
        client.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))
    for _ in range(100):
        (row,) = kinspect.answer("clients", *wire.kept())["rows"]
        if row["resets"]:
            break
    assert row["resets"] == 1


def test_brokers_that_advertise_another_address(broker, wire):
    broker.node["host"], broker.node["port"] = "kafka.invalid", 29092
    wire.expect(api="Produce", acks=-1)
    behave(wire.forward(broker.address, {"kafka.invalid:29092": broker.address}))
    wire.check()


@pytest.mark.tools
@pytest.mark.parametrize(("faults", "told"), [({}, None), *list(BROKEN.values())[:1]])
def test_a_live_capture(broker, wire, faults, told):
    if os.geteuid() != 0:
        pytest.fail("needs root, to capture from an interface")
    port = broker.server_address[1]
    wire.live("lo", bpf=f"tcp port {port}")
    expect_all(wire)
    behave(broker.address, **faults)
    if told is None:
        wire.check()
    else:
        with pytest.raises(AssertionError, match=told):
            wire.check()


def test_a_live_capture_of_nothing_says_why(wire):
    with pytest.raises(KinspectError, match=r"nowhere0"):
        wire.live("nowhere0")


def test_a_capture_that_there_is(wire):
    wire.read("captures/3.6.2/txn_java.pcap.gz")
    wire.expect(api="Produce", count=5, acks=-1)
    wire.check()
    wire.never(api="Metadata")
    with pytest.raises(AssertionError, match="15 exchanges"):
        wire.check()
    assert wire.kept() == []


def test_what_was_not_seen_is_not_met_unless_that_is_allowed(wire):
    wire.read("captures/0.10.2.2/midstream.pcap")
    wire.never(api="Heartbeat", per_second__gt=100)
    with pytest.raises(AssertionError, match=r"unknown: never\(api='Heartbeat', per_second__gt=100\)"):
        wire.check()
    wire.allow_unknown = True
    wire.check()


def test_mistakes_are_told_at_once(wire):
    with pytest.raises(KinspectError, match="there is no API 'Porduce': did you mean Produce"):
        wire.expect(api="Porduce")
    with pytest.raises(KinspectError, match=r"unknown field 'request\.body\.akcs'"):
        wire.expect(api="Produce", akcs=1)
    with pytest.raises(KinspectError, match="is neither a number nor a range"):
        wire.expect(api="Produce", count=range(3, 1))
    with pytest.raises(KinspectError, match="'kafka' is no address of a broker"):
        wire.forward("kafka")
    wire.check()
    wire.expect(api="Produce")
    with pytest.raises(KinspectError, match="has no traffic to look at"):
        wire.check()
