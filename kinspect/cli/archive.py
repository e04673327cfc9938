"""Files that are written to the end: compressed, and the oldest deleted, beside the writing of the next one."""

from __future__ import annotations

import os
import threading
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from queue import SimpleQueue
from typing import NamedTuple, Protocol

from kinspect.capture.compressed import zstd_library
from kinspect.cli import complain
from kinspect.ownfile import folder_of, make, open_known

_PIECE_BYTES = 1 << 20
_TEMPORARY = ".tmp"
# Loaded now: later `live` may no longer read files.
zstd_library()


class Compressor(Protocol):
    """An incremental compressor of the standard library."""

    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


def _gzip() -> Compressor:
    return zlib.compressobj(wbits=zlib.MAX_WBITS | 16)


def _zstd() -> Compressor:
    compressor: Compressor = zstd_library().ZstdCompressor()
    return compressor


class Compression(NamedTuple):
    """A way to compress a file: what is put behind its name, and what makes a compressor."""

    ending: str
    compressor: Callable[[], Compressor]


COMPRESSIONS = {"gzip": Compression(".gz", _gzip), "zstd": Compression(".zst", _zstd)}
ENDINGS = tuple(compression.ending for compression in COMPRESSIONS.values())


class Archive:
    """Files that are complete, the newest last, `keep` at most; None: any number. `compression`: None for none.

    A thread does the work, as compressing takes seconds. It has the priority of all: with a lower one, on a busy
    machine, it would hold Python's lock for as long as it is not scheduled. A file has its compressed form under
    another name until that is whole: whenever the process is killed, one of them is complete.
    """

    def __init__(self, names: list[str], keep: int | None, compression: Compression | None) -> None:
        """`names`: those that are there, without the endings of compression."""
        self._names = deque(names)
        self._keep = keep
        self._compression = compression
        self._complete: SimpleQueue[str | None] = SimpleQueue()
        self._ending = False
        self._thread: threading.Thread | None = None
        for name in names:
            for ending in ENDINGS:
                with suppress(OSError):
                    os.unlink(name + ending + _TEMPORARY)
            self._complete.put(name)

    def start(self) -> None:
        """Begin with the files that are there. The process must not fork any more."""
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)
        self._thread.start()

    def add(self, name: str) -> None:
        """Take a file that is written to the end; returns at once."""
        self._complete.put(name)

    def close(self) -> None:
        """End. A file that is not compressed by then stays as it is; the next run goes on with it."""
        self._ending = True
        if self._thread is not None:
            self._complete.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (name := self._complete.get()) is not None and not self._ending:
            if name not in self._names:
                self._names.append(name)
            try:
                self._delete_oldest()
                if self._compression is not None and name in self._names:
                    self._compress(name, self._compression)
            except OSError as error:
                complain(f"{name}: {error.strerror or error}: it stays as it is")

    def _delete_oldest(self) -> None:
        # One more is being written.
        while self._keep is not None and len(self._names) >= self._keep:
            oldest = self._names.popleft()
            for ending in ("", *ENDINGS):
                with suppress(FileNotFoundError):
                    os.unlink(oldest + ending)

    def _compress(self, name: str, compression: Compression) -> None:
        """Put the compressed file in place of the plain one, unless the end comes first."""
        with folder_of(name) as (folder, plain):
            whole = plain + compression.ending
            temporary = whole + _TEMPORARY
            try:
                source = open_known(plain, folder, os.O_RDONLY)
            except FileNotFoundError:
                # An earlier run compressed it, or somebody took it.
                return
            with open(source, "rb", buffering=0) as read:
                made = make(temporary, os.fstat(source).st_mode & 0o777, folder)
                try:
                    with open(made, "wb", buffering=0) as packed:
                        if not self._packed(read, packed, compression.compressor()):
                            os.unlink(temporary, dir_fd=folder)
                            return
                    os.rename(temporary, whole, src_dir_fd=folder, dst_dir_fd=folder)
                except OSError:
                    with suppress(OSError):
                        os.unlink(temporary, dir_fd=folder)
                    raise
            os.unlink(plain, dir_fd=folder)

    def _packed(self, read: FileIO, packed: FileIO, compressor: Compressor) -> bool:
        """Compress all of a file into another, down to the disk; False if the end came first."""
        while piece := read.read(_PIECE_BYTES):
            _write_all(packed.fileno(), compressor.compress(piece))
            if self._ending:
                return False
        _write_all(packed.fileno(), compressor.flush())
        os.fsync(packed.fileno())
        return True


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
