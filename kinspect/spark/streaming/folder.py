"""A folder into which somebody captures: which of its files are complete, and which file each of them is.

A ring uses its names again, so a file is known by its path and the time of its first packet. It is complete when it
was not written for some time, or when a newer one of its series is there and it is not written any more.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from kinspect.capture.formats import open_capture
from kinspect.capture.reader import Findings
from kinspect.errors import CaptureError, TruncatedCaptureError
from kinspect.spark.storage import Listed, Part, listing

SETTLE_SECONDS = 60.0

_NS = 1_000_000_000
_PEEK_BYTES = 4096
_NUMBERS = re.compile(r"\d+")
# What `tcpdump -z` leaves in a file's place.
_COMPRESSED = re.compile(r"\.(gz|zst|lz4)$")


class Capture(NamedTuple):
    """A file of the folder. `first`: the time of its first packet, None if none can be read; `error`: why it is no
    capture, empty if it is one."""

    path: str
    size: int
    changed: int
    first: int | None
    error: str
    complete: bool = False

    @property
    def identity(self) -> str:
        """The path, which the file keeps when it is compressed."""
        return _COMPRESSED.sub("", self.path)

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


class Folder:
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

    def look(self) -> list[Capture]:
        """The captures that are there, in order of their first packets. Raises CaptureError."""
        now = self._now()
        files = listing(self.path)
        known = {file: self._known.get(file) or _peek(file) for file in files}
        # What could not be read may be readable at the next look.
        self._known = {file: capture for file, capture in known.items() if not capture.error}
        before, self._since = self._since, {file: self._since.get(file, now) for file in files}
        newest: dict[str, tuple[int, str]] = {}
        for capture in known.values():
            newest[capture.series] = max(newest.get(capture.series, capture.begins), capture.begins)
        found = [
            capture._replace(
                complete=self._is_quiet(file, now)
                or (file in before and capture.begins < newest[capture.series])
            )
            for file, capture in known.items()
        ]
        # While a file is compressed it is there twice.
        found.sort(key=lambda capture: capture.path, reverse=True)
        once = {capture.key: capture for capture in found}
        return sorted(once.values(), key=lambda capture: capture.begins)

    def _is_quiet(self, file: Listed, now: float) -> bool:
        """Not written for long: by the storage's clock, or, as that may be another, since it was seen like this."""
        return max(now - file.changed / _NS, now - self._since[file]) >= self._settle


def first_time(path: str) -> int | None:
    """The time of a file's first packet, None if there is none (any more)."""
    return _peek(Listed(path, 0, 0)).first


def _peek(file: Listed) -> Capture:
    first, error = None, ""
    try:
        with closing(Part(file.path)) as source:
            for block in open_capture(source, 1, _PEEK_BYTES, Findings()):
                first = block.times[0]
                break
    except TruncatedCaptureError:
        pass  # Its first packet is not written yet, or never will be: reading it tells.
    except CaptureError as problem:
        error = str(problem)
    return Capture(*file, first, error)
