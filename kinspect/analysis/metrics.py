"""Metrics of what passes: counters and histograms by labels, as Prometheus has them.

    metrics = KafkaMetrics()
    metrics.add(exchange)            # and add_connection, add_gap
    metrics.result()                 # by the metric's name: values by label values

Amounts only grow, and a series stays once it is there. Of each label whose values a capture chooses, the first ones
have series of their own; the others share one, `_other`, and are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kinspect.analysis.client import CONNECTIONS_KEPT
from kinspect.analysis.connectends import ConnectionFailures
from kinspect.analysis.expected import POLLS, Expectation, may_pass
from kinspect.analysis.forwards import without_carried
from kinspect.durations import Durations
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import GAP_CAUSES, ConnectionLine, Gap
from kinspect.kafka.wire.endpoints import endpoint
from kinspect.kafka.wire.pair import UNANSWERED
from kinspect.kafka.wire.wait import IDLE
from kinspect.model import NS_PER_SECOND, PROBLEM_CODES, REQUEST, RESPONSE
from kinspect.protocol import schema
from kinspect.protocol.apikeys import PRODUCE

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
LABELS = 200
"""Values of a label that have series of their own, where nobody asks for more or fewer."""
OTHER = "_other"
"""Label value of all others."""
UNRESOLVED = "_unresolved"
"""Label value of topics that no earlier message named."""
UNKNOWN_API = "unknown"
EXPECTED, MAY_PASS, UNEXPECTED = "yes", "if_it_passes", "no"
"""Label values: whether an error is part of normal operation, as far as its exchange and those before it show."""
LABEL_SHOWN = 256
"""Characters to which longer label values are cut, with an ellipsis at the end. Names of topics have 249 at most."""
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of a histogram's buckets in seconds; a last one has what took longer."""
_UNITS = {"ns": NS_PER_SECOND, "ms": 1_000}
"""Amounts that make a second."""

BOUNDS_NS = [int(seconds * NS_PER_SECOND) for seconds in BUCKETS]
_PRODUCED, _FETCHED = "produce", "fetch"
_GROUP_APIS = schema.apis_with("member")

Labels = tuple[str, ...]
Series = dict[Labels, Any]
"""Values by the values of the labels: numbers, or `Durations`."""


class Metric(NamedTuple):
    """A metric: its name, kind, labels, and what it counts. `unit`: the amounts that make one of the unit in its name;
    `of_broker`: it may have the label `broker` too; `detail`: it is there only if asked for."""

    name: str
    kind: str
    labels: Labels
    help: str
    unit: int = 1
    of_broker: bool = False
    detail: bool = False


def metrics_of(table: str) -> dict[str, Metric]:
    """The metrics of a table, by their names. A line has the name, the kind, the labels, `ns` or `ms` if these are the
    amounts, `broker` and `detail` (see `Metric`), and what it counts."""
    found = {}
    for line in table.strip().splitlines():
        name, kind, labels, options, text = map(str.strip, line.split("|"))
        (unit,) = [amounts for word, amounts in _UNITS.items() if word in options.split()] or [1]
        flags = "broker" in options.split(), "detail" in options.split()
        found[name] = Metric(name, kind, tuple(labels.split()), " ".join(text.split()), unit, *flags)
    return found


