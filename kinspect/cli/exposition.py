"""Metrics as text for Prometheus: those of the traffic, and those of kinspect itself.

The format is Prometheus' text format 0.0.4 alone. OpenMetrics would take `kinspect_connections` and
`kinspect_connections_total` for one metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from kinspect import __version__
from kinspect.analysis.metrics import (
    BUCKETS,
    COUNTER,
    GAUGE,
    HISTOGRAM,
    METRICS,
    Durations,
    KafkaMetrics,
    Metric,
    Series,
)
from kinspect.cli.health import Health
from kinspect.form import COMPILED
from kinspect.kafka.view.view import SCHEMA_VERSION
from kinspect.model import LIMITS, NS_PER_SECOND
from kinspect.output.escape import escape

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
KINDS = ("kafka", "tls", "other", "empty")


class Counted(NamedTuple):
    """What the decoding process has counted, between two blocks of packets. `series`: those of `KafkaMetrics`;
    `connections`: the open ones by kind; `limits`: how often each was reached; `unresolved`: topic ids without a
    name."""

    series: dict[str, Series]
    connections: dict[str, int]
    undecoded_bytes: int
    limits: dict[str, int]
    unresolved: int


Look = Callable[[Counted, Health], Series]


def _of_interfaces(field: str) -> Look:
    return lambda _, health: {(name,): getattr(each, field) for name, each in health.interfaces.items()}


def _drops(_: Counted, health: Health) -> Series:
    return {
        (name, where): dropped
        for name, counters in health.interfaces.items()
        for where, dropped in (("kernel", counters.kernel_drops), ("queue", counters.queue_drops))
    }


def _one(field: str) -> Look:
    """The value of a metric without labels."""
    return lambda counted, health: {(): getattr(health if field in Health._fields else counted, field)}


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
        lambda counted, _: {(kind,): counted.connections.get(kind, 0) for kind in KINDS},
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
        lambda counted, _: {
            (limit,): counted.limits.get(limit, 0) for limit in {**dict.fromkeys(LIMITS), **counted.limits}
        },
    ),
    (
        Metric("kinspect_unresolved_topic_ids", GAUGE, (), "Topic ids whose name no message told."),
        _one("unresolved"),
    ),
)
"""The metrics of kinspect itself, and where their values are."""


def exposed(metrics: KafkaMetrics, counted: Counted, health: Health) -> Iterator[tuple[Metric, Series]]:
    """Each metric with its labels and values."""
    for metric in METRICS:
        if metric.name in counted.series:
            yield metric._replace(labels=metrics.labels_of(metric)), counted.series[metric.name]
    for metric, look in HEALTH:
        yield metric, look(counted, health)


class Exposition:
    """Text of metrics. `collect`: gives them. `processes`: process ids by the prefix of the metrics of each process."""

    def __init__(
        self,
        collect: Callable[[], Iterable[tuple[Metric, Series]]],
        processes: dict[str, Callable[[], int | str]],
    ) -> None:
        from prometheus_client import CollectorRegistry, ProcessCollector

        self._collect = collect
        self._registry = CollectorRegistry()
        self._registry.register(self)
        for prefix, process in processes.items():
            ProcessCollector(prefix, process, registry=self._registry)

    def text(self) -> bytes:
        """The metrics now."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)

    def collect(self) -> Iterator[Family]:
        """The metrics as prometheus_client's."""
        for metric, series in self._collect():
            yield family_of(metric, series)


def family_of(metric: Metric, series: Series) -> Family:
    """A metric's series as prometheus_client has them."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    shown = _shown(series)
    if metric.kind == HISTOGRAM:
        histogram = HistogramMetricFamily(metric.name, metric.about, labels=metric.labels)
        for labels, found in shown.items():
            total = sum(durations.total for durations in found)
            histogram.add_metric(labels, _buckets(found), total / metric.unit)
        return histogram
    kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.about, labels=metric.labels)
    for labels, found in shown.items():
        value = sum(found)
        family.add_metric(labels, value / metric.unit if metric.unit > 1 else value)
    return family


def _shown(series: Series) -> dict[tuple[str, ...], list[Any]]:
    """The values of series by their labels, escaped: a name may look like another one's escapes."""
    found: dict[tuple[str, ...], list[Any]] = {}
    for labels, value in series.items():
        found.setdefault(tuple(map(escape, labels)), []).append(value)
    return found


def _buckets(found: list[Durations]) -> list[tuple[str, float]]:
    counts = map(sum, zip(*(durations.counts for durations in found), strict=True))
    return [*zip([*map(str, BUCKETS), "+Inf"], accumulate(counts), strict=True)]
