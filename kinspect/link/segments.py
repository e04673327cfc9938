"""A block of packets to rows of TCP segments."""

from __future__ import annotations

import struct
from typing import cast

from ..model import Block, Counts, Segment
from .cursor import Cursor
from .tables import LAYERS, LINK_TYPES, layer_name

# What nearly every packet is: an ethertype, IPv4 without options, TCP. Ethertype, version and header length,
# total length, fragment, protocol, then (behind checksum, addresses and ports) sequence, acknowledgment, and
# data offset and flags.
_USUAL = struct.Struct(">HBxHxxHxB14xIIH")
_USUAL_SIZE = _USUAL.size

# Link types with an ethertype right before the IP header, and where it stands.
_ETHERTYPE_AT = {1: 12, 113: 14}
_NOWHERE = 1 << 62


def segments(block: Block, counts: Counts) -> list[Segment]:
    """The TCP segments of a block, in packet order; adds every packet to `counts`.

    A row holds offsets into the block's buffer, no copy of payload. A packet that gives no row is counted in
    `counts.undecoded_packets` by its reason (`arp`, `udp`, `fragment`, `truncated`, `link type 147`, ...).
    Never raises, whatever the bytes.
    """
    # A plain tuple in Segment's order: making the named one would cost as much as all the rest.
    rows: list[tuple[bytes, int | None, int, int, int, bytes, int, int, int, int]] = []
    append = rows.append
    unpack = _USUAL.unpack_from
    data = block.data
    frame = block.first_frame - 1
    cursor = Cursor()
    link_type = -1
    ethertype_at = _NOWHERE
    for start, end, time, wire_length, packet_link_type in zip(
        block.starts, block.ends, block.times, block.wire_lengths, block.link_types, strict=True
    ):
        frame += 1
        if packet_link_type != link_type:
            link_type = packet_link_type
            ethertype_at = _ETHERTYPE_AT.get(link_type, _NOWHERE)
        at = start + ethertype_at
        if at + _USUAL_SIZE <= end:
            ethertype, version, total, fragment, protocol, seq, ack, tail = unpack(data, at)
            if ethertype == 0x0800 and version == 0x45 and protocol == 6 and not fragment & 0x3FFF:
                payload = at + 22 + (tail >> 10 & 0x3C)
                payload_end = at + 2 + total
                if tail >= 0x5000 and payload <= payload_end <= end:
                    append(
                        (
                            data[at + 14 : at + 26],
                            time,
                            seq,
                            ack,
                            tail & 0xFF,
                            data,
                            payload,
                            payload_end,
                            0,
                            frame,
                        )
                    )
                    continue
        if walk(cursor, data, start, end, wire_length, link_type):
            append(
                (
                    cursor.key,
                    time,
                    cursor.seq,
                    cursor.ack,
                    cursor.flags,
                    data,
                    cursor.at,
                    cursor.end,
                    cursor.wire_end - cursor.end,
                    frame,
                )
            )
        else:
            counts.undecoded(cursor.reason)
    counts.packets += len(block)
    counts.bytes += sum(block.wire_lengths)
    counts.tcp_segments += len(rows)
    return cast(list[Segment], rows)


def walk(cursor: Cursor, data: bytes, start: int, end: int, wire_length: int, link_type: int) -> bool:
    """Reads one packet layer by layer. True: the cursor holds a segment. False: `cursor.reason` says why."""
    cursor.reset(data, start, end, wire_length)
    layer = LINK_TYPES.get(link_type)
    if layer is None:
        cursor.reason = f"link type {link_type}"
        return False
    while layer is not None:
        code = layer(cursor)
        if code < 0:
            return not cursor.reason
        layer = LAYERS.get(code)
    cursor.reason = layer_name(code)
    return False
