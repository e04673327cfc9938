"""The exchange as the JSON line's object: a table of keys, each with what gives its value.

Everything that depends on the options alone is settled when a `View` is made, everything that depends on a
layout alone when that layout is first seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kinspect.errors import KinspectError
from kinspect.kafka import bodynames, projection, summary
from kinspect.kafka.body import BodyView
from kinspect.kafka.recordview import PAYLOADS, RecordView
from kinspect.model import FRAME_BITS, FRAME_MASK, REQUEST, RESPONSE, Problem
from kinspect.protocol import Decoded

if TYPE_CHECKING:
    from kinspect.kafka.exchange import Exchange, WireMessage

SCHEMA_VERSION = 1
LISTED = 100
"""Entries of a list at the top level, at most."""
INT64_FORMS = ("number", "string")

NS_PER_SECOND = 1_000_000_000
NS_PER_MS = 1_000_000

NO_FIELDS: frozenset[str] = frozenset()
NOTHING_ASKED = Decoded(None, None, False, ())


def milliseconds(nanoseconds: int | None) -> float | None:
    """Nanoseconds as milliseconds, with the one rounding a float needs."""
    return None if nanoseconds is None else nanoseconds / NS_PER_MS


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


def _client(exchange: Exchange) -> dict[str, Any]:
    connection = exchange.connection
    return {
        "ip": connection.client_ip,
        "port": connection.client_port,
        "id": exchange.client_id,
        "role": exchange.role,
        "principal": exchange.principal,
        "software_name": exchange.software_name,
        "software_version": exchange.software_version,
    }


def _broker(exchange: Exchange) -> dict[str, Any]:
    connection = exchange.connection
    return {"ip": connection.broker_ip, "port": connection.broker_port, "node_id": connection.node_id}


Getter = Callable[["Exchange"], Any]


def _formed(form: Callable[[Any], Any], attribute: str) -> Getter:
    get = attrgetter(attribute)
    return lambda exchange: form(get(exchange))


def _listed(attribute: str) -> Getter:
    """A list, cut to what a line holds at most."""
    get = attrgetter(attribute)

    def listed(exchange: Exchange) -> Any:
        entries = get(exchange)
        return entries if len(entries) <= LISTED else entries[:LISTED]

    return listed


KEYS: dict[str, Getter | str] = {
    "type": lambda _: "exchange",
    "schema_version": lambda _: SCHEMA_VERSION,
    "timestamp": _formed(iso_time, "timestamp"),
    "completed_at": _formed(iso_time, "completed_at"),
    "client": _client,
    "broker": _broker,
    "connection_id": attrgetter("connection.connection_id"),
    "community_id": attrgetter("connection.community_id"),
    "tls": attrgetter("connection.tls"),
    "kind": attrgetter("kind"),
    "api": attrgetter("api"),
    "api_key": attrgetter("api_key"),
    "api_version": attrgetter("api_version"),
    "correlation_id": attrgetter("correlation_id"),
    "outcome": attrgetter("outcome"),
    "outcome_reason": attrgetter("outcome_reason"),
    "api_candidates": _formed(list, "api_candidates"),
    "latency_ms": _formed(milliseconds, "latency_ns"),
    "service_ms": _formed(milliseconds, "service_ns"),
    "in_flight": attrgetter("in_flight"),
    "max_wait_ms": attrgetter("summary.max_wait_ms"),
    "throttle_time_ms": attrgetter("summary.throttle_time_ms"),
    "topics": _listed("summary.topics"),
    "topic_ids": _listed("summary.topic_ids"),
    "partitions": _listed("summary.partitions"),
    "groups": _listed("summary.groups"),
    "transactional_ids": _listed("summary.transactional_ids"),
    "truncated_lists": "_truncated",
    "record_count": attrgetter("summary.record_count"),
    "record_bytes": attrgetter("summary.record_bytes"),
    "error_codes": _listed("summary.error_codes"),
    "error_names": _listed("summary.error_names"),
    "error_count": attrgetter("summary.error_count"),
    "problem_count": "_problem_count",
    "request": "_request",
    "response": "_response",
    "problems": "_problem_list",
}
"""The keys of a line, in their order, and what gives their values: a name is that of a method of `View`."""

SUMMARY_KEYS = frozenset(
    {
        "max_wait_ms",
        "throttle_time_ms",
        "topics",
        "topic_ids",
        "partitions",
        "groups",
        "transactional_ids",
        "truncated_lists",
        "record_count",
        "record_bytes",
        "error_codes",
        "error_names",
        "error_count",
        "problem_count",
        "problems",
    }
)
"""Keys that take both bodies, whole."""

MESSAGE_KEYS = ("timestamp", "duration_ms", "size", "frames", "layout", "complete", "inferred", "body")
BODY, ERRORS = "body", "errors"
BODY_KEYS = frozenset({"layout", "complete"})
"""Keys of a message that take its body, whole."""

SHAPES: dict[str, tuple[str, ...]] = {
    "client": ("ip", "port", "id", "role", "principal", "software_name", "software_version"),
    "broker": ("ip", "port", "node_id"),
    "request": MESSAGE_KEYS,
    "response": (*MESSAGE_KEYS, ERRORS),
    "problems": ("side", "code", "offset", "bytes", "path", "message"),
}
"""What may be asked for below a key; below the others there is nothing."""


# ---------------------------------------------------------------------- the view


@dataclass(frozen=True)
class View:
    """How exchanges become JSON-ready dicts. Made once, used for many.

    `records`: record sets with their records. `payload`: how keys, values and header values are shown (`none`,
    `text`, `base64`, `hex`). `show_secrets`: nothing is redacted. `int64`: `number`, or `string` for tools that round.
    `fields`: the dotted paths to show, through arrays, or None for all; a line then has these alone, each key
    of the top level at least as null. Raises KinspectError for what is none of these.

    `request_fields` and `response_fields` tell which body fields the view takes: None for the whole body, an
    empty set for none of it.
    """

    records: bool = False
    payload: str = "none"
    show_secrets: bool = False
    int64: str = "number"
    fields: Collection[str] | None = None
    request_fields: frozenset[str] | None = field(init=False, repr=False, compare=False)
    response_fields: frozenset[str] | None = field(init=False, repr=False, compare=False)
    _bodies: BodyView = field(init=False, repr=False, compare=False)
    _keys: tuple[tuple[str, Getter], ...] = field(init=False, repr=False, compare=False)
    _below: tuple[tuple[str, projection.Tree], ...] = field(init=False, repr=False, compare=False)
    _summarises: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _one_of("payload", self.payload, PAYLOADS)
        _one_of("int64", self.int64, INT64_FORMS)
        tree = {} if self.fields is None else projection.parse(self.fields)
        _check(tree)
        int64_text = self.int64 == "string"
        asked = {key: get for key, get in KEYS.items() if not tree or key in tree}
        summarises = not SUMMARY_KEYS.isdisjoint(asked) or _asks(tree, RESPONSE, ERRORS)
        settled: dict[str, Any] = {
            "_bodies": BodyView(
                RecordView(self.records, self.payload, self.show_secrets, int64_text),
                self.show_secrets,
                int64_text,
            ),
            "_keys": tuple(
                (k, getattr(self, get) if isinstance(get, str) else get) for k, get in asked.items()
            ),
            "_below": tuple((key, below) for key, below in tree.items() if below),
            "_summarises": summarises,
            "request_fields": _needed(tree, REQUEST, summarises),
            "response_fields": _needed(tree, RESPONSE, summarises),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """A view travels to other processes as its options; what was compiled stays."""
        return View, (self.records, self.payload, self.show_secrets, self.int64, self.fields)

    def exchange(self, exchange: Exchange) -> dict[str, Any]:
        """The exchange's line, ready for JSON. It shares parts of the decoded bodies: do not change it."""
        line = {key: get(exchange) for key, get in self._keys}
        for key, below in self._below:
            line[key] = projection.restrict(line[key], below)
        return line

    def _request(self, exchange: Exchange) -> dict[str, Any] | None:
        message = exchange.request
        return None if message is None else self._message(message, exchange, self.request_fields)

    def _response(self, exchange: Exchange) -> dict[str, Any] | None:
        message = exchange.response
        if message is None:
            return None
        shown = self._message(message, exchange, self.response_fields)
        shown[ERRORS] = exchange.summary.errors if self._summarises else []
        return shown

    def _message(
        self, message: WireMessage, exchange: Exchange, fields: frozenset[str] | None
    ) -> dict[str, Any]:
        """A side of the exchange. Without `fields` to decode, what only the body tells is not asked for either."""
        body, layout, complete, _ = NOTHING_ASKED if fields == NO_FIELDS else message.decode(fields)
        if body is not None and layout is not None:
            body = self._bodies.body(layout, body, message, exchange, self._summarises)
        first = message.first_frame
        return {
            "timestamp": iso_time(message.first_time),
            "duration_ms": milliseconds(message.duration_ns),
            "size": message.size,
            "frames": {
                "file": exchange.connection.files[first >> FRAME_BITS],
                "first": first & FRAME_MASK,
                "last": message.last_frame & FRAME_MASK,
                "packets": message.packets,
            },
            "layout": None if layout is None else layout.label,
            # Every byte is there and, if it is known what they mean, was read.
            "complete": message.complete and (complete or message.api_key is None),
            "inferred": message.inferred,
            "body": body,
        }

    def _problems(self, exchange: Exchange) -> list[Problem]:
        return summary.problems(exchange, with_records=True) if self.records else exchange.problems

    def _problem_count(self, exchange: Exchange) -> int:
        return len(self._problems(exchange))

    def _problem_list(self, exchange: Exchange) -> list[dict[str, Any]]:
        return [problem.to_dict() for problem in self._problems(exchange)[:LISTED]]

    def _truncated(self, exchange: Exchange) -> bool:
        return exchange.summary.longest_list > LISTED or self._problem_count(exchange) > LISTED


def _one_of(option: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        raise KinspectError(f"{option} cannot be {value!r}; it is one of {', '.join(choices)}")


def _check(tree: projection.Tree) -> None:
    """That every asked path has names that lines have."""
    for key, below in tree.items():
        if key not in KEYS:
            raise KinspectError(f"unknown field {key!r}; a line has {', '.join(KEYS)}")
        for name in below:
            if name not in SHAPES.get(key, ()):
                known = f"it has {', '.join(SHAPES[key])}" if key in SHAPES else "there is nothing below it"
                raise KinspectError(f"unknown field '{key}.{name}'; {known}")
            if name == BODY:
                bodynames.check(below[name], f"{key}.{name}")


def _asks(tree: projection.Tree, side: str, *keys: str) -> bool:
    """Whether one of a side's keys is asked for."""
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
