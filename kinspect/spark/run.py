"""A run over captures on Spark, whichever way its tables are made."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.accumulators import AccumulatorParam

from kinspect.errors import CaptureError, KinspectError
from kinspect.kafka.names import UNRESOLVED_KEPT
from kinspect.model import Caps
from kinspect.spark.ahead import MOST_TASKS, Ahead, Meter
from kinspect.spark.asked import Asked, Unresolved
from kinspect.spark.indexed import Indexed
from kinspect.spark.splits import SPLIT_BYTES
from kinspect.spark.storage import expand, is_url, length

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAST, AHEAD, RELAY, PLAIN = "fast", "ahead", "relay", "plain"
WAYS = FAST, AHEAD, RELAY, PLAIN
"""`fast` is `ahead` on one machine, `relay` on a cluster."""
_PARTITION_BYTES = 64 * 1024 * 1024


class CaptureWarning(UserWarning):
    """A capture, or its end, could not be read; what was before is in the tables."""


class Tables(Protocol):
    """What makes the tables of a run."""

    @property
    def errors(self) -> list[CaptureError]: ...
    @property
    def reading(self) -> Meter | None: ...
    def table(self, asked: Asked, unresolved: Unresolved) -> DataFrame: ...
    def check(self) -> None: ...
    def summary(self, unresolved: int) -> dict[str, Any]: ...
    def close(self) -> None: ...


class Run:
    """Captures, looked at once; then tables of them.

    Making one runs a Spark job that reads all captures. `kept`: what moves between tasks is kept on the executors'
    disks between jobs until `close`, for who asks for more than one table. `way`: one of `WAYS`; the rows are the
    same. Raises KinspectError.
    """

    def __init__(
        self,
        spark: SparkSession,
        paths: Sequence[str],
        *,
        caps: Caps | None = None,
        split_bytes: int = SPLIT_BYTES,
        partitions: int | None = None,
        kept: bool = False,
        way: str = FAST,
    ) -> None:
        if way not in WAYS:
            raise KinspectError(f"way cannot be {way!r}; it is one of {', '.join(WAYS)}")
        files = expand(list(paths))
        for path in files:
            if (
                not is_url(path)
                and os.path.exists(path)
                and not (os.path.isfile(path) or os.path.isdir(path))
            ):
                raise KinspectError(
                    f"{path}: a pipe or device cannot be read twice; write its packets to a file"
                )
        sizes = {path: _size(path) for path in files}
        parts = -(-sum(sizes[path] or 0 for path in files) // _PARTITION_BYTES)
        tasks = partitions or max(1, min(spark.sparkContext.defaultParallelism, parts))
        self._unresolved = spark.sparkContext.accumulator(set[str](), _Union())
        self._tables: Tables
        if way == AHEAD or (way == FAST and tasks <= MOST_TASKS and _one_machine(spark)):
            self._tables = Ahead(spark, files, sizes, caps or Caps(), tasks)
        else:
            self._tables = Indexed(
                spark,
                files,
                parts,
                caps or Caps(),
                split_bytes=split_bytes,
                partitions=partitions,
                plain=way == PLAIN,
                kept=kept,
            )

    @property
    def errors(self) -> list[CaptureError]:
        """What could not be read at all, or not to its end."""
        return self._tables.errors

    @property
    def reading(self) -> Meter | None:
        """How far the tasks are that make a table's rows; None if they are so many that Spark's own count tells."""
        return self._tables.reading

    def table(self, asked: Asked) -> DataFrame:
        """The rows of a table."""
        return self._tables.table(asked, self._unresolved.add)

    def check(self) -> None:
        """Raises KinspectError if the rows that were used so far do not fit together."""
        self._tables.check()

    def summary(self) -> dict[str, Any]:
        """The `summary` line's object, once all rows of a table were used: before, no topic id is known to have no
        name."""
        return self._tables.summary(len(self._unresolved.value))

    def close(self) -> None:
        """Nothing more will be asked for."""
        self._tables.close()


class _Union(AccumulatorParam):  # type: ignore[misc]
    """Adds up sets, as long as there is room."""

    def zero(self, value: set[str]) -> set[str]:
        return set()

    def addInPlace(self, value1: set[str], value2: set[str]) -> set[str]:  # noqa: N802
        value1.update(islice(value2, max(0, UNRESOLVED_KEPT - len(value1))))
        return value1


def warn(errors: Sequence[CaptureError]) -> None:
    """Tell what could not be read."""
    for error in errors:
        warnings.warn(str(error), CaptureWarning, stacklevel=3)


def _one_machine(spark: SparkSession) -> bool:
    # How many tasks a cluster runs at once can change.
    return str(spark.sparkContext.master).partition("[")[0] == "local"


def _size(path: str) -> int | None:
    """The bytes of a capture; None if that is unknown, or there are none: reading it tells what is wrong."""
    try:
        return length(path) or None
    except CaptureError:
        return None
