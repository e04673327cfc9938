"""The tables: their columns, and lines made rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import date
from hashlib import blake2b
from struct import Struct
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from kinspect.errors import CaptureError, KinspectError
from kinspect.kafka import projection
from kinspect.kafka.exchange import Exchange
from kinspect.kafka.lines import ConnectionLine
from kinspect.kafka.meaning import PARTITION_NAMES, TOPIC_ID
from kinspect.kafka.order import Key
from kinspect.kafka.view import SCHEMA_VERSION, View
from kinspect.output.escape import escape_json

EXCHANGES, BATCHES, RECORDS, CONNECTIONS = "exchanges", "batches", "records", "connections"
PROBLEMS = "problems"
COMPLETION, DATE, EXCHANGE_ID = "completion", "date", "exchange_id"

_DAY_NS = 86_400 * 1_000_000_000
_KEY = Struct(">QQQI")
_TIME = pa.timestamp("us", tz="UTC")
_TEXTS, _INTS = pa.list_(pa.string()), pa.list_(pa.int32())
Fields = list[tuple[str, pa.DataType]]


def _both_times(name: str) -> Fields:
    return [(f"{name}_ns", pa.int64()), (name, _TIME)]


_FRAMES = pa.struct(
    [("file", pa.string()), ("first", pa.int64()), ("last", pa.int64()), ("packets", pa.int64())]
)
_MESSAGE: Fields = [
    *_both_times("timestamp"),
    ("duration_ms", pa.float64()),
    ("size", pa.int64()),
    ("frames", _FRAMES),
    ("layout", pa.string()),
    ("complete", pa.bool_()),
    ("inferred", pa.bool_()),
    ("body", pa.string()),
]
_ERROR = pa.struct(
    [("path", pa.string()), ("code", pa.int32()), ("name", pa.string()), ("retriable", pa.bool_())]
)
_PROBLEM = pa.struct(
    [
        ("side", pa.string()),
        ("code", pa.string()),
        ("offset", pa.int64()),
        ("bytes", pa.int64()),
        ("path", pa.string()),
        ("message", pa.string()),
    ]
)
_CLIENT: Fields = [
    ("ip", pa.string()),
    ("port", pa.int32()),
    ("id", pa.string()),
    ("role", pa.string()),
    ("principal", pa.string()),
    ("software_name", pa.string()),
    ("software_version", pa.string()),
]
_BROKER: Fields = [("ip", pa.string()), ("port", pa.int32()), ("node_id", pa.int32())]

_EXCHANGE: Fields = [
    (EXCHANGE_ID, pa.string()),
    *_both_times("timestamp"),
    *_both_times("completed_at"),
    ("client", pa.struct(_CLIENT)),
    ("broker", pa.struct(_BROKER)),
    ("connection_id", pa.string()),
    ("community_id", pa.string()),
    ("tls", pa.bool_()),
    ("kind", pa.string()),
    ("api", pa.string()),
    ("api_key", pa.int32()),
    ("api_version", pa.int32()),
    ("correlation_id", pa.int32()),
    ("outcome", pa.string()),
    ("outcome_reason", pa.string()),
    ("api_candidates", _TEXTS),
    ("latency_ms", pa.float64()),
    ("service_ms", pa.float64()),
    ("in_flight", pa.int32()),
    ("max_wait_ms", pa.int64()),
    ("throttle_time_ms", pa.int64()),
    ("topics", _TEXTS),
    ("topic_ids", _TEXTS),
    ("partitions", _TEXTS),
    ("groups", _TEXTS),
    ("transactional_ids", _TEXTS),
    ("truncated_lists", pa.bool_()),
    ("record_count", pa.int64()),
    ("record_bytes", pa.int64()),
    ("error_codes", _INTS),
    ("error_names", _TEXTS),
    ("error_count", pa.int64()),
    ("problem_count", pa.int64()),
    ("request", pa.struct(_MESSAGE)),
    ("response", pa.struct([*_MESSAGE, ("errors", pa.list_(_ERROR))])),
    ("problems", pa.list_(_PROBLEM)),
]

_COUNTED: Fields = [("packets", pa.int64()), ("bytes", pa.int64())]
_CONNECTION: Fields = [
    *_both_times("timestamp"),
    *_both_times("completed_at"),
    ("client", pa.struct([field for field in _CLIENT if field[0] != "role"] + _COUNTED)),
    ("broker", pa.struct([*_BROKER[:2], *_COUNTED])),
    ("connection_id", pa.string()),
    ("community_id", pa.string()),
    ("kind", pa.string()),
    ("server_name", pa.string()),
    ("alpn", _TEXTS),
    ("tls_version", pa.string()),
    ("tls_cipher_suite", pa.string()),
    ("tls_status", pa.string()),
    ("tls_reason", pa.string()),
    ("handshake_seen", pa.bool_()),
    ("end_reason", pa.string()),
    ("exchanges", pa.int64()),
    ("gaps", pa.int64()),
    ("gap_bytes", pa.int64()),
    ("conflicting_bytes", pa.int64()),
    ("undecoded_bytes", pa.int64()),
]

# Where a batch was, before its own columns.
_AROUND: Fields = [
    (EXCHANGE_ID, pa.string()),
    *_both_times("timestamp"),
    ("client_ip", pa.string()),
    ("client_id", pa.string()),
    ("broker_ip", pa.string()),
    ("broker_port", pa.int32()),
    ("connection_id", pa.string()),
    ("correlation_id", pa.int32()),
    ("api", pa.string()),
    ("api_version", pa.int32()),
    ("side", pa.string()),
    ("topic", pa.string()),
    ("topic_id", pa.string()),
    ("partition", pa.int32()),
    ("path", pa.string()),
    ("batch", pa.int32()),
]
_BATCH: Fields = [
    ("base_offset", pa.int64()),
    ("last_offset", pa.int64()),
    ("magic", pa.int32()),
    ("compression", pa.string()),
    ("count", pa.int64()),
    ("size", pa.int64()),
    ("crc_ok", pa.bool_()),
    ("timestamp_type", pa.string()),
    ("base_timestamp_ms", pa.int64()),
    ("max_timestamp_ms", pa.int64()),
    ("delete_horizon_ms", pa.int64()),
    ("producer_id", pa.int64()),
    ("producer_epoch", pa.int32()),
    ("base_sequence", pa.int32()),
    ("partition_leader_epoch", pa.int32()),
    ("is_transactional", pa.bool_()),
    ("is_control", pa.bool_()),
]
_HEADER = pa.struct([("key", pa.string()), ("value", pa.string()), ("value_encoding", pa.string())])
_RECORD: Fields = [
    ("offset", pa.int64()),
    ("timestamp_ms", pa.int64()),
    ("key", pa.string()),
    ("key_size", pa.int64()),
    ("key_encoding", pa.string()),
    ("key_decoded", pa.string()),
    ("value", pa.string()),
    ("value_size", pa.int64()),
    ("value_encoding", pa.string()),
    ("value_decoded", pa.string()),
    ("headers", pa.list_(_HEADER)),
]
_DECODED = ("key_decoded", "value_decoded")

_RUN: Fields = [
    ("capture_point", pa.string()),
    ("run_id", pa.string()),
    ("schema_version", pa.int32()),
    (DATE, pa.date32()),
    (COMPLETION, pa.binary()),
]
"""What stands at the end of all tables."""

_COLUMNS: dict[str, Fields] = {
    EXCHANGES: _EXCHANGE,
    CONNECTIONS: _CONNECTION,
    BATCHES: [*_AROUND, *_BATCH],
    RECORDS: [*_AROUND, *_RECORD],
}
TABLES = tuple(_COLUMNS)
PROBLEM_ROWS = pa.schema(
    [
        ("file", pa.string()),
        ("error", pa.string()),
        ("unread", pa.bool_()),
        ("message", pa.string()),
        *_RUN[:-1],
    ]
)
"""The table `problems`: an input that was not read to its end, or not at all."""

COMMENTS = {
    EXCHANGE_ID: "Hash of the connection, and the message's direction and place in it; joins tables, stable over runs",
    "timestamp_ns": "First byte of the earliest message present, nanoseconds since the epoch",
    "timestamp": "timestamp_ns in microseconds",
    "completed_at_ns": "The packet that completed it, nanoseconds since the epoch",
    "completed_at": "completed_at_ns in microseconds",
    "connection_id": "Client, broker and time of the first packet of the TCP connection",
    "community_id": "Community ID flow hash, as Zeek and Suricata print it",
    "latency_ms": "Last byte of the request to first byte of the response",
    "service_ms": "As latency_ms, from the response before it if that came later",
    "in_flight": "Requests ahead of this one on its connection",
    "outcome": "answered, unanswered, no_response or orphan",
    "body": "The message's fields as JSON text",
    "path": "Field of the body that holds the record batch",
    "batch": "Number of the batch in that field, from 0",
    "side": "request or response",
    "capture_point": "Where the packets were captured, as given to the run",
    "run_id": "The run that wrote the row",
    "schema_version": "Version of the columns, that of the JSON lines",
    DATE: "Date (UTC) of timestamp_ns",
    COMPLETION: "Sorts rows in the order of completion",
    "unread": "Whether nothing of the input was read",
}
"""What stands beside columns, by name."""

Row = dict[str, Any]
Rows = Callable[[Any], Iterator[Row]]


class Table(NamedTuple):
    """A table as it was asked for. `emit`: the line type it is made of; `rows`: a line to its rows."""

    schema: pa.Schema
    emit: str
    view: View
    rows: Rows


def open_table(name: str, fields: Collection[str] | None, view: View) -> Table:
    """The table `name` with the columns `fields` (None: all; dotted for those of exchanges, as `--fields` is).

    Raises KinspectError for what is no table or no column.
    """
    if name not in _COLUMNS:
        raise KinspectError(f"table cannot be {name!r}; it is one of {', '.join(TABLES)}")
    emit = "exchange"
    rows: Rows = _exchange_rows(view)
    if name == CONNECTIONS:
        emit, rows = "connection", _connection_rows
    elif name != EXCHANGES:
        rows = _batch_rows(view, name == RECORDS)
    return Table(pa.schema(_chosen(name, fields)), emit, view, _with_run(rows))


def _chosen(name: str, fields: Collection[str] | None) -> Fields:
    if fields is None:
        return [*_COLUMNS[name], *_RUN]
    if name == EXCHANGES:
        return [*_pruned(_EXCHANGE, projection.parse(fields)), _RUN[-1]]
    columns = [*_COLUMNS[name], *_RUN]
    known = [column for column, _ in columns]
    for field in fields:
        if field not in known:
            raise KinspectError(f"{name} have no column {field!r}; they have {', '.join(known)}")
    return [(column, kind) for column, kind in columns if column in fields or column == COMPLETION]


def completion(key: Key) -> bytes:
    """The key of a line, to be sorted by as bytes."""
    time, *rest = key
    return _KEY.pack(time + (1 << 63), *rest)


def date_of(nanoseconds: int | None) -> int | None:
    """The date (UTC), in days since the epoch."""
    return None if nanoseconds is None else nanoseconds // _DAY_NS


def _with_run(rows: Rows) -> Rows:
    def all_rows(line: Any) -> Iterator[Row]:
        key = completion(line.key)
        for row in rows(line):
            row[COMPLETION], row[DATE] = key, date_of(row.get("timestamp_ns"))
            row["schema_version"] = SCHEMA_VERSION
            yield row

    return all_rows


def make_batch(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a batch; what a row does not have is null."""
    return pa.RecordBatch.from_arrays(
        [pa.array([row.get(field.name) for row in rows], field.type) for field in schema], schema=schema
    )


