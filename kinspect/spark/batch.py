"""Captures on Spark: scanned once into chunks that are shuffled by island, then decoded into tables."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import cbor2
from pyspark.accumulators import AccumulatorParam

from kinspect.errors import CaptureError, KinspectError, capture_error
from kinspect.kafka.names import UNRESOLVED_KEPT, LearnedNames
from kinspect.model import FRAME_BITS, Block, Caps, Counts, added
from kinspect.pipeline import RunEnd, summary_line
from kinspect.spark.chunks import EARLIEST, FRAGMENT, ROWS, SORTED_BY
from kinspect.spark.decode import PIECE, SUMMARY, End, Run, decoding, learning, tagged_schema
from kinspect.spark.merge import Bases
from kinspect.spark.request import Request
from kinspect.spark.scan import assembling, scanning
from kinspect.spark.schemas import spark_schema
from kinspect.spark.session import own_session
from kinspect.spark.splits import LAST_TIMES, SPLIT_BYTES, Report, Split, plan, shares
from kinspect.spark.storage import expand, is_url, length, shown
from kinspect.tables.columns import CONNECTIONS
from kinspect.tables.rows import Unread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITION_BYTES = 64 * 1024 * 1024
_LEAST_BYTES = 2 * 1024 * 1024
"""With less a task is not worth its start."""
_SHARE_BYTES = 4 * _LEAST_BYTES
"""Of small splits one task reads so many."""
_TASKS_A_CORE = 3
_LOCAL = re.compile(r"local(?:\[[^,]*(?:,\s*(\d+))?\])?")
_RESYNCS = 2
"""So often the rest of a capture is cut again where its splits begin; then it is read by one task."""


LastPacket = tuple[int, int, int]
"""When a packet takes its turn, its frame reference, or that of the last one of its capture, and its time."""


class CaptureWarning(UserWarning):
    """A capture, or its end, could not be read; what was before is in the tables."""


@dataclass(slots=True)
class Chain:
    """The splits of a capture that count, each of which begins where the one before ended."""

    reports: list[Report] = field(default_factory=list)
    repair: Split | None = None
    """What has to be read in addition; the chain goes on there."""


class Captures:
    """Captures, scanned and shuffled once, kept on the executors' disks as long as this is; then tables of them.

    Making one runs the scan. Raises KinspectError.
    """

    def __init__(
        self,
        spark: SparkSession,
        paths: Sequence[str],
        *,
        caps: Caps | None = None,
        keylog: bytes = b"",
        split_bytes: int | None = None,
        partitions: int | None = None,
    ) -> None:
        self._spark = spark
        self._scanning = own_session(spark)
        self._caps = caps or Caps()
        self.files = expand(list(paths))
        self._unread: list[tuple[int, Unread]] = []
        sizes = [self._size(file, path) for file, path in enumerate(self.files)]
        self._parts = partitions or _parts(spark, sum(size or 0 for size in sizes))
        self._tries = tries_of(spark)
        step = SPLIT_BYTES if split_bytes is None else split_bytes
        self._splits = [
            split._replace(number=number)
            for number, split in enumerate(
                split
                for file, (path, size) in enumerate(zip(self.files, sizes, strict=True))
                if size is not None
                for split in plan(file, path, size, step)
            )
        ]
        self._reports = spark.sparkContext.accumulator(dict[int, bytes](), _Union())
        self._dealt = self._deal(self._scan(shares(self._splits, _SHARE_BYTES)))
        self._chains = self._settle()
        self._counts = Counts()
        self._run = self._make_run(keylog)
        self._named = False

    # ------------------------------------------------------------------ the scan

    def _size(self, file: int, path: str) -> int | None:
        """The bytes of a capture; None if it is not there."""
        if not is_url(path) and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            raise KinspectError(f"{path}: a pipe or device cannot be read twice; write its packets to a file")
        try:
            return length(path)
        except CaptureError as error:
            error.unread = True
            self._unread.append((file, Unread(shown(path), error)))
            return None

    def _scan(self, shares: list[list[Split]]) -> DataFrame:
        numbers = self._scanning.range(0, len(shares), 1, max(1, len(shares)))
        return numbers.mapInArrow(
            scanning(shares, self._caps, self._tries, self._reports.add), spark_schema(ROWS)
        )

    def _deal(self, rows: DataFrame) -> DataFrame:
        """The rows, an island in one task, in order."""
        dealt = rows.repartition(self._parts, "island").sortWithinPartitions(*SORTED_BY)
        return shuffled_once(self._scanning, dealt)

    def _settle(self) -> list[Chain]:
        """The chains of all captures, once what is missing in them was read."""
        by_file: list[list[Split]] = [[] for _ in self.files]
        for split in self._splits:
            by_file[split.file].append(split)
        for turn in range(len(self._splits) + 1):
            reports = {number: Report.from_bytes(told) for number, told in self._reports.value.items()}
            chains = [chain(splits, reports, turn < _RESYNCS) for splits in by_file]
            repairs = [
                found.repair._replace(number=len(self._splits) + at)
                for at, found in enumerate(found for found in chains if found.repair is not None)
                if found.repair is not None
            ]
            if not repairs:
                return chains
            self._splits += repairs
            for split in repairs:
                by_file[split.file].append(split)
            self._dealt = self._deal(self._dealt.unionAll(self._scan([[split] for split in repairs])))
        raise AssertionError("a repair of each split did not settle them")

    # ------------------------------------------------------------------ what the run shares

    def _make_run(self, keylog: bytes) -> Run:
        bases: dict[int, tuple[int, int]] = {}
        turn = EARLIEST
        secrets = [keylog] if keylog else []
        drops: dict[tuple[int, ...], int] = {}
        days: set[int] = set()
        for found in self._chains:
            sizes = [report.packets for report in found.reports]
            # A capture without times follows the one named before it.
            turn = next((report.first_time for report in found.reports[:1] if report.first_time), turn)
            before = turn
            for report, packets in zip(found.reports, accumulate(sizes, initial=0), strict=False):
                bases[report.split] = packets, before
                before = max(before, report.latest)
            for report in found.reports:
                secrets += report.secrets
                days.update(report.days)
                self._add(report.counts)
                for key, count in report.drops.items():
                    key = (report.file, *key)
                    drops[key] = max(count, drops.get(key, 0))
                self._note(report, any(sizes))
        self._counts.kernel_drops = sum(drops.values()) if drops else None
        self.dates = [(date(1970, 1, 1) + timedelta(days=day)).isoformat() for day in sorted(days)]
        """The dates (UTC) of the captures' packets."""
        if any(report.fragments for found in self._chains for report in found.reports):
            self._assemble(bases)
        starts = [
            report.first_time
            for found in self._chains
            for report in found.reports
            if report.first_time is not None
        ]
        return Run(
            files=[shown(path) for path in self.files],
            bases=bases,
            start=min(starts, default=None),
            end=end_of([found.reports for found in self._chains], self._caps.idle_timeout_ns),
            secrets=secrets,
        )

    def _add(self, counts: Counts) -> None:
        self._counts = Counts(**added(self._counts.to_dict(), counts.to_dict()))

    def _note(self, report: Report, has_packets: bool) -> None:
        if report.error is not None:
            where = f" (counted from byte {report.began} of the file)" if report.began else ""
            kind, text, _ = report.error
            error = capture_error(kind, text + where, not has_packets)
            self._unread.append((report.file, Unread(shown(self.files[report.file]), error)))

    def _assemble(self, bases: Bases) -> None:
        """Puts fragments together; what they were parts of is shuffled in turn."""
        found = self._dealt.where(f"kind = {FRAGMENT}")
        whole = found.mapInArrow(assembling(bases, self._caps, self._reports.add), spark_schema(ROWS))
        self._dealt = self._deal(self._dealt.unionAll(whole))
        for number, told in self._reports.value.items():
            if number < 0:
                self._add(Report.from_bytes(told).counts)

    def _learn(self, request: Request) -> None:
        """Collects what the islands tell each other."""
        if self._named or set(request.tables) <= {CONNECTIONS}:
            return
        self._named = True
        names = LearnedNames()
        for row in self._dealt.mapInArrow(learning(self._run, request), spark_schema(PIECE)).collect():
            names.add(*cbor2.loads(row[0]))
        self._run.names = names.take_new()

    # ------------------------------------------------------------------ tables

    def decoded(self, request: Request) -> DataFrame:
        """The rows of all tables of a request, each in the column of its table, and summaries."""
        request = replace(request, caps=self._caps)
        self._learn(request)
        dealt = shuffled_once(self._spark, self._dealt)
        return dealt.mapInArrow(decoding(self._run, request), spark_schema(tagged_schema(request)))

    @property
    def unread(self) -> list[Unread]:
        """What could not be read at all, or not to its end, in the order of the captures."""
        return [unread for _, unread in sorted(self._unread, key=itemgetter(0))]

    @property
    def errors(self) -> list[CaptureError]:
        """Why."""
        return [unread.error for unread in self.unread]

    def summary(self, decoded: DataFrame) -> tuple[dict[str, Any], dict[str, int]]:
        """The `summary` line's object of what was decoded, and how many rows there are of each table."""
        rows: dict[str, int] = {}
        totals: dict[str, Any] = {}
        unresolved: set[str] = set()
        for (piece,) in decoded.where(f"{SUMMARY} is not null").select(SUMMARY).collect():
            told = cbor2.loads(bytes(piece))
            rows, totals = added(rows, told["rows"]), added(totals, told["totals"])
            unresolved.update(told["unresolved"][: UNRESOLVED_KEPT - len(unresolved)])
        line = summary_line(self._run.files, self._counts, with_scan(totals, self._counts), len(unresolved))
        return line, rows


