"""What rows have in common, each kept once: connections, clients, names, faults."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from hashlib import blake2b
from typing import Any

import orjson

UNKEPT = 0
"""The number of what there was no room for."""
KEPT_BYTES = 64 * 1024 * 1024
"""Bytes of texts kept, at most; what comes then is not kept, and its rows say so."""
KEPT = 400_000
"""Texts kept, at most."""
_READ_KEPT = 4096


class Numbering:
    """Gives equal values equal numbers; `fresh` are the texts since the last `take`."""

    def __init__(self, kept_bytes: int = KEPT_BYTES, kept: int = KEPT) -> None:
        self._numbers: dict[bytes, int] = {}
        self._room = kept_bytes
        self._kept = kept
        self._fresh: list[bytes] = []
        self._asked = 0

    @property
    def grew(self) -> bool:
        """Whether a value got a new number since the last time this was asked."""
        before, self._asked = self._asked, len(self._numbers)
        return self._asked != before

    def number(self, value: Any) -> int:
        """The number of a value that JSON can hold; UNKEPT if there is no room for it."""
        return self.of_text(orjson.dumps(value))

    def of_text(self, text: bytes) -> int:
        """The number of a value that is JSON already."""
        # What is known is known by its digest: the texts themselves are kept where they are read.
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
    """The texts by their numbers."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ends = array("Q", [0])
        self._read: OrderedDict[int, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, texts: list[bytes]) -> None:
        """More texts, as `Numbering.take` gave them."""
        for text in texts:
            self._data += text
            self._ends.append(len(self._data))

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
