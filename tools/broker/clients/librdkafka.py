"""Scenarios of confluent-kafka, which is librdkafka."""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
    libversion,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
from ledger import CODECS, COUNT, LINE, NO_TOPIC, Ledger, main

PATIENCE = 30


def quiet(servers: str, **settings: Any) -> dict[str, Any]:
    return {"bootstrap.servers": servers, "log_level": 0} | {
        key.replace("_", "."): value for key, value in settings.items()
    }


def create(
    ledger: Ledger, servers: str, *topics: str, partitions: int = 1, replicas: list[int] | None = None
) -> AdminClient:
    admin = AdminClient(quiet(servers, client_id=ledger.client("admin")))
    where = {"replication_factor": 1} if replicas is None else {"replica_assignment": [replicas] * partitions}
    for made in admin.create_topics([NewTopic(topic, partitions, **where) for topic in topics]).values():
        made.result(PATIENCE)
    return admin


def send(ledger: Ledger, producer: Producer, topic: str, values: list[str], **more: Any) -> None:
    """Produce and wait until the broker has all of it."""

    def told(error: Any, message: Message) -> None:
        if error is not None:
            ledger.refused(error.name().lstrip("_"))
        else:
            ledger.delivered(
                topic, message.partition(), message.offset(), message.key().decode(), message.value().decode()
            )

    for number, value in enumerate(values):
        producer.produce(topic, value, f"key-{number}", on_delivery=told, **more)
    left = producer.flush(PATIENCE)
    assert left == 0, f"{left} records were not delivered"


def receive(ledger: Ledger, consumer: Consumer, count: int) -> None:
    until = time.monotonic() + PATIENCE
    while count:
        assert time.monotonic() < until, f"{count} records did not come"
        message = consumer.poll(0.5)
        if message is not None:
            if message.error():
                raise KafkaException(message.error())
            ledger.received(
                message.topic(), message.partition(), message.offset(), message.key(), message.value()
            )
            count -= 1


def codecs(ledger: Ledger, servers: str) -> None:
    ledger.what = (
        f"librdkafka: {COUNT} records a codec, with keys and headers; a group reads and commits them"
    )
    topics = {codec: ledger.topic(codec) for codec in CODECS}
    create(ledger, servers, *topics.values(), partitions=2)
    for codec, topic in topics.items():
        producer = Producer(
            quiet(servers, client_id=ledger.client("producer"), compression_type=codec, linger_ms=20)
        )
        send(
            ledger,
            producer,
            topic,
            [f"{codec} {i} " + "x" * 50 for i in range(COUNT)],
            headers={"codec": codec},
        )
    group = quiet(servers, client_id=ledger.client("consumer"), group_id=ledger.group("group"))
    consumer = Consumer(group | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(list(topics.values()))
    receive(ledger, consumer, COUNT * len(CODECS))
    committed = consumer.commit(asynchronous=False)
    consumer.close()
    ledger.facts["compression_of"] = {topic: codec for codec, topic in topics.items()}
    ledger.facts["last_committed"] = [
        [part.topic, part.partition, part.offset] for part in committed if part.offset >= 0
    ]
    ledger.note(
        "api_keys_must_see", "CreateTopics", "Produce", "JoinGroup", "SyncGroup", "Fetch", "OffsetCommit"
    )
    ledger.note("api_keys_must_see", "LeaveGroup")


def transactions(ledger: Ledger, servers: str) -> None:
    ledger.what = (
        "librdkafka: 2 transactions committed, one of them with offsets, 1 aborted; read_committed consumer"
    )
    source, target = ledger.topic("in"), ledger.topic("out")
    create(ledger, servers, source, target)
    send(
        ledger,
        Producer(quiet(servers, client_id=ledger.client("producer"))),
        source,
        [f"in {i}" for i in range(5)],
    )
    reading = quiet(servers, client_id=ledger.client("reader"), group_id=ledger.group("group"))
    reader = Consumer(reading | {"auto.offset.reset": "earliest", "enable.auto.commit": False})
    reader.subscribe([source])
    receive(ledger, reader, 5)
    ledger.note("transactional_ids", ledger.name("id"))
    writer = Producer(quiet(servers, client_id=ledger.client("writer"), transactional_id=ledger.name("id")))
    writer.init_transactions(PATIENCE)
    for number, end in enumerate(("commit", "abort", "commit")):
        writer.begin_transaction()
        send(ledger, writer, target, [f"{end} {number} {i}" for i in range(5)])
        if number == 2:
            offsets = reader.position(reader.assignment())
            writer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), PATIENCE)
        (writer.commit_transaction if end == "commit" else writer.abort_transaction)(PATIENCE)
    reader.close()
    checking = quiet(servers, client_id=ledger.client("checker"), group_id=ledger.name("unused"))
    checker = Consumer(checking | {"isolation.level": "read_committed", "enable.auto.commit": False})
    checker.assign([TopicPartition(target, 0, OFFSET_BEGINNING)])
    receive(ledger, checker, 10)
    checker.close()
    ledger.facts |= {"committed_txns": 2, "aborted_txns": 1, "last_committed": [[source, 0, 5]]}
    ledger.note(
        "api_keys_must_see", "InitProducerId", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Fetch"
    )


def administration(ledger: Ledger, servers: str) -> None:
    ledger.what = (
        "librdkafka: admin client: topics made, described, enlarged, deleted; configs, groups, offsets"
    )
    topic, other = ledger.topic("one"), ledger.topic("two")
    admin = create(ledger, servers, topic, other)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    (described,) = (future.result(PATIENCE) for future in admin.describe_configs([resource]).values())
    assert "retention.ms" in described
    for future in admin.create_partitions([NewPartitions(topic, 3)]).values():
        future.result(PATIENCE)
    admin.describe_cluster().result(PATIENCE)
    admin.list_consumer_groups().result(PATIENCE)
    for future in admin.delete_topics([other]).values():
        future.result(PATIENCE)
    ledger.note("api_keys_must_see", "CreateTopics", "DescribeConfigs", "CreatePartitions", "ListGroups")
    ledger.note("api_keys_must_see", "DeleteTopics", "Metadata")


