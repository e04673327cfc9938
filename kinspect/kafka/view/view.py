"""The exchange as the JSON line's object.

Work that depends only on the options is done when a `View` is made, work that depends only on a layout when that layout
is first seen.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from kinspect.errors import KinspectError
from kinspect.kafka.summary import problems as all_problems
from kinspect.kafka.summary import problems_of, summary_of
from kinspect.kafka.view import fieldnames, forms, projection
from kinspect.kafka.view.body import BodyView
from kinspect.kafka.view.forms import BODY, BODY_FORMS, Form, Line
from kinspect.kafka.view.recordview import PAYLOADS, RecordView
from kinspect.kafka.wire.eventid import exchange_id
from kinspect.kafka.wire.message import NOTHING_DECODED, WireMessage
from kinspect.kafka.wire.pair import Pair
from kinspect.kafka.wire.wait import wait
from kinspect.model import FRAME_BITS, FRAME_MASK, NS_PER_MS, NS_PER_SECOND, REQUEST, RESPONSE, Problem

SCHEMA_VERSION: Final = 2
LISTED: Final = 100
"""Largest number of entries of a list at the top level."""
ENDS_KEPT: Final = 4096
"""Clients and brokers whose part of a line is kept for their next lines: a kilobyte each, and their texts."""
ENDS_TEXT: Final = 512
"""Characters of texts of those that are kept. Who claims a longer name has its part made for each line."""
MEANT: Final = 4
"""Largest number of fields that are named in place of an unknown one."""
INT64_FORMS: Final = ("number", "string")
RECORDS_PATH: Final = ".batches.records."
"""In the dotted path of what a record holds."""

Shown = dict[str, Any]
MakeLine = Callable[[Pair, "View"], Shown]

NO_FIELDS: Final[frozenset[str]] = frozenset()


def milliseconds(nanoseconds: int | None) -> float | None:
    """Nanoseconds as milliseconds, with the one rounding a float needs."""
    return None if nanoseconds is None else nanoseconds / NS_PER_MS


# A message's times are mostly its exchange's.
@lru_cache(maxsize=4)
def iso_time(nanoseconds: int | None) -> str | None:
    """Nanoseconds since the epoch as `2026-11-21T06:43:01.123456000Z`; None for a year with more than four digits."""
    if nanoseconds is None:
        return None
    text = _second(nanoseconds // NS_PER_SECOND)
    # One digit more, to be cut off, is four times as fast as a format with leading zeros where this is compiled.
    digits = str(nanoseconds % NS_PER_SECOND + NS_PER_SECOND)
    return None if text is None else f"{text}.{digits[1:]}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
    except (ValueError, OverflowError, OSError):
        return None


# ---------------------------------------------------------------------- the line


def line(exchange: Pair, view: View) -> dict[str, Any]:
    """The line with all its keys. Lines with fewer are made from this source: variables, and keys of `shown`."""
    connection = exchange.connection
    client, broker = view.ends(exchange)
    summary = summary_of(exchange)
    problems = view.problems(exchange)
    latency = exchange.latency_ns
    service = exchange.service_ns
    shown = view.blank()
    shown["type"] = "exchange"
    shown["schema_version"] = SCHEMA_VERSION
    shown["event_id"] = exchange_id(exchange)
    shown["host"] = connection.host
    shown["interface"] = connection.interface
    shown["timestamp"] = iso_time(exchange.timestamp)
    shown["completed_at"] = iso_time(exchange.completed_at)
    shown["client"] = client
    shown["broker"] = broker
    shown["connection_id"] = connection.connection_id
    shown["community_id"] = connection.community_id
    shown["tls"] = connection.tls
    shown["kind"] = exchange.kind
    shown["api"] = exchange.api
    shown["api_key"] = exchange.api_key
    shown["api_version"] = exchange.api_version
    shown["correlation_id"] = exchange.correlation_id
    shown["outcome"] = exchange.outcome
    shown["outcome_reason"] = exchange.outcome_reason
    shown["api_candidates"] = [*exchange.api_candidates]
    shown["latency_ms"] = milliseconds(latency)
    shown["service_ms"] = milliseconds(service)
    shown["in_flight"] = exchange.in_flight
    shown["max_wait_ms"] = summary.max_wait_ms
    shown["throttle_time_ms"] = summary.throttle_time_ms
    shown["wait"] = wait(exchange, service, latency)
    shown["topics"] = summary.topics[:LISTED]
    shown["topic_ids"] = summary.topic_ids[:LISTED]
    shown["partitions"] = summary.partitions[:LISTED]
    shown["groups"] = summary.groups[:LISTED]
    shown["transactional_ids"] = summary.transactional_ids[:LISTED]
    shown["truncated_lists"] = summary.cut or summary.longest_list > LISTED or len(problems) > LISTED
    shown["line_truncated"] = False
    shown["record_count"] = summary.record_count
    shown["record_bytes"] = summary.record_bytes
    shown["topic_records"] = summary.topic_records[:LISTED]
    shown["error_codes"] = summary.error_codes[:LISTED]
    shown["error_names"] = summary.error_names[:LISTED]
    shown["error_count"] = summary.error_count
    shown["problem_count"] = len(problems)
    shown["request"] = view.request(exchange)
    shown["response"] = view.response(exchange)
    shown["problems"] = [problem.to_dict() for problem in problems[:LISTED]] if problems else []
    return shown


class Source(NamedTuple):
    """A function that fills a dict: its variables, and the dict's keys in their order, with their expressions."""

    variables: dict[str, str]
    keys: dict[str, str]


