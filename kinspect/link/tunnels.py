"""Tunnels: packets inside packets.

Sources: VXLAN RFC 7348, Geneve RFC 8926, GRE RFC 2784 and 2890 (NVGRE RFC 7637), ERSPAN
draft-foschiano-erspan-03, IP in IP RFC 2003 and 4213, MPLS RFC 3032 (in UDP RFC 7510).

A VXLAN or Geneve VNI and a GRE key name the network that is inside: they go into the segment's key. An
ERSPAN session only says who mirrored the packet, and an MPLS label belongs to one direction of a path, so
neither tells connections apart.
"""

from __future__ import annotations

import struct

from .cursor import ETHERTYPE, Cursor
from .frames import IPV4, IPV6

BRIDGED = ETHERTYPE + 0x6558  # "transparent Ethernet bridging": a whole frame
ERSPAN_1_OR_2 = 0x88BE

_VXLAN = struct.Struct(">B3xI")  # flags, VNI and a reserved byte
_GENEVE = struct.Struct(">BxHI")  # version and length of the options, ethertype, VNI and a reserved byte
_GRE = struct.Struct(">HH")  # flags and version, ethertype

VXLAN_HAS_VNI = 0x08
GRE_CHECKSUM, GRE_ROUTING, GRE_KEY, GRE_SEQUENCE, GRE_VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0007


def vxlan(cursor: Cursor) -> int:
    """VXLAN: an Ethernet frame. A datagram on its port without the flag for the VNI is something else."""
    if not cursor.has(8):
        return cursor.stop_short()
    flags, vni = _VXLAN.unpack_from(cursor.data, cursor.at)
    if not flags & VXLAN_HAS_VNI:
        return cursor.stop("udp")
    cursor.at += 8
    return cursor.enter(BRIDGED, b"v" + (vni >> 8).to_bytes(4, "big"))


def geneve(cursor: Cursor) -> int:
    """Geneve, its options skipped; what follows is named by ethertype."""
    if not cursor.has(8):
        return cursor.stop_short()
    version_length, ethertype, vni = _GENEVE.unpack_from(cursor.data, cursor.at)
    if version_length >> 6:
        return cursor.stop("udp")
    size = 8 + (version_length & 0x3F) * 4
    if not cursor.has(size):
        return cursor.stop_short()
    cursor.at += size
    return cursor.enter(ETHERTYPE + ethertype, b"g" + (vni >> 8).to_bytes(4, "big"))


def gre(cursor: Cursor) -> int:
    """GRE with its optional checksum, key and sequence number. Version 1 (PPTP) and source routes are not read."""
    if not cursor.has(4):
        return cursor.stop_short()
    flags, ethertype = _GRE.unpack_from(cursor.data, cursor.at)
    if flags & (GRE_ROUTING | GRE_VERSION):
        return cursor.stop("gre")
    key_at = cursor.at + (8 if flags & GRE_CHECKSUM else 4)
    size = 4 + 4 * (bool(flags & GRE_CHECKSUM) + bool(flags & GRE_KEY) + bool(flags & GRE_SEQUENCE))
    if not cursor.has(size):
        return cursor.stop_short()
    cursor.at += size
    code = ETHERTYPE + ethertype
    if ethertype == ERSPAN_1_OR_2 and not flags & GRE_SEQUENCE:
        code = BRIDGED  # ERSPAN type I has no header of its own
    return cursor.enter(code, b"k" + cursor.data[key_at : key_at + 4] if flags & GRE_KEY else b"")


def erspan_2(cursor: Cursor) -> int:
    """The header of ERSPAN type II."""
    if not cursor.has(8):
        return cursor.stop_short()
    cursor.at += 8
    return BRIDGED


def erspan_3(cursor: Cursor) -> int:
    """The header of ERSPAN type III, behind which a platform's own one may stand."""
    if not cursor.has(12):
        return cursor.stop_short()
    size = 20 if cursor.data[cursor.at + 11] & 1 else 12
    if not cursor.has(size):
        return cursor.stop_short()
    cursor.at += size
    return BRIDGED


def ipv4_in_ip(cursor: Cursor) -> int:
    return cursor.enter(IPV4)


def ipv6_in_ip(cursor: Cursor) -> int:
    return cursor.enter(IPV6)


def mpls(cursor: Cursor) -> int:
    """A stack of labels; nothing names what follows, so the version nibble of an IP header must."""
    bottom = 0
    while not bottom:
        if not cursor.has(4):
            return cursor.stop_short()
        bottom = cursor.data[cursor.at + 2] & 1
        cursor.at += 4
    if not cursor.has(1):
        return cursor.stop_short()
    version = cursor.data[cursor.at] >> 4
    if version == 4:
        return cursor.enter(IPV4)
    return cursor.enter(IPV6) if version == 6 else cursor.stop("mpls")
