"""Metrics as text for Prometheus.

The format is Prometheus' text format 0.0.4 alone. OpenMetrics would take `kinspect_connections` and
`kinspect_connections_total` for one metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from kinspect.analysis.metrics import BUCKETS, COUNTER, HISTOGRAM, Metric, Series
from kinspect.durations import Durations
from kinspect.output.escape import escape

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


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
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, found in shown.items():
            total = sum(durations.total for durations in found)
            histogram.add_metric(labels, _buckets(found), total / metric.unit)
        return histogram
    kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
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
