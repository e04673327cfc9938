"""`--otlp`: what a collector gets, and what is told of what it does not get."""

import importlib
import json
import logging
import pkgutil
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace

import cramjam
import opentelemetry.semconv._incubating.attributes as incubating
import opentelemetry.semconv.attributes as stable
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.schemas import Schemas
from output.collector import Collector, attributes
from support.pcap import Conversation, framed, pcap
from support.recordsets import ZSTD, batch, records
from support.shares import one_in

from kinspect.analysis.metrics import COUNTER, METRICS
from kinspect.analysis.traceparents import MOST_PARENTS
from kinspect.cli.otlpmetrics import dotted, unit_of
from kinspect.cli.ownmetrics import HEALTH
from kinspect.kafka.view.view import iso_time
from kinspect.output.linefacts import message
from kinspect.output.operations import SETS, Operations
from kinspect.output.otlp import ExportErrors, Sender, Telemetry
from kinspect.output.semconv import (
    ATTRIBUTES,
    BOOL,
    CONVENTIONS,
    DOUBLE,
    INT,
    OPERATIONS,
    TEXT,
    TEXTS,
    AttributeNames,
    Severity,
    characters,
)
from kinspect.protocol import Message, encode_request, encode_response

CAPTURES = Path(__file__).parents[2] / "captures"
FOLDERS = one_in(4, [CAPTURES / name for name in ("0.10.0.1", "4.4.0", "2.8.2", "tls")])
PRODUCED = CAPTURES / "4.1.2"
ERRORS = CAPTURES / "4.4.0/errors_java.pcap.gz"
NANO = CAPTURES / "4.4.0/nano.pcap"
TYPES = {TEXT: str, INT: int, DOUBLE: float, BOOL: bool}
INFO, WARN, ERROR = 9, 13, 17


@pytest.fixture
def collector(monkeypatch):
    # It leaves out what it told a little before, in another test.
    monkeypatch.setattr(
        logging.getLogger("opentelemetry.exporter.otlp.proto.http._log_exporter"), "filters", []
    )
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def send(kinspect, collector):
    """Reads captures and sends them; gives what was told."""
    command = ["read", "--format", "none", "--otlp", collector.url]
    return lambda *arguments: kinspect(*command, *arguments)


def read(kinspect, *arguments):
    return [json.loads(line) for line in kinspect("read", "-q", *arguments).out.splitlines()]


def captures(folder):
    keys = sorted(folder.glob("*keys*"))
    assert list(folder.glob("*.pcap*")), folder
    return [*(["--keylog", keys[0]] if keys else []), *sorted(folder.glob("*.pcap*"))]


def expected(line):
    """Some of the attributes, made of the line in another way."""
    produced = line["api"] in ("Produce", "Fetch", "ShareFetch")
    side = line["request"] or line["response"]
    found = {
        "messaging.system": "kafka",
        "messaging.operation.type": {
            "send": "send",
            "poll": "receive",
            "commit": "settle",
            "ack": "settle",
        }.get(
            {"Produce": "send", "Fetch": "poll", "ShareFetch": "poll", "OffsetCommit": "commit"}.get(
                line["api"]
            )
            or {"TxnOffsetCommit": "commit", "ShareAcknowledge": "ack"}.get(line["api"])
        ),
        "messaging.destination.name": line["topics"][0] if len(line["topics"]) == 1 else None,
        "messaging.destination.partition.id": line["partitions"][0].split("-")[-1]
        if len(line["partitions"]) == 1
        else None,
        "messaging.consumer.group.name": line["groups"][0] if len(line["groups"]) == 1 else None,
        "messaging.client.id": line["client"]["id"],
        "messaging.batch.message_count": line["record_count"] if produced else None,
        "server.address": line["broker"]["ip"],
        "server.port": line["broker"]["port"],
        "client.address": line["client"]["ip"],
        "client.port": line["client"]["port"],
        "network.transport": "tcp",
        "enduser.id": line["client"]["principal"],
        "kinspect.api.key": line["api_key"],
        "kinspect.api.name": line["api"],
        "kinspect.outcome": line["outcome"],
        "kinspect.service_time_ms": line["service_ms"],
        "kinspect.topics": line["topics"] or None,
        "kinspect.connection_id": line["connection_id"],
        "kinspect.frames.first": side["frames"]["first"],
    }
    return {name: value for name, value in found.items() if value is not None}


