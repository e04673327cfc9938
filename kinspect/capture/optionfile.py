"""Small files that options name: read whole, if they are regular files within a size limit."""

from __future__ import annotations

import os
import stat

from kinspect.errors import KinspectError

KINDS = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"))
QUOTED = 60
MIB = 1 << 20


def read_option_file(option: str, path: str, most: int, start: int = 0) -> bytes:
    """The file's bytes from `start` on, `most` of them. Raises KinspectError, without waiting, if it is no regular
    file, cannot be read or is larger."""
    try:
        # Opening a pipe that nobody writes to would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                kind = next((name for test, name in KINDS if test(found.st_mode)), "something else")
                raise KinspectError(f"{option}: {path}: is {kind}: give a file")
            file.seek(start)
            data = b"" if found.st_size - start > most else file.read(most + 1)
    except OSError as error:
        raise KinspectError(f"{option}: {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise KinspectError(f"{option}: {path!r}: {error}") from None
    if len(data) > most or found.st_size - start > most:
        raise KinspectError(f"{option}: {path}: is larger than {_written(most)}")
    return data


def _written(size: int) -> str:
    whole, rest = divmod(size, MIB)
    return str(size) if rest else f"{whole}MiB"


def quoted(text: str) -> str:
    """A piece of the file for an error message."""
    return repr(text if len(text) <= QUOTED else f"{text[:QUOTED]}…")
