"""Lines of `--format ecs` fit the index template, and use ECS as it is meant."""

import json
import re
from ipaddress import ip_address
from pathlib import Path

import pytest
from support.hostile import EVIL
from support.shares import one_in

from kinspect.api import read
from kinspect.kafka.view.view import LINE_KEYS, View
from kinspect.output import ECS
from kinspect.output.ecs import EXCHANGE, KEYS, EcsTexts, _fields, _of, legacy_template, template
from kinspect.output.linefacts import MESSAGE_MOST

ROOT = Path(__file__).parents[2]
CAPTURES = sorted((ROOT / "captures").glob("*/*.pcap*"))
EVERY_TYPE = ["--emit", "exchange,connection,gap,summary"]
HEARTBEAT, PRODUCE = 12, 0

OF_ECS = {
    **dict.fromkeys(("@timestamp", "event.start", "event.end"), "date"),
    **dict.fromkeys(("message", "error.message"), "match_only_text"),
    **dict.fromkeys(("client.ip", "source.ip", "server.ip", "destination.ip", "related.ip"), "ip"),
    **dict.fromkeys(
        (
            *(
                "client.port",
                "source.port",
                "server.port",
                "destination.port",
                "client.bytes",
                "source.bytes",
            ),
            *(
                "process.pid",
                "server.bytes",
                "destination.bytes",
                "network.bytes",
                "network.packets",
                "event.duration",
            ),
        ),
        "long",
    ),
    "tls.established": "boolean",
    **dict.fromkeys(
        (
            *("ecs.version", "event.kind", "event.category", "event.type", "event.module", "event.dataset"),
            *("event.action", "event.outcome", "event.reason", "event.id", "event.original"),
            *("network.transport", "network.protocol", "network.type", "network.community_id"),
            *("client.address", "source.address", "server.address", "destination.address", "server.domain"),
            *(
                "client.domain",
                "source.domain",
                "process.name",
                "orchestrator.type",
                "orchestrator.namespace",
            ),
            *("orchestrator.resource.type", "orchestrator.resource.name"),
            *("destination.domain", "user.name", "related.user", "user_agent.name", "user_agent.version"),
            *("user_agent.original", "error.code", "error.type", "tls.version", "tls.version_protocol"),
            *(
                "tls.cipher",
                "tls.client.server_name",
                "observer.type",
                "observer.product",
                "observer.version",
            ),
            *("observer.hostname", "observer.ingress.interface.name", "file.path"),
        ),
        "keyword",
    ),
}
"""Keys of ECS 9 with their types there. Times are `date_nanos` here: a `date` has milliseconds."""

ALLOWED = {
    "event.kind": {"alert", "asset", "enrichment", "event", "metric", "state", "pipeline_error", "signal"},
    "event.category": {
        *("api", "authentication", "configuration", "database", "driver", "email", "file", "host", "iam"),
        *("intrusion_detection", "library", "malware", "network", "package", "process", "registry"),
        *("session", "threat", "vulnerability", "web"),
    },
    "event.type": {
        *("access", "admin", "allowed", "change", "connection", "creation", "deletion", "denied", "device"),
        *("end", "error", "group", "indicator", "info", "installation", "protocol", "start", "user"),
    },
    "event.outcome": {"failure", "success", "unknown"},
}
"""Allowed values of ECS 9 (elastic.co/docs/reference/ecs/ecs-category-field-values-reference)."""


def typed(mapping, prefix=""):
    """The types of a mapping by dotted path."""
    found = {}
    for name, entry in mapping["properties"].items():
        path = f"{prefix}{name}"
        found |= typed(entry, f"{path}.") if "properties" in entry else {path: entry["type"]}
    return found


TYPED = typed(template()["template"]["mappings"])


def leaves(value, prefix=""):
    """The values of a line, single ones and those of lists, each with its dotted path."""
    if isinstance(value, dict):
        assert value, f"{prefix} is empty"
        for name, below in value.items():
            yield from leaves(below, f"{prefix}.{name}" if prefix else name)
    elif isinstance(value, list):
        assert value, f"{prefix} is empty"
        for item in value:
            assert not isinstance(item, dict | list), prefix
            yield prefix, item
    else:
        yield prefix, value


