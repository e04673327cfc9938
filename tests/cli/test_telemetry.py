"""`kinspect telemetry`: the rows are what OpenTelemetry's library reads in the pushes of a capture."""

import csv
import json
from base64 import b64decode
from io import StringIO
from math import isnan
from pathlib import Path

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.pcap import Conversation, framed, pcap

from kinspect.analysis.telemetryrows import KEYS
from kinspect.kafka.view.view import View
from kinspect.output import Opening
from kinspect.output.telemetrytable import open_rows
from kinspect.protocol import Message, encode_request, encode_response
from kinspect.records.compression import decompress

CAPTURE = Path(__file__).parents[2] / "captures/4.3.1/telemetry.pcap.gz"
PUSHES = 13


@pytest.fixture
def rows(kinspect):
    def run(capture, *options):
        found = kinspect("telemetry", capture, "-q", "--format", "jsonl", *options)
        assert (found.status, found.err) == (0, "")
        return [json.loads(line) for line in found.out.splitlines()]

    return run


@pytest.fixture
def pushed(tmp_path):
    """A capture of pushes of these codecs and bytes, each with the error code of its answer."""

    def make(*pushes, **kept):
        talk = Conversation()
        talk.open()
        for number, (codec, data, error) in enumerate(pushes, 1):
            asked = {
                "client_instance_id": "rcXO3nYuSIG_vjFnULk3NA",
                "subscription_id": 7,
                "terminating": number == len(pushes),
                "compression_type": codec,
                "metrics": data,
            }
            talk.client_sends(framed(encode_request(Message(72, 0, number, asked, "app"))))
            answer = {"throttle_time_ms": 0, "error_code": error}
            talk.broker_sends(framed(encode_response(Message(72, 0, number, answer))))
        path = tmp_path / "pushed.pcap"
        path.write_bytes(pcap(talk.packets, **kept))
        return path

    return make


def of_library(kinspect):
    """Name, value and attributes of each point, and the client, as read by OpenTelemetry's library."""
    lines = kinspect("read", CAPTURE, "-q", "--format", "jsonl", "--api", "PushTelemetry").out.splitlines()
    for line in map(json.loads, lines):
        body = line["request"]["body"]
        data = decompress(body["compression_type"], b64decode(body["metrics"]), 1 << 20)
        for resource in MetricsData.FromString(data).resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    kind = metric.WhichOneof("data")
                    for point in getattr(metric, kind).data_points:
                        value = getattr(point, point.WhichOneof("value"))
                        shown = "NaN" if isnan(value) else value
                        # Values of Kafka's clients are texts and integers.
                        attributes = {
                            each.key: getattr(each.value, each.value.WhichOneof("value"))
                            for each in point.attributes
                        }
                        yield line["event_id"], line["client"]["id"], metric.name, kind, shown, attributes


def test_metrics_of_real_clients(kinspect, rows):
    found = rows(CAPTURE)
    metrics = [row for row in found if row["kind"] == "metric"]
    names = ("event_id", "client_id", "metric", "type", "value", "attributes")
    assert [tuple(row[name] for name in names) for row in metrics] == [*of_library(kinspect)]
    assert {row["client_id"] for row in metrics} == {"pc-tj", "pc-tck"}
    assert {row["software_name"] for row in metrics} == {"apache-kafka-java", "confluent-kafka-python"}
    assert {row["temporality"] for row in metrics if row["type"] == "sum"} == {"delta"}
    assert len({row["event_id"] for row in metrics}) == PUSHES
    assert all(row.keys() == {*KEYS} and row["problem"] is None for row in found)


def test_what_brokers_asked_for(rows):
    asked = [row for row in rows(CAPTURE) if row["kind"] == "subscription"]
    assert [row["asked"] for row in asked] == 2 * [
        {
            "metrics": ["*"],
            "push_interval_ms": 1000,
            "delta_temporality": True,
            "codecs": ["zstd", "lz4", "gzip", "snappy"],
            "max_bytes": 1048576,
        }
    ]
    pushes = {(row["client_id"], row["client_instance_id"]) for row in rows(CAPTURE, "--metric", "*")}
    assert {(row["client_id"], row["client_instance_id"]) for row in asked} == pushes


