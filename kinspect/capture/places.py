"""Where packets lie in plain captures, so that some of them can be read again without those before."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from kinspect.capture.formats import READERS, open_capture
from kinspect.capture.reader import BLOCK_SIZE, Findings
from kinspect.capture.source import FileSource, can_reopen
from kinspect.errors import CaptureError
from kinspect.model import FRAME_BITS, Block

_PCAP_HEADER = 24
_MAGIC = 4


def is_plain(path: str) -> bool:
    """Whether `path` is a regular file with a capture that is not compressed: what places can be told of."""
    if not can_reopen(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(_MAGIC) in READERS
    except OSError:
        return False


class Places:
    """Of each capture, the frames that blocks begin with and their offsets; noted in the order they are read."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._frames: list[array[int]] = [array("Q") for _ in paths]
        self._offsets: list[array[int]] = [array("Q") for _ in paths]
        self._described: list[list[tuple[int, bytes]]] = [[] for _ in paths]

    def add(self, frame: int, offset: int) -> None:
        """From `offset` on stand packets, the first one with the frame reference `frame`."""
        file = frame >> FRAME_BITS
        if not self._offsets[file] or offset > self._offsets[file][-1]:
            self._frames[file].append(frame)
            self._offsets[file].append(offset)

    def describe(self, file: int, offset: int, block: bytes) -> None:
        """A block of a pcapng file says how the packets behind it are to be read."""
        self._described[file].append((offset, block))

    def blocks(self, frame: int) -> Iterator[Block]:
        """The packets of the frame's capture, from somewhere before the frame on. Raises CaptureError."""
        file = frame >> FRAME_BITS
        at = bisect_right(self._frames[file], frame) - 1
        if at < 0:
            raise CaptureError(f"{self._paths[file]}: nobody noted where its packets lie")
        source = _Resumed(
            self._paths[file], self._prefix(file, self._offsets[file][at]), self._offsets[file][at]
        )
        try:
            yield from open_capture(source, self._frames[file][at], BLOCK_SIZE, Findings())
        finally:
            source.close()

    def _prefix(self, file: int, offset: int) -> bytes:
        """What has to stand before the bytes from `offset` on."""
        if not offset:
            return b""
        described = self._described[file]
        if described:
            return b"".join([block for place, block in described if place < offset])
        try:
            with open(self._paths[file], "rb") as capture:
                return capture.read(_PCAP_HEADER)
        except OSError as error:
            raise CaptureError(f"{self._paths[file]}: {error.strerror or error}") from error


class _Resumed:
    """A source: `prefix`, then a file from `offset` on."""

    def __init__(self, path: str, prefix: bytes, offset: int) -> None:
        self._prefix = prefix
        self._file = FileSource(path)
        self._file.position = offset

    @property
    def name(self) -> str:
        return self._file.name

    @property
    def position(self) -> int:
        return self._file.position

    def read(self, size: int) -> bytes:
        if self._prefix:
            data, self._prefix = self._prefix[:size], self._prefix[size:]
            return data
        return self._file.read(size)

    def release(self) -> None:
        self._file.release()

    def close(self) -> None:
        self._file.close()
