"""Make a capture of any size: real Kafka messages, many connections, segments as an Ethernet cuts them.

    python tests/bench/generate.py bulk -o bulk.pcap
    python tests/bench/generate.py chatty --size 64MiB --connections 10 -o chatty.pcap

`bulk` is what producers and consumers move: records of 200 bytes, half of them in lz4; `records` as much in records
of some ten bytes; `chatty` what they say between, a message a packet; `wide` Metadata of 5,000 partitions. All in the
newest versions that tshark 4.0 decodes to the last field, so that both programs have the same work.

The round of each connection is encoded once; every repetition is the same bytes with its own time, port, sequence
numbers, correlation ids and offsets. The same arguments give the same bytes. `--told` also writes how many packets,
messages and records there are.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import crc32c
import lz4.frame

from kinspect.protocol import Message, encode_request, encode_response
from kinspect.protocol.wire import uvarint_bytes

PRODUCE, FETCH, METADATA, HEARTBEAT = 0, 1, 3, 12
NO_CODEC, LZ4 = 0, 3
MSS = 1448  # of an Ethernet, less the TCP timestamps
CLIENT, BROKER = 0, 1
DIRECTIONS = ("request", "response")
CLIENT_IP, BROKER_IP = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 9))
FIRST_PORT, BROKER_PORT = 10_000, 9092
FIN, SYN, PSH, ACK = 0x01, 0x02, 0x08, 0x10
START_S, STEP_US = 1_700_000_000, 10
MASK = 0xFFFFFFFF
FIRST_NUMBERS = (1_000, 4_000_000_000)

PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
RECORD_SIZE, ETHERNET_SIZE, IP_SIZE, TCP_SIZE = 16, 14, 20, 32
HEADERS = ETHERNET_SIZE + IP_SIZE + TCP_SIZE
ID_AT = RECORD_SIZE + ETHERNET_SIZE + 4
TCP_AT = RECORD_SIZE + ETHERNET_SIZE + IP_SIZE
CORRELATION_AT = (8, 4)
BATCH = 100
"""Records of a batch; what `tshark -T ek` takes grows with the square of what a message holds."""
OFFSET = 0x1122334455667788
"""Stands for an offset in a message: `Writer` puts one there that grows."""
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def batch(values: list[bytes], codec: int = NO_CODEC) -> bytes:
    """A record batch v2 with the right CRC."""
    body = bytearray()
    for delta, value in enumerate(values):
        record = b"\0\0" + varint(delta) + varint(3) + b"key" + varint(len(value)) + value + b"\0"
        body += varint(len(record)) + record
    count = len(values)
    packed = lz4.frame.compress(body) if codec == LZ4 else bytes(body)
    tail = struct.pack(">hiqqqhii", codec, count - 1, 10**12, 10**12, -1, -1, -1, count) + packed
    return struct.pack(">qiibI", 0, len(tail) + 9, 0, 2, crc32c.crc32c(tail)) + tail


def varint(value: int) -> bytes:
    """A zigzag varint of no negative number."""
    return uvarint_bytes(value << 1)


def sized(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


class Said(NamedTuple):
    """A message of a round: who sends it, what it is, its bytes, how many partitions it names and records it holds."""

    direction: int
    api_key: int
    data: bytes
    partitions: int = 0
    records: int = 0


def exchange(
    key: int, version: int, request: dict[str, Any], response: dict[str, Any], client: str
) -> tuple[bytes, bytes]:
    """A request and its response."""
    return (
        sized(encode_request(Message(key, version, 0, request, client))),
        sized(encode_response(Message(key, version, 0, response, direction="response"))),
    )


def produce(records: bytes, count: int = 0, client: str = "bench") -> list[Said]:
    partition = {"index": 0, "records": records}
    answer = {
        "index": 0, "error_code": 0, "base_offset": OFFSET, "log_append_time_ms": -1, "log_start_offset": 0
    }  # fmt: skip
    asked, told = exchange(
        PRODUCE, 7,
        {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"name": "orders", "partition_data": [partition]}]},
        {"responses": [{"name": "orders", "partition_responses": [answer]}], "throttle_time_ms": 0},
        client,
    )  # fmt: skip
    return [Said(CLIENT, PRODUCE, asked, 1, count), Said(BROKER, PRODUCE, told, 1)]


def fetch(records: bytes, count: int = 0, client: str = "bench") -> list[Said]:
    wanted = {
        "partition": 0, "current_leader_epoch": 1, "fetch_offset": OFFSET, "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }  # fmt: skip
    found = {
        "partition_index": 0, "error_code": 0, "high_watermark": OFFSET, "last_stable_offset": 99,
        "log_start_offset": 0, "aborted_transactions": None, "records": records,
    }  # fmt: skip
    asked, told = exchange(
        FETCH, 10,
        {
            "replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 50 << 20, "isolation_level": 0,
            "session_id": 0, "session_epoch": -1, "topics": [{"topic": "orders", "partitions": [wanted]}],
            "forgotten_topics_data": [],
        },
        {
            "throttle_time_ms": 0, "error_code": 0, "session_id": 0,
            "responses": [{"topic": "orders", "partitions": [found]}],
        },
        client,
    )  # fmt: skip
    return [Said(CLIENT, FETCH, asked, 1), Said(BROKER, FETCH, told, 1, count)]


def heartbeat(member: int = 0, client: str = "bench") -> list[Said]:
    body = {"group_id": "workers", "generation_id": 7, "member_id": f"{client}-{member:08x}"}
    asked, told = exchange(HEARTBEAT, 2, body, {"throttle_time_ms": 0, "error_code": 0}, client)
    return [Said(CLIENT, HEARTBEAT, asked), Said(BROKER, HEARTBEAT, told)]


def metadata(chance: random.Random, topics: int, partitions: int, client: str) -> list[Said]:
    """Metadata of all topics, their partitions on six brokers."""

    def partition(index: int) -> dict[str, Any]:
        nodes = chance.sample(range(1, 7), 3)
        return {
            "error_code": 0, "partition_index": index, "leader_id": nodes[0],
            "leader_epoch": chance.randrange(100), "replica_nodes": nodes, "isr_nodes": nodes,
            "offline_replicas": [],
        }  # fmt: skip

    brokers = [
        {"node_id": node, "host": f"broker-{node}.kafka.internal", "port": 9092, "rack": f"zone-{node % 3}"}
        for node in range(1, 7)
    ]
    found = [
        {
            "error_code": 0, "name": f"orders-of-region-{topic:03d}", "is_internal": False,
            "partitions": [partition(index) for index in range(partitions)],
            "topic_authorized_operations": -(1 << 31),
        }
        for topic in range(topics)
    ]  # fmt: skip
    asked, told = exchange(
        METADATA, 8,
        {
            "topics": None, "allow_auto_topic_creation": False, "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        },
        {
            "throttle_time_ms": 0, "brokers": brokers, "cluster_id": "5L6g3nShT-eMCtK--X86sw", "controller_id": 1,
            "topics": found, "cluster_authorized_operations": -(1 << 31),
        },
        client,
    )  # fmt: skip
    return [Said(CLIENT, METADATA, asked), Said(BROKER, METADATA, told, topics * partitions)]


def order(chance: random.Random) -> bytes:
    """A value of 200 bytes, text that lz4 makes about half as long."""
    text = (
        f'{{"order":{chance.randrange(10**9)},"customer":"c{chance.randrange(10**5):05d}","price":'
        f'{chance.randrange(10_000) / 100:.2f},"token":"{chance.getrandbits(320):080x}","city":"Berlin","status":'
        f'"shipped","currency":"EUR","note":"leave with the neighbour'
    )
    return text.encode().ljust(198)[:198] + b'"}'


def reading(chance: random.Random) -> bytes:
    """A value of some ten bytes."""
    return b"%d:%d" % (chance.randrange(10_000), chance.randrange(1_000_000))


def moved(make: Callable[[random.Random], bytes], connection: int) -> list[Said]:
    """Producing and fetching records in batches of `BATCH`, half of them in lz4."""
    chance, client = random.Random(connection), f"bench-{connection}"

    def batches(number: int, codec: int) -> bytes:
        return b"".join(batch([make(chance) for _ in range(BATCH)], codec) for _ in range(number))

    said = []
    for codec in (NO_CODEC, LZ4):
        said += produce(batches(1, codec), BATCH, client) + fetch(batches(4, codec), 4 * BATCH, client)
    return said


def bulk(connection: int) -> list[Said]:
    """Messages of a connection in a round of `bulk`: 1,000 records."""
    return moved(order, connection)


def records(connection: int) -> list[Said]:
    """Messages of a connection in a round of `records`: 1,000 records."""
    return moved(reading, connection)


def chatty(connection: int) -> list[Said]:
    """Messages of a connection in a round of `chatty`: eight, each in a packet of its own."""
    chance, client = random.Random(connection), f"bench-{connection}"
    beat = heartbeat(connection, client)
    return (
        beat + fetch(b"", client=client) + beat
        + produce(batch([order(chance) for _ in range(3)]), 3, client)
    )  # fmt: skip


def wide(connection: int) -> list[Said]:
    """Messages of a connection in a round of `wide`: Metadata of 5,000 partitions."""
    return metadata(random.Random(connection), 50, 100, f"bench-{connection}")


class Profile(NamedTuple):
    """The round of a connection, how many connections there are, and bytes of the capture."""

    talk: Callable[[int], list[Said]]
    connections: int
    size: int


PROFILES = {
    "bulk": Profile(bulk, 10, 49_000_000),
    "chatty": Profile(chatty, 1_000, 9_340_000),
    "records": Profile(records, 10, 25_000_000),
    "wide": Profile(wide, 2, 1_060_000),
}


def packet(direction: int, flags: int, payload: bytes) -> bytes:
    """A packet with its pcap record header; time, id, ports and numbers are zero, `Writer` sets them."""
    ends = (CLIENT_IP, BROKER_IP)
    size = HEADERS + len(payload)
    ip = struct.pack(">BBHHHBBH", 0x45, 0, size - ETHERNET_SIZE, 0, 0x4000, 64, 6, 0)
    tcp = struct.pack(">12xBBHHH", TCP_SIZE // 4 << 4, flags, 65535, 0, 0) + b"\1\1\x08\x0a" + bytes(8)
    return b"".join((
        struct.pack("<8xII", size, size), b"\x02\0\0\0\0\1\x02\0\0\0\0\2\x08\0",
        ip, ends[direction], ends[1 - direction], tcp, payload,
    ))  # fmt: skip


class Place(NamedTuple):
    """A packet in the buffer: where it begins, who sends it, by how much it moves the sender's number, where its
    message's correlation id and offset are (0: it has none)."""

    at: int
    direction: int
    length: int
    correlation_at: int
    offset_at: int


