"""The packets just before the current one, to know copies and to compare what comes again.

Nothing is stored: the rows and their buffers are those that were fed. `LOOK_BACK` packets of the capture
are looked at, whatever their connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint

from ..model import COPY_NS, SYN, Segment
from .connection import Half
from .held import differing
from .sequence import distance

LOOK_BACK = 256


class Recent:
    """The last rows before the one at which `walk` stands."""

    def __init__(self, halves: dict[bytes, Half]) -> None:
        self._halves = halves
        self._before: list[Segment] = []
        self._rows: list[Segment] = []
        self._walk: Iterator[Segment] = iter(())

    def walk(self, rows: list[Segment]) -> Iterator[Segment]:
        """The iterator to go through `rows` with."""
        if self._rows:
            self._before = (self._before + self._rows)[-LOOK_BACK:]
        self._rows = rows
        self._walk = iter(rows)
        return self._walk

    def is_copy(self, half: Half, segment: Segment) -> bool:
        """Whether a packet is one of the last ones as it was: a copy that the capture made."""
        _, time, seq, ack, flags, _, start, end, missing, _, mark = segment
        size = end - start + missing
        sending = mark >> 32
        find = self._halves.get
        for row in reversed(self._last()):
            if (
                row[2] == seq
                and row[10] >> 32 == sending
                and row[3] == ack
                and row[4] == flags
                and row[7] - row[6] + row[8] == size
                and find(row[0]) is half
                and (time is None or row[1] is None or -COPY_NS <= time - row[1] <= COPY_NS)
            ):
                return True
        return False

    def conflicts(self, half: Half, segment: Segment, size: int) -> int:
        """How many of the first `size` bytes of a packet were others when they came first."""
        seq, data, start = segment[2], segment[5], segment[6]
        known = bytearray(data[start : start + size])
        find = self._halves.get
        for row in reversed(self._last()):
            if find(row[0]) is half and not row[4] & SYN:
                at = distance(row[2], seq)
                begin, stop = max(0, at), min(size, at + row[7] - row[6])
                if begin < stop:
                    # Going back, so that the bytes that came first are left in the end.
                    known[begin:stop] = row[5][row[6] + begin - at : row[6] + stop - at]
        return differing(known, data[start : start + size])

    def _last(self) -> list[Segment]:
        passed = len(self._rows) - length_hint(self._walk) - 1
        if passed >= LOOK_BACK:
            return self._rows[passed - LOOK_BACK : passed]
        return self._before[passed - LOOK_BACK :] + self._rows[:passed]
