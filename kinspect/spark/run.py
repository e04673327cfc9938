"""A run over captures on Spark, whichever way its tables are made."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.accumulators import AccumulatorParam

from kinspect.errors import CaptureError, KinspectError
from kinspect.kafka.names import UNRESOLVED_KEPT
from kinspect.model import Caps
from kinspect.spark.ahead import MOST_TASKS, Ahead, ByPart, Meter
from kinspect.spark.asked import Asked, Tell
from kinspect.spark.facts import added
from kinspect.spark.indexed import Indexed
from kinspect.spark.splits import SPLIT_BYTES
from kinspect.spark.storage import expand, is_url, length

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAST, AHEAD, RELAY, PLAIN = "fast", "ahead", "relay", "plain"
WAYS = FAST, AHEAD, RELAY, PLAIN
"""`fast` is `ahead` on one machine, `relay` on a cluster."""
_EPOCH = date(1970, 1, 1)
_PARTITION_BYTES = 64 * 1024 * 1024


class CaptureWarning(UserWarning):
    """A capture, or its end, could not be read; what was before is in the tables."""


class Tables(Protocol):
    """What makes the tables of a run."""

    @property
    def errors(self) -> list[CaptureError]: ...
    @property
    def days(self) -> frozenset[int]: ...
    @property
    def reading(self) -> Meter | None: ...
    def table(self, asked: Asked, tell: Tell) -> DataFrame: ...
    def check(self) -> None: ...
    def summary(self, unresolved: int, caps_hit: dict[str, int]) -> dict[str, Any]: ...
    def close(self) -> None: ...


class Run:
    """Captures, looked at once; then tables of them.

    Making one runs a Spark job that reads all captures. `kept`: what moves between tasks is kept on the executors'
    disks between jobs until `close`, for who asks for more than one table. `watched`: `reading` is asked for. `way`:
    one of `WAYS`; the rows are the same. Raises KinspectError.
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
        watched: bool = False,
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
        self._hit = spark.sparkContext.accumulator(dict[tuple[str, int], dict[str, int]](), ByPart())
        self._tables: Tables
        if way == AHEAD or (way == FAST and tasks <= MOST_TASKS and _one_machine(spark)):
            self._tables = Ahead(spark, files, sizes, caps or Caps(), tasks, watched)
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
        """How far the tasks are that make a table's rows; None if nobody asked, or Spark's own count of them tells."""
        return self._tables.reading

    def table(self, asked: Asked) -> DataFrame:
        """The rows of a table."""
        return self._tables.table(asked, Teller(asked.name, self._unresolved.add, self._hit.add))

    def check(self) -> None:
        """Raises KinspectError if the rows that were used so far do not fit together."""
        self._tables.check()

    def summary(self) -> dict[str, Any]:
        """The `summary` line's object, once all rows of a table were used: before, no topic id is known to have no
        name."""
        # What more than one table shows hits the caps for each of them.
        caps_hit: dict[str, int] = {}
        by_table: dict[str, dict[str, int]] = {}
        for (name, _), hit in self._hit.value.items():
            by_table[name] = added(by_table.get(name, {}), hit)
        for hit in by_table.values():
            caps_hit |= {cap: max(hits, caps_hit.get(cap, 0)) for cap, hits in hit.items()}
        return self._tables.summary(len(self._unresolved.value), caps_hit)

    @property
    def dates(self) -> list[str]:
        """The dates (UTC) of the captures' packets, once all rows of a table were used."""
        return [(_EPOCH + timedelta(days=day)).isoformat() for day in sorted(self._tables.days)]

    def close(self) -> None:
        """Nothing more will be asked for."""
        self._tables.close()


@dataclass(frozen=True, slots=True)
class Teller:
    """What tasks that make rows of a table call: a `Tell`."""

    table: str
    unresolved: Callable[[set[str]], None]
    hit: Callable[[dict[tuple[str, int], dict[str, int]]], None]

    def __call__(self, part: int, unresolved: set[str], caps_hit: dict[str, int]) -> None:
        self.unresolved(unresolved)
        self.hit({(self.table, part): dict(caps_hit)})


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
