"""Packets with payload that fit no connection of their island, kept until another one agrees with them.

One packet proves nothing: it may be forged, damaged, or late. Two of which the second continues or answers the first
are a connection whose beginning is not in the capture.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from kinspect.model import ACK, RST, Counts, Segment
from kinspect.tcp.flowkeys import ends
from kinspect.tcp.sequence import NEAR, distance

# Number of strays remembered per island, the newest ones.
KEPT: Final = 4
# Limits over all islands: bytes held, and packets they are of.
HELD_BYTES: Final = 4 * 1024 * 1024
HELD_PACKETS: Final = 4096


class StrayPacket:
    """A packet that has waited for another since `clock`. After too long `data` is dropped: only its numbers remain."""

    __slots__ = ("clock", "data", "segment")

    def __init__(self, segment: Segment, data: bytes | None, clock: int) -> None:
        self.segment = segment
        self.data = data
        self.clock = clock

    def state(self) -> list[Any]:
        """State to create it again."""
        return [self.segment, self.data, self.clock]


class Strays:
    """Adds strays to islands' lists and removes them; bytes that are dropped count as ignored."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._waiting: deque[StrayPacket] = deque()
        self._bytes = 0

    def add(self, strays: list[StrayPacket], segment: Segment, clock: int) -> None:
        """Keep a packet, dropping the oldest one if there are too many."""
        key, time, seq, ack, flags, data, start, end, missing, frame, mark = segment
        bare = Segment(key, time, seq, ack, flags, b"", 0, end - start, missing, frame, mark)
        self.keep(strays, StrayPacket(bare, data[start:end], clock))
        if len(strays) > KEPT:
            self.discard(strays.pop(0))

    def keep(self, strays: list[StrayPacket], stray: StrayPacket) -> None:
        """Add a stray to its island's list and to the bounds on memory."""
        strays.append(stray)
        if stray.data is None:
            return
        self._bytes += len(stray.data)
        self._waiting.append(stray)
        while self._bytes > HELD_BYTES or len(self._waiting) > HELD_PACKETS:
            oldest = self._waiting.popleft()
            if oldest.data is not None:
                self._counts.hit("stray_packets")
                self.discard(oldest)

    def agreeing(self, strays: list[StrayPacket], segment: Segment) -> StrayPacket | None:
        """Remove and return the newest packet that belongs to one connection with this one."""
        if segment[4] & RST:
            return None
        for at in range(len(strays) - 1, -1, -1):
            if _agree(strays[at].segment, segment):
                return strays.pop(at)
        return None

    def take(self, stray: StrayPacket) -> Segment | None:
        """The packet as it came, to be handed on; None if its bytes were dropped."""
        data = stray.data
        if data is None:
            return None
        self.release(stray)
        return stray.segment._replace(data=data, start=0, end=len(data))

    def discard(self, stray: StrayPacket) -> None:
        """Drop its bytes and count them as ignored."""
        if stray.data is not None:
            self._counts.ignored_bytes += len(stray.data)
            self.release(stray)

    def release(self, stray: StrayPacket) -> None:
        """Stop holding its bytes."""
        self._bytes -= len(stray.data or b"")
        stray.data = None
        while self._waiting and self._waiting[0].data is None:
            self._waiting.popleft()


def waiting_since(strays: list[StrayPacket]) -> int | None:
    """Time, by its island's clock, since which the oldest stray with its bytes has waited; None if there is none."""
    return next((stray.clock for stray in strays if stray.data is not None), None)


def _agree(first: Segment, second: Segment) -> bool:
    """True if the second packet continues the first, or answers it."""
    key, _, seq, ack, flags, _, start, end, missing, _, _ = first
    other_key, _, other_seq, other_ack, other_flags, _, other_start, other_end, _, _, _ = second
    if ends(other_key) == ends(key):
        ahead = abs(distance(other_seq, seq))
        return 0 < ahead < NEAR and other_end > other_start and abs(distance(other_ack, ack)) < NEAR
    answers = 0 < distance(other_ack, seq) <= end - start + missing + NEAR
    return bool(flags & other_flags & ACK) and answers and abs(distance(other_seq, ack)) < NEAR
