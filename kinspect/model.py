"""Data passed between the stages: plain values, with no behaviour beyond describing themselves."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from kinspect.errors import shortened

# A frame reference is one int: the index of the input file in the upper bits, the frame number (from 1, as Wireshark
# counts) in the lower ones. Integers are faster than objects to compare and to send.
FRAME_BITS: Final = 40
FRAME_MASK: Final = (1 << FRAME_BITS) - 1

# TCP header flags (RFC 9293 §3.1).
FIN: Final = 0x01
SYN: Final = 0x02
RST: Final = 0x04
ACK: Final = 0x10

QUOTED: Final = 0x100
"""Flag of a segment that is none: an ICMP error about one. It has the quoted segment's key and sequence number, no
payload, the MTU as its acknowledgment, and beside the flag a place in `ICMP_ERRORS`."""
ICMP_ERRORS: Final = """
    network_unreachable host_unreachable protocol_unreachable port_unreachable packets_too_large source_route_failed
    network_unknown host_unknown network_prohibited host_prohibited prohibited beyond_scope policy_failed
    route_rejected hop_limit_exceeded
""".split()

NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000
NS_PER_SECOND: Final = 1_000_000_000
NS_PER_DAY: Final = 86_400 * 1_000_000_000

# A packet that comes again unchanged within this time is a copy made by the capture, not a retransmission.
COPY_NS: Final = 10_000_000

SKEW_NS: Final = 100_000_000
"""`Caps.skew_ns`, if nothing else is asked for."""

# Divisor of `Caps.total_bytes`: the share of bytes that wait behind gaps.
BEHIND_GAPS: Final = 4

NAME_MOST: Final = 320
"""Characters of a host's name: a Kubernetes namespace and a pod have 317 at most."""

REQUEST: Final = "request"
RESPONSE: Final = "response"

# The closed list of problem codes; docs/output.md explains each.
PROBLEM_CODES: Final = frozenset(
    """
    cap conflict crc_mismatch decompression gap invalid_utf8 malformed malformed_records negative_latency
    out_of_order trailing_bytes truncated_capture uncertain_pairing unknown_api unknown_version unsure_layout
    """.split()
)


class PacketNote(NamedTuple):
    """What comments of the packet number `packet` of a block (from 0) tell of its sender, or its receiver if it is
    `inbound`: the name of what sent it, and the process."""

    packet: int
    inbound: bool
    name: str | None
    process: str | None


class Block:
    """A run of packets of one input file: one buffer and the position of each packet in it.

    All lists have one entry per packet. `data[starts[i]:ends[i]]` are the captured bytes (a frame check sequence, where
    the link type announces one, already cut off), `wire_lengths[i]` is the packet's length on the wire in bytes,
    `times[i]` nanoseconds since the epoch or None (pcapng simple packets), `link_types[i]` the LINKTYPE_ value. The
    packets' frame references are `first_frame`, `first_frame + 1`, ... `names`: names of addresses that stand before
    a packet: its index, the address, the name. `notes`: what comments of a packet tell.
    """

    __slots__ = (
        "data",
        "ends",
        "first_frame",
        "link_types",
        "names",
        "notes",
        "starts",
        "times",
        "wire_lengths",
    )

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
        self.names: Sequence[tuple[int, bytes, str]] = ()
        self.notes: Sequence[PacketNote] = ()

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def first_time(self) -> int | None:
        """Time of the first packet that has one."""
        return next((time for time in self.times if time is not None), None)

    @property
    def last_time(self) -> int | None:
        """Time of the last packet that has one."""
        return next((time for time in reversed(self.times) if time is not None), None)