FITS = {
    "date_nanos": lambda v: isinstance(v, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{9}Z", v),
    "keyword": lambda v: isinstance(v, str),
    "match_only_text": lambda v: isinstance(v, str),
    "long": lambda v: type(v) is int and -(2**63) <= v < 2**63,
    "boolean": lambda v: isinstance(v, bool),
    "ip": lambda v: isinstance(v, str) and ip_address(v),
}


def check(line):
    """What every line keeps."""
    for path, value in leaves(line):
        assert path in TYPED, f"{path} is not in the template"
        assert FITS[TYPED[path]](value), f"{path}: {value!r} is no {TYPED[path]}"
        assert value in ALLOWED.get(path, {value}), f"{path}: {value}"
    assert len(line["message"]) <= MESSAGE_MOST
    assert line["message"].isprintable()


@pytest.mark.parametrize("path", one_in(12, CAPTURES), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_line_of_every_capture_fits_the_template(kinspect, every_line, path):
    out = kinspect("read", "-q", "--format", ECS, "--body", "text", *EVERY_TYPE, path).out
    lines = [json.loads(line) for line in out.splitlines()]
    for line in lines:
        check(line)
    datasets = [line["event"]["dataset"] for line in lines]
    assert datasets == [f"kinspect.{line['type']}" for line in every_line(path)]


@pytest.mark.parametrize(
    "name", ["4.4.0/errors_java.pcap.gz", "0.11.0.3/sasl-scram-sha-256.pcap", "4.4.0/snap96.pcap"]
)
def test_what_is_left_out_of_the_view_is_not_used(name):
    for body in ("none", "text"):
        texts, view = EcsTexts(View(body=body)), View(body=body)
        for exchange in read(ROOT / "captures" / name):
            whole = view.exchange(exchange)
            assert texts.line(whole) == texts.exchange(exchange)


def test_the_keys_are_those_of_ecs_with_its_types():
    own = {path: kind for path, kind in TYPED.items() if not path.startswith("kinspect.")}
    assert {path: "date" if kind == "date_nanos" else kind for path, kind in own.items()} == OF_ECS
    assert not any(path.startswith("kafka.") for path in TYPED)


def test_the_page_has_every_key_with_its_type():
    page = (ROOT / "docs" / "ecs.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[^|]+`) \| `(\w+)` \|", page, re.MULTILINE)
    assert {path: kind for paths, kind in rows for path in re.findall("`([^`]+)`", paths)} == TYPED


def test_the_page_names_what_an_exchange_has_no_key_for():
    page = " ".join((ROOT / "docs" / "ecs.md").read_text("utf-8").split())
    told = page.partition("Three keys of an exchange's JSON line have no key here.")[2].partition(
        "[JSON lines]"
    )[0]
    used = {path.partition(".")[0] for path in _fields(_of(EXCHANGE))}
    missing = set(LINE_KEYS) - used
    assert len(missing) == 3
    for name in missing:
        assert f"`{name}`" in told


def test_no_key_has_two_types_or_stands_below_another():
    kinds = {(key.path, key.type) for key in KEYS}
    assert len(kinds) == len({path for path, _ in kinds}) == len(TYPED)
    assert not any(path.startswith(f"{other}.") for path in TYPED for other in TYPED)
    assert len(TYPED) <= 120


def test_no_line_has_a_key_from_two_places():
    for kind in ("exchange", "connection", "gap", "summary", "stats"):
        paths = [key.path for key in KEYS if not key.lines or kind in key.lines]
        assert len(paths) == len(set(paths)), kind


def test_the_template_of_elasticsearch_6_has_its_types_alone():
    legacy = typed(legacy_template()["mappings"]["_doc"])
    assert legacy.keys() == TYPED.keys()
    assert set(legacy.values()) == {"date", "keyword", "text", "long", "boolean", "ip"}


def ecs(exchange, **options):
    line = json.loads(EcsTexts(View(**options)).exchange(exchange))
    check(line)
    return line


def beat(group="g", error=0, **more):
    return HEARTBEAT, 4, {"group_id": group, "generation_id": 1, "member_id": "m"}, {"error_code": error}


def test_success_and_failure(exchanges):
    good, bad, none = exchanges(beat(), beat(error=27), (*beat()[:3], None))
    assert ecs(good)["event"]["outcome"] == "success"
    assert ecs(good)["event"]["type"] == ["connection", "protocol"]
    assert "error" not in ecs(good)
    assert "reason" not in ecs(good)["event"]
    assert ecs(bad)["event"]["outcome"] == "failure"
    assert ecs(bad)["event"]["type"] == ["connection", "protocol", "error"]
    assert ecs(bad)["error"] == {
        "code": "27",
        "type": "REBALANCE_IN_PROGRESS",
        "message": "REBALANCE_IN_PROGRESS",
    }
    # The capture ended: nobody knows.
    assert ecs(none)["event"]["outcome"] == "unknown"
    assert ecs(none)["event"]["reason"] == "capture_end"
    assert "duration" not in ecs(none)["event"]
    none.outcome_reason = "reset"
    assert ecs(none)["event"]["outcome"] == "failure"
    assert ecs(none)["message"] == "Heartbeat v4 g unanswered (reset)"


def test_no_response_is_no_failure(exchanges):
    (quiet,) = exchanges((PRODUCE, 3, {"acks": 0, "timeout_ms": 1, "topic_data": []}, None))
    assert ecs(quiet)["event"]["outcome"] == "unknown"
    assert ecs(quiet)["kinspect"]["outcome"] == "no_response"
    assert ecs(quiet)["network"]["bytes"] == ecs(quiet)["client"]["bytes"] == quiet.request.size + 4


def test_durations_are_nanoseconds(exchanges):
    (exchange,) = exchanges(beat())
    line = ecs(exchange)
    assert line["event"]["duration"] == exchange.latency_ns > 0
    assert line["kinspect"]["service_time"] == exchange.service_ns
    assert line["kinspect"]["throttle_time"] == 0
    assert line["@timestamp"] == line["event"]["start"] == exchange.to_dict()["timestamp"]


def test_the_message_is_one_printable_line(exchanges):
    topics = {"topics": [{"name": f"{EVIL}{number}" * 20} for number in range(9)]}
    response = {"brokers": [], "controller_id": 1, "topics": []}
    (exchange,) = exchanges((3, 1, topics, response), client_id=EVIL)
    line = ecs(exchange)
    assert line["message"].startswith("Metadata v1 \\x1b]0;owned\\x07")
    assert line["message"].endswith("…")
    # Other keys hold what the capture holds.
    assert line["kinspect"]["client"]["id"] == EVIL
    assert line["kinspect"]["topic"]["name"][0] == f"{EVIL}0" * 20


def test_bodies_are_one_text(kinspect, exchanges):
    (exchange,) = exchanges(beat(error=27))
    line = ecs(exchange, body="text")
    assert json.loads(line["kinspect"]["request"]["body"]) == exchange.to_dict()["request"]["body"]
    assert json.loads(line["kinspect"]["response"]["body"]) == exchange.to_dict()["response"]["body"]
    for view in ({}, {"body": "none"}):
        assert ecs(exchange, **view)["kinspect"].keys().isdisjoint({"request", "response"})


def test_ids_are_those_of_the_lines(kinspect):
    arguments = ("read", "-q", *EVERY_TYPE, ROOT / "captures" / "4.4.0" / "lossin.pcap.gz", "--format")
    native = [json.loads(line)["event_id"] for line in kinspect(*arguments, "jsonl").out.splitlines()]
    ids = [json.loads(line)["event"]["id"] for line in kinspect(*arguments, ECS).out.splitlines()]
    assert ids == native
    assert len(set(ids)) == len(ids)


def test_a_live_capture_has_an_interface_and_no_file():
    frames = {"file": "eth0", "first": 1, "last": 1}
    exchange = next(iter(read(ROOT / "captures" / "4.4.0" / "nano.pcap")))
    native = View(body="none").exchange(exchange)
    assert json.loads(EcsTexts(View()).line(native))["file"]["path"].endswith("nano.pcap")
    native["request"]["frames"] = frames
    line = json.loads(EcsTexts(View()).line({**native, "host": "sensor-1", "interface": "eth0"}))
    check(line)
    assert line["observer"]["hostname"] == "sensor-1"
    assert line["observer"]["ingress"]["interface"]["name"] == "eth0"
    assert "file" not in line
    assert line["kinspect"]["frame"] == {"first": 1, "last": 1}


def blank(kind, **values):
    """A line of this type with all its keys; what is not given is null."""
    found = json.loads((ROOT / "docs" / "schema" / f"{kind}.schema.json").read_text("utf-8"))
    return dict.fromkeys(found["properties"]) | {"type": kind, "line_truncated": False} | values


def test_the_original_of_stats_is_harmless_once_it_is_read():
    counted = dict.fromkeys(("captured_packets", "kernel_drops", "queue_drops", "exchanges"), 1)
    native = blank("stats", timestamp="2026-11-21T07:15:41.628739000Z", interface="eth\x9b0", **counted)
    line = json.loads(EcsTexts(View()).line(native))
    check(line)
    assert line["event"]["dataset"] == "kinspect.stats"
    assert line["message"] == "1 packet 2 dropped 1 exchange"
    assert line["event"]["original"].isprintable()
    assert json.loads(line["event"]["original"]) == native


def test_times_of_a_connection_of_no_time():
    ends = {
        "client": {"ip": "::1", "port": 1, "software_name": None, "software_version": None},
        "broker": {"ip": "::1", "port": 2},
    }
    line = json.loads(EcsTexts(View()).line(blank("connection", connection_id="a-b@0", **ends)))
    check(line)
    assert "duration" not in line["event"]


def test_the_summary_is_whole_beside_its_numbers(kinspect):
    capture = ROOT / "captures" / "4.4.0" / "nano.pcap"
    arguments = ("read", "-q", "--emit", "summary", capture, "--format")
    line, native = (json.loads(kinspect(*arguments, name).out) for name in (ECS, "jsonl"))
    assert json.loads(line["event"]["original"]) == native
    assert line["event"]["kind"] == "metric"
    assert line["kinspect"]["exchanges"] == native["exchanges"]


def test_the_command_prints_the_templates(kinspect):
    assert json.loads(kinspect("schema", "ecs-template").out) == template()
    assert json.loads(kinspect("schema", "ecs-template", "--legacy").out) == legacy_template()
    refused = kinspect("schema", "Fetch", "--legacy")
    assert refused.status == 2
    assert "--legacy is for ecs-template" in refused.err