def test_names_are_those_of_the_conventions():
    known = {
        value
        for package in (incubating, stable)
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        for name, value in vars(importlib.import_module(module.name)).items()
        if name.isupper() and isinstance(value, str)
    }
    own = {attribute.name for attribute in ATTRIBUTES}
    assert {name for name in own - known if not name.startswith("kinspect.")} == set()
    # The oldest package knows of older ones alone.
    assert CONVENTIONS["1.44"].schema_url == next(iter(Schemas)).value.rpartition("/")[0] + "/1.44.0"
    assert CONVENTIONS["1.45"].renamed.keys() <= own


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_line_is_a_log_record(kinspect, collector, send, folder):
    told = send(*captures(folder))
    lines, records = read(kinspect, *captures(folder)), collector.logs()
    assert told.status == 0
    assert f"otlp: {len(lines):,} log records delivered\n" in told.err
    assert [(iso_time(record.time_unix_nano) if record.time_unix_nano else None) for record in records] == [
        line["timestamp"] for line in lines
    ]
    kinds = {attribute.name: attribute.type for attribute in ATTRIBUTES}
    for line, record in zip(lines, records, strict=True):
        found = attributes(record)
        assert found.keys() <= kinds.keys()
        assert expected(line).items() <= found.items()
        for name, value in found.items():
            if kinds[name] == TEXTS:
                assert value
                assert all(isinstance(item, str) for item in value)
            else:
                assert type(value) is TYPES[kinds[name]], name
        assert record.event_name == "kinspect.exchange"
        assert record.observed_time_unix_nano > record.time_unix_nano
        assert record.body.string_value.startswith(line["api"] or ("API", "response"))
        assert len(record.body.string_value) <= 256
        assert record.severity_text == Severity(record.severity_number).name
    assert {scope.schema_url for scope in collector.scopes("/v1/logs", "logs")} == {
        "https://opentelemetry.io/schemas/1.44.0"
    }


def test_the_names_of_the_newer_conventions(collector, send):
    send("--semconv", "1.45", NANO)
    found = [attributes(record) for record in collector.logs()]
    assert all(each["messaging.system.name"] == "kafka" for each in found)
    assert any("kafka.offset" in each for each in found)
    assert not any("messaging.system" in each or "messaging.kafka.offset" in each for each in found)
    assert {scope.schema_url for scope in collector.scopes("/v1/logs", "logs")} == {
        "https://opentelemetry.io/schemas/1.45.0"
    }


def test_offsets_are_those_that_the_broker_told(kinspect, collector, send):
    send(NANO)
    told = [attributes(record) for record in collector.logs()]
    seen = 0
    for line, found in zip(read(kinspect, NANO), told, strict=True):
        offsets = []
        for response in line["response"]["body"].get("responses", []):
            for partition in response.get("partition_responses", []):
                offsets.append(partition["base_offset"])
            for partition in response.get("partitions", []) if line["api"] == "Fetch" else []:
                offsets += [
                    batch["base_offset"] for batch in (partition["records"] or {"batches": []})["batches"]
                ]
        assert found.get("messaging.kafka.offset") == (offsets[0] if len(offsets) == 1 else None)
        seen += len(offsets)
    assert seen


def test_severities(kinspect, collector, send):
    send(ERRORS)
    found = set()
    for line, record in zip(read(kinspect, ERRORS), collector.logs(), strict=True):
        errors = line["response"]["errors"] if line["response"] else []
        if errors:
            level = WARN if all(error["retriable"] for error in errors) else ERROR
            assert attributes(record)["error.type"] == line["error_names"][0]
        else:
            level = WARN if line["throttle_time_ms"] else INFO
        assert record.severity_number == level
        found.add(level)
    assert found == {INFO, WARN, ERROR}