def errors(ledger: Ledger, servers: str) -> None:
    ledger.what = "librdkafka: a topic that is not there, one that is there already, a record too large"
    topic = ledger.topic("topic")
    admin = create(ledger, servers, topic)
    told = admin.list_topics(NO_TOPIC, PATIENCE).topics[NO_TOPIC]
    assert told.error is not None
    ledger.refused(told.error.name())
    (again,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    ledger.refused(again.exception(PATIENCE).args[0].name())
    large = quiet(servers, client_id=ledger.client("producer")) | {"message.max.bytes": 3_000_000}
    send(ledger, Producer(large), topic, ["x" * 1_200_000])
    assert set(ledger.facts["errors_expected"]) == {
        "UNKNOWN_TOPIC_OR_PART", "TOPIC_ALREADY_EXISTS", "MSG_SIZE_TOO_LARGE",
    }, ledger.facts["errors_expected"]  # fmt: skip
    ledger.facts["errors_expected"] = [
        "UNKNOWN_TOPIC_OR_PARTITION",
        "TOPIC_ALREADY_EXISTS",
        "MESSAGE_TOO_LARGE",
    ]


def sasl(ledger: Ledger, servers: str, users: dict[str, tuple[str, str]]) -> None:
    ledger.what = (
        "librdkafka: produces with SASL PLAIN and SCRAM-SHA-256, and is refused with a wrong password"
    )
    topic = ledger.topic("topic")
    for mechanism, (user, password) in users.items():
        secured = {"security.protocol": "sasl_plaintext", "sasl.mechanism": mechanism, "sasl.username": user}
        if not ledger.facts.get("users"):
            admin = AdminClient(
                quiet(servers, client_id=ledger.client("admin")) | secured | {"sasl.password": password}
            )
            for made in admin.create_topics([NewTopic(topic, 1, 1)]).values():
                made.result(PATIENCE)
        ledger.note("users", user)
        ledger.note("secrets", password, f"not {password}")
        right = quiet(servers, client_id=ledger.client(f"right-{mechanism}")) | secured
        send(
            ledger,
            Producer(right | {"sasl.password": password}),
            topic,
            [f"{mechanism} {i}" for i in range(5)],
        )
        problems: list[Any] = []
        wrong = quiet(servers, client_id=ledger.client(f"wrong-{mechanism}")) | secured
        refused = Producer(wrong | {"sasl.password": f"not {password}", "error_cb": problems.append})
        until = time.monotonic() + PATIENCE
        while not any(problem.name() == "_AUTHENTICATION" for problem in problems):
            assert time.monotonic() < until, "a wrong password was not refused"
            refused.poll(0.1)
        ledger.refused("SASL_AUTHENTICATION_FAILED")
    ledger.note("api_keys_must_see", "SaslHandshake", "SaslAuthenticate", "Produce")


def connect(ledger: Ledger, servers: str, asked: dict[str, Any]) -> None:
    settings = quiet(servers, client_id=ledger.client("client"), reconnect_backoff_ms="1000")
    if "ca" in asked:
        settings |= {"security.protocol": "ssl", "ssl.ca.location": asked["ca"]}
    settings |= asked.get("librdkafka", {})
    producer = Producer(settings)
    for number in range(asked["times"]):
        time.sleep(asked["silence"] if number else 0)
        if number and asked["anew"]:
            producer = Producer(settings)
        producer.produce(asked["topic"], "x" * asked["size"])
        producer.flush(asked["seconds"])
    producer.purge()


def configured(ledger: Ledger, servers: str, jobs: list[dict[str, Any]]) -> None:
    ledger.what = "librdkafka: clients of many settings, one after the other"
    for job in jobs:
        topic = ledger.topic(job["name"])
        create(ledger, servers, topic, partitions=job["partitions"], replicas=job.get("replicas"))
        own = quiet(servers, client_id=ledger.client(job["name"])) | job["settings"]
        if job["role"] == "producer":
            produce(own, topic, job)
        else:
            if job["records"]:
                feeder = quiet(
                    servers, client_id=ledger.client("feeder"), linger_ms=0 if job["apart"] else 50
                )
                apart = {"size": 100, "every": 0.03 if job["apart"] else 0, "anew": False}
                produce(feeder, topic, {**job, **apart})
            consume(own, topic, job)


def produce(settings: dict[str, Any], topic: str, job: dict[str, Any]) -> None:
    producer = Producer(settings)
    for number in range(job["records"]):
        if job["anew"] and number:
            producer.flush(PATIENCE)
            producer = Producer(settings)
        producer.produce(topic, (LINE * (job["size"] // len(LINE) + 1))[: job["size"]])
        producer.poll(0)
        time.sleep(job["every"])
    producer.flush(PATIENCE)


def consume(settings: dict[str, Any], topic: str, job: dict[str, Any]) -> None:
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    until, got = time.monotonic() + job["seconds"], 0
    while time.monotonic() < until or got < job["records"]:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            got += 1
            if job["commit"] and got % job["commit"] == 0:
                consumer.commit(asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main(
        f"confluent-kafka {version('confluent-kafka')} (librdkafka {libversion()[0]})",
        {"codecs": codecs, "txn": transactions, "admin": administration, "errors": errors, "sasl": sasl}
        | {"connect": connect, "settings": configured},
    )