@cache
def source() -> Source:
    """Source of `line`, read from this file."""
    from pathlib import Path

    text = Path(__file__).with_name("view.py").read_text("utf-8")
    start = text.index("\ndef line(")
    function = ast.parse(text[start : text.index("\n\n\n", start)]).body[0]
    found = Source({}, {})
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], ast.unparse(node.value)
            if isinstance(target, ast.Subscript):
                found.keys[ast.literal_eval(target.slice)] = value
            else:
                found.variables[ast.unparse(target).strip("()")] = value
    return found


def _line_of(keys: Iterable[str]) -> MakeLine:
    """`line` with these keys alone, compiled: what is not asked for is not worked out."""
    variables, values = source()
    entries = "".join(f" shown[{key!r}] = {values[key]}\n" for key in keys)
    needed = [each for each in variables if re.search(rf"\b({each.replace(', ', '|')})\b", entries)]
    steps = "".join(f" {each} = {variables[each]}\n" for each in needed)
    names = dict(vars(sys.modules[__name__]))
    exec(f"def line(exchange, view):\n{steps}{entries} return shown\n", names)
    made: MakeLine = names["line"]
    return made


MESSAGE_KEYS: Final = ("timestamp", "duration_ms", "size", "frames", "layout", "complete", "inferred", "body")
ERRORS: Final = "errors"
BODY_KEYS: Final = frozenset({"layout", "complete"})
"""Keys of a message that need its whole body."""

