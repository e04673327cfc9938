"""Sequence numbers: 32-bit serial arithmetic (RFC 9293 §3.4)."""

from __future__ import annotations

MASK = 0xFFFFFFFF
HALF_SPACE = 0x80000000

# The largest window there is (RFC 7323 §2.3): no valid number is farther from the expected one.
MAX_WINDOW = 1 << 30

# A packet's numbers are taken for those of a connection if they are no farther from where it stands.
NEAR = 1 << 24


def distance(number: int, origin: int) -> int:
    """How far `number` lies ahead of `origin`; negative if behind."""
    return ((number - origin + HALF_SPACE) & MASK) - HALF_SPACE
