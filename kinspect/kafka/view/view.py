"""The exchange as the JSON line's object: a table of keys, each with the expression of its value.

Work that depends only on the options is done when a `View` is made, work that depends only on a layout when that layout
is first seen.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kinspect.errors import KinspectError
from kinspect.kafka import summary
from kinspect.kafka.view import projection
from kinspect.kafka.view.body import BodyView
from kinspect.kafka.view.recordview import PAYLOADS, RecordView
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import Pair
from kinspect.model import FRAME_BITS, FRAME_MASK, REQUEST, RESPONSE, Problem
from kinspect.protocol import Decoded, schema

if TYPE_CHECKING:
    from kinspect.kafka.wire.message import WireMessage

SCHEMA_VERSION = 1
LISTED = 100
"""Largest number of entries of a list at the top level."""
MEANT = 4
"""Largest number of fields that are named in place of an unknown one."""
INT64_FORMS = ("number", "string")
RECORDS_PATH = ".batches.records."
"""In the dotted path of what a record holds."""

NS_PER_SECOND = 1_000_000_000
NS_PER_MS = 1_000_000

MakeLine = Callable[[Pair], dict[str, Any]]

NO_FIELDS: frozenset[str] = frozenset()
NOT_DECODED = Decoded(None, None, False, ())


def milliseconds(nanoseconds: int | None) -> float | None:
    """Nanoseconds as milliseconds, with the one rounding a float needs."""
    return None if nanoseconds is None else nanoseconds / NS_PER_MS


@lru_cache(maxsize=16)  # an exchange shows most of its times twice
def iso_time(nanoseconds: int | None) -> str | None:
    """Nanoseconds since the epoch as `2026-11-21T06:43:01.123456000Z`; None for a year with more than four digits."""
    if nanoseconds is None:
        return None
    seconds, fraction = divmod(nanoseconds, NS_PER_SECOND)
    text = _second(seconds)
    return None if text is None else f"{text}.{fraction:09d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
    except (ValueError, OverflowError, OSError):
        return None


# ---------------------------------------------------------------------- the table


CLIENT = """{
    "ip": connection.client_ip,
    "port": connection.client_port,
    "id": exchange.client_id,
    "role": exchange.role,
    "principal": exchange.principal,
    "software_name": exchange.software_name,
    "software_version": exchange.software_version,
}"""
BROKER = """{
    "ip": connection.broker_ip,
    "port": connection.broker_port,
    "node_id": exchange.node_id,
}"""

KEYS = {
    "type": '"exchange"',
    "schema_version": "SCHEMA_VERSION",
    "timestamp": "iso_time(exchange.timestamp)",
    "completed_at": "iso_time(exchange.completed_at)",
    "client": CLIENT,
    "broker": BROKER,
    "connection_id": "connection.connection_id",
    "community_id": "connection.community_id",
    "tls": "connection.tls",
    "kind": "exchange.kind",
    "api": "api_name(exchange.api_key) or exchange.api",
    "api_key": "exchange.api_key",
    "api_version": "exchange.api_version",
    "correlation_id": "exchange.correlation_id",
    "outcome": "exchange.outcome",
    "outcome_reason": "exchange.outcome_reason",
    "api_candidates": "[*exchange.api_candidates]",
    "latency_ms": "milliseconds(exchange.latency_ns)",
    "service_ms": "milliseconds(exchange.service_ns)",
    "in_flight": "exchange.in_flight",
    "max_wait_ms": "summary.max_wait_ms",
    "throttle_time_ms": "summary.throttle_time_ms",
    "topics": "summary.topics[:LISTED]",
    "topic_ids": "summary.topic_ids[:LISTED]",
    "partitions": "summary.partitions[:LISTED]",
    "groups": "summary.groups[:LISTED]",
    "transactional_ids": "summary.transactional_ids[:LISTED]",
    "truncated_lists": "summary.longest_list > LISTED or len(problems) > LISTED",
    "record_count": "summary.record_count",
    "record_bytes": "summary.record_bytes",
    "error_codes": "summary.error_codes[:LISTED]",
    "error_names": "summary.error_names[:LISTED]",
    "error_count": "summary.error_count",
    "problem_count": "len(problems)",
    "request": "request_of(exchange)",
    "response": "response_of(exchange)",
    "problems": "[problem.to_dict() for problem in problems[:LISTED]] if problems else []",
}
"""The keys of a line, in their order, and the Python expressions of their values.

