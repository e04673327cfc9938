"""Columns of the tables: their Arrow types, and comments."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from kinspect.errors import KinspectError
from kinspect.kafka.view import fieldselection
from kinspect.tables.tablenames import BATCHES, CONNECTIONS, EXCHANGES, RECORD_ROWS, RECORDS, TABLES

COMPLETION, DATE, EXCHANGE_ID = "completion", "date", "exchange_id"

ColumnTypes = list[tuple[str, pa.DataType]]

_KINDS: dict[str, pa.DataType] = {
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "int": pa.int32(),
    "ints": pa.list_(pa.int32()),
    "long": pa.int64(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "micros": pa.timestamp("us", tz="UTC"),
    "counts": pa.map_(pa.string(), pa.int64()),
    "double_map": pa.map_(pa.string(), pa.float64()),
    "ints_map": pa.map_(pa.string(), pa.list_(pa.int32())),
    "texts_map": pa.map_(pa.string(), pa.list_(pa.string())),
}


def parse_columns(text: str) -> ColumnTypes:
    """Columns from text like `name kind, …`. A `time` becomes two columns, in nanoseconds and in microseconds."""
    found: ColumnTypes = []
    for column in text.split(","):
        name, kind = column.split()
        if kind == "time":
            found += [(f"{name}_ns", _KINDS["long"]), (name, _KINDS["micros"])]
        else:
            found.append((name, _KINDS[kind]))
    return found


def define_kind(name: str, text: str) -> None:
    """Define a kind of struct column by its columns; that of lists of it, with an `s`; that of maps, with `_map`."""
    _KINDS[name] = pa.struct(parse_columns(text))
    _KINDS[f"{name}s"] = pa.list_(_KINDS[name])
    _KINDS[f"{name}_map"] = pa.map_(pa.string(), _KINDS[name])


_CLIENT = """ip text, port int, id text, {role}principal text, software_name text, software_version text,
    name text, process text"""
_MESSAGE = """timestamp time, duration_ms double, size long, frames frames, layout text, complete bool, inferred bool,
    body text"""

define_kind("frames", "file text, first long, last long, packets long")
define_kind("error", "path text, code int, name text, retriable bool")
define_kind("topic_record", "topic text, count long, bytes long")
define_kind("problem", "side text, code text, offset long, bytes long, path text, message text")
define_kind("icmp_error", "error text, mtu int, count long, timestamp text")
define_kind(
    "unacknowledged",
    "sender text, bytes long, times long, idle_before_ms double, full_sized_acknowledged bool",
)
define_kind("tls_alert", "sender text, level text, description text")
define_kind("client", _CLIENT.format(role="role text, "))
define_kind("broker", "ip text, port int, node_id int, name text")
define_kind("counted_client", _CLIENT.format(role="") + ", packets long, bytes long")
define_kind("counted_broker", "ip text, port int, name text, packets long, bytes long")
define_kind("request", _MESSAGE)
define_kind("response", f"{_MESSAGE}, errors errors")
define_kind("header", "key text, value text, value_encoding text")
define_kind("schema", "id long, guid text, type text, subject text, version long, message text, certain bool")

_EXCHANGE = parse_columns(
    """exchange_id text, timestamp time, completed_at time, client client, broker broker, connection_id text,
    community_id text, tls bool, kind text, api text, api_key int, api_version int, correlation_id int, outcome text,
    outcome_reason text, api_candidates texts, latency_ms double, service_ms double, in_flight int, max_wait_ms long,
    throttle_time_ms long, wait text, topics texts, topic_ids texts, partitions texts, groups texts,
    transactional_ids texts, truncated_lists bool, record_count long, record_bytes long,
    topic_records topic_records, error_codes ints,
    error_names texts, error_count long, problem_count long, request request, response response, problems problems"""
)
_CONNECTION = parse_columns(
    """event_id text, timestamp time, completed_at time, client counted_client, broker counted_broker,
    connection_id text, community_id text, kind text, server_name text, alpn texts, tls_version text,
    tls_cipher_suite text, tls_status text, tls_reason text, handshake_seen bool, end_reason text, exchanges long,
    gaps long, gap_bytes long, conflicting_bytes long, undecoded_bytes long, syns long, refused bool, icmp icmp_errors,
    ended_by text, idle_before_end_ms double, unacknowledged unacknowledged, first_bytes text, answered_with text,
    decode_as bool, tls_handshake text, tls_alerts tls_alerts, frames frames"""
)
# Columns in front of a batch's own: its place.
_AROUND = """exchange_id text, timestamp time, client_ip text, client_id text, broker_ip text, broker_port int,
    connection_id text, correlation_id int, api text, api_version int, side text, topic text, topic_id text,
    partition int, path text, batch int"""
_BATCH = parse_columns(
    f"""{_AROUND}, base_offset long, last_offset long, magic int, compression text, count long, size long, crc_ok bool,
    timestamp_type text, base_timestamp_ms long, max_timestamp_ms long, delete_horizon_ms long, producer_id long,
    producer_epoch int, base_sequence int, partition_leader_epoch int, is_transactional bool, is_control bool"""
)
_RECORD = parse_columns(
    f"""{_AROUND}, offset long, timestamp_ms long, key text, key_size long, key_encoding text, key_decoded text,
    value text, value_size long, value_encoding text, value_decoded text, headers headers, log_offset long,
    record_timestamp micros, timestamp_type text, direction text, control text, group text, producer_id long,
    producer_epoch int, sequence int, transactional_id text, transaction text, codec text, crc_ok bool, error text,
    frame long"""
)
# The keys of `batchrows`, in their order.
_RECORD_ROW = parse_columns(
    """timestamp time, direction text, topic text, topic_id text, partition int, offset long, record_timestamp micros,
    key text, key_encoding text, value text, value_encoding text, headers headers, control text, key_size long,
    value_size long, key_schema schema, value_schema schema, problem text, sequence int, timestamp_type text,
    client_id text, client_ip text, group text, producer_id long, producer_epoch int, transactional_id text,
    transaction text, codec text, crc_ok bool, error text, event_id text, frame long"""
)
RECORD_FACTS = """
    timestamp_type direction control group producer_id producer_epoch sequence transactional_id transaction codec crc_ok
    error frame
