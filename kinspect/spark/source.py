"""`spark.read.format("kinspect")`: what one scan over captures gives exactly, `packets` and `segments`.

A Python data source has no shuffle and no state between tasks, and is not told which columns are wanted. So fields
and filters are options, and each task knows its split alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kinspect import link
from kinspect.errors import CaptureError, KinspectError
from kinspect.filters import EPOCH, Filter, parse_moment
from kinspect.kafka.flow import ip_text
from kinspect.model import Block, Caps, Counts
from kinspect.spark.schemas import spark_schema
from kinspect.spark.splits import SPLIT_BYTES, Report, Split, boundary, plan, read_split
from kinspect.spark.storage import expand, length, shown
from kinspect.tables.columns import columns
from kinspect.tcp.keys import address_size, scope

PACKETS, SEGMENTS = "packets", "segments"

_PLACE = "file text, split int, number long, timestamp time"
COLUMNS: dict[str, list[tuple[str, pa.DataType]]] = {
    PACKETS: columns(f"{_PLACE}, link_type int, captured_length long, wire_length long, data bytes"),
    SEGMENTS: columns(
        f"""{_PLACE}, source_ip text, source_port int, destination_ip text, destination_port int, scope bytes, seq long,
        ack long, flags int, missing long, payload_length long, payload bytes"""
    ),
}
"""`number` counts the packets of a split from 1: a frame's number is the sum of the packets of the splits of its file
before, and it. `segments` are of whole packets: IP fragments are put together by `kinspect.spark.read` alone."""

_FILTERS = ("host", "port", "since", "until")
_ROWS, _BYTES = 8192, 4 * 1024 * 1024


class Options(NamedTuple):
    """The options of a read: `path` (or the arguments of `load`), `table`, `fields`, `splitBytes`, and filters."""

    paths: tuple[str, ...]
    table: str
    fields: tuple[str, ...]
    split_bytes: int
    filters: dict[str, list[str]]


def parse_options(options: Mapping[str, str]) -> Options:
    """Raises KinspectError for what makes no sense."""
    given = {key.lower(): value for key, value in options.items()}
    known = {"path", "paths", "table", "fields", "splitbytes", *_FILTERS}
    if unknown := given.keys() - known:
        raise KinspectError(
            f"unknown option {sorted(unknown)[0]!r}; there are path, table, fields, splitBytes, {', '.join(_FILTERS)}"
        )
    paths = json.loads(given["paths"]) if "paths" in given else [given["path"]] if "path" in given else []
    if not paths:
        raise KinspectError('which captures? spark.read.format("kinspect").load("captures/*.pcap")')
    table = given.get("table", PACKETS)
    if table not in COLUMNS:
        raise KinspectError(f"table cannot be {table!r}; it is one of {', '.join(COLUMNS)}")
    names = [name for name, _ in COLUMNS[table]]
    fields = tuple(piece.strip() for piece in given.get("fields", "").split(",") if piece.strip())
    for field in fields:
        if field not in names:
            raise KinspectError(f"{table} have no column {field!r}; they have {', '.join(names)}")
    split_bytes = given.get("splitbytes", str(SPLIT_BYTES))
    if not split_bytes.isdecimal():
        raise KinspectError(f"splitBytes cannot be {split_bytes!r}; it is a number of bytes, 0 for no splits")
    filters = {name: [given[name]] for name in _FILTERS if name in given}
    if table == PACKETS and (wrong := filters.keys() - {"since", "until"}):
        raise KinspectError(f"packets cannot be filtered by {sorted(wrong)[0]}: they are not dissected")
    return Options(tuple(paths), table, fields or tuple(names), int(split_bytes), filters)


class CaptureSource(DataSource):  # type: ignore[misc]
    """The data source `kinspect`."""

    @classmethod
    def name(cls) -> str:
        return "kinspect"

    def schema(self) -> StructType:
        return spark_schema(_schema(parse_options(self.options)))

    def reader(self, schema: StructType) -> CaptureReader:
        return CaptureReader(parse_options(self.options))


class Task(InputPartition):  # type: ignore[misc]
    """One split."""

    def __init__(self, split: Split) -> None:
        super().__init__(split.number)
        self.split = split


class CaptureReader(DataSourceReader):  # type: ignore[misc]
    """Plans the splits on the driver, reads them in tasks."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[Task]:
        return [
            Task(split)
            for file, path in enumerate(expand(list(self._options.paths)))
            for split in plan(file, path, length(path), self._options.split_bytes)
        ]

    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:
        options = self._options
        schema = _schema(options)
        chosen = [[name for name, _ in COLUMNS[options.table]].index(field) for field in options.fields]
        rows: list[tuple[Any, ...]] = []
        size = 0
        for row in _passing(_ROWS_OF[options.table](partition.split), options):
            rows.append(row)
            size += len(row[-1])
            if len(rows) >= _ROWS or size >= _BYTES:
                yield _batch(rows, chosen, schema)
                rows, size = [], 0
        if rows:
            yield _batch(rows, chosen, schema)