class Segment(NamedTuple):
    """One TCP segment of a block; a row, created once per packet, mostly as a plain tuple in this order.

    `key`: source address, destination address, source port, destination port as they stand in the packet (12 bytes for
    IPv4, 36 for IPv6), then their scope: 5 bytes for each of the innermost four tunnels that have a number (the kind
    and the number), and 3 bytes for the innermost two VLAN ids if there is any. `data[start:end]` is the captured
    payload, `missing` the number of payload bytes after it that the snap length cut off. `frame` is a frame reference.
    `mark` distinguishes transmissions of a packet: its upper 32 bits are equal in copies of a packet (IPv4:
    identification and fragment field, IPv6: a checksum of the TCP header); its upper 16 bits are 0 if nothing
    distinguishes transmissions. Bits 24 to 31 are the time to live.
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


class IcmpError(NamedTuple):
    """An error of `ICMP_ERRORS` that quotes a connection's segments, `times` times, and the first one. `mtu`: 0 for
    none."""

    error: int
    mtu: int
    times: int
    time: int | None
    frame: int


FULL_SIZED: Final = 1_000
"""Bytes from which on a segment counts as full-sized: IPv6 carries 1,220 of them anywhere."""


class Unacknowledged(NamedTuple):
    """The segment that a direction sent `times` times to the end, and that was never acknowledged. `silence`: for how
    long the other side had sent nothing when it was first sent, in nanoseconds. `full_sized`: whether a segment of at
    least `FULL_SIZED` bytes was acknowledged before; None if not all of them were seen."""

    direction: int
    size: int
    times: int
    silence: int
    full_sized: bool | None


class Evidence(NamedTuple):
    """What a connection's packets tell of why it failed, beside its bytes. `syns`: how often it was asked for;
    `refused`: whether a reset answered that (both None if its beginning was not seen). `ended_by`: the direction of the
    first FIN, or of the reset, and for how many nanoseconds it had sent nothing before; None if there was none, or no
    time. `frames`: its first and last packet."""

    syns: int | None
    refused: bool | None
    errors: tuple[IcmpError, ...]
    ended_by: int | None
    silence: int | None
    unacknowledged: Unacknowledged | None
    frames: tuple[int, int]


NO_EVIDENCE: Final = Evidence(None, None, (), None, None, None, (0, 0))


class Problem(NamedTuple):
    """Damage, as data. `side`: `request`, `response`, or None for the exchange; `code`: one of `PROBLEM_CODES`;
    `offset`, `bytes`: place and size within the message of that side; `path`: dotted path of the field."""

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


def _not_known(frame: int) -> str | None:
    return None


class Origin(NamedTuple):
    """Where packets come from: the name of the host that captures them, and a function that gives the interface of a
    frame reference. None stands for what is not known, as in captures that are read."""

    host: str | None = None
    interface: Callable[[int], str | None] = _not_known


NOWHERE: Final = Origin()


class Progress:
    """Progress of a run: the index of the current packet among those with a TCP segment."""

    __slots__ = ("place",)

    def __init__(self) -> None:
        self.place = 0


@dataclass(slots=True)
class Caps:
    """Limits on memory, and waiting times. A limit that is reached is counted in `Counts.caps_hit`.

    Sizes are in bytes, times in nanoseconds of the capture; docs/security.md explains the limits.
    """

    message_bytes: int = 128 * 1024 * 1024
    """Size limit of a message; a longer one is skipped by its length: header kept, body not decoded."""
    buffered_bytes: int = 16 * 1024 * 1024
    """Bytes that wait behind a gap in one direction of a connection."""
    buffered_segments: int = 4096
    """Segments that wait behind a gap in one direction of a connection."""
    total_bytes: int = 64 * 1024 * 1024
    """Bytes held over all connections: a quarter of them behind gaps, the rest in unfinished messages, requests in
    flight and lines that wait for their order. The oldest are dropped first; the newest may exceed the limit, up to
    `message_bytes`."""
    in_flight: int = 10_000
    """Requests without a response on one connection."""
    connections: int = 30_000
    """Connections tracked at once; beyond that the one silent for longest is closed."""
    body_bytes: int = 112 * 1024 * 1024
    """Memory that the decoded body of one message may take, estimated from its counts."""
    records_bytes: int = 48 * 1024 * 1024
    """Size in bytes that the compressed record batches of one exchange may expand to."""
    records: int = 80_000
    """Records and their headers, and batches, kept per exchange."""
    idle_timeout_ns: int = 600 * NS_PER_SECOND
    """Capture time without a packet after which a connection is flushed."""
    fragment_bytes: int = 16 * 1024 * 1024
    """Bytes of IP fragments whose packet is incomplete or was completed recently; the oldest packet is dropped."""
    fragments: int = 4096
    """Packets of which some IP fragments wait for others; as many complete ones are remembered."""
    fragment_ns: int = 30 * NS_PER_SECOND
    """Time between two fragments of a packet after which the packet is given up."""
    reorder_packets: int = 32
    """Packets of a connection after which a gap that the peer acknowledged is considered lost."""
    reorder_ns: int = 1_000_000_000
    """Capture time after which such a gap is considered lost."""
    skew_ns: int = SKEW_NS
    """Greatest clock difference between two capture points: files, or the directions of a connection."""


LIMITS: Final = """
    message_bytes buffered_bytes buffered_segments total_bytes in_flight connections body_bytes records_bytes
    records fragment_bytes fragments held_lines ended_connections traced_packets stray_packets
    waiting_decryptors fetch_sessions
