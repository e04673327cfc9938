"""Tables in a folder, exchanged a day at a time: a run's tables are all there, or none of them.

A run writes into a folder of its own beside the tables. Once everything is written it leaves a mark there, and then
moves its days in place of those of the same dates. A run that was interrupted before its mark leaves nothing; one that
was interrupted after it is finished by the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kinspect.errors import KinspectError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STAGING = "_staging"
_MARK = "_WRITTEN"
# How Parquet folders are named by what their rows have in common.
_DAY = "date="


class Output:
    """The folder `--out`, on any file system that Spark writes to."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Finishes, or takes away, what an interrupted run left."""
        hadoop = spark._jvm.org.apache.hadoop.fs
        self._path = hadoop.Path
        self._folder = hadoop.Path(folder)
        self._system = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())
        self._staging = hadoop.Path(self._folder, _STAGING)
        self._recover()

    def write(self, name: str, rows: DataFrame, partitions: tuple[str, ...]) -> None:
        """Stages a table; its first partition column is `date`."""
        rows.write.partitionBy(*partitions).mode("overwrite").parquet(self.staged(name))

    def staged(self, name: str) -> str:
        """Where a staged table is, to be read again."""
        return str(self._path(self._staging, name).toString())

    def commit(self, dates: Iterable[str]) -> dict[str, list[str]]:
        """Puts what was staged in its place. Of `dates` for which a table has no rows now, it has none any more. Out:
        the dates of each table's rows."""
        for table in self._children(self._staging):
            for date in dates:
                self._system.mkdirs(self._path(table.getPath(), f"{_DAY}{date}"))
        self._system.create(self._path(self._staging, _MARK), True).close()
        return self._finish()

    def abandon(self) -> None:
        """Takes away what was staged."""
        self._system.delete(self._staging, True)

    def _recover(self) -> None:
        if self._system.exists(self._path(self._staging, _MARK)):
            self._finish()
        else:
            self.abandon()

    def _finish(self) -> dict[str, list[str]]:
        moved: dict[str, list[str]] = {}
        for table in self._children(self._staging):
            if not table.isDirectory():
                continue
            name = table.getPath().getName()
            target = self._path(self._folder, name)
            self._system.mkdirs(target)
            days = [day.getPath() for day in self._children(table.getPath())]
            dates = [self._replace(day, target) for day in days if day.getName().startswith(_DAY)]
            moved[name] = sorted(date for date in dates if date is not None)
        self._system.delete(self._staging, True)
        return moved

    def _replace(self, day: Any, table: Any) -> str | None:
        """Puts a day in the place of the one that is there. Out: its date, None if it has no rows."""
        target = self._path(table, day.getName())
        self._system.delete(target, True)
        if not any(self._children(day)):
            return None
        if not self._system.rename(day, target):
            raise KinspectError(f"{target.toString()}: could not be put in place; run again to finish")
        return str(day.getName()[len(_DAY) :])

    def _children(self, folder: Any) -> Iterator[Any]:
        yield from self._system.listStatus(folder)
