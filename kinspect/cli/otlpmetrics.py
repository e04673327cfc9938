"""Metrics as OpenTelemetry has them: those for Prometheus with dots in their names, and those of its conventions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData

from kinspect.analysis import metrics as own
from kinspect.analysis.metrics import COUNTER, HISTOGRAM, KafkaMetrics, Series, exposed
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Line
from kinspect.output.operations import BOUNDS, CONSUMED, DURATION, SENT, Operations
from kinspect.output.otlp import Telemetry
from kinspect.output.semconv import Value

SECONDS, BYTES, MESSAGES = "s", "By", "{message}"
_ABOUT = {
    DURATION: "Duration of messaging operation initiated by a producer or consumer client.",
    SENT: "Number of messages producer attempted to send to the broker.",
    CONSUMED: "Number of messages that were delivered to the application.",
}


APART = {"kinspect_connections": "kinspect.connections.open"}
"""Names by those of Prometheus, where another metric has the same one without its ending."""


def dotted(name: str) -> str:
    """A name of Prometheus as one of OpenTelemetry: `kinspect.kafka.service.duration`. Its unit is beside it."""
    return APART.get(name) or name.removesuffix("_total").removesuffix("_seconds").replace("_", ".")


def unit_of(name: str) -> str:
    """The unit that a name of Prometheus ends with, else what it counts: `{exchange}`."""
    bare = name.removesuffix("_total")
    if bare.endswith("_seconds"):
        return SECONDS
    last = bare.rpartition("_")[2]
    return BYTES if last == "bytes" else f"{{{last.removesuffix('s')}}}"


class OtlpMetrics:
    """Counts lines, and gives what was counted since it began."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._kafka = KafkaMetrics()
        self._operations = Operations()
        self._began = time.time_ns()
        self.own: Callable[[], Iterable[tuple[own.Metric, Series]]] = tuple
        """Gives the metrics of kinspect itself."""

    def add(self, exchange: Exchange, shown: dict[str, Any], attributes: dict[str, Value]) -> None:
        """Count an exchange, given its line and its attributes."""
        self._kafka.add(exchange)
        self._operations.add(shown, attributes)

    def add_other(self, line: Line) -> None:
        """Count a connection or a gap."""
        if isinstance(line, ConnectionLine):
            self._kafka.add_connection(line)
        elif not isinstance(line, Exchange):
            self._kafka.add_gap(line)

    def state(self) -> MetricsData:
        """All that was counted, as it is now."""
        now = time.time_ns()
        scope = self._telemetry.scope
        found = [*self._named(now), *self._conventional(now)]
        scoped = ScopeMetrics(scope, found, scope.schema_url or "")
        resource = self._telemetry.resource
        return MetricsData([ResourceMetrics(resource, [scoped], resource.schema_url)])

    def _named(self, now: int) -> Iterator[Metric]:
        """The metrics that Prometheus has too, those without values left out."""
        for metric, series in chain(exposed(self._kafka, self._kafka.result()), self.own()):
            points: list[Any] = [
                self._point(metric, dict(zip(metric.labels, values, strict=True)), amount, now)
                for values, amount in series.items()
            ]
            if points:
                yield _metric(dotted(metric.name), metric.help, unit_of(metric.name), metric.kind, points)

    def _point(self, metric: own.Metric, attributes: dict[str, str], amount: Any, now: int) -> Any:
        if metric.kind == HISTOGRAM:
            seconds = amount.total / metric.unit
            return self._histogram(attributes, amount.counts, seconds, own.BUCKETS, now)
        value = amount if metric.unit == 1 else amount / metric.unit
        return NumberDataPoint(attributes, self._began, now, value)

    def _conventional(self, now: int) -> Iterator[Metric]:
        """The metrics of the semantic conventions."""
        durations: list[Any] = [
            self._histogram(dict(key), each.counts, each.total, BOUNDS, now)
            for key, each in self._operations.durations.items()
        ]
        if durations:
            yield _metric(DURATION, _ABOUT[DURATION], SECONDS, HISTOGRAM, durations)
        for name, series in self._operations.messages.items():
            points: list[Any] = [
                NumberDataPoint(dict(key), self._began, now, count) for key, count in series.items()
            ]
            if points:
                yield _metric(name, _ABOUT[name], MESSAGES, COUNTER, points)

    def _histogram(
        self,
        attributes: dict[str, Value],
        counts: Sequence[int],
        total: float,
        bounds: Sequence[float],
        now: int,
    ) -> HistogramDataPoint:
        # Smallest and largest are not kept.
        unknown: Any = None
        return HistogramDataPoint(
            attributes, self._began, now, sum(counts), total, [*counts], bounds, unknown, unknown
        )


def _metric(name: str, about: str, unit: str, kind: str, points: list[Any]) -> Metric:
    data: Any
    if kind == HISTOGRAM:
        data = HistogramData(points, AggregationTemporality.CUMULATIVE)
    elif kind == COUNTER:
        data = Sum(points, AggregationTemporality.CUMULATIVE, True)
    else:
        data = Gauge(points)
    return Metric(name, about, unit, data)
