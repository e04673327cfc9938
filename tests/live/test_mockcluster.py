"""`kinspect live` beside librdkafka: its producer, its consumer, and the mock cluster that it has inside."""

import json
from collections import Counter

import pytest

pytestmark = [pytest.mark.tools, pytest.mark.usefixtures("root")]

MESSAGES = 2000
TOPICS = ("orders", "payments", "mails")
KAFKA_NAMES = {"ApiVersion": "ApiVersions"}


class Client:
    """Numbers of requests that a client of librdkafka counted, by API."""

    def __init__(self):
        self.requests = Counter()
        self.told = 0

    def __call__(self, text):
        statistics = json.loads(text)
        self.requests = Counter()
        for broker in statistics["brokers"].values():
            self.requests.update(
                {KAFKA_NAMES.get(api, api): count for api, count in broker["req"].items() if count}
            )
        self.told += 1

    def settled(self, client):
        """The numbers after two more reports without new work."""
        until = self.told + 2
        while self.told < until:
            client.poll(0.05)
        return self.requests


def produce(statistics):
    """Send all messages to a cluster made for it; gives the producer, and where the cluster is."""
    from confluent_kafka import Producer

    configuration = {"test.mock.num.brokers": 3, "client.id": "sender", "linger.ms": 5}
    producer = Producer(
        configuration | {"statistics.interval.ms": 100, "stats_cb": statistics, "log_level": 0}
    )
    brokers = producer.list_topics().brokers.values()
    delivered = []
    for number in range(MESSAGES):
        producer.produce(TOPICS[number % 3], b"x" * 500, on_delivery=lambda error, _: delivered.append(error))
        producer.poll(0)
    producer.flush()
    assert delivered == [None] * MESSAGES
    return producer, ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


def consume(servers, statistics):
    """Read them back; gives the consumer."""
    from confluent_kafka import Consumer

    configuration = {"bootstrap.servers": servers, "group.id": "workers", "auto.offset.reset": "earliest"}
    configuration |= {"client.id": "reader", "statistics.interval.ms": 100, "stats_cb": statistics}
    consumer = Consumer(configuration)
    consumer.subscribe(list(TOPICS))
    count = 0
    while count < MESSAGES:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            count += 1
    return consumer


def test_every_request_that_the_clients_counted_is_there(live):
    with live("-i", "lo", "--fields", "client.id,api,outcome,topics,record_count") as running:
        sent, read = Client(), Client()
        producer, servers = produce(sent)
        consumer = consume(servers, read)
        counted = {"sender": sent.settled(producer), "reader": read.settled(consumer)}
        consumer.close()
        producer.flush(5)
        out, err = running.end()
        assert running.process.returncode == 0
    lines = [json.loads(line) for line in out.splitlines()]
    for name, requests in counted.items():
        seen = Counter(line["api"] for line in lines if line["client"]["id"] == name)
        assert requests.total() > 0
        for api, count in requests.items():
            assert seen[api] >= count, (name, api)
    produced = [line for line in lines if line["client"]["id"] == "sender" and line["api"] == "Produce"]
    assert len(produced) == counted["sender"]["Produce"]
    assert {line["outcome"] for line in produced} == {"answered"}
    assert {topic for line in produced for topic in line["topics"]} == set(TOPICS)
    assert "packets dropped by the capturing kernel: 0\n" in err
