"""Captures on Spark: scanned once into chunks that are shuffled by island, then decoded into tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import reduce
from itertools import accumulate
from math import isqrt
from operator import itemgetter
from typing import Any

import cbor2
import pyarrow as pa
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession

from kinspect.answers.counter import AnswerCounter
from kinspect.errors import CaptureError, KinspectError, capture_error
from kinspect.kafka.wire.learnednames import UNRESOLVED_KEPT, LearnedNames
from kinspect.model import FRAME_BITS, Caps, Counts, added
from kinspect.pipeline import EndPlace, RunEnd, summary_line
from kinspect.spark.chunkmerge import Bases
from kinspect.spark.decodepass import PIECE, NamingTask, RunContext, Task, decoding, learning
from kinspect.spark.jvm import shuffled_once
from kinspect.spark.scan import assembling, scanning
from kinspect.spark.schemas import spark_schema
from kinspect.spark.shuffle import EARLIEST, FRAGMENT, ROWS, SORTED_BY
from kinspect.spark.sparksession import own_session, tries_of
from kinspect.spark.splits import LAST_TIMES, SPLIT_BYTES, Split, SplitReport, plan, shares
from kinspect.spark.storage import Target, everywhere, expand, is_url, length, shown
from kinspect.spark.writepass import TOLD, writing
from kinspect.tables.request import Request
from kinspect.tables.rows import UnreadInput
from kinspect.tables.tablenames import CONNECTIONS
from kinspect.tables.taggedrows import COUNTED, PART, SUMMARY, UNKNOWN, merging, tagged, tagged_schema

_MOST_TASKS = 20_000
"""Most splits, and most decoding tasks. The driver keeps a bit for each pair: 50 MB at most."""
_LEAST_BYTES = 2 * 1024 * 1024
"""Fewest bytes for which a task is worth its start."""
_SHARE_BYTES = 4 * _LEAST_BYTES
"""Bytes of small splits that one task reads."""
_TASKS_A_CORE = 3
_RESYNCS = 2
"""Attempts to read a misfit of splits up to the next one that fits; then one task reads the rest of the capture."""

LastPacket = tuple[int, int, int]
"""Merge time of a packet, its frame reference (or that of the last packet of its capture), and its time."""


class CaptureWarning(UserWarning):
    """A capture was not read, or not to its end. The packets before that are in the tables."""


class Captures:
    """Captures, scanned and shuffled once, and tables of them. The executors' disks keep the packets meanwhile.

    The constructor runs the scan. Raises KinspectError.
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
        self._unread: list[tuple[int, UnreadInput]] = []
        sizes = [self._size(file, path) for file, path in enumerate(self.files)]
        total = sum(size or 0 for size in sizes)
        share = share_of(total)
        self._parts = partitions or _parts(spark, total, share)
        self._tries = tries_of(spark)
        step = share if split_bytes is None else split_bytes
        files = zip(enumerate(self.files), sizes, strict=True)
        known = ((file, path, size) for (file, path), size in files if size is not None)
        self._splits: list[Split] = []
        self._number(
            split for file, path, size in known for split in plan(file, everywhere(path), size, step)
        )
        self._reports = spark.sparkContext.accumulator(dict[int, bytes](), _Union())
        self._dealt = self._deal(self._scan(shares(self._splits, _SHARE_BYTES)))
        self._chains = self._settle()
        self._run = self._make_run(keylog)
        self._named = False

    # ------------------------------------------------------------------ the scan

    def _size(self, file: int, path: str) -> int | None:
        """Size of a capture in bytes; None if it is missing."""
        if not is_url(path) and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
            raise KinspectError(f"{path}: a pipe or device cannot be read twice; write its packets to a file")
        try:
            return length(path)
        except CaptureError as error:
            error.unread = True
            self._unread.append((file, UnreadInput(shown(path), error)))
            return None

    def _scan(self, shares: list[list[Split]]) -> DataFrame:
        numbers = self._scanning.range(0, len(shares), 1, max(1, len(shares)))
        scan = scanning(shares, self._caps, self._tries, self._reports.add)
        return numbers.mapInArrow(scan, spark_schema(ROWS))

    def _deal(self, rows: DataFrame) -> DataFrame:
        """The rows in order, all of an island in one task."""
        dealt = rows.repartition(self._parts, "island").sortWithinPartitions(*SORTED_BY)
        return shuffled_once(self._scanning, dealt)

    def _number(self, splits: Iterable[Split]) -> list[Split]:
        """Adds splits to the run, numbered after the existing ones."""
        numbered = [split._replace(number=number) for number, split in enumerate(splits, len(self._splits))]
        self._splits += numbered
        return numbered

    def _settle(self) -> list[list[SplitReport]]:
        """Reports of the valid splits of each capture, after the parts missing between them were read."""
        for turn in range(len(self._splits) + 1):
            by_file: list[list[Split]] = [[] for _ in self.files]
            for split in self._splits:
                by_file[split.file].append(split)
            self._told = dict(self._reports.value)
            reports = {number: SplitReport.from_bytes(told) for number, told in self._told.items()}
            chains = [chain(splits, reports, turn < _RESYNCS) for splits in by_file]
            repairs = self._number(repair for _, repair in chains if repair is not None)
            if not repairs:
                return [found for found, _ in chains]
            self._dealt = self._deal(self._dealt.unionAll(self._scan([[split] for split in repairs])))
        raise AssertionError("a repair of each split did not settle them")

    # ------------------------------------------------------------------ what the run shares

    def _make_run(self, keylog: bytes) -> RunContext:
        bases: dict[int, tuple[int, int]] = {}
        turn = EARLIEST
        drops: dict[tuple[int, ...], int] = {}
        for found in self._chains:
            sizes = [report.packets for report in found]
            # A capture without times follows the previous one.
            turn = next((report.first_time for report in found[:1] if report.first_time), turn)
            before = turn
            for report, packets in zip(found, accumulate(sizes, initial=0), strict=False):
                bases[report.split] = packets, before
                before = max(before, report.latest)
                for key, count in report.drops.items():
                    key = (report.file, *key)
                    drops[key] = max(count, drops.get(key, 0))
                self._note(report, any(sizes))
        reports = [report for found in self._chains for report in found]
        days = {day for report in reports for day in report.days}
        untimed = any(report.untimed for report in reports)
        self.dates = [*(date(1970, 1, 1) + timedelta(days=day) for day in sorted(days)), *[None] * untimed]
        """Dates (UTC) of the captures' packets, ascending; last None if some packets have no time."""
        assembled = self._assemble(bases) if any(report.fragments for report in reports) else []
        counts = (report.counts.to_dict() for report in reports + assembled)
        self._counts = Counts(**reduce(added, counts, Counts().to_dict()))
        starts = [report.first_time for report in reports if report.first_time is not None]
        self._counts.kernel_drops = sum(drops.values()) if drops else None
        return RunContext(
            files=[shown(path) for path in self.files],
            bases=bases,
            start=min(starts, default=None),
            end=end_of(self._chains, self._caps.idle_timeout_ns),
            secrets=[keylog] * bool(keylog) + [text for report in reports for text in report.secrets],
        )

    def _note(self, report: SplitReport, has_packets: bool) -> None:
        if report.error is not None:
            where = f" (counted from byte {report.began} of the file)" if report.began else ""
            kind, text, _ = report.error
            error = capture_error(kind, text + where, not has_packets)
            self._unread.append((report.file, UnreadInput(shown(self.files[report.file]), error)))

    def _assemble(self, bases: Bases) -> list[SplitReport]:
        """Reassembles IP fragments, and shuffles the segments in them. Returns the reports of the tasks."""
        found = self._dealt.where(f"kind = {FRAGMENT}")
        whole = found.mapInArrow(assembling(bases, self._caps, self._reports.add), spark_schema(ROWS))
        self._dealt = self._deal(self._dealt.unionAll(whole))
        told = {number: told for number, told in self._reports.value.items() if number < 0}
        self._told |= told
        return [*map(SplitReport.from_bytes, told.values())]

    def _learn(self, request: Request) -> None:
        """Collects the topic names and node ids that islands report, for all other islands."""
        if self._named or not (request.answers or set(request.tables) - {CONNECTIONS}):
            return
        self._named = True
        names = LearnedNames()
        for row in self._dealt.mapInArrow(learning(self._run, request), spark_schema(PIECE)).collect():
            names.add(*cbor2.loads(row[0]))
        self._run.names = names.take_new()

    # ------------------------------------------------------------------ tables

    def decoded(self, request: Request) -> DataFrame:
        """Rows of all tables of a request, each in the column of its table, and summaries."""
        make, schema = self._decoding(request), tagged_schema(request)
        return self._decode(lambda found: tagged(make(found), schema), schema)

    def written(self, request: Request, target: Target) -> DataFrame:
        """Rows of all tables of a request as files in a folder, by the tasks that decode, which tell of them."""
        return self._decode(writing(self._decoding(request), target), TOLD)

    def _decoding(self, request: Request) -> NamingTask:
        request = replace(request, caps=self._caps)
        self._learn(request)
        return decoding(self._run, request)

    def _decode(self, task: Task, schema: pa.Schema) -> DataFrame:
        return shuffled_once(self._spark, self._dealt).mapInArrow(task, spark_schema(schema))

    def answers(self, decoded: DataFrame, request: Request, summary: dict[str, Any]) -> list[dict[str, Any]]:
        """Objects of a request's answers, in their order, of the decoded rows. `summary`: as `summary` gives it."""
        parts, wholes = decoded.where(f"{COUNTED} is not null").select(f"{COUNTED}.*"), request.open_answers()
        # Few parts come to a task, and one of each answer to the driver.
        for count, column in ((isqrt(self._parts), "state"), (len(wholes), "answer")):
            parts = parts.repartition(count, column).mapInArrow(merging, spark_schema(PART))
        names = request.known_names()
        names.add(*self._run.names)
        for name, state in parts.collect():
            wholes[name].merge(wholes[name].from_bytes(bytes(state)))
        counted, passes = AnswerCounter(wholes), request.filter()
        counted.serve(passes)
        span = self._run.start, self._run.end[0]
        return counted.objects(summary, names, span, passes.options, ended=[*map(str, self.errors)])

    def check(self) -> None:
        """Raises KinspectError if a capture had changed when Spark read it again to replace a lost executor's packets:
        the rows would be a mixture of both versions."""
        for number, told in self._reports.value.items():
            if told != self._told.get(number):
                path = shown(self.files[SplitReport.from_bytes(told).file])
                text = "had changed when Spark read it again for a lost executor; run again"
                raise KinspectError(f"{path}: {text}")

    @property
    def unread(self) -> list[UnreadInput]:
        """Captures that were not read, or not to their end, in the order of the captures."""
        return [unread for _, unread in sorted(self._unread, key=itemgetter(0))]

    @property
    def errors(self) -> list[CaptureError]:
        """Errors of the captures in `unread`."""
        return [unread.error for unread in self.unread]

    def summary(self, decoded: DataFrame) -> tuple[dict[str, Any], dict[str, int]]:
        """Object of the `summary` line for the decoded rows, and what filters did not know, by option; and
        the number of rows of each table."""
        rows: dict[str, int] = {}
        totals: dict[str, Any] = {}
        unresolved: set[str] = set()
        for (piece,) in decoded.where(f"{SUMMARY} is not null").select(SUMMARY).collect():
            told = cbor2.loads(bytes(piece))
            rows, totals = added(rows, told["rows"]), added(totals, told["totals"])
            unresolved.update(told["unresolved"][: UNRESOLVED_KEPT - len(unresolved)])
        line = summary_line(self._run.files, self._counts, with_scan(totals, self._counts), len(unresolved))
        return line | {UNKNOWN: totals.get(UNKNOWN, {})}, rows