def test_lines_of_other_types_are_records_too(kinspect, collector):
    path = next(path for path in sorted(CAPTURES.rglob("*.pcap*")) if read(kinspect, "--emit", "gap", path))
    arguments = ["--emit", "exchange,connection,gap", path]
    lines = read(kinspect, "--otlp", collector.url, *arguments)
    found = defaultdict(list)
    for record in collector.logs():
        found[record.event_name].append(attributes(record))
    for kind in ("exchange", "connection", "gap"):
        assert len(found[f"kinspect.{kind}"]) == sum(line["type"] == kind for line in lines) > 0
    line = next(line for line in lines if line["type"] == "gap")
    assert found["kinspect.gap"][0]["kinspect.bytes"] == line["bytes"]
    assert found["kinspect.gap"][0]["kinspect.cause"] == line["cause"]


def test_the_summary_is_a_record_with_all_its_numbers(kinspect, collector):
    path = CAPTURES / "4.4.0" / "raw.pcap.gz"
    *_, line = read(kinspect, "--otlp", collector.url, "--emit", "exchange,summary", path)
    (record,) = [record for record in collector.logs() if record.event_name == "kinspect.summary"]
    shown = attributes(record)
    assert (record.severity_number, record.body.string_value) == (INFO, message(line))
    assert iso_time(record.time_unix_nano) == line["timestamp"]
    numbers = {key: value for key, value in line.items() if isinstance(value, int | float)}
    left_out = {"schema_version", "line_truncated"}
    assert {key: shown[f"kinspect.{key}"] for key in numbers.keys() - left_out} == {
        key: value for key, value in numbers.items() if key not in left_out
    }
    listed = [key for key, value in line.items() if isinstance(value, list) and value and key != "files"]
    assert listed
    for key in listed:
        assert json.loads(shown[f"kinspect.{key}"]) == line[key]


def test_without_being_asked_for_the_summary_is_not_sent(send, collector):
    send(NANO)
    assert {record.event_name for record in collector.logs()} == {"kinspect.exchange"}


def test_lines_are_the_same_beside_it(kinspect, collector):
    for name in ("jsonl", "table", "detail"):
        arguments = ["--format", name, "--utc", ERRORS]
        alone = kinspect("read", *arguments)
        beside = kinspect("read", "--otlp", collector.url, *arguments)
        assert beside.out == alone.out
        assert beside.err.startswith(alone.err)


def test_filters_and_limits_hold(kinspect, collector):
    kinspect("read", "-q", "--otlp", collector.url, "--api", "Produce", "--limit", "2", ERRORS)
    assert [attributes(record)["kinspect.api.name"] for record in collector.logs()] == ["Produce"] * 2


def test_spans_of_what_failed_and_of_a_sample_of_connections(kinspect, collector, send):
    lines = read(kinspect, ERRORS)
    failed = [line for line in lines if line["error_codes"]]
    none = send("--otlp-signals", "spans", "--otlp-sample", "0", ERRORS)
    assert len(collector.spans()) == len(failed) > 0
    assert f"otlp: {len(lines) - len(failed):,} exchanges without a span: not in the sample" in none.err
    assert collector.logs() == []
    assert {span.status.code for span in collector.spans()} == {Status.STATUS_CODE_ERROR}
    collector.requests["/v1/traces"].clear()
    send("--otlp-signals", "spans", "--otlp-sample", "0.5", ERRORS)
    found = [attributes(span)["kinspect.connection_id"] for span in collector.spans() if not span.status.code]
    half = {*found}
    assert 0 < len(half) < len({line["connection_id"] for line in lines})
    # A connection is in the sample or not.
    answered = [line["connection_id"] for line in lines if not line["error_codes"]]
    assert sorted(found) == sorted(name for name in answered if name in half)
    collector.requests["/v1/traces"].clear()
    send("--otlp-signals", "spans", "--otlp-sample", "1", ERRORS)
    assert len(collector.spans()) == len(lines)


