"""Whether a packet belongs to a connection that was seen in another scope.

The same addresses and ports may be used in two VLANs or tunnels at once, and one connection may be seen in
several: its directions take different VLANs or tunnels, a mirror port shows it before and behind a router, a
capture on all interfaces shows it inside and outside a tunnel. So a packet with a scope that is new to its
addresses and ports joins a connection if its numbers fit there, but

* one direction is never in two tunnels of different numbers: these are two connections;
* one direction is in two VLANs only as a router or a change of path makes it. A packet that was seen already,
  and now comes on another VLAN with the same time to live, is of another connection.

Not noticed: two connections on the same ends whose directions cross, each with one on either VLAN; two
with sequence numbers closer than `NEAR` in both directions.
"""

from __future__ import annotations

from collections import deque

from ..model import ACK, SYN
from .connection import Connection, Half
from .keys import ends, reverse_key, scope, tunnels
from .sequence import distance

# How far a packet's numbers may be from where a connection stands.
NEAR = 1 << 24

# A SYN-ACK acknowledges the SYN and perhaps as much data in it.
SYN_DISTANCE = 0xFFFF

# So many connections on the same ends are looked at, the newest ones.
LOOKED_AT = 16


class Kin:
    """The connections that were seen in a scope, by their ends."""

    def __init__(self) -> None:
        self._halves: dict[bytes, deque[Half]] = {}

    def add(self, connection: Connection) -> None:
        if scope(connection.key):
            for half, at in _by_ends(connection):
                self._halves.setdefault(at, deque(maxlen=LOOKED_AT)).append(half)

    def forget(self, connection: Connection) -> None:
        if scope(connection.key):
            for half, at in _by_ends(connection):
                halves = self._halves.get(at)
                if halves is not None and half in halves:
                    halves.remove(half)
                    if not halves:
                        del self._halves[at]

    def find(
        self,
        key: bytes,
        bare: Half | None,
        but: Connection | None,
        seq: int,
        ack: int,
        flags: int,
        size: int,
        hops: int,
    ) -> Half | None:
        """The direction of a connection, other than `but`, that a packet with a new key belongs to.

        `bare` is the one that has the packet's ends and no scope.
        """
        candidates = list(self._halves.get(ends(key), ()))
        if bare is not None:
            candidates.append(bare)
        for half in reversed(candidates):
            if (
                half.connection is not but
                and _may_be_in(half, scope(key), seq, flags, size, hops)
                and _fits(half, seq, ack, flags)
            ):
                return half
        return None


def _by_ends(connection: Connection) -> tuple[tuple[Half, bytes], tuple[Half, bytes]]:
    first, second = connection.halves
    return (first, ends(connection.key)), (second, ends(reverse_key(connection.key)))


def _may_be_in(half: Half, packets: bytes, seq: int, flags: int, size: int, hops: int) -> bool:
    """Whether the direction may be seen in the packet's scope as well."""
    own = half.scope
    if own is None:
        return True
    inside, others = tunnels(own), tunnels(packets)
    if inside and others and inside != others:
        return False
    if len(own) == len(inside) or len(packets) == len(others):
        return True
    known = half.isn == seq if flags & SYN else size > 0 and half.has_reached(seq + size)
    return not known or hops != half.hops


def _fits(half: Half, seq: int, ack: int, flags: int) -> bool:
    """Whether a packet's numbers are those of the connection."""
    peer = half.peer
    if flags & SYN:
        if half.isn >= 0:
            return half.isn == seq
        acknowledges = flags & ACK and peer.isn >= 0 and not half.seen
        return bool(acknowledges) and 0 < distance(ack, peer.isn) <= SYN_DISTANCE
    known = [(seq, half.next)] if half.next >= 0 else []
    if flags & ACK and peer.next >= 0:
        known.append((ack, peer.next))
    return bool(known) and all(abs(distance(number, at)) < NEAR for number, at in known)
