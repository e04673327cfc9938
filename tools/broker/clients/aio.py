"""Scenarios of aiokafka."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from importlib.metadata import version
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import AuthenticationFailedError, KafkaError, for_code
from ledger import CODECS, COUNT, LINE, NO_TOPIC, Ledger, main

PATIENCE = 30


async def create(ledger: Ledger, servers: str, *topics: str, partitions: int = 1, **more: Any) -> list[int]:
    """Create topics; return the error codes."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers, client_id=ledger.client("admin"), **more)
    await admin.start()
    answer = await admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics])
    await admin.close()
    return [entry[1] for entry in answer.topic_errors]


async def send(
    ledger: Ledger, producer: AIOKafkaProducer, topic: str, values: list[str], **more: Any
) -> None:
    """Produce and wait until the broker has all of it."""
    keys = [f"key-{number}" for number in range(len(values))]
    sent = [
        await producer.send(topic, value.encode(), key.encode(), **more)
        for key, value in zip(keys, values, strict=True)
    ]
    for key, value, future in zip(keys, values, sent, strict=True):
        told = await asyncio.wait_for(future, PATIENCE)
        ledger.delivered(topic, told.partition, told.offset, key, value)


async def receive(ledger: Ledger, consumer: AIOKafkaConsumer, count: int) -> None:
    for _ in range(count):
        message = await asyncio.wait_for(consumer.getone(), PATIENCE)
        ledger.received(message.topic, message.partition, message.offset, message.key, message.value)


