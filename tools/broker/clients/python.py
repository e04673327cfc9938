"""Scenarios of kafka-python."""

from __future__ import annotations

import logging
import time
from importlib.metadata import version
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from ledger import CODECS, COUNT, NO_TOPIC, Ledger, main

PATIENCE = 30


def create(ledger: Ledger, servers: str, *topics: str, partitions: int = 1, **more: Any) -> KafkaAdminClient:
    admin = KafkaAdminClient(bootstrap_servers=servers, client_id=ledger.client("admin"), **more)
    admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics])
    return admin


def send(ledger: Ledger, producer: KafkaProducer, topic: str, values: list[str], **more: Any) -> None:
    """Produce and wait until the broker has all of it."""
    keys = [f"key-{number}" for number in range(len(values))]
    sent = [
        producer.send(topic, value.encode(), key.encode(), **more)
        for key, value in zip(keys, values, strict=True)
    ]
    for key, value, future in zip(keys, values, sent, strict=True):
        told = future.get(PATIENCE)
        ledger.delivered(topic, told.partition, told.offset, key, value)


def receive(ledger: Ledger, consumer: KafkaConsumer, count: int) -> None:
    until = time.monotonic() + PATIENCE
    while count:
        assert time.monotonic() < until, f"{count} records did not come"
        for messages in consumer.poll(500, max_records=count).values():
            for message in messages:
                ledger.received(message.topic, message.partition, message.offset, message.key, message.value)
                count -= 1


