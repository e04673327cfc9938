"""A lock on a file, which ends with the process that has it, however that ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from socket import gethostname

from kinspect.errors import KinspectError
from kinspect.output.escape import printable
from kinspect.ownfile import make, open_known

LOCK = "_LOCK"
_FOLDER_MODE = 0o700


class FileLock:
    """A file that this object alone has, until `release`; its folder is made. It may be deleted meanwhile.

    Raises KinspectError, with `words`, if another process has it, and if it cannot be locked.
    """

    def __init__(self, path: Path, words: str) -> None:
        self._descriptor = -1
        try:
            self._lock(path)
        except BlockingIOError:
            holder = printable(os.pread(self._descriptor, 200, 0).decode("utf-8", "replace"))
            self.release()
            raise KinspectError(f"{words} ({holder})") from None
        except OSError as error:
            self.release()
            # Behind a colon may stand what to do about files that users name.
            why = (error.strerror or str(error)).partition(":")[0]
            raise KinspectError(
                f"{path}: cannot be locked ({why}): delete it, or choose another folder"
            ) from None

    def _lock(self, path: Path) -> None:
        while not self._is_held(path):
            self.release()
            path.parent.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
            # Its folder may be deleted meanwhile.
            with suppress(FileNotFoundError):
                self._descriptor = _opened(str(path))
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"process {os.getpid()} on {gethostname()}".encode(), 0)

    def _is_held(self, path: Path) -> bool:
        """False also if the file was deleted before it was locked."""
        try:
            return self._descriptor >= 0 and os.path.samestat(os.fstat(self._descriptor), os.stat(path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    __del__ = release


def _opened(path: str) -> int:
    with suppress(FileExistsError):
        os.close(make(path))
    return open_known(path, flags=os.O_RDWR)
