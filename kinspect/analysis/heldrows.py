"""Rows in order, of which some wait for a value that is decided later: in memory, then in a temporary file."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

from kinspect.errors import KinspectError
from kinspect.kafka.view.batchrows import BatchRows

MEMORY_BYTES = 16 * 1024 * 1024
FILE_BYTES = 1 << 30
GROUPS = 200_000
"""What is held in memory and in the file, and how many groups of rows: beyond them the oldest outcome is unknown. The
file has twice as much at most: what was read of it goes when all was."""


class _Group(NamedTuple):
    """Rows that are held: their number (0: they wait for nothing), outcome, bytes or place in the file, size of these,
    how many they are, and time."""

    number: int
    outcome: str | None
    where: bytes | int
    size: int
    rows: int
    time: int


class HeldRows:
    """Gives groups of rows in the order of `put`, each once its outcome is decided.

    A group is held if it waits, or one before it does. Only the owner may read the file, which has no name and is
    emptied whenever nothing waits. `given_up`: groups that were passed on undecided, as there was no room; `rows`: how
    many are held.
    """

    def __init__(self, memory: int = MEMORY_BYTES, file: int = FILE_BYTES, groups: int = GROUPS) -> None:
        self.given_up = 0
        self._memory, self._most, self._groups = memory, file, groups
        self._held: deque[_Group] = deque()
        self.rows = 0
        # Of each number that is held how often, and its outcome once it is decided.
        self._numbers: Counter[int] = Counter()
        self._outcomes: dict[int, str | None] = {}
        self._bytes = self._spilled = 0
        self._fd: int | None = None
        self._end = 0

    def __len__(self) -> int:
        """How many groups are held."""
        return len(self._held)

    @property
    def first(self) -> tuple[int, int] | None:
        """The number of the group that waits first, and its time."""
        return (self._held[0].number, self._held[0].time) if self._held else None

    def put(self, rows: BatchRows, outcome: str | None, number: int = 0, time: int = 0) -> None:
        """Hold a group of rows of this time with their outcome, or with the number by which `decide` tells it
        later."""
        text = rows.to_bytes()
        where: bytes | int = text
        if self._bytes + len(text) > self._memory:
            where = self._spill(text)
            self._spilled += len(text)
        else:
            self._bytes += len(text)
        self._held.append(_Group(number, outcome, where, len(text), len(rows), time))
        self._numbers[number] += 1
        self.rows += len(rows)

    def decide(self, number: int, outcome: str | None) -> None:
        """Decide the groups of this number."""
        if number in self._numbers:
            self._outcomes[number] = outcome

    def passed(self) -> Iterator[tuple[BatchRows, str | None]]:
        """Let all groups go before the next one that waits, and those that there is no room for; with their
        outcomes."""
        while self._held:
            number, outcome, where, size, rows, _ = self._held[0]
            if number and number not in self._outcomes:
                if not self._is_full():
                    break
                self.given_up += 1
                self._outcomes[number] = None
            self._held.popleft()
            self.rows -= rows
            outcome = self._outcomes[number] if number else outcome
            self._numbers[number] -= 1
            if not self._numbers[number]:
                del self._numbers[number]
                self._outcomes.pop(number, None)
            if isinstance(where, int):
                text = os.pread(self._file(), size, where)
                self._spilled -= size
            else:
                text = where
                self._bytes -= size
            yield BatchRows.from_bytes(text), outcome
        if self._end and not self._spilled:
            os.ftruncate(self._file(), 0)
            self._end = 0

    def close(self) -> None:
        """Give the file back."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _is_full(self) -> bool:
        return len(self._held) > self._groups or self._spilled > self._most or self._end > 2 * self._most

    def _spill(self, text: bytes) -> int:
        place = self._end
        try:
            while text:
                written = os.pwrite(self._file(), text, self._end)
                self._end += written
                text = text[written:]
        except OSError as error:
            raise KinspectError(f"cannot write a temporary file: {error.strerror or error}") from None
        return place

    def _file(self) -> int:
        if self._fd is None:
            import tempfile  # only for this

            with tempfile.TemporaryFile(prefix="kinspect-") as made:
                self._fd = os.dup(made.fileno())
        return self._fd
