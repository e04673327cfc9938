"""Kafka messages as clients and brokers of several releases send them."""

from __future__ import annotations

import base64
import gzip
import random
import struct
import uuid
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, NamedTuple

import crc32c
import lz4.frame

from kinspect.protocol import Message, encode_request, encode_response
from kinspect.protocol.primitives import uvarint_bytes

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 2, 3, 8, 9, 10
JOIN_GROUP, HEARTBEAT, SYNC_GROUP, API_VERSIONS, INIT_PRODUCER_ID = 11, 12, 14, 18, 22
ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28
CLIENT, BROKER = 0, 1
NO_CODEC, GZIP, LZ4 = 0, 1, 3
PACK: dict[int, Callable[[bytes], bytes]] = {
    NO_CODEC: bytes,
    GZIP: lambda data: gzip.compress(data, mtime=0),
    LZ4: lz4.frame.compress,
}
OFFSET = 0x1122334455667788
"""Stands for an offset in a message: the writer of packets puts one there that grows."""
GROUP, COORDINATOR = "workers", {"node_id": 2, "host": "broker-2.kafka.internal", "port": 9092}


class Client(NamedTuple):
    """A client, and the version of each API that it speaks."""

    id: str
    versions: dict[int, int]


class Said(NamedTuple):
    """A message: who sends it, what it is, its bytes, where `OFFSET` is in them (-1: nowhere), how many partitions it
    names and records it holds."""

    direction: int
    api_key: int
    data: bytes
    offset_at: int
    partitions: int = 0
    records: int = 0


class Part(NamedTuple):
    """A partition of a message, with its record set, how many records that holds, and the broker's error code."""

    topic: str
    index: int
    records: bytes = b""
    count: int = 0
    error: int = 0


def sized(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


def varint(value: int) -> bytes:
    """A zigzag varint of no negative number."""
    return uvarint_bytes(value << 1)


def batch(values: list[bytes], codec: int = NO_CODEC, producer_id: int = -1) -> bytes:
    """A record batch v2 with the right CRC; with a producer id a transactional one."""
    body = bytearray()
    for delta, value in enumerate(values):
        record = b"\0\0" + varint(delta) + varint(3) + b"key" + varint(len(value)) + value + b"\0"
        body += varint(len(record)) + record
    count = len(values)
    attributes, epoch = (codec, -1) if producer_id < 0 else (codec | 0x10, 0)
    tail = struct.pack(
        ">hiqqqhii", attributes, count - 1, 10**12, 10**12, producer_id, epoch, epoch, count
    ) + PACK[codec](bytes(body))
    return struct.pack(">qiibI", 0, len(tail) + 9, 0, 2, crc32c.crc32c(tail)) + tail


def exchange(
    client: Client,
    key: int,
    request: dict[str, Any],
    response: dict[str, Any],
    partitions: tuple[int, int] = (0, 0),
    records: tuple[int, int] = (0, 0),
) -> list[Said]:
    """A request and its response. The bodies hold the fields of all versions that are in use; what a version does not
    have is left out."""
    version = client.versions[key]
    both = (
        sized(encode_request(Message(key, version, 0, request, client.id))),
        sized(encode_response(Message(key, version, 0, response, direction="response"))),
    )
    return [
        Said(side, key, data, data.find(OFFSET.to_bytes(8)), partitions[side], records[side])
        for side, data in enumerate(both)
    ]


def produce(client: Client, parts: list[Part], transactional_id: str | None = None) -> list[Said]:
    def answer(part: Part) -> dict[str, Any]:
        return {"index": part.index, "error_code": part.error, "base_offset": OFFSET, "log_start_offset": 0}

    return exchange(
        client, PRODUCE,
        {
            "transactional_id": transactional_id, "acks": -1, "timeout_ms": 30_000,
            "topic_data": topics(parts, "partition_data", lambda part: {"index": part.index, "records": part.records}),
        },
        {"responses": topics(parts, "partition_responses", answer), "throttle_time_ms": 0},
        (len(parts), len(parts)),
        (sum(part.count for part in parts), 0),
    )  # fmt: skip


def fetch(
    client: Client, wanted: list[Part], found: list[Part], session: tuple[int, int] = (0, -1)
) -> list[Said]:
    """`session`: its id and its epoch."""

    def asked(part: Part) -> dict[str, Any]:
        return {
            "partition": part.index, "current_leader_epoch": 1, "fetch_offset": OFFSET, "partition_max_bytes": 1 << 20
        }  # fmt: skip

    def told(part: Part) -> dict[str, Any]:
        return {
            "partition_index": part.index, "error_code": part.error, "high_watermark": OFFSET,
            "last_stable_offset": 99, "log_start_offset": 0, "aborted_transactions": None, "records": part.records,
        }  # fmt: skip

    session_id, epoch = session
    return exchange(
        client, FETCH,
        {
            "replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 50 << 20,
            "session_id": session_id if epoch > 0 else 0, "session_epoch": epoch,
            "topics": topics(wanted, "partitions", asked),
        },
        {"session_id": session_id, "responses": topics(found, "partitions", told)},
        (len(wanted), len(found)),
        (0, sum(part.count for part in found)),
    )  # fmt: skip


def heartbeat(client: Client, member_id: str, error: int = 0) -> list[Said]:
    body = {"group_id": GROUP, "generation_id": 7, "member_id": member_id}
    return exchange(client, HEARTBEAT, body, {"error_code": error})


def topics(parts: Iterable[Part], name: str, make: Callable[[Part], Any]) -> list[dict[str, Any]]:
    """Partitions by topic, as the field `name` of each; a topic has all three fields that say which it is."""
    return [
        {"name": topic, "topic": topic, "topic_id": topic_id(topic), name: [make(part) for part in some]}
        for topic, some in groupby(parts, lambda part: part.topic)
    ]


def topic_id(topic: str) -> str:
    return base64.urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_DNS, topic).bytes).decode().rstrip("=")


