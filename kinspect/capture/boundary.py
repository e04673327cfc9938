"""Search for the first record behind a place in the middle of a capture.

Nothing marks records. A guess is a run of plausible records, each of which ends where the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from kinspect.capture.fileformats import recognise
from kinspect.capture.pcap import VARIANTS
from kinspect.capture.reader import BLOCK_SIZE, PACKET_LIMIT, Findings
from kinspect.capture.source import Source, SourceHead
from kinspect.errors import CaptureError, UnreadableError

# Number of plausible records in a row that make a guess.
_RUN: Final = 12
_PCAP_HEADER: Final = 24
# Largest time between neighbouring packets of a file.
_APART_SECONDS: Final = 7 * 86_400
_BLOCK_OVERHEAD: Final = 12
_PACKET_BLOCK: Final = 28
_PCAPNG_KINDS: Final = frozenset({1, 2, 3, 4, 5, 6, 9, 10, 0x0A0D0D0A, 0xBAD, 0x40000BAD})
_LITTLE_ENDIAN: Final = b"\x4d\x3c\x2b\x1a"


class RecordShape(NamedTuple):
    """Properties by which records of a capture are found.

    `prefix`: bytes that its reader needs before them; `described`: number of pcapng blocks in it that describe packets.
    `header`: most bytes before a packet's data. `step`: records begin at multiples of it. `following`: function from
    data and the position of a record to its end and its time in seconds (0: it has none), or None if no record can
    begin there.
    """

    prefix: bytes
    described: int
    header: int
    step: int
    following: Callable[[bytes, int], tuple[int, int] | None]

    def first(self, data: bytes, offset: int) -> int | None:
        """Place of the first record in `data`, which begins at byte `offset` of the capture; None if there is none."""
        places = range(-offset % self.step, len(data) - self.header, self.step)
        return next((at for at in places if self._is_run(data, at)), None)

    def _is_run(self, data: bytes, at: int) -> bool:
        """True if plausible records follow one another from `at` on, at least up to the end of the data."""
        before = None
        for number in range(_RUN):
            if at + self.header > len(data):
                return number > 1 or (number == 1 and at == len(data))
            found = self.following(data, at)
            if found is None or (before is not None and abs(found[1] - before) > _APART_SECONDS):
                return False
            at, before = found
        return True


def records_of(source: Source) -> RecordShape | None:
    """Records of the capture that the source begins; None if its format or its beginning does not allow a search.

    Raises UnreadableError.
    """
    findings = Findings()
    begin = SourceHead(source.read)
    begin.first(_PCAP_HEADER)
    format_of = recognise(begin)
    if format_of is None or format_of.name not in _KINDS:
        return None
    try:
        first = next(format_of.read(begin.data, source, 1, BLOCK_SIZE, findings), None)
    except UnreadableError:
        raise
    except CaptureError:
        first = None
    if first is None:
        return None
    base = source.position - len(first.data)
    described = [
        block
        for (_, place, _), block in zip(findings.described, findings.descriptions, strict=True)
        if place < base + first.starts[0]
    ]
    return _KINDS[format_of.name](format_of.prefix(begin, described), len(described))


def _pcap(prefix: bytes, described: int) -> RecordShape:
    variant = VARIANTS[prefix[:4]]
    unpack = Struct(variant.order + "IIII").unpack_from
    units = 1_000_000_000 // variant.fraction_ns
    (snaplen,) = Struct(variant.order + "I").unpack_from(prefix, 16)
    limit = min(max(snaplen, 256 * 1024), PACKET_LIMIT)

    def following(data: bytes, at: int) -> tuple[int, int] | None:
        seconds, fraction, captured, wire = unpack(data, at)
        plausible = fraction < units and 0 < captured <= limit and captured <= wire <= PACKET_LIMIT
        return (at + variant.record_header + captured, seconds) if plausible else None

    return RecordShape(prefix, described, variant.record_header, 1, following)


def _pcapng(prefix: bytes, described: int) -> RecordShape:
    unpack = Struct("<II" if prefix[8:12] == _LITTLE_ENDIAN else ">II").unpack_from

    def following(data: bytes, at: int) -> tuple[int, int] | None:
        """End of a pcapng block, whose length stands at both of its ends; 0 for its time."""
        kind, size = unpack(data, at)
        if kind not in _PCAPNG_KINDS or size % 4 or not _BLOCK_OVERHEAD <= size <= PACKET_LIMIT:
            return None
        end = at + size
        return (end, 0) if end > len(data) or data[end - 4 : end] == data[at + 4 : at + 8] else None

    return RecordShape(prefix, described, _PACKET_BLOCK, 4, following)


_KINDS: Final = {"pcap": _pcap, "pcapng": _pcapng}
