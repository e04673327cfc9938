"""Metrics of a live run: the address, the options, the text, and the state of the run."""

import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.captures import CAPTURES
from support.packets import blocks, packets

from kinspect import __version__
from kinspect.analysis.metrics import BOUNDS_NS, ERRORS, HISTOGRAM, METRICS, SERVICE
from kinspect.capture import open_timeline
from kinspect.capture.handover import Counters, InterfaceCounters
from kinspect.cli.exposition import family_of
from kinspect.cli.livemetrics import Address, open_metrics
from kinspect.cli.ownmetrics import HEALTH
from kinspect.durations import Durations
from kinspect.form import COMPILED
from kinspect.kafka.view.view import SCHEMA_VERSION
from kinspect.model import LIMITS
from kinspect.pipeline import Inspector

ROOT = Path(__file__).parents[2]
CAPTURE = CAPTURES / "4.4.0" / "errors_java.pcap.gz"
GIVEN = {"metrics_detail": True, "metrics_broker": False, "metrics_labels": 200}
PROCESS = {
    f"{prefix}process_{name}"
    for prefix in ("", "kinspect_capture_")
    for name in (
        *("virtual_memory_bytes", "resident_memory_bytes", "start_time_seconds", "cpu_seconds_total"),
        *("open_fds", "max_fds"),
    )
}


def values(**more):
    return {"metrics": ("127.0.0.1", 0), "answer": (), "explore": False, **GIVEN, **more}


class Capture:
    """Stands in for a capture that runs."""

    def __init__(self):
        self.counters = Counters(waiting=7, told_at=time.monotonic_ns())
        self.interfaces = {"eth0": InterfaceCounters(10, 1000, 3, 4), 'a"\n\\': InterfaceCounters(1, 60)}
        self.queue_limit = 100
        self.capturing = True
        # Any process will do.
        self.worker = 1


class Run:
    """A run in which a capture was read, up to a place."""

    def __init__(self):
        self.inspector = Inspector(emit=frozenset({"exchange", "connection", "gap"}))
        self.stream = SimpleNamespace(file=SimpleNamespace(blocked_ns=1_500_000_000))


@contextmanager
def serving(capture=None, run=None, read=CAPTURE, **more):
    """Metrics of a run that read a capture, served; gives the text of a path."""
    run = run or Run()
    metrics = open_metrics(values(**more))
    for block in open_timeline([read] if read is not None else []):
        for line in [*run.inspector.feed(block), *run.inspector.idle()]:
            metrics.take(line)

    def get(path):
        return urllib.request.urlopen(metrics.url.replace("/metrics", path), timeout=10).read().decode()

    with metrics.served(capture or Capture(), run):
        yield get


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def samples(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        (":9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("localhost:65535", ("localhost", 65535)),
        ("[::1]:9464", ("::1", 9464)),
    ],
)
def test_addresses(text, address):
    assert Address().convert(text, None, None) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:65536", "::1:9464", "1:-1", "host:²"])
def test_what_is_no_address(kinspect, text):
    result = kinspect("live", "-i", "lo", "--metrics", text)
    assert result.status == 2
    assert "--metrics" in result.err


def test_the_text_is_valid_and_has_every_metric():
    with serving() as get:
        found = families(get("/metrics"))
    named = {name.removesuffix("_total") for name in found}
    kinspects = {metric.name.removesuffix("_total") for metric in METRICS} | {
        metric.name.removesuffix("_total") for metric in HEALTH.values()
    }
    assert named - kinspects <= {name.removesuffix("_total") for name in PROCESS}
    assert kinspects <= named
    assert not any("_created" in sample.name for family in found.values() for sample in family.samples)


def test_limits_that_were_not_reached_are_zero():
    run = Run()
    with serving(run=run, read=None) as get:
        before = samples(get("/metrics"))
    run.inspector.counts.hit(LIMITS[0])
    with serving(run=run, read=None) as get:
        after = samples(get("/metrics"))
    limits = [("kinspect_limits_hit_total", ("limit", limit)) for limit in LIMITS]
    assert [before[limit] for limit in limits] == [0] * len(LIMITS)
    assert [after[limit] for limit in limits] == [1, *[0] * (len(LIMITS) - 1)]


def test_labels_and_kinds_are_those_of_the_table():
    tables = [*METRICS, *HEALTH.values()]
    with serving() as get:
        text = get("/metrics")
    for metric in tables:
        assert f"# TYPE {metric.name} {metric.kind}\n" in text
    seen = set()
    for family in text_string_to_metric_families(text):
        for metric in tables:
            if metric.name in (family.name, f"{family.name}_total") and metric.kind == family.type:
                more = {"le"} if metric.kind == HISTOGRAM else set()
                for sample in family.samples:
                    assert sample.labels.keys() - more == set(metric.labels), sample
                    seen.add(metric.name)
    assert len(seen) > 20