A view compiles those it shows into one function: calls are most of a line's cost."""

SHARED = {
    "connection": "exchange.connection",
    "summary": "summary_of(exchange)",
    "problems": "problems_of(exchange)",
}
"""Values that several expressions start from."""

SUMMARY_KEYS = frozenset(key for key, value in KEYS.items() if re.search(r"\b(summary|problems)\b", value))
"""Keys that need both whole bodies."""

MESSAGE_KEYS = ("timestamp", "duration_ms", "size", "frames", "layout", "complete", "inferred", "body")
BODY, ERRORS = "body", "errors"
BODY_KEYS = frozenset({"layout", "complete"})
"""Keys of a message that need its whole body."""

SHAPES: dict[str, tuple[str, ...]] = {
    "client": ("ip", "port", "id", "role", "principal", "software_name", "software_version"),
    "broker": ("ip", "port", "node_id"),
    "request": MESSAGE_KEYS,
    "response": (*MESSAGE_KEYS, ERRORS),
    "problems": ("side", "code", "offset", "bytes", "path", "message"),
}
"""Names below a key that `--fields` accepts; other keys have none."""


# ---------------------------------------------------------------------- the view


@dataclass(frozen=True)
class View:
    """Turns exchanges into JSON-ready dicts under given options. Made once, used for many.

    `records`: record sets with their records; a payload, or a field of records, implies it. `payload`: how keys, values
    and header values are shown (`none`, `text`, `base64`, `hex`). `show_secrets`: nothing is redacted. `int64`:
    `number`, or `string` for tools that round. `fields`: the dotted paths to show, through arrays, or None for all; a
    line then has these alone, each key of the top level at least as null. Raises KinspectError for other values.

    `request_fields` and `response_fields` are the body fields that the view takes: None for the whole body, an empty
    set for none of it.
    """

    records: bool = False
    payload: str = "none"
    show_secrets: bool = False
    int64: str = "number"
    fields: Collection[str] | None = None
    request_fields: frozenset[str] | None = field(init=False, repr=False, compare=False)
    response_fields: frozenset[str] | None = field(init=False, repr=False, compare=False)
    _bodies: BodyView = field(init=False, repr=False, compare=False)
    _keys: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _line: MakeLine | None = field(init=False, repr=False, compare=False)
    _below: tuple[tuple[str, projection.Tree], ...] = field(init=False, repr=False, compare=False)
    _summarises: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _one_of("payload", self.payload, PAYLOADS)
        _one_of("int64", self.int64, INT64_FORMS)
        tree = {} if self.fields is None else projection.parse_paths(self.fields)
        _check(tree)
        int64_text = self.int64 == "string"
        asked = tuple(key for key in KEYS if not tree or key in tree)
        summarises = not SUMMARY_KEYS.isdisjoint(asked) or _asks(tree, RESPONSE, ERRORS)
        asks_for_records = any(RECORDS_PATH in f".{path}." for path in self.fields or ())
        records = self.records or self.payload != "none" or asks_for_records
        settled: dict[str, Any] = {
            "records": records,
            "_bodies": BodyView(
                RecordView(records, self.payload, self.show_secrets, int64_text),
                self.show_secrets,
                int64_text,
            ),
            "_keys": asked,
            "_line": None,
            "_below": tuple((key, below) for key, below in tree.items() if below),
            "_summarises": summarises,
            "request_fields": _needed(tree, REQUEST, summarises),
            "response_fields": _needed(tree, RESPONSE, summarises),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a view as its options, without its compiled parts."""
        return View, (self.records, self.payload, self.show_secrets, self.int64, self.fields)

    def exchange(self, exchange: Pair) -> dict[str, Any]:
        """The exchange's line, ready for JSON. It shares parts of the decoded bodies: do not change it."""
        make = self._line
        if make is None:
            make = self._compiled()
            object.__setattr__(self, "_line", make)
        line = make(exchange)
        for key, below in self._below:
            line[key] = projection.project(line[key], below)
        return line

    def _compiled(self) -> MakeLine:
        """The function that makes a line of the keys shown."""
        entries = "".join(f'"{key}": {KEYS[key]},\n' for key in self._keys)
        shared = [
            f" {name} = {value}\n" for name, value in SHARED.items() if re.search(rf"\b{name}\b", entries)
        ]
        source = f"def line(exchange):\n{''.join(shared)} return {{\n{entries}}}\n"
        names = {
            "SCHEMA_VERSION": SCHEMA_VERSION,
            "LISTED": LISTED,
            "iso_time": iso_time,
            "milliseconds": milliseconds,
            "api_name": schema.api_names().get,
            "summary_of": summary.summary_of,
            "problems_of": self._problems,
            "request_of": self._request,
            "response_of": self._response,
        }
        exec(compile(source, f"<kinspect line of {len(self._keys)} keys>", "exec"), names)
        line: MakeLine = names["line"]  # type: ignore[assignment]
        return line

    def _request(self, exchange: Pair) -> dict[str, Any] | None:
        message = exchange.request
        return None if message is None else self._message(message, exchange, self.request_fields)

    def _response(self, exchange: Pair) -> dict[str, Any] | None:
        message = exchange.response
        if message is None:
            return None
        shown = self._message(message, exchange, self.response_fields)
        shown[ERRORS] = summary.summary_of(exchange).errors if self._summarises else []
        return shown

    def _message(self, message: WireMessage, exchange: Pair, fields: frozenset[str] | None) -> dict[str, Any]:
        """A side of the exchange. Without `fields` to decode, keys that need the body are left out too."""
        body, layout, complete, _ = NOT_DECODED if fields == NO_FIELDS else message.decode(fields)
        label = None
        if layout is not None:
            label = layout.label
            if body is not None:
                body = self._bodies.body(layout, body, message, exchange, self._summarises)
        first, begin, end = message.first_frame, message.first_time, message.last_time
        return {
            "timestamp": iso_time(begin),
            "duration_ms": None if begin is None or end is None else (end - begin) / NS_PER_MS,
            "size": message.size,
            "frames": {
                "file": exchange.connection.files[first >> FRAME_BITS],
                "first": first & FRAME_MASK,
                "last": message.last_frame & FRAME_MASK,
                "packets": message.packets,
            },
            "layout": label,
            # No byte is missing, and all were read if the layout is known.
            "complete": message.complete and (complete or message.api_key is None),
            "inferred": message.inferred,
            "body": body,
        }

    def _problems(self, exchange: Pair) -> list[Problem]:
        return (
            summary.problems(exchange, with_records=True) if self.records else summary.problems_of(exchange)
        )


def _one_of(option: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        raise KinspectError(f"{option} cannot be {value!r}; it is one of {', '.join(choices)}")


def _check(tree: projection.Tree) -> None:
    """Raise KinspectError for a requested path with a name that lines do not have."""
    for key, below in tree.items():
        if key not in KEYS:
            raise KinspectError(f"unknown field {key!r}: {_nearest(key)}")
        for name in below:
            if name not in SHAPES.get(key, ()):
                known = f"it has {', '.join(SHAPES[key])}" if key in SHAPES else "there is nothing below it"
                raise KinspectError(f"unknown field '{key}.{name}'; {known}")
            if name == BODY and below[name]:
                # It reads the whole schema table.
                from kinspect.kafka.view import fieldnames

                fieldnames.check_names(below[name], f"{key}.{name}")


def _nearest(name: str) -> str:
    """Hint for an unknown name: the fields that may be meant, and where all are documented."""
    known: dict[str, list[str]] = {key: [key] for key in KEYS}
    for key, names in SHAPES.items():
        for below in names:
            known.setdefault(below, []).append(f"{key}.{below}")
    close = [path for word in difflib.get_close_matches(name.lower(), known, n=3) for path in known[word]]
    meant = f"did you mean {', '.join(close[:MEANT])}? " if close else ""
    return f"{meant}see docs/output.md, or any line without --fields"


def _asks(tree: projection.Tree, side: str, *keys: str) -> bool:
    """True if one of a side's keys is requested."""
    if tree and side not in tree:
        return False
    below = tree.get(side)
    return not below or not below.keys().isdisjoint(keys)


def _needed(tree: projection.Tree, side: str, summarises: bool) -> frozenset[str] | None:
    """The body fields a side has to be decoded for, None for all."""
    if summarises or _asks(tree, side, *BODY_KEYS):
        return None
    body = tree.get(side, {}).get(BODY)
    if body is None:
        return NO_FIELDS
    return projection.body_paths(body) if body else None


DEFAULT = View()
