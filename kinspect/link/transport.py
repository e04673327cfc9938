"""TCP (RFC 9293 §3.1) and, for the tunnels in it, UDP (RFC 768). Checksums are not verified: hardware fills them in
after the packet was captured."""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

from kinspect.link.cursor import STOP, UDP_PORT, Cursor

_TCP: Final = struct.Struct(">4xIIBB")  # sequence, acknowledgment, data offset, flags
_UDP: Final = struct.Struct(">2xHH")  # destination port, length

IPV4_ADDRESSES: Final = 8


def tcp(cursor: Cursor) -> int:
    """Fill in the cursor's key and numbers, and leave it at the first byte of payload."""
    if not cursor.has(20):
        return cursor.stop_short()
    data, at = cursor.data, cursor.at
    seq, ack, offset, flags = _TCP.unpack_from(data, at)
    header = (offset >> 4) * 4
    if header < 20:
        return cursor.stop("malformed")
    if not cursor.has(header):
        return cursor.stop_short()
    cursor.key = cursor.addresses + data[at : at + 4] + cursor.networks
    if cursor.vlan:
        cursor.key += cursor.vlan.to_bytes(3, "big")
    if len(cursor.addresses) > IPV4_ADDRESSES:
        # IPv6 has no identification: the TCP header with its timestamp distinguishes transmissions. Without options
        # what is sent again looks as it did before: no identification then.
        checksum = crc32(data[at : at + header])
        cursor.mark |= (checksum if header > 20 else checksum & 0xFFFF) << 32
    cursor.seq = seq
    cursor.ack = ack
    cursor.flags = flags
    cursor.at = at + header
    return STOP


def udp(cursor: Cursor) -> int:
    """UDP header. The destination port decides the next layer; tunnels choose the source port at random.

    A length below that of the header comes from segmentation offload: then IP's length holds.
    """
    if not cursor.has(8):
        return cursor.stop_short()
    port, size = _UDP.unpack_from(cursor.data, cursor.at)
    if size >= 8:
        cursor.bound(min(cursor.wire_end, cursor.at + size))
    cursor.at += 8
    return UDP_PORT + int(port)
