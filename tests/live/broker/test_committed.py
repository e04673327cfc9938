"""`records --committed` beside a real broker: what a consumer of committed records was given, none more."""

import json
import subprocess
import sys
from collections import Counter

import pytest

pytestmark = [pytest.mark.tools, pytest.mark.broker]

CLIENTS = """
import json, sys, time
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

servers = sys.argv[1]
own = {"bootstrap.servers": servers, "log_level": 0}
admin = AdminClient(own)
admin.create_topics([NewTopic("ends", 2, 1)])["ends"].result(30)
plain = Producer(own)


def transactional(name):
    producer = Producer({**own, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    return producer


def write(producer, text, partition=0):
    for number in range(3):
        producer.produce("ends", f"{text} {number}", partition=partition)
    producer.flush(30)


# Markers in the order in which the transactions began, and in the other one.
for first, second in (("early", "late"), ("late", "early")):
    both = {name: transactional(f"{first} {name}") for name in ("early", "late")}
    for name, producer in both.items():
        write(producer, f"{first} first: {name}")
        write(plain, f"{first} first: plain behind {name}")
    both[first].commit_transaction(30)
    both[second].abort_transaction(30)
    again = both[second]
    again.begin_transaction()
    write(again, f"{first} first: again")
    again.commit_transaction(30)
left = transactional("left")
write(left, "left open")
write(plain, "behind what is open")
write(plain, "in another partition", 1)
ended = transactional("ended")
write(ended, "committed behind what is open")
ended.commit_transaction(30)

read = {}
for level in ("committed", "uncommitted"):
    consumer = Consumer(
        {**own, "client.id": level, "group.id": level, "isolation.level": f"read_{level}",
         "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition("ends", 0, 0), TopicPartition("ends", 1, 0)])
    ends, read[level] = set(), []
    while len(ends) < 2:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            ends.add(message.partition())
        else:
            read[level].append([message.partition(), message.offset(), message.value().decode()])
    consumer.close()
print(json.dumps(read))
"""


def test_a_consumer_of_committed_records_was_given_the_same(lab, live, kinspect, tmp_path):
    capture = tmp_path / "capture.pcap"
    arguments = ("-i", "lo", "--save", capture, "--format", "none")
    with live(*arguments, before=lab.inside, stdout=subprocess.DEVNULL) as running:
        command = [*lab.inside, sys.executable, "-c", CLIENTS, lab.server.servers]
        told = subprocess.run(command, check=False, capture_output=True, text=True)
        assert told.stderr == "", told.stderr
        running.end()
    read = json.loads(told.stdout)
    for chosen, level in ((["--committed"], "committed"), ([], "uncommitted")):
        found = kinspect("records", capture, "--topic", "ends", "--once", *chosen, "--payload", "text", "-q")
        rows = [json.loads(line) for line in found.out.splitlines()]
        shown = Counter((row["partition"], row["offset"], row["value"]) for row in rows)
        assert shown == Counter(map(tuple, read[level]))
