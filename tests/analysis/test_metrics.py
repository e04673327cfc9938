"""Metrics equal sums over the lines of `kinspect read`."""

import re
from collections import Counter, defaultdict

import pytest
from support.captures import CAPTURES, captures, each_folder

import kinspect
from kinspect.analysis.expected import APPEARED, PASSED, PASSING, SETTLED, WAITED
from kinspect.analysis.metrics import (
    BOUNDS_NS,
    BUCKETS,
    CLIENT_EXCHANGES,
    CONNECT_FAILURES,
    CONNECTIONS_ENDED,
    ERRORS,
    EXCHANGES,
    EXPECTED_WAIT,
    FETCH_WAIT,
    GAP_BYTES,
    GAPS,
    GROUP_EXCHANGES,
    LABEL_SHOWN,
    LAST_EXCHANGE,
    LATENCY,
    MESSAGE_BYTES,
    METRICS,
    NAMED_EXCHANGES,
    OTHER,
    OVERFLOW,
    PROBLEMS,
    SERVICE,
    THROTTLE,
    TOPIC_BYTES,
    TOPIC_ERRORS,
    TOPIC_RECORDS,
    UNANSWERED_REQUESTS,
    UNRESOLVED,
    VERSION_EXCHANGES,
    KafkaMetrics,
)
from kinspect.capture import open_timeline
from kinspect.durations import Durations
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine
from kinspect.pipeline import Inspector
from kinspect.protocol import schema
from kinspect.run import Run

EVERY_LINE = frozenset({"exchange", "connection", "gap"})
GROUP_APIS = {"OffsetCommit", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup"} | {
    f"{kind}GroupHeartbeat" for kind in ("Consumer", "Share", "Streams")
}


def lines_of(path):
    return Run(open_timeline([path]), Inspector(emit=EVERY_LINE)).all_lines()


def counted(*paths, **options):
    """The metrics of captures one after the other, as if they were a run each."""
    metrics = KafkaMetrics(**options)
    for path in paths:
        for line in lines_of(path):
            if isinstance(line, Exchange):
                metrics.add(line)
            elif isinstance(line, ConnectionLine):
                metrics.add_connection(line)
            else:
                metrics.add_gap(line)
    return metrics.result()


class Sums:
    """The same from lines, by other means."""

    def __init__(self):
        self.found = defaultdict(Counter)

    def take(self, line):
        {"exchange": self.exchange, "connection": self.connection, "gap": self.gap}[line["type"]](line)

    def connection(self, line):
        self.found[CONNECTIONS_ENDED][line["kind"], line["end_reason"]] += 1

    def gap(self, line):
        self.found[GAPS][(line["cause"],)] += 1
        self.found[GAP_BYTES][(line["cause"],)] += line["bytes"]

    def exchange(self, line):
        found, api = self.found, line["api"] or "unknown"
        found[EXCHANGES][api, line["outcome"]] += 1
        if line["outcome"] == "unanswered":
            found[UNANSWERED_REQUESTS][api, line["outcome_reason"]] += 1
        for direction in ("request", "response"):
            if line[direction]:
                found[MESSAGE_BYTES][api, direction] += line[direction]["size"] + 4
        body = (line["response"] or {}).get("body")
        for topic, code in errors(body):
            error = schema.error_name(code, line["api_key"])
            found[ERRORS][api, error] += 1
            if topic is not None:
                found[TOPIC_ERRORS][topic, error] += 1
        for problem in line["problems"]:
            found[PROBLEMS][(problem["code"],)] += 1
        found[THROTTLE][(api,)] += line["throttle_time_ms"] or 0
        self.times(line, api)
        for side in ("request", "response"):
            for topic, records in record_sets((line[side] or {}).get("body")):
                labels = topic, "produce" if api == "Produce" else "fetch"
                sizes = sum(batch["size"] for batch in records["batches"])
                found[TOPIC_BYTES][labels] += sizes + records["partial_bytes"]
                found[TOPIC_RECORDS][labels] += sum(batch["count"] or 0 for batch in records["batches"])
        client = line["client"]
        names = client["id"], client["software_name"], client["software_version"]
        found[CLIENT_EXCHANGES][tuple(name or "" for name in names)] += 1
        ends = client["name"], line["broker"]["name"]
        if any(ends):
            found[NAMED_EXCHANGES][tuple(name or "" for name in ends)] += 1
        if line["api_version"] is not None:
            found[VERSION_EXCHANGES][api, str(line["api_version"])] += 1
        if api in GROUP_APIS:
            for group in line["groups"]:
                found[GROUP_EXCHANGES][group, api] += 1

    def times(self, line, api):
        service = line["service_ms"]
        if service is None:
            return
        self.duration(SERVICE, api, service)
        self.duration(LATENCY, api, line["latency_ms"])
        if line["wait"] in ("long_poll", "group_wait"):
            self.duration(EXPECTED_WAIT, api, service)
        if api in ("Fetch", "ShareFetch") and line["record_count"] == 0:
            self.found[FETCH_WAIT][()] += round(max(service, 0) * 1e6)

    def duration(self, metric, api, milliseconds):
        nanoseconds = round(max(milliseconds, 0) * 1e6)
        bucket = sum(nanoseconds > bound * 1e9 for bound in BUCKETS)
        self.found[metric][api, bucket] += 1
        self.found[metric][api, "sum"] += nanoseconds