class Unread(NamedTuple):
    """An input that was not read to its end, and why."""

    file: str
    error: CaptureError

    def row(self, run_id: str, capture_point: str | None, day: date | None) -> tuple[Any, ...]:
        """Its row of `problems`, which lies with the date `day`."""
        kind = type(self.error).__name__.removesuffix("Error")
        told = self.file, kind, self.error.unread, str(self.error)
        return *told, capture_point, run_id, SCHEMA_VERSION, day


def _pruned(fields: Fields, tree: projection.Tree) -> Iterator[tuple[str, pa.DataType]]:
    for name, kind in fields:
        key = name.removesuffix("_ns")
        if key not in tree:
            continue
        below = tree[key]
        if below and pa.types.is_struct(kind):
            yield name, pa.struct(list(_pruned([(f.name, f.type) for f in kind], below)))
        elif below and pa.types.is_list(kind):
            inner = [(f.name, f.type) for f in kind.value_type]
            yield name, pa.list_(pa.struct(list(_pruned(inner, below))))
        else:
            yield name, kind


def _micros(nanoseconds: int | None) -> int | None:
    return None if nanoseconds is None else nanoseconds // 1000


def _put_time(row: Row, name: str, nanoseconds: int | None) -> None:
    row[f"{name}_ns"] = nanoseconds
    row[name] = _micros(nanoseconds)


