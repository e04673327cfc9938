"""The stream as a DataFrame, and `kinspect pipeline stream`, which writes its tables."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cbor2
from pyspark import StorageLevel
from pyspark.errors import StreamingQueryException

from kinspect.errors import CaptureError, KinspectError, capture_error
from kinspect.model import Counts, added
from kinspect.pipeline import summary_line
from kinspect.spark.batch import tries_of, with_scan
from kinspect.spark.decode import SUMMARY, tagged_schema
from kinspect.spark.failure import raised_in_task
from kinspect.spark.request import Request
from kinspect.spark.schemas import spark_schema
from kinspect.spark.session import own_session
from kinspect.spark.splits import Report
from kinspect.spark.storage import check_out
from kinspect.spark.streaming.output import StreamOutput
from kinspect.spark.streaming.processor import PIECE, Shard, unpacked
from kinspect.spark.streaming.source import SHARD, CaptureStream, Watch
from kinspect.tables.rows import Unread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def frame(spark: SparkSession, watch: Watch, request: Request) -> DataFrame:
    """The rows of all tables of a request as captures become complete, each in the column of its table, and summaries:
    a streaming DataFrame."""
    spark.dataSource.register(CaptureStream)
    spark.conf.set(STATE_STORE, ROCKS_DB)
    packets = spark.readStream.format(CaptureStream.name()).options(**watch.options()).load()
    pieces = packets.groupBy(SHARD).transformWithState(Shard(request), PIECE, "Append", "None")
    return pieces.mapInArrow(unpacked, spark_schema(tagged_schema(request)))


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
        self,
        spark: SparkSession,
        watch: Watch,
        out: str,
        request: Request,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Raises KinspectError for the folder of another job, and for what a stream of another version left."""
        self._watch = replace(watch, tries=tries_of(spark))
        self._out = out
        self._request = request
        self._tell = tell
        check_out(out)
        self._spark = own_session(spark)
        self._spark.conf.set("spark.sql.shuffle.partitions", str(min(watch.shards, 8)))
        self._output = StreamOutput(self._spark, out)
        self._go_on()
        self.errors: list[CaptureError] = []
        """What could not be read."""

    def _go_on(self) -> None:
        told = {"tables": list(self._request.tables), "shards": self._watch.shards}
        before = self._output.settings
        for name, value in told.items():
            if before and before[name] != value:
                kept = ", ".join(before[name]) if name == "tables" else before[name]
                raise KinspectError(
                    f"{self._out}: was begun with the {name} {kept}; a stream keeps its {name}"
                )
        told |= self._request.described()
        others = [name for name, value in told.items() if before and before.get(name) != value]
        if others:
            self._tell(
                f"{self._out}: goes on with other {', '.join(others)}; rows that are there stay as they are"
            )
        if told != before:
            self._output.keep(told)

    def batches(self, drain: bool = False) -> Generator[Batch | None, None, None]:
        """One micro-batch after the other as captures become complete, None while it waits.

        `drain`: what is there now, for which is waited no longer than it may take to settle; then what is open is
        flushed as at the end of a capture, and that is all. Otherwise it never ends. Raises KinspectError.
        """
        done: list[Batch] = []
        with tempfile.TemporaryDirectory(prefix="kinspect-") as folder:
            told = Path(folder, "told.json")
            self._output.copy_told(told)
            watch = replace(self._watch, drain=drain, told=str(told))
            rows = frame(self._spark, watch, self._request)
            writer = rows.writeStream.option("checkpointLocation", self._output.checkpoint)
            writer = writer.foreachBatch(lambda batch, number: self._write(batch, number, told, done))
            trigger = {"availableNow": True} if drain else {"processingTime": f"{watch.interval} seconds"}
            query = writer.trigger(**trigger).start()
            try:
                while query.isActive:
                    query.awaitTermination(0.1)
                    while done:
                        yield done.pop(0)
                    yield None
                query.awaitTermination()
                yield from done
                if drain:
                    yield from self._add_up()
            except StreamingQueryException as error:
                raise raised_in_task(error) or error from error
            finally:
                query.stop()

    def _add_up(self) -> Iterator[None]:
        """Adds up what is left; it can be broken off."""
        with ThreadPoolExecutor(1) as pool:
            adding = pool.submit(self._output.add_up, self._request)
            try:
                while wait([adding], 0.1).not_done:
                    yield None
                adding.result()
            finally:
                if not adding.done():
                    self._spark.sparkContext.cancelAllJobs()

    def _write(self, batch: DataFrame, number: int, path: Path, done: list[Batch]) -> None:
        if self._output.has(number):
            # Its rows are there; its state may not be.
            batch.write.format("noop").mode("overwrite").save()
            return
        batch.persist(StorageLevel.DISK_ONLY)
        output = self._output
        try:
            found = Told(
                [bytes(row[0]) for row in batch.where(f"{SUMMARY} is not null").select(SUMMARY).collect()]
            )
            output.begin()
            for name in self._request.tables:
                if found.rows.get(name):
                    output.write_table(name, batch)
            output.write_problems(found.unread, self._request, None)
            output.decide(number, found.number, found.told, added(output.sums, found.sums))
            output.copy_told(path)
        finally:
            batch.unpersist()
        if output.is_behind:
            output.add_up(self._request)
        for unread in found.unread:
            self.errors.append(unread.error)
            self._tell(str(unread.error))
        done.append(Batch(number, found.sums["captures"], found.packets, found.rows))

    def summary(self) -> dict[str, Any]:
        """What all micro-batches add up to, also those of earlier processes."""
        sums = self._output.sums
        counts = Counts(**sums.get("counts", {}))
        line = summary_line([], counts, with_scan(sums.get("totals", {}), counts), 0)
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
        for piece in map(cbor2.loads, pieces):
            self.number = max(self.number, piece["batch"])
            self.rows, totals = added(self.rows, piece["rows"]), added(totals, piece["totals"])
            self.told.append(piece["told"])
            # All shards have all reports.
            for told in piece["reports"]:
                report = Report.from_bytes(told)
                reports[report.split] = report
        counts: dict[str, Any] = {}
        for report in reports.values():
            counts = added(counts, report.counts.to_dict())
            if report.error is not None:
                error = capture_error(*report.error)
                self.unread.append(Unread(str(error).partition(": ")[0], error))
        self.packets: int = counts.get("packets", 0)
        self.sums: dict[str, Any] = {"captures": len(reports), "totals": totals, "counts": counts}