def test_a_span_is_an_exchange(kinspect, collector, send):
    send("--otlp-signals", "spans", "--otlp-sample", "1", ERRORS)
    traces = defaultdict(set)
    for line, span in zip(read(kinspect, ERRORS), collector.spans(), strict=True):
        assert (iso_time(span.start_time_unix_nano), iso_time(span.end_time_unix_nano)) == (
            line["timestamp"],
            line["completed_at"],
        )
        assert span.kind == Span.SPAN_KIND_CLIENT
        assert not span.parent_span_id
        assert expected(line).items() <= attributes(span).items()
        operation = OPERATIONS.get(line["api"])
        if operation is None:
            assert span.name == line["api"]
        else:
            topics = line["topics"] if len(line["topics"]) == 1 else []
            assert span.name == " ".join([operation.name, *topics])
        if line["error_names"]:
            assert (span.status.code, span.status.message) == (2, ", ".join(line["error_names"]))
        traces[line["connection_id"]].add(span.trace_id)
    assert all(len(ids) == 1 for ids in traces.values())
    assert len({id for ids in traces.values() for id in ids}) == len(traces)
    assert len({span.span_id for span in collector.spans()}) == len(collector.spans())


PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
INVALID = [
    *(
        b"",
        b"00",
        PARENT[:-1],
        PARENT + b"-x",
        PARENT + b"0",
        PARENT.upper(),
        b"ff" + PARENT[2:],
        b"0x" + PARENT[2:],
    ),
    *(
        PARENT[:3] + b"0" * 32 + PARENT[35:],
        PARENT[:36] + b"0" * 16 + PARENT[52:],
        PARENT.replace(b"-", b"_"),
    ),
]


def produced(talk, records, number):
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
    request = {"transactional_id": None, "acks": 1, "timeout_ms": 1, "topic_data": topics}
    talk.client_sends(framed(encode_request(Message(0, 3, number, request, "app"))))
    talk.broker_sends(
        framed(encode_response(Message(0, 3, number, {"responses": [], "throttle_time_ms": 0})))
    )


def fetched(talk, records, number):
    request = {"max_wait_ms": 1, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
    talk.client_sends(framed(encode_request(Message(1, 4, number, request, "app"))))
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 1, "records": records}
    body = {"throttle_time_ms": 0, "responses": [{"topic": "orders", "partitions": [partition]}]}
    talk.broker_sends(framed(encode_response(Message(1, 4, number, body))))


@pytest.mark.parametrize("way", [produced, fetched])
def test_spans_link_to_those_that_headers_of_records_name(send, collector, tmp_path, way):
    parents = [PARENT.replace(b"b7ad", b"%04x" % number) for number in range(200)]
    sets = [
        batch(records([b"v"] * 3, [(b"traceparent", PARENT), (b"other", parents[7])]), 3),
        batch(
            bytes(cramjam.zstd.compress(records([b"v"], [(b"traceparent", each) for each in parents[:2]]))),
            1,
            ZSTD,
        ),
        batch(records([b"v"], [(b"traceparent", each) for each in INVALID]), 1),
        batch(records([b"traceparent"]), 1),
        batch(records([b"v"], [(b"traceparent", b"01" + PARENT[2:-2] + b"00-later")]), 1),
        batch(records([b"v"], [(b"traceparent", each) for each in parents]), 1),
    ]
    talk = Conversation()
    talk.open()
    for number, records_set in enumerate(sets, 1):
        way(talk, records_set, number)
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(talk.packets))
    send("--otlp-signals", "spans", "--otlp-sample", "1", path)
    spans = sorted(collector.spans(), key=lambda span: span.start_time_unix_nano)
    found = [[(link.trace_id.hex(), link.span_id.hex()) for link in span.links] for span in spans]
    trace = PARENT[3:35].decode()

    def links(*headers):
        return [(trace, each[36:52].decode()) for each in headers]

    assert found == [
        links(PARENT),
        links(*parents[:2]),
        [],
        [],
        links(PARENT),
        links(*parents[:MOST_PARENTS]),
    ]


