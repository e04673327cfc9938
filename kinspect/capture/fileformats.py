"""Table of formats: how files of each are recognised, which reader reads them, and how it resumes in the middle.

A new format is a module with a `reader.FormatReader` and a `reader.Prefix`, and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kinspect.capture import compressed, erffile, pcap, pcapng, snoop, unsupported
from kinspect.capture.reader import Findings, FormatReader, Prefix
from kinspect.capture.source import Source, SourceHead
from kinspect.errors import CaptureError
from kinspect.model import Block


class CaptureFormat(NamedTuple):
    """A row of the table. `matches`: true if a file with this beginning is of the format."""

    name: str
    matches: Callable[[SourceHead], bool]
    read: FormatReader
    prefix: Prefix


def magic(*numbers: bytes) -> Callable[[SourceHead], bool]:
    """Test for files that begin with one of these numbers."""

    def matches(begin: SourceHead) -> bool:
        return any(begin.first(len(number)) == number for number in numbers)

    return matches


FORMATS: Final = (
    CaptureFormat("pcap", magic(*pcap.VARIANTS), pcap.read_pcap, pcap.prefix),
    CaptureFormat("pcapng", magic(pcapng.MAGIC), pcapng.read_pcapng, pcapng.prefix),
    CaptureFormat("snoop", magic(snoop.MAGIC), snoop.read_snoop, snoop.prefix),
    CaptureFormat("ERF", erffile.is_erf, erffile.read_erf, erffile.prefix),
)

_MAGIC_SIZE: Final = 4


def recognise(begin: SourceHead) -> CaptureFormat | None:
    """Format of an uncompressed file; None if no row of the table matches.

    Raises what its source raises.
    """
    for row in FORMATS:
        if row.matches(begin):
            return row
    return None


def open_capture(source: Source, first_frame: int, block_size: int, findings: Findings) -> Iterator[Block]:
    """Blocks of one capture, in the format recognised by its first bytes.

    `first_frame` is the frame reference of its first packet; `findings` receives everything but packets. Raises
    CaptureError at once if the source cannot be opened or is not a capture; iterating raises what readers raise.
    """
    begin, source = beginning(source)
    found = recognise(begin)
    if found is None:
        raise unsupported.known(source.name, begin) or _no_capture(source.name)
    return found.read(begin.data, source, first_frame, block_size, findings)


def beginning(source: Source) -> tuple[SourceHead, Source]:
    """The first bytes of a capture, decompressed, and the source of those behind them. Raises CaptureError."""
    begin = SourceHead(source.read)
    if not begin.first(_MAGIC_SIZE):
        raise CaptureError(f"{source.name}: is empty")
    if compressed.is_compressed(begin.data):
        source = compressed.Decompressed(begin.data, source)
        begin = SourceHead(source.read)
        if not begin.first(_MAGIC_SIZE):
            raise CaptureError(f"{source.name}: holds nothing once decompressed")
    return begin, source


def _no_capture(name: str) -> CaptureError:
    names = ", ".join(row.name for row in FORMATS)
    return CaptureError(f"{name}: not a capture ({names}, or one of them compressed with gzip, zstd or lz4)")
