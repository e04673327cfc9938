"""Kafka traffic over loopback sockets at a stated rate, with its own count of what was exchanged.

Run as a program, `load.py PORT SECONDS REQUESTS_A_SECOND RECORD_BYTES CONNECTIONS`: half of the exchanges produce a
batch of so many bytes, half fetch one. A rate of 0 is as fast as one core allows. It prints a JSON object.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.recordsets import batch_of

from kinspect.protocol import Message, encode_request, encode_response

PRODUCE, FETCH = 0, 1
PRODUCE_VERSION, FETCH_VERSION = 9, 12
TOPIC = "orders"
CORRELATION_AT = 8
RECORD_BYTES = 100


class Talk(NamedTuple):
    """A request and its response, framed; the correlation ids are put in where they are sent."""

    request: bytearray
    response: bytearray


def framed(message: bytes) -> bytearray:
    return bytearray(struct.pack(">i", len(message)) + message)


def produce(records: bytes) -> Talk:
    partition = {"index": 0, "records": records}
    body = {"acks": -1, "timeout_ms": 1000, "topic_data": [{"name": TOPIC, "partition_data": [partition]}]}
    answer = {"responses": [{"name": TOPIC, "partition_responses": [{"index": 0, "base_offset": 5}]}]}
    return Talk(
        framed(encode_request(Message(PRODUCE, PRODUCE_VERSION, 0, body, "load-producer"))),
        framed(encode_response(Message(PRODUCE, PRODUCE_VERSION, 0, answer))),
    )


def fetch(records: bytes) -> Talk:
    partition = {"partition": 0, "fetch_offset": 5, "partition_max_bytes": 1 << 20}
    body = {"max_wait_ms": 500, "min_bytes": 1, "topics": [{"topic": TOPIC, "partitions": [partition]}]}
    told = {"partition_index": 0, "high_watermark": 9, "records": records}
    answer = {"responses": [{"topic": TOPIC, "partitions": [told]}]}
    return Talk(
        framed(encode_request(Message(FETCH, FETCH_VERSION, 0, body, "load-consumer"))),
        framed(encode_response(Message(FETCH, FETCH_VERSION, 0, answer))),
    )


def receive(end: socket.socket, size: int) -> None:
    while size:
        size -= len(end.recv(min(size, 1 << 16)))


def run(port: int, seconds: float, rate: float, record_bytes: int, connections: int) -> dict[str, float]:
    """Exchange one after the other, over the connections in turn; what was sent, and how long it took."""
    records = batch_of([bytes(RECORD_BYTES)] * max(record_bytes // RECORD_BYTES, 1))
    talks = [produce(records), fetch(records)]
    with socket.create_server(("127.0.0.1", port), backlog=connections) as server:
        ends = [
            (socket.create_connection(("127.0.0.1", port)), server.accept()[0]) for _ in range(connections)
        ]
    for one, other in ends:
        for end in (one, other):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    exchanges = size = 0
    start = time.perf_counter()
    while (now := time.perf_counter() - start) < seconds:
        if rate and exchanges > now * rate:
            time.sleep(0.001)
            continue
        client, broker = ends[exchanges // 2 % connections]
        request, response = talks[exchanges % 2]
        struct.pack_into(">i", request, CORRELATION_AT, exchanges)
        struct.pack_into(">i", response, 4, exchanges)
        client.sendall(request)
        receive(broker, len(request))
        broker.sendall(response)
        receive(client, len(response))
        exchanges += 1
        size += len(request) + len(response)
    took = time.perf_counter() - start
    for pair in ends:
        for end in pair:
            end.close()
    return {"exchanges": exchanges, "bytes": size, "seconds": took}


if __name__ == "__main__":
    to_port, for_seconds, at_rate, of_bytes, over = sys.argv[1:]
    print(json.dumps(run(int(to_port), float(for_seconds), float(at_rate), int(of_bytes), int(over))))
