"""The order of a run's lines: each has a key that its connection alone decides."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

LineKey = tuple[int, int, int, int]
"""Completion time of a line (nanoseconds since the epoch, 0 without a time), the frame that completed it, the first
frame of its connection, and its number in the connection. Frames are frame references: their file comes first.
Answers take the first value for a time, whoever made the key."""
FIRST: Final[LineKey] = (-1, 0, 0, 0)
"""Key before those of all lines."""
BEHIND: Final[LineKey] = (1 << 79, 0, 0, 0)
"""Key behind those of all lines: of what counts for no line, but for the run as a whole."""
LAST: Final[LineKey] = (1 << 80, 0, 0, 0)
"""Key of the whole run."""
UNPLACED: Final[LineKey] = (0, 0, 0, 0)
"""Key of an exchange that is no line of a run."""

WINDOW: Final = 4096
"""Number of the run's packets for which a line waits for those that belong before it."""
WINDOW_BYTES = 16 * 1024 * 1024
"""Bytes that waiting lines may take; with more the window is shorter. Not Final, as tests make it smaller."""


class LineNumbering:
    """Gives the lines of a connection their keys. A packet without a time has that of the one before it."""

    __slots__ = ("_first_frame", "_number", "_time")

    def __init__(self, first_frame: int) -> None:
        self._first_frame = first_frame
        self._number = 0
        self._time = 0

    def state(self) -> list[int]:
        """State for `from_state`, as plain values."""
        return [self._first_frame, self._number, self._time]

    @classmethod
    def from_state(cls, state: Sequence[int]) -> LineNumbering:
        first_frame, number, time = state
        numbering = cls(first_frame)
        numbering._number, numbering._time = number, time
        return numbering

    def key(self, time: int | None, frame: int) -> LineKey:
        """The key of the next line, which the packet `frame` completed at `time`."""
        self._number += 1
        if time is not None:
            self._time = time
        return self._time, frame, self._first_frame, self._number


L = TypeVar("L")


class LineOrder(Generic[L]):
    """Lines in the order of their keys, as far as they come within `WINDOW` packets of the run.

    A line waits until `WINDOW` packets have come after its own, and is released with all lines of smaller keys. The
    result depends only on keys, places and sizes, not on the moments at which lines are taken.
    """

    __slots__ = "_arrived _keys _last _lines _newest _place _places _ready _sizes bytes late".split()

    def __init__(self) -> None:
        # The lines that wait, with their keys and sizes; in the order of keys. The place of each is the first one among
        # its own and those of the lines behind it, so that places rise too.
        self._lines: list[L] = []
        self._keys: list[LineKey] = []
        self._places: list[int] = []
        self._sizes: list[int] = []
        self._ready: list[L] = []
        self._newest = FIRST  # the last of all keys so far
        self._last = FIRST
        self._place = 0
        self.bytes = 0
        self.late = 0
        """Number of lines that came after later ones had been released."""

    def add(self, key: LineKey, place: int, size: int, line: L) -> None:
        """Add a line that came with the packet at that place in the run, which is that of the line before or a later
        one."""
        if place > self._place:
            self._place = place
            self.shorten()
        newest = self._newest
        # The times alone are compared first: they decide nearly always.
        if key[0] > newest[0] or key > newest:
            self._newest = key
            self._keys.append(key)
            self._places.append(place)
            self._sizes.append(size)
            self._lines.append(line)
        else:
            self._insert(key, place, size, line)
        self.bytes += size

    def shorten(self) -> None:
        """Release the lines of the first packets as long as too many bytes wait."""
        while self.bytes > WINDOW_BYTES:
            self.pass_to(self._places[0] + WINDOW)

    def _insert(self, key: LineKey, place: int, size: int, line: L) -> None:
        self.pass_to(place)
        if key < self._last:
            self.late += 1
        at = bisect_right(self._keys, key)
        # As slices, which move what follows in one go: `insert` moves one by one.
        self._keys[at:at] = (key,)
        self._places[at:at] = (self._places[at] if at < len(self._places) else place,)
        self._sizes[at:at] = (size,)
        self._lines[at:at] = (line,)

    def pass_to(self, place: int) -> None:
        """Release the lines that have waited long enough, as the run has come to that place."""
        waited = place - WINDOW
        if self._places and self._places[0] <= waited:
            self._hand_on(bisect_right(self._places, waited))

    def force(self) -> None:
        """Release the first line at once."""
        self._hand_on(1)

    def rest(self) -> None:
        """Release all lines: none that belongs before one of them will come."""
        self._hand_on(len(self._lines))

    def _hand_on(self, count: int) -> None:
        if count:
            self._ready += self._lines[:count]
            self.bytes -= sum(self._sizes[:count])
            self._last = max(self._last, self._keys[count - 1])
            del self._lines[:count], self._keys[:count], self._places[:count], self._sizes[:count]

    def ready(self) -> list[L]:
        """The lines released since the last call."""
        lines, self._ready = self._ready, []
        return lines
