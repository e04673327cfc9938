"""The watched folder of a stream: its captures, their identity and their completeness.

A ring uses its names again, so a file is identified by its name in the folder and the time of its first packet. It is
complete when it was not written for some time, or when its series has a newer file and it did not change since the
look before.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from kinspect.capture.fileformats import open_capture
from kinspect.capture.reader import Findings
from kinspect.errors import CaptureError, KinspectError, TruncatedCaptureError, UnreadableError
from kinspect.spark.storage import CaptureBytes, ListedFile, listing, shown

SETTLE_SECONDS = 60.0

_NS = 1_000_000_000
_PEEK_BYTES = 4096
_NUMBERS = re.compile(r"\d+")
# Endings of the files that `tcpdump -z` leaves.
_COMPRESSED = (".gz", ".zst", ".lz4")
_UNPACKED = 8
"""Assumed compression ratio of captures."""


class Capture(NamedTuple):
    """A file of the folder. `size`: bytes; `changed`: time of the last write (ns); `first`: time of the first packet
    (ns), None if none can be read; `number`: its number in the run, once it was taken; `error`: empty for a capture."""

    name: str
    size: int
    changed: int
    first: int | None
    number: int = 0
    path: str = ""
    error: str = ""
    complete: bool = False

    @property
    def identity(self) -> str:
        return identity_of(self.name)

    @property
    def weight(self) -> int:
        """Estimated size in bytes when uncompressed."""
        return self.size if self.identity == self.name else self.size * _UNPACKED

    @property
    def series(self) -> str:
        """The name without digits, the same for all files of a ring."""
        return _NUMBERS.sub("", self.identity)

    @property
    def key(self) -> tuple[str, int | None]:
        """Identity of the file: its uncompressed name and the time of its first packet."""
        return self.identity, self.first

    @property
    def begins(self) -> tuple[int, str]:
        """Sort key of files: the time of the first packet, without one that of the last write, and the name."""
        return self.changed if self.first is None else self.first, self.identity


class WatchedFolder:
    """A folder that is looked at again and again, with the state between looks."""

    def __init__(
        self, path: str, settle: float = SETTLE_SECONDS, now: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._settle = settle
        self._now = now
        # The captures of the last look, and the time since when each file is unchanged.
        self._known: dict[ListedFile, Capture] = {}
        self._since: dict[ListedFile, float] = {}
        self._listed: dict[str, ListedFile] = {}

    def look(self) -> list[Capture]:
        """Captures in the folder, in order of their first packets. Raises CaptureError."""
        now = self._now()
        known = {
            file: found for file in listing(self.path) if (found := self._known.get(file) or _seen(file))
        }
        # Unreadable files may be readable at the next look.
        self._known = {file: capture for file, capture in known.items() if not capture.error}
        before, self._since = self._since, {file: self._since.get(file, now) for file in known}
        newest: dict[str, tuple[int, str]] = {}
        for capture in known.values():
            newest[capture.series] = max(newest.get(capture.series, capture.begins), capture.begins)
        once = {}
        # While a file is being compressed, the folder has it twice.
        for file, capture in sorted(known.items(), reverse=True):
            is_older = file in before and capture.begins < newest[capture.series]
            once[capture.key] = capture._replace(complete=is_older or self._is_quiet(file, now))
        return sorted(once.values(), key=lambda capture: capture.begins)

    def find(self, name: str, first: int | None) -> Capture | None:
        """The file of this name and first packet, which may have been compressed since. `first` None: it may have a
        first packet by now. Returns None if the file is gone or another one has its name. Raises CaptureError."""
        found = self._find(name, first)
        for _ in range(2):  # A listing may miss both names of a file that is being compressed.
            if found is None:
                self._listed = {file.name: file for file in self._listing()}
                found = self._find(name, first)
        return found

    def _listing(self) -> list[ListedFile]:
        try:
            return listing(self.path)
        except CaptureError as error:
            # No CaptureError: a host that does not see the folder must not report its files as removed.
            raise KinspectError(str(error)) from error

    def _find(self, name: str, first: int | None) -> Capture | None:
        names = [identity_of(name) + ending for ending in ("", *_COMPRESSED)]
        there = (look_at(self._listed[own]) for own in names if own in self._listed)
        return next((found for found in there if found and first in (None, found.first)), None)

    def shown(self, name: str) -> str:
        """Name of a file in rows and messages."""
        return f"{shown(self.path).rstrip('/')}/{shown(name)}"

    def _is_quiet(self, file: ListedFile, now: float) -> bool:
        """True if the file was not written for the settle time, by the storage's clock or by the time since when it is
        seen unchanged."""
        changed = file.changed / _NS if file.changed else now
        return max(now - changed, now - self._since[file]) >= self._settle


def identity_of(name: str) -> str:
    """Name of a file without the ending of a compressed one."""
    return next((name.removesuffix(ending) for ending in _COMPRESSED if name.endswith(ending)), name)


def _seen(file: ListedFile) -> Capture | None:
    try:
        return look_at(file)
    except UnreadableError as problem:
        return Capture(file.name, file.size, file.changed, None, path=file.path, error=str(problem))


def look_at(file: ListedFile | Capture) -> Capture | None:
    """The current state of a file, None if it is gone. Raises UnreadableError."""
    first, error = None, ""
    try:
        with closing(CaptureBytes(file.path)) as source:
            for block in open_capture(source, 1, _PEEK_BYTES, Findings()):
                first = block.times[0]
                break
    except TruncatedCaptureError:
        pass  # Its first packet may still be written.
    except UnreadableError as problem:
        if isinstance(problem.__cause__, FileNotFoundError):
            return None
        raise
    except CaptureError as problem:
        error = str(problem)
    return Capture(file.name, file.size, file.changed, first, path=file.path, error=error)
