"""The bytes of a message, read again from the packets it came in.

A row has the first and the last packet of a message, its size, and the checksum of its bytes. The packets between
them from its sender are put together by sequence number; the message is where its size stands before bytes with that
checksum. Without a match there is no message: then something was lost, cut or sent twice in a way that only a whole
reading can resolve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_address
from struct import Struct
from zlib import crc32

from kinspect.capture import open_timeline
from kinspect.capture.frameoffsets import FrameOffsets
from kinspect.errors import CaptureError
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.link import Dissector
from kinspect.model import Block, Caps, Counts
from kinspect.run import Run
from kinspect.tui.index.indexer import Inputs
from kinspect.tui.index.row import MessageRow

EndPair = tuple[tuple[str, int], tuple[str, int]]
"""Sender and receiver: IP address as text, and port."""

_SIZE = Struct(">i")
_PORTS = Struct(">HH")
_HALF = 1 << 31


class StoppedError(Exception):
    """Nobody waits for the result any more."""


def message(
    places: FrameOffsets, ends: EndPair, side: MessageRow, stopped: Callable[[], bool]
) -> bytes | None:
    """The message's bytes; None if they are not found. Raises StoppedError."""
    if not side.have:
        return b""
    pieces: dict[bytes, list[tuple[int, bytes]]] = {}
    prefix = flow_key(ends)
    for key, seq, data in _segments(places, side, prefix, stopped):
        pieces.setdefault(key, []).append((seq, data))
    for found in pieces.values():
        for run in _runs(found):
            at = _place(run, side)
            if at is not None:
                return run[at : at + side.have]
    return None


def flow_key(ends: EndPair) -> bytes:
    """Prefix of the keys of `model.Segment` for segments from the first end to the second."""
    (source, source_port), (target, target_port) = ends
    return ip_address(source).packed + ip_address(target).packed + _PORTS.pack(source_port, target_port)


def packets(places: FrameOffsets, first: int, last: int, stopped: Callable[[], bool]) -> Iterator[Block]:
    """The blocks with the frames from `first` to `last`, and some before and after; they end before damage."""
    try:
        for block in places.blocks(first):
            if stopped():
                raise StoppedError
            if block.first_frame > last:
                return
            yield block
    except CaptureError:
        return


def _segments(
    places: FrameOffsets, side: MessageRow, prefix: bytes, stopped: Callable[[], bool]
) -> Iterator[tuple[bytes, int, bytes]]:
    dissector = Dissector(Caps(), Counts())
    for block in packets(places, side.first_frame, side.last_frame, stopped):
        for key, _, seq, _, _, data, start, end, _, frame, _ in dissector.segments(block):
            if side.first_frame <= frame <= side.last_frame and start < end and key.startswith(prefix):
                yield key, seq, data[start:end]


def _runs(pieces: list[tuple[int, bytes]]) -> Iterator[bytes]:
    """Adjacent pieces joined, in the order of their sequence numbers, which wrap."""
    base = pieces[0][0]
    placed = sorted(
        (((seq - base + _HALF) % (2 * _HALF) - _HALF, data) for seq, data in pieces),
        key=lambda piece: piece[0],
    )
    run: list[bytes] = []
    end = placed[0][0]
    for place, data in placed:
        if place > end:
            yield b"".join(run)
            run, end = [], place
        if place + len(data) > end:
            run.append(data[end - place :])
            end = place + len(data)
    yield b"".join(run)


def _place(run: bytes, side: MessageRow) -> int | None:
    """Offset of the message in a run; None if it is not there."""
    size = _SIZE.pack(side.size)
    at = run.find(size)
    while at >= 0:
        begin = at + _SIZE.size
        if begin + side.have <= len(run) and crc32(memoryview(run)[begin : begin + side.have]) == side.crc:
            return begin
        at = run.find(size, at + 1)
    return None


def again(inputs: Inputs, order: int, stopped: Callable[[], bool]) -> Exchange | None:
    """The exchange with that number, found by reading everything before it once more."""
    timeline = open_timeline(inputs.paths, skew_ns=inputs.caps.skew_ns)
    try:
        for lines in Run(timeline, inputs.inspector()).pieces():
            if stopped():
                raise StoppedError
            for line in lines:
                if isinstance(line, Exchange) and line.order == order:
                    return line
    finally:
        timeline.close()
    return None