def name_of(struct, topic):
    """The topic of a struct, or of the one around it."""
    if "topic_id" in struct and struct["topic_id"] != "A" * 22:
        return struct.get("name") or struct.get("topic") or struct.get("topic_name_resolved") or UNRESOLVED
    return topic


def walk(body, topic, names):
    """Each struct with its topic; `names`: keys of names of topics."""
    if isinstance(body, list):
        for item in body:
            yield from walk(item, topic, names)
    elif isinstance(body, dict):
        topic = name_of(body, topic)
        topic = next((body[name] for name in names if isinstance(body.get(name), str)), topic)
        yield body, topic
        for value in body.values():
            yield from walk(value, topic, names)


def errors(body):
    for struct, topic in walk(body, None, ("topic", "topic_name", "name")):
        for key, value in struct.items():
            if (key == "error_code" or key.endswith("_error_code")) and value:
                yield topic, value


def record_sets(body):
    for struct, topic in walk(body, None, ("topic", "name")):
        for key in ("records", "record_set", "unaligned_records"):
            if isinstance(struct.get(key), dict):
                yield topic, struct[key]


def flat(series):
    """A series as `Sums` has it: buckets and sums of histograms beside each other, no zeros."""
    found = Counter()
    for labels, value in series.items():
        if isinstance(value, Durations):
            for bucket, count in enumerate(value.counts):
                found[(*labels, bucket)] = count
            found[(*labels, "sum")] = value.total
        else:
            found[labels] = value
    return {labels: value for labels, value in found.items() if value}


@each_folder
def test_metrics_are_sums_over_the_lines(every_line, folder):
    sums = Sums()
    paths = captures(folder)
    for path in paths:
        for line in every_line(path):
            if line["type"] in EVERY_LINE:
                sums.take(line)
    result = counted(*paths, detail=True, labels=10_000)
    for metric, expected in sums.found.items():
        found = result[metric.name]
        if metric == ERRORS:
            found = by_name(found)
        # Topics of errors need the layout: which names are topics.
        if metric != TOPIC_ERRORS:
            assert flat(found) == flat(expected), metric.name


def by_name(series):
    """Errors by API and name, expected or not."""
    found = Counter()
    for (api, error, _), count in series.items():
        found[api, error] += count
    return found


LATER = (PASSED, WAITED, SETTLED, APPEARED)
WITH_ERRORS = [
    CAPTURES / "4.4.0" / f"{name}.pcap.gz" for name in ("errors_java", "groups_classic", "txn_java")
]


@pytest.mark.parametrize("path", WITH_ERRORS, ids=lambda path: path.name)
def test_errors_are_expected_by_the_rules_of_the_answer(path):
    """But for what the answer alone knows: whether an error passed."""
    rows = kinspect.answer("errors", path)["rows"]
    passing = {schema.error_name(code, None) for row in PASSING if row.apis is None for code in row.codes}
    sure, rest, found = Counter(), Counter(), Counter()
    for row in (row for row in rows if row["code"] is not None):
        shown = sum(count for reason, count in row["expected_reasons"].items() if reason not in LATER)
        sure[row["api"], row["error"]] += shown
        rest[row["api"], row["error"]] += row["count"] - shown
    for (api, error, expected), count in counted(path)[ERRORS.name].items():
        assert expected in ("yes", "no", "if_it_passes")
        found[api, error, expected == "yes"] += count
        may_pass = expected == "if_it_passes"
        assert expected == "yes" or may_pass == (
            error in passing or (api, error) == ("Metadata", "UNKNOWN_TOPIC_OR_PARTITION")
        )
    assert +found == +Counter(
        {(*key, True): sure[key] for key in sure} | {(*key, False): rest[key] for key in rest}
    )
    assert found


