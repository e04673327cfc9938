"""A folder into which somebody captures: which of its files are complete, and which file each of them is.

A ring uses its names again, so a file is known by its name in the folder and the time of its first packet. It is
complete when it was not written for some time, or when a newer one of its series is there and it is not written any
more.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from kinspect.capture.formats import open_capture
from kinspect.capture.reader import Findings
from kinspect.errors import CaptureError, KinspectError, TruncatedCaptureError, UnreadableError
from kinspect.spark.storage import CaptureBytes, Listed, listing, shown

SETTLE_SECONDS = 60.0

_NS = 1_000_000_000
_PEEK_BYTES = 4096
_NUMBERS = re.compile(r"\d+")
# What `tcpdump -z` leaves in a file's place.
_COMPRESSED = (".gz", ".zst", ".lz4")
_UNPACKED = 8
"""How much larger captures are when they are unpacked, about."""


class Capture(NamedTuple):
    """A file of the folder. `first`: the time of its first packet, None if none can be read; `number`: its number in
    the run, once it was taken; `error`: why it is no capture, empty if it is one."""

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
        """About how many bytes it has unpacked."""
        return self.size if self.identity == self.name else self.size * _UNPACKED

    @property
    def series(self) -> str:
        """What the names of the files of one ring have in common."""
        return _NUMBERS.sub("", self.identity)

    @property
    def key(self) -> tuple[str, int | None]:
        """What the file is known by."""
        return self.identity, self.first

    @property
    def begins(self) -> tuple[int, str]:
        """What files are ordered by: the time of the first packet, or when it was made if there is none yet."""
        return self.changed if self.first is None else self.first, self.identity


class WatchedFolder:
    """Look at it again and again."""

    def __init__(
        self, path: str, settle: float = SETTLE_SECONDS, now: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._settle = settle
        self._now = now
        # What was known at the last look, and since when files have been as they are.
        self._known: dict[Listed, Capture] = {}
        self._since: dict[Listed, float] = {}
        self._listed: dict[str, Listed] = {}

    def look(self) -> list[Capture]:
        """The captures that are there, in order of their first packets. Raises CaptureError."""
        now = self._now()
        known = {
            file: found for file in listing(self.path) if (found := self._known.get(file) or _seen(file))
        }
        # What could not be read may be readable at the next look.
        self._known = {file: capture for file, capture in known.items() if not capture.error}
        before, self._since = self._since, {file: self._since.get(file, now) for file in known}
        newest: dict[str, tuple[int, str]] = {}
        for capture in known.values():
            newest[capture.series] = max(newest.get(capture.series, capture.begins), capture.begins)
        once = {}
        # While a file is compressed it is there twice.
        for file, capture in sorted(known.items(), reverse=True):
            is_older = file in before and capture.begins < newest[capture.series]
            once[capture.key] = capture._replace(complete=is_older or self._is_quiet(file, now))
        return sorted(once.values(), key=lambda capture: capture.begins)

    def find(self, name: str, first: int | None) -> Capture | None:
        """A file that was known by these, as it is now: it may have been compressed. If no packet of it was known, it
        may have some. None: it is gone, or another one. Raises CaptureError."""
        found = self._find(name, first)
        for _ in range(2):  # A listing may have neither name of a file that is compressed meanwhile.
            if found is None:
                self._listed = {file.name: file for file in self._listing()}
                found = self._find(name, first)
        return found

    def _listing(self) -> list[Listed]:
        try:
            return listing(self.path)
        except CaptureError as error:
            # Not of one capture: a host that does not see the folder must not take its files for gone.
            raise KinspectError(str(error)) from error

    def _find(self, name: str, first: int | None) -> Capture | None:
        names = [identity_of(name) + ending for ending in ("", *_COMPRESSED)]
        there = (look_at(self._listed[own]) for own in names if own in self._listed)
        return next((found for found in there if found and first in (None, found.first)), None)

    def shown(self, name: str) -> str:
        """How a file is called in rows and messages."""
        return f"{shown(self.path).rstrip('/')}/{shown(name)}"

    def _is_quiet(self, file: Listed, now: float) -> bool:
        """Not written for long: by the storage's clock, if it tells, or, as that may be another, since it was seen like
        this."""
        changed = file.changed / _NS if file.changed else now
        return max(now - changed, now - self._since[file]) >= self._settle


def identity_of(name: str) -> str:
    """The name that a file keeps when it is compressed."""
    return next((name.removesuffix(ending) for ending in _COMPRESSED if name.endswith(ending)), name)


def _seen(file: Listed) -> Capture | None:
    try:
        return look_at(file)
    except UnreadableError as problem:
        return Capture(file.name, file.size, file.changed, None, path=file.path, error=str(problem))


def look_at(file: Listed | Capture) -> Capture | None:
    """A file as it is now, None if it is gone. Raises UnreadableError."""
    first, error = None, ""
    try:
        with closing(CaptureBytes(file.path)) as source:
            for block in open_capture(source, 1, _PEEK_BYTES, Findings()):
                first = block.times[0]
                break
    except TruncatedCaptureError:
        pass  # Its first packet is not written yet, or never will be: reading it tells.
    except UnreadableError as problem:
        if isinstance(problem.__cause__, FileNotFoundError):
            return None
        raise
    except CaptureError as problem:
        error = str(problem)
    return Capture(file.name, file.size, file.changed, first, path=file.path, error=error)
