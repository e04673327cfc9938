"""Lines as rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from datetime import date
from functools import lru_cache
from itertools import chain, islice, repeat
from struct import Struct
from typing import Any, NamedTuple

import pyarrow as pa

from kinspect.analysis.recordrows import RecordRows
from kinspect.errors import CaptureError
from kinspect.jsontext import json_text
from kinspect.kafka.bodysummary import summary_of
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine
from kinspect.kafka.view.batchrows import BatchRows, batch_rows
from kinspect.kafka.view.forms import BODY, JSON
from kinspect.kafka.view.placedbatches import placed_batches
from kinspect.kafka.view.redact import BASE64, HEX, UTF_8
from kinspect.kafka.view.view import LINE_KEYS, SCHEMA_VERSION, View, epoch_ns
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.model import NS_PER_DAY, REQUEST, RESPONSE
from kinspect.tables.arrowcolumns import DATE, EXCHANGE_ID, RECORD_FACTS, schema_of
from kinspect.tables.tablenames import BATCHES, CONNECTIONS, EXCHANGES, RECORD_ROWS, RECORDS

_NO_COLUMNS = frozenset("type schema_version host interface timestamp completed_at line_truncated".split())
"""Keys of an exchange's line that its row has from elsewhere, or not at all."""
_OTHERS_KEYS = frozenset(
    "event_id client broker connection_id correlation_id api api_version request response".split()
)
"""Those of which batches and records are made."""
_KEY = Struct(">QQQI")
_DECODED = ("key_decoded", "value_decoded")
_AS_TEXT = frozenset({None, UTF_8, BASE64, HEX})
"""Encodings of payloads that are text; others are JSON."""
_nanoseconds = lru_cache(maxsize=64)(epoch_ns)
ROW = "row"
"""What a table of rows that are no lines is made of."""

TableRow = dict[str, Any]
RowsOfLine = Callable[[Any], Iterable[TableRow]]


class Table(NamedTuple):
    """A requested table. `emit`: the line type that it is made of, or `ROW`; `rows`: turns a line, or such a row, into
    its rows."""

    schema: pa.Schema
    emit: str
    rows: RowsOfLine


