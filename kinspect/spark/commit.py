"""Tables that a job or stream writes: staged by Spark, counted, and committed together."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import count, lit
from pyspark.sql.types import StructType

from kinspect.errors import KinspectError
from kinspect.spark.failure import raised_by_spark
from kinspect.spark.folder import Folder
from kinspect.spark.schemas import spark_schema
from kinspect.tables.aggregates import QUERIES
from kinspect.tables.answertables import PLACE, table_of
from kinspect.tables.arrowcolumns import DATE, PROBLEM_ROWS
from kinspect.tables.committedfolder import MANIFEST
from kinspect.tables.lock import LOCK
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
    """A folder of tables, with a staging folder in it that Spark writes to."""

    def __init__(self, spark: SparkSession, path: str, table_format: str, one_file: bool = False) -> None:
        """`one_file`: all rows of a date go into one file; else Spark's `advisoryPartitionSizeInBytes` sizes files."""
        super().__init__(spark, path)
        self.table_format = table_format
        self.check_store()
        self._one_file = one_file
        self._written: dict[str, int] = {}

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
        schema = spark_schema(request.open()[EXCHANGES].schema)
        paths = self.paths_of(EXCHANGES, days) if days else [self.address(*table)]
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
