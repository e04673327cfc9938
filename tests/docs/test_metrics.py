"""The page of metrics, the dashboard and the rules name the metrics that there are."""

import json
import re
import shutil
import subprocess

import pytest
from console_blocks import ROOT

from kinspect.analysis.metrics import BUCKETS, COUNTER, GAUGE, HISTOGRAM, LABELS, METRICS
from kinspect.cli.ownmetrics import HEALTH
from kinspect.model import LIMITS

PAGE = ROOT / "docs" / "metrics.md"
GRAFANA = ROOT / "docs" / "grafana"
RULES = GRAFANA / "kinspect.rules.yml"
DASHBOARD = json.loads((GRAFANA / "kinspect.json").read_text("utf-8"))
ALL = {metric.name: metric for metric in (*METRICS, *HEALTH.values())}
NAME = re.compile(r"\b(?:kinspect_|process_)\w+")
RECORDED = re.compile(r"\bkinspect:\w+:\w+")
# `by (api, le)`, `{{api}}`
BY = re.compile(r"\bby \(([^)]*)\)")
SELECTED = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
SERVERS = {"job", "instance", "le"}
PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"}


def exposed():
    """Names of samples."""
    for name, metric in ALL.items():
        if metric.kind == HISTOGRAM:
            yield from (f"{name}_{part}" for part in ("bucket", "count", "sum"))
        else:
            yield name
    yield from PROCESS
    yield from (f"kinspect_capture_{name}" for name in PROCESS)


def expressions():
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"], []
    for rule in RULES.read_text("utf-8").split("- record:")[1:]:
        yield rule.partition("- alert:")[0].partition("expr:")[2], []
    for rule in RULES.read_text("utf-8").split("- alert:")[1:]:
        expression = (
            rule.partition("expr:")[2].partition("\n        for:")[0].partition("\n        labels:")[0]
        )
        yield expression, re.findall(r"\$labels\.(\w+)", rule)


def rows():
    """The rows of the tables of metrics."""
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("`kinspect_"):
            yield cells


def test_the_page_has_every_metric_as_it_is():
    told = {}
    for name, kind, labels, about in rows():
        own, _, broker = labels.partition("; ")
        told[name.strip("`")] = (
            kind,
            tuple(filter(None, (own if own != "*broker*" else "").split(", "))),
            "*broker*" in (own, broker),
            about.startswith("*detail.*"),
        )
    assert told == {
        name: (metric.kind, metric.labels, metric.of_broker, metric.detail) for name, metric in ALL.items()
    }
    assert {kind for kind, *_ in told.values()} == {COUNTER, GAUGE, HISTOGRAM}


def test_the_page_has_the_numbers_of_the_code():
    text = " ".join(PAGE.read_text("utf-8").split())
    *most, last = [f"{bound:g}" for bound in BUCKETS]
    assert f"{', '.join(most)} and {last} seconds" in text
    assert f"the first {LABELS} have series of their own" in text


def test_limits_are_those_of_the_page_of_limits():
    """Limits on waiting are counted elsewhere, and no live capture sorts."""
    page = (ROOT / "docs" / "security.md").read_text("utf-8")
    limits = page.partition("## Limits\n")[2].partition("\n## ")[0]
    options = set(re.findall(r"^\| `(\w+)` \|", limits, re.MULTILINE))
    waiting = {name for name in options if name.endswith("_ns")} | {"reorder_packets"}
    told = limits.partition("What was added last")[2].partition("`read --sort`")[0]
    others = set(re.findall(r"`(\w+)`", told)) - options - {"caps_hit"}
    assert set(LIMITS) == (options - waiting) | others


def test_what_dashboard_and_rules_name_is_there():
    recorded = set(re.findall(r"record: (\S+)", RULES.read_text("utf-8")))
    assert recorded
    named, used = set(), set()
    for expression, _ in expressions():
        named |= {name for name in NAME.findall(expression) if not name.startswith("kinspect_build")}
        used |= set(RECORDED.findall(expression))
    assert named <= set(exposed())
    assert used <= recorded
    # A dashboard shows all there is.
    shown = " ".join(target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ()))
    missing = {name for name, metric in ALL.items() if name not in shown} - {
        "kinspect_kafka_service_duration_seconds"
    }
    assert missing == set()


def test_labels_in_dashboard_and_rules_are_there():
    labels = {label for metric in ALL.values() for label in metric.labels} | SERVERS
    for expression, told in expressions():
        asked = {label.strip() for group in BY.findall(expression) for label in group.split(",")}
        asked |= set(SELECTED.findall(expression)) | set(told)
        assert asked <= labels, expression


def test_panels_do_not_overlap():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


@pytest.mark.tools
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "kinspect.rules.yml"),
        ("check", "config", "prometheus.yml"),
        ("test", "rules", "kinspect.rules.test.yml"),
    ],
)
def test_promtool_agrees(arguments):
    if shutil.which("promtool") is None:
        pytest.fail("needs the program promtool (package prometheus)")
    result = subprocess.run(
        ["promtool", *arguments], cwd=GRAFANA, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.tools
def test_every_alert_is_tested():
    text = (GRAFANA / "kinspect.rules.test.yml").read_text("utf-8")
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text("utf-8"))
    untested = {alert for alert in alerts if f"alertname: {alert}" not in text}
    assert untested == set()