def shuffled_once(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """The same rows, in the session `spark`: what is shuffled for them is shuffled now, however often they are used.

    Two actions on a DataFrame plan two shuffles; two on the RDD that it became read the files of one. It is shuffled
    now because the session of `frame` executes adaptively.
    """
    from pyspark.sql.classic.dataframe import DataFrame as Classic

    rows = frame._jdf.queryExecution().toRdd()
    return Classic(spark._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False), spark)


class _Union(AccumulatorParam):  # type: ignore[misc]
    """Adds up dicts; of a task that ran twice it has one."""

    def zero(self, value: dict[int, bytes]) -> dict[int, bytes]:
        return {}

    def addInPlace(self, value1: dict[int, bytes], value2: dict[int, bytes]) -> dict[int, bytes]:  # noqa: N802
        value1.update(value2)
        return value1


def chain(splits: list[Split], reports: dict[int, Report], resync: bool) -> Chain:
    """The splits of a capture that follow one another. `resync`: what has to be read again ends where another split
    begins."""
    found = Chain()
    at = {reports[split.number].first: split for split in splits if reports[split.number].first is not None}
    split: Split | None = splits[0] if splits else None
    while split is not None:
        report = reports[split.number]
        found.reports.append(report)
        following = report.next
        if report.error is not None or report.whole or following is None:
            return found
        split = at.get(following)
        if split is None or (report.describes and split.start != following):
            begins = {first for first in at if first is not None and first > following}
            stops = frozenset(begins if resync and not report.describes else ())
            path, size = splits[0].path, splits[0].size
            found.repair = Split(0, report.file, path, size, following, None, report.began, stops)
            return found
    return found


