"""The source of a stream: which captures of a folder each micro-batch takes, and their packets as rows.

An offset says what was taken: of the captures that are in the folder how much, and before which all older ones are
taken. So it is bounded, and a micro-batch that is made again takes the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import cbor2
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from kinspect.errors import CaptureError, UnreadableError
from kinspect.model import Caps
from kinspect.spark.chunks import NO_TIME, REPORT, ROWS, Chunk, batches
from kinspect.spark.scan import scanned, tries_left
from kinspect.spark.schemas import spark_schema
from kinspect.spark.splits import Report, Split, shares
from kinspect.spark.storage import shown
from kinspect.spark.streaming.folder import SETTLE_SECONDS, Capture, Folder, first_time

SHARD = "shard"
SHARD_ROWS = pa.schema([(SHARD, pa.int32()), *ROWS])
_BATCH_BYTES = 1024 * 1024 * 1024
"""What a micro-batch takes at most, unless one file has more."""
FILES_KEPT = 10_000
"""So many files of the folder are known to be taken one by one; older ones are all taken."""
_TASK_BYTES = 64 * 1024 * 1024

Offset = dict[str, Any]
_NOTHING = {"batch": 0, "files": [], "numbers": 0, "floor": [], "until": None, "keylog": 0, "drained": False}


@dataclass(frozen=True, slots=True)
class Watch:
    """What a source is to do. `shards`: into how many the islands are dealt, once and for all of a checkpoint;
    `keylog`: a file of TLS secrets, read again for each micro-batch; `told`: one of this machine with what lines told
    in the micro-batch before."""

    folder: str
    settle: float = SETTLE_SECONDS
    interval: float = 2.0
    drain: bool = False
    shards: int = 16
    tries: int = 1
    keylog: str = ""
    told: str = ""
    caps: Caps = field(default_factory=Caps)

    def options(self) -> dict[str, str]:
        """For `CaptureStream`."""
        return {"watch": json.dumps(asdict(self))}

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Watch:
        told = json.loads(options["watch"])
        return cls(**{**told, "caps": Caps(**told["caps"])})


class Taken(NamedTuple):
    """A file of an offset: what it is known by, its path, how many bytes of it were taken, its number in the run."""

    identity: str
    first: int | None
    path: str
    size: int
    number: int

    @property
    def key(self) -> tuple[str, int | None]:
        return self.identity, self.first

    @property
    def begins(self) -> tuple[int, str]:
        return self.first or 0, self.identity


class CaptureStream(DataSource):  # type: ignore[misc]
    """The data source `kinspect-stream`."""

    @classmethod
    def name(cls) -> str:
        return "kinspect-stream"

    def schema(self) -> StructType:
        return spark_schema(SHARD_ROWS)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        return StreamReader(Watch.of(self.options))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans micro-batches on the driver, reads them in tasks."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._folder = Folder(watch.folder, watch.settle)
        self._target: set[tuple[str, int | None]] | None = None

    # ------------------------------------------------------------------ offsets

    def initialOffset(self) -> Offset:  # noqa: N802
        return dict(_NOTHING)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(_BATCH_BYTES)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now, once it had the time to settle, is all."""
        watch, captures = self._watch, self._folder.look()
        waits_until = time.monotonic() + watch.settle + 2 * watch.interval
        while watch.drain and time.monotonic() < waits_until and not all(one.complete for one in captures):
            time.sleep(min(watch.interval, 1.0))
            captures = self._folder.look()
        self._target = {capture.key for capture in captures if capture.complete or not watch.drain}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        captures = [
            capture for capture in self._folder.look() if self._target is None or capture.key in self._target
        ]
        done = {taken.key: taken for taken in _files(start)}
        floor = tuple(start["floor"])
        open_ones = [capture for capture in captures if not _is_done(capture, done, floor)]
        chosen, others = _choose(open_ones, limit.max_bytes if isinstance(limit, ReadMaxBytes) else inf)
        begun = start["numbers"] or chosen
        until = min((capture.begins[0] for capture in others), default=None) if begun else None
        ends = self._watch.drain and self._target is not None and not chosen and not others
        if not chosen and until == start["until"] and (not ends or start["drained"] or not start["numbers"]):
            return start
        numbers = start["numbers"]
        there = {capture.key for capture in captures}
        kept = {key: taken for key, taken in done.items() if key in there or self._target is not None}
        for capture in chosen:
            numbers += capture.key not in done
            number = done[capture.key].number if capture.key in done else numbers
            kept[capture.key] = Taken(*capture.key, capture.path, capture.size, number)
        files = sorted(kept.values(), key=lambda taken: taken.begins)
        gone = files[: max(0, len(files) - FILES_KEPT)]
        return {
            "batch": start["batch"] + 1,
            "files": [list(taken) for taken in files[len(gone) :]],
            "numbers": numbers,
            "floor": list(gone[-1].begins) if gone else start["floor"],
            "until": None if ends else until,
            "keylog": _size_of(self._watch.keylog),
            "drained": ends,
        }

    # ------------------------------------------------------------------ a micro-batch

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """What all shards are told, for one task, and the splits for each of the others."""
        before = {taken.key: taken.size for taken in _files(start)}
        paths = self._paths()
        splits = [
            Split(
                taken.number,
                taken.number,
                paths.get(taken.identity, taken.path),
                taken.size,
                after=before.get(taken.key, 0),
                first_time=taken.first,
            )
            for taken in _files(end)
            if before.get(taken.key) != taken.size
        ]
        control = {
            "batch": end["batch"],
            "until": end["until"],
            "drain": end["drained"],
            "files": {split.number: shown(split.path) for split in splits},
            "secrets": _read(self._watch.keylog, start["keylog"], end["keylog"]),
            "told": _told(self._watch.told, start["batch"]),
        }
        return [*map(InputPartition, (control, *shares(splits, _TASK_BYTES)))]

    def _paths(self) -> dict[str, str]:
        """Where files lie now: they may have been compressed."""
        try:
            return {capture.identity: capture.path for capture in self._folder.look()}
        except CaptureError:
            return {}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        shards = self._watch.shards
        if isinstance(partition.value, dict):
            yield from _to_all(shards, partition.value)
            return
        for split in partition.value:
            report = Report(split.number, split.file)
            for batch in batches(self._rows(split, report)):
                islands = batch.column("island").to_pylist()
                yield _with_shards(batch, [crc32(island) % shards for island in islands])
            yield from _to_all(shards, {"report": report.to_bytes()})

    def _rows(self, split: Split, report: Report) -> Iterator[Chunk]:
        """The rows of a file, and what is told of it. A ring may make it another one meanwhile."""
        if first_time(split.path) == split.first_time:
            yield from scanned(split, self._watch.caps, self._watch.tries, report)
            if first_time(split.path) == split.first_time:
                return
            if tries_left(self._watch.tries):
                raise UnreadableError(f"{shown(split.path)}: was overwritten while it was read")
        gone = CaptureError(f"{shown(split.path)}: was overwritten or removed before it was read")
        report.error = gone.values