def _schema(options: Options) -> pa.Schema:
    kinds = dict(COLUMNS[options.table])
    return pa.schema([(field, kinds[field]) for field in options.fields])


def _batch(rows: list[tuple[Any, ...]], chosen: list[int], schema: pa.Schema) -> pa.RecordBatch:
    values = list(zip(*rows, strict=True))
    arrays = [pa.array(values[at], field.type) for at, field in zip(chosen, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _blocks(split: Split) -> Iterator[Block]:
    """The blocks of a split. Raises CaptureError where it shows that the split is wrong, or the capture is."""
    report = Report()
    try:
        yield from read_split(split, report)
    except CaptureError as error:
        if split.end is not None and not report.whole:
            raise _wrong_split(split, "the packet boundary that was guessed there is none") from error
        raise
    if report.next is not None:
        if report.describes:
            raise _wrong_split(split, "the packets are described anew somewhere before")
        if boundary(split) != report.next:
            raise _wrong_split(split, "the packet boundary that was guessed there is none")


def _wrong_split(split: Split, why: str) -> CaptureError:
    return CaptureError(
        f"{shown(split.path)}: cannot be read in parts: at byte {split.end} {why};"
        ' read it whole with .option("splitBytes", 0), or use kinspect.spark.read'
    )


def _micros(time: int | None) -> int | None:
    return None if time is None else time // 1000


def _packets(split: Split) -> Iterator[tuple[Any, ...]]:
    path, number = shown(split.path), split.number
    for block in _blocks(split):
        frame = block.first_frame - 1
        for start, end, time, wire, kind in zip(
            block.starts, block.ends, block.times, block.wire_lengths, block.link_types, strict=True
        ):
            frame += 1
            data = block.data[start:end]
            yield path, number, frame, time, _micros(time), kind, len(data), wire, data


def _segments(split: Split) -> Iterator[tuple[Any, ...]]:
    path, number = shown(split.path), split.number
    dissector = link.Dissector(Caps(), Counts())
    for block in _blocks(split):
        for key, time, seq, ack, flags, data, start, end, missing, frame, _ in dissector.segments(block):
            size = address_size(key)
            ports = key[2 * size : 2 * size + 4]
            yield (
                *(path, number, frame, time, _micros(time)),
                *(ip_text(key[:size]), int.from_bytes(ports[:2])),
                *(ip_text(key[size : 2 * size]), int.from_bytes(ports[2:])),
                *(scope(key), seq, ack, flags, missing, end - start + missing, data[start:end]),
            )


_ROWS_OF: dict[str, Callable[[Split], Iterator[tuple[Any, ...]]]] = {PACKETS: _packets, SEGMENTS: _segments}


def _passing(rows: Iterator[tuple[Any, ...]], options: Options) -> Iterator[tuple[Any, ...]]:
    """The rows that pass the filters on times and addresses."""
    filters = options.filters
    if not filters:
        return rows
    passes = Filter(host=filters.get("host", ()), port=filters.get("port", ()))
    since, until = (_moment(filters, name) for name in ("since", "until"))

    def keep(row: tuple[Any, ...]) -> bool:
        time = row[3]
        if (since is not None or until is not None) and time is None:
            return False
        if (since is not None and time < since) or (until is not None and time >= until):
            return False
        return options.table == PACKETS or passes.matches_ends((row[5], row[6]), (row[7], row[8]))

    return filter(keep, rows)


def _moment(filters: dict[str, list[str]], name: str) -> int | None:
    if name not in filters:
        return None
    moment = parse_moment(filters[name][0], name)
    if moment.base != EPOCH:
        raise KinspectError(
            f"{name}: a scan does not know where the capture starts; give a time with its date"
        )
    return moment.ns
