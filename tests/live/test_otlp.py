"""What a collector gets of a live run itself: its `stats` and `summary`, and the metrics of its health."""

import json

import pytest
from output.collector import Collector, attributes

from kinspect.analysis.metrics import COUNTER
from kinspect.cli.otlpmetrics import dotted
from kinspect.cli.ownmetrics import HEALTH
from kinspect.model import LIMITS

from .loopback import free_port, talk

pytestmark = [pytest.mark.tools, pytest.mark.usefixtures("root")]


@pytest.fixture
def collector(root):
    made = Collector()
    yield made
    made.close()


def test_a_collector_hears_of_drops_and_lag(live, collector):
    port = free_port()
    options = ("--emit", "exchange,stats,summary", "--stats-interval", "200ms")
    with live("-i", "lo", "--port", port, *options, "--otlp", collector.url) as running:
        talk(port, 5)
        out, _ = running.end()
        assert running.process.returncode == 0
    lines = [json.loads(line) for line in out.splitlines()]
    for kind in ("stats", "summary"):
        sent = [attributes(record) for record in collector.logs() if record.event_name == f"kinspect.{kind}"]
        (*_, last) = written = [line for line in lines if line["type"] == kind]
        assert len(sent) == len(written) > 0
        for key in ("event_id", "kernel_drops", "queue_drops", "captured_packets", "exchanges"):
            assert sent[-1][f"kinspect.{key}"] == last[key]
    *_, stats, summary = lines
    assert (stats["type"], summary["type"]) == ("stats", "summary")
    newest = {
        metric.name: metric
        for metric in collector.requests["/v1/metrics"][-1].resource_metrics[0].scope_metrics[0].metrics
    }
    own = {dotted(metric.name): metric.kind for metric in HEALTH.values()}
    assert own.keys() <= newest.keys()
    for name, kind in own.items():
        assert newest[name].WhichOneof("data") == ("sum" if kind == COUNTER else "gauge")
    limits = newest["kinspect.limits.hit"].sum.data_points
    assert {attributes(point)["limit"]: point.as_int for point in limits} == dict.fromkeys(LIMITS, 0)
    (packets,) = newest["kinspect.capture.packets"].sum.data_points
    assert (attributes(packets), packets.as_int) == ({"interface": "lo"}, summary["captured_packets"])
    dropped = newest["kinspect.capture.dropped.packets"].sum.data_points
    assert sum(point.as_int for point in dropped) == summary["kernel_drops"] + summary["queue_drops"]
