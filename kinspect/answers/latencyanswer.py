"""How long requests take, and what each wait was made of: percentiles by API or other keys, or the slow exchanges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kinspect.analysis.answer import Answer, ResultContext, Row, Topic, topics_of
from kinspect.analysis.histogram import Histogram, Quantiles
from kinspect.analysis.record import GREATEST, Record
from kinspect.analysis.rowkeys import BY, keys, keys_of, named, names_of
from kinspect.answers.celltexts import MINUTE, TIME_OF_DAY, known, listed, where
from kinspect.answers.definition import Definition, Key, OwnOption
from kinspect.errors import KinspectError
from kinspect.filters.values import parse_duration
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import LISTED, iso_time, milliseconds
from kinspect.kafka.wire.endpoints import Endpoints, endpoint
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.wait import CAUSES, IDLE, RETRANSMITTED, wait
from kinspect.model import FRAME_BITS, FRAME_MASK, NS_PER_SECOND
from kinspect.output.columns import Column

SLOW_NS = NS_PER_SECOND
"""Latency from which on an exchange counts as slow, but for causes of `IDLE`."""
FIRST = {"choose": lambda mine, _: mine}
"""Metadata of a field that no two parts of a run have."""

Frames = tuple[str, int, int, int]
"""File, first and last frame of a message, and its number of packets."""
QUANTILES = "p50 double, p95 double, p99 double, max double"
"""A struct of quantiles in milliseconds."""


@dataclass(slots=True)
class _Times(Record):
    """Exchanges of a row."""

    count: int = 0
    service: Histogram = field(default_factory=Histogram)
    latency: Histogram = field(default_factory=Histogram)
    waits: dict[str, int] = field(default_factory=dict)
    slow: int = 0
    encrypted: int = 0
    slowest: tuple[int, tuple[int, ...], Frames] | None = field(default=None, metadata=GREATEST)


@dataclass(slots=True)
class _Slow(Record):
    """A slow exchange: its row, and its topics as the bodies have them."""

    found: tuple[int, Row, list[Topic]] | None = field(default=None, metadata=FIRST)


class Latency(Answer):
    """Accumulator of the rows. `by`: names of `--by`, separated by commas; `slow`: a duration (`100`: milliseconds,
    `1.5s`), for the exchanges alone that waited so long for another cause than `IDLE`: each has a row, but with `by`.
    Raises KinspectError."""

    def __init__(self, by: str | None = None, slow: str | None = None) -> None:
        super().__init__()
        self._times = self.records(_Times)
        self._slow = self.records(_Slow)
        self._by = names_of(by, "api")
        self._least = None if slow is None else _duration(slow)
        self._lists = self._least is not None and by is None

    def add(self, exchange: Exchange) -> None:
        if exchange.request is None:
            return
        service, latency = exchange.service_ns, exchange.latency_ns
        cause = wait(exchange, service, latency)
        if self._least is not None:
            if latency is None or latency < self._least or cause is None or cause in IDLE:
                return
            if self._lists:
                self._add_slow(exchange, cause, latency)
                return
        for key in keys_of(self._by, exchange):
            times = self._times.of(*key)
            if times is None:
                continue
            times.count += 1
            if service is None or latency is None:
                continue
            if cause is not None:
                times.waits[cause] = times.waits.get(cause, 0) + 1
                times.slow += latency >= SLOW_NS and cause not in IDLE
            times.encrypted += exchange.connection.tls
            self.measure(times.service, service)
            self.measure(times.latency, latency)
            if times.slowest is None or service >= times.slowest[0]:
                # Of two, the first one of the run stays.
                place = tuple([-number for number in exchange.key])
                if times.slowest is None or (service, place) > times.slowest[:2]:
                    times.slowest = service, place, frames_of(exchange.request, exchange.connection)

    def _add_slow(self, exchange: Exchange, cause: str | None, latency: int) -> None:
        slow = self._slow.of(exchange.connection.connection_id, exchange.key)
        if slow is not None:
            slow.found = latency, _slow_row(exchange, cause), topics_of(exchange)[:LISTED]

    # ------------------------------------------------------------------ the whole

    def result(self, context: ResultContext) -> list[Row]:
        if self._lists:
            return self._slow_rows(context)
        found: dict[tuple[Any, ...], _Times] = {}
        for key, times in self._times.items():
            found.setdefault(named(self._by, key, context), _Times()).merge(times)
        return sorted((self._row(key, times) for key, times in found.items()), key=self._place)

    def _row(self, key: tuple[Any, ...], times: _Times) -> Row:
        waits: dict[str, int | None] = {cause: times.waits.get(cause, 0) for cause in CAUSES}
        if times.encrypted and not waits[RETRANSMITTED]:
            waits[RETRANSMITTED] = None
        return {
            **keys(self._by, key),
            "count": times.count,
            "service_ms": quantiles(times.service),
            "latency_ms": quantiles(times.latency),
            "waits": waits,
            "slow": times.slow,
            "slowest": None if times.slowest is None else frames_object(times.slowest[2]),
        }

    def _place(self, row: Row) -> tuple[Any, ...]:
        """The order of rows: minutes in theirs; then those that wait for more than their clients asked for, slow ones
        first."""
        waits = row["waits"]
        idle = sum(waits[cause] for cause in IDLE)
        own = sum(times or 0 for times in waits.values()) - idle
        names = [str(row[name] or "") for by in self._by for name in BY[by].keys]
        return row.get("minute") or "", own <= idle, -(row["service_ms"]["p99"] or 0), -row["count"], names

    def _slow_rows(self, context: ResultContext) -> list[Row]:
        found = sorted((record.found for _, record in self._slow.items() if record.found), key=_slow_place)
        return [
            row
            | {
                "topics": [*map(context.topic_name, topics)],
                "groups": [*row["groups"]],
                "transactional_ids": [*row["transactional_ids"]],
            }
            for _, row, topics in found
        ]


def _duration(text: str) -> int:
    try:
        return parse_duration(str(text), "ms")
    except KinspectError as error:
        raise KinspectError(f"--slow: {error}; a number alone is milliseconds") from None


def frames_of(message: WireMessage | None, ends: Endpoints) -> Frames:
    """Where a message lies in the input."""
    assert message is not None
    first = message.first_frame
    return (
        ends.files[first >> FRAME_BITS],
        first & FRAME_MASK,
        message.last_frame & FRAME_MASK,
        message.packets,
    )


def frames_object(frames: Frames) -> Row:
    """A value of the kind `frames`."""
    return dict(zip(("file", "first", "last", "packets"), frames, strict=True))


def quantiles(histogram: Histogram) -> Row:
    """A value of the kind that `QUANTILES` describes."""
    spread = histogram.result()
    found = spread.median, spread.p95, spread.p99, spread.greatest
    return Quantiles(histogram, zip(("p50", "p95", "p99", "max"), map(milliseconds, found), strict=True))


def _slow_row(exchange: Exchange, cause: str | None) -> Row:
    ends = exchange.connection
    return {
        "timestamp": iso_time(exchange.timestamp),
        "api": exchange.api,
        "client_id": exchange.client_id,
        "client_ip": ends.client_ip,
        "principal": exchange.principal,
        "broker": endpoint(ends.broker_ip, ends.broker_port),
        "latency_ms": milliseconds(exchange.latency_ns),
        "service_ms": milliseconds(exchange.service_ns),
        "wait": cause,
        "in_flight": exchange.in_flight,
        "throttle_time_ms": exchange.summary.throttle_time_ms,
        "topics": [],
        "groups": exchange.summary.groups[:LISTED],
        "transactional_ids": exchange.summary.transactional_ids[:LISTED],
        "connection_id": ends.connection_id,
        "correlation_id": exchange.correlation_id,
        "frames": frames_object(frames_of(exchange.request, exchange.connection)),
    }


def _slow_place(found: tuple[int, Row, list[Topic]]) -> tuple[Any, ...]:
    """The order of slow exchanges: the slowest first."""
    latency, row, _ = found
    return (
        -latency,
        row["timestamp"] or "",
        row["connection_id"],
        row["correlation_id"] or 0,
        row["frames"]["first"],
    )


WORDS, WAITS = 14, 22
"""Widths to which names of APIs and clients, and causes, are not cut."""


def milliseconds_text(value: float | None) -> str:
    """A duration in a column of them."""
    return known(None if value is None else f"{value:,.2f}" if value < 10 else f"{value:,.0f}")


def _of_one(key: str) -> Callable[[Row], str]:
    """Cells of slow exchanges, which have a row each."""
    return lambda row: milliseconds_text(row[key]) if "wait" in row else ""


def _of_all(key: str, name: str) -> Callable[[Row], str]:
    return lambda row: "" if "wait" in row else milliseconds_text(row[key][name])


def _waits(causes: dict[str, int | None]) -> str:
    """The causes that there were, the most frequent first."""
    waits = {cause: count for cause, count in causes.items() if count}
    ordered = dict(sorted(waits.items(), key=lambda wait: -wait[1]))
    return listed(ordered if len(ordered) > 1 else [*ordered], len(ordered))


def _shown_frames(row: Row) -> Row:
    """Frames of the slowest request, or of the row's own."""
    found: Row = row.get("frames") or row.get("slowest") or {}
    return found