class Template:
    """The packets of a round in one buffer, and what to set in them."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.places: list[Place] = []

    def add(self, direction: int, flags: int, payload: bytes = b"", first: bool = False) -> None:
        """A packet; `first`: a message begins with it."""
        at = len(self.buffer)
        self.buffer += packet(direction, flags, payload)
        length = len(payload) + bool(flags & (SYN | FIN))
        correlation_at = offset_at = 0
        if first:
            start = at + RECORD_SIZE + HEADERS
            correlation_at = start + CORRELATION_AT[direction]
            found = payload.find(OFFSET.to_bytes(8))
            offset_at = 0 if found < 0 else start + found
        self.places.append(Place(at, direction, length, correlation_at, offset_at))

    def send(self, direction: int, message: bytes) -> None:
        """A message in segments."""
        for start in range(0, len(message), MSS):
            payload = message[start : start + MSS]
            last = start + MSS >= len(message)
            self.add(direction, ACK | (PSH if last else 0), payload, first=not start)


class Writer:
    """Writes templates, each time for one connection."""

    def __init__(self, out: BinaryIO, connections: int) -> None:
        self.out = out
        self.written = out.write(PCAP_HEADER)
        self.packets = 0
        self.time_us = 0
        self.ident = 0
        self.correlation_id = 0
        self.numbers = [list(FIRST_NUMBERS) for _ in range(connections)]

    def write(self, template: Template, connection: int) -> None:
        set_time = struct.Struct("<II").pack_into
        set_tcp = struct.Struct(">HHII").pack_into
        set_id = struct.Struct(">H").pack_into
        set_correlation = struct.Struct(">i").pack_into
        set_offset = struct.Struct(">q").pack_into
        buffer, numbers = template.buffer, self.numbers[connection]
        ports = (FIRST_PORT + connection, BROKER_PORT)
        time_us, ident, correlation_id = self.time_us, self.ident, self.correlation_id
        for at, direction, length, correlation_at, offset_at in template.places:
            time_us += STEP_US
            ident = (ident + 1) & 0xFFFF
            seconds, microseconds = divmod(time_us, 1_000_000)
            set_time(buffer, at, START_S + seconds, microseconds)
            set_id(buffer, at + ID_AT, ident)
            number = numbers[direction]
            set_tcp(
                buffer, at + TCP_AT, ports[direction], ports[1 - direction], number, numbers[1 - direction]
            )
            numbers[direction] = (number + length) & MASK
            if correlation_at:
                correlation_id += direction == CLIENT
                set_correlation(buffer, correlation_at, correlation_id & 0x7FFFFFFF)
                if offset_at:
                    set_offset(buffer, offset_at, correlation_id)
        self.time_us, self.ident, self.correlation_id = time_us, ident, correlation_id
        self.packets += len(template.places)
        self.written += self.out.write(buffer)


class Told(NamedTuple):
    """Contents of a capture; `messages` by API key and direction, as `0 request`; `correlation_ids`: their sum."""

    packets: int
    messages: dict[str, int]
    correlation_ids: int
    partitions: int
    records: int


def generate(
    profile: str, out: BinaryIO, size: int | None = None, times: int = 1, connections: int | None = None
) -> Told:
    """Write a capture of about `size` bytes, in whole rounds, or of `times` as many rounds; returns its contents."""
    talk, usual_connections, usual_size = PROFILES[profile]
    connections, size = connections or usual_connections, size or usual_size
    opening, closing = Template(), Template()
    opening.add(CLIENT, SYN)
    opening.add(BROKER, SYN | ACK)
    opening.add(CLIENT, ACK)
    closing.add(CLIENT, FIN | ACK)
    closing.add(BROKER, FIN | ACK)
    closing.add(CLIENT, ACK)
    work = []
    for connection in range(connections):
        said = talk(connection)
        work.append(Template())
        for message in said:
            work[-1].send(message.direction, message.data)
    writer = Writer(out, connections)
    for connection in range(connections):
        writer.write(opening, connection)
    rounds = 0
    left = size - writer.written - connections * len(closing.buffer)
    while left > 0:
        left -= len(work[rounds % connections].buffer)
        rounds += 1
    rounds *= times
    for number in range(rounds):
        writer.write(work[number % connections], number % connections)
    for connection in range(connections):
        writer.write(closing, connection)
    messages: dict[str, int] = {}
    for message in said:
        name = f"{message.api_key} {DIRECTIONS[message.direction]}"
        messages[name] = messages.get(name, 0) + rounds
    return Told(
        packets=writer.packets,
        messages=messages,
        # They count from 1, and each is in a request and in its response.
        correlation_ids=writer.correlation_id * (writer.correlation_id + 1),
        partitions=rounds * sum(message.partitions for message in said),
        records=rounds * sum(message.records for message in said),
    )


def read_size(text: str) -> int:
    """`64MiB` as a number of bytes."""
    match = re.fullmatch(r"(\d+)(|KiB|MiB|GiB)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"not a size: {text}")
    return int(match[1]) * UNITS[match[2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("profile", choices=PROFILES)
    parser.add_argument("--size", type=read_size)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--connections", type=int)
    parser.add_argument("--told", type=Path, help="JSON of what it holds")
    parser.add_argument("-o", "--output", type=Path, required=True)
    values = parser.parse_args()
    with open(values.output, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        told = generate(values.profile, out, values.size, values.times, values.connections)
    if values.told:
        values.told.write_text(json.dumps(told._asdict()))
    print(
        f"{values.output}: {values.output.stat().st_size:,} bytes, {told.packets:,} packets, "
        f"{sum(told.messages.values()):,} messages, {told.records:,} records",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
