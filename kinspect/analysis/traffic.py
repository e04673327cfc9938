"""Statistics of exchanges: by API, failures, and topics, clients and groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kinspect.analysis.forwards import without_carried
from kinspect.analysis.frequent import Frequent, Ranking
from kinspect.analysis.histogram import Histogram, Spread
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.pair import UNANSWERED
from kinspect.protocol import schema

NAME_SHOWN = 100
"""Characters to which longer names are cut, with an ellipsis at the end."""
CONNECTIONS_KEPT = 10_000
CAPTURE_END = "capture_end"
UNKNOWN_API = "unknown API"


class ApiResult(NamedTuple):
    """Statistics of an API's exchanges. `failed`: those with an error code or a problem, or unanswered. `service` is
    without the time that a request waited behind others of its connection, `latency` with it."""

    name: str
    exchanges: int
    failed: int
    service: Spread
    latency: Spread


class Fault(NamedTuple):
    """A kind of failure: the API, and the name of the error code, the problem, or the reason for no answer."""

    api: str
    what: str


class NameCounts(NamedTuple):
    """Numbers of distinct names; of more than `NAMES_KEPT`, the number kept."""

    faults: int
    topics: int
    clients: int
    groups: int


class TrafficResult(NamedTuple):
    """Statistics of exchanges. `bytes`: sum of their messages. `connections`: number of those that had exchanges,
    `CONNECTIONS_KEPT` at most. `apis`: the most frequent first. Topics are ranked by bytes of record sets produced and
    fetched, clients and groups by exchanges."""

    exchanges: int
    failed: int
    bytes: int
    connections: int
    apis: list[ApiResult]
    faults: Ranking[Fault]
    topics: Ranking[str]
    clients: Ranking[str]
    groups: Ranking[str]
    names: NameCounts


class _Api:
    __slots__ = ("count", "failed", "latency", "service")

    def __init__(self) -> None:
        self.count = 0
        self.failed = 0
        self.service = Histogram()
        self.latency = Histogram()

    def merge(self, other: _Api) -> None:
        self.count += other.count
        self.failed += other.failed
        self.service.merge(other.service)
        self.latency.merge(other.latency)


class Traffic:
    """Accumulates exchanges, and decodes their bodies to do so. APIs that Kafka does not have count as one; what an
    Envelope holds does not count, as its client's own request does."""

    __slots__ = (
        "_apis",
        "_bytes",
        "_clients",
        "_connections",
        "_exchanges",
        "_failed",
        "_faults",
        "_groups",
        "_topics",
    )

    def __init__(self) -> None:
        self._exchanges = 0
        self._failed = 0
        self._bytes = 0
        self._connections: set[str] = set()
        self._apis: dict[str, _Api] = {}
        self._faults: Frequent[Fault] = Frequent()
        self._topics: Frequent[str] = Frequent()
        self._clients: Frequent[str] = Frequent()
        self._groups: Frequent[str] = Frequent()

    def add(self, exchange: Exchange) -> bool:
        """Add an exchange; return True if it failed."""
        exchange = without_carried(exchange)
        name = exchange.api or UNKNOWN_API
        api = self._api(name)
        api.count += 1
        self._exchanges += 1
        for message in (exchange.request, exchange.response):
            if message is not None:
                self._bytes += message.size
        service, latency = exchange.service_ns, exchange.latency_ns
        if service is not None and latency is not None:
            api.service.add(service)
            api.latency.add(latency)
        failed = False
        for what, times in faults(exchange):
            self._faults.add(Fault(name, what), times)
            failed = True
        if failed:
            api.failed += 1
            self._failed += 1
        connection = exchange.connection
        self._connect(connection.connection_id)
        self._clients.add(_cut(exchange.client_id or f"no id, {connection.client_ip}"))
        for group in exchange.summary.groups:
            self._groups.add(_cut(group))
        for topic, size in topic_bytes(exchange):
            self._topics.add(_cut(topic), size)
        return failed

    def merge(self, other: Traffic) -> None:
        self._exchanges += other._exchanges
        self._failed += other._failed
        self._bytes += other._bytes
        for connection in other._connections:
            self._connect(connection)
        for name, api in other._apis.items():
            self._api(name).merge(api)
        self._faults.merge(other._faults)
        self._topics.merge(other._topics)
        self._clients.merge(other._clients)
        self._groups.merge(other._groups)

    def result(self, shown: int) -> TrafficResult:
        """The statistics, with the `shown` greatest of each ranking."""
        apis = [
            ApiResult(name, api.count, api.failed, api.service.result(), api.latency.result())
            for name, api in self._apis.items()
        ]
        return TrafficResult(
            self._exchanges,
            self._failed,
            self._bytes,
            len(self._connections),
            sorted(apis, key=lambda api: (-api.exchanges, api.name)),
            self._faults.result(shown),
            self._topics.result(shown),
            self._clients.result(shown),
            self._groups.result(shown),
            NameCounts(len(self._faults), len(self._topics), len(self._clients), len(self._groups)),
        )

    def _api(self, name: str) -> _Api:
        api = self._apis.get(name)
        if api is None:
            api = self._apis[name] = _Api()
        return api

    def _connect(self, connection: str) -> None:
        if len(self._connections) < CONNECTIONS_KEPT:
            self._connections.add(connection)


def faults(exchange: Exchange) -> Iterator[tuple[str, int]]:
    """Names of the failures in an exchange, each with its number."""
    for code, times in exchange.summary.error_counts.items():
        yield schema.error_name(code, exchange.api_key), times
    for problem in dict.fromkeys(problem.code for problem in exchange.problems):
        yield f"problem {problem}", 1
    if exchange.outcome == UNANSWERED and exchange.outcome_reason != CAPTURE_END:
        yield f"unanswered ({exchange.outcome_reason})", 1


def topic_bytes(exchange: Exchange) -> Iterator[tuple[str, int]]:
    """Topics that records were produced to or fetched from, with the bytes of their record sets."""
    for topic, sets in exchange.summary.record_sets.items():
        if topic is not None:
            yield topic, sum([len(records.value) for records in sets])


def _cut(name: str) -> str:
    return name if len(name) <= NAME_SHOWN else f"{name[: NAME_SHOWN - 1]}…"
