"""IPv4 (RFC 791) and IPv6 (RFC 8200) with extension headers. Header checksums are not verified: hardware fills them in
after the packet was captured."""

from __future__ import annotations

import struct
from typing import Final

from kinspect.link.cursor import IP_PROTOCOL, Cursor

# Version and header length, total length; then as one number, `Segment.mark`: identification, flags and fragment
# offset, time to live, protocol, checksum.
_IPV4: Final = struct.Struct(">BxHQ")
_IPV6: Final = struct.Struct(">B3xHBB")  # version, payload length, next header, hop limit
_FRAGMENT: Final = struct.Struct(">BxHI")  # next header, offset and flag, identification

MORE_FRAGMENTS: Final = 0x2000
OFFSET: Final = 0x1FFF
FRAGMENT_BITS: Final = (MORE_FRAGMENTS | OFFSET) << 32


def ipv4(cursor: Cursor) -> int:
    """IPv4 header; its total length gives the end of the packet.

    Total length 0 comes from segmentation offload: then the packet ends where the capture says.
    """
    if not cursor.has(20):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    version_length, total, mark = _IPV4.unpack_from(data, at)
    header = (version_length & 0x0F) * 4
    if version_length >> 4 != 4 or header < 20:
        return cursor.stop("malformed")
    if total:
        cursor.bound(at + total)
    if not cursor.has(header):
        return cursor.stop_short()
    cursor.addresses = addresses = data[at + 12 : at + 20]
    cursor.at = at + header
    protocol = mark >> 16 & 0xFF
    if not mark & FRAGMENT_BITS:
        cursor.mark = mark
        return IP_PROTOCOL + int(protocol)
    cursor.mark = mark & ~FRAGMENT_BITS
    fragment = mark >> 32
    key = addresses + data[at + 4 : at + 6] + data[at + 9 : at + 10]
    return cursor.fragments.take(
        cursor, key, (fragment & OFFSET) * 8, bool(fragment & MORE_FRAGMENTS), protocol
    )


def ipv6(cursor: Cursor) -> int:
    """IPv6 header. Payload length 0 (a jumbogram, or segmentation offload) means the captured length."""
    if not cursor.has(40):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    version, payload, protocol, hops = _IPV6.unpack_from(data, at)
    if version >> 4 != 6:
        return cursor.stop("malformed")
    if payload:
        cursor.bound(at + 40 + payload)
    cursor.addresses = data[at + 8 : at + 40]
    cursor.mark = hops << 24
    cursor.at = at + 40
    return IP_PROTOCOL + int(protocol)


def extension(cursor: Cursor) -> int:
    """IPv6 extension header, skipped by its length in units of 8 bytes."""
    return _skip(cursor, unit=8, more=1)


def authentication(cursor: Cursor) -> int:
    """Authentication header (RFC 4302), whose length is in units of 4 bytes."""
    return _skip(cursor, unit=4, more=2)


def fragment_header(cursor: Cursor) -> int:
    """IPv6 fragment header; an atomic fragment (RFC 6946) is a whole packet."""
    if not cursor.has(8):
        return cursor.stop_short()
    protocol, fragment, identification = _FRAGMENT.unpack_from(cursor.data, cursor.at)
    cursor.at += 8
    if not fragment & 0xFFF9:
        return IP_PROTOCOL + int(protocol)
    key = cursor.addresses + identification.to_bytes(4, "big")
    return cursor.fragments.take(cursor, key, fragment & 0xFFF8, bool(fragment & 1), protocol)


def _skip(cursor: Cursor, unit: int, more: int) -> int:
    if not cursor.has(8):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    size = (data[at + 1] + more) * unit
    if not cursor.has(size):
        return cursor.stop_short()
    cursor.at = at + size
    return IP_PROTOCOL + data[at]
