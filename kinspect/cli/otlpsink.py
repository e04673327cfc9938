"""`--otlp`: lines as logs, metrics and spans, delivered while the run goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from kinspect import __version__
from kinspect.analysis.metrics import Metric, Series
from kinspect.analysis.traceparents import trace_parents
from kinspect.cli import FAILED, complain
from kinspect.cli.options import LOGS, METRICS, SIGNALS, SPANS
from kinspect.cli.otlpmetrics import OtlpMetrics
from kinspect.cli.otlpoptions import Otlp
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Line
from kinspect.kafka.view.view import View
from kinspect.output.linefacts import epoch, fails
from kinspect.output.otlp import ExportErrors, Sender, Telemetry, share
from kinspect.output.semconv import FIELDS, AttributeNames, characters
from kinspect.output.sendqueue import SendQueue
from kinspect.sink import CONNECTION, GAP, RunInput, Sink, SinkReport
from kinspect.wording import counted, plural

LINK_CHARACTERS = 64
"""What a link counts for in a queue."""
METRICS_SECONDS = 10.0
"""How often metrics are sent."""
_CALLED = {LOGS: ("log record",), SPANS: ("span",), METRICS: ("state of metrics", "states of metrics")}


class OtlpSink(Sink):
    """Sends what `asked` names. `waits`: a run that is faster than the collector waits for it; else what is too much is
    lost, and counted. `silent`: nothing is reported before the end. `own`: gives the metrics of kinspect itself, in the
    thread that decodes."""

    whole = True

    def __init__(
        self,
        asked: Otlp,
        waits: bool,
        silent: bool,
        own: Callable[[], Iterable[tuple[Metric, Series]]] = tuple,
    ) -> None:
        self._asked = asked
        self._silent = silent
        self._view = View(fields=FIELDS, users=asked.users)
        self._telemetry = Telemetry(AttributeNames(asked.semconv), __version__)
        self._why: str | None = None
        self._told = False
        self._ending = threading.Event()
        reasons = ExportErrors()
        asked_for = [signal for signal in SIGNALS if signal in asked.signals]
        self._queues = {signal: self._queue(signal, waits, reasons) for signal in asked_for}
        self._logs, self._states, self._spans = map(self._queues.get, SIGNALS)
        self._metrics = OtlpMetrics(self._telemetry)
        self._metrics.own = own
        self._due = time.monotonic() + METRICS_SECONDS
        self._closed = False
        self._left_out = 0
        self._without_time = 0
        self.lines = asked.lines | ({CONNECTION, GAP} if METRICS in self._queues else set())

    def _queue(self, signal: str, waits: bool, reasons: ExportErrors) -> SendQueue[Any]:
        send = Sender(signal, self._asked.url, reasons, self._ending)
        if signal != METRICS:
            return SendQueue(send, waits, self._failed)
        # A state is put only if none is on its way, so that nobody waits.
        return SendQueue(lambda states: send(states[0]), True, self._failed, 2, 1)

    def take(self, line: Line) -> None:
        if isinstance(line, Exchange):
            self._take_exchange(line)
            return
        if self._states is not None:
            self._metrics.add_other(line)
        is_connection = isinstance(line, ConnectionLine)
        if self._logs is not None and (CONNECTION if is_connection else GAP) in self._asked.lines:
            begun = line.start_time if isinstance(line, ConnectionLine) else line.time
            shown = self._view.other(line.to_dict())
            attributes = self._telemetry.attributes(shown)
            self._logs.put(self._telemetry.log(shown, attributes, begun), characters(attributes))

    def _take_exchange(self, line: Exchange) -> None:
        shown = self._view.exchange(line)
        attributes = self._telemetry.attributes(shown)
        if self._states is not None:
            self._metrics.add(line, shown, attributes)
        if self._logs is not None:
            self._logs.put(self._telemetry.log(shown, attributes, line.timestamp), characters(attributes))
        if self._spans is None:
            return
        if not fails(shown) and share(shown["connection_id"]) >= self._asked.share:
            self._left_out += 1
            return
        parents = trace_parents(line)
        span = self._telemetry.span(shown, attributes, line.timestamp, line.completed_at, parents)
        if span is None:
            self._without_time += 1
        else:
            self._spans.put(span, characters(attributes) + len(parents) * LINK_CHARACTERS)

    def tell(self, line: dict[str, Any]) -> None:
        if self._logs is not None:
            attributes = self._telemetry.attributes(line)
            self._logs.put(
                self._telemetry.log(line, attributes, epoch(line["timestamp"])), characters(attributes)
            )

    def flush(self) -> None:
        """Send metrics if it is time. Other batches go by themselves. Tell once what went wrong."""
        if self._states is not None and self._states.idle and time.monotonic() >= self._due:
            self._due = time.monotonic() + METRICS_SECONDS
            self._states.put(self._metrics.state())
        self._tell()

    def _tell(self) -> None:
        if self._why is not None and not self._told and not self._silent:
            self._told = True
            complain(f"--otlp {self._asked.shown}: {self._why}; what is not delivered is counted")

    def close(self, read: RunInput) -> SinkReport:
        self._closed = True
        messages, status = [], 0
        if self._states is not None:
            self._states.put(self._metrics.state())
        # All at once: each may wait for a collector that does not answer.
        self._ending.set()
        for delivery in self._queues.values():
            delivery.end()
        for signal, delivery in self._queues.items():
            delivery.close()
            text = f"otlp: {delivery.sent:,} {plural(delivery.sent, *_CALLED[signal])} delivered"
            if delivery.lost:
                status = FAILED
                text += f", {delivery.lost:,} lost"
            messages.append(text)
        self._tell()
        if self._left_out:
            messages.append(f"otlp: {counted(self._left_out, 'exchange')} without a span: not in the sample")
        if self._without_time:
            messages.append(
                f"otlp: {counted(self._without_time, 'exchange')} without a span: packets without a time"
            )
        if status and not self._told:
            complain(f"--otlp {self._asked.shown}: {self._why or 'the collector was too slow'}")
        return SinkReport(messages, status)

    def discard(self) -> None:
        """Tell what is lost of a run that was broken off."""
        if self._closed:
            return
        self._closed = True
        self._ending.set()
        for signal, delivery in self._queues.items():
            delivery.discard()
            if delivery.lost:
                called = plural(delivery.sent, *_CALLED[signal])
                complain(
                    f"--otlp {self._asked.shown}: {delivery.sent:,} {called} delivered, {delivery.lost:,} lost,"
                    " as the run was broken off"
                )

    def _failed(self, why: str) -> None:
        self._why = self._why or why
