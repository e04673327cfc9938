"""One file after the other: when one ends and the next begins, and what they are called."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Rotation(NamedTuple):
    """Limits of one file in bytes, nanoseconds and packets, and the number of files kept, of which the oldest is
    deleted. None: no limit."""

    size: int | None = None
    time_ns: int | None = None
    packets: int | None = None
    keep: int | None = None

    @property
    def limited(self) -> bool:
        return any((self.size, self.time_ns, self.packets))


class FileSeries:
    """Pieces (lines, blocks of packets) that go whole into one file after the other, each within the limits of
    `rotation`. A piece that is larger has a file for itself. A file that begins with more than half of what it may have
    gets as many bytes of pieces as it begins with: so little is written again for each file.

    `put` writes pieces into the file that is open, and adds their bytes to `size`. `turn` opens the file `next_name`
    and calls `begin`, or lets the old one go on with `again`. `last`: number of the last file that is there.
    """

    def __init__(
        self,
        path: str,
        rotation: Rotation,
        put: Callable[[Sequence[bytes]], None],
        turn: Callable[[], None],
        last: int = 0,
    ) -> None:
        self.rotation = rotation
        self.path = path
        self._put, self._turn = put, turn
        self._number = last
        self.size = self.pieces = self._head = 0

    @property
    def next_name(self) -> str:
        return numbered(self.path, self._number + 1) if self.rotation.limited else self.path

    def begin(self) -> None:
        """The next file is open."""
        self._number += 1
        self.size = self.pieces = 0
        self.again()

    def again(self) -> None:
        """Count the limits from here on, though the file stays."""
        self._turned_size, self._turned_pieces = self.size, self.pieces
        self._turned_at = time.monotonic_ns()

    def write(self, pieces: Sequence[bytes]) -> None:
        """Write the pieces into this file, and as many more as they need."""
        done = 0
        while done < len(pieces):
            if not self.pieces:
                self._head = self.size
            if fitting := self._fitting(pieces, done):
                self._put(pieces[done : done + fitting])
                self.pieces += fitting
                done += fitting
            else:
                self._turn()

    def _fitting(self, pieces: Sequence[bytes], done: int) -> int:
        """Number of the pieces behind `done` that the file has room for; at least one if it is empty."""
        limits, before = self.rotation, self.pieces - self._turned_pieces
        most = len(pieces) - done
        if limits.packets is not None:
            most = min(most, limits.packets - before)
        if limits.size is None:
            return most
        room = max(limits.size, 2 * self._head) - (self.size - self._turned_size)
        fitting = 0
        while fitting < most and (room := room - len(pieces[done + fitting])) >= 0:
            fitting += 1
        return fitting if before else max(fitting, 1)

    def tick(self) -> None:
        """Begin the next file if it is due and this one holds pieces."""
        limit = self.rotation.time_ns
        if limit is not None and self.pieces and time.monotonic_ns() >= self._turned_at + limit:
            self._turn()


def numbered(path: str, number: int) -> str:
    """Name of one of the files of a path: `trace_00001_20261121151919.pcapng` for `trace.pcapng`. Names sort in
    order."""
    base, extension = os.path.splitext(path)
    return f"{base}_{number:05}_{time.strftime('%Y%m%d%H%M%S', time.gmtime())}{extension}"


def there_are(path: str, endings: tuple[str, ...]) -> list[tuple[int, str]]:
    """Numbers and names of the files that `numbered` named, in order, plain or with one of the `endings` behind the
    name; names are without it."""
    base, extension = os.path.splitext(path)
    behind = "|".join(map(re.escape, ("", *endings)))
    pattern = re.compile(
        rf"({re.escape(os.path.basename(base))}_(\d{{5,}})_\d{{14}}{re.escape(extension)})(?:{behind})"
    )
    folder = os.path.dirname(path)
    found = {
        (int(match[2]), os.path.join(folder, match[1]))
        for name in os.listdir(folder or os.curdir)
        if (match := pattern.fullmatch(name))
    }
    return sorted(found)
