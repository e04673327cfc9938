"""A run over captures on Spark: a look at all of them, a pass for what connections tell of others, then tables."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

from kinspect.errors import CaptureError, KinspectError
from kinspect.filters import Filter
from kinspect.kafka.names import UNRESOLVED_KEPT
from kinspect.kafka.view import View
from kinspect.model import Caps
from kinspect.pipeline import summary_line
from kinspect.spark import facts, index, tasks
from kinspect.spark.pieces import unpack, unpack_facts
from kinspect.spark.plan import setting_of
from kinspect.spark.schemas import spark_schema
from kinspect.spark.splits import SPLIT_BYTES, Split, plan
from kinspect.spark.storage import expand, length, shown
from kinspect.spark.strand import Known, Setting
from kinspect.spark.tables import open_table
from kinspect.spark.ways import FAST, PLAIN, WAYS, Fast, Plain, Wanted, Way

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_PARTITION_BYTES = 64 * 1024 * 1024
# Tasks at least, where there is little to do: that decode, and that read.
_FEWEST, _FEWEST_READING = 2, 8


class CaptureWarning(UserWarning):
    """A capture, or its end, could not be read; what was before is in the tables."""


class Run:
    """Captures, looked at once; then tables of them.

    Making one runs a Spark job that reads all captures. `index` has what it found. The first table that needs it
    runs a second one over all segments. `kept`: what moves between tasks is kept on the executors' disks between jobs
    until `close`, for who asks for more than one table. `way`: `fast` decodes where the packets are read and moves what
    is under way between splits, `plain` moves all segments; the rows are the same.
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
        self._spark = spark
        self._caps = caps or Caps()
        files = expand(list(paths))
        self._bytes = _total(files)
        plans = [plan(number, path, split_bytes) for number, path in enumerate(files)]
        self.index = index.build([shown(path) for path in files], plans, self._examine, self._caps)
        self._partitions = 1 if self.index.timeless else partitions or max(_FEWEST, _parts(self._bytes))
        self._learned: tuple[tuple[Any, ...], Known] | None = None
        self._sums: dict[str, Any] = {}
        self._unresolved = spark.sparkContext.accumulator(set[str](), _Union())
        readers = max(1, min(spark.sparkContext.defaultParallelism, _parts(self._bytes)))
        # Packets without times have no clock that others could look up.
        self._way: Way = (
            Plain(spark, self.index, self._caps, _parts(self._bytes), self._partitions, kept)
            if way == PLAIN or self.index.timeless
            else Fast(
                spark,
                self.index,
                self._caps,
                readers,
                partitions or max(_FEWEST_READING, _parts(self._bytes)),
            )
        )

    def close(self) -> None:
        """Nothing more will be asked for."""
        self._way.close()

    def table(
        self,
        name: str,
        *,
        fields: Collection[str] | None = None,
        filter: Mapping[str, Any] | None = None,
        view: View | None = None,
        keylog: bytes = b"",
        names: dict[str, str] | None = None,
        kafka_ports: frozenset[int] = frozenset(),
    ) -> DataFrame:
        """A table; see `kinspect.spark.read`."""
        chosen = dict(filter or {})
        Filter(**chosen)
        shown = view or View()
        asked = None if fields is None else tuple(fields)
        opened = open_table(name, asked, shown)
        setting = setting_of(
            self.index,
            self._caps,
            frozenset({opened.emit}),
            names=names,
            keylog=keylog,
            kafka_ports=kafka_ports,
        )
        setting.known = self._learn(setting)
        return self._way.rows(
            setting, Wanted(name, asked, shown, chosen, self.index.start, self._unresolved.add, opened.schema)
        )

    def summary(self) -> dict[str, Any]:
        """The `summary` line's object, once the rows of a table were used: before, no topic id is known
        to have no name."""
        counts = self.index.counts
        looked = {"duplicate_packets": counts.duplicate_packets, "caps_hit": counts.caps_hit}
        return summary_line(
            self.index.files, counts, facts.added(self._sums, looked), len(self._unresolved.value)
        )

    def _examine(self, splits: list[tuple[int, Split]]) -> Iterator[index.Part]:
        task = tasks.examining(splits, self._caps)
        return map(unpack, self._collected(self._numbers(len(splits)), task, tasks.PIECE))

    def _learn(self, setting: Setting) -> Known:
        asked = (tuple(setting.secrets), tuple(sorted(setting.names.items())), setting.kafka_ports)
        if self._learned is None or self._learned[0] != asked:
            known, self._sums = facts.merge([unpack_facts(piece) for piece in self._way.learn(setting)])
            self._learned = asked, known
        return self._learned[1]

    def _numbers(self, count: int) -> DataFrame:
        """A row for each split; a task takes about as much as one split may have, of small captures several."""
        return self._spark.range(0, count, 1, max(1, min(count, max(_FEWEST_READING, _parts(self._bytes)))))

    def _collected(self, data: DataFrame, task: tasks.Task, schema: pa.Schema) -> Iterator[bytes]:
        return (bytes(row[0]) for row in data.mapInArrow(task, spark_schema(schema)).collect())


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


def _parts(size: int) -> int:
    return -(-size // _PARTITION_BYTES)


def _total(files: Sequence[str]) -> int:
    total = 0
    for path in files:
        try:
            total += length(path)
        except CaptureError:
            continue
    return total
