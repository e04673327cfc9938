"""Positions of packets in uncompressed captures, so that some of them can be read again without those before."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from kinspect.capture.fileformats import recognise
from kinspect.capture.reader import BLOCK_SIZE, Findings
from kinspect.capture.source import FileSource, SourceHead, can_reopen
from kinspect.errors import CaptureError
from kinspect.model import FRAME_BITS, Block


def has_places(path: str) -> bool:
    """True if `path` is a regular file with an uncompressed capture, in which positions can be noted."""
    if not can_reopen(path):
        return False
    source = FileSource(path)
    try:
        return recognise(SourceHead(source.read)) is not None
    except CaptureError:
        return False
    finally:
        source.close()


class FrameOffsets:
    """Frames that blocks begin with and their offsets, for each capture; noted in the order of reading."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._frames: list[array[int]] = [array("Q") for _ in paths]
        self._offsets: list[array[int]] = [array("Q") for _ in paths]
        self._described: list[list[tuple[int, bytes]]] = [[] for _ in paths]

    def add(self, frame: int, offset: int) -> None:
        """Note that packets from the frame reference `frame` on start at `offset`."""
        file = frame >> FRAME_BITS
        if not self._offsets[file] or offset > self._offsets[file][-1]:
            self._frames[file].append(frame)
            self._offsets[file].append(offset)

    def describe(self, file: int, offset: int, block: bytes) -> None:
        """Note a block of a pcapng file that describes how the packets behind it are to be read."""
        self._described[file].append((offset, block))

    def blocks(self, frame: int) -> Iterator[Block]:
        """Blocks of the frame's capture, starting at or before the frame. Raises CaptureError."""
        file = frame >> FRAME_BITS
        at = bisect_right(self._frames[file], frame) - 1
        if at < 0:
            raise CaptureError(f"{self._paths[file]}: nobody noted where its packets lie")
        offset = self._offsets[file][at]
        source = FileSource(self._paths[file])
        try:
            begin = SourceHead(source.read)
            found = recognise(begin)
            if found is None:
                raise CaptureError(f"{source.name}: is not the capture any more that was read")
            head = begin.data
            if offset:
                described = [block for place, block in self._described[file] if place < offset]
                head = found.prefix(begin, described)
                source.move(offset)
            yield from found.read(head, source, self._frames[file][at], BLOCK_SIZE, Findings())
        finally:
            source.close()
