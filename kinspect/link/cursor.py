"""Where the walk through one packet's headers stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

STOP = -1

# What a layer announces as the next one: a number of one of these two registries.
ETHERTYPE = 0x10000
IP_PROTOCOL = 0x20000


class Cursor:
    """The packet, how far it was read, and what was learned; one is reused for every packet.

    `data[at:end]` is what is captured and not yet read. `wire_end` is where the innermost layer that
    states its length says the packet ended on the wire: before `end` if padding follows, behind it if the
    snap length cut the packet.
    """

    __slots__ = ("ack", "addresses", "at", "data", "end", "flags", "key", "reason", "seq", "wire_end")

    def __init__(self) -> None:
        self.reset(b"", 0, 0, 0)

    def reset(self, data: bytes, start: int, end: int, wire_length: int) -> None:
        self.data = data
        self.at = start
        self.end = end
        self.wire_end = max(start + wire_length, end)
        self.addresses = b""
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


Layer: TypeAlias = Callable[[Cursor], int]
"""Reads one header at the cursor and moves behind it. Returns the code of what follows, or `STOP`: either the
segment is complete, or `reason` says why there is none."""