SHAPES: Final[dict[str, tuple[str, ...]]] = {
    "client": ("ip", "port", "id", "role", "principal", "software_name", "software_version"),
    "broker": ("ip", "port", "node_id"),
    "topic_records": ("topic", "count", "bytes"),
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
    line then has these alone, each key of the top level at least as null. `body`: bodies as `json`, as one `text` that
    is JSON, or `none`: there is no key `body`. `nulls`: if False, null keys and empty lists are left out, but for those
    of bodies. `users`: a client's `principal` is shown. `max_line`: bytes that a line of text may have, for those who
    write it. Raises KinspectError for other values.

    `request_fields` and `response_fields` are the body fields that the view takes: None for the whole body, an empty
    set for none of it.
    """

    records: bool = False
    payload: str = "none"
    show_secrets: bool = False
    int64: str = "number"
    fields: Collection[str] | None = None
    body: str = forms.JSON
    nulls: bool = True
    users: bool = True
    max_line: int | None = None
    request_fields: frozenset[str] | None = field(init=False, repr=False, compare=False)
    response_fields: frozenset[str] | None = field(init=False, repr=False, compare=False)
    _bodies: BodyView | None = field(init=False, repr=False, compare=False)
    _line: MakeLine = field(init=False, repr=False, compare=False)
    _below: tuple[tuple[str, projection.Tree], ...] = field(init=False, repr=False, compare=False)
    _forms: tuple[Form, ...] = field(init=False, repr=False, compare=False)
    _summarises: bool = field(init=False, repr=False, compare=False)
    _blank: dict[str, None] = field(init=False, repr=False, compare=False)
    _ends: dict[tuple[Any, ...], tuple[Shown, Shown]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _one_of("payload", self.payload, PAYLOADS)
        _one_of("int64", self.int64, INT64_FORMS)
        _one_of("body", self.body, BODY_FORMS)
        tree = {} if self.fields is None else projection.parse_paths(self.fields)
        _check(tree)
        if self.body == forms.NONE:
            _check_without_bodies(tree)
        int64_text = self.int64 == "string"
        summarises = not tree or _summarises(tree) or _asks(tree, RESPONSE, ERRORS)
        asks_for_records = any(RECORDS_PATH in f".{path}." for path in self.fields or ())
        records = self.records or self.payload != "none" or asks_for_records
        settled: dict[str, Any] = {
            "records": records,
            "_bodies": None
            if self.body == forms.NONE
            else BodyView(
                RecordView(records, self.payload, self.show_secrets, int64_text),
                self.show_secrets,
                int64_text,
            ),
            "_line": _line_of(key for key in source().keys if key in tree) if tree else line,
            "_below": tuple((key, below) for key, below in tree.items() if below),
            "_forms": self._own_forms(),
            "_summarises": summarises,
            "_blank": {},
            "_ends": {},
            "request_fields": _needed(tree, REQUEST, summarises),
            "response_fields": _needed(tree, RESPONSE, summarises),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a view as its options, without its parts."""
        texts = self.payload, self.show_secrets, self.int64
        return View, (self.records, *texts, self.fields, self.body, self.nulls, self.users, self.max_line)

    def _own_forms(self) -> tuple[Form, ...]:
        bodies: dict[str, tuple[Form, ...]] = {
            forms.JSON: (),
            forms.TEXT: (forms.text_bodies,),
            forms.NONE: (forms.no_bodies,),
        }
        return bodies[self.body] if self.nulls else (*bodies[self.body], forms.no_nulls)

    def exchange(self, exchange: Pair) -> dict[str, Any]:
        """The exchange's line, ready for JSON. It shares parts of the decoded bodies, and `client` and `broker` with
        other lines: do not change it."""
        shown = self._line(exchange, self)
        if not self._blank:
            self._blank.update(dict.fromkeys(shown))
        for key, below in self._below:
            shown[key] = projection.project(shown[key], below)
        for form in self._forms:
            shown = form(shown)
        return shown

    def ends(self, exchange: Pair) -> tuple[Shown, Shown]:
        """The line's `client` and `broker`, kept for the next lines with the same."""
        connection = exchange.connection
        texts = (
            exchange.client_id,
            exchange.principal if self.users else None,
            exchange.software_name,
            exchange.software_version,
        )
        # The connection by its id: itself, it holds all that its run learned.
        key = connection.connection_id, exchange.role, exchange.node_id, texts
        found = self._ends.get(key)
        if found is None:
            client_id, principal, software_name, software_version = texts
            found = (
                {
                    "ip": connection.client_ip,
                    "port": connection.client_port,
                    "id": client_id,
                    "role": exchange.role,
                    "principal": principal,
                    "software_name": software_name,
                    "software_version": software_version,
                },
                {
                    "ip": connection.broker_ip,
                    "port": connection.broker_port,
                    "node_id": exchange.node_id,
                },
            )
            if sum([len(text) for text in texts if text is not None]) <= ENDS_TEXT:
                if len(self._ends) >= ENDS_KEPT:
                    self._ends.clear()
                self._ends[key] = found
        return found

    def blank(self) -> Shown:
        """A dict with the keys of the lines before this one, if any: to fill it is faster than to make it grow."""
        return self._blank.copy()

    def other(self, line: Line) -> Line:
        """The object of a line of another type, as the options ask for it."""
        if not self.users and line.get("client"):
            line = {**line, "client": {**line["client"], "principal": None}}
        return line if self.nulls else forms.no_nulls(line)

    def request(self, exchange: Pair) -> dict[str, Any] | None:
        """The line's `request`."""
        message = exchange.request
        return None if message is None else self._message(message, exchange, self.request_fields)

    def response(self, exchange: Pair) -> dict[str, Any] | None:
        """The line's `response`."""
        message = exchange.response
        if message is None:
            return None
        shown = self._message(message, exchange, self.response_fields)
        shown[ERRORS] = summary_of(exchange).errors if self._summarises else []
        return shown

    def _message(self, message: WireMessage, exchange: Pair, fields: frozenset[str] | None) -> dict[str, Any]:
        """A side of the exchange. Without `fields` to decode, keys that need the body are left out too."""
        decoded = NOTHING_DECODED if fields == NO_FIELDS else message.decode(fields)
        body, layout = decoded.body, decoded.layout
        label = None
        if layout is not None:
            label = layout.label
            if self._bodies is None:
                body = None
            elif body is not None:
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
            "complete": message.complete and (decoded.complete or message.api_key is None),
            "inferred": message.inferred,
            "body": body,
        }

    def problems(self, exchange: Pair) -> list[Problem]:
        """Problems of the exchange; those of single records too, if they are shown."""
        return all_problems(exchange, with_records=True) if self.records else problems_of(exchange)