def test_filters_and_limit(kinspect, rows):
    found = rows(CAPTURE, "--metric", "*.records.*,!*.rate", "--client-id", "pc-tj")
    assert found
    assert all(".records." in row["metric"] and not row["metric"].endswith(".rate") for row in found)
    assert {row["client_id"] for row in found} == {"pc-tj"}
    assert len(rows(CAPTURE, "--limit", "3")) == 3
    named = [
        rows(CAPTURE, "--metric", f"{begin}producer.connection.*") for begin in ("", "org.apache.kafka.")
    ]
    assert named[0] == named[1] != []


def test_formats_have_the_same_rows(kinspect, rows):
    found = rows(CAPTURE)
    header, *lines = csv.reader(StringIO(kinspect("telemetry", CAPTURE, "-q", "--format", "csv").out))
    assert tuple(header) == KEYS
    assert [line[KEYS.index("metric")] for line in lines] == [row["metric"] or "" for row in found]
    table = kinspect("telemetry", CAPTURE, "-q", "--format", "table", "--utc").out.splitlines()
    assert len(table) == len(found) + 2
    assert all(len(line) <= 80 for line in table)


def test_a_table_does_not_hold_its_rows_until_the_end(rows):
    stream = StringIO()
    (row,) = rows(CAPTURE, "--metric", "*", "--limit", "1")
    table = open_rows(Opening(stream, View()), KEYS)
    for _ in range(1500):
        table.tell(row)
    begun = stream.getvalue()
    table.flush()
    assert begun.count("\n") == 1000
    assert stream.getvalue().count("\n") == 1502
    assert stream.getvalue().startswith(begun)


def test_pushes_without_metrics_and_of_none_have_a_row_each(kinspect, pushed):
    capture = pushed((0, b"", 0), (0, b"\x0a\x05abc", 0), (4, b"no zstd", 42), (-1, b"abc", 0), (0, b"", 0))
    found = kinspect("telemetry", capture)
    rows = [json.loads(line) for line in found.out.splitlines()]
    assert [
        (row["kind"], row["codec"], row["error"], row["terminating"], row["problem"]) for row in rows
    ] == [
        ("push", "none", None, False, None),
        ("push", "none", None, False, "is cut off, or no metrics of OTLP"),
        ("push", "zstd", "INVALID_REQUEST", False, "zstd: the compressed bytes are damaged or cut off"),
        ("push", "unknown_-1", None, False, "codec -1 has no meaning"),
        ("push", "none", None, True, None),
    ]
    assert found.err.endswith("pushes whose metrics could not be read, or not all of them: 3\n")


def test_a_push_that_was_not_captured_whole_says_so(rows, pushed):
    (row,) = rows(pushed((0, bytes(1000), 0), snap_length=300))
    assert (row["kind"], row["client_id"], row["problem"]) == (
        "push",
        "app",
        "the metrics were not captured whole, or cannot be decoded",
    )


def test_bodies_have_the_same_metrics(kinspect, rows):
    def points(*options):
        command = ("read", CAPTURE, "-q", "--format", "jsonl", "--api", "PushTelemetry", *options)
        for line in map(json.loads, kinspect(*command).out.splitlines()):
            for around in line["request"]["body"]["metrics_decoded"]:
                for metric in around["metrics"]:
                    for point in metric["points"]:
                        yield around["resource"], metric["metric"], point["attributes"], point["value"]

    names = ("resource", "metric", "attributes", "value")
    told = [tuple(row[name] for name in names) for row in rows(CAPTURE, "--metric", "*")]
    assert [*points()] == told
    assert [*points("--fields", "request.body.metrics_decoded")] == told
    paths = ("resource", "metrics.metric", "metrics.points.attributes", "metrics.points.value")
    assert [*points("--fields", ",".join(f"request.body.metrics_decoded.{each}" for each in paths))] == told
    texts = [value for *_, value in points("--int64", "string")]
    assert texts == [str(value) if type(value) is int else value for *_, value in told]


def test_a_body_that_is_no_metrics_has_only_bytes(kinspect, pushed):
    out = kinspect("read", pushed((0, b"\x0a\x05abc", 0), (0, b"", 0)), "-q", "--format", "jsonl").out
    bodies = [json.loads(line)["request"]["body"] for line in out.splitlines()]
    assert [body.get("metrics_decoded") for body in bodies] == [None, []]
    assert [body["metrics"] for body in bodies] == ["CgVhYmM=", ""]
