"""Lookup of the connection that a packet belongs to, among those of its island.

Two connections may have the same ends at once: two hosts' captures read together, a forged packet, or ports used again
while the old connection is still active. Their sequence numbers tell them apart: a packet belongs to a connection if
its numbers are `NEAR` those expected, and to the nearest of several. A connection that takes its bytes from one input
file alone, because another file has others in their place, takes packets of that file only.

The same addresses and ports may be used in two VLANs or tunnels at once, and one connection may be seen in
several: its directions take different VLANs or tunnels, a mirror port shows it before and behind a router, a
capture on all interfaces shows it inside and outside a tunnel. So a packet with a scope that is new to its
addresses and ports joins a connection if its numbers fit there, but

* one direction is never in two tunnels of different numbers: these are two connections;
* one direction is in two VLANs only as a router or a change of path makes it. A packet that was seen already,
  and now comes on another VLAN with the same time to live, is of another connection.

Not noticed: two connections on the same ends whose directions cross, each with one on either VLAN; two of one file
with sequence numbers closer than `NEAR` in both directions, but for the bytes that conflict.
"""

from __future__ import annotations

from typing import Final

from kinspect.model import ACK, FRAME_BITS, SYN, Segment
from kinspect.tcp.connection import Connection, HalfConnection, Island
from kinspect.tcp.flowkeys import ends, scope, tunnels
from kinspect.tcp.sequence import MAX_WINDOW, NEAR, distance

# A SYN-ACK acknowledges the SYN and perhaps as much data in it.
SYN_DISTANCE: Final = 0xFFFF

# Number of connections on the same ends that are considered, the newest ones.
LOOKED_AT: Final = 16

# Greatest distance at which numbers are taken for those of the connection that sent last on a key.
CLOSE: Final = 1 << 16

FAR: Final = (1 << 62) - 1


def _newest_halves(island: Island, key: bytes) -> list[HalfConnection]:
    """Senders of the key's packets in the newest connections, the newest first."""
    here = ends(key)
    return [
        connection.halves[ends(connection.key) != here]
        for connection in reversed(island.connections[-LOOKED_AT:])
    ]


def has_nearer(island: Island, half: HalfConnection, segment: Segment) -> bool:
    """True if a packet may belong to another connection than its key leads to, although its numbers fit there."""
    if len(island.connections) == 1:
        return False
    key, _, seq, ack, flags, _, _, _, _, frame, _ = segment
    is_open = half.connection.end_reason is None
    if is_open and distance_from(half, seq, ack, flags, frame) < CLOSE:
        return False
    return any(
        other is not half and other.scope in (None, scope(key)) for other in _newest_halves(island, key)
    )


def find_half(
    island: Island, segment: Segment, but: Connection | None, open_only: bool
) -> HalfConnection | None:
    """Direction of a connection other than `but` that a packet belongs to; the nearest of several."""
    key, _, seq, ack, flags, _, start, end, missing, frame, mark = segment
    packets, size, hops = scope(key), end - start + missing, mark >> 24 & 0xFF
    best, least = None, FAR
    for half in _newest_halves(island, key):
        connection = half.connection
        if open_only and connection.end_reason is not None:
            continue
        if connection is not but and _may_be_in(half, packets, seq, flags, size, hops):
            # Connections seen in the packet's own scope come first, and open ones.
            behind = (half.scope not in (None, packets)) * 2 + (connection.end_reason is not None)
            away = distance_from(half, seq, ack, flags, frame) + behind * 2 * NEAR
            if away < least:
                best, least = half, away
    return best


def _may_be_in(half: HalfConnection, packets: bytes, seq: int, flags: int, size: int, hops: int) -> bool:
    """True if the direction may also be seen in the packet's scope."""
    own = half.scope
    if own is None or own == packets:
        return True
    inside, others = tunnels(own), tunnels(packets)
    if inside and others and inside != others:
        return False
    if len(own) == len(inside) or len(packets) == len(others):
        return True
    known = half.isn == seq if flags & SYN else size > 0 and half.has_reached(seq + size)
    return not known or hops != half.hops


def _away(half: HalfConnection, seq: int, ack: int, flags: int) -> tuple[int | None, int | None]:
    """Distances of a packet's sequence number and acknowledgment from those expected; None where none is expected."""
    peer = half.peer
    return (
        abs(distance(seq, half.next)) if half.next >= 0 else None,
        abs(distance(ack, peer.next)) if flags & ACK and peer.next >= 0 else None,
    )


def distance_from(half: HalfConnection, seq: int, ack: int, flags: int, frame: int) -> int:
    """Distance of a packet's numbers from a connection's expected ones; `FAR` if the packet is not one of its own."""
    connection, peer = half.connection, half.peer
    if connection.file is not None and frame >> FRAME_BITS != connection.file:
        return FAR
    if flags & SYN:
        if half.isn >= 0:
            return 0 if half.isn == seq else FAR
        acknowledges = flags & ACK and peer.isn >= 0 and not half.seen
        return 1 if acknowledges and 0 < distance(ack, peer.isn) <= SYN_DISTANCE else FAR
    known = [away for away in _away(half, seq, ack, flags) if away is not None]
    return sum(known) if known and max(known) < NEAR else FAR


def is_near(half: HalfConnection, seq: int, ack: int, flags: int, frame: int) -> bool:
    """True if a packet other than a SYN may belong to the connection that its key leads to.

    A loss may be longer than `NEAR`, but not in both directions. Where the peer's acknowledgments mean nothing, as in
    made-up captures, the sequence number alone decides.
    """
    connection, peer = half.connection, half.peer
    if connection.file is not None and frame >> FRAME_BITS != connection.file:
        return False
    ahead, acked = _away(half, seq, ack, flags)
    if acked is None:
        return ahead is None or ahead < MAX_WINDOW
    if ahead is None:
        return acked < NEAR or not ack
    if min(ahead, acked) < NEAR and max(ahead, acked) < MAX_WINDOW:
        return True
    return ahead < NEAR and (not ack or (half.ack >= 0 and abs(distance(half.ack, peer.next)) >= NEAR))
