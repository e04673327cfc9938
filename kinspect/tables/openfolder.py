"""A folder of tables on a local disk that is held open: everything is done below it, so that no name can lead elsewhere
meanwhile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from kinspect.errors import KinspectError
from kinspect.ownfile import make
from kinspect.tables.committedfolder import MANIFEST, CommittedFolder
from kinspect.tables.lock import LOCK, FileLock
from kinspect.tables.tablenames import PROBLEMS, RECORD_ROWS, STAGING, TABLES

_MODE = 0o700
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextmanager
def opened_below(folder: int, *names: str, make: bool = False) -> Iterator[int]:
    """Context with a folder below an open one. `make`: what is missing is made. Raises OSError, also for symbolic
    links."""
    found = os.dup(folder)
    try:
        for name in names:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, _MODE, dir_fd=found)
            above, found = found, os.open(name, _FOLDER, dir_fd=found)
            os.close(above)
        yield found
    finally:
        os.close(found)


def put_text_in(folder: int, name: str, text: str) -> None:
    """Writes a file in an open folder in one step: who reads it meanwhile has the former text, or this. Whoever may
    read the folder may read it."""
    part = uuid4().hex
    mode = os.fstat(folder).st_mode & 0o666
    with open(make(part, mode, folder), "w", encoding="utf-8") as target:
        target.write(text)
    os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)


class OpenFolder(CommittedFolder):
    """A folder that this object holds open, until `close`."""

    _held: tuple[int, ...] = ()

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = os.open(path, _FOLDER)
        self._held = (self._folder,)

    def close(self) -> None:
        held, self._held = self._held, ()
        for descriptor in held:
            os.close(descriptor)

    __del__ = close

    def address(self, *names: str) -> str:
        return str(self._path.joinpath(*names))

    def sizes(self, *names: str) -> dict[str, int | None]:
        try:
            with opened_below(self._folder, *names) as folder, os.scandir(folder) as found:
                return {
                    each.name: None
                    if each.is_dir(follow_symlinks=False)
                    else each.stat(follow_symlinks=False).st_size
                    for each in found
                }
        except FileNotFoundError:
            return {}

    def exists(self, *names: str) -> bool:
        return names[-1] in self.sizes(*names[:-1])

    def make(self, *names: str) -> None:
        with opened_below(self._folder, *names, make=True):
            pass

    def text(self, *names: str) -> str:
        with opened_below(self._folder, *names[:-1]) as folder:
            file = os.open(names[-1], os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        with open(file, encoding="utf-8") as source:
            return source.read()

    def put_text(self, text: str, *names: str) -> None:
        with opened_below(self._folder, *names[:-1]) as folder:
            put_text_in(folder, names[-1], text)

    def delete(self, *names: str) -> None:
        with suppress(FileNotFoundError), opened_below(self._folder, *names[:-1]) as folder:
            try:
                os.unlink(names[-1], dir_fd=folder)
            except IsADirectoryError:
                shutil.rmtree(names[-1], dir_fd=folder)

    def move(self, source: Iterable[str], target: Iterable[str]) -> None:
        (*above, name), (*below, new) = source, target
        with opened_below(self._folder, *above) as out, opened_below(self._folder, *below) as into:
            os.rename(name, new, src_dir_fd=out, dst_dir_fd=into)


class TableFolder(OpenFolder):
    """A folder of tables that a run fills: `staging` for what does not count yet, `put` to let it count.

    `replace`: tables that are there go when the first new ones are put in place.
    Else the folder must be empty. Raises KinspectError if it is not, if it holds anything that is not a table of
    kinspect, and if another run writes there.
    """

    def __init__(self, path: str, replace: bool) -> None:
        folder = Path(path)
        if folder.is_symlink():
            raise KinspectError(f"-o: {path}: is a symbolic link: name the folder itself")
        if folder.exists() and not folder.is_dir():
            raise KinspectError(f"-o: {path}: is no folder; tables need one of their own")
        self._made = not folder.exists()
        try:
            folder.mkdir(_MODE, parents=True, exist_ok=True)
            super().__init__(folder)
            self._check()
            words = f"-o: {path}: another run writes there; wait for its end, or choose another folder"
            self._lock = FileLock(folder / STAGING / LOCK, words)
            self.stage_in(STAGING)
            self._replaced = [name for name in self.names() if name != STAGING]
            if self._replaced and not replace:
                self.discard()
                raise KinspectError(f"-o: {path}: has tables already; give --force to replace them all")
            self.make(*self.staged_in)
            with opened_below(self._folder, *self.staged_in) as staging:
                self.staging = os.dup(staging)
                self._held = (*self._held, self.staging)
        except OSError as error:
            raise KinspectError(f"-o: {path}: {error.strerror or error}") from None

    def _check(self) -> None:
        """Raises KinspectError if there is anything but tables."""
        for name in sorted(self.names()):
            is_known = name in (STAGING, *TABLES, RECORD_ROWS, PROBLEMS) and name in self.names(folders=True)
            if not is_known or (name != STAGING and {*self.names(name)} - {*self.days(name)}):
                raise KinspectError(
                    f"-o: {self._path}: has {name}, which is no table of exchanges, connections, batches or records;"
                    " tables need a folder of their own"
                )

    def put(self) -> None:
        """Lets the staged files count, which must be closed. The first time, those that are replaced go then."""
        if self.exists(*self.staged_in, MANIFEST):
            # An earlier time failed in the middle: what is there now are new files, too.
            self.finish()
            self._replaced = []
        self.commit(self.staged(), {name: self.days(name) for name in self._replaced})
        self._replaced = []

    def discard(self) -> None:
        """Deletes what is staged unless it counts, which the next run puts in place; and the folder if it was made for
        it and has nothing. Then it is closed."""
        if not self._held:
            return
        if not self.exists(*self.staged_in, MANIFEST):
            shutil.rmtree(STAGING, ignore_errors=True, dir_fd=self._folder)
        self._lock.release()
        if self._made and not os.listdir(self._folder):
            with suppress(OSError):
                self._path.rmdir()
        self.close()
