"""The metrics of kinspect itself: one table, for Prometheus and OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kinspect import __version__
from kinspect.analysis.metrics import Metric, Series, metrics_of
from kinspect.cli.health import Health
from kinspect.cli.readrun import ReadRun
from kinspect.form import COMPILED
from kinspect.kafka.view.view import SCHEMA_VERSION
from kinspect.model import LIMITS

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
        if dropped is not None
    }


def _one(field: str) -> Look:
    """The value of a metric without labels."""
    return lambda decoding, health: {(): getattr(health if field in Health._fields else decoding, field)}


_BUILD = (__version__, "compiled" if COMPILED else "interpreted", str(SCHEMA_VERSION))

_LOOKS: dict[str, Look] = {
    "kinspect_build_info": lambda *_: {_BUILD: 1},
    "kinspect_capture_packets_total": _of_interfaces("packets"),
    "kinspect_capture_bytes_total": _of_interfaces("bytes"),
    "kinspect_capture_dropped_packets_total": _drops,
    "kinspect_capture_interface_up": _of_interfaces("up"),
    "kinspect_queue_bytes": _one("queue_bytes"),
    "kinspect_queue_limit_bytes": _one("queue_limit"),
    "kinspect_decode_lag_seconds": _one("lag_ns"),
    "kinspect_output_blocked_seconds_total": _one("blocked_ns"),
    "kinspect_connections": lambda decoding, _: {
        (kind,): decoding.connections.get(kind, 0) for kind in KINDS
    },
    "kinspect_undecoded_bytes_total": _one("undecoded_bytes"),
    # Each is there from the start: of a series that begins with a count Prometheus sees no increase.
    "kinspect_limits_hit_total": lambda decoding, _: {
        (limit,): decoding.limits.get(limit, 0) for limit in {**dict.fromkeys(LIMITS), **decoding.limits}
    },
    "kinspect_unresolved_topic_ids": _one("unresolved"),
}
"""Where the values of metrics are."""
HEALTH = metrics_of("""
kinspect_build_info | gauge | version form schema_version | | Always 1; the labels show which kinspect runs.
kinspect_capture_packets_total | counter | interface | | Packets taken out of the kernel's ring.
kinspect_capture_bytes_total | counter | interface | | Bytes of these packets on the wire.
kinspect_capture_dropped_packets_total | counter | interface where | | Packets without room: in the kernel's ring, or \
    in the queue.
kinspect_capture_interface_up | gauge | interface | | 1 while packets of the interface are captured, 0 while it is \
    away.
kinspect_queue_bytes | gauge | |  | Bytes that wait to be decoded.
kinspect_queue_limit_bytes | gauge | |  | Bytes that may wait (--queue).
kinspect_decode_lag_seconds | gauge | | ns | Time since the capturing process handed over what is decoded now; below \
    0.2 with nothing to do.
kinspect_output_blocked_seconds_total | counter | | ns | Time spent in writes to standard output or the file of -o.
kinspect_connections | gauge | kind | | Open TCP connections.
kinspect_undecoded_bytes_total | counter | |  | Bytes of Kafka connections that belong to no message.
kinspect_limits_hit_total | counter | limit | | Times that a limit was reached.
kinspect_unresolved_topic_ids | gauge | |  | Topic ids without a known name.
""")
"""The metrics of kinspect itself."""


def own_metrics(decoding: Decoding, health: Health) -> Iterator[tuple[Metric, Series]]:
    """Each metric of kinspect itself, with its values."""
    for name, metric in HEALTH.items():
        yield metric, _LOOKS[name](decoding, health)
