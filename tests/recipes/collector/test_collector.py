"""docs/recipes/otel: the collector takes all lines of all captures, from a file and by OTLP, with their times."""

import gzip
import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from recipes.collector.built import collector
from recipes.programs import running, wait_for_listener
from recipes.sums import nanoseconds
from support.captures import CAPTURES, captures
from support.waiting import wait_until

pytestmark = [pytest.mark.tools, pytest.mark.collector]


@contextmanager
def backend():
    """An OTLP receiver: its URL, and the log records and spans as they come."""
    logs, spans = [], []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/logs":
                scopes = [
                    resource.scope_logs
                    for resource in ExportLogsServiceRequest.FromString(body).resource_logs
                ]
                logs.extend(record for several in scopes for scope in several for record in scope.log_records)
            else:
                scopes = [
                    resource.scope_spans
                    for resource in ExportTraceServiceRequest.FromString(body).resource_spans
                ]
                spans.extend(span for several in scopes for scope in several for span in scope.spans)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", logs, spans
        server.shutdown()


def plain(value):
    """A value of OTLP as Python's own."""
    kind = value.WhichOneof("value")
    if kind == "kvlist_value":
        return {pair.key: plain(pair.value) for pair in value.kvlist_value.values}
    if kind == "array_value":
        return [*map(plain, value.array_value.values)]
    return None if kind is None else getattr(value, kind)


def in_order(line):
    """JSON with the keys in one order, as a collector keeps none."""
    return json.dumps(line, sort_keys=True)


@pytest.mark.parametrize("body", ["text", "none"])
def test_lines_as_log_records(lines_of, recipe, tmp_path, body):
    path = lines_of("--body", body)
    sent = [json.loads(line) for line in path.read_bytes().splitlines()]
    with backend() as (url, records, _):
        changes = {"/var/log/kinspect/kafka.jsonl": path, "http://backend.example.com:4318": url}
        configuration = tmp_path / "lines.yaml"
        configuration.write_text(recipe("otel/lines.yaml", changes))
        with running([collector(), "--config", configuration], tmp_path / "printed"):
            wait_until(lambda: len(records) >= len(sent))
    received = [plain(record.body) for record in records]
    assert sorted(map(in_order, received)) == sorted(map(in_order, sent))
    for record in records:
        time = plain(record.body)["timestamp"]
        assert time is None or record.time_unix_nano == nanoseconds(time)


def test_exchanges_by_otlp(lines_of_page, recipe, port, tmp_path):
    sent = [json.loads(line) for line in lines_of_page("--body", "none").read_bytes().splitlines()]
    with backend() as (url, logs, spans):
        changes = {"127.0.0.1:4318": f"127.0.0.1:{port}", "http://backend.example.com:4318": url}
        configuration = tmp_path / "otlp.yaml"
        configuration.write_text(recipe("otel/otlp.yaml", changes))
        with running([collector(), "--config", configuration], tmp_path / "printed"):
            wait_for_listener(port)
            options = ["--format", "none", "--otlp-signals", "logs,spans", "--otlp-sample", "1"]
            command = [sys.executable, "-m", "kinspect", "read", *captures(CAPTURES / "2.8.2"), *options]
            told = subprocess.run(
                [*command, "--otlp", f"http://127.0.0.1:{port}"], check=True, capture_output=True, text=True
            ).stderr
            wait_until(lambda: len(logs) >= len(sent) and len(spans) >= len(sent))
    assert "lost" not in told
    times = sorted(nanoseconds(line["timestamp"]) for line in sent)
    assert sorted(record.time_unix_nano for record in logs) == times
    assert sorted(span.start_time_unix_nano for span in spans) == times
