"""Clients as they may be configured, each with what `kinspect settings` tells of it: the scenarios `settings`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

PRODUCER, CONSUMER = "producer", "consumer"


class Configured(NamedTuple):
    """A client: its settings in its own words, what it does, values that are told of it, and all its findings."""

    role: str
    settings: Mapping[str, Any] = {}
    told: Mapping[str, str | bool | list[str]] = {}
    findings: tuple[str, ...] = ()
    does: Mapping[str, Any] = {}


DOES: dict[str, dict[str, Any]] = {
    PRODUCER: {"partitions": 1, "records": 30, "size": 100, "every": 0, "anew": False},
    CONSUMER: {"partitions": 1, "replicas": None, "records": 0, "apart": False, "seconds": 3, "commit": 0},
}
"""Of a producer: records that it sends, their size in bytes, seconds between them, whether each has a producer of its
own. Of a consumer: the nodes that have its topic, the leader first; records that it finds, whether each is a batch of
its own; seconds that it polls, the number of records after which it commits."""

IDEMPOTENT = {"acks": "-1", "idempotent": True, "transactional": False}
LOOSE = {"idempotent": False, "transactional": False}
GROUP = {"session_timeout_ms": "45000", "rebalance_timeout_ms": "300000"}
FETCH = {"min_bytes": "1", "max_wait_ms": "500", "max_bytes": "52428800", "partition_max_bytes": "1048576"}
FAST = {"fetch.wait.max.ms": 10}
FEW, MANY = {"records": 60, "commit": 20}, {"records": 60, "commit": 1}
IN_RACKS = {"group.id": "rd-racks", "auto.offset.reset": "earliest", "max.partition.fetch.bytes": 150}
APART = {"replicas": [1, 2], "records": 26, "apart": True}
WIDE = {"partitions": 40, "seconds": 12}

CONFIGURED: dict[str, dict[str, Configured]] = {
    "java": {
        "default": Configured(PRODUCER, {}, {**IDEMPOTENT, "timeout_ms": "30000", "codecs": "none"}),
        "acks0": Configured(
            PRODUCER, {"acks": "0", "enable.idempotence": False}, {"acks": "0", **LOOSE}, ("acks_none",)
        ),
        "acks1": Configured(
            PRODUCER, {"acks": "1", "request.timeout.ms": 12000, "linger.ms": 0, "delivery.timeout.ms": 30000},
            {"acks": "1", "timeout_ms": "12000", **LOOSE}, ("acks_leader_only",),
        ),
        "plain": Configured(
            PRODUCER, {"enable.idempotence": False}, {"acks": "-1", **LOOSE}, ("not_idempotent",)
        ),
        "zstd": Configured(PRODUCER, {"compression.type": "zstd", "linger.ms": 30}, {**IDEMPOTENT, "codecs": "zstd"}),
        "transactions": Configured(
            PRODUCER, {"transactional.id": "settings-txn", "transaction.timeout.ms": 15000},
            {**IDEMPOTENT, "transaction_timeout_ms": "15000", "transactional": True},
        ),
        "reader": Configured(
            CONSUMER, {"group.id": "java-reader", "auto.offset.reset": "earliest"},
            {**FETCH, **GROUP, "isolation_level": "0", "rack_id": "", "assignors": ["cooperative-sticky", "range"],
             "auto_offset_reset": "-2", "fetch_sessions": True},
        ),
        "fetching": Configured(
            CONSUMER,
            {"group.id": "java-fetching", "auto.offset.reset": "latest", "fetch.min.bytes": 10, "client.rack": "r1",
             "fetch.max.wait.ms": 200, "fetch.max.bytes": 1_000_000, "max.partition.fetch.bytes": 200_000,
             "isolation.level": "read_committed"},
            {"min_bytes": "10", "max_wait_ms": "200", "max_bytes": "1000000", "partition_max_bytes": "200000",
             "isolation_level": "1", "rack_id": "r1", "auto_offset_reset": "-1"},
        ),
        "static": Configured(
            CONSUMER,
            {"group.id": "java-static", "session.timeout.ms": 6000, "heartbeat.interval.ms": 1000,
             "max.poll.interval.ms": 60000, "group.instance.id": "one", "partition.assignment.strategy":
             "org.apache.kafka.clients.consumer.RoundRobinAssignor"},
            {"session_timeout_ms": "6000", "rebalance_timeout_ms": "60000", "group_instance_ids": "one",
             "assignors": "roundrobin"}, ("short_session",),
        ),
        "slow-heartbeat": Configured(
            CONSUMER, {"group.id": "java-slow", "session.timeout.ms": 6000, "heartbeat.interval.ms": 2700},
            {"session_timeout_ms": "6000"}, ("short_session", "heartbeat_too_slow"), {"seconds": 14},
        ),
        "epochs": Configured(
            CONSUMER, {"group.id": "java-epochs", "group.protocol": "consumer", "group.remote.assignor": "range"},
            {"rebalance_timeout_ms": "300000", "assignors": "range"},
        ),
    },
    "java-wide": {
        "sessions": Configured(
            CONSUMER, {"group.id": "java-sessions", "fetch.max.wait.ms": 100}, {"fetch_sessions": True}, (), WIDE
        ),
    },
    "librdkafka": {
        "default": Configured(PRODUCER, {}, {"acks": "-1", "codecs": "none", **LOOSE}, ("not_idempotent",)),
        "idempotent": Configured(PRODUCER, {"enable.idempotence": True}, IDEMPOTENT),
        "acks0": Configured(PRODUCER, {"acks": 0}, {"acks": "0"}, ("acks_none",)),
        "acks1": Configured(
            PRODUCER, {"acks": 1, "request.timeout.ms": 7000}, {"acks": "1", "timeout_ms": "7000"},
            ("acks_leader_only",),
        ),
        "lz4": Configured(
            PRODUCER, {"compression.codec": "lz4", "linger.ms": 50, "enable.idempotence": True},
            {**IDEMPOTENT, "codecs": "lz4"},
        ),
        "reader": Configured(
            CONSUMER, {"group.id": "rd-reader", "auto.offset.reset": "earliest", "enable.auto.commit": False},
            {**FETCH, **GROUP, "isolation_level": "1", "assignors": ["range", "roundrobin"],
             "auto_offset_reset": "-2", "fetch_sessions": False}, (), FEW,
        ),
        "committing": Configured(
            CONSUMER, {"group.id": "rd-committing", "auto.offset.reset": "earliest", "enable.auto.commit": False},
            GROUP, ("commits_too_often",), MANY,
        ),
    },
    "librdkafka-anew": {
        "anew": Configured(
            PRODUCER, {"enable.idempotence": True}, IDEMPOTENT, ("many_producers",), {"records": 20, "anew": True}
        ),
    },
    "librdkafka-polling": {
        "polling": Configured(
            CONSUMER, {"group.id": "rd-polling", **FAST}, {"max_wait_ms": "10"}, ("busy_polling",), {"seconds": 4}
        ),
    },
    "librdkafka-wide": {
        "wide": Configured(
            CONSUMER, {"group.id": "rd-wide", "fetch.wait.max.ms": 100}, {"max_wait_ms": "100"},
            ("no_fetch_sessions",), WIDE,
        ),
    },
    "librdkafka-racks": {
        "far": Configured(CONSUMER, {**IN_RACKS, "client.rack": "b"}, {"rack_id": "b"}, ("replica_far",), APART),
        "near": Configured(CONSUMER, {**IN_RACKS, "client.rack": "a"}, {"rack_id": "a"}, (), APART),
    },
    "librdkafka-tiny": {
        "tiny": Configured(
            PRODUCER, {"enable.idempotence": True, "linger.ms": 0}, IDEMPOTENT, ("tiny_batches",),
            {"records": 300, "every": 0.01},
        ),
        "lingering": Configured(
            PRODUCER, {"enable.idempotence": True, "linger.ms": 200}, IDEMPOTENT, (), {"records": 300, "every": 0.01}
        ),
    },
    "aiokafka": {
        "default": Configured(PRODUCER, {}, {"acks": "1", "codecs": "none"}, ("acks_leader_only",)),
        "all": Configured(PRODUCER, {"acks": "all"}, {"acks": "-1", **LOOSE}),
        "idempotent": Configured(
            PRODUCER, {"enable_idempotence": True, "compression_type": "gzip", "linger_ms": 20},
            {**IDEMPOTENT, "codecs": "gzip"},
        ),
        "transactions": Configured(
            PRODUCER, {"transactional_id": "settings-aio", "transaction_timeout_ms": 20000},
            {"transaction_timeout_ms": "20000", "transactional": True, "idempotent": True},
        ),
        "reader": Configured(
            CONSUMER,
            {"group_id": "aio-reader", "session_timeout_ms": 8000, "heartbeat_interval_ms": 1000,
             "fetch_max_wait_ms": 300, "fetch_min_bytes": 5, "max_partition_fetch_bytes": 300_000},
            {"session_timeout_ms": "8000", "max_wait_ms": "300", "min_bytes": "5", "partition_max_bytes": "300000"},
            ("short_session",),
        ),
        "committed": Configured(
            CONSUMER,
            {"group_id": "aio-committed", "isolation_level": "read_committed", "auto_offset_reset": "latest",
             "group_instance_id": "two"},
            {"isolation_level": "1", "auto_offset_reset": "-1", "group_instance_ids": "two",
             "session_timeout_ms": "10000"},
        ),
    },
    "aiokafka-text": {
        "text": Configured(
            PRODUCER, {"acks": "all"}, {"codecs": "none"}, ("uncompressed",), {"records": 1100, "size": 1000}
        ),
        "text-gzip": Configured(
            PRODUCER, {"acks": "all", "compression_type": "gzip"}, {"codecs": "gzip"}, (),
            {"records": 1100, "size": 1000},
        ),
    },
    "franz": {
        "default": Configured(PRODUCER, {}, {**IDEMPOTENT, "timeout_ms": "10000"}),
        "acks0": Configured(
            PRODUCER, {"RequiredAcks": "NoAck", "DisableIdempotentWrite": True}, {"acks": "0", **LOOSE}, ("acks_none",)
        ),
        "acks1": Configured(
            PRODUCER, {"RequiredAcks": "LeaderAck", "DisableIdempotentWrite": True, "ProduceRequestTimeout": 7000},
            {"acks": "1", "timeout_ms": "7000"}, ("acks_leader_only",),
        ),
        "plain": Configured(PRODUCER, {"DisableIdempotentWrite": True}, {"acks": "-1", **LOOSE}, ("not_idempotent",)),
        "zstd": Configured(PRODUCER, {"ProducerBatchCompression": "zstd"}, {**IDEMPOTENT, "codecs": "zstd"}),
        "transactions": Configured(
            PRODUCER, {"TransactionalID": "settings-franz", "TransactionTimeout": 15000},
            {**IDEMPOTENT, "transaction_timeout_ms": "15000", "transactional": True},
        ),
        "reader": Configured(
            CONSUMER, {"ConsumerGroup": "franz-reader"},
            {"session_timeout_ms": "45000", "rebalance_timeout_ms": "60000", "isolation_level": "0", "rack_id": "",
             "assignors": ["cooperative-sticky"]},
        ),
        "fetching": Configured(
            CONSUMER,
            {"ConsumerGroup": "franz-fetching", "ConsumeResetOffset": True, "FetchMinBytes": 10, "FetchMaxWait": 200,
             "FetchMaxBytes": 1_000_000, "FetchMaxPartitionBytes": 200_000, "FetchIsolationLevel": True, "Rack": "r1"},
            # The Fetch that ends its session asks for a byte, within a millisecond.
            {"min_bytes": ["1", "10"], "max_wait_ms": ["1", "200"], "max_bytes": ["1", "1000000"],
             "partition_max_bytes": "200000", "isolation_level": "1", "rack_id": "r1", "auto_offset_reset": "-1"},
        ),
        "static": Configured(
            CONSUMER,
            {"ConsumerGroup": "franz-static", "InstanceID": "three", "SessionTimeout": 6000, "RebalanceTimeout": 30000,
             "HeartbeatInterval": 1000, "Balancers": True},
            {"session_timeout_ms": "6000", "rebalance_timeout_ms": "30000", "group_instance_ids": "three",
             "assignors": "range"}, ("short_session",),
        ),
    },
}  # fmt: skip
"""By capture, which begins with the library, and name; a name is that of its topic, too."""


def jobs(capture: str) -> list[dict[str, Any]]:
    """What a library's program does in a capture."""
    return [
        {"name": name, "role": each.role, "settings": each.settings, **DOES[each.role], **each.does}
        for name, each in CONFIGURED[capture].items()
    ]


def facts(capture: str, scenario: str) -> dict[str, Any]:
    """What the settings tell of each client id."""
    return {
        f"{scenario}-{name}": {"role": each.role, "told": each.told, "findings": [*each.findings]}
        for name, each in CONFIGURED[capture].items()
    }
