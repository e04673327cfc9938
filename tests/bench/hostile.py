"""Make a capture that means harm: what costs its maker little and a careless reader much.

    python tests/bench/hostile.py half-open -o half-open.pcap

`half-open`: 40,000 connections of which only the SYN came; `in-flight`: as many with small requests that nobody
answers; `greeted`: as many that were established, and sent the first half of a request; `announcing`: connections
whose messages announce 2 GiB, and as much as may be held, and go on for a while; `requests`: large requests that nobody
answers, on many connections; `middle`: connections seen from their middle, full of what looks like the beginning of a
request; `holes`: small segments behind holes; `bombs`: records that expand to gigabytes, zstd and gzip; `lists`:
messages that are nothing but counts, elements and tagged fields, as many as fit.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from generate import ACK, BROKER_IP, BROKER_PORT, CLIENT_IP, MSS, PCAP_HEADER, PSH, START_S, SYN
from messages import BROKER, CLIENT, Client, Part, heartbeat, produce, sized, varint
from profiles import BENCH

from kinspect.protocol.primitives import uvarint_bytes

MANY = 40_000
GIB = 1 << 30
HARMLESS = Client("bench", BENCH)
HELLO = heartbeat(HARMLESS, "bench-00000000")
NUMBERS = (1_000, 5_000)
PREFIX = struct.Struct("<IIII")
HEAD = struct.Struct(">HHIIBBHHH")


class Hostile:
    """Writes packets of connections that are numbered from 0; each has a client port and address of its own."""

    def __init__(self, out: BinaryIO) -> None:
        self.out = out
        self.time_us = 0
        self.sent: dict[int, list[int]] = {}
        out.write(PCAP_HEADER)

    def packet(self, connection: int, direction: int, flags: int, payload: bytes = b"") -> None:
        client = CLIENT_IP[:2] + (1 + connection // 60_000).to_bytes(2), 1_024 + connection % 60_000
        ends = (client, (BROKER_IP, BROKER_PORT))
        numbers = self.sent.setdefault(connection, list(NUMBERS))
        (source, source_port), (target, target_port) = ends[direction], ends[1 - direction]
        tcp = HEAD.pack(
            source_port, target_port, numbers[direction], numbers[1 - direction], 5 << 4, flags, 65535, 0, 0
        )
        size = 40 + len(payload)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, size, 0, 0x4000, 64, 6, 0) + source + target
        self.time_us += 10
        seconds, microseconds = divmod(self.time_us, 1_000_000)
        self.out.write(PREFIX.pack(START_S + seconds, microseconds, size + 14, size + 14))
        self.out.write(b"\x02\0\0\0\0\1\x02\0\0\0\0\2\x08\0" + ip + tcp + payload)
        numbers[direction] = (numbers[direction] + len(payload) + bool(flags & SYN)) & 0xFFFFFFFF

    def open(self, connection: int) -> None:
        self.packet(connection, CLIENT, SYN)
        self.packet(connection, BROKER, SYN | ACK)
        self.packet(connection, CLIENT, ACK)

    def send(self, connection: int, direction: int, data: bytes) -> None:
        for start in range(0, len(data), MSS):
            self.packet(connection, direction, ACK | PSH, data[start : start + MSS])


def half_open(to: Hostile) -> None:
    for connection in range(MANY):
        to.packet(connection, CLIENT, SYN)


def greeted(to: Hostile) -> None:
    request = HELLO[0].data
    for connection in range(MANY):
        to.open(connection)
        to.send(connection, CLIENT, request[: len(request) // 2])


def in_flight(to: Hostile) -> None:
    request = HELLO[0].data * 20
    for connection in range(MANY):
        to.open(connection)
        to.send(connection, CLIENT, request)


def announcing(to: Hostile) -> None:
    for connection in range(1_000):
        to.open(connection)
        for message in HELLO:
            to.send(connection, message.direction, message.data)
    for announced in (0x7FFFFFFF, 128 << 20):
        for connection in range(1_000):
            head = struct.pack(">ihhih", announced, 0, 7, 2, 4) + b"evil"
            to.send(connection, CLIENT, head + bytes(150_000))
            to.send(connection, BROKER, struct.pack(">ii", announced, 2) + bytes(50_000))


def requests(to: Hostile) -> None:
    message = produce(HARMLESS, [Part("orders", 0, bytes(200_000))])[0].data
    for connection in range(100):
        to.open(connection)
    for number in range(8):
        for connection in range(100):
            to.send(connection, CLIENT, message[:8] + struct.pack(">i", number) + message[12:])


def middle(to: Hostile) -> None:
    start = struct.pack(">ihhih", 1 << 20, 3, 1, 7, 4) + b"evil"
    for connection in range(20):
        to.send(connection, CLIENT, start * 100_000)
    for connection in range(20, 40):
        to.open(connection)
        to.send(connection, BROKER, b"x")
        to.send(connection, CLIENT, struct.pack(">ihhih", 100 << 20, 3, 1, 7, 4) + b"evil" + bytes(8 << 20))


def holes(to: Hostile) -> None:
    """The peer acknowledges nothing, so every hole may still be filled."""
    for connection in range(4_000):
        to.open(connection)
        for message in HELLO:
            to.send(connection, message.direction, message.data)
    for _ in range(10):
        for connection in range(4_000):
            for direction in (CLIENT, BROKER):
                to.sent[connection][direction] += 5
                to.packet(connection, direction, ACK | PSH, b"abc")


def gzip_bomb(size: int) -> bytes:
    """Zeros. Behind a full flush a mebibyte of them is packed to the same bytes each time."""
    zeros, count, check = bytes(1 << 20), size >> 20, 0
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(count):
        check = zlib.crc32(zeros, check)
    return b"\x1f\x8b\x08" + bytes(7) + packed * count + packer.flush() + struct.pack("<II", check, size)


def zstd_bomb(size: int) -> bytes:
    """A frame of blocks that each repeat one byte 128 KiB times (RFC 8878 §3.1.1.2)."""
    block = (128 << 10) << 3 | 1 << 1
    count = size >> 17
    blocks = (block.to_bytes(3, "little") + b"\0") * (count - 1) + (block | 1).to_bytes(3, "little") + b"\0"
    return struct.pack("<IBB", 0xFD2FB528, 0, 0x38) + blocks


def batch(codec: int, payload: bytes, count: int) -> bytes:
    """A record batch v2; its CRC does not fit, which nobody minds."""
    tail = struct.pack(">hiqqqhii", codec, count - 1, 0, 0, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", 0, len(tail) + 9, 0, 2, 0) + tail


def bombs(to: Hostile) -> None:
    record = b"\0\0\0\1" + varint(GIB) + b""
    payload = varint(len(record) + GIB) + record
    sets = [batch(4, zstd_bomb(4 * GIB), 1), batch(4, zstd_bomb(120 << 20), 1), batch(1, gzip_bomb(GIB), 1)]
    sets += [batch(4, zstd_bomb(60 << 20) + payload, 1_000_000), batch(1, gzip_bomb(60 << 20), 50_000_000)]
    for connection, records in enumerate(sets):
        to.open(connection)
        for _ in range(3):
            for message in produce(HARMLESS, [Part("orders", 0, records)]):
                to.send(connection, message.direction, message.data)


def tagged(count: int) -> bytes:
    """A Heartbeat v4 request with this number of unknown tagged fields."""
    body = b"\x02g" + bytes(4) + b"\x02m\0"
    return sized(struct.pack(">hhih", 12, 4, 1, 1) + b"c\0" + body + uvarint_bytes(count) + b"\x07\0" * count)


def array(count: int) -> bytes:
    """A Metadata v1 request for this number of topics without a name."""
    return sized(struct.pack(">hhih", 3, 1, 1, 1) + b"c" + struct.pack(">i", count) + bytes(2 * count))


def numbers(count: int) -> bytes:
    """An OffsetFetch v1 request for this number of partitions of a topic."""
    head = struct.pack(">hhih", 9, 1, 1, 1) + b"c" + b"\0\1g" + struct.pack(">ih", 1, 1) + b"t"
    return sized(head + struct.pack(">i", count) + b"\1\2\3\4" * count)


LISTS: tuple[Callable[[int], bytes], ...] = (tagged, array, numbers)


def lists(to: Hostile) -> None:
    for connection, make in enumerate(LISTS):
        to.open(connection)
        to.send(connection, CLIENT, make(1_000_000))


PROFILES: dict[str, Callable[[Hostile], None]] = {
    "half-open": half_open,
    "greeted": greeted,
    "in-flight": in_flight,
    "announcing": announcing,
    "requests": requests,
    "middle": middle,
    "holes": holes,
    "bombs": bombs,
    "lists": lists,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("profile", choices=PROFILES)
    parser.add_argument("-o", "--output", type=Path, required=True)
    values = parser.parse_args()
    with open(values.output, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        PROFILES[values.profile](Hostile(out))
    print(f"{values.output}: {values.output.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
