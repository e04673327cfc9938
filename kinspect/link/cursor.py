"""Where the walk through one packet's headers stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

STOP = -1

# What a layer announces as the next one: a number of one of these registries.
ETHERTYPE = 0x10000
IP_PROTOCOL = 0x20000
UDP_PORT = 0x30000
LINK_TYPE = 0x40000
PPP = 0x50000

# So many tunnels may lie in one another; a packet put together from fragments counts as one more.
MAX_DEPTH = 8

# A tunnel's number in a segment's key: the kind, then four bytes. The innermost four tell connections apart,
# which keeps the key of an IPv4 connection shorter than that of an IPv6 one.
NETWORKS_SIZE = 4 * 5


class Assembler(Protocol):
    """What puts fragments together."""

    def take(self, cursor: Cursor, key: bytes, offset: int, more: bool, protocol: int, /) -> int: ...


class Cursor:
    """The packet, how far it was read, and what was learned; one is reused for every packet.

    `data[at:end]` is what is captured and not yet read. `wire_end` is where the innermost layer that
    states its length says the packet ended on the wire: before `end` if padding follows, behind it if the
    snap length cut the packet. `networks` and `vlan` are the numbers of the tunnels and VLANs around the
    innermost IP header; `mark` is `Segment.mark`.
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
        self.reason = ""

    def stop(self, reason: str) -> int:
        """Ends the walk without a segment."""
        self.reason = reason
        return STOP

    def has(self, size: int) -> bool:
        """Whether `size` bytes from here on were captured and belong to the packet."""
        return self.at + size <= self.end and self.at + size <= self.wire_end

    def stop_short(self) -> int:
        """Ends the walk because a header does not fit: cut by the snap length, or wrong."""
        return self.stop("truncated" if self.wire_end > self.end else "malformed")

    def bound(self, wire_end: int) -> None:
        """Takes over the end of the packet as a header states it; padding and trailers fall off."""
        self.wire_end = wire_end
        self.end = min(self.end, wire_end)

    def enter(self, code: int, network: bytes = b"") -> int:
        """Goes into a tunnel, whose number is `network` if it has one. Out: `code`, or `STOP` if this is too deep.

        The VLANs outside belong to the network that carries the tunnel and say nothing of what is inside.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            return self.stop("nesting")
        self.vlan = 0
        self.networks = (self.networks + network)[-NETWORKS_SIZE:]
        return code


Layer: TypeAlias = Callable[[Cursor], int]
"""Reads one header at the cursor and moves behind it. Returns the code of what follows, or `STOP`: either the
segment is complete, or `reason` says why there is none."""
