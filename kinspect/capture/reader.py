"""Common parts of the readers of all formats: types, limits, findings and error messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from kinspect.capture.source import Source, SourceHead, read_at_least
from kinspect.errors import CaptureError, TruncatedCaptureError
from kinspect.model import FRAME_MASK, Block

# From 128 KiB on malloc maps each buffer anew: with 256 KiB, page faults took a third of the time.
BLOCK_SIZE: Final = 96 * 1024

# No link type has packets of this size: a longer one is damage, and is not waited for or held in memory.
PACKET_LIMIT: Final = 16 * 1024 * 1024


@dataclass(slots=True, repr=False)
class Findings:
    """Contents of captures beside packets."""

    drops: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Packets dropped by the kernel: the latest count for each (capture run, interface)."""
    secrets: list[bytes] = field(default_factory=list)
    """TLS key logs in the order in which they stand in the captures."""
    descriptions: list[bytes] = field(default_factory=list)
    """Section and interface blocks of pcapng files, which describe how the packets behind them are to be read."""
    described: list[tuple[int, int, int]] = field(default_factory=list)
    """Place of each description: the index of its file, its offset there, the frame reference of the next packet."""
    resolved: dict[tuple[str, bytes], None] | None = None
    """Name resolution blocks of pcapng files, each once: byte order as in `struct`, and what stands between the
    lengths. None if nobody asks for them."""
    resolved_left_out: int = 0
    """Those that there was no room for."""


FormatReader = Callable[[bytes, Source, int, int, Findings], Iterator[Block]]
"""Reads a format. Arguments: bytes already read of the source, the source, the frame reference of the first packet, the
bytes a block should have, and where findings go. Yields blocks of at least one packet, as soon as their bytes are
there. Raises TruncatedCaptureError and CaptureError after everything before the damage was yielded."""

Prefix = Callable[[SourceHead, Sequence[bytes]], bytes]
"""Returns the bytes that a format's reader needs before those of a file from some packet on, to read on from there.
Made of the file's beginning and of those blocks of `Findings.descriptions` that stand before that packet."""


def new_block(data: bytes, first_frame: int) -> Block:
    """A block without packets; a reader appends to its lists."""
    return Block(data, first_frame, [], [], [], [], [])


def truncated(source: Source, what: str, offset: int, have: int, need: int) -> TruncatedCaptureError:
    """Error: the input ended in the middle of `what`."""
    return TruncatedCaptureError(
        f"{source.name}: ends in the middle of {what} (offset {offset}): {have} of {need} bytes are there"
    )


def read_file_header(source: Source, head: bytes, size: int, block_size: int) -> bytes:
    """The bytes of a source, of which `head` was read, up to a block. Raises TruncatedCaptureError if they do not hold
    its file header, of `size` bytes."""
    data = read_at_least(source, head, size, block_size)
    if len(data) < size:
        raise truncated(source, "the file header", 0, len(data), size)
    return data


def read_on(source: Source, rest: bytes, need: int, block_size: int, frame: int, offset: int) -> bytes:
    """The bytes from the packet `frame` on, of which `rest` was read, up to a block; none at the end of the source.

    Raises TruncatedCaptureError if they do not hold its record, of `need` bytes, which begins at `offset`.
    """
    data = read_at_least(source, rest, need, block_size)
    if data and len(data) < need:
        raise truncated(source, packet_name(frame), offset, len(data), need)
    return data


def damaged(source: Source, what: str, offset: int, why: str) -> CaptureError:
    """Error: the input cannot be read on from `what`."""
    return CaptureError(
        f"{source.name}: {what} (offset {offset}) {why}; the file is damaged, what is before it was read"
    )


def packet_name(frame: int) -> str:
    """Name of the packet with this frame reference in messages."""
    return f"packet {frame & FRAME_MASK}"