class _Union(AccumulatorParam):  # type: ignore[misc]
    """Union of dicts; the entry of a task that ran twice counts once."""

    def zero(self, value: dict[int, bytes]) -> dict[int, bytes]:
        return {}

    def addInPlace(self, value1: dict[int, bytes], value2: dict[int, bytes]) -> dict[int, bytes]:  # noqa: N802
        value1.update(value2)
        return value1


def chain(
    splits: list[Split], reports: dict[int, SplitReport], resync: bool
) -> tuple[list[SplitReport], Split | None]:
    """Reports of the valid splits of a capture, each of which begins where the one before ended; then the split that is
    to be read where they end too early, else None. `resync`: that split ends where another one begins."""
    found: list[SplitReport] = []
    firsts = ((reports[split.number].first, split) for split in splits)
    at = {first: split for first, split in firsts if first is not None}
    split: Split | None = splits[0] if splits else None
    while split is not None:
        report = reports[split.number]
        found.append(report)
        following = report.next
        if report.error is not None or report.whole or following is None:
            break
        split = at.get(following)
        if split is None or (report.describes and split.start != following):
            stops = frozenset(first for first in at if resync and not report.describes and first > following)
            path, size = splits[0].path, splits[0].size
            return found, Split(0, report.file, path, size, following, None, report.began, stops)
    return found, None


