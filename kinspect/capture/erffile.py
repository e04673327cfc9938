"""ERF files of Endace's cards (ERF types reference): records without a file header or a magic number.

Frame numbers are Wireshark's: every record except padding counts. A time of 0, which metadata may have, means no time.
An Ethernet frame may or may not end with its frame check sequence, and no record says which: it is kept, and does not
become payload since IP's length ends before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from kinspect.capture.reader import Findings, damaged, new_block, packet_name, read_on
from kinspect.capture.source import Source, SourceHead
from kinspect.link.erf import COUNTS_LOSS, HEADER, MORE, PAD, RECORD_LINK_TYPES, headers_end
from kinspect.model import FRAME_BITS, Block

if TYPE_CHECKING:
    from mypy_extensions import i64

_LINKTYPE_ERF: Final = 197

_TIME: Final = Struct("<II")  # fraction of 2**-32 seconds, seconds
_RECORD: Final = Struct(">BBHHH")  # type, flags, record length, losses or color, wire length

_HALF: Final = 1 << 31

# Number of records that are checked for plausibility, each after the one before: nothing else marks a file as ERF.
_CHECKED: Final = 3
_RESERVED: Final = 0x80
_PUBLIC_TYPES: Final = range(1, 32)
_APART_SECONDS: Final = 366 * 86_400


def is_erf(begin: SourceHead) -> bool:
    """True if a file begins with ERF records: the first one complete, the next two plausible as far as they are there,
    and at least one that is not padding."""
    start, before, holds_something = 0, 0, False
    for number in range(_CHECKED):
        header = begin.first(start + HEADER)[start:]
        if len(header) < HEADER:
            break
        seconds = _TIME.unpack_from(header)[1]
        kind, flags, length, _, _ = _RECORD.unpack_from(header, 8)
        kind &= ~MORE
        if kind not in _PUBLIC_TYPES and kind != PAD:
            return False
        if length < HEADER or flags & _RESERVED:
            return False
        # Records that hold no packet may have no time.
        if seconds and before and abs(seconds - before) > _APART_SECONDS:
            return False
        before = seconds or before
        holds_something |= kind != PAD
        start += length
        if not number and len(begin.first(start)) < start:
            return False
    return holds_something


def prefix(begin: SourceHead, described: Sequence[bytes]) -> bytes:
    """No bytes: a record is complete in itself; a `reader.Prefix`."""
    return b""


def read_erf(
    head: bytes, source: Source, first_frame: int, block_size: int, findings: Findings
) -> Iterator[Block]:
    """The packets of an ERF file; a `reader.FormatReader`."""
    run = (first_frame >> FRAME_BITS,)
    frame = first_frame
    data = head
    offset = 0
    while True:
        block = new_block(data, frame)
        position, need, lost = _walk(block)
        if lost:
            findings.drops[run] = findings.drops.get(run, 0) + lost
        if len(block):
            yield block
        frame += len(block)
        offset += position
        if not need:
            raise damaged(source, packet_name(frame), offset, "is shorter than its headers")
        data = read_on(source, data[position:], need, block_size, frame, offset)
        if not data:
            return


def _walk(block: Block) -> tuple[int, int, int]:
    """Append the packets of all records that are complete.

    Returns the position of the first other record, the number of bytes it takes (as far as known; 0 for a damaged one),
    and the number of packets lost before those appended.
    """
    data = block.data
    size = len(data)
    last_header = size - HEADER
    position = lost = 0
    # Compiled, as in `pcap`.
    fraction: i64
    seconds: i64
    while position <= last_header:
        fraction, seconds = _TIME.unpack_from(data, position)
        kind, _, length, losses, wire = _RECORD.unpack_from(data, position + 8)
        end = position + length
        if length < HEADER:
            return position, 0, lost
        if end > size:
            return position, length, lost
        kind &= ~MORE
        if kind != PAD:
            start = headers_end(data, position, end)
            link_type, before = RECORD_LINK_TYPES.get(kind, (_LINKTYPE_ERF, 0))
            start += before
            if start > end:
                return position, 0, lost
            if link_type == _LINKTYPE_ERF:
                wire += start - position
                start = position
            if kind in COUNTS_LOSS:
                lost += losses
            time = seconds * 1_000_000_000 + (fraction * 1_000_000_000 + _HALF >> 32)
            block.times.append(time or None)
            block.starts.append(start)
            block.ends.append(min(end, start + wire))
            block.wire_lengths.append(wire)
            block.link_types.append(link_type)
        position = end
    return position, HEADER, lost
