"""`kinspect diff` beside a real broker: the same load twice, and then with one thing changed."""

import json
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from broker.record import tcpdump
from central import run

from kinspect.cli import main

pytestmark = [pytest.mark.tools, pytest.mark.broker]

SECONDS, STOPPED_MS, RUNNING_MS = 5, 130, 6
THRESHOLD = 6
"""A factor that a busy host does not reach by itself, and the slowed broker does."""
LOAD = """
import random, sys, time
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

servers, codec, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
own = {"bootstrap.servers": servers, "log_level": 0}
admin = AdminClient(own)
try:
    admin.create_topics([NewTopic("differs", 1, 1)])["differs"].result(30)
except Exception as error:
    assert "TOPIC_ALREADY_EXISTS" in str(error)
producer = Producer({**own, "client.id": "steady", "compression.type": codec, "linger.ms": 0})
end = time.monotonic() + seconds
while time.monotonic() < end:
    begin = time.monotonic()
    producer.produce("differs", b"the same text " * 100)
    assert producer.flush(30) == 0
    time.sleep(max(0, begin + 0.1 - time.monotonic()))
"""
OTHER = """
import sys, time
from kafka import KafkaProducer

producer = KafkaProducer(
    bootstrap_servers=sys.argv[1], client_id="steady", compression_type=sys.argv[2], linger_ms=0, acks="all"
)
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    begin = time.monotonic()
    producer.send("differs", b"the same text " * 100).get(30)
    time.sleep(max(0, begin + 0.1 - time.monotonic()))
producer.close()
"""


@contextmanager
def stopping(process):
    """Context in which a process stands still most of the time."""
    ends = threading.Event()

    def stop():
        while not ends.is_set():
            os.kill(process, signal.SIGSTOP)
            time.sleep(STOPPED_MS / 1000)
            os.kill(process, signal.SIGCONT)
            time.sleep(RUNNING_MS / 1000)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@pytest.fixture(scope="module")
def captures(new_lab, tmp_path_factory):
    """Captures of the load by what is special of them; the first run warms the broker up."""
    folder, lab = tmp_path_factory.mktemp("differences"), new_lab
    port = lab.server.ports[0]

    def perform(name, code=LOAD, codec="gzip"):
        path = folder / f"{name}.pcap"
        command = [*lab.inside, sys.executable, "-c", code, lab.server.servers, codec, str(SECONDS)]
        with tcpdump(path, "lo", f"tcp port {port}", lab.inside):
            run(command, name)
        return path

    perform("warm")
    found = {"first": perform("first"), "second": perform("second"), "plain": perform("plain", codec="none")}
    found["other"] = perform("other", OTHER)
    with stopping(lab.server._process.pid):
        found["slow"] = perform("slow")
    return found


def differences(captures, name, capfd):
    before, after = str(captures["first"]), str(captures[name])
    assert main(["diff", before, after, "--client-id", "steady", "--threshold", str(THRESHOLD)]) == 0
    return json.loads(capfd.readouterr().out)["rows"]


def columns(rows):
    return {(row["change"], row["answer"], (row["column"] or "").partition(".")[0]) for row in rows}


def test_the_same_load_has_no_difference(captures, capfd):
    assert differences(captures, "second", capfd) == []


def test_a_slowed_broker(captures, capfd):
    rows = differences(captures, "slow", capfd)
    assert columns(rows) == {("moved", "latency", "service_ms")}
    (row,) = rows
    assert row["row"] == {"api": "Produce"}


def test_lost_compression(captures, capfd):
    rows = differences(captures, "plain", capfd)
    assert columns(rows) == {
        ("changed", "compression", "codecs"),
        ("changed", "settings", "codecs"),
        ("moved", "settings", "batch_bytes"),
    }
    codecs = next(row for row in rows if row["answer"] == "compression")
    assert (*codecs["before"], *codecs["after"]) == ("gzip", "none")


def test_another_client(captures, capfd):
    rows = differences(captures, "other", capfd)
    # How fast it is depends on the host.
    assert {each for each in columns(rows) if each[0] != "moved"} == {
        ("changed", "clients", "software_name"),
        ("changed", "clients", "software_version"),
        ("changed", "clients", "apis"),
        ("changed", "settings", "idempotent"),
        ("appeared", "latency", ""),
    }
