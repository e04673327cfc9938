"""`kinspect live --metrics`: metrics for Prometheus, over HTTP."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import click

from kinspect.analysis.metrics import LABELS, KafkaMetrics, Metric, Series, exposed
from kinspect.capture.livecapture import OngoingCapture
from kinspect.cli.health import Health, health
from kinspect.cli.ownmetrics import decoding, own_metrics
from kinspect.cli.readrun import ReadRun
from kinspect.cli.rules import OptionRule
from kinspect.cli.types import COUNT
from kinspect.errors import KinspectError
from kinspect.extras import need
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Line
from kinspect.kafka.wire.endpoints import endpoint
from kinspect.model import NS_PER_SECOND
from kinspect.sink import KINDS, Sink

LOOPBACK, PORT = "127.0.0.1", 9464
LATE_NS = 10 * NS_PER_SECOND
"""Lag from which on decoding is not healthy."""
ANEW_SECONDS = 0.5
"""Time for which a text is served before a new one is made."""
LOOK_SECONDS = 1.0
"""Time for which a request waits for decoding to come to the end of its block."""


class Address(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """An address to listen on: `HOST:PORT`, `[::1]:PORT`; `:PORT` and `PORT` are on loopback."""

    name = "address"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        host, _, port = str(value).rpartition(":")
        if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
            self.fail(f"{value!r} is not an address: give HOST:PORT, or a port on {LOOPBACK}", param, ctx)
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            self.fail(f"{value!r}: write an IPv6 address in brackets, as [::1]:{PORT}", param, ctx)
        return host.strip("[]") or LOOPBACK, int(port)


METRICS = (
    click.option(
        "--metrics",
        type=Address(),
        metavar="[HOST:]PORT",
        help=f"Serve metrics for Prometheus at /metrics, and /healthz. Without HOST on {LOOPBACK}: others see them only"
        " if you name an address. Filters choose which exchanges are counted. Needs the extra [metrics].",
    ),
    click.option(
        "--metrics-detail",
        is_flag=True,
        help="Serve more metrics: latencies with queueing, exchanges by client, group and version.",
    ),
    click.option(
        "--metrics-broker", is_flag=True, help="Label exchanges, errors and durations with the broker."
    ),
    click.option(
        "--metrics-labels",
        type=COUNT,
        default=LABELS,
        metavar="N",
        help="Topics, error codes, clients, groups and brokers that have series of their own; further ones share one."
        f"  [default: {LABELS}]",
    ),
)
METRICS_RULES = (
    OptionRule(
        ("metrics_detail", "metrics_broker", "metrics_labels"), "{} is for --metrics", unless="metrics"
    ),
    OptionRule(("answer", "explore"), "--metrics is not for {}", "metrics"),
)


def open_metrics(values: dict[str, Any]) -> LiveMetrics | None:
    """The metrics that the options ask for, and the address they are served on taken; None if they ask for none.

    Raises KinspectError. To be called before rights are given up: some ports need them.
    """
    if values["metrics"] is None:
        return None
    need("metrics", "--metrics")
    host, port = values["metrics"]
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        # What `create_server` makes of an error names the address again; a name that is not found has no number.
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else error.strerror or error
        raise KinspectError(f"--metrics: cannot listen on {endpoint(host, port)}: {why}") from None
    counters = KafkaMetrics(
        detail=values["metrics_detail"], brokers=values["metrics_broker"], labels=values["metrics_labels"]
    )
    return LiveMetrics(counters, listener)


class LiveMetrics(Sink):
    """Counts the lines of a live run. The decoding thread counts; between two blocks it gives a copy of
    what it has, if the thread that serves asks for one. So nobody sees half of a block, and counting waits for
    nobody."""

    lines = frozenset(KINDS.values())
    whole = True

    def __init__(self, metrics: KafkaMetrics, listener: socket.socket) -> None:
        self._metrics = metrics
        self._listener = listener
        self._wanted = True
        self._run: ReadRun | None = None

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host, port = self._listener.getsockname()[:2]
        return f"http://{endpoint(host, port)}/metrics"

    def fileno(self) -> int:
        """The descriptor of the listening socket."""
        return self._listener.fileno()

    # ------------------------------------------------------------------ the decoding thread

    def take(self, line: Line) -> None:
        """Count a line."""
        if isinstance(line, Exchange):
            self._metrics.add(line)
        elif isinstance(line, ConnectionLine):
            self._metrics.add_connection(line)
        else:
            self._metrics.add_gap(line)

    def flush(self) -> None:
        """Make a copy of what was counted, if one is wanted: a block has been counted whole."""
        if self._wanted and self._run is not None:
            self._count(self._run)

    def _count(self, run: ReadRun) -> None:
        # In one assignment: the other thread sees both of the same moment.
        self._counted = self._metrics.result(), decoding(run)
        self._wanted = False

    # ------------------------------------------------------------------ the serving thread

    @contextmanager
    def served(self, capture: OngoingCapture, run: ReadRun) -> Iterator[None]:
        """Context in which the metrics are served."""
        from kinspect.cli.exposition import CONTENT_TYPE, Exposition
        from kinspect.cli.metricserver import HttpAnswer, MetricServer

        def collect() -> Iterator[tuple[Metric, Series]]:
            series, decoded = self._counted
            yield from exposed(self._metrics, series)
            yield from own_metrics(decoded, health(capture, run))

        processes: dict[str, Callable[[], int | str]] = {"": lambda: "self"}
        if capture.worker is not None:
            processes["kinspect_capture"] = lambda: str(capture.worker)
        exposition = Exposition(collect, processes)
        made: tuple[float, bytes] = 0.0, b""

        async def metrics() -> HttpAnswer:
            nonlocal made
            # Made anew now and then only: who asks all the time must not keep the other thread from decoding.
            if time.monotonic() >= made[0] + ANEW_SECONDS:
                await self._look()
                made = time.monotonic(), exposition.text()
            return HttpAnswer(HTTPStatus.OK, made[1], CONTENT_TYPE)

        async def healthz() -> HttpAnswer:
            wrong = _wrong(health(capture, run))
            status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
            return HttpAnswer(status, "".join(f"{line}\n" for line in wrong or ["ok"]).encode())

        self._run = run
        self._count(run)
        with MetricServer(self._listener, {"/metrics": metrics, "/healthz": healthz}):
            yield

    async def _look(self) -> None:
        """Wait for a new copy of what was counted; the last one does if decoding stands still."""
        import asyncio

        self._wanted = True
        until = time.monotonic() + LOOK_SECONDS
        while self._wanted and time.monotonic() < until:
            await asyncio.sleep(LOOK_SECONDS / 100)


def _wrong(now: Health) -> list[str]:
    """What is wrong with a run."""
    wrong = [] if now.capturing else ["the capturing process does not run"]
    wrong += [f"{name}: the interface is away" for name in now.away]
    if now.lag_ns >= LATE_NS:
        wrong.append(f"decoding is {now.lag_ns / NS_PER_SECOND:.1f} s behind")
    return wrong
