"""What the stages hand each other: plain data, no behaviour beyond what names it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kinspect.errors import shortened

# A frame reference is one int: the index of the input file above, the frame number (from 1, as Wireshark
# counts) below. Integers compare and travel faster than objects; `Inspector` turns them into names.
FRAME_BITS = 40
FRAME_MASK = (1 << FRAME_BITS) - 1

# TCP header flags (RFC 9293 §3.1).
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10

# A packet that comes again within this time as it was is a copy that the capture made, not another sending.
COPY_NS = 10_000_000

# One part in so many of `Caps.total_bytes` is for what waits behind holes.
BEHIND_HOLES = 4

REQUEST, RESPONSE = "request", "response"

# The closed list of problem codes; docs/output.md explains each.
PROBLEM_CODES = frozenset(
    {
        "cap",
        "conflict",
        "crc_mismatch",
        "decompression",
        "gap",
        "invalid_utf8",
        "malformed",
        "malformed_records",
        "negative_latency",
        "out_of_order",
        "trailing_bytes",
        "truncated_capture",
        "uncertain_pairing",
        "unknown_api",
        "unknown_version",
    }
)


class Block:
    """A run of packets of one input file: one buffer and where each packet lies in it.

    All lists have one entry a packet. `data[starts[i]:ends[i]]` are the captured bytes (a frame check
    sequence, where the link type announces one, already cut off), `wire_lengths[i]` how many bytes the packet
    had on the wire, `times[i]` nanoseconds since the epoch or None (pcapng simple packets),
    `link_types[i]` the LINKTYPE_ value. The packets' frame references are `first_frame`, `first_frame + 1`, ...
    """

    __slots__ = ("data", "ends", "first_frame", "link_types", "starts", "times", "wire_lengths")

    def __init__(
        self,
        data: bytes,
        first_frame: int,
        times: list[int | None],
        starts: list[int],
        ends: list[int],
        wire_lengths: list[int],
        link_types: list[int],
    ) -> None:
        self.data = data
        self.first_frame = first_frame
        self.times = times
        self.starts = starts
        self.ends = ends
        self.wire_lengths = wire_lengths
        self.link_types = link_types

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def first_time(self) -> int | None:
        """The time of the first packet that has one."""
        return next((time for time in self.times if time is not None), None)

    @property
    def last_time(self) -> int | None:
        """The time of the last packet that has one."""
        return next((time for time in reversed(self.times) if time is not None), None)


class Segment(NamedTuple):
    """One TCP segment of a block; a row, made once a packet, mostly as a plain tuple in this order.

    `key`: source address, destination address, source port, destination port as they stand in the packet
    (12 bytes for IPv4, 36 for IPv6), then their scope: 5 bytes for each of the innermost four tunnels that
    have a number (the kind and the number), and 3 bytes for the innermost two VLAN ids if there is any.
    `data[start:end]` is the captured payload, `missing` how many payload bytes followed on the wire but were
    cut by the snap length. `frame` is a frame reference. `mark` tells one sending of a packet from the next:
    its upper 32 bits are equal in copies of a packet (IPv4: identification and fragment field, IPv6: a
    checksum of the TCP header), bits 24 to 31 are the time to live.
    """

    key: bytes
    time: int | None
    seq: int
    ack: int
    flags: int
    data: bytes
    start: int
    end: int
    missing: int
    frame: int
    mark: int = 0


@dataclass(slots=True, frozen=True)
class Problem:
    """Damage, as data. `offset` and `bytes` count within the message (`side`), `path` names the field."""

    side: str | None
    code: str
    message: str
    offset: int | None = None
    bytes: int | None = None
    path: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "side": self.side,
            "code": self.code,
            "offset": self.offset,
            "bytes": self.bytes,
            "path": self.path,
            "message": shortened(self.message),
        }


class Progress:
    """How far a run has come: the place of the packet that is looked at, among those with a TCP segment."""

    __slots__ = ("place",)

    def __init__(self) -> None:
        self.place = 0


@dataclass(slots=True)
class Caps:
    """The stated limits on memory; each hit is counted and reported, never silent."""

    message_bytes: int = 128 * 1024 * 1024
    """A longer message is skipped by its length: header kept, body not decoded."""
    buffered_bytes: int = 16 * 1024 * 1024
    """Bytes that wait in one direction of a connection behind a hole."""
    buffered_segments: int = 4096
    """Segments that wait in one direction of a connection behind a hole."""
    total_bytes: int = 64 * 1024 * 1024
    """Bytes held over all connections: a quarter of it behind holes, the rest in unfinished messages, requests in
    flight and lines that wait for their order. The oldest gives way; the newest may exceed it, up to
    `message_bytes`."""
    in_flight: int = 10_000
    """Requests without a response on one connection."""
    connections: int = 30_000
    """Connections tracked at once; the longest silent one gives way."""
    body_bytes: int = 112 * 1024 * 1024
    """Memory that the decoded body of one message may take, estimated from its counts."""
    records_bytes: int = 48 * 1024 * 1024
    """Bytes that the compressed record batches of one exchange may expand to."""
    records: int = 80_000
    """Records and their headers kept of one exchange, and batches."""
    idle_timeout_ns: int = 600 * 1_000_000_000
    """Capture time without a packet after which a connection is flushed."""
    fragment_bytes: int = 16 * 1024 * 1024
    """Bytes of IP fragments whose packet is not complete, or was not long ago; the oldest packet gives way."""
    fragments: int = 4096
    """Packets of which some IP fragments wait for others; as many complete ones are remembered."""
    fragment_ns: int = 30 * 1_000_000_000
    """A packet whose next fragment comes so much later than its last one is given up."""
    reorder_packets: int = 32
    """Packets of a connection after which a hole the peer acknowledged beyond is taken for lost."""
    reorder_ns: int = 1_000_000_000
    """Capture time after which such a hole is taken for lost."""
    skew_ns: int = 100_000_000
    """How far the clocks of two capture points may differ, one for each direction of a connection."""


@dataclass(slots=True)
class Counts:
    """What the summary adds up over a run."""

    packets: int = 0
    bytes: int = 0
    tcp_segments: int = 0
    payload_bytes: int = 0
    """Captured payload of the segments: what the books add up to."""
    undecoded_packets: dict[str, int] = field(default_factory=dict)
    """Packets that carry no TCP segment, by the reason (`arp`, `udp`, `fragment incomplete`, `truncated`, ...)."""
    fragments: int = 0
    """IP fragments that others completed to a packet; the last one counts as that packet."""
    overlapping_fragments: int = 0
    """IP fragments that came with bytes which were there already."""
    retransmitted_bytes: int = 0
    """Bytes of the streams that came again, those that the snap length cut among them."""
    repeated_bytes: int = 0
    """Captured payload that came again as it was: copies of packets, and retransmissions."""
    ignored_bytes: int = 0
    """Captured payload behind the end of a connection, before its begin, or of packets that fit none."""
    conflicting_bytes: int = 0
    """Bytes that came again with another value; the first one holds."""
    duplicate_packets: int = 0
    """Copies of a packet, as mirror ports and captures on several interfaces make them."""
    late_packets: int = 0
    """Packets that came behind the run's clock: what they belong to may have been given up too early."""
    kernel_drops: int | None = None
    queue_drops: int | None = None
    """Packets of a live capture that were not decoded, since they came faster."""
    captured_packets: int | None = None
    """Packets of a live capture: those decoded, `queue_drops` and `left_packets`."""
    saved_packets: int | None = None
    """Those of them that went into files whole; None if none were to."""
    left_packets: int | None = None
    """Those of them that were not decoded since the run ended first."""
    caps_hit: dict[str, int] = field(default_factory=dict)

    def hit(self, cap: str) -> None:
        self.caps_hit[cap] = self.caps_hit.get(cap, 0) + 1

    def hits_since(self, before: dict[str, int]) -> dict[str, int]:
        """How often caps were hit beyond `before`, a copy of `caps_hit` or a part of it."""
        return {cap: more for cap, hits in self.caps_hit.items() if (more := hits - before.get(cap, 0))}

    def undecoded(self, reason: str, packets: int = 1) -> None:
        self.undecoded_packets[reason] = self.undecoded_packets.get(reason, 0) + packets
