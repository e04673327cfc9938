"""The ways from captures that were looked at to rows; all give the same.

`Relay` decodes packets in the task that reads them and moves what is under way where a split ends and the next begins.
`Plain` moves all segments to tasks that have whole connections: more work, and simple enough to test the other by.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from pyspark import StorageLevel
from pyspark.sql.functions import col, floor, lit, when

from kinspect.model import Caps
from kinspect.spark import tasks
from kinspect.spark.asked import Asked, Tell
from kinspect.spark.index import Index
from kinspect.spark.reading import Splits
from kinspect.spark.routes import MOST_READERS, Routes
from kinspect.spark.rows import SEGMENT_ROWS
from kinspect.spark.schemas import spark_schema
from kinspect.spark.strand import Setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Tasks that read, at least, where there is little to do.
_FEWEST_READING = 8


class Way(Protocol):
    """How rows are made. `learn` comes first, and again when the setting is another."""

    def learn(self, setting: Setting) -> Iterable[bytes]:
        """Facts, packed, of all connections."""

    def rows(self, setting: Setting, asked: Asked, start: int | None, tell: Tell) -> DataFrame:
        """The rows of a table; `start`: the time of the run's first packet."""

    def close(self) -> None:
        """Nothing more will be asked for."""


class Plain:
    """Segments are shuffled by connection. `kept`: they stay on the executors' disks between jobs."""

    def __init__(
        self, spark: SparkSession, index: Index, caps: Caps, readers: int, partitions: int, kept: bool
    ) -> None:
        scan = tasks.scanning(index, caps)
        count = len(index.splits) + 1
        segments = spark.range(0, count, 1, max(1, min(count, max(_FEWEST_READING, readers)))).mapInArrow(
            scan, spark_schema(SEGMENT_ROWS)
        )
        shuffled = segments.repartition(partitions, "ends").sortWithinPartitions("ordinal")
        self._kept = kept
        self._segments = shuffled.persist(StorageLevel.DISK_ONLY) if kept else shuffled

    def learn(self, setting: Setting) -> Iterable[bytes]:
        found = self._segments.mapInArrow(tasks.learning(setting), spark_schema(tasks.PIECE))
        return [bytes(row[0]) for row in found.collect()]

    def rows(self, setting: Setting, asked: Asked, start: int | None, tell: Tell) -> DataFrame:
        task = tasks.tabling(setting, asked, start, tell)
        return self._segments.mapInArrow(task, spark_schema(asked.table().schema))

    def close(self) -> None:
        if self._kept:
            self._segments.unpersist()


class Relay:
    """Splits are decoded where they are read, by `tasks_wanted` tasks. `readers`: how many tasks at most go through all
    splits."""

    def __init__(
        self, spark: SparkSession, index: Index, caps: Caps, readers: int, tasks_wanted: int
    ) -> None:
        self._spark = spark
        self._splits = Splits(index, caps)
        self._routes = Routes(index.groups)
        self._readers = min(max(readers, 1), MOST_READERS)
        self._tasks = tasks_wanted
        self._moves: DataFrame | None = None

    def learn(self, setting: Setting) -> Iterable[bytes]:
        self.close()
        parts = self._routes.relays(self._readers)
        reading = sum(part.groups is not None for part in parts)
        task = tasks.relaying(setting, self._splits, [part.pack() for part in parts])
        # Those that go through all splits first, each a task.
        numbers = self._numbers(0, reading, reading).union(self._numbers(reading, len(parts), self._tasks))
        moves = numbers.mapInArrow(task, spark_schema(tasks.MOVES))
        # What is told is collected now, what the splits begin with is read when rows are made.
        self._moves = moves.persist(StorageLevel.DISK_ONLY)
        return [
            bytes(row[0]) for row in self._moves.where(col("split") == tasks.FACTS).select("what").collect()
        ]

    def rows(self, setting: Setting, asked: Asked, start: int | None, tell: Tell) -> DataFrame:
        assert self._moves is not None
        parts = self._routes.decoding(self._readers)
        splits = sum(part.groups is None for part in parts)
        count = min(splits, self._tasks)
        packed = [part.pack() for part in parts]
        task = tasks.decoding(setting, self._splits, packed, asked, start, tell)
        every = self._numbers(0, len(parts), 1).select(
            col("id").alias("split"), lit(None).cast("binary").alias("what")
        )
        moved = self._moves.where(col("split") != tasks.FACTS)
        # Small splits share a task with those beside them.
        number = when(col("split") < splits, floor(col("split") * count / splits)).otherwise(
            col("split") - splits + count
        )
        begun = every.union(moved).repartitionById(count + len(parts) - splits, number.cast("int"))
        return begun.sortWithinPartitions("split").mapInArrow(task, spark_schema(asked.table().schema))

    def close(self) -> None:
        if self._moves is not None:
            self._moves.unpersist()

    def _numbers(self, first: int, end: int, count: int) -> DataFrame:
        return self._spark.range(first, end, 1, max(1, min(count, end - first)))