def _text(value: Any) -> str | None:
    return None if value is None else escape_json(orjson.dumps(value)).decode()


def exchange_id(exchange: Exchange) -> str:
    """Tells the exchange from all others, in every run over its packets."""
    text = f"{exchange.connection.connection_id}|{exchange.key[3]}"
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _exchange_rows(view: View) -> Callable[[Exchange], Iterator[Row]]:
    def rows(exchange: Exchange) -> Iterator[Row]:
        row = dict(view.exchange(exchange))
        row[EXCHANGE_ID] = exchange_id(exchange)
        _put_time(row, "timestamp", exchange.timestamp)
        _put_time(row, "completed_at", exchange.completed_at)
        for side, message in (("request", exchange.request), ("response", exchange.response)):
            if row.get(side) is not None and message is not None:
                shown = row[side] = dict(row[side])
                _put_time(shown, "timestamp", message.first_time)
                shown["body"] = _text(shown.get("body"))
        yield row

    return rows


def _connection_rows(line: ConnectionLine) -> Iterator[Row]:
    row = line.to_dict()
    _put_time(row, "timestamp", line.start_time)
    _put_time(row, "completed_at", line.end_time)
    yield row


def _batch_rows(view: View, records: bool) -> Callable[[Exchange], Iterator[Row]]:
    def rows(exchange: Exchange) -> Iterator[Row]:
        line = view.exchange(exchange)
        around: Row = {
            EXCHANGE_ID: exchange_id(exchange),
            "client_ip": line["client"]["ip"],
            "client_id": line["client"]["id"],
            "broker_ip": line["broker"]["ip"],
            "broker_port": line["broker"]["port"],
            **{key: line[key] for key in ("connection_id", "correlation_id", "api", "api_version")},
        }
        _put_time(around, "timestamp", exchange.timestamp)
        for side in ("request", "response"):
            if line[side] is not None and line[side]["body"] is not None:
                around["side"] = side
                for where, batch in _batches(line[side]["body"], "", {}):
                    if not records:
                        yield {**around, **where, **batch}
                        continue
                    for record in batch["records"]:
                        shown = {**record, **{name: _text(record.get(name)) for name in _DECODED}}
                        yield {**around, **where, **shown}

    return rows


def _batches(value: Any, path: str, where: Row) -> Iterator[tuple[Row, Row]]:
    """The batches in a body, each with where it stands: path, topic and partition."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                yield from _batches(item, f"{path}[{index}]", where)
    elif isinstance(value, dict):
        if "batches" in value and "partial_bytes" in value:
            for number, batch in enumerate(value["batches"]):
                yield {**where, "path": path, "batch": number}, batch
            return
        where = {**where, **_named(value)}
        for name, item in value.items():
            if isinstance(item, dict | list):
                yield from _batches(item, f"{path}.{name}" if path else name, where)


def _named(struct: Row) -> Row:
    """Topic and partition, as far as a struct of a body names them."""
    named: Row = {}
    topic = next((struct[n] for n in ("topic", "name", "topic_name") if isinstance(struct.get(n), str)), None)
    topic = topic or struct.get("topic_name_resolved")
    if topic is not None:
        named["topic"] = topic
    if isinstance(struct.get(TOPIC_ID), str):
        named["topic_id"] = struct[TOPIC_ID]
    for name in PARTITION_NAMES:
        if isinstance(struct.get(name), int):
            named["partition"] = struct[name]
    return named
