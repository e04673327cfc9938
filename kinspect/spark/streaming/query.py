"""The stream as a DataFrame, and `kinspect pipeline stream`, which writes its tables."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cbor2
from pyspark.errors import StreamingQueryException

from kinspect.errors import KinspectError, capture_error
from kinspect.model import Counts, added
from kinspect.pipeline import summary_line
from kinspect.spark.batch import with_scan
from kinspect.spark.failure import raised_in_task
from kinspect.spark.schemas import spark_schema
from kinspect.spark.sparksession import own_session, tries_of
from kinspect.spark.storage import check_checkpoint, check_out
from kinspect.spark.streaming.processor import PIECE, Shard, unpacked
from kinspect.spark.streaming.streamoutput import StreamOutput
from kinspect.spark.streaming.streamsource import FORMAT, SHARD, StreamOptions
from kinspect.spark.writepass import TOLD, WRITTEN, files_of, writing
from kinspect.tables.request import Request
from kinspect.tables.rows import UnreadInput
from kinspect.tables.tablenames import PARQUET
from kinspect.tables.taggedrows import SUMMARY, tagged, tagged_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASKS = "spark.sql.shuffle.partitions"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def frame(spark: SparkSession, watch: StreamOptions, request: Request) -> DataFrame:
    """Streaming DataFrame of the rows of all tables of a request, each in the column of its table, and of summaries."""
    schema = tagged_schema(request)
    pieces = _pieces(spark, watch, request)
    return pieces.mapInArrow(lambda found: tagged(unpacked(found), schema), spark_schema(schema))


def _pieces(spark: SparkSession, watch: StreamOptions, request: Request) -> DataFrame:
    """The same as bytes, for `unpacked`."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS_DB)
    packets = spark.readStream.format(FORMAT).options(**watch.options()).load()
    return packets.groupBy(SHARD).transformWithState(Shard(request), PIECE, "Append", "None")


class MicroBatch(NamedTuple):
    """Result of a micro-batch: its number, and the numbers of captures, packets and rows of each table."""

    number: int
    captures: int
    packets: int
    rows: dict[str, int]


class Stream:
    """Writer of the tables of a watched folder. `tell`: takes messages for the user, a line each."""

    def __init__(
        self,
        spark: SparkSession,
        watch: StreamOptions,
        out: str,
        request: Request,
        tell: Callable[[str], None] = lambda _: None,
        table_format: str = PARQUET,
        checkpoint: str | None = None,
    ) -> None:
        """`checkpoint`: see `StreamOutput`. Raises KinspectError for the folder of another job, and for the state of
        another version."""
        self._watch = replace(watch, tries=tries_of(spark))
        self._request = request
        self._tell = tell
        check_out(out, table_format)
        check_checkpoint(out, checkpoint)
        self._spark = own_session(spark)
        if not spark.sparkContext.getConf().contains(TASKS):
            self._spark.conf.set(TASKS, str(min(watch.shards, spark.sparkContext.defaultParallelism)))
        self._output = StreamOutput(self._spark, out, table_format, checkpoint)
        try:
            self._go_on()
        except KinspectError:
            self._output.unlock()
            raise
        self.status = 0
        """Exit status, by the captures that could not be read."""

    def _go_on(self) -> None:
        told = {"tables": list(self._request.tables), "shards": self._watch.shards}
        told["table format"] = self._output.folder.table_format
        # Streams were all of Parquet once.
        before = self._output.settings and {"table format": PARQUET, **self._output.settings}
        for name, value in told.items():
            if before and before[name] != value:
                kept = ", ".join(before[name]) if name == "tables" else before[name]
                text = f"was begun with the {name} {kept}; a stream keeps its {name}"
                raise KinspectError(f"{self._output.folder.path}: {text}")
        told |= self._request.described()
        others = [name for name, value in told.items() if before and before.get(name) != value]
        if others:
            self._tell(
                f"{self._output.folder.path}: goes on with other {', '.join(others)}; rows that are there stay as they"
                " are"
            )
        if told != before:
            self._output.keep(told)

    def batches(self, drain: bool = False) -> Generator[MicroBatch | None, None, None]:
        """Results of micro-batches as captures become complete; None every 0.1 s while it waits.

        Without `drain` it never ends. With it, it waits until the present files have settled, takes them, flushes open
        connections as at the end of a capture, and ends. Raises KinspectError.
        """
        done: list[MicroBatch] = []
        with tempfile.TemporaryDirectory(prefix="kinspect-") as folder:
            told = Path(folder, "told.json")
            self._output.copy_told(told)
            watch = replace(self._watch, drain=drain, told=str(told))
            pieces = _pieces(self._spark, watch, self._request)
            writer = pieces.writeStream.option("checkpointLocation", self._output.checkpoint)
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
                self._output.unlock()

    def _add_up(self) -> Iterator[None]:
        """Computes the aggregates that are missing; closing the generator cancels it."""
        with ThreadPoolExecutor(1) as pool:
            adding = pool.submit(self._output.add_up, self._request)
            try:
                while wait([adding], 0.1).not_done:
                    yield None
                adding.result()
            finally:
                if not adding.done():
                    self._spark.sparkContext.cancelAllJobs()

    def _write(self, pieces: DataFrame, number: int, path: Path, done: list[MicroBatch]) -> None:
        output = self._output
        if output.is_behind:
            output.add_up(self._request)
        output.discard()
        # One task writes all rows of a date into one file.
        made = pieces.repartition(1).mapInArrow(writing(unpacked, output.staging), spark_schema(TOLD))
        told = made.select(SUMMARY, WRITTEN).collect()
        found = BatchSummaries([bytes(row[0]) for row in told if row[0] is not None])
        is_there = output.has(number)  # Spark repeats it if its state was not kept.
        if not is_there:
            output.take(files_of(row[1:] for row in told), found.rows)
            output.write_problems(found.unread, self._request, None)
            output.decide(number, found.number, found.told, added(output.sums, found.sums))
            output.copy_told(path)
        for unread in found.unread:
            self.status = max(self.status, unread.error.status)
            self._tell(str(unread.error))
        if not is_there:
            packets = found.sums["counts"].get("packets", 0)
            done.append(MicroBatch(number, found.sums["captures"], packets, found.rows))

    def summary(self) -> dict[str, Any]:
        """Object of the `summary` line for all micro-batches, also those of earlier processes."""
        sums = self._output.sums
        counts = Counts(**sums.get("counts", {}))
        line = summary_line([], counts, with_scan(sums.get("totals", {}), counts), 0)
        return {**line, "captures": sums.get("captures", 0)}


class BatchSummaries:
    """Sum of the summaries of a micro-batch's shards."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.rows: dict[str, int] = {}
        self.told: list[Any] = []
        self.number = 0
        self.unread: list[UnreadInput] = []
        self.sums: dict[str, Any] = {"captures": 0, "totals": {}, "counts": {}}
        for piece in map(cbor2.loads, pieces):
            self.number = max(self.number, piece["batch"])
            self.rows = added(self.rows, piece["rows"])
            self.sums = added(self.sums, {name: piece[name] for name in self.sums if name in piece})
            self.told.append(piece["told"])
            for values in piece.get("errors", []):
                error = capture_error(*values)
                self.unread.append(UnreadInput(str(error).partition(": ")[0], error))
