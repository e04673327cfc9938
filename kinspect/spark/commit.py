"""Tables that a job or stream writes: staged by tasks, counted, and committed together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kinspect.errors import KinspectError
from kinspect.spark.failure import raised_by_spark
from kinspect.spark.folder import Folder
from kinspect.spark.schemas import file_metadata, spark_schema
from kinspect.spark.storage import Target, opening_in, written_to
from kinspect.spark.writepass import TOLD, WRITTEN, files_of, named, writing
from kinspect.tables.aggregates import QUERIES
from kinspect.tables.answertables import table_of
from kinspect.tables.arrowcolumns import COMMENTS
from kinspect.tables.committedfolder import MANIFEST, Dates
from kinspect.tables.lock import LOCK
from kinspect.tables.parquet import PartFile, PartFiles, problem_rows
from kinspect.tables.request import Request
from kinspect.tables.rows import UnreadInput
from kinspect.tables.tablenames import (
    DATE_FOLDER,
    DELTA,
    DELTA_LOG,
    EXCHANGES,
    NO_DATE,
    PARQUET,
    PROBLEMS,
    STAGING,
    STREAM,
)
from kinspect.wording import counted

_OLD_LAYOUT = "api="
_LOGS = {DELTA: DELTA_LOG, "iceberg": "metadata"}
"""The folder in a table that tells its format."""


class StagingFolder(Folder):
    """A folder of tables, with a staging folder in it for the files of tasks, of which those count that are taken."""

    def __init__(self, spark: SparkSession, path: str, table_format: str) -> None:
        super().__init__(spark, path)
        self.table_format = table_format
        self.check_store()
        self._forget()

    def _forget(self) -> None:
        self._files: list[PartFile] = []
        self._made: dict[str, int] = {}

    @property
    def staging(self) -> Target:
        """Where tasks write their files."""
        return self.target(*self._staging)

    def take(self, files: Iterable[PartFile], made: Mapping[str, int]) -> None:
        """Takes staged files. `made`: the number of rows of each table, for `check`."""
        self._files += files
        self._made |= made

    def write(self, name: str, rows: DataFrame) -> None:
        """Stages rows of Spark's as a table."""
        told = rows.mapInArrow(writing(named(name), self.staging), spark_schema(TOLD))
        files = files_of(told.select(WRITTEN).collect())
        self.take(files, {name: sum(file.rows for file in files)})

    def _write_own(self, name: str, rows: pa.StructArray, comments: Mapping[str, str] = COMMENTS) -> None:
        """Stages rows of this process as a table. `comments`: by column."""
        metadata = partial(file_metadata, comments=comments)
        files = PartFiles(opening_in(self.staging), uuid4().hex, sorts=True, metadata=metadata)
        with written_to(self.staging):
            files.add(name, rows)
            self.take(files.close(), {name: len(rows)})

    def staged(self) -> Dates:
        found: Dates = {name: {} for name in self._made}
        for file in self._files:
            found[file.table].setdefault(file.folder, {})[file.name] = file.size
        return found

    def discard(self) -> None:
        """Deletes the staged tables."""
        self.delete(*self._staging)
        self._forget()

    def check(self) -> None:
        """Raises KinspectError if the files that were taken do not have all rows, or are not seen here."""
        there = dict.fromkeys(self._made, 0)
        seen = {
            (name, day): self.files(*self._staging, name, day)
            for name, days in self.staged().items()
            for day in days
        }
        for file in self._files:
            is_whole = seen[file.table, file.folder].get(file.name) == file.size
            there[file.table] += file.rows if is_whole else 0
        for name, rows in self._made.items():
            if there[name] != rows:
                raise KinspectError(
                    f"{self.path}: has {counted(there[name], 'row')} of {name} where {rows:,} were written; all"
                    " executors and the driver must see the same folder, and no other run may write there at the same"
                    " time"
                )

    def write_problems(self, unread: list[UnreadInput], request: Request, day: date | None) -> None:
        """Stages the table `problems` if there are unread inputs. `day`: the date of its rows."""
        if unread:
            rows = (one.row(request.run_id, request.capture_point, day) for one in unread)
            self._write_own(PROBLEMS, problem_rows(rows))

    def write_answer(self, found: dict[str, Any], request: Request, day: date | None) -> int:
        """Stages the table of an answer, given its object; returns the number of rows. `day`: their date."""
        table = table_of(found["answer"])
        rows = table.rows(found["rows"], request.run_id, request.capture_point, day)
        self._write_own(table.name, rows, table.comments)
        return len(rows)

    def write_sums(self, request: Request, *days: str) -> None:
        """Stages the aggregates of exchanges: those in the folders `days`, or without any all that are staged."""
        table = (EXCHANGES,) if days else (*self._staging, EXCHANGES)
        own = [
            self.address(*table, file.folder, file.name) for file in self._files if file.table == EXCHANGES
        ]
        paths = self.paths_of(EXCHANGES, days) if days else own
        self.take((), dict.fromkeys(QUERIES, 0))
        if not paths:
            return
        schema = spark_schema(request.open()[EXCHANGES].schema)
        rows = self._spark.read.schema(schema).option("basePath", self.address(*table)).parquet(*paths)
        for name, query in QUERIES.items():
            text = query.replace("FROM exchanges", "FROM {exchanges}")
            self.write(name, self._spark.sql(text, exchanges=rows))