class _Lines:
    """The lines of exchanges. The tables that share them ask one after the other for that of the same exchange."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._last: tuple[Exchange, TableRow] | None = None

    def of(self, exchange: Exchange) -> TableRow:
        if self._last is None or self._last[0] is not exchange:
            self._last = exchange, self.view.exchange(exchange)
        return self._last[1]


def open_tables(names: Collection[str], fields: Collection[str] | None, view: View) -> dict[str, Table]:
    """The tables `names`, with `fields` and errors as for `schema_of`. For `records` the view shows records."""
    keys = LINE_KEYS.keys() - _NO_COLUMNS if EXCHANGES in names else _OTHERS_KEYS
    view = replace(view, body=JSON, fields=view.fields or keys)
    lines = _Lines(view)
    with_records = lines if view.records else _Lines(replace(view, records=True))
    made: dict[str, tuple[str, RowsOfLine]] = {
        CONNECTIONS: ("connection", _connection_rows(view)),
        EXCHANGES: ("exchange", _exchange_rows(lines)),
        BATCHES: ("exchange", _batch_rows(lines, False)),
        RECORDS: ("exchange", _batch_rows(with_records, True)),
        RECORD_ROWS: (ROW, _record_row),
    }
    return {name: Table(schema_of(name, fields), *made[name]) for name in names}


def completion(key: LineKey) -> bytes:
    """Bytes that sort like the key of a line."""
    time, *rest = key
    return _KEY.pack(time + (1 << 63), *rest)


class UnreadInput(NamedTuple):
    """An input that was not read to its end, and why."""

    file: str
    error: CaptureError

    def row(self, run_id: str, capture_point: str | None, day: date | None) -> tuple[Any, ...]:
        """Its row of the table `problems`, with the date `day`."""
        kind = type(self.error).__name__.removesuffix("Error")
        told = self.file, kind, self.error.unread, str(self.error)
        return *told, capture_point, run_id, SCHEMA_VERSION, day


def _put_times(row: TableRow, timestamp: int | None, completed_at: int | None) -> None:
    row["timestamp_ns"], row["completed_at_ns"] = timestamp, completed_at
    row["timestamp"], row["completed_at"] = _micros(timestamp), _micros(completed_at)
    row[DATE] = None if timestamp is None else timestamp // NS_PER_DAY


def _micros(nanoseconds: int | None) -> int | None:
    return None if nanoseconds is None else nanoseconds // 1000


def _text(value: Any) -> str | None:
    return None if value is None else json_text(value)


def _exchange_rows(lines: _Lines) -> Callable[[Exchange], Iterable[TableRow]]:
    def rows(exchange: Exchange) -> Iterable[TableRow]:
        row = lines.of(exchange).copy()
        _put_times(row, exchange.timestamp, exchange.completed_at)
        row[EXCHANGE_ID] = row.get("event_id")
        for side, message in ((REQUEST, exchange.request), (RESPONSE, exchange.response)):
            if message is not None and side in row:
                row[side] = shown = row[side].copy()
                shown[BODY] = _text(shown.get(BODY))
                shown["timestamp_ns"], shown["timestamp"] = message.first_time, _micros(message.first_time)
        return (row,)

    return rows


def _connection_rows(view: View) -> Callable[[ConnectionLine], Iterable[TableRow]]:
    def rows(line: ConnectionLine) -> Iterable[TableRow]:
        row = view.other(line.to_dict())
        _put_times(row, line.start_time, line.end_time)
        return (row,)

    return rows


def _batch_rows(lines: _Lines, records: bool) -> Callable[[Exchange], Iterator[TableRow]]:
    def rows(exchange: Exchange) -> Iterator[TableRow]:
        # Most exchanges have none, and lines are dear.
        if not summary_of(exchange).record_fields:
            return
        line = lines.of(exchange)
        around: TableRow = {
            EXCHANGE_ID: line["event_id"],
            "client_ip": line["client"]["ip"],
            "client_id": line["client"]["id"],
            "broker_ip": line["broker"]["ip"],
            "broker_port": line["broker"]["port"],
            **{key: line[key] for key in ("connection_id", "correlation_id", "api", "api_version")},
        }
        _put_times(around, exchange.timestamp, None)
        told = chain.from_iterable(_told(exchange, line)) if records else iter(())
        for side in (REQUEST, RESPONSE):
            around["side"] = side
            for where, batch in placed_batches((line[side] or {}).get(BODY)):
                if not records:
                    yield {**around, **where, **batch}
                    continue
                found = batch["records"]
                own = [*islice(told, len(found))]
                if len(own) < len(found):
                    # They are no topic's.
                    own = [*batch_rows({}, where, batch, repeat(None, len(found)))]
                for record, row in zip(found, own, strict=True):
                    yield {
                        **around,
                        **where,
                        **record,
                        **{name: _text(record.get(name)) for name in _DECODED},
                        **{name: row[name] for name in RECORD_FACTS},
                        "log_offset": row["offset"],
                        "record_timestamp": row["record_timestamp"] and record["timestamp_ms"] * 1000,
                    }

    return rows


def _record_row(row: TableRow) -> Iterable[TableRow]:
    """The row of a record, as `kinspect records` has it."""
    found = {**row, "headers": [_shown(header, "value") for header in row["headers"]]}
    for name in ("key", "value"):
        found = _shown(found, name)
    time, record_time = row["timestamp"], row["record_timestamp"]
    _put_times(found, None if time is None else _nanoseconds(time), None)
    found["record_timestamp"] = None if record_time is None else _micros(_nanoseconds(record_time))
    return (found,)


def _shown(row: TableRow, name: str) -> TableRow:
    """The row or header with a payload that is decoded as JSON text."""
    return row if row[f"{name}_encoding"] in _AS_TEXT else {**row, name: json_text(row[name])}


def _told(exchange: Exchange, line: TableRow) -> Iterator[BatchRows]:
    """The rows that `kinspect records` has of an exchange, as if there was no other."""
    maker = RecordRows(lambda _, __: line, lambda rows: rows, control=True)
    try:
        yield from maker.take(exchange)
        yield from maker.finish()
    finally:
        maker.close()
