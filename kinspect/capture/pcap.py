"""pcap files (draft-ietf-opsawg-pcap §4 file header, §5 packet record) and their variants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct, pack
from typing import TYPE_CHECKING, Final, NamedTuple

from kinspect.capture.reader import (
    PACKET_LIMIT,
    Findings,
    damaged,
    new_block,
    packet_name,
    read_file_header,
    read_on,
)
from kinspect.capture.source import Source, SourceHead
from kinspect.capture.unsupported import unsupported
from kinspect.model import NS_PER_SECOND, Block

if TYPE_CHECKING:
    from mypy_extensions import i64


class FileLayout(NamedTuple):
    """File layout that a magic number stands for."""

    order: str
    fraction_ns: int
    """Nanoseconds per unit of the second half of a timestamp."""
    record_header: int
    """Bytes of a packet record's header."""


# Alexey Kuznetsov's Linux kernels wrote interface, protocol and packet type behind each record's header.
_VARIANTS: Final = {0xA1B2C3D4: (1000, 16), 0xA1B23C4D: (1, 16), 0xA1B2CD34: (1000, 24)}
VARIANTS: Final = {
    pack(order + "I", magic): FileLayout(order, *variant)
    for magic, variant in _VARIANTS.items()
    for order in "<>"
}

MAGIC_SIZE: Final = 4
_FILE_HEADER: Final = 24
_SNAPLEN_OFFSET: Final = 16

# Writers are known to exceed the snap length they announce; libpcap lets packets grow to this size too.
_USUAL_LIMIT: Final = 256 * 1024

_FCS_PRESENT: Final = 0x04000000

# AIX writes an older version, nanoseconds under the number for microseconds, and as link type that of the interface
# (RFC 1573: Ethernet, token ring, FDDI, loopback).
_AIX: Final = (2, 2)
_IF_TYPES: Final = (6, 9, 15, 24)


def prefix(begin: SourceHead, described: Sequence[bytes]) -> bytes:
    """The file header; a `reader.Prefix`."""
    return begin.first(_FILE_HEADER)


def read_pcap(
    head: bytes, source: Source, first_frame: int, block_size: int, findings: Findings
) -> Iterator[Block]:
    """The packets of a pcap file; a `reader.FormatReader`."""
    data = read_file_header(source, head, _FILE_HEADER, block_size)
    variant = VARIANTS[data[:MAGIC_SIZE]]
    snaplen, link_field = Struct(variant.order + "II").unpack_from(data, _SNAPLEN_OFFSET)
    limit = min(max(snaplen, _USUAL_LIMIT), PACKET_LIMIT)
    link_type = link_field & 0xFFFF
    if Struct(variant.order + "HH").unpack_from(data, MAGIC_SIZE) == _AIX and link_type in _IF_TYPES:
        raise unsupported(source.name, "a pcap file of AIX")
    fcs = 2 * (link_field >> 28) if link_field & _FCS_PRESENT else 0

    frame = first_frame
    position = _FILE_HEADER
    offset = 0
    while True:
        block = new_block(data, frame)
        position, captured = _walk(block, position, variant, fcs)
        if len(block):
            block.link_types = [link_type] * len(block)
            yield block
        frame += len(block)
        offset += position
        if captured > limit:
            why = f"claims {captured} captured bytes, more than the {limit} a packet of this file can have"
            raise damaged(source, packet_name(frame), offset, why)
        data = read_on(source, data[position:], variant.record_header + captured, block_size, frame, offset)
        if not data:
            return
        position = 0


def _walk(block: Block, position: int, variant: FileLayout, fcs: int) -> tuple[int, int]:
    """Append all packets from `position` on that are complete.

    Returns the position of the first incomplete one, and the number of captured bytes it claims; 0 if not even its
    header is complete.
    """
    data = block.data
    unpack = Struct(variant.order + "IIII").unpack_from
    record_header, fraction_ns = variant.record_header, variant.fraction_ns
    times, starts, ends, wire_lengths = block.times, block.starts, block.ends, block.wire_lengths
    size = len(data)
    # Compiled, a product of large `int`s would hand signals to their handlers, and end the process if one raises.
    seconds: i64
    captured: int
    wire: int
    last_header = size - record_header
    while position <= last_header:
        seconds, fraction, captured, wire = unpack(data, position)
        start = position + record_header
        end = start + captured
        if end > size:
            return position, captured
        position = end
        if wire != captured or fcs:
            wire = max(max(wire, captured) - fcs, 0)
            end = min(end, start + wire)
        times.append(seconds * NS_PER_SECOND + fraction * fraction_ns)
        starts.append(start)
        ends.append(end)
        wire_lengths.append(wire)
    return position, 0
