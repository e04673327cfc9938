"""ERF records of Endace's cards (ERF types reference, endace.com/erf-extensible-record-format-types.pdf): a header, its
extension headers, a packet."""

from __future__ import annotations

import struct
from typing import Final

from kinspect.link.cursor import LINK_TYPE, Cursor

HEADER: Final = 16
EXTENSION: Final = 8
MORE: Final = 0x80  # bit of a record's type, and of an extension header's first byte: another one follows

_ETHERNET: Final = 1
_PPP_HDLC: Final = 50
_IPV4: Final = 228
_IPV6: Final = 229
_INFINIBAND: Final = 247

OTHERS: Final = {3: "erf atm", 4: "erf aal5", 27: "erf metadata"}
"""Names in the summary of common record types that carry no packet."""

PAD: Final = 48
"""Record type of padding."""

# By record type: the LINKTYPE_ value of the packet, and the bytes between the extension headers and the packet.
RECORD_LINK_TYPES: Final = {
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

COUNTS_LOSS: Final = frozenset({1, 2, 5, 21, 22, 23})
"""Record types that count packets lost since the last record, in the field where the others have a color or a hash."""

_LENGTHS: Final = struct.Struct(">8xBxHxxH")  # type, record length, wire length


def headers_end(data: bytes, start: int, end: int) -> int:
    """Position at which the extension headers of the record that starts at `start` end; greater than `end` if they are
    not complete before it."""
    at = start + HEADER
    more = data[start + 8] & MORE
    while more and at < end:
        more = data[at] & MORE
        at += EXTENSION
    return end + 1 if more else at


def erf(cursor: Cursor) -> int:
    """LINKTYPE_ERF: one record. Its wire length counts from behind the headers."""
    if not cursor.has(HEADER):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    kind, length, wire_length = _LENGTHS.unpack_from(data, at)
    kind &= ~MORE
    if kind not in RECORD_LINK_TYPES:
        return cursor.stop(OTHERS.get(kind) or f"erf type {kind}")
    link_type, before = RECORD_LINK_TYPES[kind]
    end = min(at + length, cursor.end)
    start = headers_end(data, at, end) + before
    if start > end:
        return cursor.stop_short()
    cursor.at = start
    cursor.end = end
    cursor.bound(start + wire_length)
    return LINK_TYPE + link_type
