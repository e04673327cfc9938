"""Inputs that capture bytes are read from: files, and standard input.

Errors of the operating system become a `CaptureError` of one line here, and nowhere else.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Callable
from typing import Final, Protocol

from kinspect.errors import CaptureError, UnreadableError

STDIN: Final = "-"
STDIN_NAME: Final = "standard input"


class Source(Protocol):
    """A stream of bytes."""

    @property
    def name(self) -> str:
        """Name of the input in messages."""

    @property
    def position(self) -> int:
        """Number of bytes of the input read so far."""

    def read(self, size: int) -> bytes:
        """Read up to `size` bytes; waits only if none are there; empty at the end.

        Raises CaptureError, or TruncatedCaptureError if the stream itself says that its end is missing.
        """

    def release(self) -> None:
        """Close the file descriptor if the next `read` can open the input again and go on at the same position."""

    def close(self) -> None:
        """Close the input for good."""


_ADVICE: Final = {
    errno.ENOENT: "no such file",
    errno.EISDIR: "is a directory, not a capture; name the files in it",
    errno.EACCES: "no permission to read it",
}


def unreadable(name: str, error: OSError) -> UnreadableError:
    """Error for an input that the system fails to read."""
    return UnreadableError(f"{name}: {_ADVICE.get(error.errno or 0) or error.strerror or error}")


class FileSource:
    """A file by its path, opened at the first read; also a named pipe or `/dev/fd/N`."""

    def __init__(self, path: str) -> None:
        self.name = path
        self.position = 0
        self._file: io.FileIO | None = None
        self._identity: tuple[int, int] | None = None
        self._regular = False

    def read(self, size: int) -> bytes:
        try:
            file = self._file or self._open()
            data = file.read(size) or b""
        except OSError as error:
            raise unreadable(self.name, error) from error
        self.position += len(data)
        return data

    def _open(self) -> io.FileIO:
        file = io.FileIO(self.name)
        status = os.fstat(file.fileno())
        identity = (status.st_dev, status.st_ino)
        if self._identity not in (None, identity):
            file.close()
            raise CaptureError(f"{self.name}: was replaced by another file while it was read")
        self._regular = stat.S_ISREG(status.st_mode)
        if self._regular and self.position:
            file.seek(self.position)
        self._identity = identity
        self._file = file
        return file

    def move(self, offset: int) -> None:
        """Let the next `read` begin at `offset`."""
        self.close()
        self.position = offset

    def release(self) -> None:
        if self._regular:
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class StdinSource:
    """Standard input; never closed, since it is not ours."""

    def __init__(self) -> None:
        self.name = STDIN_NAME
        self.position = 0

    def read(self, size: int) -> bytes:
        if sys.stdin is None:
            raise CaptureError(f"{self.name}: is closed")
        try:
            # A single read of what the pipe holds: packets are shown while tcpdump is still running.
            data = sys.stdin.buffer.read1(size)  # type: ignore[union-attr]
        except OSError as error:
            raise unreadable(self.name, error) from error
        self.position += len(data)
        return bytes(data)

    def release(self) -> None:
        pass

    def close(self) -> None:
        pass


def open_source(path: str) -> Source:
    """Source for a path as the user gave it; nothing is opened before the first read."""
    return StdinSource() if path == STDIN else FileSource(path)


def can_reopen(path: str) -> bool:
    """True if `path` can be opened and read again; also true if it cannot be read at all."""
    try:
        return path != STDIN and stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return path != STDIN


def input_size(path: str) -> int | None:
    """Size of `path` in bytes; 0 if it cannot be looked at, None if the size is not known (pipes)."""
    try:
        return os.stat(path).st_size if can_reopen(path) else None
    except OSError:
        return 0


class SourceHead:
    """The beginning of a source, read only as far as needed. `read`: the source's."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self.data = b""
        """Bytes read so far."""
        self._read = read

    def first(self, size: int) -> bytes:
        """The first `size` bytes, fewer if there are no more. Raises what the source raises."""
        while len(self.data) < size and (more := self._read(size - len(self.data))):
            self.data += more
        return self.data[:size]


def read_at_least(source: Source, data: bytes, need: int, size: int) -> bytes:
    """Return `data` with the next read of about `size` bytes appended; reads more often if `need` bytes require it.

    Returns fewer than `need` bytes only at the end of the source.
    """
    parts = [data]
    have = len(data)
    while True:
        more = source.read(max(size, need - have))
        if not more:
            break
        parts.append(more)
        have += len(more)
        if have >= need:
            break
    return b"".join(parts)
