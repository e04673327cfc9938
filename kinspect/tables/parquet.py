"""Rows of tables as Parquet files: a folder a table, in it a folder a date, as `kinspect pipeline run` has them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import date
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kinspect.ownfile import make
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
        table, day = part
        with opened_below(self._folder, table, f"{DATE_FOLDER}{day or NO_DATE}", make=True) as folder:
            made = make(f"part-{self._number:05}-{self._name}.parquet", folder=folder)
        self._number += 1
        self.dates.setdefault(table, set()).add(str(day or NO_DATE))
        self._groups[part] = 0
        try:
            # A path, not a file of Python: a signal must not break off a write in the middle.
            return pq.ParquetWriter(f"/dev/fd/{made}", schema, compression=COMPRESSION)
        finally:
            os.close(made)

    def _close(self, part: Part) -> None:
        self._open.pop(part).close()


def problem_rows(rows: Iterable[tuple[object, ...]]) -> pa.StructArray:
    """Rows of the table `problems`, of those that `Unread.row` gives."""
    named = [dict(zip(PROBLEM_ROWS.names, row, strict=True)) for row in rows]
    return pa.array(named, pa.struct(list(PROBLEM_ROWS)))