def _more(file: str, rows: list[Row]) -> str:
    if "wait" in rows[0]:
        least = min(int(row["latency_ms"]) for row in rows)
        return f"kinspect read {file} --min-latency {least}ms --wait '!long_poll,!group_wait'"
    busy = [row for row in rows if row["count"] and not any(row["waits"][cause] for cause in IDLE)]
    worst = max((row["service_ms"]["p95"] or 0 for row in busy), default=0)
    return f"kinspect latency {file} --slow {int(worst)}ms" if worst >= 1 else f"kinspect read {file}"


ANSWER = Definition(
    Latency,
    help="How long requests take, and what each wait was made of.",
    page="5",
    page_help="percentiles, and causes of waits",
    columns=(
        Column("MINUTE", where("minute"), least=16, time=MINUTE),
        Column("TIME", where("timestamp"), rank=3, time=TIME_OF_DAY),
        Key("api", "text", "", "API", least=WORDS, opens="api"),
        Column("CLIENT ID", where("client_id"), least=WORDS),
        Column("ADDRESS", where("client_ip"), rank=4),
        Column("PRINCIPAL", where("principal"), rank=9),
        Column("TRANSACTIONAL ID", where("transactional_id")),
        Column("BROKER", where("broker")),
        Column("TOPIC", where("topic")),
        Column("PARTITION", where("partition")),
        Key("count", "long", "Exchanges", "COUNT"),
        Column("WAIT", where("wait")),
        Column("LATENCY", _of_one("latency_ms"), True),
        Column("SERVICE", _of_one("service_ms"), True),
        Key(
            "service_ms",
            "quantiles",
            "From the last byte of the request, or the end of the previous response if later, to the response",
        ),
        *(Column(name.upper(), _of_all("service_ms", name), True) for name in ("p50", "p95", "p99", "max")),
        Key("latency_ms", "quantiles", "From the last byte of the request to the first byte of the response"),
        Column("LATENCY P99", _of_all("latency_ms", "p99"), True, 5),
        Key(
            "waits",
            "waits",
            "Exchanges with a response, by the cause of their wait",
            "WAITS",
            _waits,
            rank=2,
            least=WAITS,
        ),
        Column("TOPICS", where("topics", listed), rank=6),
        Column("GROUPS", where("groups", listed), rank=7),
        Key("slow", "long", "Exchanges that took a second or more, except long polls and waits for members"),
        Key("slowest", "frames", "The request with the greatest service_ms"),
        Column("FRAME", lambda row: known(_shown_frames(row).get("first")), True, 1),
        Column("FILE", lambda row: _shown_frames(row).get("file", ""), rank=8, spare=True),
    ),
    options={
        "by": OwnOption(
            "A row for each api, client, broker, principal, transactional_id, topic, partition or minute,"
            " or several of them: client,minute.  [default: api]",
            "KEYS",
            BY.keys,
        ),
        "slow": OwnOption(
            "The exchanges that waited at least this long (100: milliseconds, 1.5s), but for long polls and waits"
            " for members of a group; with --by the rows that it asks for, of these exchanges alone.",
            "TIME",
        ),
    },
    structs={
        "quantiles": QUANTILES,
        "waits": "broker long, long_poll long, group_wait long, queued long, throttled long, retransmitted long",
    },
    identity="api",
    compared="service_ms",
    nothing="no such exchange",
    more=_more,
)
