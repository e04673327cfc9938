"""A large capture read in splits, each by a task of its own, which finds where its first packet begins.

Nothing marks where a packet begins, so that is guessed: a run of records each of which is plausible and ends where the
next one begins. The guess is proven when the split before ends exactly there, which the reports of all splits show.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kinspect.capture import slice_block
from kinspect.capture.formats import open_capture
from kinspect.capture.pcap import VARIANTS, Variant
from kinspect.capture.pcapng import MAGIC as PCAPNG
from kinspect.capture.reader import BLOCK_SIZE, PACKET_LIMIT, Findings
from kinspect.capture.source import fill
from kinspect.model import Block
from kinspect.spark.storage import Part, open_at

SPLIT_BYTES = 64 * 1024 * 1024

# Where a packet is looked for, behind the place where a split begins.
_WINDOW = 1024 * 1024
_HEAD = 64 * 1024
# So many records in a row make a guess.
_RUN = 12
_PCAP_HEADER = 24
# Packets next to each other in a file are not farther apart than this.
_APART_SECONDS = 7 * 86_400
_BLOCK_OVERHEAD = 12
_PACKET_BLOCK = 28
_PCAPNG_PACKETS = (2, 3, 6)
_PCAPNG_KINDS = frozenset({1, 2, 3, 4, 5, 6, 9, 10, 0x0A0D0D0A, 0xBAD, 0x40000BAD})
_PCAPNG_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}


class Split(NamedTuple):
    """The packets of a capture from byte `start` to before `end` (None: to its end), by where a packet's data begins.

    `number` counts the splits of a run, `file` its captures. `begin`: where a record is known to begin; None: one is to
    be found from `start` on. `size`: of the capture when the run began, None if nobody knows. `stops`: where other
    splits begin; the first one met ends this one. `after`: packets that end up to there were read before.
    """

    number: int
    file: int
    path: str
    size: int | None
    start: int = 0
    end: int | None = None
    begin: int | None = 0
    stops: frozenset[int] = frozenset()
    after: int = 0


def plan(file: int, path: str, size: int | None, split_bytes: int) -> Iterator[Split]:
    """The splits of a capture, in order, numbered from 0. Of one that cannot be cut, the first reads everything."""
    whole = size or 1
    step = split_bytes if split_bytes > 0 else whole
    for number, start in enumerate(range(0, whole, step)):
        end = start + step if start + step < whole else None
        yield Split(number, file, path, size or None, start, end, None if start else 0)


class Reading:
    """The blocks of a split, to be iterated once, their frames numbered from 1; the rest is known then.

    Iterating raises CaptureError for damage, after everything before it.
    """

    def __init__(self, split: Split, block_size: int = BLOCK_SIZE) -> None:
        self.split = split
        self.findings = Findings()
        self.packets = 0
        self.whole = False
        """Whether it is all of a capture that cannot be cut."""
        self.began: int | None = None
        """Where its first record begins, None if there is none."""
        self.first: int | None = None
        self.next: int | None = None
        """Where the data of its first packet begins, and that of the first one left to the split behind."""
        self.describes = False
        """Whether pcapng packets behind it are to be read by blocks that it holds."""
        self._block_size = block_size

    def __iter__(self) -> Iterator[Block]:
        split = self.split
        whole = split.end is None and not split.start and not split.after
        format_of = None if whole else _format_of(split.path)
        if format_of is not None:
            yield from self._part(format_of)
        elif not split.start and not split.after:
            self.whole, self.began = True, 0
            for block in self._blocks(Part(split.path, b"", 0, split.size)):
                self.packets += len(block)
                yield block

    def _part(self, format_of: _Format) -> Iterator[Block]:
        split = self.split
        self.began = _found(split, format_of) if split.begin is None else split.begin
        if self.began is None:
            return
        prefix = format_of.prefix if self.began else b""
        source = Part(split.path, prefix, self.began, split.size)
        for block in self._blocks(source):
            base = source.position - len(block.data)
            low, high = self._range(block, base)
            if low < high:
                self.first = block.starts[low] + base if self.first is None else self.first
                taken = block if high - low == len(block) else slice_block(block, low, high)
                taken.first_frame = block.first_frame + low if split.after else self.packets + 1
                self.packets += high - low
                yield taken
            if high < len(block):
                self.next = block.starts[high] + base
                break
        self.describes = len(self.findings.descriptions) > len(descriptions(format_of.prefix))

    def _range(self, block: Block, base: int) -> tuple[int, int]:
        """Which packets of a block are the split's; the buffer of the block begins at byte `base` of the file."""
        split = self.split
        low = bisect_left(block.starts, split.start - base)
        if split.after:
            low = bisect_right(block.ends, split.after - base)
        high = len(block) if split.end is None else bisect_left(block.starts, split.end - base)
        if split.stops:
            high = next((at for at in range(low, high) if block.starts[at] + base in split.stops), high)
        return low, max(low, high)

    def _blocks(self, source: Part) -> Iterator[Block]:
        try:
            yield from open_capture(source, 1, self._block_size, self.findings)
        finally:
            source.close()


def descriptions(prefix: bytes) -> list[bytes]:
    """The blocks of a pcapng prefix that describe packets; none for other captures."""
    findings = Findings()
    if prefix.startswith(PCAPNG):
        source = Part("", prefix, 0, 0)
        for _ in open_capture(source, 1, BLOCK_SIZE, findings):
            pass
    return findings.descriptions


def boundary(split: Split) -> int | None:
    """Where the data of the first packet behind the split begins, by the guess that the split behind makes."""
    behind = split._replace(start=split.end or 0, end=None, begin=None)
    reading = Reading(behind)
    for _ in reading:
        break
    return reading.first


class _Format(NamedTuple):
    prefix: bytes
    variant: Variant | None
    limit: int
    order: str

    @property
    def header(self) -> int:
        """The bytes before a packet's data, at most."""
        return _PACKET_BLOCK if self.variant is None else self.variant.record_header


def _bytes_at(path: str, offset: int, size: int) -> bytes:
    source = open_at(path, offset)
    try:
        return fill(source, b"", size, size)
    finally:
        source.close()


def _format_of(path: str) -> _Format | None:
    """How to find packets in a capture; None if it cannot be cut."""
    return _format(_bytes_at(path, 0, _HEAD)) or _format(_bytes_at(path, 0, _WINDOW))


def _format(head: bytes) -> _Format | None:
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


def _found(split: Split, format_of: _Format) -> int | None:
    """Where a record begins in the split, as far as can be told; None: none does."""
    # Data that begins in the split may have its header before it.
    offset = split.start - format_of.header
    at = _first_boundary(_bytes_at(split.path, offset, _WINDOW), offset, format_of)
    if at is None or (split.end is not None and offset + at >= split.end):
        return None
    return offset + at


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
            return number > 1 or (number == 1 and at == len(data))
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
            return number > 1 or (number == 1 and at == len(data))
        kind, size = pair(data, at)
        if kind not in _PCAPNG_KINDS or size % 4 or not _BLOCK_OVERHEAD <= size <= PACKET_LIMIT:
            return False
        if at + size > len(data):
            return number > 1
        if single(data, at + size - 4)[0] != size:
            return False
        at += size
    return True
