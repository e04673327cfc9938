"""Tables in a folder, exchanged a day at a time: a run's tables are all there, or none of them.

A run writes into a folder of its own beside the tables. Once everything is written it leaves a mark there, and then
moves its days in place of those of the same dates. A run that was interrupted before its mark leaves nothing; one that
was interrupted after it is finished by the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kinspect.errors import KinspectError
from kinspect.tables.columns import DATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
FORMATS = (PARQUET, DELTA, ICEBERG)
STREAM = "_stream"
"""Beside the tables of a stream: what it goes on from."""
_STAGING = "_staging"
_MARK = "_WRITTEN"
# How Parquet folders are named by what their rows have in common.
_DAY = f"{DATE}="
_OLD_LAYOUT = "api="


class Folder:
    """A folder on any file system that Spark writes to."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        hadoop = spark._jvm.org.apache.hadoop.fs
        self.path = path
        self._path = hadoop.Path
        self._permission = hadoop.permission.FsPermission
        self._folder = hadoop.Path(path)
        self._system = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())

    def at(self, *names: str) -> Any:
        """A path in it."""
        path = self._folder
        for name in names:
            path = self._path(path, name)
        return path

    def exists(self, *names: str) -> bool:
        return bool(self._system.exists(self.at(*names)))

    def children(self, path: Any) -> Iterator[Any]:
        """What is in a folder; nothing if it is not there."""
        if self._system.exists(path):
            yield from self._system.listStatus(path)

    def make(self, path: Any, private: bool = False) -> None:
        self._system.mkdirs(path)
        if private:
            self._system.setPermission(path, self._permission("700"))

    def below(self, path: Any, name: str) -> Any:
        return self._path(path, name)

    def text(self, path: Any) -> str:
        """What is in a file."""
        source = self._system.open(path)
        try:
            return bytes(source.readAllBytes()).decode()
        finally:
            source.close()

    def put_text(self, path: Any, text: str) -> None:
        out = self._system.create(path, True)
        out.write(bytearray(text.encode()))
        out.close()

    def touch(self, path: Any) -> None:
        self._system.create(path, True).close()

    def delete(self, path: Any) -> None:
        self._system.delete(path, True)

    def move(self, source: Any, target: Any) -> None:
        """Puts one in the place of the other. Raises KinspectError."""
        self._system.delete(target, True)
        if not self._system.rename(source, target):
            raise KinspectError(f"{target.toString()}: could not be put in place; run again to finish")

    def check_layout(self) -> None:
        """Raises KinspectError for tables of version 0.1."""
        for table in self.children(self._folder):
            for day in self.children(table.getPath()) if table.isDirectory() else ():
                old = day.isDirectory() and day.getPath().getName().startswith(_DAY)
                inside = self.children(day.getPath()) if old else ()
                if any(child.getPath().getName().startswith(_OLD_LAYOUT) for child in inside):
                    raise KinspectError(
                        f"{self.path}: has tables of kinspect 0.1, with a folder for each API; choose another --out"
                    )


class Output(Folder):
    """The folder `--out` of a job. `table_format`: `parquet`, or one whose jars the session has."""

    def __init__(self, spark: SparkSession, path: str, table_format: str = PARQUET) -> None:
        """Finishes, or takes away, what an interrupted run left. Raises KinspectError for a stream's folder, for one
        of an older version, and for a format that is not there."""
        super().__init__(spark, path)
        self._spark = spark
        self._format = table_format
        check_format(spark, table_format)
        if self.exists(STREAM):
            raise KinspectError(f"{path}: a stream writes its tables there; give the job a folder of its own")
        self.check_layout()
        self._staging = self.at(_STAGING)
        self._schemas: dict[str, Any] = {}
        self._recover()

    def write(self, name: str, rows: DataFrame) -> None:
        """Stages a table."""
        self._schemas[name] = rows.schema
        sorted_by_time(rows).write.partitionBy(DATE).mode("overwrite").parquet(self._staged(name))

    def staged(self, name: str) -> DataFrame:
        """A staged table."""
        return self._spark.read.schema(self._schemas[name]).parquet(self._staged(name))

    def _staged(self, name: str) -> str:
        return str(self.at(_STAGING, name).toString())

    def commit(self, dates: Iterable[str], names: Iterable[str]) -> dict[str, list[str]]:
        """Puts what was staged in its place. Of `dates` for which a table has no rows now, also one of `names` that was
        not staged, it has none any more. Out: the dates of each table's rows."""
        if self._format != PARQUET:
            return self._commit_to(self._format)
        there = [name for name in names if self.exists(name)]
        staged = [table.getPath().getName() for table in self.children(self._staging)]
        for name in {*staged, *there}:
            for date in dates:
                self.make(self.at(_STAGING, name, f"{_DAY}{date}"))
        self.touch(self.at(_STAGING, _MARK))
        return self._finish()

    def abandon(self) -> None:
        """Takes away what was staged."""
        self.delete(self._staging)

    def _commit_to(self, table_format: str) -> dict[str, list[str]]:
        """Replaces the dates of what was staged, a table at a time, as the format does it."""
        moved: dict[str, list[str]] = {}
        for table in self.children(self._staging):
            name = table.getPath().getName()
            moved[name] = sorted(
                day.getPath().getName()[len(_DAY) :]
                for day in self.children(table.getPath())
                if day.getPath().getName().startswith(_DAY)
            )
            if moved[name]:
                writer = self.staged(name).write.format(table_format).mode("overwrite").partitionBy(DATE)
                dynamic = {"partitionOverwriteMode": "dynamic", "overwrite-mode": "dynamic"}
                writer.options(**dynamic).save(str(self.at(name).toString()))
        self.abandon()
        return moved

    def _recover(self) -> None:
        if self.exists(_STAGING, _MARK):
            self._finish()
        else:
            self.abandon()

    def _finish(self) -> dict[str, list[str]]:
        moved: dict[str, list[str]] = {}
        for table in self.children(self._staging):
            if not table.isDirectory():
                continue
            name = table.getPath().getName()
            self.make(self.at(name))
            days = [day.getPath() for day in self.children(table.getPath())]
            dates = [self._replace(day, self.at(name)) for day in days if day.getName().startswith(_DAY)]
            moved[name] = sorted(date for date in dates if date is not None)
        self.delete(self._staging)
        return moved

    def _replace(self, day: Any, table: Any) -> str | None:
        """Puts a day in the place of the one that is there. Out: its date, None if it has no rows."""
        target = self._path(table, day.getName())
        if not any(self.children(day)):
            self.delete(target)
            return None
        self.move(day, target)
        return str(day.getName()[len(_DAY) :])


def sorted_by_time(rows: DataFrame) -> DataFrame:
    """The rows in files of sensible size (Spark's `advisoryPartitionSizeInBytes`), by date and time."""
    by = [name for name in (DATE, "timestamp_ns", "minute") if name in rows.columns]
    return rows.repartitionByRange(*by).sortWithinPartitions(*by)


def check_format(spark: SparkSession, table_format: str) -> None:
    """Raises KinspectError if the session cannot write it."""
    sources = spark._jvm.org.apache.spark.sql.execution.datasources.DataSource
    try:
        sources.lookupDataSource(table_format, spark._jsparkSession.sessionState().conf())
    except Exception as error:
        raise KinspectError(
            f"Spark has no format {table_format} here; give its jar, as --conf spark.jars.packages=..., and settings"
        ) from error