def test_users_are_left_out_of_what_is_sent(send, collector):
    options = "--format", "jsonl", "--emit", "exchange,connection", CAPTURES / "4.4.0/sasl_plain.pcap.gz"
    send(*options)
    assert "alice" in str(collector.requests)
    assert {record.event_name for record in collector.logs()} == {"kinspect.exchange", "kinspect.connection"}
    collector.requests["/v1/logs"].clear()
    collector.requests["/v1/metrics"].clear()
    send("--no-users", *options)
    assert collector.logs()
    assert "alice" not in str(collector.requests)


def test_the_resource_is_made_without_what_other_packages_register(monkeypatch):
    """They would be looked for, loaded and run, in threads, where rights were just given up."""
    monkeypatch.setenv("OTEL_EXPERIMENTAL_RESOURCE_DETECTORS", "process,os,host,*")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=other")
    found = Telemetry(AttributeNames("1.45"), "1.2.3").resource
    names = ("service.name", "service.version", "deployment.environment.name", "telemetry.sdk.name")
    assert [found.attributes[name] for name in names] == ["kinspect", "1.2.3", "test", "opentelemetry"]
    more = {"telemetry.sdk.language", "telemetry.sdk.version", "service.instance.id", "host.name"}
    assert set(found.attributes) == {*names, *more}
    assert found.schema_url == CONVENTIONS["1.45"].schema_url


LATE = """
import sys
import kinspect
from kinspect.cli.preload import preload

url, capture = sys.argv[1:]
exchanges = list(kinspect.read(capture))
values = {"otlp": url, "otlp_signals": "logs,metrics,spans", "otlp_sample": 1.0, "semconv": None}
given = {"explore": False, "records_only": False, "schema_registry": None, "metrics": None, "format_name": "none"}
preload({**values, **given})
before = set(sys.modules)
from kinspect.cli.otlpoptions import make_otlp
from kinspect.cli.otlpsink import OtlpSink
from kinspect.sink import RunInput

sink = OtlpSink(make_otlp(values, frozenset()), True, False)
for exchange in exchanges:
    sink.take(exchange)
assert sink.close(RunInput([], [], True, None)).status == 0
print(*sorted(set(sys.modules) - before))
"""


def test_nothing_is_loaded_once_rights_are_given_up(collector):
    url = collector.url.replace("127.0.0.1", "localhost")
    found = subprocess.run(
        [sys.executable, "-c", LATE, url, NANO], capture_output=True, check=True, text=True
    )
    assert collector.logs()
    assert collector.spans()
    assert found.stdout.split() == [], "loaded too late: name them in PRELOADS of kinspect/cli/preload.py"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def points(collector):
    """The values of the last state of each metric, by its name and the attributes."""
    # On a busy machine a request that is sent again may arrive behind the next one.
    return max(map(state_of, collector.requests["/v1/metrics"]), key=taken_at)


def state_of(request):
    found = {}
    for metric in request.resource_metrics[0].scope_metrics[0].metrics:
        data = getattr(metric, metric.WhichOneof("data"))
        found[metric.name] = {tuple(sorted(attributes(p).items())): p for p in data.data_points}
    return found


def taken_at(state):
    return max(point.time_unix_nano for metric in state.values() for point in metric.values())


def test_metrics_are_sums_over_the_lines(kinspect, collector, send):
    paths = captures(PRODUCED)
    told = send("--otlp-signals", "metrics", *paths)
    # A slow machine sends more than the last one.
    assert re.search(r"otlp: \d+ states? of metrics delivered\n", told.err)
    lines, found = read(kinspect, *paths), points(collector)
    exchanges = Counter((line["api"] or "unknown", line["outcome"]) for line in lines)
    assert {
        tuple(value for _, value in key): point.as_int
        for key, point in found["kinspect.kafka.exchanges"].items()
    } == exchanges
    errors = Counter()
    for line in lines:
        for error in line["response"]["errors"] if line["error_count"] in range(1, 101) else ():
            errors[line["api"], error["name"]] += 1
    shown = Counter()
    for key, point in found["kinspect.kafka.errors"].items():
        shown[dict(key)["api"], dict(key)["error"]] += point.as_int
    assert {key: shown[key] for key in errors} == errors
    times = [line for line in lines if line["service_ms"] is not None]
    service = found["kinspect.kafka.service.duration"].values()
    assert sum(point.count for point in service) == len(times)
    assert sum(point.sum for point in service) == pytest.approx(
        sum(line["service_ms"] for line in times) / 1000
    )
    for point in service:
        assert sum(point.bucket_counts) == point.count
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
        assert not point.HasField("min")
    assert "kinspect.connections" in found