def api_versions(client: Client) -> list[Said]:
    name, _, version = client.id.partition("-")
    keys = [{"api_key": key, "min_version": 0, "max_version": key % 14} for key in range(61)]
    return exchange(
        client, API_VERSIONS,
        {"client_software_name": name, "client_software_version": version}, {"api_keys": keys},
    )  # fmt: skip


def metadata(chance: random.Random, client: Client, names: list[str], error: int = 0) -> list[Said]:
    """Of these topics, six partitions each on three brokers; with an error also of one that is not there."""

    def partition(index: int) -> dict[str, Any]:
        nodes = chance.sample(range(1, 4), 3)
        return {
            "partition_index": index, "leader_id": nodes[0], "leader_epoch": chance.randrange(100),
            "replica_nodes": nodes, "isr_nodes": nodes[: chance.choice((2, 3, 3, 3))],
        }  # fmt: skip

    brokers = [
        {"node_id": node, "host": f"broker-{node}.kafka.internal", "port": 9092, "rack": f"zone-{node}"}
        for node in range(1, 4)
    ]
    found: list[dict[str, Any]] = [
        {"name": name, "topic_id": topic_id(name), "partitions": [partition(index) for index in range(6)]}
        for name in names
    ]
    if error:
        found.append({"error_code": error, "name": "gone", "partitions": []})
    return exchange(
        client, METADATA,
        {"topics": [{"name": topic["name"]} for topic in found], "allow_auto_topic_creation": False},
        {"brokers": brokers, "cluster_id": "5L6g3nShT-eMCtK--X86sw", "controller_id": 1, "topics": found},
        (0, 6 * len(names)),
    )  # fmt: skip


def find_coordinator(client: Client, key: str, key_type: int, error: int = 0) -> list[Said]:
    found = {"error_code": error, **COORDINATOR}
    return exchange(
        client, FIND_COORDINATOR,
        {"key": key, "key_type": key_type, "coordinator_keys": [key]},
        {**found, "coordinators": [{"key": key, **found}]},
    )  # fmt: skip


def join_group(client: Client, member: str, parts: list[Part]) -> list[Said]:
    """First without an id, which the coordinator then gives."""
    names = [part.topic for part in parts if part.index == 0]
    subscription = struct.pack(">hi", 0, len(names)) + b"".join(map(_text, names)) + struct.pack(">i", -1)
    asked = {
        "group_id": GROUP, "session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000, "member_id": "",
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": subscription}],
    }  # fmt: skip
    told = {
        "generation_id": 7, "protocol_type": "consumer", "protocol_name": "range", "leader": member,
        "member_id": member, "members": [{"member_id": member, "metadata": subscription}],
    }  # fmt: skip
    unknown = {"error_code": 79, "protocol_name": "", "leader": "", "member_id": member, "members": []}
    return exchange(client, JOIN_GROUP, asked, unknown) + exchange(
        client, JOIN_GROUP, {**asked, "member_id": member}, told
    )


