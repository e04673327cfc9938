"""Tables in a folder, exchanged a day at a time: a run's tables are all there, or none of them.

A run writes into a folder of its own beside the tables. Once everything is written it leaves a mark there, and then
puts its days in the place of those of the same dates. A run that was interrupted before its mark leaves nothing; one
that was interrupted after it is finished by the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

from kinspect.errors import KinspectError
from kinspect.spark.aggregates import QUERIES, aggregate
from kinspect.spark.request import Request
from kinspect.spark.schemas import spark_schema
from kinspect.tables.columns import DATE, EXCHANGES, PROBLEM_ROWS, PROBLEMS
from kinspect.tables.rows import Unread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAM = "_stream"
"""Beside the tables of a stream: what it goes on from."""
_STAGING, _MARK = "_staging", "_WRITTEN"
# How folders are named by what their rows have in common.
_DAY = f"{DATE}="
_NO_DATE = "__HIVE_DEFAULT_PARTITION__"
_OLD_LAYOUT = "api="


class TableFormat(NamedTuple):
    """How tables are written that are more than folders of Parquet. `log`: what is in a table's folder; `name`: what
    Spark calls the table of a folder; `settings`: what a session needs beside the jars."""

    log: str
    name: str
    settings: dict[str, str]


PARQUET = "parquet"
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


class Folder:
    """A folder on any file system that Spark writes to. What is in it is told by the names on the way there."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path
        self._spark = spark
        self._hadoop = spark._jvm.org.apache.hadoop.fs
        self._system = self._at().getFileSystem(spark._jsc.hadoopConfiguration())

    def _at(self, *names: str) -> Any:
        path = self._hadoop.Path(self.path)
        for name in names:
            path = self._hadoop.Path(path, name)
        return path

    def address(self, *names: str) -> str:
        """The whole URL of what is in it."""
        return str(self._system.makeQualified(self._at(*names)).toString())

    def exists(self, *names: str) -> bool:
        return bool(self._system.exists(self._at(*names)))

    def names(self, *names: str, folders: bool = False) -> list[str]:
        """What is in a folder, or the folders alone; nothing if it is not there."""
        found = self._system.listStatus(self._at(*names)) if self.exists(*names) else ()
        return [child.getPath().getName() for child in found if child.isDirectory() or not folders]

    def make(self, *names: str, private: bool = False) -> None:
        path = self._at(*names)
        self._system.mkdirs(path)
        if private:
            self._system.setPermission(path, self._hadoop.permission.FsPermission("700"))

    def text(self, *names: str) -> str:
        """What is in a file."""
        source = self._system.open(self._at(*names))
        try:
            return bytes(source.readAllBytes()).decode()
        finally:
            source.close()

    def put_text(self, text: str, *names: str) -> None:
        """In one step: who is killed meanwhile leaves what was there."""
        fresh = (*names[:-1], f"_new-{names[-1]}")
        out = self._system.create(self._at(*fresh), True)
        out.write(bytearray(text.encode()))
        out.close()
        self.move(fresh, names)

    def delete(self, *names: str) -> None:
        self._system.delete(self._at(*names), True)

    def move(self, source: Iterable[str], target: Iterable[str]) -> None:
        """Puts one in the place of the other. Raises KinspectError."""
        self.delete(*target)
        if not self._system.rename(self._at(*source), self._at(*target)):
            raise KinspectError(f"{self.address(*target)}: could not be put in place; run again to finish")


class Staged(Folder):
    """A folder of tables. In a folder of it rows are written before they count."""

    def __init__(self, spark: SparkSession, path: str, *staging: str, one_file: bool = False) -> None:
        """`one_file`: a date's rows are one file; else files are of a sensible size (Spark's
        `advisoryPartitionSizeInBytes`)."""
        super().__init__(spark, path)
        self._staging = staging
        self._one_file = one_file

    def write(self, name: str, rows: DataFrame) -> None:
        """Stages a table, by date and time."""
        by = [column for column in (DATE, "timestamp_ns", "minute") if column in rows.columns]
        dealt = rows.repartition(DATE) if self._one_file else rows.repartitionByRange(*by)
        target = self.address(*self._staging, name)
        dealt.sortWithinPartitions(*by).write.partitionBy(DATE).mode("overwrite").parquet(target)

    def write_table(self, name: str, decoded: DataFrame) -> None:
        """Stages the rows of one of the tables that were decoded."""
        self.write(name, decoded.where(f"{name} is not null").select(f"{name}.*"))

    def write_problems(self, unread: list[Unread], request: Request, day: date | None) -> None:
        """Stages what could not be read, if there is any."""
        if unread:
            rows = [one.row(request.run_id, request.capture_point, day) for one in unread]
            self.write(PROBLEMS, self._spark.createDataFrame(rows, spark_schema(PROBLEM_ROWS)))

    def write_sums(self, request: Request, *days: str) -> None:
        """Stages what exchanges add up to. `days`: the folders of theirs; none: all that are staged."""
        rows = self._spark.read.schema(spark_schema(request.open()[EXCHANGES].schema))
        if days:
            paths = [self.address(EXCHANGES, day) for day in days]
            rows = rows.option("basePath", self.address(EXCHANGES))
        else:
            paths = [self.address(*self._staging, EXCHANGES)]
        for query in QUERIES:
            self.write(query, aggregate(query, rows.parquet(*paths)))

    def _days(self, name: str) -> list[str]:
        """The folders of a table's days that are staged."""
        return [day for day in self.names(*self._staging, name, folders=True) if day.startswith(_DAY)]

    def _replace(self, name: str, day: str) -> None:
        """Puts a day of a table in the place of the one that is there; one without rows takes it away."""
        staged = (*self._staging, name, day)
        if self.names(*staged):
            self.make(name)
            self.move(staged, (name, day))
        else:
            self.delete(name, day)