""".split()
"""Columns of `records` that are keys of the rows of `kinspect records`."""
# Columns at the end of all tables.
RUN = parse_columns("capture_point text, run_id text, schema_version int, date date, completion bytes")

_COLUMNS: dict[str, ColumnTypes] = {
    EXCHANGES: _EXCHANGE,
    CONNECTIONS: _CONNECTION,
    BATCHES: _BATCH,
    RECORDS: _RECORD,
    RECORD_ROWS: _RECORD_ROW,
}
PROBLEM_ROWS = pa.schema([*parse_columns("file text, error text, unread bool, message text"), *RUN[:-1]])
"""Columns of the table `problems`, a row of which is an input that was not read to its end, or not at all."""

COMMENTS = {
    "event_id": "Id of the connection's line: a hash of connection_id",
    EXCHANGE_ID: "Hash of the connection, and the message's direction and place in it; joins tables, stable over runs",
    "timestamp_ns": "First byte of the earliest message present, nanoseconds since the epoch",
    "timestamp": "timestamp_ns in microseconds",
    "completed_at_ns": "The packet that completed it, nanoseconds since the epoch",
    "completed_at": "completed_at_ns in microseconds",
    "connection_id": "Client, broker and time of the first packet of the TCP connection",
    "community_id": "Community ID flow hash, as Zeek and Suricata print it",
    "latency_ms": "Last byte of the request to first byte of the response",
    "service_ms": "As latency_ms, from the response before it if that came later",
    "wait": "Cause of the wait: broker, long_poll, group_wait, queued, throttled or retransmitted",
    "in_flight": "Requests ahead of this one on its connection",
    "outcome": "answered, unanswered, no_response or orphan",
    "body": "The message's fields as JSON text",
    "path": "Field of the body that holds the record batch",
    "batch": "Number of the batch in that field, from 0",
    "side": "request or response",
    "log_offset": "Offset in the partition: of a produced record from the answer, null without one",
    "transaction": "none, committed or aborted, as far as the exchange itself shows it",
    "capture_point": "Where the packets were captured, as given to the run",
    "run_id": "The run that wrote the row",
    "schema_version": "Version of the columns, that of the JSON lines",
    DATE: "Date (UTC) of timestamp_ns",
    COMPLETION: "Sorts rows in the order of completion",
    "unread": "Whether nothing of the input was read",
}
"""Comments of columns, by name."""


def schema_of(name: str, fields: Collection[str] | None) -> pa.Schema:
    """The columns `fields` of the table `name` (None: all; dotted for those of exchanges, as `--fields` is).

    Raises KinspectError for an unknown table or column.
    """
    if name not in _COLUMNS:
        raise KinspectError(f"table cannot be {name!r}; it is one of {', '.join(TABLES)}")
    every = [*_COLUMNS[name], *RUN]
    if fields is None:
        return pa.schema(every)
    if name == EXCHANGES:
        return pa.schema([*_pruned(_EXCHANGE, fieldselection.parse_paths(fields)), RUN[-1]])
    known = [column for column, _ in every]
    for field in fields:
        if field not in known:
            raise KinspectError(f"{name} have no column {field!r}; they have {', '.join(known)}")
    return pa.schema([column for column in every if column[0] in fields or column[0] == COMPLETION])


def _pruned(fields: ColumnTypes, tree: fieldselection.Tree) -> Iterator[tuple[str, pa.DataType]]:
    for name, kind in fields:
        key = "event_id" if name == EXCHANGE_ID else name.removesuffix("_ns")
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
