"""The metrics of kinspect itself: one table, for Prometheus and OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kinspect import __version__
from kinspect.analysis.metrics import COUNTER, GAUGE, Metric, Series
from kinspect.cli.health import Health
from kinspect.cli.readrun import ReadRun
from kinspect.form import COMPILED
from kinspect.kafka.view.view import SCHEMA_VERSION
from kinspect.model import LIMITS, NS_PER_SECOND

KINDS = ("kafka", "tls", "other", "empty")
UNDECODED = "undecoded_bytes"


class Decoding(NamedTuple):
    """How far decoding has come, between two blocks of packets. `connections`: the open ones by kind; `limits`: how
    often each was reached; `unresolved`: topic ids without a name."""

    connections: dict[str, int]
    undecoded_bytes: int
    limits: dict[str, int]
    unresolved: int


def decoding(run: ReadRun) -> Decoding:
    """The state now: a copy. To be asked in the thread that decodes."""
    inspector = run.inspector
    kinds, books = inspector.open_now()
    return Decoding(
        kinds,
        inspector.totals()[UNDECODED] + books.get(UNDECODED, 0),
        dict(inspector.counts.caps_hit),
        len(inspector.names.unresolved),
    )


Look = Callable[[Decoding, Health], Series]


def _of_interfaces(field: str) -> Look:
    return lambda _, health: {(name,): getattr(each, field) for name, each in health.interfaces.items()}


def _drops(_: Decoding, health: Health) -> Series:
    return {
        (name, where): dropped
        for name, counters in health.interfaces.items()
        for where, dropped in (("kernel", counters.kernel_drops), ("queue", counters.queue_drops))
    }


def _one(field: str) -> Look:
    """The value of a metric without labels."""
    return lambda decoding, health: {(): getattr(health if field in Health._fields else decoding, field)}


_BUILD = (__version__, "compiled" if COMPILED else "interpreted", str(SCHEMA_VERSION))

HEALTH: tuple[tuple[Metric, Look], ...] = (
    (
        Metric(
            "kinspect_build_info",
            GAUGE,
            ("version", "form", "schema_version"),
            "1; the labels tell which kinspect runs.",
        ),
        lambda *_: {_BUILD: 1},
    ),
    (
        Metric(
            "kinspect_capture_packets_total",
            COUNTER,
            ("interface",),
            "Packets taken out of the kernel's ring.",
        ),
        _of_interfaces("packets"),
    ),
    (
        Metric(
            "kinspect_capture_bytes_total", COUNTER, ("interface",), "Bytes of these packets on the wire."
        ),
        _of_interfaces("bytes"),
    ),
    (
        Metric(
            "kinspect_capture_dropped_packets_total",
            COUNTER,
            ("interface", "where"),
            "Packets without room: in the kernel's ring, or in the queue.",
        ),
        _drops,
    ),
    (
        Metric(
            "kinspect_capture_interface_up",
            GAUGE,
            ("interface",),
            "1 while packets of the interface are captured, 0 while it is away.",
        ),
        _of_interfaces("up"),
    ),
    (Metric("kinspect_queue_bytes", GAUGE, (), "Bytes that wait to be decoded."), _one("queue_bytes")),
    (Metric("kinspect_queue_limit_bytes", GAUGE, (), "Bytes that may wait (--queue)."), _one("queue_limit")),
    (
        Metric(
            "kinspect_decode_lag_seconds",
            GAUGE,
            (),
            "Time since the capturing process handed over what is decoded now; below 0.2 with nothing to do.",
            NS_PER_SECOND,
        ),
        _one("lag_ns"),
    ),
    (
        Metric(
            "kinspect_output_blocked_seconds_total",
            COUNTER,
            (),
            "Time spent in writes to standard output or the file of -o.",
            NS_PER_SECOND,
        ),
        _one("blocked_ns"),
    ),
    (
        Metric("kinspect_connections", GAUGE, ("kind",), "Open TCP connections."),
        lambda decoding, _: {(kind,): decoding.connections.get(kind, 0) for kind in KINDS},
    ),
    (
        Metric(
            "kinspect_undecoded_bytes_total",
            COUNTER,
            (),
            "Bytes of Kafka connections that belong to no message.",
        ),
        _one("undecoded_bytes"),
    ),
    (
        Metric("kinspect_limits_hit_total", COUNTER, ("limit",), "Times that a limit was reached."),
        # Each is there from the start: of a series that begins with a count Prometheus sees no increase.
        lambda decoding, _: {
            (limit,): decoding.limits.get(limit, 0) for limit in {**dict.fromkeys(LIMITS), **decoding.limits}
        },
    ),
    (
        Metric("kinspect_unresolved_topic_ids", GAUGE, (), "Topic ids whose name no message told."),
        _one("unresolved"),
    ),
)
"""The metrics of kinspect itself, and where their values are."""


def own_metrics(decoding: Decoding, health: Health) -> Iterator[tuple[Metric, Series]]:
    """Each metric of kinspect itself, with its values."""
    for metric, look in HEALTH:
        yield metric, look(decoding, health)
