"""Output of a command: a file made for it, or standard output."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Sequence
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, TextIO

from kinspect.errors import KinspectError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

PRIVATE = 0o600
"""Mode of output files: captures hold other people's data, so only the owner may read them."""


STANDARD = "-"
"""The name of standard output."""


class TimedFile(FileIO):
    """A file descriptor that notes how long its writes took: who reads slowly holds up the writer."""

    def __init__(self, descriptor: int, closefd: bool) -> None:
        super().__init__(descriptor, "w", closefd=closefd)
        self._blocked_ns = 0
        self._since: int | None = None

    @property
    def blocked_ns(self) -> int:
        """Nanoseconds spent in writes, the one under way included. May be asked in any thread."""
        since = self._since
        return self._blocked_ns + (0 if since is None else time.monotonic_ns() - since)

    def write(self, data: ReadableBuffer, /) -> int:
        self._since = begin = time.monotonic_ns()
        try:
            return super().write(data)
        finally:
            self._since = None
            self._blocked_ns += time.monotonic_ns() - begin


class Output(TextIOWrapper):
    """The stream of a command's output, as text or (its `buffer`) bytes. It is buffered: with PYTHONUNBUFFERED, the
    rest of a write that a signal cuts short would be lost. `file`: what it writes to."""

    def __init__(self, file: TimedFile, encoding: str, errors: str) -> None:
        super().__init__(BufferedWriter(file), encoding=encoding, errors=errors)
        self.file = file


def check_overwrite(path: str, force: bool, inputs: Sequence[str]) -> None:
    """Raise KinspectError if the output would overwrite a file without --force, or an input. Devices and pipes may be
    written to."""
    if not os.path.isfile(path):
        return
    if not force:
        raise KinspectError(f"{path}: exists; give --force to overwrite it")
    if any(os.path.exists(i) and os.path.samefile(i, path) for i in inputs):
        raise KinspectError(f"{path}: is one of the inputs")


def open_output(path: str | None, force: bool) -> Output:
    """The stream to write to; None is standard output.

    A file keeps its contents until `begin`.
    """
    if path is None:
        # A name that the terminal cannot show must not end the run.
        return Output(TimedFile(sys.stdout.fileno(), closefd=False), sys.stdout.encoding, "backslashreplace")
    try:
        over = force or (os.path.exists(path) and not os.path.isfile(path))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | (0 if over else os.O_EXCL), PRIVATE)
    except FileExistsError:
        raise KinspectError(f"{path}: exists; give --force to overwrite it") from None
    except OSError as error:
        raise KinspectError(f"-o: {path}: {error.strerror or error}") from None
    return Output(TimedFile(descriptor, closefd=True), "utf-8", "strict")


def discard(stream: TextIO) -> None:
    """Send unwritten and later output of the stream to the null device."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def begin(stream: TextIO) -> None:
    """Empty the file that was opened, and make it private, before the first byte goes into it."""
    descriptor = stream.fileno()
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, PRIVATE)  # refused for another's file, which then keeps its contents
        os.ftruncate(descriptor, 0)
