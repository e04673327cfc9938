"""The source of a stream: the captures of a folder that each micro-batch takes, and their packets as rows.

An offset has the latest captures by their names in the folder, present or not, and how many bytes of each were taken.
For older captures it has the time up to which all are taken. So it is bounded, and a repeated micro-batch is the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any
from zlib import crc32

import cbor2
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from kinspect.capture.source import input_size
from kinspect.errors import CaptureError, UnreadableError
from kinspect.model import Caps
from kinspect.spark.scan import scanned, tries_left
from kinspect.spark.shuffle import NO_TIME, REPORT, ROWS, Chunk, batches
from kinspect.spark.splits import Split, SplitReport, shares
from kinspect.spark.streaming.watchedfolder import SETTLE_SECONDS, Capture, WatchedFolder, look_at

FORMAT, WATCH, SHARD = "kinspect", "watch", "shard"
"""The data source, its option for streams, and the column that groups their rows."""
SHARD_ROWS = pa.schema([(SHARD, pa.int32()), *ROWS])
_BATCH_BYTES = 256 * 1024 * 1024
"""Most bytes of captures in a micro-batch, unless one file has more."""
HELD_NS = 3600 * 1_000_000_000
"""Capture time after which packets that wait for an unfinished file are reported."""
FILES_KEPT = 10_000
"""Most files in an offset; older ones are all taken."""
_KEPT = Capture._fields.index("number") + 1
"""Number of fields of a `Capture` that an offset has."""
_TASK_BYTES = 64 * 1024 * 1024

Offset = dict[str, Any]
_BEGIN: Offset = {"batch": 0, "files": [], "numbers": 0, "floor": [], "until": None, "held_by": ""}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of the source. `settle`, `interval`: seconds; `shards`: their number, fixed by the checkpoint; `keylog`:
    path of a file of TLS secrets, read again for each micro-batch; `told`: path of a file on the driver with the names
    learned in the last micro-batches."""

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
        """The options as Spark passes them to the data source."""
        return {WATCH: json.dumps(asdict(self))}

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamOptions:
        told = json.loads(options[WATCH])
        return cls(**{**told, "caps": Caps(**told["caps"])})


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Plans micro-batches on the driver, and reads them in tasks."""

    def __init__(self, watch: StreamOptions) -> None:
        self._watch = watch
        self._folder = WatchedFolder(watch.folder, watch.settle)
        self._target: set[tuple[str, int | None]] | None = None

    # ------------------------------------------------------------------ offsets

    def initialOffset(self) -> Offset:  # noqa: N802
        return {**_BEGIN, "keylog": 0, "drained": False}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(_BATCH_BYTES)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limits the query to the present files. A drain first gives them time to settle."""
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
        until: list[Any] | None = [*min(capture.begins for capture in others)] if begun and others else None
        ends = self._watch.drain and self._target is not None and not chosen and not others
        if not chosen and until == start["until"] and (not ends or start["drained"] or not start["numbers"]):
            return start
        numbers = start["numbers"]
        for capture in chosen:
            numbers += capture.key not in done
            number = done[capture.key].number if capture.key in done else numbers
            done[capture.key] = capture._replace(number=number)
        files = sorted(done.values(), key=lambda taken: taken.begins)
        latest = max((taken.first or 0 for taken in files), default=0)
        # Files behind one that is still to be taken must stay known.
        many = files[: max(0, len(files) - FILES_KEPT)]
        gone = [taken for taken in many if until is None or [*taken.begins] < until]
        return {
            "batch": start["batch"] + 1,
            "files": [taken[:_KEPT] for taken in files[len(gone) :]],
            "numbers": numbers,
            "floor": list(gone[-1].begins) if gone else start["floor"],
            "until": None if ends else until,
            "held_by": until[1] if until and latest - until[0] > HELD_NS else "",
            "keylog": input_size(self._watch.keylog) or 0,
            "drained": ends,
        }

    # ------------------------------------------------------------------ a micro-batch

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One partition with the message to all shards, and one for each share of the splits."""
        before = {taken.key: taken.size for taken in _files(start)}
        splits = [
            Split(taken.number, taken.number, taken.name, taken.size, after=size or 0, first_time=taken.first)
            for taken in _files(end)
            if (size := before.get(taken.key)) != taken.size
        ]
        control = {
            "batch": end["batch"],
            "until": end["until"] and end["until"][0],
            "errors": self._held_back(start, end),
            "drain": end["drained"],
            "files": {split.number: self._folder.shown(split.path) for split in splits},
            "secrets": _read(self._watch.keylog, start["keylog"], end["keylog"]),
            "told": _told(self._watch.told, start["batch"]),
        }
        return [*map(InputPartition, (control, *shares(splits, _TASK_BYTES)))]

    def _held_back(self, start: Offset, end: Offset) -> list[Any]:
        """The error for packets that wait for an unfinished file, reported once for each file."""
        name = end["held_by"]
        if name in ("", start["held_by"]):
            return []
        text = "is still written, and packets wait for it for more than an hour; let its capture rotate"
        return [CaptureError(f"{self._folder.shown(name)}: {text} (tcpdump -G), or move it away").values]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        shards = self._watch.shards
        if isinstance(partition.value, dict):
            yield from _to_all(shards, partition.value)
            return
        for split in partition.value:
            report = SplitReport(split.number, split.file)
            for batch in batches(self._rows(split, report)):
                islands = batch.column("island").to_pylist()
                yield _with_shards(batch, [crc32(island) % shards for island in islands])
            yield from _to_all(shards, {"report": report.to_bytes()})

    def _rows(self, split: Split, report: SplitReport) -> Iterator[Chunk]:
        """Rows of a file; fills its report. A ring may overwrite the file meanwhile."""
        name = self._folder.shown(split.path)
        try:
            file = self._folder.find(split.path, split.first_time)
            if file is None:
                raise CaptureError(f"{name}: was overwritten or removed before it was read")
            # A file that has got its first packet since is taken under its new key.
            if file.first == split.first_time:
                own = split._replace(path=file.path, size=split.size if file.name == split.path else None)
                yield from scanned(own, self._watch.caps, self._watch.tries, report)
                now = look_at(file)
                if now is not None and file.first not in (None, now.first):
                    raise UnreadableError(f"{name}: was overwritten while it was read")
        except CaptureError as error:
            if isinstance(error, UnreadableError) and tries_left(self._watch.tries):
                raise
            report.error = error.values


def _files(offset: Offset) -> list[Capture]:
    """Files of an offset, as they were when they were taken."""
    return [Capture(*taken) for taken in offset["files"]]


def _is_done(capture: Capture, done: dict[tuple[str, int | None], Capture], floor: tuple[Any, ...]) -> bool:
    """True if the whole file was taken: not if it has grown since, but also if it was compressed since."""
    taken = done.get(capture.key)
    if taken is None:
        return bool(floor) and capture.begins <= floor
    return taken.name != capture.name or capture.size <= taken.size


def _choose(captures: list[Capture], most: float) -> tuple[list[Capture], list[Capture]]:
    """Captures that a micro-batch takes, and those left over that hold back later packets of other files."""
    chosen: list[Capture] = []
    others: list[Capture] = []
    size = 0
    for capture in captures:
        fits = not chosen or size + capture.weight <= most
        if capture.complete and fits and not any(other.complete for other in others):
            chosen.append(capture)
            size += capture.weight
        elif not capture.error:
            others.append(capture)
    return chosen, others


def _to_all(shards: int, told: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """A message to every shard, as rows."""
    row = Chunk(REPORT, b"", NO_TIME, 0, 0, 0, None, cbor2.dumps(told), b"")
    for batch in batches([row]):
        yield from (_with_shards(batch, [shard]) for shard in range(shards))


def _with_shards(batch: pa.RecordBatch, shards: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(shards, pa.int32()), *batch.columns], schema=SHARD_ROWS)


def _read(path: str, begin: int, end: int) -> str:
    """Text of a key log between two of its sizes, and up to 1 KiB before, so that the first new line is whole."""
    if not path or end == begin:
        return ""
    # A file that became smaller was replaced.
    start = max(0, begin - 1024) if end > begin else 0
    with Path(path).open("rb") as file:
        file.seek(start)
        return file.read(end - start).decode("utf-8", "replace")


def _told(path: str, batch: int) -> Any:
    """Topic names and node ids that the shards learned in a micro-batch."""
    return dict(json.loads(Path(path).read_text())).get(batch, []) if path else []