def codecs(ledger: Ledger, servers: str) -> None:
    ledger.what = (
        f"kafka-python: {COUNT} records a codec, with keys and headers; a group reads and commits them"
    )
    topics = {codec: ledger.topic(codec) for codec in CODECS}
    create(ledger, servers, *topics.values(), partitions=2).close()
    for codec, topic in topics.items():
        producer = KafkaProducer(
            bootstrap_servers=servers,
            client_id=ledger.client("producer"),
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
        )
        values = [f"{codec} {i} " + "x" * 50 for i in range(COUNT)]
        send(ledger, producer, topic, values, headers=[("codec", codec.encode())])
        producer.close()
    consumer = KafkaConsumer(
        *topics.values(),
        bootstrap_servers=servers,
        client_id=ledger.client("consumer"),
        group_id=ledger.group("group"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    receive(ledger, consumer, COUNT * len(CODECS))
    consumer.commit()
    ledger.facts["last_committed"] = [
        [part.topic, part.partition, offset]
        for part in consumer.assignment()
        if (offset := consumer.committed(part)) is not None
    ]
    consumer.close()
    ledger.facts["compression_of"] = {topic: codec for codec, topic in topics.items()}
    ledger.note(
        "api_keys_must_see", "CreateTopics", "Produce", "JoinGroup", "SyncGroup", "Fetch", "OffsetCommit"
    )
    ledger.note("api_keys_must_see", "LeaveGroup", "OffsetFetch")


def transactions(ledger: Ledger, servers: str) -> None:
    ledger.what = (
        "kafka-python: 2 transactions committed, one of them with offsets, 1 aborted; read_committed consumer"
    )
    target = ledger.topic("out")
    create(ledger, servers, target).close()
    ledger.note("transactional_ids", ledger.name("id"))
    writer = KafkaProducer(
        bootstrap_servers=servers, client_id=ledger.client("writer"), transactional_id=ledger.name("id")
    )
    writer.init_transactions()
    part = TopicPartition(target, 0)
    for number, end in enumerate(("commit", "abort", "commit")):
        writer.begin_transaction()
        send(ledger, writer, target, [f"{end} {number} {i}" for i in range(5)])
        if number == 2:
            writer.send_offsets_to_transaction({part: OffsetAndMetadata(5, "", -1)}, ledger.group("group"))
        (writer.commit_transaction if end == "commit" else writer.abort_transaction)()
    writer.close()
    checker = KafkaConsumer(
        bootstrap_servers=servers, client_id=ledger.client("checker"), isolation_level="read_committed"
    )
    checker.assign([part])
    checker.seek_to_beginning(part)
    receive(ledger, checker, 10)
    checker.close()
    ledger.facts |= {"committed_txns": 2, "aborted_txns": 1, "last_committed": [[target, 0, 5]]}
    ledger.note(
        "api_keys_must_see", "InitProducerId", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Fetch"
    )


def administration(ledger: Ledger, servers: str) -> None:
    ledger.what = (
        "kafka-python: admin client: topics made, described, enlarged, deleted; configs, groups, log dirs"
    )
    topic, other = ledger.topic("one"), ledger.topic("two")
    admin = create(ledger, servers, topic, other)
    admin.describe_topics([topic])
    admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    admin.create_partitions({topic: 3})
    admin.list_groups()
    admin.describe_log_dirs()
    admin.delete_topics([other])
    admin.close()
    ledger.note("api_keys_must_see", "CreateTopics", "DescribeConfigs", "CreatePartitions", "DescribeLogDirs")
    ledger.note("api_keys_must_see", "ListGroups", "DeleteTopics")


def errors(ledger: Ledger, servers: str) -> None:
    ledger.what = "kafka-python: a topic that is not there, one that is there already, a record too large"
    topic = ledger.topic("topic")
    admin = create(ledger, servers, topic)
    producer = KafkaProducer(
        bootstrap_servers=servers,
        client_id=ledger.client("producer"),
        max_request_size=3_000_000,
        batch_size=3_000_000,
        max_block_ms=1000,
    )
    admin.describe_topics([NO_TOPIC])
    for attempt in (
        lambda: admin.create_topics([NewTopic(topic, 1, 1)]),
        lambda: admin.delete_topics([NO_TOPIC]),
        lambda: send(ledger, producer, topic, ["x" * 1_200_000]),
    ):
        try:
            attempt()
        except KafkaError as error:
            ledger.refused({
                "TopicAlreadyExistsError": "TOPIC_ALREADY_EXISTS",
                "UnknownTopicOrPartitionError": "UNKNOWN_TOPIC_OR_PARTITION",
                "MessageSizeTooLargeError": "MESSAGE_TOO_LARGE",
            }[type(error).__name__])  # fmt: skip
    producer.close()
    admin.close()
    assert len(ledger.facts["errors_expected"]) == 3, ledger.facts


def sasl(ledger: Ledger, servers: str, users: dict[str, tuple[str, str]]) -> None:
    ledger.what = (
        "kafka-python: produces with SASL PLAIN and SCRAM-SHA-256, and is refused with a wrong password"
    )
    topic = ledger.topic("topic")
    for mechanism, (user, password) in users.items():
        secured = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
        }
        if not ledger.facts.get("users"):
            create(ledger, servers, topic, sasl_plain_password=password, **secured).close()
        ledger.note("users", user)
        ledger.note("secrets", password, f"not {password}")
        producer = KafkaProducer(
            bootstrap_servers=servers,
            client_id=ledger.client(f"right-{mechanism}"),
            sasl_plain_password=password,
            **secured,
        )
        send(ledger, producer, topic, [f"{mechanism} {i}" for i in range(5)])
        producer.close()
        try:
            KafkaProducer(
                bootstrap_servers=servers,
                client_id=ledger.client(f"wrong-{mechanism}"),
                sasl_plain_password=f"not {password}",
                bootstrap_timeout_ms=1500,
                **secured,
            ).close()
        except KafkaError:
            ledger.refused("SASL_AUTHENTICATION_FAILED")
    assert ledger.facts["errors_expected"]
    ledger.note("api_keys_must_see", "SaslHandshake", "SaslAuthenticate", "Produce")


if __name__ == "__main__":
    logging.disable()
    main(
        f"kafka-python {version('kafka-python')}",
        {"codecs": codecs, "txn": transactions, "admin": administration, "errors": errors, "sasl": sasl},
    )
