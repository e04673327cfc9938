"""Inputs that are scripts: bytes read as steps, and steps written as bytes for the seeds."""

from __future__ import annotations


class Script:
    """Reads numbers and bytes; behind the end there are zeros and nothing."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return max(len(self._data) - self._at, 0)

    def take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def rest(self) -> bytes:
        return self.take(self.left)

    def byte(self) -> int:
        return int.from_bytes(self.take(1), "big")

    def short(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def signed(self) -> int:
        return int.from_bytes(self.take(1), "big", signed=True)


def short(value: int) -> bytes:
    return value.to_bytes(2, "big")