_NAMED = metrics_of("""
kinspect_kafka_exchanges_total | counter | api outcome | broker | Exchanges.
kinspect_kafka_unanswered_total | counter | api reason | broker | Requests without an answer that was due.
kinspect_kafka_errors_total | counter | api error expected | broker | Error codes in responses, each occurrence.
kinspect_kafka_service_duration_seconds | histogram | api | ns broker | Time until the answer began, without the wait \
    behind other requests of the connection.
kinspect_kafka_expected_wait_seconds | histogram | api | ns broker | The part of \
    kinspect_kafka_service_duration_seconds that was waited by order of the client: long polls, waits for members of a \
    group.
kinspect_kafka_latency_seconds | histogram | api | ns broker detail | Time from the request's last byte to the \
    answer's first.
kinspect_kafka_fetch_wait_seconds_total | counter | | ns | Service time of fetches that gave no record.
kinspect_kafka_throttle_seconds_total | counter | api | ms | Time for which brokers told clients to wait.
kinspect_kafka_message_bytes_total | counter | api direction | | Bytes of messages with their size fields.
kinspect_kafka_topic_record_bytes_total | counter | topic direction | | Bytes of record sets on the wire.
kinspect_kafka_topic_records_total | counter | topic direction | | Records in these record sets.
kinspect_kafka_topic_errors_total | counter | topic error | | Error codes in a topic's part of responses.
kinspect_kafka_client_exchanges_total | counter | client_id software_name software_version | detail | Exchanges by \
    client id and software.
kinspect_kafka_named_exchanges_total | counter | client_name broker_name | detail | Exchanges of which an end has a \
    name, by the names of both.
kinspect_kafka_group_exchanges_total | counter | group api | detail | Requests of group members: joins, syncs, leaves, \
    heartbeats, commits.
kinspect_kafka_api_version_exchanges_total | counter | api api_version | detail | Exchanges by version.
kinspect_connections_total | counter | kind end_reason | | TCP connections that ended.
kinspect_kafka_connect_failures_total | counter | problem | | Connections that failed, by the problems of the answer \
    connect; churn and notes are not counted.
kinspect_gaps_total | counter | cause | | Gaps in the streams of Kafka connections.
kinspect_gap_bytes_total | counter | cause | | Bytes in these gaps.
kinspect_problems_total | counter | code | | Problems of messages.
kinspect_last_exchange_timestamp_seconds | gauge | | ns | When the exchange that was counted last completed.
kinspect_metrics_label_overflow_total | counter | label | | Times that a label value was _other.
""")
METRICS = (*_NAMED.values(),)
"""The metrics of `KafkaMetrics`."""
EXCHANGES = _NAMED["kinspect_kafka_exchanges_total"]
UNANSWERED_REQUESTS = _NAMED["kinspect_kafka_unanswered_total"]
ERRORS = _NAMED["kinspect_kafka_errors_total"]
SERVICE = _NAMED["kinspect_kafka_service_duration_seconds"]
EXPECTED_WAIT = _NAMED["kinspect_kafka_expected_wait_seconds"]
LATENCY = _NAMED["kinspect_kafka_latency_seconds"]
FETCH_WAIT = _NAMED["kinspect_kafka_fetch_wait_seconds_total"]
THROTTLE = _NAMED["kinspect_kafka_throttle_seconds_total"]
MESSAGE_BYTES = _NAMED["kinspect_kafka_message_bytes_total"]
TOPIC_BYTES = _NAMED["kinspect_kafka_topic_record_bytes_total"]
TOPIC_RECORDS = _NAMED["kinspect_kafka_topic_records_total"]
TOPIC_ERRORS = _NAMED["kinspect_kafka_topic_errors_total"]
CLIENT_EXCHANGES = _NAMED["kinspect_kafka_client_exchanges_total"]
NAMED_EXCHANGES = _NAMED["kinspect_kafka_named_exchanges_total"]
GROUP_EXCHANGES = _NAMED["kinspect_kafka_group_exchanges_total"]
VERSION_EXCHANGES = _NAMED["kinspect_kafka_api_version_exchanges_total"]
CONNECTIONS_ENDED = _NAMED["kinspect_connections_total"]
CONNECT_FAILURES = _NAMED["kinspect_kafka_connect_failures_total"]
GAPS = _NAMED["kinspect_gaps_total"]
GAP_BYTES = _NAMED["kinspect_gap_bytes_total"]
PROBLEMS = _NAMED["kinspect_problems_total"]
LAST_EXCHANGE = _NAMED["kinspect_last_exchange_timestamp_seconds"]
OVERFLOW = _NAMED["kinspect_metrics_label_overflow_total"]


