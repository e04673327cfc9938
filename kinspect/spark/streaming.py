"""`kinspect pipeline stream`: the captures of a rotating folder to tables, as they become complete.

A batch takes the packets that nothing can come before any more, runs them through the strands that the batch before
left, and puts its rows and what it leaves in place at once (`kinspect.spark.log`). So whatever is killed when, the rows
are those of one run over all files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from pyspark import StorageLevel
from pyspark.sql.functions import collect_list, count

from kinspect import link
from kinspect.errors import CaptureError, KinspectError, UnreadableError
from kinspect.kafka.view import View
from kinspect.model import Caps, Counts
from kinspect.spark import carry, index, tasks
from kinspect.spark.asked import filter_of
from kinspect.spark.carry import CARRY, CARRY_ROWS, FRAMES, NOTHING_WAITS, RUN, STRAND, STRAND_ROWS, Wanted
from kinspect.spark.facts import added
from kinspect.spark.failure import error_of, raised_in_task
from kinspect.spark.folder import SETTLE_SECONDS, Capture, Folder, first_time
from kinspect.spark.folders import into_folders
from kinspect.spark.job import DEFAULT_TABLES, view_of
from kinspect.spark.log import Attempt, Log
from kinspect.spark.pieces import unpack, unpack_facts
from kinspect.spark.portion import File, Portion, is_timeless, take
from kinspect.spark.progress import Done, Progress, from_bytes, to_bytes
from kinspect.spark.schemas import spark_schema
from kinspect.spark.splits import SPLIT_BYTES, Split, plan
from kinspect.spark.storage import check_out, shown
from kinspect.spark.strand import Setting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STRANDS = 16
"""Into how many strands connections are dealt; a stream keeps the number it began with."""
INTERVAL_SECONDS = 2.0

# What a batch takes at most, unless one file has more: packets are ordered on the driver.
_BATCH_BYTES, _BATCH_FILES = 1024 * 1024 * 1024, 1000
_FEWEST = 2
UNREADABLE = UnreadableError.__name__
# How often a file is tried that the system fails to read, before the stream goes on without the rest of it.
_TRIES = 3


@dataclass(slots=True)
class Settings:
    """What a stream is to do. `keylog`: a file of TLS secrets, read again for each batch; the rest is as for
    `kinspect.spark.read`."""

    folder: str
    out: str
    tables: tuple[str, ...] = DEFAULT_TABLES
    settle: float = SETTLE_SECONDS
    interval: float = INTERVAL_SECONDS
    strands: int = STRANDS
    caps: Caps = field(default_factory=Caps)
    view: View = field(default_factory=View)
    filter: dict[str, Any] = field(default_factory=dict)
    keylog: str | None = None
    names: dict[str, str] = field(default_factory=dict)
    kafka_ports: frozenset[int] = frozenset()
    split_bytes: int = SPLIT_BYTES

    def asked(self) -> dict[str, str]:
        """What rows depend on, as text, by the option's name."""
        told = {
            "--payload": self.view.payload,
            "--show-secrets": self.view.show_secrets,
            "--topic-names": sorted(self.names.items()),
            "--decode-as": sorted(self.kafka_ports),
            "limits": astuple(self.caps),
            "filters": {name: value for name, value in self.filter.items() if value},
        }
        return {
            name: orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode() for name, value in told.items()
        }


@dataclass(slots=True)
class Batch:
    """What a batch did: which captures it looked at, how many packets it took, and rows of each table."""

    number: int
    captures: list[str]
    packets: int
    rows: dict[str, int]


