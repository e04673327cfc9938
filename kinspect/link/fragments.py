"""Reassembly of IPv4 and IPv6 fragments (RFC 791 §3.2, RFC 8200 §4.5).

Fragments come in any order. Where they overlap, the bytes that came first win (an IPv6 receiver would drop the packet,
RFC 5722). A packet is given up and begun anew if its next fragment comes `Caps.fragment_ns` after its last one; the
times of other packets do not matter. Incomplete packets, and complete ones remembered to recognise copies of their
fragments, are bounded together by `Caps.fragment_bytes`, and each by `Caps.fragments`.
"""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from kinspect.link.cursor import IP_PROTOCOL, MAX_DEPTH, Cursor
from kinspect.model import COPY_NS, Caps, Counts

UNIT: Final = 8  # offsets count units of 8 bytes; all fragments but the last are a multiple of that
MAX_PACKET: Final = 65535

# Reason for a packet that is only part of a segment, or a copy of such a part. It is counted already, or will be
# when its packet is complete or given up.
PART: Final = "part"
INCOMPLETE: Final = "fragment incomplete"

# Number of later entries that must agree that one is too old to be of use, so that no single wrong time decides.
OTHERS: Final = 8


class FragmentParts:
    """A packet of which some fragments have come.

    `have` has one byte per unit of `data`: 1 if it has come. `total` is the packet's size, 0 while the last fragment is
    missing; `cut` the first offset that the snap length took away; `count` the number of fragments; `time` that of the
    last one, None if no fragment has one.
    """

    __slots__ = ("count", "cut", "data", "have", "protocol", "time", "total")

    def __init__(self) -> None:
        self.count = 0
        self.cut = MAX_PACKET
        self.data = bytearray()
        self.have = bytearray()
        self.protocol = 0
        self.time: int | None = None
        self.total = 0

    @property
    def size(self) -> int:
        return len(self.data) + len(self.have)

    @property
    def complete(self) -> bool:
        return self.total == len(self.data) > 0 and 0 not in self.have

    def fits(self, end: int, more: bool) -> bool:
        """True if a fragment that ends at `end` agrees with the packet's size as far as it is known."""
        if more:
            return not self.total or end <= self.total
        return end == self.total if self.total else end >= len(self.data)

    def add(self, offset: int, data: bytes, size: int) -> int:
        """Insert the new parts of a fragment of `size` bytes, of which `data` was captured.

        Returns the number of its units that were there already.
        """
        end = offset + size
        if end > len(self.data):
            self.data.extend(bytes(end - len(self.data)))
            self.have.extend(bytes(-(-end // UNIT) - len(self.have)))
        first, last = offset // UNIT, -(-end // UNIT)
        repeated = self.have.count(1, first, last)
        if len(data) < size and repeated < last - first:
            self.cut = min(self.cut, offset + len(data))
        padded = data.ljust(size, b"\0")
        if not repeated:
            self.data[offset:end] = padded
        else:
            for at in range(offset, end, UNIT):
                if not self.have[at // UNIT]:
                    stop = min(at + UNIT, end)
                    self.data[at:stop] = padded[at - offset : stop - offset]
        self.have[first:last] = b"\1" * (last - first)
        return repeated


class ReassembledPacket(NamedTuple):
    """A reassembled packet, and the time of the fragment that completed it."""

    time: int | None
    data: bytes


Waiting: TypeAlias = dict[bytes, FragmentParts] | dict[bytes, ReassembledPacket]


class Fragments:
    """Incomplete packets, and those reassembled last, each oldest first."""

    def __init__(self, caps: Caps, counts: Counts) -> None:
        self._caps = caps
        self._counts = counts
        self._waiting: dict[bytes, FragmentParts] = {}
        self._whole: dict[bytes, ReassembledPacket] = {}
        self._held = 0

    def take(self, cursor: Cursor, key: bytes, offset: int, more: bool, protocol: int) -> int:
        """Take the fragment at the cursor; `key` names its packet.

        If it completes the packet, the cursor moves into the whole packet. The segment thus has the time and frame of
        the fragment that completed it.
        """
        size = cursor.wire_end - cursor.at
        if size <= 0 or offset + size > MAX_PACKET or (more and size % UNIT):
            return cursor.stop("malformed")
        data = cursor.data[cursor.at : max(cursor.end, cursor.at)]
        key += cursor.networks
        if self._is_copy(key, offset, data, cursor.time):
            self._counts.fragments += 1
            self._counts.duplicate_packets += 1
            return cursor.stop(PART)
        parts = self._packet(key, cursor.time)
        if self._add(parts, offset, data, size, more, protocol) and parts.complete:
            code = self._deliver(cursor, key, parts)
        else:
            code = cursor.stop(PART)
        self._keep_caps()
        return code

    def flush(self) -> None:
        """End of the capture: give up all incomplete packets."""
        while self._waiting:
            self._give_up(next(iter(self._waiting)))
        while self._whole:
            self._forget(next(iter(self._whole)))

    def _is_copy(self, key: bytes, offset: int, data: bytes, time: int | None) -> bool:
        """True if the fragment repeats part of a packet that was just completed."""
        whole = self._whole.get(key)
        return (
            whole is not None
            and whole.data.startswith(data, offset)
            and offset < len(whole.data)
            and not _is_later(time, whole.time, COPY_NS)
        )

    def _packet(self, key: bytes, time: int | None) -> FragmentParts:
        """The packet that a fragment with this time belongs to, a new one if necessary."""
        parts = self._waiting.get(key)
        if parts is not None and _is_later(time, parts.time, self._caps.fragment_ns):
            self._give_up(key)
            parts = None
        if parts is None:
            parts = self._waiting[key] = FragmentParts()
        parts.count += 1
        parts.time = parts.time if time is None else time
        return parts

    def _add(
        self, parts: FragmentParts, offset: int, data: bytes, size: int, more: bool, protocol: int
    ) -> bool:
        """Insert the fragment; returns False if it contradicts the packet's size."""
        if not parts.fits(offset + size, more):
            self._counts.overlapping_fragments += 1
            return False
        before = parts.size
        if not more:
            parts.total = offset + size
        if not offset:
            parts.protocol = parts.protocol or protocol
        same = parts.data.startswith(data, offset)
        repeated = parts.add(offset, data, size)
        self._held += parts.size - before
        if repeated:
            if same and repeated == -(-size // UNIT):
                self._counts.duplicate_packets += 1
            else:
                self._counts.overlapping_fragments += 1
        return True

    def _deliver(self, cursor: Cursor, key: bytes, parts: FragmentParts) -> int:
        del self._waiting[key]
        self._held -= parts.size
        self._counts.fragments += parts.count - 1
        data = bytes(parts.data[: parts.cut])
        if key in self._whole:
            self._forget(key)
        self._whole[key] = ReassembledPacket(parts.time, data)
        self._held += len(data)
        cursor.depth += 1
        if cursor.depth > MAX_DEPTH:
            return cursor.stop("nesting")
        cursor.data = data
        cursor.at = 0
        cursor.end = len(data)
        cursor.wire_end = parts.total
        return IP_PROTOCOL + parts.protocol

    def _give_up(self, key: bytes) -> None:
        parts = self._waiting.pop(key)
        self._held -= parts.size
        self._counts.undecoded(INCOMPLETE, parts.count)

    def _forget(self, key: bytes) -> None:
        self._held -= len(self._whole.pop(key).data)

    def _keep_caps(self) -> None:
        while self._held > self._caps.fragment_bytes:
            self._evict(self._whole or self._waiting, "fragment_bytes")
        for held in (self._whole, self._waiting):
            while len(held) > self._caps.fragments:
                self._evict(held, "fragments")

    def _evict(self, held: Waiting, cap: str) -> None:
        """Drop the oldest entry; the cap is hit unless that entry is too old to be of use."""
        remove, age = (
            (self._forget, COPY_NS) if held is self._whole else (self._give_up, self._caps.fragment_ns)
        )
        if not _is_over(held, age):
            self._counts.hit(cap)
        remove(next(iter(held)))


def _is_later(time: int | None, than: int | None, by: int) -> bool:
    return time is not None and than is not None and time - than > by


def _is_over(held: Waiting, age: int) -> bool:
    """True if the latest `OTHERS` entries are all later than the oldest by more than twice `age`."""
    oldest = held[next(iter(held))].time
    others = (held[key].time for key in islice(reversed(held), OTHERS))
    return len(held) > OTHERS and all(_is_later(time, oldest, 2 * age) for time in others)