def _one_of(option: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        raise KinspectError(f"{option} cannot be {value!r}; it is one of {', '.join(choices)}")


def _check(tree: projection.Tree) -> None:
    """Raise KinspectError for a requested path with a name that lines do not have."""
    for key, below in tree.items():
        if key not in source().keys:
            raise KinspectError(f"unknown field {key!r}: {_nearest(key)}")
        for name in below:
            if name not in SHAPES.get(key, ()):
                known = f"it has {', '.join(SHAPES[key])}" if key in SHAPES else "there is nothing below it"
                raise KinspectError(f"unknown field '{key}.{name}'; {known}")
            if name == BODY and below[name]:
                fieldnames.check_names(below[name], f"{key}.{name}")


def _check_without_bodies(tree: projection.Tree) -> None:
    """Raise KinspectError for a requested body, where there are none."""
    for side in (REQUEST, RESPONSE):
        if BODY in tree.get(side, {}):
            raise KinspectError(f"fields ask for '{side}.{BODY}', and body is '{forms.NONE}'")


def _nearest(name: str) -> str:
    """Hint for an unknown name: the fields that may be meant, and where all are documented."""
    known: dict[str, list[str]] = {key: [key] for key in source().keys}
    for key, names in SHAPES.items():
        for below in names:
            known.setdefault(below, []).append(f"{key}.{below}")
    from difflib import get_close_matches

    close = [path for word in get_close_matches(name.lower(), known, n=3) for path in known[word]]
    meant = f"did you mean {', '.join(close[:MEANT])}? " if close else ""
    return f"{meant}see docs/output.md, or any line without --fields"


def _summarises(tree: projection.Tree) -> bool:
    """True if a key is asked for that needs both whole bodies."""
    return any(re.search(r"\b(summary|problems)\b", source().keys[key]) for key in tree)


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


DEFAULT: Final = View()
