"""A temporary file without a name, for bytes that cannot be read again from their source."""

from __future__ import annotations

import os
import tempfile
from struct import Struct

from kinspect.errors import KinspectError
from kinspect.tui.index.row import NOWHERE

SPOOL_BYTES = 1 << 30
_HEAD = Struct("<qq")
_NOT_THERE = -1

Messages = tuple[bytes | None, bytes | None]
"""The bytes of a request and of its response; None where there is none, or none was kept."""


class Spool:
    """Holds messages, `limit` bytes of them at most.

    Only the owner may read the file (mode 0600). It is unlinked before the first byte is written, so it is gone when
    the last process that has it open ends, in any way. Forked processes share it; one of them writes.
    """

    def __init__(self, limit: int = SPOOL_BYTES) -> None:
        try:
            self._file = tempfile.TemporaryFile(prefix="kinspect-", buffering=0)  # noqa: SIM115 - closed by `close`
        except OSError as error:
            raise KinspectError(f"cannot make a temporary file: {error.strerror or error}") from None
        self.limit = limit
        self.size = 0
        self.refused = 0
        """Number of exchanges for which there was no room."""

    def add(self, messages: Messages) -> int:
        """Keep the messages; return their place, or NOWHERE if there is no room."""
        sizes = [_NOT_THERE if message is None else len(message) for message in messages]
        needed = _HEAD.size + sum(size for size in sizes if size > 0)
        if self.size + needed > self.limit:
            self.refused += 1
            return NOWHERE
        data = b"".join((_HEAD.pack(*sizes), *(message or b"" for message in messages)))
        place = self.size
        try:
            while data:
                written = os.pwrite(self._file.fileno(), data, self.size)
                self.size += written
                data = data[written:]
        except OSError:
            # The disk is full: the same as a reached limit.
            self.size = self.limit = place
            self.refused += 1
            return NOWHERE
        return place

    def get(self, place: int) -> Messages:
        """The messages kept at `place`."""
        sizes = _HEAD.unpack(os.pread(self._file.fileno(), _HEAD.size, place))
        place += _HEAD.size
        found: list[bytes | None] = []
        for size in sizes:
            found.append(None if size == _NOT_THERE else os.pread(self._file.fileno(), size, place))
            place += max(size, 0)
        return found[0], found[1]

    def fileno(self) -> int:
        """The file's descriptor."""
        return self._file.fileno()

    def close(self) -> None:
        """Close the file, which removes it."""
        self._file.close()
