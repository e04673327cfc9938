"""The last packets before the current one, to recognise copies and to compare retransmitted bytes.

Nothing is copied: the rows and their buffers are those that were fed. Each direction's last packets are linked, and
compared with its own packets and times alone. Rows that nothing is compared with any more are let go early, while they
are in the processor's cache. Memory for all of them is bounded; a comparison that this cuts short counts as the cap
`compared_packets`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from kinspect.model import COPY_NS, FRAME_BITS, SYN, Counts, Segment
from kinspect.tcp.connection import Half
from kinspect.tcp.held import differing
from kinspect.tcp.sequence import distance

LOOKED_AT: Final = 32
"""Number of packets of a direction that are compared."""
LOOK_BACK_NS: Final = 1_000_000_000
"""Greatest age of a packet that is compared."""
KEPT_ROWS: Final = 4096
KEPT_BYTES: Final = 8 * 1024 * 1024
"""Limits on what is kept: packets, and bytes of their buffers, each counted whole, since it is kept whole."""


class _Rows:
    """Packets fed in one call, None for those let go. `first`: the number of the first one in the run; `newest`: the
    latest time of any packet up to the last one. `links`: for each packet the number of the one before it in its
    direction, -1 for none."""

    __slots__ = ("first", "links", "newest", "rows", "size")

    def __init__(self, first: int, newest: int, rows: list[Segment]) -> None:
        self.first = first
        self.newest = newest
        self.rows: list[Segment | None] = [*rows]
        self.links = [-1] * len(rows)
        self.size = len(rows[0][5]) if rows else 0


class RecentPackets:
    """The last packets of the run, by number."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._kept: deque[_Rows] = deque()
        self._number = 0
        self._rows = 0
        self._bytes = 0
        self._newest = 0
        self._dropped_time = 0

    def add(self, rows: list[Segment]) -> tuple[int, list[int]]:
        """Append the next packets. Returns the number of the first one, and the links of all, to be filled."""
        for row in rows:
            time = row[1]
            if time is not None and time > self._newest:
                self._newest = time
        added = _Rows(self._number, self._newest, rows)
        self._number += len(rows)
        self._kept.append(added)
        self._rows += len(rows)
        self._bytes += added.size
        while len(self._kept) > 1 and (self._rows > KEPT_ROWS or self._bytes > KEPT_BYTES):
            dropped = self._kept.popleft()
            self._rows -= len(dropped.rows)
            self._bytes -= dropped.size
            self._dropped_time = dropped.newest
        return added.first, added.links

    def link(self, half: Half, number: int) -> None:
        """Assign the packet with that number, one of those added last, to the direction."""
        newest = self._kept[-1]
        newest.links[number - newest.first] = half.row
        half.row = number
        half.linked += 1
        if half.linked == LOOKED_AT:
            self.thin(half)

    def thin(self, half: Half) -> None:
        """Let go of those of the direction's packets that have `LOOKED_AT` newer ones. To be called once as many were
        linked since the last call."""
        number, half.thinned, half.linked = half.thinned, half.row, 0
        for kept in reversed(self._kept):
            while number >= kept.first:
                index = number - kept.first
                if kept.rows[index] is None:
                    return
                kept.rows[index] = None
                number = kept.links[index]

    def rows(self, half: Half) -> list[Segment]:
        """The direction's last packets, the oldest first, each with only its own payload. Includes those too old to be
        compared now: that depends on the time of the next packet, which may be any."""
        return [
            Segment(key, time, seq, ack, flags, data[start:end], 0, end - start, missing, frame, mark)
            for key, time, seq, ack, flags, data, start, end, missing, frame, mark in filter(
                None, self._kept_of(half)
            )
        ][::-1]

    def restore(self, half: Half, rows: list[Segment]) -> None:
        """Go on with the result of `rows`."""
        number, _ = self.add(rows)
        for index in range(len(rows)):
            self.link(half, number + index)

    def is_copy(self, half: Half, segment: Segment) -> bool:
        """True if a packet equals one of the last ones: a copy made by the capture."""
        _, time, seq, ack, flags, _, start, end, missing, _, mark = segment
        size = end - start + missing
        sending = mark >> 32
        for row in self._last(half, time):
            if (
                row[2] == seq
                and row[10] >> 32 == sending
                and row[3] == ack
                and row[4] == flags
                and row[7] - row[6] + row[8] == size
                and (time is None or row[1] is None or -COPY_NS <= time - row[1] <= COPY_NS)
                and _same_bytes(row, segment)
            ):
                return True
        return False

    def conflicts(self, half: Half, segment: Segment, size: int, elsewhere: bool) -> int:
        """Number of the first `size` bytes of a packet that differ from those that came first; `elsewhere`: compared
        only with packets of other files."""
        time, seq, data, start, frame = segment[1], segment[2], segment[5], segment[6], segment[9]
        known = bytearray(data[start : start + size])
        for row in self._last(half, time):
            if not row[4] & SYN and not (elsewhere and row[9] >> FRAME_BITS == frame >> FRAME_BITS):
                at = distance(row[2], seq)
                begin, stop = max(0, at), min(size, at + row[7] - row[6])
                if begin < stop:
                    # The newest packet comes first, so that the bytes that came first overwrite the others.
                    known[begin:stop] = row[5][row[6] + begin - at : row[6] + stop - at]
        return differing(known, data[start : start + size])

    def _last(self, half: Half, time: int | None) -> Iterator[Segment]:
        """The direction's last packets, no older than `LOOK_BACK_NS` at that time, the newest first."""
        for row in self._kept_of(half):
            if row is None:
                if time is None or time - self._dropped_time <= LOOK_BACK_NS:
                    self._counts.hit("compared_packets")
            elif time is not None and row[1] is not None and time - row[1] > LOOK_BACK_NS:
                return
            else:
                yield row

    def _kept_of(self, half: Half) -> Iterator[Segment | None]:
        """The direction's last packets, the newest first; None in place of those no longer kept."""
        number = half.row
        at = len(self._kept) - 1
        for _ in range(LOOKED_AT):
            if number < 0:
                return
            while at >= 0 and self._kept[at].first > number:
                at -= 1
            if at < 0:
                yield None
                return
            kept = self._kept[at]
            yield kept.rows[number - kept.first]
            number = kept.links[number - kept.first]


def _same_bytes(one: Segment, other: Segment) -> bool:
    """True if the payloads are equal, as far as both were captured."""
    start, end, other_start, other_end = one[6], one[7], other[6], other[7]
    size = min(end - start, other_end - other_start)
    return one[5][start : start + size] == other[5][other_start : other_start + size]
