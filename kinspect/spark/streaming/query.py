"""The stream as a DataFrame, and `kinspect pipeline stream`, which writes its tables."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import orjson
from pyspark import StorageLevel
from pyspark.errors import StreamingQueryException

from kinspect.errors import CaptureError, KinspectError
from kinspect.kafka.view import View
from kinspect.model import Caps, Counts
from kinspect.pipeline import summary_line
from kinspect.spark.batch import add_counts, tries_of
from kinspect.spark.decode import SUMMARY, added, schema_of
from kinspect.spark.failure import error_of, raised_in_task
from kinspect.spark.job import DEFAULT_TABLES
from kinspect.spark.request import Request
from kinspect.spark.scan import Report
from kinspect.spark.schemas import spark_schema
from kinspect.spark.session import own_session
from kinspect.spark.storage import check_out
from kinspect.spark.streaming.folder import SETTLE_SECONDS
from kinspect.spark.streaming.output import StreamOutput
from kinspect.spark.streaming.processor import PIECE, Shard, unpacked
from kinspect.spark.streaming.source import SHARD, CaptureStream, Watch
from kinspect.spark.tables import PROBLEM_ROWS, PROBLEMS, Unread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARDS = 16
"""Into how many shards the islands are dealt; a stream keeps the number it began with."""
INTERVAL_SECONDS = 2.0
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def frame(spark: SparkSession, watch: Watch, request: Request) -> DataFrame:
    """The rows of all tables of a request as captures become complete, each in the column of its table, and summaries:
    a streaming DataFrame."""
    spark.dataSource.register(CaptureStream)
    spark.conf.set(STATE_STORE, ROCKS_DB)
    packets = spark.readStream.format(CaptureStream.name()).options(**watch.options()).load()
    pieces = packets.groupBy(SHARD).transformWithState(Shard(request), PIECE, "Append", "None")
    return pieces.mapInArrow(unpacked, spark_schema(schema_of(request)))


@dataclass(slots=True)
class Settings:
    """What a stream is to do. `keylog`: a file of TLS secrets, read again for each micro-batch; the rest is as for
    `kinspect.spark.read`."""

    folder: str
    out: str
    tables: tuple[str, ...] = DEFAULT_TABLES
    settle: float = SETTLE_SECONDS
    interval: float = INTERVAL_SECONDS
    shards: int = SHARDS
    caps: Caps = field(default_factory=Caps)
    view: View = field(default_factory=View)
    filter: dict[str, Any] = field(default_factory=dict)
    keylog: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    kafka_ports: frozenset[int] = frozenset()
    capture_point: str | None = None

    def request(self) -> Request:
        """Raises KinspectError for what makes no sense."""
        return Request(
            self.tables,
            view=self.view,
            chosen=self.filter,
            names=self.names,
            kafka_ports=self.kafka_ports,
            caps=self.caps,
            run_id=uuid4().hex,
            capture_point=self.capture_point,
            late_secrets=self.keylog is not None,
        )

    def told(self) -> dict[str, Any]:
        """What rows depend on, by the option's name."""
        told = {
            "--payload": self.view.payload,
            "--show-secrets": self.view.show_secrets,
            "--topic-names": sorted(self.names.items()),
            "--decode-as": sorted(self.kafka_ports),
            "--capture-point": self.capture_point,
            "limits": astuple(self.caps),
            "filters": {name: value for name, value in self.filter.items() if value},
        }
        return dict(json.loads(json.dumps(told)))


@dataclass(slots=True)
class Batch:
    """What a micro-batch did: how many captures and packets it took, and rows of each table."""

    number: int
    captures: int
    packets: int
    rows: dict[str, int]