def end_of(files: list[list[SplitReport]], idle_timeout_ns: int) -> EndPlace:
    """Time and frame of the run's last packet. `files`: reports of the valid splits of each capture, in order."""
    last: list[LastPacket] = []
    for reports in filter(None, files):
        before, packets = EARLIEST, []
        for report in reports:
            packets += [(max(before, turn), time) for turn, time in report.last]
            before = max(before, report.latest)
        frame = (reports[0].file << FRAME_BITS) + sum(report.packets for report in reports)
        last += [(turn, frame, time) for turn, time in packets[-LAST_TIMES:]]
    return end_of_packets(sorted(last, key=itemgetter(0, 1)), idle_timeout_ns)


def end_of_packets(last: list[LastPacket], idle_timeout_ns: int) -> EndPlace:
    """Time and frame of the run's last packet, given its last packets (see `kinspect.pipeline.RunEnd`)."""
    end = RunEnd(idle_timeout_ns)
    for _, frame, time in last:
        end.pass_to([time], frame)
    return end.place


def with_scan(totals: dict[str, Any], counts: Counts) -> dict[str, Any]:
    """Totals of the islands plus the counts of the scan."""
    return added(totals, {name: getattr(counts, name) for name in ("duplicate_packets", "caps_hit")})


def share_of(size: int) -> int:
    """Bytes that a task scans, and that a task decodes, for captures of `size` bytes in all."""
    return max(SPLIT_BYTES, -(-size // _MOST_TASKS))


def _parts(spark: SparkSession, size: int, share: int) -> int:
    """Number of tasks that decode."""
    most = int(spark.sparkContext.defaultParallelism) * _TASKS_A_CORE
    return max(1, min(most, size // _LEAST_BYTES), -(-size // share))
