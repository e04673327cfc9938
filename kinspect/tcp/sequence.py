"""Sequence numbers: 32-bit serial arithmetic (RFC 9293 §3.4)."""

from __future__ import annotations

from typing import Final

MASK: Final = 0xFFFFFFFF
HALF_SPACE: Final = 0x80000000

# The largest possible window (RFC 7323 §2.3): no valid number is farther from the expected one.
MAX_WINDOW: Final = 1 << 30

# Greatest distance from the expected numbers at which a packet's numbers count as a connection's.
NEAR: Final = 1 << 24


def distance(number: int, origin: int) -> int:
    """Signed distance from `origin` to `number`; negative if `number` is behind."""
    return ((number - origin + HALF_SPACE) & MASK) - HALF_SPACE
