"""Tunnels: packets inside packets.

Sources: VXLAN RFC 7348, Geneve RFC 8926, GRE RFC 2784 and 2890 (NVGRE RFC 7637), ERSPAN
draft-foschiano-erspan-03, IP in IP RFC 2003 and 4213, MPLS RFC 3032 (in UDP RFC 7510), PBB IEEE 802.1ah,
WCCP draft-mclaggan-wccp-v2rev1, FabricPath as Cisco describes it.

A VXLAN or Geneve VNI, a GRE key and a PBB I-SID name the network inside, and go into the segment's key. An ERSPAN
session only says who mirrored the packet, a WCCP service why it was redirected, a FabricPath tag which tree it took,
and an MPLS label belongs to one direction of a path, so none of these tells connections apart.
"""

from __future__ import annotations

import struct
from typing import Final

from kinspect.link.cursor import ETHERTYPE, Cursor
from kinspect.link.frames import IPV4, IPV6, raw_ip
from kinspect.link.ppp import pptp

BRIDGED: Final = ETHERTYPE + 0x6558  # "transparent Ethernet bridging": a whole frame
ERSPAN_1_OR_2: Final = 0x88BE
PPP_IN_GRE: Final = 0x880B

_VXLAN: Final = struct.Struct(">B3xI")  # flags, VNI and a reserved byte
_GENEVE: Final = struct.Struct(">BxHI")  # version and options' length, ethertype, VNI and a reserved byte
_GRE: Final = struct.Struct(">HH")  # flags and version, ethertype

VXLAN_HAS_VNI: Final = 0x08
GRE_CHECKSUM: Final = 0x8000
GRE_ROUTING: Final = 0x4000
GRE_KEY: Final = 0x2000
GRE_SEQUENCE: Final = 0x1000
GRE_VERSION: Final = 0x0007
GRE_FIXED: Final = GRE_CHECKSUM | GRE_ROUTING | GRE_KEY | GRE_VERSION


def vxlan(cursor: Cursor) -> int:
    """VXLAN: an Ethernet frame. A datagram on its port without the VNI flag is something else."""
    if not cursor.has(8):
        return cursor.stop_short()
    flags, vni = _VXLAN.unpack_from(cursor.data, cursor.at)
    if not flags & VXLAN_HAS_VNI:
        return cursor.stop("udp")
    cursor.at += 8
    return cursor.enter(BRIDGED, b"v" + (vni >> 8).to_bytes(4, "big"))


def geneve(cursor: Cursor) -> int:
    """Geneve; its options are skipped, and an ethertype names what follows."""
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
    """GRE with its optional checksum, key and sequence number; version 1 is PPTP's. Source routes are not supported."""
    if not cursor.has(4):
        return cursor.stop_short()
    flags, ethertype = _GRE.unpack_from(cursor.data, cursor.at)
    if flags & GRE_FIXED == GRE_KEY | 1 and ethertype == PPP_IN_GRE:
        return pptp(cursor)
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
    """ERSPAN type II header."""
    if not cursor.has(8):
        return cursor.stop_short()
    cursor.at += 8
    return BRIDGED


def erspan_3(cursor: Cursor) -> int:
    """ERSPAN type III header, which a platform-specific subheader may follow."""
    if not cursor.has(12):
        return cursor.stop_short()
    size = 20 if cursor.data[cursor.at + 11] & 1 else 12
    if not cursor.has(size):
        return cursor.stop_short()
    cursor.at += size
    return BRIDGED


def wccp(cursor: Cursor) -> int:
    """Packet redirected by WCCP, in GRE. Version 2 puts a redirect header of four bytes before it, version 1 none.

    That header begins with two flags and zeros, as no valid IP header does.
    """
    if not cursor.has(4):
        return cursor.stop_short()
    first = cursor.data[cursor.at]
    if not (0x45 <= first <= 0x4F or first >> 4 == 6):
        cursor.at += 4
    return raw_ip(cursor)


def pbb(cursor: Cursor) -> int:
    """Provider backbone bridging: an I-TAG, then the customer's frame."""
    if not cursor.has(4):
        return cursor.stop_short()
    at = cursor.at
    cursor.at = at + 4
    return cursor.enter(BRIDGED, b"i\0" + cursor.data[at + 1 : at + 4])


def fabricpath(cursor: Cursor) -> int:
    """Cisco FabricPath tag (tree and time to live), then the frame as it entered."""
    if not cursor.has(2):
        return cursor.stop_short()
    cursor.at += 2
    return cursor.enter(BRIDGED)


def ipv4_in_ip(cursor: Cursor) -> int:
    return cursor.enter(IPV4)


def ipv6_in_ip(cursor: Cursor) -> int:
    return cursor.enter(IPV6)


def mpls(cursor: Cursor) -> int:
    """MPLS label stack; nothing names what follows, so it is recognised by the version nibble of an IP header."""
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