def test_metrics_of_the_conventions(kinspect, collector, send):
    send("--otlp-signals", "metrics", "--semconv", "1.45", *captures(PRODUCED), ERRORS)
    lines, found = read(kinspect, *captures(PRODUCED), ERRORS), points(collector)
    assert {name for name in found if not name.startswith("kinspect.")} == {
        messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION,
        messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES,
        messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES,
    }
    for name, apis in (("sent", ["Produce"]), ("consumed", ["Fetch", "ShareFetch"])):
        series = found[f"messaging.client.{name}.messages"]
        moved = sum(line["record_count"] or 0 for line in lines if line["api"] in apis)
        assert sum(point.as_int for point in series.values()) == moved > 0
    durations = found["messaging.client.operation.duration"]
    known = [line for line in lines if line["api"] in ("Produce", "Fetch", "ShareFetch")]
    assert sum(point.count for point in durations.values()) == sum(
        line["latency_ms"] is not None for line in known
    )
    names = {name for key in durations for name, _ in key}
    assert names == {
        *("messaging.system.name", "messaging.operation.name", "messaging.operation.type"),
        *("messaging.destination.name", "server.address", "server.port", "error.type"),
    }


def test_a_run_that_is_broken_off_tells_what_is_lost():
    command = [sys.executable, "-m", "kinspect", "read", ERRORS, "-q", "--otlp", "http://127.0.0.1:1"]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert ended.returncode == 1
    told = re.search(r"0 log records delivered, (\d+) lost, as the run was broken off", ended.stderr)
    assert told, ended.stderr
    assert int(told[1]) > 0


def test_each_signal_is_told_its_own_reason():
    """Logs and metrics are sent at the same time."""
    reasons, refused, begun = ExportErrors(), threading.Event(), threading.Event()

    class Refuses:
        def export(self, batch):
            logging.getLogger("opentelemetry").error("refused")
            refused.set()
            assert begun.wait(10)
            return SimpleNamespace(name="FAILURE")

    class Takes:
        def export(self, batch):
            begun.set()
            return SimpleNamespace(name="SUCCESS")

    def sender(exporter):
        made = Sender("logs", "http://127.0.0.1:1", reasons, threading.Event())
        made.exporter = exporter
        return made

    told = []
    sending = threading.Thread(target=lambda: told.append(sender(Refuses())([1])))
    sending.start()
    assert refused.wait(10)
    assert sender(Takes())([2]) is None
    sending.join()
    assert told == ["refused"]


def test_sets_of_attributes_are_bounded():
    counted = Operations()
    for number in range(SETS + 500):
        line = {"api": "Produce", "latency_ms": 1.0, "record_count": 2}
        counted.add(line, {"messaging.destination.name": f"topic-{number}"})
    for series in (counted.durations, counted.messages["messaging.client.sent.messages"]):
        assert len(series) == SETS + 1
        assert (("otel.metric.overflow", True),) in series
    assert sum(counted.messages["messaging.client.sent.messages"].values()) == 2 * (SETS + 500)
    assert sum(sum(each.counts) for each in counted.durations.values()) == SETS + 500


def test_texts_of_these_sets_are_bounded():
    counted = Operations()
    line = {"api": "Produce", "latency_ms": 1.0, "record_count": 2}
    counted.add(line, {"messaging.destination.name": "t" * 100_000, "server.port": 9092})
    ((name, port),) = counted.durations
    assert name == ("messaging.destination.name", "t" * 255 + "…")
    assert port == ("server.port", 9092)


def test_what_an_item_takes_of_the_queue_is_its_text():
    assert characters({"a": "xyz", "b": 5, "c": ["pq", "r"], "d": True, "e": 1.5, "f": [7]}) == 6


