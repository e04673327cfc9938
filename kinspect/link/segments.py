"""Dissection of a block of packets into rows of TCP segments."""

from __future__ import annotations

import struct
from typing import Any, Final

from kinspect.link.addedlayers import added_layers
from kinspect.link.cursor import LINK_TYPE, PPP, Assembler, Cursor
from kinspect.link.fragments import PART, Fragments
from kinspect.link.layertables import LAYERS, layer_name
from kinspect.model import Block, Caps, Counts, Segment

# Layout of nearly every packet: an ethertype, IPv4 without options, TCP. Ethertype, version and header length,
# total length, `Segment.mark` (identification, fragment, time to live, protocol, checksum), then (behind
# addresses and ports) sequence, acknowledgment, and data offset and flags.
_USUAL: Final = struct.Struct(">HBxHQ12xIIH")
_USUAL_SIZE: Final = _USUAL.size
_FRAGMENT_AND_PROTOCOL: Final = 0x3FFF_00FF_0000
_WHOLE_AND_TCP: Final = 0x0006_0000

# Link types with an ethertype right before the IP header, and where it stands.
_ETHERTYPE_AT: Final = {1: 12, 113: 14}
_NOWHERE: Final = 1 << 61


class Dissector:
    """Packets in, rows of TCP segments out. Fragments are kept for those of later blocks, or go to `assembler`. With
    `quotes` ICMP errors about segments are rows too (`model.QUOTED`); they count as packets without a segment."""

    def __init__(
        self, caps: Caps, counts: Counts, assembler: Assembler | None = None, quotes: bool = False
    ) -> None:
        self._counts = counts
        self._quotes = quotes
        self.fragments = Fragments(caps, counts)
        """Fragments that wait for others."""
        self._cursor = Cursor(assembler or self.fragments)

    def segments(self, block: Block) -> list[Segment]:
        """TCP segments of a block, in packet order; adds every packet to the counts.

        A row holds offsets into the block's buffer, no copy of payload; only reassembled packets have a buffer of their
        own. A packet that gives no row is counted in `counts.undecoded_packets` by its reason (`arp`, `udp`,
        `truncated`, `link type 147`, ...), or in `counts.fragments` once the packet that it is part of is complete.
        Never raises, whatever the bytes.
        """
        # A plain tuple in Segment's order: making the named one would cost as much as all the rest.
        rows: list[Any] = []
        unpack = _USUAL.unpack_from
        data = block.data
        frame = block.first_frame - 1
        cursor = self._cursor
        counts = self._counts
        link_type = -1
        ethertype_at = _NOWHERE
        payload_bytes = quoted = 0
        ethertype: int
        version: int
        total: int
        tail: int
        for start, end, time, wire_length, packet_link_type in zip(  # noqa: B905 - mypyc has its own without
            block.starts, block.ends, block.times, block.wire_lengths, block.link_types
        ):
            frame += 1
            if packet_link_type != link_type:
                link_type = packet_link_type
                ethertype_at = _ETHERTYPE_AT.get(link_type, _NOWHERE)
            at = start + ethertype_at
            if at + _USUAL_SIZE <= end:
                ethertype, version, total, mark, seq, ack, tail = unpack(data, at)
                if (
                    ethertype == 0x0800
                    and version == 0x45
                    and mark & _FRAGMENT_AND_PROTOCOL == _WHOLE_AND_TCP
                ):
                    payload = at + 22 + (tail >> 10 & 0x3C)
                    payload_end = at + 2 + total
                    if tail >= 0x5000 and payload <= payload_end <= end:
                        payload_bytes += payload_end - payload
                        rows.append(
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
                                mark,
                            )
                        )
                        continue
            if walk(cursor, data, start, end, wire_length, link_type, time):
                if cursor.quotes:
                    counts.undecoded(cursor.quotes)
                    if not self._quotes:
                        continue
                    quoted += 1
                payload_bytes += cursor.end - cursor.at
                rows.append(
                    (
                        cursor.key,
                        time,
                        cursor.seq,
                        cursor.ack,
                        cursor.flags,
                        cursor.data,
                        cursor.at,
                        cursor.end,
                        cursor.wire_end - cursor.end,
                        frame,
                        cursor.mark,
                    )
                )
            elif cursor.reason != PART:
                counts.undecoded(cursor.reason)
        counts.packets += len(block)
        counts.bytes += sum(block.wire_lengths)
        counts.tcp_segments += len(rows) - quoted
        counts.payload_bytes += payload_bytes
        return rows

    def flush(self) -> None:
        """End of the capture: count the fragments that were never completed."""
        self.fragments.flush()


def segments(block: Block, counts: Counts) -> list[Segment]:
    """TCP segments of a single block on its own."""
    dissector = Dissector(Caps(), counts)
    rows = dissector.segments(block)
    dissector.flush()
    return rows


def walk(
    cursor: Cursor, data: bytes, start: int, end: int, wire_length: int, link_type: int, time: int | None
) -> bool:
    """Read one packet layer by layer. True: the cursor holds a segment. False: `cursor.reason` says why it does not."""
    cursor.reset(data, start, end, wire_length, time)
    code = LINK_TYPE + link_type
    if not LINK_TYPE <= code < PPP:
        cursor.reason = f"link type {link_type}"
        return False
    while True:
        layer = LAYERS.get(code)
        if layer is None and LINK_TYPE <= code < PPP:
            layer = added_layers().get(code)
        if layer is None:
            break
        code = layer(cursor)
        if code < 0:
            return not cursor.reason
    cursor.reason = layer_name(code)
    return False
