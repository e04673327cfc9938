"""Lines as logs and spans for an OpenTelemetry collector, over OTLP/HTTP by OpenTelemetry's SDK."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Sequence
from hashlib import blake2b
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

import requests
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
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from kinspect.kafka.view.view import SCHEMA_VERSION
from kinspect.output.linefacts import Line, fails, message
from kinspect.output.semconv import AttributeNames, Severity, Value, severity, span_name

SEND_SECONDS = 10.0
"""How long a batch is tried."""
CONNECT_SECONDS = 2.0
RETRY_SECONDS = 1.0
"""Time up to the second try, twice as long up to the next."""
_AWAY = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
_EXPORTERS = {
    "logs": (OTLPLogExporter, "v1/logs"),
    "spans": (OTLPSpanExporter, "v1/traces"),
    "metrics": (OTLPMetricExporter, "v1/metrics"),
}
"""By signal: the exporter of the SDK, and its path below the collector's URL."""
_HASHES = 1 << 64


class SdkExporter(Protocol):
    """An exporter of the SDK. The result's name is SUCCESS, or it failed."""

    def export(self, batch: Any, /) -> Any: ...


class ExportErrors(logging.Handler):
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


class _HttpSession(requests.Session):
    """Talks to a collector. `away`: why the last request reached none that takes it now; None if it did.

    What the SDK would try again, in sleeps that nobody can end, is an error to it that it leaves alone.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self.away: str | None = None
        # A proxy of the environment is for what is beyond this host.
        self.trust_env = not _is_loopback(urlsplit(url).hostname or "")

    def request(self, *arguments: Any, **named: Any) -> requests.Response:
        self.away = None
        left = named["timeout"]
        named["timeout"] = min(left, CONNECT_SECONDS), left
        try:
            try:
                answer = super().request(*arguments, **named)
            except requests.Timeout:
                raise
            except requests.ConnectionError:
                # One that was open may have been closed by the other side meanwhile.
                answer = super().request(*arguments, **named)
        except requests.Timeout:
            self.away = "no answer in time"
        except requests.ConnectionError as error:
            self.away = _root(error)
        else:
            if answer.status_code not in _AWAY:
                return answer
            self.away = f"{answer.status_code} {answer.reason}"
        raise requests.RequestException(self.away)


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _root(error: BaseException) -> str:
    """The system's words for an error: those of what it came from."""
    causes: list[BaseException | None] = [error]
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno is not None and cause.strerror:
            return cause.strerror
        if cause is not None and len(causes) < 20:
            arguments = [each for each in cause.args if isinstance(each, BaseException)]
            causes += [getattr(cause, "reason", None), *arguments, cause.__cause__, cause.__context__]
    return "the connection failed"


class Sender:
    """Sends batches of a signal, and returns why one could not be sent. While the collector is away it is tried again;
    once `ending` is set, no more than once, and nothing more then."""

    def __init__(self, signal: str, url: str, reasons: ExportErrors, ending: threading.Event) -> None:
        exporter, path = _EXPORTERS[signal]
        self._session = _HttpSession(url)
        endpoint = f"{url.rstrip('/')}/{path}"
        self.exporter: SdkExporter = exporter(endpoint=endpoint, timeout=SEND_SECONDS, session=self._session)
        self._reasons = reasons
        self._ending = ending
        self._given_up = False

    def __call__(self, batch: Any) -> str | None:
        until, pause = time.monotonic() + SEND_SECONDS, RETRY_SECONDS
        while not self._given_up:
            last = self._ending.is_set()
            why = self._tried(batch)
            if why is None or self._session.away is None:
                return why
            self._given_up = last
            if last or time.monotonic() + pause > until:
                break
            self._ending.wait(pause)
            pause *= 2
        return self._session.away

    def _tried(self, batch: Any) -> str | None:
        self._reasons.begin()
        try:
            delivered = self.exporter.export(batch).name == "SUCCESS"
        except Exception as error:
            return repr(error)
        return None if delivered else self._reasons.first or "the collector did not take it"


def share(connection_id: str) -> float:
    """The connection's place from 0 up to 1, always the same: those below a share are a sample of that share."""
    return int.from_bytes(_hash(connection_id, 8)) / _HASHES


class Telemetry:
    """Makes logs and spans of lines. `names`: the attributes' names; `version`: that of kinspect. `resource`, `scope`:
    who reports them."""

    def __init__(self, names: AttributeNames, version: str) -> None:
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
        self,
        line: Line,
        attributes: dict[str, Value],
        timestamp: int | None,
        completed_at: int | None,
        parents: Sequence[tuple[int, int, int]] = (),
    ) -> ReadableSpan | None:
        """The span of an exchange, in a trace of its connection; None without times. `parents`: traces, spans and flags
        that its records name."""
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
            links=[
                Link(SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags)))
                for trace, span, flags in parents
            ],
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