def test_names_are_those_of_prometheus_with_dots():
    metrics = [*METRICS, *HEALTH.values()]
    found = {metric.name: (dotted(metric.name), unit_of(metric.name)) for metric in metrics}
    assert len({name for name, _ in found.values()}) == len(metrics)
    assert found["kinspect_output_blocked_seconds_total"] == ("kinspect.output.blocked", "s")
    assert found.pop("kinspect_connections") == ("kinspect.connections.open", "{connection}")
    assert found["kinspect_kafka_service_duration_seconds"] == ("kinspect.kafka.service.duration", "s")
    assert found["kinspect_kafka_message_bytes_total"] == ("kinspect.kafka.message.bytes", "By")
    assert found["kinspect_kafka_exchanges_total"] == ("kinspect.kafka.exchanges", "{exchange}")
    # What a collector makes of it again: the unit and the kind at the end.
    for metric in metrics:
        if metric.name not in found:
            continue
        name, unit = found[metric.name]
        again = name.replace(".", "_") + ("_seconds" if unit == "s" else "")
        assert again + ("_total" if metric.kind == COUNTER else "") == metric.name


def test_metrics_go_while_the_run_goes_on(kinspect, collector, send, monkeypatch):
    monkeypatch.setattr("kinspect.cli.otlpsink.METRICS_SECONDS", 0.0)
    send("--otlp-signals", "metrics", *captures(PRODUCED), ERRORS)
    states = [
        sum(
            point.as_int
            for metric in request.resource_metrics[0].scope_metrics[0].metrics
            if metric.name == "kinspect.kafka.exchanges"
            for point in metric.sum.data_points
        )
        for request in collector.requests["/v1/metrics"]
    ]
    assert len(states) > 1
    assert states == sorted(states)
    assert states[-1] == len(read(kinspect, *captures(PRODUCED), ERRORS))


def test_a_collector_that_is_away_is_one_line_and_numbers_at_once(kinspect, monkeypatch):
    # The end waits for nothing: not for another try, nor for the time that a batch has.
    monkeypatch.setattr("kinspect.output.otlp.SEND_SECONDS", 3600.0)
    monkeypatch.setattr("kinspect.output.otlp.RETRY_SECONDS", 3600.0)
    monkeypatch.setattr("kinspect.output.sendqueue.ENDING_SECONDS", 3600.0)
    count = len(read(kinspect, ERRORS))
    url = f"http://user:hunter2@127.0.0.1:{free_port()}"
    signals = ("--otlp-signals", "logs,metrics,spans", "--otlp-sample", "1")
    found = kinspect("read", "--format", "none", "--otlp", url, *signals, ERRORS)
    assert found.status == 1
    shown = url.replace("user:hunter2@", "")
    lines = [line for line in found.err.splitlines() if line.startswith("kinspect: ")]
    assert lines == [f"kinspect: --otlp {shown}: Connection refused; what is not delivered is counted"]
    assert "hunter2" not in found.err
    assert "otlp: 0 states of metrics delivered, 1 lost\n" in found.err
    assert f"otlp: 0 log records delivered, {count:,} lost\n" in found.err


@pytest.mark.parametrize("begun", [False, True], ids=["at the end", "before the end"])
def test_a_collector_that_is_there_again_gets_what_is_tried_again(collector, monkeypatch, begun):
    monkeypatch.setattr("kinspect.output.otlp.RETRY_SECONDS", 3600.0 if begun else 0.01)
    monkeypatch.setattr("kinspect.output.otlp.SEND_SECONDS", 7200.0)
    ending, tried = threading.Event(), []
    send = Sender("logs", collector.url, ExportErrors(), ending)
    real = send.exporter.export

    def export(batch):
        collector.status = 200 if tried else 503
        tried.append(batch)
        result = real(batch)
        if begun:
            # Who waits for another try is woken for a last one.
            ending.set()
        return result

    send.exporter.export = export
    assert send([]) is None
    assert len(tried) == 2


