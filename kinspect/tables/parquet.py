"""Tables as Parquet files: a folder a table, in it a folder a date, as `kinspect pipeline run` lays them out.

What is written lies in a staging folder beside the tables until it is put in place: files of tables are complete.
Folders are held open and everything is done below them, so that no name can lead elsewhere meanwhile.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kinspect.errors import KinspectError
from kinspect.ownfile import make
from kinspect.tables.arrowcolumns import DATE, PROBLEM_ROWS
from kinspect.tables.lock import LOCK, FileLock
from kinspect.tables.tablenames import DATE_FOLDER, NO_DATE, PROBLEMS, RECORD_ROWS, STAGING, TABLES

GROUP_ROWS, GROUP_BYTES = 100_000, 32 * 1024 * 1024
"""Most rows of a row group, and their bytes in memory from which on it is written."""
HELD_BYTES = 64 * 1024 * 1024
"""Most bytes of rows that wait for others of their date; beyond them the largest groups are written as they are."""
OPEN_FILES = 32
"""Most files that are open at once; beyond them the one that was written longest ago is closed."""
FILE_GROUPS = 32
"""Row groups after which a file is closed."""
COMPRESSION = "zstd"
_FOLDER_MODE = 0o700
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW

Part = tuple[str, date | None]
"""A table, and the date of some of its rows; None: rows without one."""


class DatedRows(NamedTuple):
    """Rows of a table of the same date. The column of the date is left out: the folder's name has it."""

    part: Part
    rows: pa.RecordBatch


def by_date(table: str, rows: pa.RecordBatch) -> Iterator[DatedRows]:
    """The rows by their date."""
    dates = rows.column(DATE)
    rest = rows.drop_columns([DATE])
    days = pc.unique(dates)
    for day in days:
        chosen = pc.equal(dates, day) if day.is_valid else pc.is_null(dates)
        yield DatedRows((table, day.as_py()), rest if len(days) == 1 else rest.filter(chosen))


def folder_of(part: Part) -> Path:
    """The folder of a table's date, below that of the tables."""
    table, day = part
    return Path(table, f"{DATE_FOLDER}{day or NO_DATE}")


