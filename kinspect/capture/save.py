"""Writes packets into pcapng files as they are captured, with rotation from one file to the next."""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from kinspect.capture.rotation import FileSeries, Rotation
from kinspect.capture.writer import secrets_block, statistics_block
from kinspect.errors import CaptureError
from kinspect.ownfile import open_target, remake

SECRETS_KEPT = 8 * 1024 * 1024
"""Bytes of TLS secrets that each file begins with; if there are more, the latest ones."""

# A line of a key log. Nothing else of the file given as key log gets into a capture.
_SECRET = re.compile(rb"[A-Z][A-Z0-9_]+ [0-9A-Fa-f]+ [0-9A-Fa-f]+\s*")


class SaveOptions(NamedTuple):
    """Save options: the path, when to begin the next file, and whether existing files may be overwritten."""

    path: str
    rotation: Rotation = Rotation()
    force: bool = False


class SaveFiles:
    """Files of a capture, each complete in itself: starting with `prelude` and known secrets, ending with drop counts.

    Raises CaptureError if a file cannot be created or written. Its content is still valid then: it ends with a complete
    block.
    """

    def __init__(self, saving: SaveOptions, prelude: bytes, start_ns: int) -> None:
        self.names: deque[str] = deque()
        """Names of the files that exist, the newest last."""
        self.saved = 0
        """Number of packets written whole, also into files since deleted."""
        self._saving = saving
        self._series = FileSeries(saving.path, saving.rotation, self._put, self._rotate)
        self._drops: Sequence[int] = ()
        self._prelude = [prelude]
        self._start_ns = start_ns
        self._secrets: deque[bytes] = deque()
        self._secrets_size = 0
        self._open()

    def secrets(self, text: bytes) -> None:
        """Write new lines of a key log; anything else in `text` is left out."""
        known = b"".join(line for line in text.splitlines(keepends=True) if _SECRET.fullmatch(line))
        if known:
            self._secrets.append(known)
            self._secrets_size += len(known)
            while self._secrets_size > SECRETS_KEPT and len(self._secrets) > 1:
                self._secrets_size -= len(self._secrets.popleft())
            self._write(secrets_block(known))

    def describe(self, blocks: bytes, anew: bool = False) -> None:
        """Write blocks on how packets behind them are to be read, with which later files begin too. `anew`: those
        before do not count any more, as a new section begins."""
        if anew:
            self._prelude.clear()
        self._prelude.append(blocks)
        self._write(blocks)

    def packets(self, blocks: list[bytes], drops: Sequence[int]) -> None:
        """Write packet blocks into this file and as many more as they need; `drops`: drop counts so far."""
        self._drops = drops
        self._series.write(blocks)

    def _put(self, blocks: Sequence[bytes]) -> None:
        whole, error = self._written(blocks)
        self.saved += whole
        if error is not None:
            raise error

    def tick(self, drops: Sequence[int]) -> None:
        """Begin the next file if it is due and this one holds packets."""
        self._drops = drops
        self._series.tick()

    def close(self, drops: Sequence[int]) -> None:
        """End the file with the drop counts, unless it is closed already."""
        if self._file.closed:
            return
        now = time.time_ns()
        counts = [statistics_block(number, self._start_ns, now, count) for number, count in enumerate(drops)]
        try:
            self._write(*counts)
        finally:
            self.leave()

    def leave(self) -> None:
        """Close the file here: it is another process's now."""
        # Some file systems report failed writes only here.
        with _file_errors(self.names[-1]):
            self._file.close()

    def _rotate(self) -> None:
        self.close(self._drops)
        self._open()
        keep = self._saving.rotation.keep
        if keep is not None and len(self.names) > keep:
            oldest = self.names.popleft()
            with _file_errors(oldest):
                Path(oldest).unlink(missing_ok=True)

    def _open(self) -> None:
        name = self._series.next_name
        with _file_errors(name):
            descriptor, self._regular, made = open_target(name, self._saving.force)
            if self._regular and not made:
                os.close(descriptor)
                descriptor = remake(name)
            self._file = FileIO(descriptor, "wb")
        self.names.append(name)
        self._series.begin()
        try:
            self._write(*self._prelude, *map(secrets_block, self._secrets))
        except CaptureError:
            # A file without its first blocks cannot be read.
            if self._regular:
                with suppress(OSError):
                    os.unlink(name)
            raise

    def _write(self, *blocks: bytes) -> None:
        _, error = self._written(blocks)
        if error is not None:
            raise error

    def _written(self, blocks: Sequence[bytes]) -> tuple[int, CaptureError | None]:
        """Write the blocks; returns the number of those in the file, and the error that stopped the rest: a full disk
        takes only a part."""
        series = self._series
        start = series.size
        left = memoryview(b"".join(blocks))
        try:
            with _file_errors(self.names[-1]):
                while left:
                    written = self._file.write(left) or 0
                    series.size += written
                    left = left[written:]
        except CaptureError as error:
            ends = [*accumulate(map(len, blocks), initial=start)]
            whole = bisect_right(ends, series.size) - 1
            self._cut(ends[whole])
            return whole, error
        return len(blocks), None

    def _cut(self, size: int) -> None:
        """Truncate the file to `size` bytes, so that it does not end with an incomplete block."""
        if self._regular:
            self._series.size = size
            with suppress(OSError):
                self._file.truncate(size)
                self._file.seek(size)


@contextmanager
def _file_errors(name: str) -> Iterator[None]:
    """Turn errors of the operating system into a CaptureError that names the file."""
    try:
        yield
    except FileExistsError:
        raise CaptureError(f"{name}: exists; give --force to overwrite it") from None
    except OSError as error:
        raise CaptureError(f"{name}: {error.strerror or error}") from None
