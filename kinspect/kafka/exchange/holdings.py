"""Bytes that the connections of a run hold for unfinished messages, and the limit on their sum."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, Protocol

from kinspect.model import Counts

# Approximate memory of an exchange beside its raw bytes: objects, and its place among the requests in flight.
EXCHANGE_BYTES: Final = 2048
# Approximate memory of a piece of a message beside its bytes.
PIECE_BYTES: Final = 100


class Owner(Protocol):
    """Holder of bytes: a framer, a connection not recognised yet, a session for its exchanges."""

    def make_room(self, key: Any) -> None:
        """Release what is held under `key`; it is no longer counted."""


class Holdings:
    """Bytes held over all connections, oldest first: parts of messages, requests in flight, data not recognised yet.
    Above `limit` the oldest are released, but never those just added: one message may be as long as
    `Caps.message_bytes` allows.
    """

    __slots__ = ("_counts", "_held", "_making_room", "bytes", "limit")

    def __init__(self, limit: int, counts: Counts) -> None:
        self.limit = limit
        self.bytes = 0
        self._counts = counts
        # A plain dict looks for its first entry among all that were deleted before it.
        self._held: OrderedDict[Any, tuple[Owner, int]] = OrderedDict()
        self._making_room = False

    def hold(self, key: Any, owner: Owner, size: int) -> None:
        """Note that `owner` holds `size` more bytes under `key`."""
        known = self._held.get(key)
        self._held[key] = owner, size if known is None else known[1] + size
        self.bytes += size
        if self.bytes > self.limit and not self._making_room:
            self._make_room(key)

    def release(self, key: Any) -> None:
        """Note that nothing is held under `key` any more."""
        known = self._held.get(key)
        if known is not None:
            del self._held[key]
            self.bytes -= known[1]

    def _make_room(self, newest: Any) -> None:
        self._making_room = True
        while self.bytes > self.limit and len(self._held) > 1:
            oldest = next(iter(self._held))
            if oldest is newest:
                # It grows, and was begun before the others: it is released last.
                self._held.move_to_end(newest)
                continue
            owner, size = self._held.pop(oldest)
            self.bytes -= size
            self._counts.hit("total_bytes")
            owner.make_room(oldest)
        self._making_room = False
