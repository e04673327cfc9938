"""`--format parquet`: the lines of a run as tables in a folder."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from typing import Any
from uuid import uuid4

from kinspect.cli.sink import Closed, Input
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.view.view import View
from kinspect.model import NS_PER_DAY
from kinspect.output.escape import printable
from kinspect.tables.builder import TableBuilder
from kinspect.tables.names import PROBLEMS
from kinspect.tables.parquet import PartFiles, TableFolder, problem_rows
from kinspect.tables.rows import Unread, open_table

EVERY_SECONDS = 60.0
"""How long rows of a live capture wait before they count, at most."""
_FIRST_DAY = date(1970, 1, 1).toordinal()


class TableFiles:
    """The `Sink` of a run's tables. `names`: which tables; `path`: their folder; `view`: what bodies show; `force`:
    tables that are there are replaced; `rolls`: what is there counts each minute, not all at the end.

    Raises KinspectError for a folder that cannot be used.
    """

    def __init__(self, names: Iterable[str], path: str, view: View, force: bool, rolls: bool) -> None:
        # Records have a table of their own: without a payload, bodies do not repeat them.
        view = replace(view, records=False)
        tables = {name: open_table(name, None, view) for name in names}
        self._run_id = uuid4().hex
        self._builder = TableBuilder(tables, self._run_id, None)
        self._folder = TableFolder(path, force)
        self._files = PartFiles(self._folder.staging, self._run_id)
        self._due = time.monotonic() + EVERY_SECONDS if rolls else None
        self._rows: dict[str, int] = dict.fromkeys(tables, 0)
        self._dates: dict[str, set[str]] = {name: set() for name in tables}
        self.lines = self._builder.emit

    def take(self, line: Line) -> None:
        for name, rows in self._builder.add((line,)):
            self._files.add(name, rows)

    def flush(self) -> None:
        if self._due is not None and time.monotonic() >= self._due:
            self._due = time.monotonic() + EVERY_SECONDS
            self._write()
            self._folder.put()

    def follow(self, number: int) -> None:
        """Be the sink of worker `number` of `--jobs`, beside others that write into the same folder."""
        self._files = PartFiles(self._folder.staging, f"{self._run_id}-{number}")

    def share(self) -> dict[str, Any]:
        """Write what a worker has; number of rows and dates by table, of types that CBOR has."""
        self._write()
        return {"rows": self._builder.made, "dates": {n: sorted(d) for n, d in self._files.dates.items()}}

    def add_share(self, share: dict[str, Any]) -> None:
        """Count what a worker wrote."""
        for name, rows in share["rows"].items():
            self._rows[name] += rows
        for name, dates in share["dates"].items():
            self._dates[name].update(dates)

    def close(self, read: Input) -> Closed:
        self.add_share(self.share())
        if read.begun:
            if unread := [*_unread(read)]:
                day = _day(read.first)
                self._files.add(PROBLEMS, problem_rows(one.row(self._run_id, None, day) for one in unread))
                self._files.close()
            self._folder.put()
        self.discard()
        return Closed([f"{name}: {self._told(name)}" for name in self._rows] if read.begun else [])

    def discard(self) -> None:
        """Delete what does not count yet."""
        self._folder.discard()

    def _write(self) -> None:
        for name, rows in self._builder.rest():
            self._files.add(name, rows)
        self._files.close()

    def _told(self, name: str) -> str:
        return f"{self._rows[name]:,} rows, dates {', '.join(sorted(self._dates[name])) or 'none'}"


def _unread(read: Input) -> Iterator[Unread]:
    """The inputs that were not read to their end. An error's text begins with the name of its file."""
    longest_first = sorted(map(printable, read.files), key=len, reverse=True)
    for error in read.errors:
        file = next((name for name in longest_first if printable(str(error)).startswith(f"{name}: ")), "")
        yield Unread(file, error)


def _day(nanoseconds: int | None) -> date | None:
    return None if nanoseconds is None else date.fromordinal(_FIRST_DAY + nanoseconds // NS_PER_DAY)
