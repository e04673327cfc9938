"""Tables in a folder, replaced date by date: all tables of a run take effect, or none.

One run at a time writes there, into a staging folder of its own beside the tables. Once everything is written it leaves
a mark there, which lists the files, and then replaces the same dates of the tables. A run that was interrupted before
its mark leaves nothing; the next run finishes one that was interrupted after it. What was there before is deleted once
all files of the mark are in place, so it needs a store that renames in one step.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any, NamedTuple
from uuid import uuid4

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import col, count, lit
from pyspark.sql.types import StructType

from kinspect.errors import KinspectError
from kinspect.spark.failure import raised_by_spark
from kinspect.spark.folder import Files, Folder
from kinspect.spark.schemas import spark_schema
from kinspect.tables.aggregates import QUERIES
from kinspect.tables.answertables import PLACE, table_of
from kinspect.tables.arrowcolumns import DATE, PROBLEM_ROWS
from kinspect.tables.lock import LOCK
from kinspect.tables.request import Request
from kinspect.tables.rows import UnreadInput
from kinspect.tables.tablenames import DATE_FOLDER, EXCHANGES, NO_DATE, PARQUET, PROBLEMS, STAGING
from kinspect.wording import counted

STREAM = "_stream"
"""Folder beside the tables of a stream: its state and checkpoint."""
_MARK = "_WRITTEN"
_REPLACED = "_replaced"
"""Staging folder for what was in place before."""
_OLD_LAYOUT = "api="

Dates = dict[str, dict[str, Files]]
"""The files of tables, by table and date folder."""


class TableFormat(NamedTuple):
    """A table format on top of Parquet. `log`: the folder that marks a table of it; `name`: the name by which Spark
    knows the table of a folder; `settings`: those that a session needs beside the jars."""

    log: str
    name: str
    settings: dict[str, str]


FORMATS = {
    "delta": TableFormat(
        "_delta_log",
        "delta.`{out}/{table}`",
        {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
    ),
    "iceberg": TableFormat(
        "metadata",
        "kinspect.`{table}`",
        {
            "spark.sql.catalog.kinspect": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.kinspect.type": "hadoop",
        },
    ),
}
_WAREHOUSE = "spark.sql.catalog.kinspect.warehouse"


class StagingFolder(Folder):
    """A folder of tables, with a staging folder in it for rows that do not count yet."""

    def __init__(self, spark: SparkSession, path: str, *staging: str, one_file: bool = False) -> None:
        """`staging`: the folder for those of all runs. `one_file`: all rows of a date go into one file; else Spark's
        `advisoryPartitionSizeInBytes` sizes files."""
        super().__init__(spark, path)
        # Tasks of a run that was killed may go on for a while.
        self._staging = (*staging, uuid4().hex)
        self._one_file = one_file
        self._written: dict[str, int] = {}

    def take_up(self, mark: str, finish: Callable[[], Any]) -> None:
        """Calls `finish` for each staging folder in which an earlier run left its mark, and deletes them all."""
        own, every = self._staging, self._staging[:-1]
        # Runs of 0.2 shared one.
        for staging in (every, *((*every, name) for name in self.names(*every, folders=True))):
            if self.exists(*staging, mark):
                self._staging = staging
                finish()
        self._staging = own
        for name in self.names(*every):
            if name != LOCK:
                self.delete(*every, name)

    def write(self, name: str, rows: DataFrame, made: int | None = None) -> None:
        """Stages a table, in folders by date and sorted by time. `made`: the number of rows, for `check`; None: that of
        the rows as they are written."""
        by = [column for column in (DATE, "timestamp_ns", "minute", PLACE) if column in rows.columns]
        target = self.address(*self._staging, name)
        dealt = rows.repartition(DATE) if self._one_file else rows.repartitionByRange(*by)
        seen = Observation()
        counted = dealt.sortWithinPartitions(*by).observe(seen, count(lit(1)).alias("rows"))
        counted.write.partitionBy(DATE).mode("overwrite").parquet(target)
        self._written[name] = seen.get["rows"] if made is None else made

    def write_table(self, name: str, decoded: DataFrame, rows: int) -> None:
        """Stages the decoded rows of a table. `rows`: their number by the summaries, for `check`."""
        self.write(name, decoded.where(f"{name} is not null").select(f"{name}.*"), rows)

    def discard(self) -> None:
        """Deletes the staged tables."""
        self.delete(*self._staging)
        self._written = {}

    def check(self) -> None:
        """Raises KinspectError if the staged tables do not have all decoded rows."""
        for name, rows in self._written.items():
            # Without columns a task reads only the files' footers.
            there = self._spark.read.schema(StructType()).parquet(self.address(*self._staging, name)).count()
            if there != rows:
                raise KinspectError(
                    f"{self.path}: has {counted(there, 'row')} of {name} where {rows:,} were written; all executors and"
                    " the driver must see the same folder, and no other run may write there at the same time"
                )

    def write_problems(self, unread: list[UnreadInput], request: Request, day: date | None) -> None:
        """Stages the table `problems` if there are unread inputs. `day`: the date of its rows."""
        if unread:
            rows = [one.row(request.run_id, request.capture_point, day) for one in unread]
            self.write(PROBLEMS, self._spark.createDataFrame(rows, spark_schema(PROBLEM_ROWS)), len(rows))

    def write_answer(self, found: dict[str, Any], request: Request, day: date | None) -> int:
        """Stages the table of an answer, given its object; returns the number of rows. `day`: their date."""
        table = table_of(found["answer"])
        rows = table.rows(found["rows"], request.run_id, request.capture_point, day)
        self.write(
            table.name,
            self._spark.createDataFrame(rows, spark_schema(table.schema, table.comments)),
            len(rows),
        )
        return len(rows)

    def write_sums(self, request: Request, *days: str) -> None:
        """Stages the aggregates of exchanges: those in the folders `days`, or without any all that are staged."""
        table = (EXCHANGES,) if days else (*self._staging, EXCHANGES)
        paths = [self.address(*table, day) for day in days] or [self.address(*table)]
        schema = spark_schema(request.open()[EXCHANGES].schema)
        rows = self._spark.read.schema(schema).option("basePath", self.address(*table)).parquet(*paths)
        for name, query in QUERIES.items():
            text = query.replace("FROM exchanges", "FROM {exchanges}")
            self.write(name, self._spark.sql(text, exchanges=rows))

    def staged(self) -> Dates:
        """What is staged."""
        tables = [name for name in self.names(*self._staging, folders=True) if name != _REPLACED]
        return {
            name: {day: self.files(*self._staging, name, day) for day in self._days(name)} for name in tables
        }

    def _days(self, name: str) -> list[str]:
        """Names of the staged date folders of a table."""
        return [day for day in self.names(*self._staging, name, folders=True) if day.startswith(DATE_FOLDER)]

    def _missing(self, name: str, day: str, files: Files, there: Files) -> list[str]:
        """Those of `files` that are not among the files `there`, all of which are staged. Raises KinspectError."""
        staged = self.files(*self._staging, name, day)
        missing = [file for file, size in files.items() if there.get(file) != size]
        if lost := [file for file in missing if staged.get(file) != files[file]]:
            raise KinspectError(
                f"{self.address(*self._staging, name, day, lost[0])}: is gone or was changed before it was put in"
                f" place; nothing was deleted: move {self.address(*self._staging)} away, and run again"
            )
        return missing

    def _add(self, name: str, day: str, files: Files, prefix: str = "") -> None:
        """Moves the staged `files` of a date that are not in place yet to those that are there, with names of their
        own by `prefix`."""
        self.make(name, day)
        there = {
            file.removeprefix(prefix): size
            for file, size in self.files(name, day).items()
            if file.startswith(prefix)
        }
        for file in self._missing(name, day, files, there):
            if file in there:  # A part of it.
                self.delete(name, day, prefix + file)
            self.move((*self._staging, name, day, file), (name, day, prefix + file))

    def _replace(self, name: str, day: str, files: Files) -> None:
        """Replaces a date of a table by its staged `files`; without any it is deleted."""
        there = self.files(name, day)
        if there.keys() & files.keys():
            self._add(name, day, files)
            return
        self._missing(name, day, files, {})
        if self.exists(name, day):
            self.make(*self._staging, _REPLACED, name)
            self.move((name, day), (*self._staging, _REPLACED, name, day))
        if files:
            self.make(name)
            self.move((*self._staging, name, day), (name, day))
        elif not self.names(name):
            self.delete(name)


class JobOutput(StagingFolder):
    """The folder `--out` of a batch job. `table_format`: `parquet`, or one of `FORMATS` whose jars the session has."""

    def __init__(self, spark: SparkSession, path: str, table_format: str = PARQUET) -> None:
        """Finishes or discards an interrupted run. Raises KinspectError for a stream's folder, for one of an older
        version or another format, and for a format that the session does not have."""
        super().__init__(spark, path, STAGING)
        self._format = table_format
        check_format(spark, table_format)
        if table_format == PARQUET:
            self.check_renames()
        if self.exists(STREAM):
            raise KinspectError(f"{path}: a stream writes its tables there; give the job a folder of its own")
        for table in self.names(folders=True):
            self._check(table)
        self._is_new = not self.exists()
        with self.locking(STAGING):
            self.take_up(_MARK, self._finish)

    def _check(self, table: str) -> None:
        days = [name for name in self.names(table, folders=True) if name.startswith(DATE_FOLDER)]
        if any(name.startswith(_OLD_LAYOUT) for day in days for name in self.names(table, day, folders=True)):
            raise KinspectError(
                f"{self.path}: has tables of kinspect 0.1, with a folder for each API; choose another --out"
            )
        logs = [name for name, known in FORMATS.items() if self.exists(table, known.log)]
        found = logs[0] if logs else PARQUET if days else self._format
        if found != self._format and table != STAGING:
            raise KinspectError(
                f"{self.path}: {table} is a table of the format {found}; choose another --out"
            )

    def commit(self, dates: Iterable[date | None], names: Iterable[str]) -> dict[str, list[str]]:
        """Replaces `dates` (None: rows without one) of the staged tables and of `names`. Tables without staged rows of
        a date lose those that they had. Returns the dates of each table's rows.

        Raises KinspectError as `check` does, and if not everything can be moved into place.
        """
        self.check()
        staged = self.staged()
        there = [name for name in names if self.exists(name)]
        for name in {*staged, *there}:
            for day in dates:
                staged.setdefault(name, {}).setdefault(f"{DATE_FOLDER}{day or NO_DATE}", {})
        self.make(*self._staging)
        self.put_text(json.dumps(staged), *self._staging, _MARK)
        placed = self._finish()
        self.discard()
        return placed

    def close(self) -> None:
        """Deletes the staged tables unless they are marked: then the next run moves them into place. Lets others write
        there."""
        if not self.exists(*self._staging, _MARK):
            self.discard()
        if not {*self.names(STAGING)} - {LOCK}:
            self.delete(STAGING)
        if self._is_new and not self.names():
            self.delete()
        self.unlock()

    def _finish(self) -> dict[str, list[str]]:
        """Moves the marked tables into place. Returns the dates of each table's rows."""
        # The mark of 0.2 lists nothing.
        marked: Dates = json.loads(self.text(*self._staging, _MARK) or "null") or self.staged()
        try:
            for name, days in marked.items():
                self._put(name, days)
        except Exception as error:
            told = raised_by_spark(error) or error
            raise KinspectError(f"{self.path}: not all is in place, run again to finish: {told}") from error
        self.delete(*self._staging, _MARK)
        return {
            name: sorted(day.removeprefix(DATE_FOLDER) for day, files in days.items() if files)
            for name, days in marked.items()
        }

    def _put(self, name: str, days: dict[str, Files]) -> None:
        """Moves the dates of a table into place."""
        for day, files in days.items():
            if self._format == PARQUET:
                self._replace(name, day, files)
            else:
                self._missing(name, day, files, {})
        if self._format != PARQUET:
            self._exchange(name, [*days], any(days.values()))

    def _exchange(self, name: str, days: list[str], some: bool) -> None:
        """Replaces dates of a table by the format's own commit. `some`: True if there are rows."""
        known = FORMATS[self._format]
        there = self.exists(name, known.log)
        if not days or not (some or there):
            return
        self._spark.conf.set(_WAREHOUSE, self.address())
        table = known.name.format(out=self.address().replace("`", "``"), table=name)
        if some:
            rows = self._spark.read.parquet(self.address(*self._staging, name))
            # Spark infers another type where no row has a date.
            rows = rows.withColumn(DATE, col(DATE).cast("date"))
        else:
            rows = self._spark.table(table).limit(0)
        if there:
            dates = [day.removeprefix(DATE_FOLDER) for day in days]
            replaced = col(DATE).isin([date for date in dates if date != NO_DATE])
            rows.writeTo(table).overwrite(replaced | col(DATE).isNull() if NO_DATE in dates else replaced)
        else:
            rows.writeTo(table).using(self._format).partitionedBy(col(DATE)).create()


def check_format(spark: SparkSession, table_format: str) -> None:
    """Raises KinspectError if the session cannot write the format."""
    sources = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource
    try:
        sources.lookupDataSource(table_format, spark._jsparkSession.sessionState().conf())
    except Exception as error:
        raise KinspectError(
            f"Spark has no format {table_format} here; give its jar, as --conf spark.jars.packages=..., and settings"
        ) from error
