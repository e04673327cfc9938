"""IPv4 and IPv6 fragments put together (RFC 791 §3.2, RFC 8200 §4.5).

Fragments come in any order. Where they overlap, the bytes that came first win (a receiver of IPv6 would drop
the packet, RFC 5722). What waits is bounded by `Caps.fragment_bytes`, `Caps.fragments` and `Caps.fragment_ns`.
"""

from __future__ import annotations

from ..model import COPY_NS, Caps, Counts
from .cursor import IP_PROTOCOL, MAX_DEPTH, Cursor

UNIT = 8  # offsets count 8 bytes; every fragment but the last is a multiple long
MAX_PACKET = 65535

# The reason of a packet that is no segment but part of one, or a copy of such a part. It is counted already,
# or will be when it is known what came of it.
PART = "part"
INCOMPLETE = "fragment incomplete"

# So many packets are remembered whole for `COPY_NS`, to know copies of their fragments.
REMEMBERED = 64


class Parts:
    """A packet of which some fragments came.

    `have` has a byte a unit of `data`: whether it came. `total` is the packet's size, 0 if the last fragment is
    still to come; `cut` where the snap length first took something; `count` how many fragments came.
    """

    __slots__ = ("clock", "count", "cut", "data", "have", "protocol", "total")

    def __init__(self, clock: int) -> None:
        self.clock = clock
        self.count = 0
        self.cut = MAX_PACKET
        self.data = bytearray()
        self.have = bytearray()
        self.protocol = 0
        self.total = 0

    @property
    def size(self) -> int:
        return len(self.data) + len(self.have)

    @property
    def complete(self) -> bool:
        return self.total == len(self.data) > 0 and 0 not in self.have

    def fits(self, end: int, more: bool) -> bool:
        """Whether a fragment up to `end` agrees with what the others say about the packet's size."""
        if more:
            return not self.total or end <= self.total
        return end == self.total if self.total else end >= len(self.data)

    def add(self, offset: int, data: bytes, size: int) -> int:
        """Puts in what is new of a fragment of `size` bytes, of which `data` was captured.

        Out: how many of its units were there already.
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


class Fragments:
    """The packets of which some fragments came, oldest first."""

    def __init__(self, caps: Caps, counts: Counts) -> None:
        self._caps = caps
        self._counts = counts
        self._waiting: dict[bytes, Parts] = {}
        self._held = 0
        self._whole: dict[bytes, tuple[int, bytes]] = {}
        self._clock = 0

    def take(self, cursor: Cursor, key: bytes, offset: int, more: bool, protocol: int) -> int:
        """Takes the fragment at the cursor; `key` names its packet.

        If it is the one that was missing, the cursor moves into the whole packet. The time and frame of the
        segment are so those of the fragment that completed it.
        """
        size = cursor.wire_end - cursor.at
        if size <= 0 or offset + size > MAX_PACKET or (more and size % UNIT):
            return cursor.stop("malformed")
        if cursor.time is not None and cursor.time > self._clock:
            self._clock = cursor.time
        self._expire()
        data = cursor.data[cursor.at : max(cursor.end, cursor.at)]
        key += cursor.networks
        if self._is_copy(key, offset, data):
            self._counts.fragments += 1
            self._counts.duplicate_packets += 1
            return cursor.stop(PART)
        parts = self._add(key, offset, data, size, more, protocol)
        if parts is None or not parts.complete:
            self._keep_caps()
            return cursor.stop(PART)
        return self._deliver(cursor, key, parts)

    def flush(self) -> None:
        """The end of the capture: nothing will be completed any more."""
        while self._waiting:
            self._give_up()
        self._whole.clear()

    def _is_copy(self, key: bytes, offset: int, data: bytes) -> bool:
        """Whether the fragment is one of a packet that was just completed, over again."""
        clock, whole = self._whole.get(key, (0, b""))
        return whole.startswith(data, offset) and self._clock - clock <= COPY_NS and offset < len(whole)

    def _add(
        self, key: bytes, offset: int, data: bytes, size: int, more: bool, protocol: int
    ) -> Parts | None:
        """The packet with the fragment put in; None if the fragment brought nothing."""
        parts = self._waiting.get(key)
        if parts is None:
            parts = self._waiting[key] = Parts(self._clock)
        parts.count += 1
        if not parts.fits(offset + size, more):
            self._counts.overlapping_fragments += 1
            return None
        before = parts.size
        if not more:
            parts.total = offset + size
        if not offset:
            parts.protocol = parts.protocol or protocol
        same = parts.data.startswith(data, offset)
        repeated = parts.add(offset, data, size)
        self._held += parts.size - before
        if not repeated:
            return parts
        if same and repeated == -(-size // UNIT):
            self._counts.duplicate_packets += 1
        else:
            self._counts.overlapping_fragments += 1
        return parts

    def _deliver(self, cursor: Cursor, key: bytes, parts: Parts) -> int:
        del self._waiting[key]
        self._held -= parts.size
        self._counts.fragments += parts.count - 1
        data = bytes(parts.data[: parts.cut])
        self._whole.pop(key, None)
        self._whole[key] = self._clock, data
        cursor.depth += 1
        if cursor.depth > MAX_DEPTH:
            return cursor.stop("nesting")
        cursor.data = data
        cursor.at = 0
        cursor.end = len(data)
        cursor.wire_end = parts.total
        return IP_PROTOCOL + parts.protocol

    def _keep_caps(self) -> None:
        while self._held > self._caps.fragment_bytes:
            self._counts.hit("fragment_bytes")
            self._give_up()
        while len(self._waiting) > self._caps.fragments:
            self._counts.hit("fragments")
            self._give_up()

    def _give_up(self) -> None:
        """Drops the packet that has waited longest."""
        parts = self._waiting.pop(next(iter(self._waiting)))
        self._held -= parts.size
        self._counts.undecoded(INCOMPLETE, parts.count)

    def _expire(self) -> None:
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            if self._clock - oldest.clock < self._caps.fragment_ns:
                break
            self._give_up()
        while self._whole:
            key, (clock, _) = next(iter(self._whole.items()))
            if self._clock - clock <= COPY_NS and len(self._whole) <= REMEMBERED:
                break
            del self._whole[key]
