"""`records --format kcat` and kcat itself: a topic filled from a capture has the same records."""

import subprocess
import sys

import pytest
from broker.record import tcpdump
from central import program

pytestmark = [pytest.mark.tools, pytest.mark.broker]

CLIENTS = """
import sys
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PAIRS = [(None, None), (b"k", None), (None, b"v"), (b"tab\\t", b"{\\n}\\n"), (b"k", b"v" * 5000)]
PAIRS.append((bytes(range(256)), b"\\xff\\n"))
servers, what = sys.argv[1:]
own = {"bootstrap.servers": servers, "log_level": 0}
if what == "produce":
    admin = AdminClient(own)
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in ("emptied", "filled")]).values():
        made.result(30)
    producer = Producer({**own, "compression.type": "zstd"})
    for key, value in PAIRS * 50:
        producer.produce("emptied", value, key)
    assert producer.flush(30) == 0
consumer = Consumer({**own, "group.id": what})
consumer.assign([TopicPartition("emptied" if what == "produce" else "filled", 0, 0)])
found = []
while len(found) < len(PAIRS) * 50:
    message = consumer.poll(30)
    assert message is not None and not message.error()
    found.append((message.key(), message.value()))
assert found == PAIRS * 50
"""


def test_a_topic_is_filled_again(lab, kinspect, tmp_path):
    capture, dumped = tmp_path / "capture", tmp_path / "dumped"

    def clients(what):
        command = [*lab.inside, sys.executable, "-c", CLIENTS, lab.server.servers, what]
        assert subprocess.run(command, check=False, capture_output=True, text=True).stderr == ""

    with tcpdump(capture, "lo", "tcp port 9092", lab.inside):
        clients("produce")
    options = ("--format", "kcat", "--payload", "text", "--once", "--topic", "emptied", "-o", dumped)
    told = kinspect("records", capture, *options).err
    words = told.split("to fill a topic: ")[1].partition("\n")[0]
    named = {
        "BROKER": lab.server.servers,
        "TOPIC": "filled",
        "FILE": str(dumped),
        "kcat": program("kcat", "kcat"),
    }
    # As a shell has it, so that what is printed can be pasted.
    command = " ".join(named.get(word, word) for word in words.split(" "))
    assert subprocess.run([*lab.inside, "sh", "-c", command], check=False, capture_output=True).stderr == b""
    clients("consume")