class JobOutput(StagingFolder):
    """The folder `--out` of a batch job."""

    def __init__(self, spark: SparkSession, path: str, table_format: str = PARQUET) -> None:
        """Finishes or discards an interrupted run. Raises KinspectError for a stream's folder, for one of an older
        version or another format, and for a format that is not for it."""
        super().__init__(spark, path, table_format)
        if self.exists(STREAM):
            raise KinspectError(f"{path}: a stream writes its tables there; give the job a folder of its own")
        self._is_new = not self.exists()
        with self.locking(STAGING):
            self.stage_in(STAGING)
        try:
            for table in self.names(folders=True):
                self._check(table)
        except KinspectError:
            self.close()
            raise

    def _check(self, table: str) -> None:
        days = self.days(table)
        if any(name.startswith(_OLD_LAYOUT) for day in days for name in self.names(table, day, folders=True)):
            raise KinspectError(
                f"{self.path}: has tables of kinspect 0.1, with a folder for each API; choose another --out"
            )
        logs = [name for name, log in _LOGS.items() if self.exists(table, log)]
        found = logs[0] if logs else PARQUET if days else self.table_format
        if found != self.table_format and table != STAGING:
            raise KinspectError(
                f"{self.path}: {table} is a table of the format {found}; choose another --out"
            )

    def replace(self, dates: Iterable[date | None], names: Iterable[str]) -> dict[str, list[str]]:
        """Commits the staged tables in place of `dates` (None: rows without one) of these and of the tables `names`:
        those without staged rows of a date lose what they had. Returns the dates of each table's rows.

        Raises KinspectError as `check` does, and if not everything can be put in place.
        """
        self.check()
        days = {f"{DATE_FOLDER}{day or NO_DATE}" for day in dates}
        staged, there = self.staged(), [name for name in names if self.exists(name)]
        replaced = {name: days.union(staged.get(name, ())) for name in {*staged, *there}}
        files = self.commit(replaced)
        self.discard()
        return {name: sorted(day.removeprefix(DATE_FOLDER) for day in found) for name, found in files.items()}

    def _fulfil(self, manifest: dict[str, Any]) -> None:
        try:
            super()._fulfil(manifest)
        except Exception as error:
            told = raised_by_spark(error) or error
            raise KinspectError(f"{self.path}: not all is in place, run again to finish: {told}") from error

    def close(self) -> None:
        """Deletes the staged tables unless they are committed: then the next run puts them in place. Lets others write
        there."""
        if not self.exists(*self._staging, MANIFEST):
            self.discard()
        if not {*self.names(STAGING)} - {LOCK}:
            self.delete(STAGING)
        if self._is_new and not self.names():
            self.delete()
        self.unlock()
