"""A large capture cut into splits at packet boundaries.

Nothing marks where a packet begins, so a boundary is guessed: a run of records each of which is plausible and ends
where the next one begins. The guess is proven when the split before ends exactly there, which reading it shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kinspect.capture.formats import open_capture
from kinspect.capture.pcap import VARIANTS, Variant
from kinspect.capture.pcapng import MAGIC as PCAPNG
from kinspect.capture.reader import BLOCK_SIZE, PACKET_LIMIT, Findings
from kinspect.capture.source import fill
from kinspect.errors import CaptureError
from kinspect.model import Block
from kinspect.spark.storage import Part, length, open_at

SPLIT_BYTES = 64 * 1024 * 1024

# Where a boundary is looked for, behind the place where one is wanted.
_WINDOW = 1024 * 1024
# So many records in a row make a guess.
_RUN = 12
_PCAP_HEADER = 24
# Packets next to each other in a file are not farther apart than this.
_APART_SECONDS = 7 * 86_400
_BLOCK_OVERHEAD = 12
_PCAPNG_PACKETS = (2, 3, 6)
_PCAPNG_KINDS = frozenset({1, 2, 3, 4, 5, 6, 9, 10, 0x0A0D0D0A, 0xBAD, 0x40000BAD})
_PCAPNG_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}


class Split(NamedTuple):
    """Bytes `start` to before `end` (None: to the end) of the capture `path`, which is input number `file`.

    `prefix` stands before them: what the file says of all its packets. It is empty for a split that begins the file.
    """

    file: int
    path: str
    prefix: bytes
    start: int
    end: int | None

    def blocks(self, first_frame: int, block_size: int, findings: Findings) -> Iterator[Block]:
        """The packets; the first one has the frame reference `first_frame`. Raises CaptureError."""
        source = Part(self.path, self.prefix, self.start, self.end)
        try:
            yield from open_capture(source, first_frame, block_size, findings)
        finally:
            source.close()


def plan(file: int, path: str, split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """The splits of one capture, of about `split_bytes` each; compressed ones, and small ones, are one split.

    Their boundaries are guesses. What cannot be read is one split too: reading it tells what is wrong.
    """
    whole = [Split(file, path, b"", 0, None)]
    try:
        size = length(path)
        if split_bytes <= 0 or size <= split_bytes:
            return whole
        source = open_at(path, 0)
        try:
            head = fill(source, b"", _WINDOW, _WINDOW)
        finally:
            source.close()
        format_of = _format(head)
        if format_of is None:
            return whole
        starts = [0, *_boundaries(path, size, split_bytes, format_of)]
    except CaptureError:
        return whole
    return [
        Split(file, path, format_of.prefix if start else b"", start, end)
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]


def description(prefix: bytes) -> bytes:
    """The blocks of a pcapng prefix that describe packets; empty for other captures."""
    findings = Findings()
    if prefix.startswith(PCAPNG):
        for _ in Split(0, "", prefix, 0, 0).blocks(1, BLOCK_SIZE, findings):
            pass
    return b"".join(findings.descriptions)


class _Format(NamedTuple):
    prefix: bytes
    variant: Variant | None
    limit: int
    order: str


def _format(head: bytes) -> _Format | None:
    """How to find packets in an uncompressed capture that begins with `head`; None for others."""
    variant = VARIANTS.get(head[:4])
    if variant is not None and len(head) >= _PCAP_HEADER + 16:
        snaplen = int.from_bytes(head[16:20], "little" if variant.order == "<" else "big")
        limit = min(max(snaplen, 256 * 1024), PACKET_LIMIT)
        return _Format(head[:_PCAP_HEADER], variant, limit, variant.order)
    order = _PCAPNG_ORDERS.get(head[8:12]) if head.startswith(PCAPNG) else None
    if order is None:
        return None
    end = _descriptions_end(head, order)
    return None if end is None else _Format(head[:end], None, PACKET_LIMIT, order)


def _descriptions_end(head: bytes, order: str) -> int | None:
    """Where the first packet of a pcapng file begins, behind its section and its interfaces."""
    pair = Struct(order + "II").unpack_from
    position = 0
    while position + _BLOCK_OVERHEAD <= len(head):
        kind, size = pair(head, position)
        if kind in _PCAPNG_PACKETS:
            return position
        if size < _BLOCK_OVERHEAD:
            return None
        position += size
    return None


def _boundaries(path: str, size: int, split_bytes: int, format_of: _Format) -> Iterator[int]:
    for wanted in range(split_bytes, size, split_bytes):
        source = open_at(path, wanted)
        try:
            data = fill(source, b"", _WINDOW, _WINDOW)
        finally:
            source.close()
        at = _first_boundary(data, wanted, format_of)
        if at is not None and wanted + at < size:
            yield wanted + at


def _first_boundary(data: bytes, offset: int, format_of: _Format) -> int | None:
    if format_of.variant is None:
        # Blocks are padded to four bytes.
        places, run = range(-offset % 4, len(data) - _BLOCK_OVERHEAD, 4), _pcapng_run
    else:
        places, run = range(len(data) - format_of.variant.record_header), _pcap_run
    return next((at for at in places if run(data, at, format_of)), None)


def _pcap_run(data: bytes, at: int, format_of: _Format) -> bool:
    """Whether plausible records follow one another from `at` on, up to the end of the data at least."""
    variant = format_of.variant
    assert variant is not None
    unpack = Struct(variant.order + "IIII").unpack_from
    last_fraction = 1_000_000_000 // variant.fraction_ns
    before = None
    for number in range(_RUN):
        if at + variant.record_header > len(data):
            return number > 1
        seconds, fraction, captured, wire = unpack(data, at)
        if (
            fraction >= last_fraction
            or not 0 < captured <= format_of.limit
            or not captured <= wire <= PACKET_LIMIT
            or (before is not None and abs(seconds - before) > _APART_SECONDS)
        ):
            return False
        before = seconds
        at += variant.record_header + captured
    return True


def _pcapng_run(data: bytes, at: int, format_of: _Format) -> bool:
    """Whether whole blocks follow one another from `at` on, each with its length at both ends."""
    pair = Struct(format_of.order + "II").unpack_from
    single = Struct(format_of.order + "I").unpack_from
    for number in range(_RUN):
        if at + _BLOCK_OVERHEAD > len(data):
            return number > 1
        kind, size = pair(data, at)
        if kind not in _PCAPNG_KINDS or size % 4 or not _BLOCK_OVERHEAD <= size <= PACKET_LIMIT:
            return False
        if at + size > len(data):
            return number > 1
        if single(data, at + size - 4)[0] != size:
            return False
        at += size
    return True
