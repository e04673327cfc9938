"""The exchange as the JSON line's object.

Work that depends only on the options is done when a `View` is made, work that depends only on a layout when that layout
is first seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from kinspect.errors import KinspectError
from kinspect.kafka.bodysummary import BodySummary, problems_of, summary_of
from kinspect.kafka.bodysummary import problems as all_problems
from kinspect.kafka.view import fieldnames, fieldselection, forms
from kinspect.kafka.view.body import BodyView
from kinspect.kafka.view.forms import BODY, BODY_FORMS, Form, Line
from kinspect.kafka.view.reading import ReadingView
from kinspect.kafka.view.recordview import RecordView
from kinspect.kafka.view.redact import PAYLOADS
from kinspect.kafka.wire.eventid import exchange_id
from kinspect.kafka.wire.message import NOTHING_DECODED, WireMessage
from kinspect.kafka.wire.pair import Pair
from kinspect.kafka.wire.wait import wait
from kinspect.model import FRAME_BITS, FRAME_MASK, NS_PER_MS, NS_PER_SECOND, REQUEST, RESPONSE, Problem
from kinspect.wording import did_you_mean

SCHEMA_VERSION: Final = 2
LISTED: Final = 100
"""Largest number of entries of a list at the top level."""
ENDS_KEPT: Final = 4096
"""Clients and brokers whose part of a line is kept for their next lines: a kilobyte each, and their texts."""
ENDS_TEXT: Final = 512
"""Characters of texts of those that are kept. Who claims a longer name has its part made for each line."""
INT64_FORMS: Final = ("number", "string")
RECORDS_PATH: Final = ".batches.records."
"""In the dotted path of what a record holds."""

Shown = dict[str, Any]

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


def epoch_ns(time: str) -> int:
    """Nanoseconds since the epoch of a time that `iso_time` wrote."""
    second, _, fraction = time.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(f"{second}+00:00").timestamp()) * NS_PER_SECOND + int(fraction)


@lru_cache(maxsize=64)
def _second(seconds: int) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
    except (ValueError, OverflowError, OSError):
        return None


# ---------------------------------------------------------------------- the line

_EXCHANGE: Final = "exchange"
_VIEWED: Final = "viewed"
_SUMMARY: Final = "summary"
_PROBLEMS: Final = "problems"
Make = Callable[..., Any]


def _listed(name: str) -> Make:
    """The first entries of a list of the summary."""

    def first(summary: BodySummary) -> Any:
        return getattr(summary, name)[:LISTED]

    return first


def _wait(exchange: Pair, _: View) -> str | None:
    return wait(exchange, exchange.service_ns, exchange.latency_ns)


def _truncates(exchange: Pair, problems: list[Problem]) -> bool:
    summary = summary_of(exchange)
    return summary.cut or summary.longest_list > LISTED or len(problems) > LISTED


LINE_KEYS: Final[dict[str, tuple[str, Make]]] = {
    "type": (_EXCHANGE, lambda exchange: "exchange"),
    "schema_version": (_EXCHANGE, lambda exchange: SCHEMA_VERSION),
    "event_id": (_EXCHANGE, exchange_id),
    "host": (_EXCHANGE, attrgetter("connection.host")),
    "interface": (_EXCHANGE, attrgetter("connection.interface")),
    "timestamp": (_EXCHANGE, lambda exchange: iso_time(exchange.timestamp)),
    "completed_at": (_EXCHANGE, lambda exchange: iso_time(exchange.completed_at)),
    "client": (_VIEWED, lambda exchange, view: view.ends(exchange)[0]),
    "broker": (_VIEWED, lambda exchange, view: view.ends(exchange)[1]),
    "connection_id": (_EXCHANGE, attrgetter("connection.connection_id")),
    "community_id": (_EXCHANGE, attrgetter("connection.community_id")),
    "tls": (_EXCHANGE, attrgetter("connection.tls")),
    "kind": (_EXCHANGE, attrgetter("kind")),
    "api": (_EXCHANGE, attrgetter("api")),
    "api_key": (_EXCHANGE, attrgetter("api_key")),
    "api_version": (_EXCHANGE, attrgetter("api_version")),
    "correlation_id": (_EXCHANGE, attrgetter("correlation_id")),
    "outcome": (_EXCHANGE, attrgetter("outcome")),
    "outcome_reason": (_EXCHANGE, attrgetter("outcome_reason")),
    "api_candidates": (_EXCHANGE, lambda exchange: [*exchange.api_candidates]),
    "latency_ms": (_EXCHANGE, lambda exchange: milliseconds(exchange.latency_ns)),
    "service_ms": (_EXCHANGE, lambda exchange: milliseconds(exchange.service_ns)),
    "in_flight": (_EXCHANGE, attrgetter("in_flight")),
    "max_wait_ms": (_SUMMARY, attrgetter("max_wait_ms")),
    "throttle_time_ms": (_SUMMARY, attrgetter("throttle_time_ms")),
    "wait": (_VIEWED, _wait),
    "topics": (_SUMMARY, _listed("topics")),
    "topic_ids": (_SUMMARY, _listed("topic_ids")),
    "partitions": (_SUMMARY, _listed("partitions")),
    "groups": (_SUMMARY, _listed("groups")),
    "transactional_ids": (_SUMMARY, _listed("transactional_ids")),
    "truncated_lists": (_PROBLEMS, _truncates),
    "line_truncated": (_EXCHANGE, lambda exchange: False),
    "record_count": (_SUMMARY, attrgetter("record_count")),
    "record_bytes": (_SUMMARY, attrgetter("record_bytes")),
    "topic_records": (_SUMMARY, _listed("topic_records")),
    "error_codes": (_SUMMARY, _listed("error_codes")),
    "error_names": (_SUMMARY, _listed("error_names")),
    "error_count": (_SUMMARY, attrgetter("error_count")),
    "problem_count": (_PROBLEMS, lambda exchange, problems: len(problems)),
    "request": (_VIEWED, lambda exchange, view: view.request(exchange)),
    "response": (_VIEWED, lambda exchange, view: view.response(exchange)),
    "problems": (_PROBLEMS, lambda exchange, problems: [each.to_dict() for each in problems[:LISTED]]),
}
"""The keys of the line in their order, each with what it is made of, and how."""


class _LineMaker:
    """Makes lines with some of the keys, in their order. What none of them is made of is not worked out."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._blank = dict.fromkeys(keys)
        made = {
            kind: [(key, LINE_KEYS[key][1]) for key in self._blank if LINE_KEYS[key][0] == kind]
            for kind in (_EXCHANGE, _VIEWED, _SUMMARY, _PROBLEMS)
        }
        self._of_exchange = made[_EXCHANGE]
        self._viewed = made[_VIEWED]
        self._of_summary = made[_SUMMARY]
        self._of_problems = made[_PROBLEMS]

    def line(self, exchange: Pair, view: View) -> Shown:
        shown: Shown = self._blank.copy()
        for key, make in self._of_exchange:
            shown[key] = make(exchange)
        for key, make in self._viewed:
            shown[key] = make(exchange, view)
        if self._of_summary:
            summary = summary_of(exchange)
            for key, make in self._of_summary:
                shown[key] = make(summary)
        if self._of_problems:
            problems = view.problems(exchange)
            for key, make in self._of_problems:
                shown[key] = make(exchange, problems)
        return shown


