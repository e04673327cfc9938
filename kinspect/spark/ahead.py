"""The way of one machine: a few tasks, each of which goes through the captures as `kinspect read` does.

To pair is cheaper than to decode. So a task pairs all that comes before its part of the captures, decodes its part, and
leaves off behind it: nothing moves between tasks, and nothing has to be looked up. The later a part, the smaller it is.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pyarrow as pa
from pyspark.accumulators import AccumulatorParam

from kinspect.capture import Timeline, may_bring_secrets, open_timeline
from kinspect.capture.source import Source
from kinspect.errors import KinspectError, UnreadableError
from kinspect.model import Caps
from kinspect.pipeline import Inspector, Line, fed, one_by_one
from kinspect.spark import failure
from kinspect.spark.asked import Asked, Tell
from kinspect.spark.facts import added
from kinspect.spark.failure import error_of, told_of
from kinspect.spark.index import NS_PER_DAY
from kinspect.spark.schemas import spark_schema
from kinspect.spark.storage import Part, shown
from kinspect.spark.tasks import PIECE, Batches, Rows, Task, numbers, piece, unhurried

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_TASKS = 8
"""With more, nearly all of the time is what each of them has to pair."""
SMALL, LARGE = (200, 0.21), (1475, 0.48)
"""Mean bytes of a packet, and what pairing takes of all the work then: as measured, see docs/scale.md."""
CHANGED = "the captures changed while they were read; run again when nobody writes to them any more"
_NEVER = 1 << 62
_LINE = Struct(">q")
_PLACE = Struct("q")
_NOTED_EACH_S = 0.2


class Walk(NamedTuple):
    """A capture: its position, its packets and their bytes, and what is wrong with it."""

    file: int
    packets: int
    bytes: int
    errors: list[failure.Told]


def pairing_of(packet_bytes: float) -> float:
    """What pairing takes of all the work, by the mean bytes of a packet."""
    (small, least), (large, most) = SMALL, LARGE
    between = min(1.0, max(0.0, (packet_bytes - small) / (large - small)))
    return least + between * (most - least)


def parts_of(size: int, count: int, pairing: float) -> list[int]:
    """Where `count` parts of captures of `size` bytes end, so that tasks that pair up to them and decode them are done
    at about the same time. The last has no end. `pairing`: its share of the work."""
    shares = [(1 - pairing) ** number for number in range(count)]
    return [int(size * sum(shares[:number]) / sum(shares)) for number in range(1, count)] + [_NEVER]


@dataclass(slots=True)
class Told:
    """What a task tells of its part: how many lines there were before and up to its end, days (since the epoch) of
    packets; the last one also the `summary` line's object, of pairing alone."""

    before: int = 0
    lines: int = 0
    days: set[int] = field(default_factory=set)
    summary: dict[str, Any] | None = None


