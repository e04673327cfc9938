"""Blocks of a packet socket's ring, version 3 (include/uapi/linux/if_packet.h, Linux's
Documentation/networking/packet_mmap.rst), as blocks of packets."""

from __future__ import annotations

from struct import Struct
from typing import Final

from kinspect.capture.reader import new_block
from kinspect.capture.writer import packet_block
from kinspect.model import NS_PER_SECOND, Block

ETHERNET: Final = 1
RAW_IP: Final = 101
COOKED: Final = 276
"""LINKTYPE_ values; the last one is LINKTYPE_LINUX_SLL2."""

LINK_TYPES: Final = {
    1: ETHERNET,
    772: ETHERNET,  # loopback, which has Ethernet headers
    519: RAW_IP,
    0xFFFE: RAW_IP,  # none: tun, WireGuard
}
"""LINKTYPE_ values by hardware type (ARPHRD_ values, linux/if_arp.h)."""
LOOPBACK: Final = 772
_OUTGOING: Final = 4

# `tpacket_block_desc`: status, packets, offset of the first one, length of the block.
BLOCK_HEADER: Final = Struct("=8x4I")

# `tpacket3_hdr`: offset to the next packet, seconds, nanoseconds, captured and wire length, status, offset of the
# packet, VLAN tag and its ethertype; then `sockaddr_ll`, of which the hardware and the packet type are read.
_PACKET: Final = Struct("=6IH6xIH18xHB")
_VLAN_VALID: Final = 0x10
_VLAN_TPID_VALID: Final = 0x40
_VLAN: Final = 0x8100
_ADDRESSES_BYTES: Final = 12
_TAG_BYTES: Final = 4
_TAG: Final = Struct(">HH")

# `sockaddr_ll`: protocol (in network order), interface, hardware, packet type, length of the address, and the address.
_PROTOCOL_AT: Final = 50
_ADDRESS_AT: Final = 52
_ADDRESS: Final = Struct("=IHBB8s")
# LINKTYPE_LINUX_SLL2: protocol, interface, hardware, packet type, length of the address, and the address.
_COOKED: Final = Struct(">H2xIHBB8s")

ROOM_BYTES: Final = _TAG_BYTES
"""Bytes kept free before each packet for the VLAN tag. The cooked header has room beside it (`tpacket_rcv`)."""


def read_ring_block(data: bytes, link_type: int) -> Block:
    """Packets of a block of the ring, numbered from 1.

    On the loopback interface each packet appears twice, as sent and as received; as with libpcap, the one sent is left
    out. A VLAN tag that the kernel or the network card removed is put back. With `COOKED`, packets start behind their
    link header, and get one that names their interface.
    """
    block = new_block(data, 1)
    cooked = link_type == COOKED
    room: bytearray | None = None
    _, packets, at, _ = BLOCK_HEADER.unpack_from(data)
    for _ in range(packets):
        row = _PACKET.unpack_from(data, at)
        step, seconds, ns, captured, length, status, offset, tag, tpid, hardware, kind = row
        if not (kind == _OUTGOING and hardware == LOOPBACK):
            start = at + offset
            end = start + captured
            tag_type = 0
            if status & _VLAN_VALID:
                tag_type = tpid if status & _VLAN_TPID_VALID else _VLAN
            if cooked:
                room = room or bytearray(data)
                start = _put_cooked(room, at, start, tag_type, tag)
            elif tag_type and captured >= _ADDRESSES_BYTES:
                room = room or bytearray(data)
                start = _put_tag(room, start, tag_type, tag)
            length += at + offset - start
            block.times.append(seconds * NS_PER_SECOND + ns)
            block.starts.append(start)
            block.ends.append(end)
            block.wire_lengths.append(length)
            block.link_types.append(link_type)
        at += step
    if room is not None:
        block.data = bytes(room)
    return block


def packet_blocks(block: Block, interface: int) -> list[bytes]:
    """The packets as pcapng packet blocks of that interface."""
    data = block.data
    return [
        packet_block(interface, time or 0, data[start:end], wire)
        for time, start, end, wire in zip(
            block.times, block.starts, block.ends, block.wire_lengths, strict=True
        )
    ]


def _put_tag(room: bytearray, start: int, tag_type: int, tag: int) -> int:
    """Insert a VLAN tag behind the addresses, which move to the front; returns the packet's new start."""
    moved = start - _TAG_BYTES
    tag_at = moved + _ADDRESSES_BYTES
    room[moved:tag_at] = room[start : start + _ADDRESSES_BYTES]
    _TAG.pack_into(room, tag_at, tag_type, tag)
    return moved


def _put_cooked(room: bytearray, at: int, start: int, tag_type: int, tag: int) -> int:
    """Put a cooked header before a packet, with its VLAN tag if it had one; returns the packet's new start."""
    protocol = int.from_bytes(room[at + _PROTOCOL_AT : at + _ADDRESS_AT], "big")
    interface, hardware, kind, size, address = _ADDRESS.unpack_from(room, at + _ADDRESS_AT)
    if tag_type:
        start -= _TAG_BYTES
        _TAG.pack_into(room, start, tag, protocol)
        protocol = tag_type
    start -= _COOKED.size
    _COOKED.pack_into(room, start, protocol, interface, hardware, kind, size, address)
    return start
