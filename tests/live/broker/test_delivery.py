"""`live --answer delivery` beside a real broker: delays as a producer and a consumer measured them themselves."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.tools, pytest.mark.broker]

COUNT = 200
MILLISECOND = 1_000_000
CLIENTS = """
import json, sys, time
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

servers, count = sys.argv[1], int(sys.argv[2])
own = {"bootstrap.servers": servers, "log_level": 0}
admin = AdminClient(own)
admin.create_topics([NewTopic("delays", 1, 1)])["delays"].result(30)
producer = Producer({**own, "linger.ms": 0})
consumer = Consumer({**own, "client.id": "measures", "group.id": "measures", "auto.offset.reset": "earliest"})
consumer.assign([TopicPartition("delays", 0, 0)])
delays = []
for number in range(count):
    sent = time.time_ns()
    producer.produce("delays", b"record")
    message = None
    while message is None or message.error():
        message = consumer.poll(1)
    delays.append(time.time_ns() - sent)
    assert message.offset() == number
    producer.poll(0)
producer.flush(30)
consumer.close()
print(json.dumps(delays))
"""


def test_delays_are_those_that_the_clients_measured(lab, live, tmp_path):
    output = tmp_path / "answer"
    arguments = ("-i", "lo", "--answer", "delivery", "--format", "json")
    command = [*lab.inside, sys.executable, "-c", CLIENTS, lab.server.servers, str(COUNT)]
    with output.open("wb") as file, live(*arguments, before=lab.inside, stdout=file) as running:
        told = subprocess.run(command, check=False, capture_output=True, text=True)
        assert told.stderr == ""
        running.end()
        assert running.process.returncode == 0
    measured = json.loads(told.stdout)
    (row,) = json.loads(output.read_text())["rows"]
    assert [row[key] for key in ("topic", "client_id", "records", "not_delivered", "untimed")] == [
        *("delays", "measures", COUNT, 0, 0)
    ]
    # A client's clock is read before its request is on the wire, and again when the response is read: no delay on the
    # wire is longer than that of the same record, so no quantile is.
    slowest = row["slowest"]
    assert measured[slowest["offset"]] >= slowest["delay_ms"] * MILLISECOND
    ordered = sorted(measured)
    for name, percent in {"p50": 50, "p95": 95, "p99": 99, "max": 100}.items():
        shortest = row["delay_ms"][name] * MILLISECOND * 127 / 128
        assert 0 < shortest <= ordered[percent * COUNT // 100 - 1]
