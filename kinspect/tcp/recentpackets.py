"""The last packets before the current one, to recognise copies and to compare retransmitted bytes.

Nothing is copied: the rows and their buffers are those that were fed. Each direction's last packets are linked, and
compared with its own packets and times alone. Rows that nothing is compared with any more are let go early, while they
are in the processor's cache. Their numbers leave a trace: a copy may come long after its packet, from a mirror or
another host. Memory for all of them is bounded; bytes that came again and were compared with nothing count as
`uncompared_bytes`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from struct import Struct
from typing import Final

from kinspect.model import COPY_NS, FRAME_BITS, SYN, Counts, Segment
from kinspect.tcp.connection import FOREIGN, NO_TRACE, HalfConnection
from kinspect.tcp.reorder import differing
from kinspect.tcp.sequence import distance

LOOKED_AT: Final = 32
"""Number of packets of a direction that are compared."""
LOOK_BACK_NS: Final = 1_000_000_000
"""Greatest age of a packet that is compared."""
KEPT_ROWS: Final = 4096
KEPT_BYTES: Final = 8 * 1024 * 1024
"""Limits on what is kept: packets, and bytes of their buffers, each counted whole, since it is kept whole."""
ELSEWHERE: Final = 8
"""Places between records at which the bytes of a record may stand by chance; made up ones end the search."""
ANY_NS: Final = 1 << 62
TRACED: Final = 4096
"""Number of packets in the trace of a direction."""
TRACE_BYTES: Final = 8 * 1024 * 1024
"""Size of all traces. The one that was not added to for longest is shortened first."""

# A packet in a trace: the sequence number, the acknowledgment and the IP identification; then the time, whose 48 bits
# are packed as two numbers, since compiled code is slow with numbers of 64.
_HEAD: Final = Struct(">IIH")
_RECORD: Final = Struct(">IIHHI")
_SIZE: Final = 16
_TIME_BITS: Final = 48
_TIME_SHIFT: Final = 16
_TIME_MASK: Final = (1 << _TIME_BITS) - 1


class _Rows:
    """Packets fed in one call, None for those let go. `first`: the number of the first one in the run. `links`: for
    each packet the number of the one before it in its direction, -1 for none."""

    __slots__ = ("first", "links", "rows", "size")

    def __init__(self, first: int, rows: list[Segment]) -> None:
        self.first = first
        self.rows: list[Segment | None] = [*rows]
        self.links = [-1] * len(rows)
        self.size = len(rows[0][5]) if rows else 0


class RecentPackets:
    """The last packets of the run, by number."""

    def __init__(
        self,
        counts: Counts,
        skew_ns: int,
        halves: dict[bytes, HalfConnection],
        trace_bytes: int = TRACE_BYTES,
    ) -> None:
        self._counts = counts
        self._most_trace_bytes = trace_bytes
        self._skew_ns = skew_ns
        self._halves = halves
        # Directions with a trace, the one added to last at the end.
        self._traces: dict[HalfConnection, None] = {}
        self._trace_bytes = 0
        self._kept: deque[_Rows] = deque()
        self._number = 0
        self._rows = 0
        self._bytes = 0

    def add(self, rows: list[Segment]) -> tuple[int, list[int]]:
        """Append the next packets. Returns the number of the first one, and the links of all, to be filled."""
        added = _Rows(self._number, rows)
        self._number += len(rows)
        self._kept.append(added)
        self._rows += len(rows)
        self._bytes += added.size
        while len(self._kept) > 1 and (self._rows > KEPT_ROWS or self._bytes > KEPT_BYTES):
            dropped = self._kept.popleft()
            self._rows -= len(dropped.rows)
            self._bytes -= dropped.size
            self._trace_all(dropped.rows)
        return added.first, added.links

    def link(self, half: HalfConnection, number: int) -> None:
        """Assign the packet with that number, one of those added last, to the direction."""
        newest = self._kept[-1]
        newest.links[number - newest.first] = half.row
        half.row = number
        half.linked += 1
        if half.linked == LOOKED_AT:
            self.thin(half)

    def thin(self, half: HalfConnection) -> None:
        """Let go of those of the direction's packets that have `LOOKED_AT` newer ones. To be called once as many were
        linked since the last call."""
        number, half.thinned, half.linked = half.thinned, half.row, 0
        self._note(half, sum([_trace(half, row) for row in reversed(self._let_go(number))]))

    def _let_go(self, number: int) -> list[Segment]:
        """Let go of that packet and of those linked to it. Returns them, the newest first."""
        gone: list[Segment] = []
        for kept in reversed(self._kept):
            while number >= kept.first:
                index = number - kept.first
                row = kept.rows[index]
                if row is None:
                    return gone
                gone.append(row)
                kept.rows[index] = None
                number = kept.links[index]
        return gone

    def _trace_all(self, rows: list[Segment | None]) -> None:
        """Add the packets among rows that go to the traces of their directions."""
        halves = self._halves
        grown: dict[HalfConnection, int] = {}
        for row in rows:
            half = halves.get(row[0]) if row is not None else None
            if row is not None and half is not None and half is not FOREIGN:
                grown[half] = grown.get(half, 0) + _trace(half, row)
        for half, size in grown.items():
            self._note(half, size)

    def _note(self, half: HalfConnection, grown: int) -> None:
        """Note that a direction's trace is the newest, and has grown by so many bytes."""
        if not grown:
            return
        self._traces.pop(half, None)
        self._traces[half] = None
        self._trace_bytes += grown
        trace = half.trace
        if len(trace) > 2 * TRACED * _SIZE:
            self._trace_bytes -= len(trace) - TRACED * _SIZE
            del trace[: -TRACED * _SIZE]
        if self._trace_bytes > self._most_trace_bytes:
            since = _time_at(trace, len(trace) - _SIZE) - (self._skew_ns >> _TIME_SHIFT)
            while self._trace_bytes > self._most_trace_bytes:
                self._shorten(next(iter(self._traces)), since)

    def _shorten(self, half: HalfConnection, since: int) -> None:
        """Drop what is older than `since` from the direction's trace, which then is the newest; all if nothing is."""
        trace = half.trace
        old = bisect_left(range(len(trace) // _SIZE), since, key=lambda place: _time_at(trace, place * _SIZE))
        if not old:
            self._counts.hit("traced_packets")
        if not old or old * _SIZE == len(trace):
            self.forget(half)
            return
        del trace[: old * _SIZE]
        self._trace_bytes -= old * _SIZE
        self._traces[half] = self._traces.pop(half)

    def forget(self, half: HalfConnection) -> None:
        """Drop the direction's trace."""
        self._traces.pop(half, None)
        self._trace_bytes -= len(half.trace)
        half.trace = NO_TRACE

    def rows(self, half: HalfConnection) -> list[Segment]:
        """The direction's last packets, the oldest first, each with only its own payload. Includes those too old to be
        compared now: that depends on the time of the next packet, which may be any."""
        return [
            Segment(key, time, seq, ack, flags, data[start:end], 0, end - start, missing, frame, mark)
            for key, time, seq, ack, flags, data, start, end, missing, frame, mark in filter(
                None, self._kept_of(half, 2 * LOOKED_AT)
            )
        ][::-1]

    def restore(self, half: HalfConnection, rows: list[Segment]) -> None:
        """Go on with the result of `rows`."""
        number, _ = self.add(rows)
        for index in range(len(rows)):
            self.link(half, number + index)
        if half.trace:
            self._note(half, len(half.trace))

    def is_copy(self, half: HalfConnection, segment: Segment) -> bool:
        """True if a packet equals an earlier one: a copy made by the capture.

        A sender numbers its packets (RFC 6864), those it sends again too: a packet with the same IP identification is a
        copy, though it took another way, or another clock gave its time. Without one only what comes `COPY_NS` later at
        most is.
        """
        _, time, seq, ack, flags, _, start, end, missing, frame, mark = segment
        size = end - start + missing
        sending = mark >> 32
        reach, count = (self._skew_ns, 2 * LOOKED_AT) if sending >> 16 else (COPY_NS, LOOKED_AT)
        if sending >> 16 and frame >> FRAME_BITS != half.connection.start_frame >> FRAME_BITS:
            reach = ANY_NS  # another host's capture, with a clock of its own
        for row in self._last(half, time, count):
            if (
                row[2] == seq
                and row[10] >> 32 == sending
                and row[3] == ack
                and row[4] == flags
                and row[7] - row[6] + row[8] == size
                and (time is None or row[1] is None or -reach <= time - row[1] <= reach)
                and _same_bytes(row, segment)
            ):
                return True
        return self._is_traced(half, time, seq, ack, sending >> 16, reach)

    def _is_traced(
        self, half: HalfConnection, time: int | None, seq: int, ack: int, identification: int, reach: int
    ) -> bool:
        """True if the direction's trace has a packet with these numbers from within `reach`."""
        if not identification or time is None:
            return False
        trace = half.trace
        head = _HEAD.pack(seq, ack, identification)
        at = trace.rfind(head)
        for _ in range(ELSEWHERE):
            if at <= 0 or not at % _SIZE:
                break
            at = trace.rfind(head, 0, at + len(head) - 1)
        if at < 0 or at % _SIZE:
            return False
        away = (time >> _TIME_SHIFT & _TIME_MASK) - _time_at(trace, at)
        return abs(away) <= (reach >> _TIME_SHIFT) + 1  # both times are rounded

    def conflicts(self, half: HalfConnection, segment: Segment, size: int, elsewhere: bool) -> int:
        """Number of the first `size` bytes of a packet that differ from those that came first; `elsewhere`: compared
        only with packets of other files."""
        time, seq, data, start, frame = segment[1], segment[2], segment[5], segment[6], segment[9]
        known = bytearray(data[start : start + size])
        compared = bytearray(size)
        for row in self._last(half, time, LOOKED_AT):
            if not row[4] & SYN and not (elsewhere and row[9] >> FRAME_BITS == frame >> FRAME_BITS):
                at = distance(row[2], seq)
                begin, stop = max(0, at), min(size, at + row[7] - row[6])
                if begin < stop:
                    # The newest packet comes first, so that the bytes that came first overwrite the others.
                    known[begin:stop] = row[5][row[6] + begin - at : row[6] + stop - at]
                    compared[begin:stop] = b"\1" * (stop - begin)
        if not elsewhere:
            self._counts.uncompared_bytes += compared.count(0)
        return differing(known, data[start : start + size])

    def _last(self, half: HalfConnection, time: int | None, count: int) -> Iterator[Segment]:
        """The direction's last packets that are kept, at most so many and no older than `LOOK_BACK_NS` at that time,
        the newest first."""
        for row in self._kept_of(half, count):
            if row is None or (time is not None and row[1] is not None and time - row[1] > LOOK_BACK_NS):
                return
            yield row

    def _kept_of(self, half: HalfConnection, count: int) -> Iterator[Segment | None]:
        """The direction's last packets, at most so many, the newest first; None in place of those no longer kept."""
        number = half.row
        at = len(self._kept) - 1
        for _ in range(count):
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


def _time_at(trace: bytearray, at: int) -> int:
    """Time of the packet at that place of a trace, in units of 2**16 ns."""
    return int.from_bytes(trace[at + _SIZE - _TIME_BITS // 8 : at + _SIZE])


def _trace(half: HalfConnection, row: Segment) -> int:
    """Add a packet to the direction's trace, if it has a number and a time. Returns the bytes added."""
    time, identification = row[1], row[10] >> 48
    if time is None or not identification:
        return 0
    if half.trace is NO_TRACE:
        half.trace = bytearray()
    half.trace += _RECORD.pack(row[2], row[3], identification, time >> 48 & 0xFFFF, time >> 16 & 0xFFFFFFFF)
    return _SIZE


def _same_bytes(one: Segment, other: Segment) -> bool:
    """True if the payloads are equal, as far as both were captured."""
    start, end, other_start, other_end = one[6], one[7], other[6], other[7]
    size = min(end - start, other_end - other_start)
    return one[5][start : start + size] == other[5][other_start : other_start + size]
