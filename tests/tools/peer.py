"""Another program's reading of a capture: tshark's frames, as text fields, and which captures it is asked about."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import pytest
from support.manifest import Row, load

from kinspect import link
from kinspect.capture import open_timeline
from kinspect.model import FRAME_MASK, Counts, Segment

CAPTURES = Path(__file__).parents[2] / "captures"

NEEDED = "tshark is not on PATH: install it with `apt-get install tshark` (Debian, Ubuntu) or `brew install wireshark`"
FRAME_FIELDS = (
    "frame.number", "frame.time_epoch", "ip.src", "ipv6.src", "ip.dst", "ipv6.dst", "communityid",
)  # fmt: skip
TCP_FIELDS = (
    "tcp.stream", "tcp.srcport", "tcp.dstport", "tcp.len", "tcp.seq", "tcp.seq_raw", "tcp.ack_raw", "tcp.flags",
    "tcp.segment",
)  # fmt: skip
KAFKA_FIELDS = (
    "kafka.len", "kafka.api_key", "kafka.api_version", "kafka.correlation_id", "kafka.client_id",
    "kafka.request_frame",
)  # fmt: skip
FIELDS = FRAME_FIELDS + TCP_FIELDS + KAFKA_FIELDS
SEPARATOR = "\x1f"

Address = tuple[str, int]


def tshark() -> str:
    """The program's path; without it the test fails, for a comparison that was not made is no success."""
    path = shutil.which("tshark")
    if path is None:
        pytest.fail(NEEDED, pytrace=False)
    return path


@dataclass(frozen=True)
class Frame:
    """One frame that carries TCP. Several layers or Kafka messages in it give several values of a field."""

    fields: dict[str, str]

    def all(self, name: str) -> list[str]:
        text = self.fields[name]
        return text.split(SEPARATOR) if text else []

    def text(self, name: str) -> str:
        """The value in the outermost layer, empty if there is none."""
        return self.fields[name].split(SEPARATOR, 1)[0]

    def integer(self, name: str) -> int:
        return int(self.text(name) or "0", 0)

    @cached_property
    def number(self) -> int:
        return self.integer("frame.number")

    @property
    def time(self) -> int | None:
        """Nanoseconds since the epoch."""
        text = self.text("frame.time_epoch")
        return int(text.replace(".", "")) if text else None

    @property
    def source(self) -> tuple[str, int]:
        return self.text("ip.src") or self.text("ipv6.src"), self.integer("tcp.srcport")

    @property
    def destination(self) -> tuple[str, int]:
        return self.text("ip.dst") or self.text("ipv6.dst"), self.integer("tcp.dstport")


def frames(path: Path, kafka_ports: frozenset[int]) -> list[Frame]:
    """tshark's frames with TCP, without ICMP that quotes it; the two passes tell it where segmented messages end."""
    command = [tshark(), "-r", str(path), "-2", "--enable-protocol", "communityid"]
    # Otherwise a segment out of order loses the message it belongs to.
    command += ["-o", "tcp.reassemble_out_of_order:TRUE", "-Y", "tcp && !icmp && !icmpv6"]
    command += ["-T", "fields"]
    command += [f"-Eaggregator={SEPARATOR}"]
    for port in sorted(kafka_ports):
        command += ["-d", f"tcp.port=={port},kafka"]
    for name in FIELDS:
        command += ["-e", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "cut short in the middle of a packet" not in done.stderr:
        pytest.fail(f"tshark cannot read {path}: {done.stderr.strip().splitlines()[-1]}", pytrace=False)
    return [Frame(dict(zip(FIELDS, line.split("\t"), strict=True))) for line in done.stdout.splitlines()]


# ---------------------------------------------------------------------- packets


class Packet(NamedTuple):
    time: int | None
    source: Address
    destination: Address
    payload: int
    seq: int
    ack: int
    flags: int


def address(ip: bytes, port: int) -> Address:
    return str(ip_address(ip)), port


def our_packet(segment: Segment) -> Packet:
    key = segment.key
    size = 4 if len(key) < 36 else 16
    ports = [int.from_bytes(key[at : at + 2]) for at in (2 * size, 2 * size + 2)]
    return Packet(
        segment.time,
        address(key[:size], ports[0]),
        address(key[size : 2 * size], ports[1]),
        segment.end - segment.start + segment.missing,
        segment.seq,
        segment.ack,
        segment.flags,
    )


def our_packets(path: Path) -> dict[int, Packet]:
    """kinspect's packets with TCP, by their frame numbers."""
    return {
        segment.frame & FRAME_MASK: our_packet(segment)
        for block in open_timeline([path])
        for segment in map(Segment._make, link.segments(block, Counts()))
    }


def their_packet(frame: Frame) -> Packet:
    numbers = (frame.integer(name) for name in ("tcp.len", "tcp.seq_raw", "tcp.ack_raw", "tcp.flags"))
    return Packet(frame.time, frame.source, frame.destination, *numbers)


# ---------------------------------------------------------------------- captures

NO_CAPTURE = ("not-kafka/garbage.pcap", "not-kafka/zerobytes.pcap")

COUNTED_APART = {
    "variants/twice.pcap.gz": "the same connections one after the other: tshark takes the second for retransmission",
    "4.4.0/snap96.pcap": "tshark counts the payload that was on the wire, and decodes no cut message",
}
"""Captures whose connections tshark counts in another way."""

PACKETS_MOVED = {
    "variants/loss_one.pcap.gz": "behind a lost packet tshark takes bytes within messages for their begin",
    "variants/reorder.pcap.gz": "tshark names the frame that came last, kinspect the one with the last byte",
}
"""Captures in which messages do not end where tshark says."""

COPIES = {
    "variants/dup.pcap.gz": "packets are in the capture twice",
    "variants/retrans.pcap.gz": "some retransmissions are the same packet again",
    "4.4.0/lossout.pcap.gz": "one packet is in the capture twice",
}
"""Captures in which kinspect counts the copy of a packet apart, and tshark as one more packet."""

ENCRYPTED = "tls/"
"""Captures whose messages tshark, told the port is Kafka's, does not decrypt."""


def _rank(row: Row) -> int:
    if row.file in COUNTED_APART:
        return 2
    return int(not row.is_kafka or row.file in PACKETS_MOVED or row.file.startswith(ENCRYPTED))


# In this order each list is the begin of the one before. So a capture has the same place in all of them, pytest
# runs its tests one after the other, and tshark reads it once.
PACKETS = sorted((row for row in load(CAPTURES) if row.file not in NO_CAPTURE), key=_rank)
CONNECTIONS = [row for row in PACKETS if _rank(row) < 2]
MESSAGES = [row for row in PACKETS if _rank(row) < 1]


@dataclass(frozen=True)
class Reading:
    """A capture's row in the manifest and what tshark made of it."""

    row: Row
    ports: frozenset[int]
    frames: list[Frame]


def read(row: Row) -> Reading:
    """Let tshark read a capture."""
    ports = frozenset(int(port) for port in row.ports.split(",")) if row.is_kafka else frozenset[int]()
    return Reading(row, ports, frames(row.path, ports))


def each(rows: list[Row]) -> pytest.MarkDecorator:
    """Run a test with the reading of each capture."""
    parameters = [pytest.param(row, id=row.file) for row in rows]
    return pytest.mark.parametrize("reading", parameters, indirect=True, scope="session")
