"""Make a capture of any size: real Kafka messages, many connections, segments as an Ethernet cuts them.

    python tests/bench/generate.py bulk --size 1GiB -o bulk.pcap
    python tests/bench/generate.py chatty --size 64MiB -o chatty.pcap

`bulk` is what producers and consumers move (Produce v7 of 64 KiB, Fetch v10 answered with 256 KiB), `chatty` what
they say between (Heartbeat v2, empty Fetch v10, Produce v7 of one record). One round of one connection is encoded
once; every repetition is the same bytes with its own time, port, sequence numbers and correlation ids.
"""

from __future__ import annotations

import argparse
import os
import re
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import crc32c

from kinspect.protocol import Message, encode_request, encode_response

PRODUCE, FETCH, HEARTBEAT = 0, 1, 12
MSS = 1448  # of an Ethernet, less the TCP timestamps
CLIENT, BROKER = 0, 1
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
RESPONSE_CORRELATION_AT, REQUEST_CORRELATION_AT = 4, 8
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def batch(records: int, value_size: int) -> bytes:
    """A record batch v2 with the right CRC; values are text that repeats a little."""
    value = (b"0000042 order=book price=12.50 " * (value_size // 31 + 1))[:value_size]
    body = bytearray()
    for delta in range(records):
        record = b"\0\0" + varint(delta) + varint(3) + b"key" + varint(len(value)) + value + b"\0"
        body += varint(len(record)) + record
    tail = struct.pack(">hiqqqhii", 0, records - 1, 10**12, 10**12, -1, -1, -1, records) + body
    return struct.pack(">qiibI", 0, len(tail) + 9, 0, 2, crc32c.crc32c(tail)) + tail


def varint(value: int) -> bytes:
    """A zigzag varint."""
    value <<= 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sized(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


def exchange(
    key: int, version: int, request: dict[str, Any], response: dict[str, Any]
) -> list[tuple[int, bytes]]:
    """Who sends what: a request and its response."""
    return [
        (CLIENT, sized(encode_request(Message(key, version, 0, request, "bench")))),
        (BROKER, sized(encode_response(Message(key, version, 0, response, direction="response")))),
    ]


def produce(records: bytes) -> list[tuple[int, bytes]]:
    partition = {"index": 0, "records": records}
    answer = {"index": 0, "error_code": 0, "base_offset": 42, "log_append_time_ms": -1, "log_start_offset": 0}
    return exchange(
        PRODUCE, 7,
        {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"name": "orders", "partition_data": [partition]}]},
        {"responses": [{"name": "orders", "partition_responses": [answer]}], "throttle_time_ms": 0},
    )  # fmt: skip


def fetch(records: bytes) -> list[tuple[int, bytes]]:
    wanted = {
        "partition": 0, "current_leader_epoch": 1, "fetch_offset": 42, "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }  # fmt: skip
    found = {
        "partition_index": 0, "error_code": 0, "high_watermark": 99, "last_stable_offset": 99,
        "log_start_offset": 0, "aborted_transactions": None, "records": records,
    }  # fmt: skip
    return exchange(
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
    )  # fmt: skip


def heartbeat() -> list[tuple[int, bytes]]:
    asked = {"group_id": "workers", "generation_id": 7, "member_id": "bench-4fcb8a2e"}
    return exchange(HEARTBEAT, 2, asked, {"throttle_time_ms": 0, "error_code": 0})


def bulk() -> list[tuple[int, bytes]]:
    """What a connection says in a round of `bulk`."""
    return produce(batch(64, 1_000)) + fetch(batch(256, 1_000))


def chatty() -> list[tuple[int, bytes]]:
    """What a connection says in a round of `chatty`."""
    return heartbeat() + fetch(b"") + heartbeat() + produce(batch(1, 100))


PROFILES = {"bulk": (bulk, 100), "chatty": (chatty, 1_000)}
"""The round of a connection, and how many connections there are."""


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
    message's correlation id is (0: it begins no message)."""

    at: int
    direction: int
    length: int
    correlation_at: int


class Template:
    """The packets of a round in one buffer, and what to set in them."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.places: list[Place] = []

    def add(self, direction: int, flags: int, payload: bytes = b"", correlation_at: int = 0) -> None:
        at = len(self.buffer)
        self.buffer += packet(direction, flags, payload)
        length = len(payload) + bool(flags & (SYN | FIN))
        where = at + RECORD_SIZE + HEADERS + correlation_at if correlation_at else 0
        self.places.append(Place(at, direction, length, where))

    def send(self, direction: int, message: bytes) -> None:
        """A message in segments; the other end acknowledges every second one and the last."""
        correlation_at = RESPONSE_CORRELATION_AT if direction == BROKER else REQUEST_CORRELATION_AT
        last = (len(message) - 1) // MSS
        for number in range(last + 1):
            payload = message[number * MSS : (number + 1) * MSS]
            self.add(
                direction, ACK | (PSH if number == last else 0), payload, 0 if number else correlation_at
            )
            if number % 2 and number != last:
                self.add(1 - direction, ACK)
        if last:
            self.add(1 - direction, ACK)


class Writer:
    """Writes templates, each time for one connection."""

    def __init__(self, out: BinaryIO, connections: int) -> None:
        self.out = out
        self.written = out.write(PCAP_HEADER)
        self.time_us = 0
        self.ident = 0
        self.correlation_id = 0
        self.numbers = [list(FIRST_NUMBERS) for _ in range(connections)]

    def write(self, template: Template, connection: int) -> None:
        set_time = struct.Struct("<II").pack_into
        set_tcp = struct.Struct(">HHII").pack_into
        set_id = struct.Struct(">H").pack_into
        set_correlation = struct.Struct(">i").pack_into
        buffer, numbers = template.buffer, self.numbers[connection]
        ports = (FIRST_PORT + connection, BROKER_PORT)
        time_us, ident, correlation_id = self.time_us, self.ident, self.correlation_id
        for at, direction, length, correlation_at in template.places:
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
        self.time_us, self.ident, self.correlation_id = time_us, ident, correlation_id
        self.written += self.out.write(buffer)


def generate(profile: str, size: int, out: BinaryIO) -> int:
    """Write a capture of about `size` bytes; returns how many exchanges it holds."""
    talk, connections = PROFILES[profile]
    opening, work, closing = Template(), Template(), Template()
    opening.add(CLIENT, SYN)
    opening.add(BROKER, SYN | ACK)
    opening.add(CLIENT, ACK)
    messages = talk()
    for direction, message in messages:
        work.send(direction, message)
    closing.add(CLIENT, FIN | ACK)
    closing.add(BROKER, FIN | ACK)
    closing.add(CLIENT, ACK)
    writer = Writer(out, connections)
    for connection in range(connections):
        writer.write(opening, connection)
    rounds = 0
    end = size - connections * len(closing.buffer)
    while writer.written < end:
        writer.write(work, rounds % connections)
        rounds += 1
    for connection in range(connections):
        writer.write(closing, connection)
    return rounds * len(messages) // 2


def read_size(text: str) -> int:
    """`64MiB` as a number of bytes."""
    match = re.fullmatch(r"(\d+)(|KiB|MiB|GiB)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"not a size: {text}")
    return int(match[1]) * UNITS[match[2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("profile", choices=PROFILES)
    parser.add_argument("--size", type=read_size, default="64MiB")
    parser.add_argument("-o", "--output", type=Path, required=True)
    values = parser.parse_args()
    with open(values.output, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        exchanges = generate(values.profile, values.size, out)
    print(
        f"{values.output}: {values.output.stat().st_size:,} bytes, {exchanges:,} exchanges", file=sys.stderr
    )


if __name__ == "__main__":
    main()
