"""snoop files (RFC 1761), as Solaris and firewalls write them.

Data link types: IANA's registry of them (iana.org/assignments/snoop-datalink-types), and those of Solaris beyond it
(sys/dlpi.h), which have the highest bit set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

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
from kinspect.model import FRAME_BITS, NS_PER_SECOND, Block

if TYPE_CHECKING:
    from mypy_extensions import i64

MAGIC: Final = b"snoop\0\0\0"
_FILE_HEADER: Final = 16
_VERSION: Final = 2

_LINK_TYPES: Final = {
    0: 1,  # IEEE 802.3
    2: 6,  # IEEE 802.5 token ring
    4: 1,  # Ethernet
    8: 10,  # FDDI
    14: 0,  # software loopback
    16: 122,  # Fibre Channel
    18: 123,  # ATM, Classical IP
    24: 1,  # Ethernet and IEEE 802.3
    25: 1,  # 100BaseT
    26: 242,  # InfiniBand
    0x8000_0004: 105,  # IEEE 802.11
    0x8000_0005: 226,  # ipnet(7D)
}

_HEADER: Final = Struct(">8xII")  # magic number, version, data link type
# Original, included and record length, cumulative drops, seconds, microseconds.
_RECORD: Final = Struct(">IIIIII")
_RECORD_HEADER: Final = _RECORD.size


def prefix(begin: SourceHead, described: Sequence[bytes]) -> bytes:
    """The file header; a `reader.Prefix`."""
    return begin.first(_FILE_HEADER)


def read_snoop(
    head: bytes, source: Source, first_frame: int, block_size: int, findings: Findings
) -> Iterator[Block]:
    """The packets of a snoop file; a `reader.FormatReader`."""
    data = read_file_header(source, head, _FILE_HEADER, block_size)
    link_type = _link_type(data, source.name)
    run = (first_frame >> FRAME_BITS,)

    frame = first_frame
    position = _FILE_HEADER
    offset = 0
    while True:
        block = new_block(data, frame)
        position, captured, length, dropped = _walk(block, position)
        if dropped:
            findings.drops[run] = max(dropped, findings.drops.get(run, 0))
        if len(block):
            block.link_types = [link_type] * len(block)
            yield block
        frame += len(block)
        offset += position
        if not _RECORD_HEADER + captured <= length <= PACKET_LIMIT:
            why = f"claims {captured} captured bytes in a record of {length}"
            raise damaged(source, packet_name(frame), offset, why)
        data = read_on(source, data[position:], length, block_size, frame, offset)
        if not data:
            return
        position = 0


def _link_type(header: bytes, name: str) -> int:
    version, kind = _HEADER.unpack_from(header)
    if version != _VERSION:
        raise unsupported(name, f"a snoop file of version {version}")
    link_type = _LINK_TYPES.get(kind)
    if link_type is None:
        raise unsupported(name, f"a snoop file of data link type {kind}")
    return link_type


def _walk(block: Block, position: int) -> tuple[int, int, int, int]:
    """Append all packets from `position` on that are complete.

    Returns the position of the first incomplete record, the captured bytes and the record length that it claims (0 and
    the length of a header if not even that is complete), and the number of packets dropped up to the last one.
    """
    data = block.data
    unpack = _RECORD.unpack_from
    add_time, add_start, add_end = block.times.append, block.starts.append, block.ends.append
    add_wire = block.wire_lengths.append
    size = len(data)
    last_header = size - _RECORD_HEADER
    dropped = 0
    # Compiled, as in `pcap`.
    seconds: i64
    while position <= last_header:
        wire, captured, length, drops, seconds, microseconds = unpack(data, position)
        start = position + _RECORD_HEADER
        if position + length > size or _RECORD_HEADER + captured > length:
            return position, captured, length, dropped
        position += length
        dropped = max(dropped, drops)
        add_time(seconds * NS_PER_SECOND + microseconds * 1000)
        add_start(start)
        add_end(start + captured)
        add_wire(max(wire, captured))
    return position, 0, _RECORD_HEADER, dropped
