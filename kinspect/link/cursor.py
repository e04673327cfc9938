"""State of the walk through one packet's headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

STOP: Final = -1

# Codes of layers: a number of one of these registries, added to its base.
ETHERTYPE: Final = 0x10000
IP_PROTOCOL: Final = 0x20000
UDP_PORT: Final = 0x30000
LINK_TYPE: Final = 0x40000
PPP: Final = 0x50000

# Most tunnels within one another; a reassembled packet counts as one more.
MAX_DEPTH: Final = 8

# A tunnel's number in a segment's key: the kind, then four bytes. The innermost four tell connections apart,
# which keeps the key of an IPv4 connection shorter than that of an IPv6 one.
NETWORKS_SIZE: Final = 4 * 5


class Assembler(Protocol):
    """A reassembler of fragments."""

    def take(self, cursor: Cursor, key: bytes, offset: int, more: bool, protocol: int, /) -> int: ...


class Cursor:
    """The packet, the position in it, and what was learned; one cursor is reused for all packets.

    `data[at:end]` is captured and not yet read. `wire_end` is where the packet ended on the wire according to the
    innermost layer that states its length: before `end` if padding follows, after it if the snap length cut the packet.
    `networks` and `vlan` are the numbers of the tunnels and VLANs around the innermost IP header; `mark` is
    `Segment.mark`. `quotes`: the protocol whose error quotes a segment, which is then found in its place.
    """

    __slots__ = (
        "ack",
        "addresses",
        "at",
        "data",
        "depth",
        "end",
        "flags",
        "fragments",
        "key",
        "mark",
        "networks",
        "quotes",
        "reason",
        "seq",
        "time",
        "vlan",
        "wire_end",
    )

    def __init__(self, fragments: Assembler) -> None:
        self.fragments = fragments
        self.reset(b"", 0, 0, 0, None)

    def reset(self, data: bytes, start: int, end: int, wire_length: int, time: int | None) -> None:
        self.data = data
        self.at = start
        self.end = end
        self.wire_end = max(start + wire_length, end)
        self.time = time
        self.depth = 0
        self.networks = b""
        self.vlan = 0
        self.addresses = b""
        self.mark = 0
        self.key = b""
        self.seq = 0
        self.ack = 0
        self.flags = 0
        self.quotes = ""
        self.reason = ""

    def stop(self, reason: str) -> int:
        """End the walk without a segment."""
        self.reason = reason
        return STOP

    def has(self, size: int) -> bool:
        """True if the next `size` bytes were captured and belong to the packet."""
        return self.at + size <= self.end and self.at + size <= self.wire_end

    def stop_short(self) -> int:
        """End the walk because a header does not fit: cut by the snap length, or malformed."""
        return self.stop("truncated" if self.wire_end > self.end else "malformed")

    def bound(self, wire_end: int) -> None:
        """Set the end of the packet as stated by a header; padding and trailers fall off."""
        self.wire_end = wire_end
        self.end = min(self.end, wire_end)

    def enter(self, code: int, network: bytes = b"") -> int:
        """Enter a tunnel; `network` is its number, if it has one. Returns `code`, or `STOP` if this is too deep.

        The VLANs outside belong to the network that carries the tunnel, and do not matter inside.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            return self.stop("nesting")
        self.vlan = 0
        self.networks = (self.networks + network)[-NETWORKS_SIZE:]
        return code


Layer: TypeAlias = Callable[[Cursor], int]
"""Reads one header at the cursor and moves behind it. Returns the code of the next layer, or `STOP`: then either the
segment is complete, or `reason` says why there is none."""
