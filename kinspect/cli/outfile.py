"""Output of a command: a file made for it, or standard output."""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BufferedIOBase, TextIOWrapper
from typing import Any, NamedTuple, TextIO

from kinspect.cli import complain
from kinspect.cli.progress import make_way
from kinspect.errors import KinspectError
from kinspect.model import NS_PER_MS
from kinspect.ownfile import PRIVATE, open_target, remake

STANDARD = "-"
"""The name of standard output."""
COMPRESSED = frozenset({".gz", ".zst", ".lz4", ".xz", ".bz2"})
"""Endings of names that would say what a file is not."""


class OpenMode(NamedTuple):
    """How a file is taken: `force`: an existing one is overwritten; `append`: it is gone on with; `mode`: the file's
    mode, None: `PRIVATE`, or what the file has that is gone on with."""

    force: bool = False
    append: bool = False
    mode: int | None = None


def check_name(path: str) -> None:
    """Raise KinspectError for the name of a compressed file, which the output would not be."""
    ending = os.path.splitext(path)[1]
    if ending in COMPRESSED and (os.path.isfile(path) or not os.path.exists(path)):
        raise KinspectError(f"{path}: is not written compressed: give a name without {ending}")


def check_overwrite(path: str, force: bool, inputs: Sequence[str], appends: bool = False) -> None:
    """Raise KinspectError if the output would overwrite a file without --force, or an input. `appends`: --append would
    go on with the file."""
    if not os.path.isfile(path):
        return
    if not force and not os.path.islink(path):
        other = ", or --append to go on at its end" if appends else ""
        raise KinspectError(f"{path}: exists; give --force to overwrite it{other}")
    if any(os.path.exists(i) and os.path.samefile(i, path) for i in inputs):
        raise KinspectError(f"{path}: is one of the inputs")


class Waiting(NamedTuple):
    """A wait for who reads slowly: milliseconds after which `tell` is called again, and the function."""

    every_ms: float
    tell: Callable[[], None]

    def for_room(self, descriptor: int) -> None:
        """Wait until the descriptor takes bytes."""
        room = select.poll()
        room.register(descriptor, select.POLLOUT)
        self.tell()
        while not room.poll(self.every_ms):
            self.tell()


class Descriptor(BufferedIOBase):
    """A file descriptor to write bytes to, each time all of them; `closes`: it is closed with the object."""

    def __init__(self, descriptor: int, closes: bool = True) -> None:
        self._descriptor = descriptor
        self._closes = closes
        # Together, so that another thread sees both of the same moment.
        self._blocked: tuple[int, int | None] = (0, None)
        self._waiting: Waiting | None = None
        self._header = b""
        self.ending = b"\n"
        """What a line ends with: a file ends with a whole one. Empty: bytes are written."""

    @property
    def blocked_ns(self) -> int:
        """Nanoseconds spent in writes, the one under way included: who reads slowly holds up the writer. May be asked
        in any thread, and never falls."""
        # Before it is seen whether a write is under way, which may end at any moment.
        now = time.monotonic_ns()
        before, since = self._blocked
        return before + (0 if since is None else max(now - since, 0))

    @property
    def name(self) -> int:
        """What messages of the interpreter call it."""
        return self._descriptor

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        """Write all of the bytes. Raises OSError; a file of lines then ends with the last whole one that had room."""
        left = memoryview(data)
        before, began = self._blocked[0], time.monotonic_ns()
        self._blocked = before, began
        done = 0
        try:
            while done < len(left):
                done += self._some(left[done:])
        except OSError:
            if self.ending:
                self._cut(bytes(left[:done]))
            raise
        finally:
            self._blocked = before + time.monotonic_ns() - began, None
        return done

    def tell_waiting(self, every_ns: int, tell: Callable[[], None]) -> None:
        """Have `tell` called in writes that wait for a reader, at least so often. A file has none: a write that does
        not come back from the disk tells nothing."""
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            self._waiting = Waiting(every_ns / NS_PER_MS, tell)

    def _some(self, data: memoryview) -> int:
        if self._waiting is not None:
            self._waiting.for_room(self._descriptor)
            # So much goes into a pipe that has room without waiting.
            data = data[: select.PIPE_BUF]
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            # Another program that has the pipe open too may have set it so.
            select.select([], [self._descriptor], [])
            return 0

    def _cut(self, written: bytes) -> None:
        """Take away the line that was cut; `written`: the last bytes in the file, from the start of a line."""
        whole, ending, _ = written.rpartition(self.ending)
        behind = len(written) - len(whole) - len(ending)
        found = os.fstat(self._descriptor)
        if stat.S_ISREG(found.st_mode) and behind:
            os.ftruncate(self._descriptor, found.st_size - behind)

    def put_header(self, header: bytes) -> None:
        """Have each file begin with this line. Raises KinspectError for one that is gone on with below another."""
        self._header = header

    def begin(self) -> None:
        """Prepare for the first byte."""
        self._begin_below_header()

    def _begin_below_header(self) -> None:
        """Write the header, unless it is there."""
        self.write(self._header)

    def tick(self) -> None:
        """Do what is due though nothing is written."""

    def anew(self) -> None:
        """Open the file anew by its name; called between lines. Raises OSError, and the old one stays."""

    def discard(self) -> None:
        """Send all that is still written to the null device."""
        to_nowhere(self._descriptor)

    def close(self) -> None:
        if not self.closed and self._closes:
            os.close(self._descriptor)
        super().close()


