"""Lines as logs and spans for an OpenTelemetry collector, over OTLP/HTTP by OpenTelemetry's SDK."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Protocol
from uuid import uuid4

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk import version as sdk
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from kinspect.kafka.view.view import SCHEMA_VERSION
from kinspect.output.meaning import Line, fails, message
from kinspect.output.semconv import Names, Severity, Value, severity, span_name

SEND_SECONDS = 10.0
"""How long a batch is tried."""
_HASHES = 1 << 64


class Exporter(Protocol):
    """An exporter of the SDK. The result's name is SUCCESS, or it failed."""

    def export(self, batch: Any, /) -> Any: ...
    def shutdown(self) -> None: ...


class Reasons(logging.Handler):
    """Keeps the first message of OpenTelemetry's loggers about a batch, apart for each thread that sends. They print
    nothing then."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._own = threading.local()
        for name in ("opentelemetry", "urllib3"):
            logger = logging.getLogger(name)
            logger.addHandler(self)
            logger.propagate = False

    @property
    def first(self) -> str:
        """The message; empty if there was none."""
        return getattr(self._own, "first", "")

    def begin(self) -> None:
        """A batch is about to be sent."""
        self._own.first = ""

    def emit(self, record: logging.LogRecord) -> None:
        # The later ones say that it was tried again.
        if record.name.startswith("opentelemetry") and not self.first:
            self._own.first = record.getMessage().partition(" encountered while")[0]


def sender(exporter: Exporter, reasons: Reasons) -> Callable[[Any], str | None]:
    """Sends a batch by an exporter, and returns why it could not."""

    def send(batch: Any) -> str | None:
        reasons.begin()
        try:
            delivered = exporter.export(batch).name == "SUCCESS"
        except Exception as error:
            return repr(error)
        return None if delivered else reasons.first or "the collector did not take it"

    return send


def log_exporter(url: str) -> Exporter:
    """Exporter of logs to the collector at the base URL."""
    return OTLPLogExporter(endpoint=f"{url.rstrip('/')}/v1/logs", timeout=SEND_SECONDS)


def span_exporter(url: str) -> Exporter:
    """The same for spans."""
    return OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces", timeout=SEND_SECONDS)


def metric_exporter(url: str) -> Exporter:
    """The same for states of metrics."""
    return OTLPMetricExporter(endpoint=f"{url.rstrip('/')}/v1/metrics", timeout=SEND_SECONDS)


def one_sender(exporter: Exporter, reasons: Reasons) -> Callable[[list[Any]], str | None]:
    """`sender` for an exporter that takes one thing at a time."""
    send = sender(exporter, reasons)
    return lambda batch: send(batch[0])


def share(connection_id: str) -> float:
    """The connection's place from 0 up to 1, always the same: those below a share are a sample of that share."""
    return int.from_bytes(_hash(connection_id, 8)) / _HASHES


class Telemetry:
    """Makes logs and spans of lines. `names`: the attributes' names; `version`: that of kinspect. `resource`, `scope`:
    who tells them."""

    def __init__(self, names: Names, version: str) -> None:
        self._names = names
        own = {
            "telemetry.sdk.language": "python",
            "telemetry.sdk.name": "opentelemetry",
            "telemetry.sdk.version": sdk.__version__,
            "service.name": "kinspect",
            "service.version": version,
            "service.instance.id": uuid4().hex,
            "host.name": socket.gethostname(),
        }
        # Not by `Resource.create`, which loads and runs what other packages register, in threads: rights have been
        # given up by now, and a process is still to be forked.
        self.resource = OTELResourceDetector().detect().merge(Resource(own, names.schema_url))
        scope = {"kinspect.schema_version": SCHEMA_VERSION}
        self.scope = InstrumentationScope("kinspect", version, names.schema_url, scope)

    def attributes(self, line: Line) -> dict[str, Value]:
        """The attributes of a line."""
        return self._names.exchange(line) if line["type"] == "exchange" else self._names.other(line)

    def log(self, line: Line, attributes: dict[str, Value], timestamp: int | None) -> ReadableLogRecord:
        """The log record of a line. `timestamp`: that of the line, in nanoseconds."""
        is_exchange = line["type"] == "exchange"
        level = severity(line) if is_exchange else Severity.INFO
        record = LogRecord(
            timestamp=_time(timestamp),
            observed_timestamp=time.time_ns(),
            context=Context(),
            severity_text=level.name,
            severity_number=SeverityNumber(level),
            body=message(line),
            attributes=attributes,
            event_name=f"kinspect.{line['type']}",
        )
        return ReadableLogRecord(record, self.resource, self.scope)

    def span(
        self, line: Line, attributes: dict[str, Value], timestamp: int | None, completed_at: int | None
    ) -> ReadableSpan | None:
        """The span of an exchange, in a trace of its connection; None without times."""
        start, end = _time(timestamp), _time(completed_at)
        if start is None or end is None:
            return None
        context = SpanContext(
            int.from_bytes(_hash(line["connection_id"], 16)),
            int.from_bytes(_hash(line["event_id"], 8)),
            is_remote=False,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
        failed = Status(StatusCode.ERROR, ", ".join(line["error_names"]) or line["outcome_reason"])
        return ReadableSpan(
            span_name(line),
            context,
            resource=self.resource,
            attributes=attributes,
            kind=SpanKind.CLIENT,
            status=failed if fails(line) else Status(StatusCode.UNSET),
            start_time=start,
            end_time=max(start, end),
            instrumentation_scope=self.scope,
        )


def _time(nanoseconds: int | None) -> int | None:
    """A time as OTLP has it: not before the epoch."""
    return None if nanoseconds is None or nanoseconds < 0 else nanoseconds


def _hash(text: str, size: int) -> bytes:
    return blake2b(text.encode(), digest_size=size).digest()