def end_of(files: list[list[Report]], idle_timeout_ns: int) -> End:
    """Time and frame of the last packet of captures, in their order."""
    last: list[LastPacket] = []
    for reports in filter(None, files):
        before, packets = EARLIEST, []
        for report in reports:
            packets += [(max(before, turn), time) for turn, time in report.last]
            before = max(before, report.latest)
        frame = (reports[0].file << FRAME_BITS) + sum(report.packets for report in reports)
        last += [(turn, frame, time) for turn, time in packets[-LAST_TIMES:]]
    return end_of_packets(sorted(last, key=itemgetter(0, 1)), idle_timeout_ns)


def end_of_packets(last: list[LastPacket], idle_timeout_ns: int) -> End:
    """The same of the last packets, as `kinspect.pipeline.RunEnd` has it."""
    end = RunEnd(idle_timeout_ns)
    for _, frame, time in last:
        end.feed(Block(b"", frame, [time], [0], [0], [0], [0]))
    return end.place


def with_scan(totals: dict[str, Any], counts: Counts) -> dict[str, Any]:
    """The islands' totals, with what was counted before islands were dealt."""
    return added(totals, {name: getattr(counts, name) for name in ("duplicate_packets", "caps_hit")})


def _parts(spark: SparkSession, size: int) -> int:
    """How many tasks decode."""
    most = int(spark.sparkContext.defaultParallelism) * _TASKS_A_CORE
    return max(1, min(most, size // _LEAST_BYTES), -(-size // _PARTITION_BYTES))


def tries_of(spark: SparkSession) -> int:
    """How often a task is tried."""
    context = spark.sparkContext
    local = _LOCAL.fullmatch(str(context.master))
    return int((local[1] or 1) if local else context.getConf().get("spark.task.maxFailures", "4"))