class TerminalOutput(Descriptor):
    """Standard output that is a terminal, as the one that shows progress mostly is."""

    def write(self, data: Any, /) -> int:
        if data:
            make_way()
        return super().write(data)


class NamedFile(Descriptor):
    """A file of a name. It keeps its contents until `begin`."""

    def __init__(self, path: str, open_mode: OpenMode) -> None:
        """Raises OSError."""
        self._path = path
        self._open_mode = open_mode
        target = open_target(path, open_mode.force, open_mode.append)
        self._own, self._made = target.own, target.made
        self._begun = False
        # A process that is forked has it open too.
        self._process = os.getpid()
        super().__init__(target.descriptor)

    def put_header(self, header: bytes) -> None:
        goes_on = self._own and self._open_mode.append and _size(self._descriptor)
        if goes_on and os.pread(self._descriptor, len(header), 0) != header:
            raise KinspectError(
                f"{self._path}: --append goes on with a file of the same columns, and it has others"
            )
        super().put_header(header)

    def begin(self) -> None:
        """Put a new file in place of the one that was there; or end its last line, if it is gone on with."""
        self._begun = True
        if self._own:
            self._begin_own()
        self._begin_below_header()

    def close(self) -> None:
        """A file that was made, and did not begin, goes."""
        if not self.closed and self._made and not self._begun and os.getpid() == self._process:
            with suppress(FileNotFoundError):
                os.unlink(self._path)
        super().close()

    def _begin_below_header(self) -> None:
        if not _size(self._descriptor):
            super()._begin_below_header()

    def _begin_own(self) -> None:
        if not self._made and not self._open_mode.append:
            self._put_in_place(remake(self._path, self._mode))
        elif self._made or self._open_mode.mode is not None:
            os.fchmod(self._descriptor, self._mode)
        if self._open_mode.append and not _ends_whole(self._descriptor):
            complain(f"{self._path}: its last line has no end, as of a run that was killed: one is put there")
            self.write(b"\n")

    @property
    def _mode(self) -> int:
        return PRIVATE if self._open_mode.mode is None else self._open_mode.mode

    def anew(self) -> None:
        if self._own:
            target = open_target(self._path, goes_on=True)
            if target.made:
                os.fchmod(target.descriptor, self._mode)
            self._put_in_place(target.descriptor)
            self._begin_below_header()

    def _put_in_place(self, descriptor: int) -> None:
        """Write to another file from here on, by the same descriptor."""
        os.dup2(descriptor, self._descriptor, inheritable=False)
        os.close(descriptor)


def _size(descriptor: int) -> int:
    """Bytes in the file; 0 for a pipe or a device."""
    return os.fstat(descriptor).st_size


def _ends_whole(descriptor: int) -> bool:
    """True if the file ends with the end of a line, or is empty."""
    size = _size(descriptor)
    return not size or os.pread(descriptor, 1, size - 1) == b"\n"


class Output(TextIOWrapper):
    """The stream of a command's output, as text or (its `buffer`) bytes. `file`: what it writes to."""

    def __init__(self, file: Descriptor, encoding: str = "utf-8", errors: str = "strict") -> None:
        super().__init__(file, encoding=encoding, errors=errors)
        self.file = file


def open_output(path: str | None, open_mode: OpenMode) -> Output:
    """The stream to write to; None is standard output.

    A file keeps its contents until `begin`.
    """
    if path is None:
        # A name that the terminal cannot show must not end the run.
        kind = TerminalOutput if sys.stdout.isatty() else Descriptor
        return Output(kind(sys.stdout.fileno(), closes=False), sys.stdout.encoding, "backslashreplace")
    try:
        return Output(NamedFile(path, open_mode))
    except FileExistsError:
        raise KinspectError(f"{path}: exists; give --force to overwrite it") from None
    except OSError as error:
        raise KinspectError(f"-o: {path}: {error.strerror or error}") from None


def discard(stream: TextIO) -> None:
    """Send unwritten and later output of the stream to the null device."""
    if isinstance(stream, Output):
        stream.file.discard()
    else:
        to_nowhere(stream.fileno())


def to_nowhere(descriptor: int) -> None:
    """Make the descriptor one of the null device."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
