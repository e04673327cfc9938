"""Rows of tables as Parquet files: a folder a table, in it a folder a date, as `kinspect pipeline run` has them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kinspect.ownfile import make
from kinspect.tables.answertables import PLACE
from kinspect.tables.arrowcolumns import DATE, PROBLEM_ROWS
from kinspect.tables.openfolder import opened_below
from kinspect.tables.tablenames import DATE_FOLDER, NO_DATE

GROUP_ROWS, GROUP_BYTES = 100_000, 32 * 1024 * 1024
"""Most rows of a row group, and their bytes in memory from which on it is written."""
HELD_BYTES = 64 * 1024 * 1024
"""Most bytes of rows that wait for others of their date; beyond them the largest groups are written as they are."""
OPEN_FILES = 32
"""Most files that are open at once; beyond them the one that was written longest ago is closed."""
FILE_GROUPS = 32
"""Row groups after which a file is closed."""
COMPRESSION = "zstd"
_TIMES = ("timestamp_ns", "minute", PLACE)
"""Columns that sort a table's rows; each table has one of them at most."""

Part = tuple[str, date | None]
"""A table, and the date of some of its rows; None: rows without one."""
OpenFile = Callable[[str, str, str], pa.NativeFile]
"""Makes a file to write to, given the names of its table, of the folder of its date, and its own."""
FileMetadata = Callable[[pa.Schema], dict[str, str]]
"""Metadata of a file of such columns."""


class PartFile(NamedTuple):
    """A file of rows: names of its table, of the folder of its date and its own, its size in bytes, and its rows."""

    table: str
    folder: str
    name: str
    size: int
    rows: int


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


class _Writing(NamedTuple):
    """A file that is written, and the rows of each of its row groups."""

    name: tuple[str, str, str]
    out: pa.NativeFile
    writer: pq.ParquetWriter
    groups: list[int]


class PartFiles:
    """Files of rows, made by `open_file`, with `name` in their names: that of the run and the process that writes them.
    Bounded in memory, and in the number of open files. `sorts`: the rows of a row group are sorted by time. `metadata`:
    gives what a file says of its columns."""

    def __init__(
        self, open_file: OpenFile, name: str, sorts: bool = False, metadata: FileMetadata | None = None
    ) -> None:
        self._open_file = open_file
        self._name = name
        self._sorts = sorts
        self._metadata = metadata
        self._number = 0
        self._waiting: dict[Part, list[pa.RecordBatch]] = {}
        self._bytes: dict[Part, int] = {}
        # The one that was written longest ago is the first.
        self._open: dict[Part, _Writing] = {}
        self._closed: list[PartFile] = []

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

    def close(self) -> list[PartFile]:
        """Write what waits, and close all files; more rows begin new ones. Returns those closed since the last time."""
        for part in [*self._waiting]:
            self._write(part)
        for part in [*self._open]:
            self._close(part)
        closed, self._closed = self._closed, []
        return closed

    def _write(self, part: Part) -> None:
        # Taken out first: a run that is broken off here must not write them twice.
        rows = pa.Table.from_batches(self._waiting.pop(part))
        del self._bytes[part]
        if self._sorts and (by := [name for name in _TIMES if name in rows.column_names]):
            rows = rows.combine_chunks().sort_by([(name, "ascending") for name in by])
        self._open[part] = file = self._open.pop(part, None) or self._begin(part, rows.schema)
        file.writer.write_table(rows, row_group_size=GROUP_ROWS)
        file.groups.append(len(rows))
        if len(file.groups) >= FILE_GROUPS:
            self._close(part)

    def _begin(self, part: Part, schema: pa.Schema) -> _Writing:
        if len(self._open) >= OPEN_FILES:
            self._close(next(iter(self._open)))
        table, day = part
        name = table, f"{DATE_FOLDER}{day or NO_DATE}", f"part-{self._number:05}-{self._name}.parquet"
        self._number += 1
        out = self._open_file(*name)
        if self._metadata is not None:
            schema = schema.with_metadata(self._metadata(schema))
        return _Writing(name, out, pq.ParquetWriter(out, schema, compression=COMPRESSION), [])

    def _close(self, part: Part) -> None:
        file = self._open.pop(part)
        file.writer.close()
        self._closed.append(PartFile(*file.name, file.out.tell(), sum(file.groups)))
        file.out.close()


def opening_below(folder: int) -> OpenFile:
    """Makes files below an open folder on a disk, for their owner alone."""

    def open_file(*names: str) -> pa.NativeFile:
        with opened_below(folder, *names[:-1], make=True) as below:
            made = make(names[-1], folder=below)
        try:
            # Not a file of Python: a signal must not break off a write in the middle.
            return pa.OSFile(f"/dev/fd/{made}", "wb")
        finally:
            os.close(made)

    return open_file


def problem_rows(rows: Iterable[tuple[object, ...]]) -> pa.StructArray:
    """Rows of the table `problems`, of those that `Unread.row` gives."""
    named = [dict(zip(PROBLEM_ROWS.names, row, strict=True)) for row in rows]
    return pa.array(named, pa.struct(list(PROBLEM_ROWS)))