class ByPart(AccumulatorParam):  # type: ignore[misc]
    """What tasks told, by what tells parts apart: one that is done twice counts once."""

    def zero(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return {}

    def addInPlace(self, value1: dict[Any, Any], value2: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802
        return {**value1, **value2}


class Meter:
    """How far the tasks are, in bytes of the captures: those on this machine write it to a file."""

    def __init__(self, ends: Sequence[int], size: int) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="kinspect-")  # noqa: SIM115  # closed by `close`
        self._count = len(ends)
        self._work = sum(min(end, size) for end in ends)
        self.path = self._file.name
        self.bytes_total = size

    @property
    def bytes_read(self) -> int:
        """Of all captures, by the share that is done of what the tasks read together."""
        places = os.pread(self._file.fileno(), self._count * _PLACE.size, 0)
        done: int = sum(place for (place,) in _PLACE.iter_unpack(places))
        return self.bytes_total * done // max(self._work, 1)

    def begin(self) -> None:
        """Nothing is read yet."""
        os.pwrite(self._file.fileno(), bytes(self._count * _PLACE.size), 0)

    def close(self) -> None:
        """Takes the file away."""
        self._file.close()


class _Note:
    """Tells a meter, now and then, how far a task is."""

    def __init__(self, path: str, number: int) -> None:
        self._path = path
        self._number = number
        self._due = 0.0

    def __call__(self, place: int) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _NOTED_EACH_S
        # There is none when nobody looks, and on another machine than the driver's.
        with suppress(OSError), open(self._path, "r+b") as file:
            file.seek(self._number * _PLACE.size)
            file.write(_PLACE.pack(place))


@dataclass(frozen=True, slots=True)
class Captures:
    """What tasks read: files, of each so many bytes, as it may still be written. `damage`: what is known to be wrong
    with them."""

    sizes: Mapping[str, int | None]
    paths: Sequence[str]
    caps: Caps
    damage: frozenset[str] = frozenset()

    def open(self, paths: Sequence[str] | None = None) -> Timeline:
        """All packets, or those of some of the files."""
        return open_timeline(self.paths if paths is None else paths, open_input=self._source)

    def _source(self, path: str) -> Source:
        return Part(path, b"", 0, self.sizes[path])

    def check(self, timeline: Timeline) -> None:
        """Raises UnreadableError if something is wrong that was right."""
        for error in timeline.errors:
            if str(error) not in self.damage:
                raise UnreadableError(str(error))

    def inspector(self, asked: Asked) -> Inspector:
        """What pairs them."""
        files = [shown(path) for path in self.paths]
        inspector = Inspector(
            caps=self.caps,
            names=asked.names,
            kafka_ports=asked.kafka_ports,
            emit=frozenset({asked.table().emit}),
            files=files,
        )
        if asked.keylog:
            inspector.add_secrets(asked.keylog)
        if may_bring_secrets(files):
            inspector.expect_secrets()
        return inspector


class Ahead:
    """Tables of captures that `count` tasks make. Making one runs a Spark job that walks through all packets.
    `watched`: somebody wants to know how far they are."""

    def __init__(
        self,
        spark: SparkSession,
        paths: Sequence[str],
        sizes: Mapping[str, int | None],
        caps: Caps,
        count: int,
        watched: bool,
    ) -> None:
        size = sum(sizes[path] or 0 for path in paths)
        self._spark = spark
        self._captures = Captures(sizes, paths, caps)
        walks = self._walked(count)
        self.errors = [error_of(told) for walk in walks for told in walk.errors]
        packets = sum(walk.packets for walk in walks)
        pairing = pairing_of(sum(walk.bytes for walk in walks) / max(packets, 1))
        self._ends = parts_of(size, count, pairing)
        self._told: Any = None
        self.reading = Meter(self._ends, size) if watched else None

    def table(self, asked: Asked, tell: Tell) -> DataFrame:
        """The rows of a table."""
        self._told = self._spark.sparkContext.accumulator(dict[int, Told](), ByPart())
        meter = None
        if self.reading is not None:
            self.reading.begin()
            meter = self.reading.path
        captures = replace(self._captures, damage=frozenset(map(str, self.errors)))
        task = showing(captures, self._ends, asked, self._told.add, tell, meter)
        return self._numbers(len(self._ends), len(self._ends)).mapInArrow(
            task, spark_schema(asked.table().schema)
        )

    def check(self) -> None:
        """Raises KinspectError if tasks that made rows so far did not read the same."""
        told = [part for _, part in sorted(self._told.value.items())] if self._told is not None else []
        if any(part.lines != following.before for part, following in pairwise(told)):
            raise KinspectError(CHANGED)

    def summary(self, unresolved: int, caps_hit: dict[str, int]) -> dict[str, Any]:
        """The `summary` line's object, once all rows of a table were used. `caps_hit`: while rows were made."""
        summary = self._told.value[len(self._ends) - 1].summary
        hit = added(summary["caps_hit"], caps_hit)
        return {**summary, "unresolved_topic_ids": unresolved, "caps_hit": dict(sorted(hit.items()))}

    @property
    def days(self) -> frozenset[int]:
        """The days of the packets, since the epoch, once all rows of a table were used."""
        return frozenset().union(*(part.days for part in self._told.value.values()))

    def close(self) -> None:
        """Nothing more will be asked for."""
        if self.reading is not None:
            self.reading.close()

    def _walked(self, count: int) -> list[Walk]:
        files = len(self._captures.paths)
        found = self._numbers(files, 4 * count).mapInArrow(walking(self._captures), spark_schema(PIECE))
        return sorted(Walk(*orjson.loads(bytes(row[0]))) for row in found.collect())

    def _numbers(self, end: int, count: int) -> DataFrame:
        return self._spark.range(0, end, 1, max(1, min(count, end)))


def walking(captures: Captures) -> Task:
    """Goes through the captures whose positions come in; gives a `Walk` of each, as JSON."""

    def task(batches: Iterable[pa.RecordBatch]) -> Batches:
        for number in numbers(batches):
            timeline = captures.open([captures.paths[number]])
            size = sum(block.ends[-1] - block.starts[0] for block in timeline)
            yield piece(orjson.dumps([number, timeline.packets, size, [*map(told_of, timeline.errors)]]))

    return unhurried(task)


def showing(
    captures: Captures,
    ends: Sequence[int],
    asked: Asked,
    note_told: Callable[[dict[int, Told]], None],
    tell: Tell,
    meter: str | None,
) -> Task:
    """Gives the rows of the parts whose numbers come in. `meter`: the path of a `Meter`, if there is one."""

    def task(batches: Iterable[pa.RecordBatch]) -> Batches:
        for number in numbers(batches):
            told = Told()
            timeline = captures.open()
            inspector = captures.inspector(asked)
            rows = Rows(asked)
            own = (ends[number - 1] if number else 0), ends[number]
            note = _Note(meter, number) if meter is not None else lambda _: None
            hit = inspector.counts.caps_hit
            shown_hit: dict[str, int] = {}
            for lines in _lines(timeline, inspector, rows, own, told, note):
                before = dict(hit)
                yield from rows.add(lines)
                shown_hit = added(shown_hit, _more(hit, before))
            captures.check(timeline)
            yield from rows.rest()
            if own[1] == _NEVER:
                inspector.counts.kernel_drops = timeline.kernel_drops
                told.summary = {**inspector.summary(), "caps_hit": _more(hit, shown_hit)}
            note_told({number: told})
            tell(number, inspector.names.unresolved, shown_hit)

    return unhurried(task)


def _more(counts: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    """By how much counts are higher than before."""
    return {name: more for name, count in counts.items() if (more := count - before.get(name, 0))}


def _lines(
    timeline: Timeline,
    inspector: Inspector,
    rows: Rows,
    own: tuple[int, int],
    told: Told,
    note: Callable[[int], None],
) -> Iterator[Iterator[tuple[bytes, Line]]]:
    """The lines of the part between the bytes `own`, each with what sorts it."""

    def keyed(lines: Iterable[Line]) -> Iterator[tuple[bytes, Line]]:
        for line in lines:
            told.lines += 1
            yield _LINE.pack(told.lines), line

    begin, end = own
    try:
        for block, lines in fed(inspector, timeline):
            place = timeline.bytes_read - 1
            if place >= end:
                return
            note(place)
            around = *block.times[:1], *block.times[-1:]
            told.days.update(time // NS_PER_DAY for time in around if time is not None)
            rows.begin(block.times)
            if place >= begin:
                yield keyed(one_by_one(lines))
            else:
                told.lines += len(lines)
                told.before = told.lines
        if end == _NEVER:
            yield keyed(inspector.finish())
    finally:
        timeline.close()
