"""Tables that a job or stream writes: staged by tasks, counted, and committed together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from kinspect.errors import KinspectError
from kinspect.spark.folder import Folder
from kinspect.spark.schemas import file_metadata, spark_schema
from kinspect.spark.storage import Target, is_object_store, opening_in, written_to
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

if TYPE_CHECKING:
    from kinspect.spark.objectfolder import ObjectFolder

_OLD_LAYOUT = "api="
_LOGS = {DELTA: DELTA_LOG, "iceberg": "metadata"}
"""The folder in a table that tells its format."""


class StagingFolder:
    """A folder of tables, and the files of tasks that were staged in it, of which those count that are taken."""

    def __init__(self, spark: SparkSession, path: str, table_format: str) -> None:
        self._spark = spark
        self.folder: Folder | ObjectFolder
        if is_object_store(path):
            # It needs delta-rs, an extra.
            from kinspect.spark.objectfolder import ObjectFolder

            self.folder = ObjectFolder(path)
        else:
            self.folder = Folder(spark, path, table_format)
        self._forget()

    def _forget(self) -> None:
        self._files: list[PartFile] = []
        self._made: dict[str, int] = {}

    @property
    def staging(self) -> Target:
        """Where tasks write their files."""
        return self.folder.target(*self.folder.staged_in)

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
        self.folder.discard()
        self._forget()

    def check(self) -> None:
        """Raises KinspectError if the files that were taken do not have all rows, or are not seen here."""
        there = dict.fromkeys(self._made, 0)
        seen = {
            (name, day): self.folder.files(*self.folder.staged_in, name, day)
            for name, days in self.staged().items()
            for day in days
        }
        for file in self._files:
            is_whole = seen[file.table, file.folder].get(file.name) == file.size
            there[file.table] += file.rows if is_whole else 0
        for name, rows in self._made.items():
            if there[name] != rows:
                raise KinspectError(
                    f"{self.folder.path}: has {counted(there[name], 'row')} of {name} where {rows:,} were written; all"
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
        table = (EXCHANGES,) if days else (*self.folder.staged_in, EXCHANGES)
        own = [f"{file.folder}/{file.name}" for file in self._files if file.table == EXCHANGES]
        paths = self.folder.paths_of(EXCHANGES, days) if days else own
        self.take((), dict.fromkeys(QUERIES, 0))
        if not paths:
            return
        used = "".join(QUERIES.values())
        schema = pa.schema([field for field in request.open()[EXCHANGES].schema if field.name in used])
        rows = self.folder.read(self._spark, paths, schema, *table)
        for name, query in QUERIES.items():
            text = query.replace("FROM exchanges", "FROM {exchanges}")
            self.write(name, self._spark.sql(text, exchanges=rows))


class JobOutput(StagingFolder):
    """The folder `--out` of a batch job."""

    def __init__(self, spark: SparkSession, path: str, table_format: str = PARQUET) -> None:
        """Finishes or discards an interrupted run. Raises KinspectError for a stream's folder, for one of an older
        version or another format, and for a format that is not for it."""
        super().__init__(spark, path, table_format)
        if self.folder.exists(STREAM):
            raise KinspectError(
                f"{self.folder.path}: a stream writes its tables there; give the job a folder of its own"
            )
        self._is_new = not self.folder.exists()
        with self.folder.locking(STAGING):
            self.folder.stage_in(STAGING)
        try:
            for table in self.folder.names(folders=True):
                self._check(table)
        except KinspectError:
            self.close()
            raise

    def _check(self, table: str) -> None:
        folder = self.folder
        # Without a staging folder, those of runs that failed are there.
        days = folder.days(table) if folder.staged_in else []
        if any(
            name.startswith(_OLD_LAYOUT) for day in days for name in folder.names(table, day, folders=True)
        ):
            raise KinspectError(
                f"{folder.path}: has tables of kinspect 0.1, with a folder for each API; choose another --out"
            )
        logs = [name for name, log in _LOGS.items() if folder.exists(table, log)]
        found = logs[0] if logs else PARQUET if days else folder.table_format
        if found != folder.table_format and table != STAGING:
            raise KinspectError(
                f"{folder.path}: {table} is a table of the format {found}; choose another --out"
            )

    def replace(self, dates: Iterable[date | None], names: Iterable[str]) -> dict[str, list[str]]:
        """Commits the staged tables in place of `dates` (None: rows without one) of these and of the tables `names`:
        those without staged rows of a date lose what they had. Returns the dates of each table's rows.

        Raises KinspectError as `check` does, and if not everything can be put in place.
        """
        self.check()
        days = {f"{DATE_FOLDER}{day or NO_DATE}" for day in dates}
        staged, there = self.staged(), [name for name in names if self.folder.exists(name)]
        replaced = {name: days.union(staged.get(name, ())) for name in {*staged, *there}}
        self.folder.commit(staged, replaced)
        self.discard()
        return {
            name: sorted(day.removeprefix(DATE_FOLDER) for day in found) for name, found in staged.items()
        }

    def close(self) -> None:
        """Deletes the staged tables unless they are committed: then the next run puts them in place. Lets others write
        there."""
        folder = self.folder
        if not folder.exists(*folder.staged_in, MANIFEST):
            self.discard()
        if not {*folder.names(STAGING)} - {LOCK}:
            folder.delete(STAGING)
        if self._is_new and not folder.names():
            folder.delete()
        folder.unlock()
