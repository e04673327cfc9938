"""The TCP header (RFC 9293 §3.1). The checksum is not looked at: hardware fills it in behind the capture."""

from __future__ import annotations

import struct

from .cursor import STOP, Cursor

_TCP = struct.Struct(">4xIIBB")  # sequence, acknowledgment, data offset, flags


def tcp(cursor: Cursor) -> int:
    """Fills in the cursor's key and numbers and leaves it at the first byte of payload."""
    if not cursor.has(20):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    seq, ack, offset, flags = _TCP.unpack_from(data, at)
    header = (offset >> 4) * 4
    if header < 20:
        return cursor.stop("malformed")
    if not cursor.has(header):
        return cursor.stop_short()
    cursor.key = cursor.addresses + data[at : at + 4]
    cursor.seq = seq
    cursor.ack = ack
    cursor.flags = flags
    cursor.at = at + header
    return STOP