def sync_group(client: Client, member: str, parts: list[Part]) -> list[Said]:
    assigned = struct.pack(">hi", 0, len(topics(parts, "", bool)))
    for topic, some in groupby(parts, lambda part: part.topic):
        indexes = [part.index for part in some]
        assigned += _text(topic) + struct.pack(f">{len(indexes) + 1}i", len(indexes), *indexes)
    assigned += struct.pack(">i", -1)
    which = {"protocol_type": "consumer", "protocol_name": "range"}
    asked = {"group_id": GROUP, "generation_id": 7, "member_id": member, **which}
    return exchange(
        client, SYNC_GROUP,
        {**asked, "assignments": [{"member_id": member, "assignment": assigned}]}, {**which, "assignment": assigned},
    )  # fmt: skip


def offset_fetch(client: Client, parts: list[Part]) -> list[Said]:
    wanted = topics(parts, "partition_indexes", lambda part: part.index)
    found = topics(
        parts, "partitions", lambda part: {"partition_index": part.index, "committed_offset": OFFSET, "metadata": ""}
    )  # fmt: skip
    return exchange(
        client, OFFSET_FETCH,
        {"group_id": GROUP, "topics": wanted, "groups": [{"group_id": GROUP, "topics": wanted}]},
        {"topics": found, "groups": [{"group_id": GROUP, "topics": found}]},
        (0, len(parts)),
    )  # fmt: skip


def list_offsets(client: Client, parts: list[Part], error: int = 0) -> list[Said]:
    def told(part: Part) -> dict[str, Any]:
        return {"partition_index": part.index, "error_code": error, "offset": OFFSET}

    wanted = topics(parts, "partitions", lambda part: {"partition_index": part.index, "timestamp": -1})
    return exchange(
        client, LIST_OFFSETS,
        {"replica_id": -1, "topics": wanted}, {"topics": topics(parts, "partitions", told)},
        (len(parts), len(parts)),
    )  # fmt: skip


def offset_commit(client: Client, member: str, parts: list[Part], error: int = 0) -> list[Said]:
    return exchange(
        client, OFFSET_COMMIT,
        {
            "group_id": GROUP, "generation_id_or_member_epoch": 7, "member_id": member,
            "topics": topics(parts, "partitions", _committed),
        },
        {"topics": topics(parts, "partitions", lambda part: {"partition_index": part.index, "error_code": error})},
        (len(parts), len(parts)),
    )  # fmt: skip


def _committed(part: Part) -> dict[str, Any]:
    return {"partition_index": part.index, "committed_offset": OFFSET, "committed_metadata": ""}


def init_producer_id(client: Client, name: str | None, error: int = 0) -> list[Said]:
    return exchange(
        client, INIT_PRODUCER_ID,
        {"transactional_id": name, "transaction_timeout_ms": 60_000},
        {"error_code": error, "producer_id": 4_711, "producer_epoch": 0},
    )  # fmt: skip


def add_partitions_to_txn(
    client: Client, asks: dict[str, Any], parts: list[Part], error: int = 0
) -> list[Said]:
    wanted = topics(parts, "partitions", lambda part: part.index)
    results = topics(
        parts, "results_by_partition", lambda part: {"partition_index": part.index, "partition_error_code": error}
    )  # fmt: skip
    return exchange(
        client, ADD_PARTITIONS_TO_TXN,
        {**{f"v3_and_below_{name}": value for name, value in asks.items()}, "v3_and_below_topics": wanted},
        {"results_by_topic_v3_and_below": results},
        (0, len(parts)),
    )  # fmt: skip


def txn_offset_commit(client: Client, asks: dict[str, Any], parts: list[Part]) -> list[Said]:
    told = topics(parts, "partitions", lambda part: {"partition_index": part.index})
    return exchange(
        client, TXN_OFFSET_COMMIT,
        {**asks, "topics": topics(parts, "partitions", _committed)}, {"topics": told},
        (len(parts), len(parts)),
    )  # fmt: skip


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()