class Output(Staged):
    """The folder `--out` of a job. `table_format`: `parquet`, or one of `FORMATS` whose jars the session has."""

    def __init__(self, spark: SparkSession, path: str, table_format: str = PARQUET) -> None:
        """Finishes, or takes away, what an interrupted run left. Raises KinspectError for a stream's folder, for one
        of an older version or another format, and for a format that is not there."""
        super().__init__(spark, path, _STAGING)
        self._format = table_format
        check_format(spark, table_format)
        if self.exists(STREAM):
            raise KinspectError(f"{path}: a stream writes its tables there; give the job a folder of its own")
        for table in self.names(folders=True):
            self._check(table)
        if self.exists(_STAGING, _MARK):
            self._finish()
        else:
            self.abandon()

    def _check(self, table: str) -> None:
        days = [name for name in self.names(table, folders=True) if name.startswith(_DAY)]
        if any(name.startswith(_OLD_LAYOUT) for day in days for name in self.names(table, day, folders=True)):
            raise KinspectError(
                f"{self.path}: has tables of kinspect 0.1, with a folder for each API; choose another --out"
            )
        logs = [name for name, known in FORMATS.items() if self.exists(table, known.log)]
        found = logs[0] if logs else PARQUET if days else self._format
        if found != self._format and table != _STAGING:
            raise KinspectError(
                f"{self.path}: {table} is a table of the format {found}; choose another --out"
            )

    def commit(self, dates: Iterable[str], names: Iterable[str]) -> dict[str, list[str]]:
        """Puts what was staged in its place. Of `dates` for which a table has no rows now, also one of `names` that was
        not staged, it has none any more. Out: the dates of each table's rows."""
        there = [name for name in names if self.exists(name)]
        for name in {*self.names(_STAGING, folders=True), *there}:
            for day in dates:
                self.make(_STAGING, name, f"{_DAY}{day}")
        self.put_text("", _STAGING, _MARK)
        return self._finish()

    def abandon(self) -> None:
        """Takes away what was staged."""
        self.delete(_STAGING)

    def _finish(self) -> dict[str, list[str]]:
        dates: dict[str, list[str]] = {}
        for name in self.names(_STAGING, folders=True):
            days = self._days(name)
            full = sorted(day for day in days if self.names(_STAGING, name, day))
            dates[name] = [day.removeprefix(_DAY) for day in full]
            if self._format != PARQUET:
                self._exchange(name, days, bool(full))
                continue
            for day in days:
                self._replace(name, day)
        self.abandon()
        return dates

    def _exchange(self, name: str, days: list[str], some: bool) -> None:
        """Replaces days of a table by the format's own commit. `some`: whether there are rows."""
        from pyspark.sql.functions import col

        known = FORMATS[self._format]
        there = self.exists(name, known.log)
        if not days or not (some or there):
            return
        self._spark.conf.set(_WAREHOUSE, self.address())
        table = known.name.format(out=self.address().replace("`", "``"), table=name)
        if some:
            rows = self._spark.read.parquet(self.address(_STAGING, name))
            # Where no row has one, Spark does not know that it is one.
            rows = rows.withColumn(DATE, col(DATE).cast("date"))
        else:
            rows = self._spark.table(table).limit(0)
        if there:
            dates = [day.removeprefix(_DAY) for day in days]
            replaced = col(DATE).isin([date for date in dates if date != _NO_DATE])
            rows.writeTo(table).overwrite(replaced | col(DATE).isNull() if _NO_DATE in dates else replaced)
        else:
            rows.writeTo(table).using(self._format).partitionedBy(col(DATE)).create()


def check_format(spark: SparkSession, table_format: str) -> None:
    """Raises KinspectError if the session cannot write it."""
    sources = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource
    try:
        sources.lookupDataSource(table_format, spark._jsparkSession.sessionState().conf())
    except Exception as error:
        raise KinspectError(
            f"Spark has no format {table_format} here; give its jar, as --conf spark.jars.packages=..., and settings"
        ) from error