def test_each_metric_is_among_the_sums():
    """But for one that has a test of its own, and those that are no sums over lines."""
    others = {TOPIC_ERRORS, CONNECT_FAILURES, LAST_EXCHANGE, OVERFLOW}
    names = {name for name, value in globals().items() if value in METRICS and value not in others}
    assert len(names) == len(METRICS) - len(others)
    used = {name for method in vars(Sums).values() if callable(method) for name in method.__code__.co_names}
    assert names <= used


def test_errors_of_topics_are_those_below_a_topic(lines):
    path = CAPTURES / "4.4.0" / "errors_java.pcap.gz"
    expected = Counter()
    for line in lines(path):
        for error in (line["response"] or {}).get("errors", []):
            step = re.match(r"(topics|responses)\[(\d+)\]", error["path"])
            if step is not None:
                topic = line["response"]["body"][step[1]][int(step[2])]
                name = topic.get("name") or topic.get("topic") or topic.get("topic_name_resolved")
                expected[name or UNRESOLVED, error["name"]] += 1
    assert len(expected) > 3
    assert counted(path)[TOPIC_ERRORS.name] == expected


SWEEP = CAPTURES / "0.10.2.2" / "sweep-B-produce-fetch-offsets.pcap"
MANY_TOPICS = CAPTURES / "4.4.0" / "codecs_librdkafka.pcap.gz"


def test_of_many_values_the_first_keep_their_series_and_the_others_share_one():
    whole, metrics = counted(MANY_TOPICS)[TOPIC_BYTES.name], KafkaMetrics(labels=2)
    assert len({topic for topic, _ in whole}) == 5
    before = {}
    for line in lines_of(MANY_TOPICS):
        if isinstance(line, Exchange):
            metrics.add(line)
            series = metrics.result()[TOPIC_BYTES.name]
            assert all(series[labels] >= value for labels, value in before.items())
            before = series
    kept = {topic for topic, _ in before} - {OTHER}
    assert len(kept) == 2
    for labels, value in before.items():
        assert labels[0] == OTHER or value == whole[labels]
    assert sum(before.values()) == sum(whole.values())
    overflow = metrics.result()[OVERFLOW.name]
    assert overflow[("topic",)] > 3
    assert set(overflow) == {("topic",), ("error",)}


def test_brokers_are_told_apart_if_asked_for():
    plain, apart = counted(SWEEP), counted(SWEEP, brokers=True)
    for metric in (EXCHANGES, ERRORS, UNANSWERED_REQUESTS):
        sums = Counter()
        for labels, value in apart[metric.name].items():
            assert re.fullmatch(r"[\d.]+:\d+", labels[-1])
            sums[labels[:-1]] += value
        assert sums == plain[metric.name]
    assert {len(labels) for labels in apart[SERVICE.name]} == {2}
    assert apart[TOPIC_BYTES.name] == plain[TOPIC_BYTES.name]
    assert KafkaMetrics(brokers=True).labels_of(EXCHANGES) == ("api", "outcome", "broker")
    assert KafkaMetrics(brokers=True).labels_of(TOPIC_BYTES) == ("topic", "direction")


def test_what_nobody_asked_for_is_not_there():
    assert {metric.name for metric in METRICS} - set(counted(SWEEP)) == {
        metric.name for metric in METRICS if metric.detail
    }


def test_long_values_are_cut():
    (exchange, *_) = (line for line in lines_of(SWEEP) if isinstance(line, Exchange))
    exchange.client_id = "x" * 30_000
    metrics = KafkaMetrics(detail=True)
    metrics.add(exchange)
    ((client, *_),) = metrics.result()[CLIENT_EXCHANGES.name]
    assert client == "x" * (LABEL_SHOWN - 1) + "…"


def test_a_result_stays_as_it_is():
    metrics = KafkaMetrics()
    exchanges = [line for line in lines_of(SWEEP) if isinstance(line, Exchange)]
    metrics.add(exchanges[0])
    before = metrics.result()
    kept = {name: flat(series) for name, series in before.items()}
    for exchange in exchanges[1:]:
        metrics.add(exchange)
    assert {name: flat(series) for name, series in before.items()} == kept
    assert metrics.result()[EXCHANGES.name] != before[EXCHANGES.name]


def test_the_last_exchange_is_the_one_that_completed_last():
    exchanges = [line for line in lines_of(SWEEP) if isinstance(line, Exchange)]
    latest = max(exchange.completed_at for exchange in exchanges)
    assert counted(SWEEP)[LAST_EXCHANGE.name] == {(): latest}


def test_durations():
    durations = Durations(BOUNDS_NS)
    for ns in (-5, 0, 500_000, 500_001, 30_000_000_000, 30_000_000_001):
        durations.add(ns)
    assert durations.counts == [3, 1, *[0] * 12, 1, 1]
    assert durations.total == 60_001_000_002
