"""Make a capture of one exchange with as many elements, or as long texts, as one message may have.

python tests/bench/large.py topics -o topics.pcap
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from hostile import Hostile, batch
from messages import BROKER, CLIENT, sized, varint

from kinspect.protocol import Message, encode_request, encode_response

PRODUCE, FETCH, METADATA, DESCRIBE_CONFIGS = 0, 1, 3, 32
ZERO_ID = "A" * 22
LONGEST = 32_767

TOPIC: dict[str, Any] = {"error_code": 3, "name": "", "is_internal": False, "partitions": []}
PARTITION: dict[str, Any] = {
    "error_code": 0,
    "partition_index": 0,
    "leader_id": 1,
    "leader_epoch": 1,
    "replica_nodes": [],
    "isr_nodes": [],
    "offline_replicas": [],
}
FETCHED: dict[str, Any] = {
    "partition_index": 0,
    "error_code": 6,
    "high_watermark": 1,
    "last_stable_offset": 1,
    "log_start_offset": 0,
    "aborted_transactions": None,
    "preferred_read_replica": -1,
    "records": None,
}
SETTING: dict[str, Any] = {
    "name": "retention.ms",
    "value": "1",
    "read_only": False,
    "config_source": 1,
    "is_sensitive": False,
    "synonyms": [],
    "config_type": 5,
    "documentation": None,
}


class Large(NamedTuple):
    api_key: int
    version: int
    request: dict[str, Any]
    response: dict[str, Any]


def metadata(version: int, topics: list[dict[str, Any]]) -> Large:
    return Large(METADATA, version, {"topics": None}, {"brokers": [], "controller_id": 0, "topics": topics})


def headers(count: int) -> bytes:
    """A batch of one record with this number of headers."""
    header = varint(1) + b"h" + varint(1) + b"v"
    record = b"\0\0\0\1" + varint(1) + b"v" + varint(count) + header * count
    return batch(0, varint(len(record)) + record, 1)


def produced(records: bytes) -> Large:
    data = {"name": "t", "partition_data": [{"index": 0, "records": records}]}
    answer = {"index": 0, "error_code": 0, "base_offset": 0, "log_append_time_ms": -1, "log_start_offset": 0}
    return Large(
        PRODUCE,
        7,
        {"transactional_id": None, "acks": 1, "timeout_ms": 1, "topic_data": [data]},
        {"responses": [{"name": "t", "partition_responses": [answer]}], "throttle_time_ms": 0},
    )


PROFILES = {
    "topics": lambda: metadata(1, [TOPIC] * 300_000),
    "topics-flexible": lambda: metadata(12, [{**TOPIC, "name": None, "topic_id": ZERO_ID}] * 300_000),
    "names": lambda: metadata(1, [{**TOPIC, "name": "n" * LONGEST}] * 400),
    "odd-names": lambda: metadata(1, [{**TOPIC, "name": "ü\u202e" * (LONGEST // 5)}] * 200),
    "replicas": lambda: metadata(
        7, [{**TOPIC, "name": "t", "partitions": [{**PARTITION, "replica_nodes": [*range(700_000)]}]}]
    ),
    "partitions": lambda: Large(
        FETCH,
        11,
        {"replica_id": -1, "max_wait_ms": 1, "min_bytes": 1, "topics": []},
        {"error_code": 0, "responses": [{"topic": "t", "partitions": [FETCHED] * 200_000}]},
    ),
    "settings": lambda: Large(
        DESCRIBE_CONFIGS,
        4,
        {"resources": [{"resource_type": 2, "resource_name": "t", "configuration_keys": None}]},
        {
            "results": [
                {
                    "error_code": 0,
                    "error_message": None,
                    "resource_type": 2,
                    "resource_name": "t",
                    "configs": [SETTING] * 200_000,
                }
            ]
        },
    ),
    "headers": lambda: produced(headers(50_000)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("profile", choices=PROFILES)
    parser.add_argument("-o", "--output", type=Path, required=True)
    values = parser.parse_args()
    key, version, request, response = PROFILES[values.profile]()
    with open(values.output, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        to = Hostile(out)
        to.open(0)
        to.send(0, CLIENT, sized(encode_request(Message(key, version, 1, request, "c"))))
        to.send(0, BROKER, sized(encode_response(Message(key, version, 1, response))))
    print(f"{values.output}: {values.output.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
