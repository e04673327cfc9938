"""The table of formats: how files of each are told, which reader reads them, and how it reads on in the middle.

A new format is a module with a `reader.Reader` and a `reader.Prefix`, and a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kinspect.capture import compressed, erf, pcap, pcapng, snoop, unsupported
from kinspect.capture.reader import Findings, Prefix, Reader
from kinspect.capture.source import Begin, Source
from kinspect.errors import CaptureError
from kinspect.model import Block


class Format(NamedTuple):
    """A row of the table. `matches`: whether a file that begins so is of the format."""

    name: str
    matches: Callable[[Begin], bool]
    read: Reader
    prefix: Prefix


def magic(*numbers: bytes) -> Callable[[Begin], bool]:
    """Files begin with one of these numbers."""

    def matches(begin: Begin) -> bool:
        return any(begin.first(len(number)) == number for number in numbers)

    return matches


FORMATS = (
    Format("pcap", magic(*pcap.VARIANTS), pcap.read_pcap, pcap.prefix),
    Format("pcapng", magic(pcapng.MAGIC), pcapng.read_pcapng, pcapng.prefix),
    Format("snoop", magic(snoop.MAGIC), snoop.read_snoop, snoop.prefix),
    Format("ERF", erf.is_erf, erf.read_erf, erf.prefix),
)

_MAGIC_SIZE = 4


def recognise(begin: Begin) -> Format | None:
    """The format of a file that is not compressed; None if it is of no format of the table.

    Raises what its source raises.
    """
    for row in FORMATS:
        if row.matches(begin):
            return row
    return None


def open_capture(source: Source, first_frame: int, block_size: int, findings: Findings) -> Iterator[Block]:
    """The blocks of one capture, by what its first bytes say it is.

    `first_frame` is the frame reference of its first packet, `findings` takes what is not a packet. Raises
    CaptureError at once if the source cannot be opened or is none; iterating raises what readers raise.
    """
    begin = Begin(source.read)
    if not begin.first(_MAGIC_SIZE):
        raise CaptureError(f"{source.name}: is empty")
    if compressed.is_compressed(begin.data):
        source = compressed.Decompressed(begin.data, source)
        begin = Begin(source.read)
        if not begin.first(_MAGIC_SIZE):
            raise CaptureError(f"{source.name}: holds nothing once decompressed")
    found = recognise(begin)
    if found is None:
        raise unsupported.known(source.name, begin) or _no_capture(source.name)
    return found.read(begin.data, source, first_frame, block_size, findings)


def _no_capture(name: str) -> CaptureError:
    names = ", ".join(row.name for row in FORMATS)
    return CaptureError(f"{name}: not a capture ({names}, or one of them compressed with gzip, zstd or lz4)")
