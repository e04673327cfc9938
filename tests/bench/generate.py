"""Make a capture of any size: real Kafka messages, many connections, segments as an Ethernet cuts them.

    python tests/bench/generate.py bulk -o bulk.pcap
    python tests/bench/generate.py chatty --size 64MiB --connections 10 -o chatty.pcap
    python tests/bench/generate.py chatty --begun 1600 -o middle.pcap

`bulk` is what producers and consumers move: records of 200 bytes, half of them in lz4; `chatty` what they say between,
a message a packet; both in versions that tshark 4.0 decodes to the last field. `mixed` is what clients of four releases
say: sixteen APIs, errors, long polls, requests in flight. `tls` is records in TLS 1.2 and 1.3, of two releases, the
secrets in the capture. tshark decodes half of the clients of both: those of Kafka 2.4 and before.

`--begun` leaves the beginnings of the connections out: no SYN, clients that acknowledge what came before their last
packet alone, as at the broker's side of a wire, and packets at that many megabits a second.

What each connection says in a round is encoded once (`profiles.py`, `messages.py`); every repetition has its own time,
port, sequence numbers, correlation ids and offsets. The same arguments give the same bytes, but for the keys of TLS.
`--told` also writes how many packets, messages and records there are.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import struct
import sys
from collections import Counter, deque
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple

from messages import BROKER, CLIENT, Said
from profiles import PROFILES
from secure import Ends, Peers

MSS = 1448  # of an Ethernet, less the TCP timestamps
CORRELATION_AT = (8, 4)
DIRECTIONS = ("request", "response")
CLIENT_IP, BROKER_IP = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 9))
FIRST_PORT, BROKER_PORT, TLS_PORT = 10_000, 9092, 9093
FIN, SYN, PSH, ACK = 0x01, 0x02, 0x08, 0x10
START_S, STEP_US = 1_700_000_000, 10
MASK = 0xFFFFFFFF
FIRST_NUMBERS = (1_000, 4_000_000_000)
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
RECORD_SIZE, ETHERNET_SIZE = 16, 14
FRAME = struct.Struct(">14sBBHHHBBH4s4sHHIIBBHHH12s")
"""Headers of Ethernet, IP, and TCP with timestamps."""
ETHERNET, TIMESTAMPS = b"\x02\0\0\0\0\1\x02\0\0\0\0\2\x08\0", b"\1\1\x08\x0a" + bytes(8)
EMPTY = 3 * (RECORD_SIZE + FRAME.size)
"""Bytes of the packets that close a connection."""


def pcap_record(time_us: int, frame: bytes) -> bytes:
    seconds, microseconds = divmod(time_us, 1_000_000)
    return struct.pack("<IIII", seconds, microseconds, len(frame), len(frame)) + frame


def pcapng_block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def pcapng_header(secrets: bytes) -> bytes:
    """Section, interface, and the secrets of TLS as a key log."""
    log = struct.pack("<II", 0x544C534B, len(secrets)) + secrets + bytes(-len(secrets) % 4)
    return (
        pcapng_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
        + pcapng_block(1, struct.pack("<HHI", 1, 0, 262_144))
        + pcapng_block(10, log)
    )


def pcapng_record(time_us: int, frame: bytes) -> bytes:
    head = struct.pack("<IIIII", 0, time_us >> 32, time_us & MASK, len(frame), len(frame))
    return pcapng_block(6, head + frame + bytes(-len(frame) % 4))


class Told(NamedTuple):
    """Contents of a capture; `messages` by API key and direction, as `0 request`; `correlation_ids`: their sum."""

    packets: int
    messages: dict[str, int]
    correlation_ids: int
    partitions: int
    records: int


class Writer:
    """Writes the packets of connections, and counts what is in them."""

    def __init__(self, out: BinaryIO, connections: int, tls: bool, begun: int | None) -> None:
        self.out = out
        self.record = pcapng_record if tls else pcap_record
        self.port = TLS_PORT if tls else BROKER_PORT
        peers = Peers() if tls else None
        self.ends = peers and [Ends(peers, connection) for connection in range(connections)]
        self.begun = begun
        self.written = out.write(pcapng_header(peers.secrets()) if peers else PCAP_HEADER)
        self.packets = 0
        self.time_us = START_S * 1_000_000
        self.sent_bits = 0
        self.correlation_id = 0
        self.asked: list[deque[int]] = [deque() for _ in range(connections)]
        self.numbers = [list(FIRST_NUMBERS) for _ in range(connections)]
        # What each side acknowledges next.
        self.acks = [[*FIRST_NUMBERS[::-1]] for _ in range(connections)]
        self.messages: Counter[str] = Counter()
        self.partitions = self.records = 0

    def open(self, connection: int) -> None:
        if self.begun:
            return
        for direction, flags in ((CLIENT, SYN), (BROKER, SYN | ACK), (CLIENT, ACK)):
            self.packet(connection, direction, flags)
        if self.ends:
            for direction, data in self.ends[connection].handshake:
                self.send(connection, direction, data)

    def close(self, connection: int) -> None:
        for direction, flags in ((CLIENT, FIN | ACK), (BROKER, FIN | ACK), (CLIENT, ACK)):
            self.packet(connection, direction, flags)

    def say(self, connection: int, said: Said) -> None:
        """A message, with its correlation id and offset."""
        direction, key, template, offset_at, partitions, records = said
        if direction == CLIENT:
            self.correlation_id += 1
            self.asked[connection].append(self.correlation_id)
            correlation_id = self.correlation_id
        else:
            correlation_id = self.asked[connection].popleft()
        data = bytearray(template)
        struct.pack_into(">i", data, CORRELATION_AT[direction], correlation_id & 0x7FFFFFFF)
        if offset_at >= 0:
            struct.pack_into(">q", data, offset_at, correlation_id)
        self.send(connection, direction, self.ends[connection].seal(direction, data) if self.ends else data)
        self.messages[f"{key} {DIRECTIONS[direction]}"] += 1
        self.partitions += partitions
        self.records += records

    def send(self, connection: int, direction: int, data: bytes | bytearray) -> None:
        """Bytes of a stream in segments."""
        for start in range(0, len(data), MSS):
            last = start + MSS >= len(data)
            self.packet(connection, direction, ACK | (PSH if last else 0), data[start : start + MSS])

    def packet(self, connection: int, direction: int, flags: int, payload: bytes | bytearray = b"") -> None:
        ends = ((CLIENT_IP, FIRST_PORT + connection), (BROKER_IP, self.port))
        (source, source_port), (target, target_port) = ends[direction], ends[1 - direction]
        numbers, acks = self.numbers[connection], self.acks[connection]
        if self.begun:
            self.sent_bits += 8 * (FRAME.size + len(payload))
            self.time_us = START_S * 1_000_000 + self.sent_bits // self.begun
            ack = acks[direction] if direction == CLIENT else numbers[CLIENT]
        else:
            self.time_us += STEP_US
            ack = numbers[1 - direction]
        acks[direction] = numbers[1 - direction]
        self.packets += 1
        head = FRAME.pack(
            ETHERNET,
            0x45, 0, FRAME.size - ETHERNET_SIZE + len(payload), self.packets & 0xFFFF, 0x4000, 64, 6, 0, source, target,
            source_port, target_port, numbers[direction], ack, 8 << 4, flags, 65535, 0, 0,
            TIMESTAMPS,
        )  # fmt: skip
        numbers[direction] = (numbers[direction] + len(payload) + bool(flags & (SYN | FIN))) & MASK
        self.written += self.out.write(self.record(self.time_us, head + payload))

    def told(self) -> Told:
        # Correlation ids count from 1, and each is in a request and in its response.
        ids = self.correlation_id * (self.correlation_id + 1)
        return Told(self.packets, dict(self.messages), ids, self.partitions, self.records)


def generate(
    profile: str,
    out: BinaryIO,
    size: int | None = None,
    times: int = 1,
    connections: int | None = None,
    begun: int | None = None,
) -> Told:
    """Write a capture of about `size` bytes, in whole rounds, or of `times` as many rounds; returns its contents.

    `begun`: it begins in the middle of its connections, at so many megabits a second.
    """
    of = PROFILES[profile]
    connections, size = connections or of.connections, size or of.size
    talks = [of.talk(connection) for connection in range(connections)]
    groups = [range(connections)[at : at + of.beside] for at in range(0, connections, of.beside)]
    writer = Writer(out, connections, of.tls, begun)

    def talk(round_number: int) -> None:
        group = groups[round_number % len(groups)]
        for turns in zip_longest(*(talks[connection] for connection in group), fillvalue=()):
            for connection, turn in zip(group, turns, strict=True):
                for said in turn:
                    writer.say(connection, said)
            writer.time_us += of.pause_us

    for connection in range(connections):
        writer.open(connection)
    rounds = 0
    while writer.written + connections * EMPTY < size:
        talk(rounds)
        rounds += 1
    for number in range(rounds, rounds * times):
        talk(number)
    for connection in range(connections):
        writer.close(connection)
    return writer.told()


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
    parser.add_argument("--begun", type=int, metavar="MBIT")
    parser.add_argument("--told", type=Path, help="JSON of what it holds")
    parser.add_argument("-o", "--output", type=Path, required=True)
    values = parser.parse_args()
    with open(values.output, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        told = generate(values.profile, out, values.size, values.times, values.connections, values.begun)
    if values.told:
        values.told.write_text(json.dumps(told._asdict()))
    print(
        f"{values.output}: {values.output.stat().st_size:,} bytes, {told.packets:,} packets, "
        f"{sum(told.messages.values()):,} messages, {told.records:,} records",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