def test_after_the_last_try_nothing_is_sent_to_who_is_away(collector):
    ending = threading.Event()
    ending.set()
    collector.status = 503
    send, begun = Sender("logs", collector.url, ExportErrors(), ending), time.monotonic()
    assert send([]) == "503 Service Unavailable"
    collector.status = 200
    assert send([]) == "503 Service Unavailable"
    assert not collector.requests["/v1/logs"]
    assert time.monotonic() - begun < 5


def test_a_collector_that_does_not_take_connections_holds_the_end_up_no_longer_than_told(monkeypatch):
    monkeypatch.setattr("kinspect.output.otlp.CONNECT_SECONDS", 0.2)
    ending = threading.Event()
    ending.set()
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
        send = Sender("logs", f"http://127.0.0.1:{port}", ExportErrors(), ending)
        assert send([]) == "no answer in time"
        for client in waiting:
            client.close()


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_a_collector_on_this_host_is_asked_without_a_proxy(collector, send, monkeypatch, name):
    monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    found = send(ERRORS)
    assert found.status == 0
    assert collector.logs()


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://localhost:4318", False),
        ("http://[::1]:4318", False),
        ("http://127.8.9.10", False),
        ("https://x.localhost", False),
        ("http://[::ffff:127.0.0.1]:1", False),
        ("http://10.0.0.1:4318", True),
        ("http://localhost.example:4318", True),
    ],
)
def test_which_collectors_are_on_this_host(url, asked):
    assert Sender("logs", url, ExportErrors(), threading.Event())._session.trust_env is asked


def test_a_collector_that_refuses_is_one_line_and_numbers(kinspect, collector, send):
    collector.status = 400
    found = send(ERRORS)
    assert found.status == 1
    assert found.err.count("kinspect: --otlp") == 1
    assert " code: 400" in found.err
    assert f"otlp: 0 log records delivered, {len(read(kinspect, ERRORS)):,} lost\n" in found.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--otlp", "127.0.0.1:4318"], "--otlp: give the collector's URL, as http://127.0.0.1:4318"),
        (["--otlp", "http://127.0.0.1:x"], "--otlp: give the collector's URL"),
        (["--otlp", "http://c:1", "--otlp-signals", "events"], "'events' is not one of logs"),
        (["--otlp", "http://c:1", "--otlp-sample", "2"], "2.0 is not in the range"),
    ],
)
def test_options_that_make_no_sense_are_one_line(kinspect, arguments, told):
    found = kinspect("read", *arguments, NANO)
    assert found.status == 2
    assert told in found.err


def test_messages_of_lines():
    line = {
        "type": "exchange",
        "kind": "kafka",
        "api": "Produce",
        "api_key": 0,
        "api_version": 13,
        "partitions": [f"orders-{n}" for n in range(5)],
        "topics": ["orders"],
        "groups": [],
        "transactional_ids": [],
        "error_names": ["MESSAGE_TOO_LARGE"],
        "outcome": "answered",
        "outcome_reason": None,
        "latency_ms": 1.171,
    }
    assert message(line) == "Produce v13 orders-0,orders-1,orders-2 +2 MESSAGE_TOO_LARGE 1.17 ms"
    other = {
        "api": None,
        "api_key": 999,
        "latency_ms": None,
        "outcome": "unanswered",
        "outcome_reason": "reset",
    }
    assert message(line | other).startswith("API 999 v13 ")
    assert message(line | other).endswith(" unanswered (reset)")
    hostile = message(line | {"partitions": [], "topics": ["\x1b[31m" + "x" * 500]})
    assert len(hostile) == 256
    assert hostile.isprintable()


def test_the_page_has_the_table():
    page = (CAPTURES.parent / "docs/otel.md").read_text()
    rows = re.findall(r"^\| `([a-z._]+)` \| (text|int|double|bool|list of text) \|", page, re.MULTILINE)
    assert rows == [(each.name, "list of text" if each.type == TEXTS else each.type) for each in ATTRIBUTES]
    for renamed in CONVENTIONS["1.45"].renamed.values():
        assert f"1.45: `{renamed}`" in page