class Stream:
    """Writes the tables of a folder. `tell` is given what a person should know, a line at a time."""

    def __init__(
        self, spark: SparkSession, settings: Settings, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        """Raises KinspectError for what makes no sense, for the folder of another job, and for what a stream of another
        version left."""
        self._settings = settings
        self._tell = tell
        self._request = settings.request()
        check_out(settings.out)
        self._spark = own_session(spark)
        self._spark.conf.set("spark.sql.shuffle.partitions", str(min(settings.shards, 8)))
        self._output = StreamOutput(self._spark, settings.out)
        self._go_on()
        self.errors: list[CaptureError] = []
        """What could not be read."""

    def _go_on(self) -> None:
        told = {"tables": list(self._settings.tables), "shards": self._settings.shards}
        before = self._output.settings
        for name, value in told.items():
            if before and before[name] != value:
                kept = ", ".join(before[name]) if name == "tables" else before[name]
                raise KinspectError(
                    f"{self._settings.out}: was begun with the {name} {kept}; a stream keeps its {name}"
                )
        told |= self._settings.told()
        others = [name for name, value in told.items() if before and before.get(name) != value]
        if others:
            self._tell(
                f"{self._settings.out}: goes on with other {', '.join(others)}; rows that are there stay as they are"
            )
        self._output.keep(told)

    def batches(self, drain: bool = False) -> Generator[Batch | None, None, None]:
        """One micro-batch after the other as captures become complete, None while it waits.

        `drain`: what is there now, for which is waited no longer than it may take to settle; then what is open is
        flushed as at the end of a capture, and that is all. Otherwise it never ends. Raises KinspectError.
        """
        with tempfile.TemporaryDirectory(prefix="kinspect-") as folder:
            yield from self._batches(drain, Path(folder, "told.json"))

    def _batches(self, drain: bool, told: Path) -> Iterator[Batch | None]:
        done: list[Batch] = []
        watch = Watch(
            folder=self._settings.folder,
            settle=self._settings.settle,
            interval=self._settings.interval,
            drain=drain,
            shards=self._settings.shards,
            tries=tries_of(self._spark),
            keylog=self._settings.keylog or "",
            told=str(told),
            caps=self._settings.caps,
        )
        self._output.copy_told(told)
        rows = frame(self._spark, watch, self._request)
        writer = rows.writeStream.option("checkpointLocation", self._output.checkpoint)
        writer = writer.foreachBatch(lambda batch, number: self._write(batch, number, told, done))
        trigger = (
            {"availableNow": True} if drain else {"processingTime": f"{self._settings.interval} seconds"}
        )
        query = writer.trigger(**trigger).start()
        try:
            while query.isActive:
                query.awaitTermination(0.1)
                while done:
                    yield done.pop(0)
                yield None
            query.awaitTermination()
            yield from done
        except StreamingQueryException as error:
            raise raised_in_task(error) or error from error
        finally:
            query.stop()

    def _write(self, batch: DataFrame, number: int, path: Path, done: list[Batch]) -> None:
        if self._output.has(number):
            # Its rows are there; its state may not be.
            batch.write.format("noop").mode("overwrite").save()
            return
        batch.persist(StorageLevel.DISK_ONLY)
        try:
            found = Told(
                [bytes(row[0]) for row in batch.where(f"{SUMMARY} is not null").select(SUMMARY).collect()]
            )
            self._output.begin(number)
            for name in self._settings.tables:
                if found.rows.get(name):
                    self._output.write(name, batch.where(f"{name} is not null").select(f"{name}.*"))
            if found.unread:
                rows = [
                    unread.row(self._request.run_id, self._request.capture_point, None)
                    for unread in found.unread
                ]
                self._output.write(PROBLEMS, self._spark.createDataFrame(rows, spark_schema(PROBLEM_ROWS)))
            self._output.decide(found.number, found.told, added(self._output.sums, found.sums))
            self._output.copy_told(path)
        finally:
            batch.unpersist()
        for unread in found.unread:
            self.errors.append(unread.error)
            self._tell(str(unread.error))
        done.append(Batch(number, found.sums["captures"], found.packets, found.rows))

    def summary(self) -> dict[str, Any]:
        """What all micro-batches add up to, also those of earlier processes."""
        sums = self._output.sums
        counts = Counts(**sums.get("counts", {}))
        line = summary_line([], counts, sums.get("totals", {}), 0)
        return {**line, "captures": sums.get("captures", 0)}


class Told:
    """What the summaries of a micro-batch tell."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.rows: dict[str, int] = {}
        self.told: list[Any] = []
        self.number = 0
        self.unread: list[Unread] = []
        totals: dict[str, Any] = {}
        reports: dict[int, Report] = {}
        for piece in map(orjson.loads, pieces):
            self.number = max(self.number, piece["batch"])
            self.rows, totals = added(self.rows, piece["rows"]), added(totals, piece["totals"])
            self.told += piece["told"]
            # All shards have all reports.
            for told in piece["reports"]:
                report = Report.from_bytes(orjson.dumps(told))
                reports[report.split] = report
        counts = Counts()
        for report in reports.values():
            add_counts(counts, report.counts)
            if report.error is not None:
                error = error_of(report.error)
                self.unread.append(Unread(str(error).partition(": ")[0], error))
        kept = {name: getattr(counts, name) for name in _COUNTED}
        self.packets = counts.packets
        self.sums: dict[str, Any] = {"captures": len(reports), "totals": totals, "counts": kept}


_COUNTED = (
    "packets",
    "bytes",
    "tcp_segments",
    "payload_bytes",
    "undecoded_packets",
    "fragments",
    "overlapping_fragments",
)