""".split()
"""Names of limits in `Counts.caps_hit`: those of `Caps` on what is held, and those without an option."""


@dataclass(slots=True, repr=False)
class Counts:
    """Totals of a run, for the summary."""

    packets: int = 0
    bytes: int = 0
    tcp_segments: int = 0
    payload_bytes: int = 0
    """Captured payload of the segments: the sum that the books add up to."""
    undecoded_packets: dict[str, int] = field(default_factory=dict)
    """Packets that carry no TCP segment, by the reason (`arp`, `udp`, `fragment incomplete`, `truncated`, ...)."""
    fragments: int = 0
    """IP fragments that others completed to a packet; the last one counts as that packet."""
    overlapping_fragments: int = 0
    """IP fragments with bytes that were there already."""
    retransmitted_bytes: int = 0
    """Bytes of the streams that came again, including those that the snap length cut off."""
    repeated_bytes: int = 0
    """Captured payload that came again unchanged: copies of packets, and retransmissions."""
    ignored_bytes: int = 0
    """Captured payload after the end of a connection, before its beginning, or of packets that fit none."""
    conflicting_bytes: int = 0
    """Bytes that came again with another value; the first one is kept."""
    uncompared_bytes: int = 0
    """Bytes that came again and were not compared: those that came first were no longer kept."""
    duplicate_packets: int = 0
    """Copies of a packet, as made by mirror ports and captures on several interfaces."""
    late_packets: int = 0
    """Packets behind the run's clock: their connections may have been given up too early."""
    kernel_drops: int | None = None
    queue_drops: int | None = None
    """Packets of a live capture that were not decoded, since they came too fast."""
    interface_losses: int | None = None
    """How often an interface of a live capture went away: its packets meanwhile are missing."""
    captured_packets: int | None = None
    """Packets of a live capture: those decoded, `queue_drops` and `left_packets`."""
    saved_packets: int | None = None
    """Captured packets that were written whole into files; None if nothing is saved."""
    left_packets: int | None = None
    """Captured packets that were not decoded because the run ended first."""
    clock_offsets: list[dict[str, Any]] | None = None
    """Offsets of the captures' clocks, as in the summary; None for one capture, and live."""
    stepped_connections: int = 0
    """How often a connection went on after the capture's clock was set forward by more than the idle timeout."""
    stepped_ms: int = 0
    """Sum of those steps, in milliseconds."""
    caps_hit: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The counts without those that are None, as arguments of `Counts`."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def hit(self, cap: str) -> None:
        self.caps_hit[cap] = self.caps_hit.get(cap, 0) + 1

    def undecoded(self, reason: str, packets: int = 1) -> None:
        self.undecoded_packets[reason] = self.undecoded_packets.get(reason, 0) + packets


def added(total: dict[Any, Any], part: dict[Any, Any]) -> dict[Any, Any]:
    """Sum of two dicts of numbers, key by key, also of the dicts in them. Keys are any: ends, names, ids."""
    found = dict(total)
    for key, value in part.items():
        if isinstance(value, dict):
            found[key] = added(found.get(key, {}), value)
        else:
            found[key] = found.get(key, 0) + value
    return found


def drop_oldest(kept: dict[Any, Any], most: int) -> bool:
    """Delete the first of more than `most` entries; true if there were so many."""
    if len(kept) <= most:
        return False
    del kept[next(iter(kept))]
    return True