MESSAGE_KEYS: Final = ("timestamp", "duration_ms", "size", "frames", "layout", "complete", "inferred", "body")
ERRORS: Final = "errors"
BODY_KEYS: Final = frozenset({"layout", "complete"})
"""Keys of a message that need its whole body."""

SHAPES: Final[dict[str, tuple[str, ...]]] = {
    "client": (
        "ip",
        "port",
        "id",
        "role",
        "principal",
        "software_name",
        "software_version",
        "name",
        "process",
    ),
    "broker": ("ip", "port", "node_id", "name"),
    "topic_records": ("topic", "count", "bytes"),
    "request": MESSAGE_KEYS,
    "response": (*MESSAGE_KEYS, ERRORS),
    "problems": ("side", "code", "offset", "bytes", "path", "message"),
}
"""Names below a key that `--fields` accepts; other keys have none."""
DEEPER: Final = {
    "frames": ("file", "first", "last", "packets"),
    ERRORS: ("path", "code", "name", "retriable"),
}
"""Those below names of messages."""


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
    _line: _LineMaker = field(init=False, repr=False, compare=False)
    _below: tuple[tuple[str, fieldselection.Tree], ...] = field(init=False, repr=False, compare=False)
    _forms: tuple[Form, ...] = field(init=False, repr=False, compare=False)
    _summarises: bool = field(init=False, repr=False, compare=False)
    _ends: dict[tuple[Any, ...], tuple[Shown, Shown]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _one_of("payload", self.payload, PAYLOADS)
        _one_of("int64", self.int64, INT64_FORMS)
        _one_of("body", self.body, BODY_FORMS)
        tree = {} if self.fields is None else fieldselection.parse_paths(self.fields)
        _check(tree)
        if self.body == forms.NONE:
            _check_without_bodies(tree)
        summarises = not tree or _summarises(tree) or _asks(tree, RESPONSE, ERRORS)
        asks_for_records = any(RECORDS_PATH in f".{path}." for path in self.fields or ())
        records = self.records or self.payload != "none" or asks_for_records
        settled: dict[str, Any] = {
            "records": records,
            "_bodies": None
            if self.body == forms.NONE
            else BodyView(
                RecordView(records, self.payload, ReadingView(self.show_secrets, self.int64 == "string"))
            ),
            "_line": _LineMaker([key for key in LINE_KEYS if key in tree or not tree]),
            "_below": tuple((key, below) for key, below in tree.items() if below),
            "_forms": self._own_forms(),
            "_summarises": summarises,
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
        shown = self._line.line(exchange, self)
        for key, below in self._below:
            shown[key] = fieldselection.project(shown[key], below)
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
            exchange.client_name,
            exchange.client_process,
            exchange.broker_name,
        )
        # The connection by its id: itself, it holds all that its run learned.
        key = connection.connection_id, exchange.role, exchange.node_id, texts
        found = self._ends.get(key)
        if found is None:
            client_id, principal, software_name, software_version, client_name, process, broker_name = texts
            found = (
                {
                    "ip": connection.client_ip,
                    "port": connection.client_port,
                    "id": client_id,
                    "role": exchange.role,
                    "principal": principal,
                    "software_name": software_name,
                    "software_version": software_version,
                    "name": client_name,
                    "process": process,
                },
                {
                    "ip": connection.broker_ip,
                    "port": connection.broker_port,
                    "node_id": exchange.node_id,
                    "name": broker_name,
                },
            )
            if sum([len(text) for text in texts if text is not None]) <= ENDS_TEXT:
                if len(self._ends) >= ENDS_KEPT:
                    self._ends.clear()
                self._ends[key] = found
        return found

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


def _check(tree: fieldselection.Tree) -> None:
    """Raise KinspectError for a requested path with a name that lines do not have."""
    for key, below in tree.items():
        if key not in LINE_KEYS:
            raise KinspectError(f"unknown field {key!r}: {_nearest(key)}")
        for name in below:
            if name not in SHAPES.get(key, ()):
                known = f"it has {', '.join(SHAPES[key])}" if key in SHAPES else "there is nothing below it"
                raise KinspectError(f"unknown field '{key}.{name}'; {known}")
            if name == BODY and below[name]:
                fieldnames.check_names(below[name], f"{key}.{name}")
            elif unknown := [each for each in below[name] if each not in DEEPER.get(name, ())]:
                known = f"it has {', '.join(DEEPER[name])}" if name in DEEPER else "there is nothing below it"
                raise KinspectError(f"unknown field '{key}.{name}.{unknown[0]}'; {known}")


def _check_without_bodies(tree: fieldselection.Tree) -> None:
    """Raise KinspectError for a requested body, where there are none."""
    for side in (REQUEST, RESPONSE):
        if BODY in tree.get(side, {}):
            raise KinspectError(f"fields ask for '{side}.{BODY}', and body is '{forms.NONE}'")


def _nearest(name: str) -> str:
    """Hint for an unknown name: the fields that may be meant, and where all are documented."""
    known = [(key, key) for key in LINE_KEYS]
    known += [(below, f"{key}.{below}") for key, names in SHAPES.items() for below in names]
    meant = did_you_mean(name.lower(), known)
    return f"{meant} see docs/output.md, or any line without --fields".lstrip()


def _summarises(tree: fieldselection.Tree) -> bool:
    """True if a key is asked for that needs both whole bodies."""
    return any(LINE_KEYS[key][0] in (_SUMMARY, _PROBLEMS) for key in tree)


def _asks(tree: fieldselection.Tree, side: str, *keys: str) -> bool:
    """True if one of a side's keys is requested."""
    if tree and side not in tree:
        return False
    below = tree.get(side)
    return not below or not below.keys().isdisjoint(keys)


def _needed(tree: fieldselection.Tree, side: str, summarises: bool) -> frozenset[str] | None:
    """The body fields a side has to be decoded for, None for all."""
    if summarises or _asks(tree, side, *BODY_KEYS):
        return None
    body = tree.get(side, {}).get(BODY)
    if body is None:
        return NO_FIELDS
    return fieldselection.body_paths(body) if body else None


DEFAULT: Final = View()