class Stream:
    """Makes batches of what is in the folder. `tell` is given what a person should know, a line at a time."""

    def __init__(
        self, spark: SparkSession, settings: Settings, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        """Raises KinspectError for a filter or table that is none, for the folder of another job, for what a stream
        of another version left."""
        self._spark = spark
        self._settings = settings
        self._tell = tell
        views = {name: view_of(name, settings.view) for name in settings.tables}
        self._wanted = Wanted(settings.tables, views, settings.filter)
        filter_of(settings.filter)
        self._schema = spark_schema(self._wanted.schema)
        check_out(settings.out)
        self._folder = Folder(settings.folder, settings.settle)
        self._log = Log(spark, settings.out)
        self._carried = self._read_progress()
        self._progress, _ = self._loaded(Counts())
        self.errors: list[CaptureError] = []
        """What could not be read."""
        self._told: set[str] = set()
        self._noted: dict[str, int] = {}
        self._tried: object = None
        self._again = False
        self._failures = 0
        if self._progress.tables != settings.tables:
            raise KinspectError(
                f"{settings.out}: was begun with the tables {', '.join(self._progress.tables)};"
                " a stream keeps its tables"
            )
        self._asked = settings.asked()
        before = self._progress.asked
        others = [name for name, text in self._asked.items() if before and before.get(name) != text]
        if others:
            self._tell(
                f"{settings.out}: goes on with other {', '.join(others)}; rows that are there stay as they are"
            )

    def make(self, table: str) -> str:
        """Makes a table's folder, if no batch had rows for it yet. Out: its path."""
        return self._log.make(table)

    def summary(self) -> dict[str, Any]:
        """What all batches add up to, also those of earlier processes."""
        progress = self._progress
        return added(added(progress.sums, self._noted), added(progress.ended, progress.totals))

    # ------------------------------------------------------------------ what to do next

    def batches(self, drain: bool = False) -> Iterator[Batch | None]:
        """One batch after the other as captures become complete, None before it waits to look again.

        `drain`: what is there now, for which is waited no longer than it may take to settle; then what is open is
        flushed as at the end of a capture, and that is all. Otherwise it never ends.
        """
        while not drain:
            batch = self._next(self._folder.look())
            yield batch
            if batch is None:
                time.sleep(self._settings.interval)
        waits_until = time.monotonic() + self._settings.settle + 2 * self._settings.interval
        captures = self._folder.look()
        while time.monotonic() < waits_until and not all(map(self._is_settled, captures)):
            yield None
            time.sleep(self._settings.interval)
            captures = self._folder.look()
        for capture in captures:
            if not self._is_settled(capture):
                self._tell(f"{shown(capture.path)}: is still being written and was left alone")
        there = {capture.key for capture in captures}
        while (batch := self._next(captures, waits=False)) is not None or self._again:
            if batch is not None:
                yield batch
                continue
            # One of them is gone, another file now, or could not be read: the others are what they were.
            self._again = False
            yield None
            time.sleep(self._settings.interval)
            captures = [capture for capture in self._folder.look() if capture.key in there]
        if self._progress.is_open:
            yield self._batch([], None, captures, ends_here=True)

    def _is_settled(self, capture: Capture) -> bool:
        return capture.complete or self._is_done(capture)

    def _is_done(self, capture: Capture) -> bool:
        """Whether all of it was taken."""
        done = self._progress.done.get(capture.key)
        grown = done is not None and done.path == capture.path and capture.size > done.size
        return done is not None and done.is_whole and not grown

    def _next(self, captures: list[Capture], waits: bool = True) -> Batch | None:
        """Makes a batch of what is complete and was not taken; None if that is nothing.

        `waits`: packets that a file which is not complete may have earlier ones than wait for it.
        """
        chosen: list[Capture] = []
        others: list[Capture] = []
        size = 0
        for capture in captures:
            if self._is_done(capture):
                continue
            if capture.error:
                if capture.complete:
                    self._complain(CaptureError(capture.error))
                continue
            fits = not chosen or (size + capture.size <= _BATCH_BYTES and len(chosen) < _BATCH_FILES)
            if capture.complete and fits and not any(other.complete for other in others):
                chosen.append(capture)
                size += capture.size
            elif capture.complete or waits:
                others.append(capture)
        until = None
        if others:
            begins = min(capture.begins for capture in others)
            until = begins[0], sum(capture.begins < begins for capture in chosen)
        if not chosen or self._tried == (chosen, until):
            return None
        self._tried = chosen, until
        try:
            batch = self._batch(chosen, until, captures, ends_here=False)
            self._failures = 0
            return batch
        except _OverwrittenError as error:
            self._noted["lost_files"] = self._noted.get("lost_files", 0) + 1
            self._complain(error)
        except UnreadableError as error:
            self._failures += 1
            if self._failures > 2 * _TRIES:
                raise
            told = f"{error}; it is tried again"
            if told not in self._told:
                self._told.add(told)
                self._tell(told)
        self._tried = None
        self._again = True
        return None

    def _complain(self, error: CaptureError) -> None:
        if str(error) not in self._told:
            self._told.add(str(error))
            self.errors.append(error)
            self._tell(str(error))

    # ------------------------------------------------------------------ a batch

    def _batch(
        self,
        chosen: list[Capture],
        until: tuple[int, int] | None,
        captures: list[Capture],
        ends_here: bool,
    ) -> Batch | None:
        """Makes a batch of the packets of `chosen` before `until`; None if there are none yet."""
        counts = Counts()
        progress, dissector = self._loaded(counts)
        gone = progress.lose(captures)
        files, looked, refused = self._looked_at(chosen, progress)
        portion = take(files, looked, until, progress.standing, dissector, counts, self._settings.caps)
        if ends_here:
            dissector.flush()
        elif not _goes_on(files, portion):
            return None
        self._account(progress, gone, chosen, files, portion, counts)
        rows = self._decode(progress, dissector, portion, chosen, ends_here)
        self._noted = {}
        for error in (*refused, *portion.errors):
            self._complain(error)
        for done in gone:
            self._tell(
                f"{shown(done.path)}: is gone, and {done.packets - done.taken:,} of its packets were not taken"
            )
        if portion.late:
            self._tell(
                f"{portion.late:,} packets came later than others that were taken before: decoded behind those"
            )
        names = [shown(capture.path) for capture in chosen]
        return Batch(self._log.batch, names, sum(portion.taken) - sum(file.taken for file in files), rows)

    def _looked_at(
        self, chosen: list[Capture], progress: Progress
    ) -> tuple[list[File], list[tuple[Split, index.Report]], list[CaptureError]]:
        """The files with their numbers, what a look at them told, and which cannot be taken."""
        files = []
        for capture in chosen:
            done = progress.done.get(capture.key)
            if done is None:
                progress.numbers += 1
                progress.files[progress.numbers] = shown(capture.path)
            files.append(File(done.number, done.taken, True) if done else File(progress.numbers, 0, False))
        plans = [
            plan(number, capture.path, self._settings.split_bytes) for number, capture in enumerate(chosen)
        ]
        looked = index.prove(plans, self._examine) if plans else []
        unreadable = [error for _, report in looked if (error := report.error) and error[0] == UNREADABLE]
        if unreadable and self._failures < _TRIES - 1:
            raise error_of(unreadable[0])
        timeless = {split.file for split, report in looked if is_timeless(report)}
        refused = [
            CaptureError(
                f"{shown(chosen[file].path)}: has packets without a time, which a stream cannot put in order"
            )
            for file in sorted(timeless)
        ]
        return files, [pair for pair in looked if pair[0].file not in timeless], refused

    def _examine(self, splits: list[tuple[int, Split]]) -> Iterator[index.Part]:
        task = tasks.examining(splits, self._settings.caps)
        pieces = self._numbers(len(splits)).mapInArrow(task, spark_schema(tasks.PIECE)).collect()
        return (unpack(bytes(row[0])) for row in pieces)

    def _account(
        self,
        progress: Progress,
        gone: list[Done],
        chosen: list[Capture],
        files: list[File],
        portion: Portion,
        counts: Counts,
    ) -> None:
        """Notes what of which file is taken, and adds up."""
        for capture, file, taken, packets in zip(chosen, files, portion.taken, portion.packets, strict=True):
            progress.done[capture.key] = Done(capture.path, capture.size, file.number, taken, packets)
            progress.add(captures=int(not file.begun))
        progress.count(counts)
        progress.add(
            late_packets=portion.late,
            lost_packets=sum(done.packets - done.taken for done in gone),
            **self._noted,
        )
        progress.add_secrets(portion.secrets)
        progress.asked = self._asked

    def _decode(
        self,
        progress: Progress,
        dissector: link.Dissector,
        portion: Portion,
        chosen: list[Capture],
        ends_here: bool,
    ) -> dict[str, int]:
        """Writes a batch, and what it carries, and puts it in place. Out: rows of each table."""
        setting = self._setting(progress, portion)
        dealt = self._dealt(portion, progress.strands)
        decoded: DataFrame | None = None
        attempt = self._log.attempt()
        try:
            task = carry.learning(setting, ends_here)
            pieces = dealt.mapInArrow(task, spark_schema(tasks.PIECE)).collect()
            learned = [carry.learned(bytes(row[0])) for row in pieces]
            progress.learn([unpack_facts(facts) for _, facts in learned])
            setting.known = progress.known
            complete = min((place for place, _ in learned), default=NOTHING_WAITS)
            task = carry.decoding(setting, self._wanted, portion.standing.start, complete, ends_here)
            decoded = dealt.mapInArrow(task, self._schema).persist(StorageLevel.DISK_ONLY)
            rows, places = _looked_through(decoded, self._settings.tables)
            for name in (name for name, count in rows.items() if count):
                _write(attempt, name, decoded)
            progress.standing = portion.standing
            frame = portion.standing.last[1]
            progress.refer({**places, frame: portion.places.place(frame)})
            progress.is_open = not ends_here
            if ends_here:
                progress.flush()
            carried = to_bytes(progress, dissector)
            run = self._spark.createDataFrame(
                [(row[STRAND], row["ordinal"], row["payload"]) for row in carry.carry_pieces(RUN, carried)],
                spark_schema(CARRY_ROWS),
            )
            attempt.write_carry(decoded.where(f"{CARRY} is not null").select(f"{CARRY}.*").unionAll(run))
            _check(chosen)
        except BaseException as error:
            self._log.abandon(attempt)
            ours = raised_in_task(error)
            if isinstance(ours, UnreadableError):
                _check(chosen)
            if ours is not None:
                raise ours from error
            raise
        finally:
            dealt.unpersist()
            if decoded is not None:
                decoded.unpersist()
        # Not abandoned whatever happens in it: once it is decided, who starts again finishes it.
        self._log.decide(attempt)
        self._carried, self._progress = carried, progress
        return rows

    def _setting(self, progress: Progress, portion: Portion) -> Setting:
        settings = self._settings
        keylog = read_keylog(settings.keylog) if settings.keylog else b""
        return Setting(
            caps=settings.caps,
            files=carry.Names(progress.files),
            clock=portion.clock,
            places=portion.places,
            last=portion.standing.last,
            emit=self._wanted.emit,
            names=settings.names,
            kafka_ports=settings.kafka_ports,
            secrets=[text for text in (keylog, *progress.secrets) if text],
        )

    def _dealt(self, portion: Portion, strands: int) -> DataFrame:
        """What is carried of the strands, and their segments, each strand in one task and in order."""
        task = carry.dealing(portion.slices, portion.fragments, strands, self._settings.caps)
        rows = self._numbers(len(portion.slices) + 1).mapInArrow(task, spark_schema(STRAND_ROWS))
        if self._progress.is_open:
            rows = rows.unionByName(self._carry().where(f"{STRAND} >= 0"), allowMissingColumns=True)
        parts = max(_FEWEST, min(strands, 2 * self._spark.sparkContext.defaultParallelism))
        dealt = rows.repartition(parts, STRAND).sortWithinPartitions(STRAND, "ordinal")
        return dealt.persist(StorageLevel.DISK_ONLY)

    def _numbers(self, positions: int) -> DataFrame:
        return self._spark.range(0, positions, 1, max(1, positions))

    # ------------------------------------------------------------------ what is carried

    def _carry(self) -> DataFrame:
        assert self._log.carry is not None
        return self._spark.read.schema(spark_schema(CARRY_ROWS)).parquet(self._log.carry)

    def _read_progress(self) -> bytes | None:
        if self._log.carry is None:
            return None
        rows = self._carry().where(f"{STRAND} = {RUN}").orderBy("ordinal").collect()
        return b"".join(bytes(row["payload"]) for row in rows)

    def _loaded(self, counts: Counts) -> tuple[Progress, link.Dissector]:
        """What the next batch goes on from, and what puts fragments together, counting in `counts`."""
        dissector = link.Dissector(self._settings.caps, counts)
        if self._carried is None:
            return Progress(self._settings.strands, self._settings.tables), dissector
        return from_bytes(self._carried, dissector, self._settings.caps), dissector


class _OverwrittenError(CaptureError):
    """A file is another one now than when it was looked at."""


def _goes_on(files: list[File], portion: Portion) -> bool:
    """Whether packets are taken, or a file is done."""
    return any(
        taken > file.taken or taken == packets
        for file, taken, packets in zip(files, portion.taken, portion.packets, strict=True)
    )


def _check(chosen: list[Capture]) -> None:
    """What was read is what was looked at. Raises _OverwrittenError."""
    for capture in chosen:
        if first_time(capture.path) != capture.first:
            raise _OverwrittenError(f"{shown(capture.path)}: was overwritten or removed while it was read")


def _looked_through(decoded: DataFrame, tables: tuple[str, ...]) -> tuple[dict[str, int], dict[int, int]]:
    """How many rows there are of each table, and the places of all frames that are still referred to."""
    counts = (count(name).alias(name) for name in tables)
    found = decoded.select(*counts, collect_list(FRAMES).alias(FRAMES)).collect()[0]
    places: dict[int, int] = {}
    for piece in found[FRAMES]:
        places |= carry.frame_places(bytes(piece))
    return {name: int(found[name]) for name in tables}, places


def _write(attempt: Attempt, name: str, decoded: DataFrame) -> None:
    """Stages a table."""
    attempt.write(name, *into_folders(decoded.where(f"{name} is not null").select(f"{name}.*")))


def read_keylog(path: str) -> bytes:
    """Raises KinspectError."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KinspectError(f"{path}: {error.strerror or error}") from None