def _files(offset: Offset) -> list[Taken]:
    return [Taken(*taken) for taken in offset["files"]]


def _is_done(capture: Capture, done: dict[tuple[str, int | None], Taken], floor: tuple[Any, ...]) -> bool:
    """Whether all of it was taken. One that has grown since was not; one that was compressed was."""
    taken = done.get(capture.key)
    if taken is None:
        return bool(floor) and capture.begins <= floor
    return taken.path != capture.path or capture.size <= taken.size


def _choose(captures: list[Capture], most: float) -> tuple[list[Capture], list[Capture]]:
    """The captures that a micro-batch takes, and those whose packets may come before others'."""
    chosen: list[Capture] = []
    others: list[Capture] = []
    size = 0
    for capture in captures:
        fits = not chosen or size + capture.size <= most
        if capture.complete and fits and not any(other.complete for other in others):
            chosen.append(capture)
            size += capture.size
        elif not capture.error:
            others.append(capture)
    return chosen, others


def _to_all(shards: int, told: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """A row to each shard."""
    row = Chunk(REPORT, b"", NO_TIME, 0, 0, 0, None, cbor2.dumps(told), b"")
    for batch in batches([row]):
        yield from (_with_shards(batch, [shard]) for shard in range(shards))


def _with_shards(batch: pa.RecordBatch, shards: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(shards, pa.int32()), *batch.columns], schema=SHARD_ROWS)


def _size_of(path: str) -> int:
    try:
        return Path(path).stat().st_size if path else 0
    except OSError:
        return 0


def _read(path: str, begin: int, end: int) -> str:
    """The whole lines that a key log has between two of its sizes."""
    if not path or end <= begin:
        return ""
    with Path(path).open("rb") as file:
        file.seek(max(0, begin - 1024))
        return file.read(end - max(0, begin - 1024)).decode("utf-8", "replace")


def _told(path: str, batch: int) -> Any:
    """What lines told in the micro-batch before."""
    if not path or not Path(path).exists():
        return []
    number, told = json.loads(Path(path).read_text())
    return told if number == batch else []
