"""A receiver of OTLP over HTTP, which parses what it gets with OpenTelemetry's own protocol."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {
    "/v1/logs": ExportLogsServiceRequest,
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
}


class Collector:
    """`url`: where it listens; `status`: what it answers; `requests`: what it took, by path."""

    def __init__(self):
        self.status = 200
        self.requests = {path: [] for path in KINDS}
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if collector.status == 200:
                    collector.requests[self.path].append(KINDS[self.path].FromString(body))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def scopes(self, path, name):
        """What instrumentation scopes gave: pairs of the schema's URL and an item of the list `name`."""
        for request in self.requests[path]:
            for resource in getattr(request, f"resource_{name}"):
                yield from getattr(resource, f"scope_{name}")

    def logs(self):
        return [record for scope in self.scopes("/v1/logs", "logs") for record in scope.log_records]

    def spans(self):
        return [span for scope in self.scopes("/v1/traces", "spans") for span in scope.spans]

    def metrics(self):
        return [metric for scope in self.scopes("/v1/metrics", "metrics") for metric in scope.metrics]


def value(any_value):
    """A value of OTLP as Python has it."""
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value(item) for item in any_value.array_value.values]
    return getattr(any_value, kind)


def attributes(item):
    return {attribute.key: value(attribute.value) for attribute in item.attributes}
