"""When one file ends and the next begins, and what the files are called."""

from __future__ import annotations

import os
import re
import time
from typing import NamedTuple


class Rotation(NamedTuple):
    """Limits of one file in bytes, nanoseconds and packets, and the number of files kept, of which the oldest is
    deleted. None: no limit."""

    size: int | None = None
    time_ns: int | None = None
    packets: int | None = None
    keep: int | None = None

    @property
    def limited(self) -> bool:
        return any((self.size, self.time_ns, self.packets))


def numbered(path: str, number: int) -> str:
    """Name of one of the files of a path: `trace_00001_20261121151919.pcapng` for `trace.pcapng`. Names sort in
    order."""
    base, extension = os.path.splitext(path)
    return f"{base}_{number:05}_{time.strftime('%Y%m%d%H%M%S', time.gmtime())}{extension}"


def there_are(path: str, endings: tuple[str, ...]) -> list[tuple[int, str]]:
    """Numbers and names of the files that `numbered` named, in order, plain or with one of the `endings` behind the
    name; names are without it."""
    base, extension = os.path.splitext(path)
    behind = "|".join(map(re.escape, ("", *endings)))
    pattern = re.compile(
        rf"({re.escape(os.path.basename(base))}_(\d{{5,}})_\d{{14}}{re.escape(extension)})(?:{behind})"
    )
    folder = os.path.dirname(path)
    found = {
        (int(match[2]), os.path.join(folder, match[1]))
        for name in os.listdir(folder or os.curdir)
        if (match := pattern.fullmatch(name))
    }
    return sorted(found)
