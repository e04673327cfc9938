"""Errors of ICMP (RFC 792, RFC 1191) and ICMPv6 (RFC 4443) that quote the beginning of a TCP segment."""

from __future__ import annotations

import struct
from typing import Final

from kinspect.link.cursor import STOP, Cursor
from kinspect.model import ICMP_ERRORS, QUOTED

_HEADER: Final = struct.Struct(">BB2xI")  # type, code, and in some errors the MTU
_HEADER_SIZE: Final = _HEADER.size
_TCP: Final = 6
_QUOTED_TCP: Final = 8
"""Bytes of the segment that every error quotes at least: its ports and its sequence number."""
_MTU: Final = 0xFFFF
_FRAGMENTED: Final = 0x1FFF

# Names of `ICMP_ERRORS` by type and code.
_ERRORS_4: Final = {
    (3, 0): "network_unreachable",
    (3, 1): "host_unreachable",
    (3, 2): "protocol_unreachable",
    (3, 3): "port_unreachable",
    (3, 4): "packets_too_large",
    (3, 5): "source_route_failed",
    (3, 6): "network_unknown",
    (3, 7): "host_unknown",
    (3, 9): "network_prohibited",
    (3, 10): "host_prohibited",
    (3, 11): "network_unreachable",  # for the type of service
    (3, 12): "host_unreachable",
    (3, 13): "prohibited",
    (11, 0): "hop_limit_exceeded",
}
_ERRORS_6: Final = {
    (1, 0): "network_unreachable",
    (1, 1): "prohibited",
    (1, 2): "beyond_scope",
    (1, 3): "host_unreachable",
    (1, 4): "port_unreachable",
    (1, 5): "policy_failed",
    (1, 6): "route_rejected",
    (2, 0): "packets_too_large",
    (3, 0): "hop_limit_exceeded",
}


def icmp(cursor: Cursor) -> int:
    """ICMP."""
    at = cursor.at + _HEADER_SIZE
    header = (cursor.data[at] & 0x0F) * 4 if cursor.has(_HEADER_SIZE + 20) else 0
    if header < 20 or not cursor.has(_HEADER_SIZE + header + _QUOTED_TCP):
        return cursor.stop("icmp")
    data = cursor.data
    fragment = int.from_bytes(data[at + 6 : at + 8]) & _FRAGMENTED
    if data[at] >> 4 != 4 or data[at + 9] != _TCP or fragment:
        return cursor.stop("icmp")
    return _quoted(cursor, "icmp", _ERRORS_4, data[at + 12 : at + 20], at + header)


def icmpv6(cursor: Cursor) -> int:
    """ICMPv6. A quoted packet with extension headers is not looked into."""
    at = cursor.at + _HEADER_SIZE
    data = cursor.data
    if not cursor.has(_HEADER_SIZE + 40 + _QUOTED_TCP) or data[at] >> 4 != 6 or data[at + 6] != _TCP:
        return cursor.stop("icmpv6")
    return _quoted(cursor, "icmpv6", _ERRORS_6, data[at + 8 : at + 40], at + 40)


def _quoted(cursor: Cursor, name: str, errors: dict[tuple[int, int], str], addresses: bytes, tcp: int) -> int:
    """Leave the error at the cursor as a segment without bytes of the quoted one's sender: `model.QUOTED`."""
    data = cursor.data
    kind, code, mtu = _HEADER.unpack_from(data, cursor.at)
    error = errors.get((kind, code))
    if error is None:
        return cursor.stop(name)
    cursor.key = addresses + data[tcp : tcp + 4] + cursor.networks
    if cursor.vlan:
        cursor.key += cursor.vlan.to_bytes(3, "big")
    cursor.seq = int.from_bytes(data[tcp + 4 : tcp + 8])
    cursor.ack = mtu & _MTU if error == "packets_too_large" else 0
    cursor.flags = QUOTED | ICMP_ERRORS.index(error)
    cursor.mark = 0
    cursor.end = cursor.wire_end = cursor.at
    cursor.quotes = name
    return STOP
