"""`--format parquet`: the lines of a run as tables in a folder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any
from uuid import uuid4

from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.view.batchrows import BatchRows
from kinspect.model import NS_PER_DAY
from kinspect.output import Opening
from kinspect.output.escape import printable
from kinspect.sink import RunInput, Sink, SinkReport
from kinspect.tables.builder import TableBuilder
from kinspect.tables.openfolder import TableFolder
from kinspect.tables.parquet import PartFiles, opening_below, problem_rows
from kinspect.tables.rows import Table, UnreadInput, open_tables
from kinspect.tables.tablenames import DATE_FOLDER, DEFAULT_TABLES, PROBLEMS, RECORD_ROWS, RECORDS, TABLES
from kinspect.wording import counted

EVERY_SECONDS = 60.0
"""How long rows of a live capture wait before they count, at most."""
_FIRST_DAY = date(1970, 1, 1).toordinal()


def open_sink(opening: Opening) -> TableFiles:
    """The tables that are asked for. Raises KinspectError for a folder that cannot be used."""
    asked = opening.own["tables"]
    if asked is None:
        asked = (*DEFAULT_TABLES, RECORDS) if opening.view.records else DEFAULT_TABLES
    # Records have a table of their own: without a payload, bodies do not repeat them.
    view = replace(opening.view, records=False)
    return TableFiles(open_tables([name for name in TABLES if name in asked], None, view), opening)


def open_rows(opening: Opening, columns: Sequence[str]) -> TableFiles:
    """Records, as rows that the sink is told, as a table. Raises KinspectError for a folder that cannot be used."""
    return TableFiles(open_tables((RECORD_ROWS,), None, opening.view), opening)


class TableFiles(Sink):
    """Writes tables, of lines or of rows that it is told."""

    def __init__(self, tables: Mapping[str, Table], opening: Opening) -> None:
        self._run_id = uuid4().hex
        self._builder = TableBuilder(tables, self._run_id, None)
        self._folder = TableFolder(opening.path or "", opening.force)
        self._files = PartFiles(opening_below(self._folder.staging), self._run_id)
        self._due = time.monotonic() + EVERY_SECONDS if opening.rolls else None
        self._rows: dict[str, int] = dict.fromkeys(tables, 0)
        self._dates: dict[str, set[str]] = {name: set() for name in tables}
        self.lines = self._builder.emit

    def take(self, line: Line) -> None:
        for name, rows in self._builder.add((line,)):
            self._files.add(name, rows)

    def tell_rows(self, rows: BatchRows) -> None:
        for name, made in self._builder.add_rows(rows):
            self._files.add(name, made)

    def flush(self) -> None:
        if self._due is not None and time.monotonic() >= self._due:
            self._due = time.monotonic() + EVERY_SECONDS
            self._write()
            self._folder.put()

    def follow(self, number: int) -> Sink:
        """Write into the same folder beside others."""
        self._files = PartFiles(opening_below(self._folder.staging), f"{self._run_id}-{number}")
        return self

    def part(self) -> Any:
        """Number of rows and dates by table; the rows are in files."""
        self._write()
        return {"rows": self._builder.made, "dates": {n: sorted(d) for n, d in self._dates.items()}}

    def merge(self, part: Any) -> None:
        for name, rows in part["rows"].items():
            self._rows[name] += rows
        for name, dates in part["dates"].items():
            self._dates[name].update(dates)

    def close(self, read: RunInput) -> SinkReport:
        self.merge(self.part())
        if read.begun:
            if unread := [*_unread(read)]:
                day = _day(read.first)
                self._files.add(PROBLEMS, problem_rows(one.row(self._run_id, None, day) for one in unread))
                self._files.close()
            self._folder.put()
        self.discard()
        return SinkReport([f"{name}: {self._told(name)}" for name in self._rows] if read.begun else [])

    def discard(self) -> None:
        """Delete what does not count yet."""
        self._folder.discard()

    def _write(self) -> None:
        for name, rows in self._builder.rest():
            self._files.add(name, rows)
        for file in self._files.close():
            self._dates[file.table].add(file.folder.removeprefix(DATE_FOLDER))

    def _told(self, name: str) -> str:
        return f"{counted(self._rows[name], 'row')}, dates {', '.join(sorted(self._dates[name])) or 'none'}"


def _unread(read: RunInput) -> Iterator[UnreadInput]:
    """The inputs that were not read to their end. An error's text begins with the name of its file."""
    longest_first = sorted(map(printable, read.files), key=len, reverse=True)
    for error in read.errors:
        file = next((name for name in longest_first if printable(str(error)).startswith(f"{name}: ")), "")
        yield UnreadInput(file, error)


def _day(nanoseconds: int | None) -> date | None:
    return None if nanoseconds is None else date.fromordinal(_FIRST_DAY + nanoseconds // NS_PER_DAY)
