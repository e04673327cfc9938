"""Captures that are looked at once, and then decoded by tasks of which each has some of the packets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kinspect.errors import CaptureError
from kinspect.model import Caps
from kinspect.pipeline import summary_line
from kinspect.spark import facts, index, tasks
from kinspect.spark.asked import Asked, Tell
from kinspect.spark.pieces import unpack, unpack_facts
from kinspect.spark.plan import setting_of
from kinspect.spark.schemas import spark_schema
from kinspect.spark.splits import Split, plan
from kinspect.spark.storage import shown
from kinspect.spark.strand import Known, Setting
from kinspect.spark.ways import Plain, Relay, Way

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Tasks at least, where there is little to do: that decode, and that read.
_FEWEST, _FEWEST_READING = 2, 8


class Indexed:
    """Tables of captures that were looked at: making one runs a Spark job that reads all captures.

    The first table that needs it runs a second one over all segments. `size`: in parts that make a task; `plain`: move
    all segments; `kept`: what moves between tasks is kept on the executors' disks between jobs, until `close`.
    """

    def __init__(
        self,
        spark: SparkSession,
        paths: Sequence[str],
        size: int,
        caps: Caps,
        *,
        split_bytes: int,
        partitions: int | None,
        plain: bool,
        kept: bool,
    ) -> None:
        self.reading = None
        self._spark = spark
        self._caps = caps
        self._reading = max(_FEWEST_READING, size)
        plans = [plan(number, path, split_bytes) for number, path in enumerate(paths)]
        self.index = index.build([shown(path) for path in paths], plans, self._examine, caps)
        self._learned: tuple[tuple[Any, ...], Known] | None = None
        self._sums: dict[str, Any] = {}
        self._way: Way
        # Packets without times have no clock that others could look up.
        if plain or self.index.timeless:
            shares = 1 if self.index.timeless else partitions or max(_FEWEST, size)
            self._way = Plain(spark, self.index, caps, size, shares, kept)
        else:
            readers = max(1, min(spark.sparkContext.defaultParallelism, size))
            self._way = Relay(spark, self.index, caps, readers, partitions or self._reading)

    @property
    def errors(self) -> list[CaptureError]:
        """What could not be read at all, or not to its end."""
        return self.index.errors

    @property
    def days(self) -> frozenset[int]:
        """The days of the packets, since the epoch."""
        return self.index.days

    def table(self, asked: Asked, tell: Tell) -> DataFrame:
        """The rows of a table."""
        setting = setting_of(
            self.index,
            self._caps,
            frozenset({asked.table().emit}),
            names=asked.names,
            keylog=asked.keylog,
            kafka_ports=asked.kafka_ports,
        )
        setting.known = self._learn(setting)
        return self._way.rows(setting, asked, self.index.start, tell)

    def check(self) -> None:
        """Nothing can have gone wrong that tasks did not see."""

    def summary(self, unresolved: int, caps_hit: dict[str, int]) -> dict[str, Any]:
        """The `summary` line's object, once the rows of a table were used. `caps_hit`: while rows were made."""
        counts = self.index.counts
        looked = {"duplicate_packets": counts.duplicate_packets, "caps_hit": counts.caps_hit}
        totals = facts.added(self._sums, looked)
        # Who makes rows pairs too.
        paired = totals.get("caps_hit", {})
        totals["caps_hit"] = {
            cap: max(paired.get(cap, 0), caps_hit.get(cap, 0)) for cap in paired.keys() | caps_hit.keys()
        }
        return summary_line(self.index.files, counts, totals, unresolved)

    def close(self) -> None:
        """Nothing more will be asked for."""
        self._way.close()

    def _examine(self, splits: list[tuple[int, Split]]) -> Iterator[index.Part]:
        # A task takes about as much as one split may have, of small captures several.
        count = len(splits)
        numbers = self._spark.range(0, count, 1, max(1, min(count, self._reading)))
        found = numbers.mapInArrow(tasks.examining(splits, self._caps), spark_schema(tasks.PIECE))
        return (unpack(bytes(row[0])) for row in found.collect())

    def _learn(self, setting: Setting) -> Known:
        asked = (tuple(setting.secrets), tuple(sorted(setting.names.items())), setting.kafka_ports)
        if self._learned is None or self._learned[0] != asked:
            known, self._sums = facts.merge([unpack_facts(piece) for piece in self._way.learn(setting)])
            self._learned = asked, known
        return self._learned[1]