async def codecs(ledger: Ledger, servers: str) -> None:
    ledger.what = f"aiokafka: {COUNT} records a codec, with keys and headers; a group reads and commits them"
    topics = {codec: ledger.topic(codec) for codec in CODECS}
    await create(ledger, servers, *topics.values(), partitions=2)
    for codec, topic in topics.items():
        async with AIOKafkaProducer(
            bootstrap_servers=servers,
            client_id=ledger.client("producer"),
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
        ) as producer:
            values = [f"{codec} {i} " + "x" * 50 for i in range(COUNT)]
            await send(ledger, producer, topic, values, headers=[("codec", codec.encode())])
    async with AIOKafkaConsumer(
        *topics.values(),
        bootstrap_servers=servers,
        client_id=ledger.client("consumer"),
        group_id=ledger.group("group"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        await receive(ledger, consumer, COUNT * len(CODECS))
        await consumer.commit()
        ledger.facts["last_committed"] = [
            [part.topic, part.partition, offset]
            for part in consumer.assignment()
            if (offset := await consumer.committed(part)) is not None
        ]
    ledger.facts["compression_of"] = {topic: codec for codec, topic in topics.items()}
    ledger.note(
        "api_keys_must_see", "CreateTopics", "Produce", "JoinGroup", "SyncGroup", "Fetch", "OffsetCommit"
    )
    ledger.note("api_keys_must_see", "LeaveGroup", "OffsetFetch")


async def transactions(ledger: Ledger, servers: str) -> None:
    ledger.what = (
        "aiokafka: 2 transactions committed, one of them with offsets, 1 aborted; read_committed consumer"
    )
    target = ledger.topic("out")
    await create(ledger, servers, target)
    ledger.note("transactional_ids", ledger.name("id"))
    async with AIOKafkaProducer(
        bootstrap_servers=servers, client_id=ledger.client("writer"), transactional_id=ledger.name("id")
    ) as writer:
        for number, end in enumerate(("commit", "abort", "commit")):
            await writer.begin_transaction()
            await send(ledger, writer, target, [f"{end} {number} {i}" for i in range(5)])
            if number == 2:
                offsets = {TopicPartition(target, 0): 5}
                await writer.send_offsets_to_transaction(offsets, ledger.group("group"))
            await (writer.commit_transaction() if end == "commit" else writer.abort_transaction())
    async with AIOKafkaConsumer(
        target,
        bootstrap_servers=servers,
        client_id=ledger.client("checker"),
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as checker:
        await receive(ledger, checker, 10)
    ledger.facts |= {"committed_txns": 2, "aborted_txns": 1, "last_committed": [[target, 0, 5]]}
    ledger.note(
        "api_keys_must_see", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"
    )
    ledger.note("api_keys_must_see", "EndTxn", "Fetch")


async def administration(ledger: Ledger, servers: str) -> None:
    ledger.what = "aiokafka: admin client: topics made, described, deleted; configs, cluster, groups"
    topic, other = ledger.topic("one"), ledger.topic("two")
    assert await create(ledger, servers, topic, other) == [0, 0]
    admin = AIOKafkaAdminClient(bootstrap_servers=servers, client_id=ledger.client("admin"))
    await admin.start()
    await admin.describe_topics([topic])
    await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    await admin.describe_cluster()
    await admin.list_consumer_groups()
    await admin.delete_topics([other])
    await admin.close()
    ledger.note(
        "api_keys_must_see", "CreateTopics", "Metadata", "DescribeConfigs", "ListGroups", "DeleteTopics"
    )


async def errors(ledger: Ledger, servers: str) -> None:
    ledger.what = "aiokafka: a topic that is not there, one that is there already, a record too large"
    topic = ledger.topic("topic")
    await create(ledger, servers, topic)
    for code in await create(ledger, servers, topic):
        ledger.refused(for_code(code).message)
    async with AIOKafkaProducer(
        bootstrap_servers=servers, client_id=ledger.client("producer"), max_request_size=3_000_000
    ) as producer:
        try:
            await send(ledger, producer, topic, ["x" * 1_200_000])
        except KafkaError as error:
            told = error
        ledger.refused({"MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE"}[told.message])
        metadata = await producer.client.fetch_all_metadata()
        assert NO_TOPIC not in metadata.topics()
        await producer.client.add_topic(NO_TOPIC)
        await producer.client.force_metadata_update()
    ledger.refused("UNKNOWN_TOPIC_OR_PARTITION")


async def sasl(ledger: Ledger, servers: str, users: dict[str, tuple[str, str]]) -> None:
    ledger.what = "aiokafka: produces with SASL PLAIN and SCRAM-SHA-256, and is refused with a wrong password"
    topic = ledger.topic("topic")
    for mechanism, (user, password) in users.items():
        secured = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
        }
        if not ledger.facts.get("users"):
            await create(ledger, servers, topic, sasl_plain_password=password, **secured)
        ledger.note("users", user)
        ledger.note("secrets", password, f"not {password}")
        async with AIOKafkaProducer(
            bootstrap_servers=servers,
            client_id=ledger.client(f"right-{mechanism}"),
            sasl_plain_password=password,
            **secured,
        ) as producer:
            await send(ledger, producer, topic, [f"{mechanism} {i}" for i in range(5)])
        wrong = AIOKafkaProducer(
            bootstrap_servers=servers,
            client_id=ledger.client(f"wrong-{mechanism}"),
            sasl_plain_password=f"not {password}",
            **secured,
        )
        try:
            await wrong.start()
        except (AuthenticationFailedError, KafkaError):
            ledger.refused("SASL_AUTHENTICATION_FAILED")
        finally:
            await wrong.stop()
    assert ledger.facts["errors_expected"]
    ledger.note("api_keys_must_see", "SaslHandshake", "SaslAuthenticate", "Produce")


async def connect(ledger: Ledger, servers: str, asked: dict[str, Any]) -> None:
    secured: dict[str, Any] = {}
    if "ca" in asked:
        secured = {
            "security_protocol": "SSL",
            "ssl_context": ssl.create_default_context(cafile=asked["ca"]),
        }
    producer = AIOKafkaProducer(
        bootstrap_servers=servers, client_id=ledger.client("client"), **secured, **asked.get("aiokafka", {})
    )
    try:
        async with asyncio.timeout(asked["seconds"]):
            await producer.start()
        for number in range(asked["times"]):
            await asyncio.sleep(asked["silence"] if number else 0)
            async with asyncio.timeout(asked["seconds"]):
                await producer.send_and_wait(asked["topic"], b"x" * asked["size"])
    except (KafkaError, TimeoutError):
        pass
    finally:
        with suppress(KafkaError, TimeoutError):
            async with asyncio.timeout(1):
                await producer.stop()


async def configured(ledger: Ledger, servers: str, jobs: list[dict[str, Any]]) -> None:
    ledger.what = "aiokafka: clients of many settings, one after the other"
    for job in jobs:
        topic = ledger.topic(job["name"])
        await create(ledger, servers, topic, partitions=job["partitions"])
        own = {"bootstrap_servers": servers, "client_id": ledger.client(job["name"]), **job["settings"]}
        if job["role"] == "consumer":
            async with AIOKafkaConsumer(topic, **own):
                await asyncio.sleep(job["seconds"])
            continue
        async with AIOKafkaProducer(**own) as producer, AsyncExitStack() as open_now:
            if "transactional_id" in own:
                await open_now.enter_async_context(producer.transaction())
            value = (LINE * (job["size"] // len(LINE) + 1))[: job["size"]].encode()
            await asyncio.gather(*[await producer.send(topic, value) for _ in range(job["records"])])


def waited_for(scenario: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    return lambda *arguments: asyncio.run(scenario(*arguments))


if __name__ == "__main__":
    logging.disable()
    scenarios = {
        "codecs": codecs, "txn": transactions, "admin": administration, "errors": errors, "sasl": sasl,
        "connect": connect, "settings": configured,
    }  # fmt: skip
    main(
        f"aiokafka {version('aiokafka')}",
        {kind: waited_for(scenario) for kind, scenario in scenarios.items()},
    )
