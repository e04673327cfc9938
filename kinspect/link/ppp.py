"""PPP (RFC 1661), in HDLC-like framing (RFC 1662), over Ethernet (RFC 2516) and in GRE (PPTP, RFC 2637), and Cisco's
HDLC (RFC 1547 §4.3.1).

A PPPoE session or a PPTP call belongs to one link, and may be replaced by a new one while the connections on it go on:
their numbers do not tell connections apart.
"""

from __future__ import annotations

import struct
from typing import Final

from kinspect.link.cursor import ETHERTYPE, LINK_TYPE, PPP, Cursor

PPP_FRAME: Final = LINK_TYPE + 9
ADDRESS_AND_CONTROL: Final = b"\xff\x03"
CISCO: Final = (0x0F, 0x8F)  # an address of Cisco's HDLC: unicast, broadcast

_PPPOE: Final = struct.Struct(">BBxxH")  # version and type, code, session, length
_PPTP: Final = struct.Struct(">H2xH2x")  # GRE's flags, its protocol, payload length, call

PPPOE_VERSION: Final = 0x11
PPPOE_SESSION: Final = 0
PPTP_SEQUENCE: Final = 0x1000
PPTP_ACKNOWLEDGMENT: Final = 0x0080


def ppp(cursor: Cursor) -> int:
    """LINKTYPE_PPP: address and control may be left out, and so may the first byte of a protocol number below 256."""
    if cursor.data[cursor.at : cursor.at + 2] == ADDRESS_AND_CONTROL and cursor.has(2):
        cursor.at += 2
    if not cursor.has(2):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    if data[at] & 1:
        cursor.at = at + 1
        return PPP + data[at]
    cursor.at = at + 2
    return PPP + int.from_bytes(data[at : at + 2], "big")


def ppp_hdlc(cursor: Cursor) -> int:
    """LINKTYPE_PPP_HDLC: PPP or Cisco's HDLC, told apart by the address."""
    if not cursor.has(1):
        return cursor.stop_short()
    return cisco_hdlc(cursor) if cursor.data[cursor.at] in CISCO else PPP_FRAME


def cisco_hdlc(cursor: Cursor) -> int:
    """LINKTYPE_C_HDLC: address, control, ethertype."""
    if not cursor.has(4):
        return cursor.stop_short()
    at = cursor.at
    cursor.at = at + 4
    return ETHERTYPE + int.from_bytes(cursor.data[at + 2 : at + 4], "big")


def pppoe(cursor: Cursor) -> int:
    """PPPoE session packet, also LINKTYPE_PPP_ETHER."""
    if not cursor.has(6):
        return cursor.stop_short()
    version, code, size = _PPPOE.unpack_from(cursor.data, cursor.at)
    if version != PPPOE_VERSION or code != PPPOE_SESSION:
        return cursor.stop("pppoe")
    cursor.at += 6
    cursor.bound(min(cursor.wire_end, cursor.at + size))
    return PPP_FRAME


def pptp(cursor: Cursor) -> int:
    """GRE version 1, whose key holds the payload length. Without a sequence number it carries nothing."""
    if not cursor.has(8):
        return cursor.stop_short()
    flags, size = _PPTP.unpack_from(cursor.data, cursor.at)
    header = 8 + 4 * (bool(flags & PPTP_SEQUENCE) + bool(flags & PPTP_ACKNOWLEDGMENT))
    if not flags & PPTP_SEQUENCE or not size:
        return cursor.stop("pptp acknowledgment")
    if not cursor.has(header):
        return cursor.stop_short()
    cursor.at += header
    cursor.bound(min(cursor.wire_end, cursor.at + size))
    return cursor.enter(PPP_FRAME)