def test_state_of_the_run():
    with serving() as get:
        found = samples(get("/metrics"))
    form, schema = "compiled" if COMPILED else "interpreted", str(SCHEMA_VERSION)
    assert (
        found["kinspect_build_info", ("form", form), ("schema_version", schema), ("version", __version__)]
        == 1
    )
    assert found["kinspect_capture_packets_total", ("interface", "eth0")] == 10
    assert found["kinspect_capture_bytes_total", ("interface", "eth0")] == 1000
    dropped = "kinspect_capture_dropped_packets_total", ("interface", "eth0")
    assert (found[*dropped, ("where", "kernel")], found[*dropped, ("where", "queue")]) == (3, 4)
    assert found[("kinspect_queue_bytes",)] == 7
    assert found[("kinspect_queue_limit_bytes",)] == 100
    assert 0 < found[("kinspect_decode_lag_seconds",)] < 10
    assert found[("kinspect_output_blocked_seconds_total",)] == 1.5
    assert found["process_resident_memory_bytes",] > 1 << 20


def test_undecoded_bytes_only_grow_and_connections_are_the_open_ones():
    """As connections end, what they had is still counted."""
    some = [
        packet
        for number, packet in enumerate(packets(CAPTURES / "0.8.2.2" / "controller-2brokers.pcap.gz"))
        if number % 9
    ]
    run, values = Run(), [0]
    for at in range(0, len(some), 20):
        for block in blocks(some[at : at + 20]):
            run.inspector.feed(block)
        with serving(run=run, read=None) as get:
            found = samples(get("/metrics"))
        values.append(found[("kinspect_undecoded_bytes_total",)])
        kinds = [found["kinspect_connections", ("kind", kind)] for kind in ("kafka", "tls", "other", "empty")]
        assert sum(kinds) == run.inspector.open_connections
    assert values == sorted(values)
    *_, last = values
    [*run.inspector.finish()]
    assert 0 < last <= run.inspector.summary()["undecoded_bytes"]
    assert kinds[0] > 0


def test_control_characters_of_names_are_shown_as_such():
    with serving() as get:
        text = get("/metrics")
    assert 'interface="a\\"\\n\\\\"' in text or 'interface="a\\"\\\\n\\\\"' in text or "x0a" in text
    assert all(character.isprintable() or character == "\n" for character in text)


def test_names_that_look_the_same_once_escaped_share_a_series():
    family = family_of(ERRORS, {("Fetch", "a\x1b"): 1, ("Fetch", r"a\x1b"): 2})
    assert [(sample.labels["error"], sample.value) for sample in family.samples] == [(r"a\x1b", 3)]
    one, other = Durations(BOUNDS_NS), Durations(BOUNDS_NS)
    one.add(1_000_000_000)
    other.add(2_000_000_000)
    family = family_of(SERVICE, {("a\x1b",): one, (r"a\x1b",): other})
    values = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    assert values["kinspect_kafka_service_duration_seconds_count", None] == 2
    assert values["kinspect_kafka_service_duration_seconds_sum", None] == 3
    assert values["kinspect_kafka_service_duration_seconds_bucket", "1.0"] == 1


def test_healthz():
    capture = Capture()
    with serving(capture) as get:
        assert get("/healthz") == "ok\n"
        capture.counters = Counters(told_at=time.monotonic_ns() - 11_000_000_000)
        with pytest.raises(urllib.error.HTTPError, match="503") as error:
            get("/healthz")
        assert error.value.read().startswith(b"decoding is 11.")
        capture.capturing = False
        with pytest.raises(urllib.error.HTTPError, match="503") as error:
            get("/healthz")
        assert error.value.read().startswith(b"the capturing process does not run\ndecoding is 11.")


def test_nothing_is_loaded_once_rights_are_given_up():
    script = (
        "import sys, encodings.idna; sys.path[:0] = sys.argv[1:]\n"
        "from cli import test_livemetrics as tests; from kinspect.cli import livemetrics\n"
        "from kinspect.cli.preload import preload\n"
        "preload({'explore': False, 'records_only': False, 'schema_registry': None, 'metrics': ('', 0),"
        " 'format_name': 'none', 'otlp': None})\n"
        "real = livemetrics.LiveMetrics.served\n"
        "def served(*arguments):\n"
        "    global before\n"
        "    before = set(sys.modules)\n"
        "    return real(*arguments)\n"
        "livemetrics.LiveMetrics.served = served\n"
        "with tests.serving() as get: get('/metrics'); get('/healthz')\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-c", script, str(ROOT / "tests"), str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_without_the_library_it_says_what_to_install():
    script = (
        "import sys; from importlib import util; real = util.find_spec\n"
        "from kinspect import extras\n"
        "extras.find_spec = lambda name, *rest: None if name == 'prometheus_client' else real(name, *rest)\n"
        "from kinspect.cli.livemetrics import open_metrics\n"
        "from kinspect.errors import MissingLibraryError\n"
        "try: open_metrics(dict(metrics=('127.0.0.1', 0), answer=(), explore=False))\n"
        "except MissingLibraryError as error: print(error)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == (
        "--metrics needs prometheus-client, which is not installed: pip install 'kinspect[metrics]'\n"
    )


@pytest.mark.tools
def test_promtool_finds_nothing_to_say():
    if shutil.which("promtool") is None:
        pytest.fail("needs the program promtool (package prometheus)")
    with serving(metrics_broker=True) as get:
        text = get("/metrics")
    result = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