def _open_below(folder: int, path: Path) -> int:
    """Open a folder below an open one, and make what is missing. Raises OSError, also for symbolic links."""
    found = os.dup(folder)
    for name in path.parts:
        above = found
        try:
            with suppress(FileExistsError):
                os.mkdir(name, _FOLDER_MODE, dir_fd=above)
            found = os.open(name, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return found


class PartFiles:
    """Files of rows below `folder`, which is open, named after the run and the process that writes them. Bounded in
    memory, and in the number of open files. `dates`: by table, the dates that have rows, as the folders are named."""

    def __init__(self, folder: int, name: str) -> None:
        self._folder = folder
        self._name = name
        self._number = 0
        self._waiting: dict[Part, list[pa.RecordBatch]] = {}
        self._bytes: dict[Part, int] = {}
        # The one that was written longest ago is the first.
        self._open: dict[Part, pq.ParquetWriter] = {}
        self._groups: dict[Part, int] = {}
        self.dates: dict[str, set[str]] = {}

    def add(self, table: str, rows: pa.StructArray) -> None:
        """Take rows of a table."""
        for part, own in by_date(table, pa.RecordBatch.from_struct_array(rows)):
            waiting = self._waiting.setdefault(part, [])
            waiting.append(own)
            self._bytes[part] = self._bytes.get(part, 0) + own.nbytes
            if self._bytes[part] >= GROUP_BYTES or sum(map(len, waiting)) >= GROUP_ROWS:
                self._write(part)
        while sum(self._bytes.values()) > HELD_BYTES:
            self._write(max(self._bytes, key=self._bytes.__getitem__))

    def close(self) -> None:
        """Write what waits, and close all files; more rows begin new ones."""
        for part in [*self._waiting]:
            self._write(part)
        for part in [*self._open]:
            self._close(part)

    def _write(self, part: Part) -> None:
        # Taken out first: a run that is broken off here must not write them twice.
        rows = self._waiting.pop(part)
        del self._bytes[part]
        writer = self._open.pop(part, None) or self._begin(part, rows[0].schema)
        self._open[part] = writer
        writer.write_table(pa.Table.from_batches(rows), row_group_size=GROUP_ROWS)
        self._groups[part] += 1
        if self._groups[part] >= FILE_GROUPS:
            self._close(part)

    def _begin(self, part: Part, schema: pa.Schema) -> pq.ParquetWriter:
        if len(self._open) >= OPEN_FILES:
            self._close(next(iter(self._open)))
        folder = _open_below(self._folder, folder_of(part))
        try:
            made = make(f"part-{self._number:05}-{self._name}.parquet", folder=folder)
        finally:
            os.close(folder)
        self._number += 1
        table, day = part
        self.dates.setdefault(table, set()).add(str(day or NO_DATE))
        self._groups[part] = 0
        try:
            # A path, not a file of Python: a signal must not break off a write in the middle.
            return pq.ParquetWriter(f"/dev/fd/{made}", schema, compression=COMPRESSION)
        finally:
            os.close(made)

    def _close(self, part: Part) -> None:
        self._open.pop(part).close()


class TableFolder:
    """A folder of tables that a run fills: `staging` for what does not count yet, `put` to let it count.

    `replace`: tables that are there go when the first new ones are put in place.
    Else the folder must be empty. Raises KinspectError if it is not, if it holds anything that is not a table of
    kinspect, and if another run writes there.
    """

    def __init__(self, path: str, replace: bool) -> None:
        self._path = Path(path)
        if self._path.is_symlink():
            raise KinspectError(f"-o: {path}: is a symbolic link: name the folder itself")
        if self._path.exists() and not self._path.is_dir():
            raise KinspectError(f"-o: {path}: is no folder; tables need one of their own")
        self._made = not self._path.exists()
        try:
            self._path.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
            self._folder = os.open(self._path, _FOLDER)
            self._check(replace)
            words = f"-o: {path}: another run writes there; wait for its end, or choose another folder"
            self._lock = FileLock(self._path / STAGING / LOCK, words)
            self._replaced = self._check(replace)
            self.staging = _open_below(self._folder, Path(STAGING))
            for left in os.listdir(self.staging):
                if left != LOCK:
                    shutil.rmtree(left, dir_fd=self.staging)
        except OSError as error:
            raise KinspectError(f"-o: {path}: {error.strerror or error}") from None

    def _check(self, replace: bool) -> list[str]:
        """The names of the tables that are there."""
        names = sorted(os.listdir(self._folder))
        foreign = [name for name in names if not self._is_table(name)]
        if foreign:
            raise KinspectError(
                f"-o: {self._path}: has {foreign[0]}, which is no table of exchanges, connections, batches or records;"
                " tables need a folder of their own"
            )
        tables = [name for name in names if name != STAGING]
        if tables and not replace:
            raise KinspectError(f"-o: {self._path}: has tables already; give --force to replace them all")
        return tables

    def _is_table(self, name: str) -> bool:
        if name not in (STAGING, *TABLES, RECORD_ROWS, PROBLEMS):
            return False
        try:
            folder = os.open(name, _FOLDER, dir_fd=self._folder)
        except NotADirectoryError:
            return False
        try:
            with os.scandir(folder) as found:
                return name == STAGING or all(
                    day.name.startswith(DATE_FOLDER) and day.is_dir(follow_symlinks=False) for day in found
                )
        finally:
            os.close(folder)

    def put(self) -> None:
        """Put the staged files in place, which must be closed. The first time, those that are replaced go then."""
        replaced = [*self._files_below(self._replaced)]
        for above, _, files, staged in os.fwalk(dir_fd=self.staging):
            files = [name for name in files if name != LOCK]
            if not files:
                continue
            target = _open_below(self._folder, Path(above))
            try:
                for name in sorted(files):
                    os.rename(name, name, src_dir_fd=staged, dst_dir_fd=target)
            finally:
                os.close(target)
        for path in replaced:
            os.unlink(path, dir_fd=self._folder)
        for name in self._replaced:
            self._remove_empty(name)
        self._replaced = []

    def _files_below(self, tables: Iterable[str]) -> Iterator[Path]:
        """The files of tables, as paths in the folder."""
        for table in tables:
            for above, _, files, _ in os.fwalk(table, dir_fd=self._folder):
                yield from (Path(above, name) for name in files)

    def _remove_empty(self, table: str) -> None:
        for _, folders, _, opened in os.fwalk(table, topdown=False, dir_fd=self._folder):
            for name in folders:
                with suppress(OSError):
                    os.rmdir(name, dir_fd=opened)
        with suppress(OSError):
            os.rmdir(table, dir_fd=self._folder)

    def discard(self) -> None:
        """Delete what is staged, and the folder if it was made for it and has nothing."""
        shutil.rmtree(STAGING, ignore_errors=True, dir_fd=self._folder)
        self._lock.release()
        if self._made and not os.listdir(self._folder):
            with suppress(OSError):
                self._path.rmdir()


def problem_rows(rows: Iterable[tuple[object, ...]]) -> pa.StructArray:
    """Rows of the table `problems`, of those that `Unread.row` gives."""
    named = [dict(zip(PROBLEM_ROWS.names, row, strict=True)) for row in rows]
    return pa.array(named, pa.struct(list(PROBLEM_ROWS)))
