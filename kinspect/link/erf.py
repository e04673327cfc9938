"""ERF records of Endace's cards (ERF types reference, endace.com/erf-extensible-record-format-types.pdf): a header, its
extensions, a packet."""

from __future__ import annotations

import struct

from .cursor import LINK_TYPE, Cursor

HEADER = 16
EXTENSION = 8
MORE = 0x80  # of a record's type, and of an extension's first byte: another extension follows

_ETHERNET, _PPP_HDLC, _IPV4, _IPV6, _INFINIBAND = 1, 50, 228, 229, 247

OTHERS = {3: "erf atm", 4: "erf aal5", 27: "erf metadata"}
"""How the summary calls records of other types, those that people meet."""

PAD = 48
"""The type of a record that holds nothing."""

# By a record's type: the LINKTYPE_ value of the packet, and how much stands before it behind the extensions.
CARRIED = {
    1: (_PPP_HDLC, 0),  # HDLC_POS
    2: (_ETHERNET, 2),  # ETH
    5: (_PPP_HDLC, 4),  # MC_HDLC
    10: (_PPP_HDLC, 0),  # COLOR_HDLC_POS
    11: (_ETHERNET, 2),  # COLOR_ETH
    15: (_PPP_HDLC, 0),  # DSM_COLOR_HDLC_POS
    16: (_ETHERNET, 2),  # DSM_COLOR_ETH
    17: (_PPP_HDLC, 4),  # COLOR_MC_HDLC_POS
    19: (_PPP_HDLC, 0),  # COLOR_HASH_POS
    20: (_ETHERNET, 2),  # COLOR_HASH_ETH
    21: (_INFINIBAND, 0),  # INFINIBAND
    22: (_IPV4, 0),  # IPV4
    23: (_IPV6, 0),  # IPV6
}

COUNTS_LOSS = frozenset({1, 2, 5, 21, 22, 23})
"""The types that count packets lost since the last record where the others have a color or a hash."""

_LENGTHS = struct.Struct(">8xBxHxxH")  # type, record length, wire length


def headers_end(data: bytes, start: int, end: int) -> int:
    """Where the extensions of the record that begins at `start` end; beyond `end` if they do not end before."""
    at = start + HEADER
    more = data[start + 8] & MORE
    while more and at < end:
        more = data[at] & MORE
        at += EXTENSION
    return end + 1 if more else at


def erf(cursor: Cursor) -> int:
    """LINKTYPE_ERF: a record. The wire length counts from behind its headers."""
    if not cursor.has(HEADER):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    kind, length, wire_length = _LENGTHS.unpack_from(data, at)
    kind &= ~MORE
    if kind not in CARRIED:
        return cursor.stop(OTHERS.get(kind) or f"erf type {kind}")
    link_type, before = CARRIED[kind]
    end = min(at + length, cursor.end)
    start = headers_end(data, at, end) + before
    if start > end:
        return cursor.stop_short()
    cursor.at = start
    cursor.end = end
    cursor.bound(start + wire_length)
    return LINK_TYPE + link_type
