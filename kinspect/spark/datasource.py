"""`spark.read.format("kinspect")`: the tables that one scan over captures gives exactly, `packets` and `segments`.

A Python data source has no shuffle and no state between tasks, and does not learn the selected columns. So fields and
filters are options, and each task knows only its split.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import unpack_from
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kinspect import link
from kinspect.errors import CaptureError, KinspectError
from kinspect.filters.filter import Filter
from kinspect.filters.filterdefinitions import FILTERS, PACKETS, SEGMENTS, InTime
from kinspect.filters.values import EPOCH, errors_about, parse_moment
from kinspect.kafka.wire.endpoints import ip_text
from kinspect.model import Block, Caps, Counts
from kinspect.spark.schemas import spark_schema
from kinspect.spark.splits import SPLIT_BYTES, Split, SplitReport, boundary, plan, read_split
from kinspect.spark.storage import everywhere, expand, length, shown
from kinspect.spark.streaming.streamsource import FORMAT, SHARD_ROWS, WATCH, StreamOptions, StreamReader
from kinspect.tables.arrowcolumns import parse_columns
from kinspect.tcp.flowkeys import address_size, scope

_PLACE = "file text, split int, number long, timestamp time"
COLUMNS: dict[str, list[tuple[str, pa.DataType]]] = {
    PACKETS: parse_columns(f"{_PLACE}, link_type int, captured_length long, wire_length long, data bytes"),
    SEGMENTS: parse_columns(
        f"""{_PLACE}, source_ip text, source_port int, destination_ip text, destination_port int, scope bytes, seq long,
        ack long, flags int, missing long, payload_length long, payload bytes"""
    ),
}
"""`number` counts the packets of a split from 1; with the packets of the file's earlier splits it is the frame number.
`segments` are those of whole packets: only `kinspect.spark.read` reassembles IP fragments."""

SCANNED = [name for name, row in FILTERS.items() if row.needs in COLUMNS]
"""The filters that need no more than what is scanned."""

PacketRow = tuple[Any, ...]


class Options(NamedTuple):
    """The options of a read: `path` (or the arguments of `load`), `table`, `fields`, `splitBytes`, and filters."""

    paths: tuple[str, ...]
    table: str
    fields: tuple[str, ...]
    split_bytes: int
    filters: dict[str, Any]


def parse_options(options: Mapping[str, str]) -> Options:
    """Options of a read, checked. Raises KinspectError for invalid ones."""
    given = {key.lower(): value for key, value in options.items()}
    known = {"path", "paths", "table", "fields", "splitbytes", *SCANNED}
    if unknown := given.keys() - known:
        raise KinspectError(
            f"unknown option {sorted(unknown)[0]!r}; there are path, table, fields, splitBytes, {', '.join(SCANNED)}"
        )
    paths = json.loads(given["paths"]) if "paths" in given else [given["path"]] if "path" in given else []
    if not paths:
        raise KinspectError('which captures? spark.read.format("kinspect").load("captures/*/*.pcap")')
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
    filters = {name: [given[name]] for name in SCANNED if name in given}
    if table == PACKETS and (wrong := [name for name in filters if FILTERS[name].needs == SEGMENTS]):
        raise KinspectError(f"packets cannot be filtered by {wrong[0]}: they are not dissected")
    return Options(tuple(paths), table, fields or tuple(names), int(split_bytes), filters)


class CaptureSource(DataSource):  # type: ignore[misc]
    """The data source `kinspect`: a scan, and for `kinspect.spark.stream` the packets of a watched folder."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        watches = WATCH in self.options
        return spark_schema(SHARD_ROWS if watches else _schema(parse_options(self.options)))

    def reader(self, schema: StructType) -> CaptureReader:
        return CaptureReader(parse_options(self.options))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        if WATCH not in self.options:
            raise KinspectError("a stream of captures is made by kinspect.spark.stream")
        return StreamReader(StreamOptions.of(self.options))


class CaptureReader(DataSourceReader):  # type: ignore[misc]
    """Plans the splits on the driver; each task reads one of them."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [
            InputPartition(split)
            for file, path in enumerate(expand(list(self._options.paths)))
            for split in plan(file, everywhere(path), length(path), self._options.split_bytes)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        schema = _schema(options)
        names = [name for name, _ in COLUMNS[options.table]]
        passes = _passes(options)
        for found in _ROWS_OF[options.table](partition.value):
            rows = [row for row in found if passes(row)]
            if rows:
                columns = dict(zip(names, zip(*rows, strict=True), strict=True))
                arrays = [pa.array(columns[field.name], field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _schema(options: Options) -> pa.Schema:
    kinds = dict(COLUMNS[options.table])
    return pa.schema([(field, kinds[field]) for field in options.fields])


def _blocks(split: Split) -> Iterator[Block]:
    """Blocks of a split. Raises CaptureError for a damaged capture, and for a wrongly guessed packet boundary."""
    report = SplitReport()
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


def _packets(split: Split) -> Iterator[list[PacketRow]]:
    place = shown(split.path), split.number
    for block in _blocks(split):
        packets = zip(
            block.times, block.link_types, block.starts, block.ends, block.wire_lengths, strict=True
        )
        yield [
            (*place, frame, time, _micros(time), kind, end - start, wire, block.data[start:end])
            for frame, (time, kind, start, end, wire) in enumerate(packets, block.first_frame)
        ]


def _segments(split: Split) -> Iterator[list[PacketRow]]:
    place = shown(split.path), split.number
    dissector = link.Dissector(Caps(), Counts())
    for block in _blocks(split):
        rows = []
        for key, time, seq, ack, flags, data, start, end, missing, frame, _ in dissector.segments(block):
            packet = (*place, frame, time, _micros(time), *_ends(key), scope(key))
            rows.append((*packet, seq, ack, flags, missing, end - start + missing, data[start:end]))
        yield rows


def _ends(key: bytes) -> tuple[str, int, str, int]:
    """Source address and port, destination address and port."""
    size = address_size(key)
    source, destination = unpack_from(">HH", key, 2 * size)
    return ip_text(key[:size]), source, ip_text(key[size : 2 * size]), destination


_ROWS_OF: dict[str, Callable[[Split], Iterator[list[PacketRow]]]] = {PACKETS: _packets, SEGMENTS: _segments}


def _passes(options: Options) -> Callable[[PacketRow], bool]:
    """A test of rows by the filters on times and addresses."""
    given = [(name, FILTERS[name], values) for name, values in options.filters.items()]
    ends = Filter(**{name: values for name, row, values in given if row.needs == SEGMENTS})
    times = [(row.passes, _moment(name, *values)) for name, row, values in given if isinstance(row, InTime)]

    def passes(row: PacketRow) -> bool:
        time = row[3]
        if times and (time is None or not all(test(time, asked) for test, asked in times)):
            return False
        return options.table == PACKETS or ends.matches_ends((row[5], row[6], None), (row[7], row[8], None))

    return passes


def _moment(name: str, text: str) -> int:
    with errors_about(name):
        moment = parse_moment(text)
    if moment.base != EPOCH:
        raise KinspectError(
            f"{name}: a scan does not know where the capture starts; give a time with its date"
        )
    return moment.ns
