"""The `Sink` of `--otlp`: lines as logs and spans, delivered while the run goes on."""

from __future__ import annotations

from kinspect import __version__
from kinspect.cli import FAILED, complain
from kinspect.cli.options import LOGS, SPANS
from kinspect.cli.otlp import Otlp
from kinspect.cli.sink import Closed, Input
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Line
from kinspect.kafka.view.view import View
from kinspect.output.delivery import Delivery
from kinspect.output.otlp import Reasons, Telemetry, log_exporter, sender, share, span_exporter
from kinspect.output.semconv import FIELDS, Names, fails

_EXPORTERS = {LOGS: log_exporter, SPANS: span_exporter}
_CALLED = {LOGS: "log records", SPANS: "spans"}


class OtlpSink:
    """Sends what `asked` names. `waits`: a run that is faster than the collector waits for it; else what is too much is
    lost, and counted. `silent`: nothing is told before the end."""

    def __init__(self, asked: Otlp, waits: bool, silent: bool) -> None:
        self.lines = asked.lines
        self._asked = asked
        self._silent = silent
        self._view = View(fields=FIELDS)
        self._telemetry = Telemetry(Names(asked.semconv, asked.users), __version__)
        self._why: str | None = None
        self._told = False
        reasons = Reasons()
        self._deliveries = {
            signal: Delivery(sender(open_exporter(asked.url), reasons), waits, self._failed)
            for signal, open_exporter in _EXPORTERS.items()
            if signal in asked.signals
        }
        self._left_out = 0
        self._without_time = 0

    def take(self, line: Line) -> None:
        logs, spans = self._deliveries.get(LOGS), self._deliveries.get(SPANS)
        if not isinstance(line, Exchange):
            if logs is not None:
                time = line.start_time if isinstance(line, ConnectionLine) else line.time
                logs.put(self._telemetry.log(line.to_dict(), time))
            return
        shown = self._view.exchange(line)
        if logs is not None:
            logs.put(self._telemetry.log(shown, line.timestamp))
        if spans is None:
            return
        if not fails(shown) and share(shown["connection_id"]) >= self._asked.share:
            self._left_out += 1
            return
        span = self._telemetry.span(shown, line.timestamp, line.completed_at)
        if span is None:
            self._without_time += 1
        else:
            spans.put(span)

    def flush(self) -> None:
        """Batches go by themselves. What went wrong is told by the thread that prints."""
        if self._why is not None and not self._told and not self._silent:
            self._told = True
            complain(f"--otlp {self._asked.shown}: {self._why}; what is not delivered is counted")

    def close(self, read: Input) -> Closed:
        told, status = [], 0
        for signal, delivery in self._deliveries.items():
            delivery.close()
            text = f"otlp: {delivery.sent:,} {_CALLED[signal]} delivered"
            if delivery.lost:
                status = FAILED
                text += f", {delivery.lost:,} lost"
            told.append(text)
        self.flush()
        if self._left_out:
            told.append(f"otlp: {self._left_out:,} exchanges without a span: not in the sample")
        if self._without_time:
            told.append(f"otlp: {self._without_time:,} exchanges without a span: packets without a time")
        if status and not self._told:
            complain(f"--otlp {self._asked.shown}: {self._why or 'the collector was too slow'}")
        return Closed(told, status)

    def _failed(self, why: str) -> None:
        self._why = self._why or why
