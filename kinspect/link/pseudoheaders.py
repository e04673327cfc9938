"""Headers that the capturing system puts before packets: Apple's PKTAP and Linux's NFLOG.

Sources: the LINKTYPE_ registry (tcpdump.org/linktypes.html), Apple's net/pktap.h, Linux' nfnetlink_log.h.
"""

from __future__ import annotations

import struct
from typing import Final

from kinspect.link.cursor import LINK_TYPE, Cursor
from kinspect.link.frames import FAMILIES

_PKTAP: Final = struct.Struct("<III")  # header length, record type, DLT_ value
PKTAP_HEADER: Final = 108  # newer systems have longer ones
PKTAP_PACKET: Final = 1
HIGHEST_LINK_TYPE: Final = 0xFFFF

_LITTLE_ENDIAN: Final = struct.Struct("<HH")  # a field's length with these four bytes, its type
_BIG_ENDIAN: Final = struct.Struct(">HH")
NFLOG_HEADER: Final = 4  # address family, version, resource
NFLOG_FIELD: Final = 4
NFLOG_PAYLOAD: Final = 9
NFLOG_TYPES: Final = 0x3FFF  # without the flags above them
HIGHEST_NFLOG_TYPE: Final = 0xFF


def pktap(cursor: Cursor) -> int:
    """LINKTYPE_PKTAP: the header names the link type of the packet behind it.

    The interface and the process in it describe the capture point, and do not tell connections apart.
    """
    if not cursor.has(PKTAP_HEADER):
        return cursor.stop_short()
    if not _is_pktap(cursor):
        return cursor.stop("malformed")
    length, _, link_type = _PKTAP.unpack_from(cursor.data, cursor.at)
    cursor.at += length
    return LINK_TYPE + int(link_type)


def user_2(cursor: Cursor) -> int:
    """LINKTYPE_USER2, free for private use, which Apple's systems write for PKTAP."""
    if cursor.has(PKTAP_HEADER) and _is_pktap(cursor):
        return pktap(cursor)
    return cursor.stop("link type 149")


def _is_pktap(cursor: Cursor) -> bool:
    length, kind, link_type = _PKTAP.unpack_from(cursor.data, cursor.at)
    return bool(
        length >= PKTAP_HEADER
        and cursor.at + length <= cursor.wire_end
        and kind == PKTAP_PACKET
        and link_type <= HIGHEST_LINK_TYPE
    )


def nflog(cursor: Cursor) -> int:
    """LINKTYPE_NFLOG: fields in the byte order of the capturing host, one of which holds the IP packet.

    The kernel may have copied only part of the packet: then IP's length reaches beyond the field.
    """
    if not cursor.has(NFLOG_HEADER + NFLOG_FIELD):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    family = data[at]
    at += NFLOG_HEADER
    field = _LITTLE_ENDIAN
    if field.unpack_from(data, at)[1] & NFLOG_TYPES > HIGHEST_NFLOG_TYPE:
        field = _BIG_ENDIAN
    while at + NFLOG_FIELD <= cursor.end:
        length, kind = field.unpack_from(data, at)
        if length < NFLOG_FIELD:
            return cursor.stop("malformed")
        if kind & NFLOG_TYPES == NFLOG_PAYLOAD:
            cursor.at = at + NFLOG_FIELD
            cursor.bound(at + length)
            return FAMILIES.get(family) or cursor.stop(f"address family {family}")
        at += length + -length % 4
    return cursor.stop_short() if cursor.wire_end > cursor.end else cursor.stop("nflog")
