"""The table of formats: which reader answers to which magic number.

A new format is a module with a `reader.Reader` and a row here.
"""

from __future__ import annotations

from collections.abc import Iterator

from kinspect.capture import compressed, pcap, pcapng
from kinspect.capture.reader import Findings, Reader
from kinspect.capture.source import Source
from kinspect.errors import CaptureError
from kinspect.model import Block

READERS: dict[bytes, Reader] = {
    **dict.fromkeys(pcap.VARIANTS, pcap.read_pcap),
    pcapng.MAGIC: pcapng.read_pcapng,
}

_MAGIC_SIZE = 4


def open_capture(source: Source, first_frame: int, block_size: int, findings: Findings) -> Iterator[Block]:
    """The blocks of one capture, by what its first bytes say it is.

    `first_frame` is the frame reference of its first packet, `findings` takes what is not a packet. Raises
    CaptureError at once if the source cannot be opened or is none; iterating raises what readers raise.
    """
    head, source = _opened(source)
    return READERS[head](head, source, first_frame, block_size, findings)


def _opened(source: Source) -> tuple[bytes, Source]:
    """The first bytes of a capture, and what reads on behind them."""
    head = _head(source)
    if not head:
        raise CaptureError(f"{source.name}: is empty")
    if compressed.is_compressed(head):
        source = compressed.Decompressed(head, source)
        head = _head(source)
        if not head:
            raise CaptureError(f"{source.name}: holds nothing once decompressed")
    if head not in READERS:
        raise CaptureError(
            f"{source.name}: not a capture (pcap, pcapng, or one of them compressed with gzip, zstd or lz4)"
        )
    return head, source


def _head(source: Source) -> bytes:
    head = b""
    while len(head) < _MAGIC_SIZE and (more := source.read(_MAGIC_SIZE - len(head))):
        head += more
    return head
