"""Produce and Fetch as OpenTelemetry counts messaging operations: durations, messages sent, messages consumed.

Source: opentelemetry.io/docs/specs/semconv/messaging/messaging-metrics. The names and buckets are its own.
"""

from __future__ import annotations

from kinspect.durations import Durations
from kinspect.output.linefacts import Line
from kinspect.output.semconv import OPERATIONS, SEND, SYSTEM, WITH_RECORDS, Value
from kinspect.wording import cut_at

DURATION = "messaging.client.operation.duration"
SENT, CONSUMED = "messaging.client.sent.messages", "messaging.client.consumed.messages"
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Upper bounds of the buckets in seconds."""
SETS = 2000
"""Most sets of attributes of a metric; what is beyond them has the set `OVERFLOW`, as the SDK does it."""
OVERFLOW = (("otel.metric.overflow", True),)
TEXT_MOST = 256
"""Characters to which longer texts are cut, with an ellipsis at the end. Names of topics have 249 at most."""
ATTRIBUTES = f"""
    {SYSTEM} messaging.system.name messaging.operation.name messaging.operation.type
    messaging.destination.name server.address server.port error.type
""".split()
"""Attributes of these metrics, by the names of both conventions."""

AttributeSet = tuple[tuple[str, Value], ...]


class Operations:
    """Accumulator of the three metrics, by sets of attributes."""

    def __init__(self) -> None:
        self.durations: dict[AttributeSet, Durations] = {}
        self.messages: dict[str, dict[AttributeSet, int]] = {SENT: {}, CONSUMED: {}}

    def add(self, line: Line, attributes: dict[str, Value]) -> None:
        """Count an exchange, given its attributes. It is left out if it moves no records."""
        if line["api"] not in WITH_RECORDS:
            return
        own = tuple((name, _cut(attributes[name])) for name in ATTRIBUTES if name in attributes)
        if line["latency_ms"] is not None:
            series = self.durations
            key = own if own in series or len(series) < SETS else OVERFLOW
            if key not in series:
                series[key] = Durations(BOUNDS)
            series[key].add(line["latency_ms"] / 1000)
        if line["record_count"]:
            counts = self.messages[SENT if OPERATIONS[line["api"]].type == SEND else CONSUMED]
            key = own if own in counts or len(counts) < SETS else OVERFLOW
            counts[key] = counts.get(key, 0) + line["record_count"]


def _cut(value: Value) -> Value:
    return cut_at(value, TEXT_MOST) if isinstance(value, str) else value
