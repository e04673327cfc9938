"""IPv4 (RFC 791) and IPv6 (RFC 8200) with extension headers. Header checksums are not looked at: hardware
fills them in behind the capture."""

from __future__ import annotations

import struct

from .cursor import IP_PROTOCOL, Cursor

_IPV4 = struct.Struct(">BxHxxHxB")  # version and header length, total length, fragment, protocol
_IPV6 = struct.Struct(">B3xHB")  # version, payload length, next header

MORE_FRAGMENTS_OR_OFFSET = 0x3FFF


def ipv4(cursor: Cursor) -> int:
    """An IPv4 header; what follows ends where its total length says.

    Total length 0 comes from segmentation offload: the packet then ends where its capture says it ended.
    """
    if not cursor.has(20):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    version_length, total, fragment, protocol = _IPV4.unpack_from(data, at)
    header = (version_length & 0x0F) * 4
    if version_length >> 4 != 4 or header < 20:
        return cursor.stop("malformed")
    if total:
        cursor.bound(at + total)
    if not cursor.has(header):
        return cursor.stop_short()
    if fragment & MORE_FRAGMENTS_OR_OFFSET:
        return cursor.stop("fragment")
    cursor.addresses = data[at + 12 : at + 20]
    cursor.at = at + header
    return IP_PROTOCOL + int(protocol)


def ipv6(cursor: Cursor) -> int:
    """An IPv6 header. Payload length 0 (a jumbogram, or segmentation offload) means the captured length."""
    if not cursor.has(40):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    version, payload, protocol = _IPV6.unpack_from(data, at)
    if version >> 4 != 6:
        return cursor.stop("malformed")
    if payload:
        cursor.bound(at + 40 + payload)
    cursor.addresses = data[at + 8 : at + 40]
    cursor.at = at + 40
    return IP_PROTOCOL + int(protocol)


def extension(cursor: Cursor) -> int:
    """An IPv6 extension header that is skipped by its length in units of 8 bytes."""
    return _skip(cursor, unit=8, more=1)


def authentication(cursor: Cursor) -> int:
    """An authentication header (RFC 4302), whose length is in units of 4 bytes."""
    return _skip(cursor, unit=4, more=2)


def fragment_header(cursor: Cursor) -> int:
    """An IPv6 fragment header; an atomic fragment (RFC 6946) is a whole packet."""
    if not cursor.has(8):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    if int.from_bytes(data[at + 2 : at + 4], "big") & 0xFFF9:
        return cursor.stop("fragment")
    cursor.at = at + 8
    return IP_PROTOCOL + data[at]


def _skip(cursor: Cursor, unit: int, more: int) -> int:
    if not cursor.has(8):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    size = (data[at + 1] + more) * unit
    if not cursor.has(size):
        return cursor.stop_short()
    cursor.at = at + size
    return IP_PROTOCOL + data[at]
