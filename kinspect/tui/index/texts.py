"""Values that rows share, each kept once as JSON text: connections, clients, names, faults."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import orjson

UNKEPT = 0
"""Number of all values for which there was no room."""
KEPT_BYTES = 64 * 1024 * 1024
"""Most bytes of texts kept; later texts are not kept, and their rows say so."""
KEPT = 400_000
"""Most texts kept."""
_READ_KEPT = 4096


class TextNumbers:
    """Gives equal values equal numbers, and keeps the new texts until `take`."""

    def __init__(self, kept_bytes: int = KEPT_BYTES, kept: int = KEPT) -> None:
        self._numbers: dict[bytes, int] = {}
        self._room = kept_bytes
        self._kept = kept
        self._fresh: list[bytes] = []
        self._last_count = 0

    @property
    def grew(self) -> bool:
        """True if a value got a new number since the last access."""
        before, self._last_count = self._last_count, len(self._numbers)
        return self._last_count != before

    def number(self, value: Any) -> int:
        """The number of a value that JSON can hold; UNKEPT if there is no room for it."""
        return self.of_text(orjson.dumps(value))

    def of_text(self, text: bytes) -> int:
        """The number of a value given as JSON."""
        # Known texts are held as digests: the texts themselves are kept where they are read.
        digest = blake2b(text, digest_size=12).digest()
        number = self._numbers.get(digest)
        if number is None:
            if self._room < len(text) or len(self._numbers) >= self._kept:
                return UNKEPT
            self._room -= len(text)
            number = self._numbers[digest] = len(self._numbers) + 1
            self._fresh.append(text)
        return number

    def take(self) -> list[bytes]:
        """The texts that got numbers since the last call, in the order of their numbers."""
        fresh, self._fresh = self._fresh, []
        return fresh


class Texts:
    """Texts by their numbers."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array("Q", [0])
        self._read: OrderedDict[int, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, texts: list[bytes]) -> None:
        """Add texts, as `TextNumbers.take` gave them."""
        for text in texts:
            self._data += text
            self._ends.append(len(self._data))

    def all(self) -> list[bytes]:
        """All texts, in the order of their numbers."""
        return [bytes(self._data[start:end]) for start, end in pairwise(self._ends)]

    def __getitem__(self, number: int) -> Any:
        """The value with that number; None for UNKEPT."""
        if number == UNKEPT:
            return None
        value = self._read.get(number)
        if value is None:
            value = orjson.loads(self._data[self._ends[number - 1] : self._ends[number]])
            self._read[number] = value
            if len(self._read) > _READ_KEPT:
                self._read.popitem(last=False)
        return value