class _Names:
    """Values of a label, or of several together: the first `most` keep their names. `overflow`: values that did not."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[Labels] = set()
        self.overflow = 0

    def of(self, *values: str | None) -> Labels:
        """The values as labels have them."""
        labels = tuple([_cut(value or "") for value in values])
        if labels not in self._known:
            if len(self._known) >= self._most:
                self.overflow += 1
                return (OTHER,) * len(labels)
            self._known.add(labels)
        return labels


class KafkaMetrics:
    """Accumulator of the metrics. `detail`: those that are there only if asked for are counted too; `brokers`: some
    have the label `broker`; `labels`: number of values of each label that have series of their own."""

    def __init__(self, *, detail: bool = False, brokers: bool = False, labels: int = LABELS) -> None:
        self._detail = detail
        self._brokers = brokers
        self._series: dict[str, Series] = {
            metric.name: {} for metric in METRICS if detail or not metric.detail
        }
        self._expectation = Expectation()
        self._failures = ConnectionFailures(CONNECTIONS_KEPT)
        self._topics, self._errors = _Names(labels), _Names(labels)
        self._names = {"topic": self._topics, "error": self._errors}
        self._broker = _Names(labels)
        if brokers:
            self._names["broker"] = self._broker
        self._clients, self._groups, self._versions = _Names(labels), _Names(labels), _Names(labels)
        self._ends = _Names(labels)
        if detail:
            self._names |= {
                "client_id": self._clients,
                "client_name": self._ends,
                "group": self._groups,
                "api_version": self._versions,
            }
        # Rates know nothing of an amount with which a series begins.
        self._add_to(FETCH_WAIT, (), 0)
        for code in sorted(PROBLEM_CODES):
            self._add_to(PROBLEMS, (code,), 0)
        for cause in GAP_CAUSES:
            self._add_to(GAPS, (cause,), 0)
            self._add_to(GAP_BYTES, (cause,), 0)

    def add(self, exchange: Exchange) -> None:
        """Count an exchange. Decodes its bodies. What an Envelope holds does not count: its client's request does."""
        self._failures.add(exchange)
        exchange = without_carried(exchange)
        api = exchange.api or UNKNOWN_API
        broker = self._broker_of(exchange)
        self._add_to(EXCHANGES, (api, exchange.outcome, *broker))
        if exchange.outcome == UNANSWERED:
            self._add_to(UNANSWERED_REQUESTS, (api, exchange.outcome_reason or "", *broker))
        for direction, message in ((REQUEST, exchange.request), (RESPONSE, exchange.response)):
            if message is not None:
                self._add_to(MESSAGE_BYTES, (api, direction), message.size + 4)
        self._add_times(exchange, (api, *broker))
        self._add_errors(exchange, api, broker)
        self._add_records(exchange)
        for problem in exchange.problems:
            self._add_to(PROBLEMS, (problem.code,))
        if throttled := exchange.summary.throttle_time_ms:
            self._add_to(THROTTLE, (api,), max(throttled, 0))
        if exchange.completed_at is not None:
            series = self._series[LAST_EXCHANGE.name]
            series[()] = max(series.get((), 0), exchange.completed_at)
        if self._detail:
            self._add_detail(exchange, api)

    def add_connection(self, line: ConnectionLine) -> None:
        """Count a connection that ended."""
        self._add_to(CONNECTIONS_ENDED, (line.kind, line.end_reason))
        failed = self._failures.problem(line.to_dict())
        if failed is not None:
            problem, count = failed
            self._add_to(CONNECT_FAILURES, (problem,), count)

    def add_gap(self, gap: Gap) -> None:
        """Count a gap."""
        self._add_to(GAPS, (gap.cause,))
        self._add_to(GAP_BYTES, (gap.cause,), gap.bytes)

    def result(self) -> dict[str, Series]:
        """The series by the names of their metrics, as they are now: a copy."""
        found = {
            name: {
                labels: value.copy() if isinstance(value, Durations) else value
                for labels, value in series.items()
            }
            for name, series in self._series.items()
        }
        found[OVERFLOW.name] = {(label,): names.overflow for label, names in self._names.items()}
        return found

    def labels_of(self, metric: Metric) -> Labels:
        """The labels that a metric has here."""
        return (*metric.labels, "broker") if self._brokers and metric.of_broker else metric.labels

    # ------------------------------------------------------------------ what exchanges say

    def _broker_of(self, exchange: Exchange) -> Labels:
        if not self._brokers:
            return ()
        ends = exchange.connection
        return self._broker.of(endpoint(ends.broker_ip, ends.broker_port))

    def _add_times(self, exchange: Exchange, labels: Labels) -> None:
        service, latency = exchange.service_ns, exchange.latency_ns
        if service is None or latency is None:
            return
        self._measure(SERVICE, labels, service)
        if exchange.wait in IDLE:
            self._measure(EXPECTED_WAIT, labels, service)
        if self._detail:
            self._measure(LATENCY, labels, latency)
        if exchange.api_key in POLLS and exchange.summary.record_count == 0:
            self._add_to(FETCH_WAIT, (), max(service, 0))

    def _add_errors(self, exchange: Exchange, api: str, broker: Labels) -> None:
        summary = exchange.summary
        self._expectation.note(exchange)
        for code, times in summary.error_counts.items():
            error = self._errors.of(schema.error_name(code, exchange.api_key))
            self._add_to(ERRORS, (api, *error, self._expected(exchange, code), *broker), times)
            for topic, here in summary.error_topics.get(code, {}).items():
                self._add_to(TOPIC_ERRORS, (*self._topic(exchange, topic), *error), here)

    def _expected(self, exchange: Exchange, code: int) -> str:
        reason = self._expectation.reason(exchange, code)
        if reason:
            return EXPECTED
        return MAY_PASS if reason is None or may_pass(exchange, code) else UNEXPECTED

    def _add_records(self, exchange: Exchange) -> None:
        direction = _PRODUCED if exchange.api_key == PRODUCE else _FETCHED
        for topic, sets in exchange.summary.record_sets.items():
            if topic is not None:
                labels = (*self._topic(exchange, topic), direction)
                self._add_to(TOPIC_BYTES, labels, sum([len(records.value) for records in sets]))
                self._add_to(TOPIC_RECORDS, labels, sum([records.count or 0 for records in sets]))

    def _topic(self, exchange: Exchange, topic: str) -> Labels:
        nameless = topic in exchange.summary.unresolved_topic_ids
        return (UNRESOLVED,) if nameless else self._topics.of(topic)

    def _add_detail(self, exchange: Exchange, api: str) -> None:
        client = self._clients.of(exchange.client_id, exchange.software_name, exchange.software_version)
        self._add_to(CLIENT_EXCHANGES, client)
        if exchange.client_name is not None or exchange.broker_name is not None:
            self._add_to(NAMED_EXCHANGES, self._ends.of(exchange.client_name, exchange.broker_name))
        if exchange.api_version is not None:
            self._add_to(VERSION_EXCHANGES, (api, *self._versions.of(str(exchange.api_version))))
        if exchange.api_key in _GROUP_APIS:
            for group in exchange.summary.groups:
                self._add_to(GROUP_EXCHANGES, (*self._groups.of(group), api))

    # ------------------------------------------------------------------ series

    def _add_to(self, metric: Metric, labels: Labels, amount: int = 1) -> None:
        series = self._series[metric.name]
        series[labels] = series.get(labels, 0) + amount

    def _measure(self, metric: Metric, labels: Labels, ns: int) -> None:
        series = self._series[metric.name]
        durations = series.get(labels)
        if durations is None:
            durations = series[labels] = Durations(BOUNDS_NS)
        durations.add(ns)


def exposed(metrics: KafkaMetrics, series: dict[str, Series]) -> Iterator[tuple[Metric, Series]]:
    """Each metric of the traffic that has values, with its labels. `series`: those of `metrics`, or a copy."""
    for metric in METRICS:
        if metric.name in series:
            yield metric._replace(labels=metrics.labels_of(metric)), series[metric.name]


def _cut(value: str) -> str:
    return value if len(value) <= LABEL_SHOWN else f"{value[: LABEL_SHOWN - 1]}…"
