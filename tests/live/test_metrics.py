"""`kinspect live --metrics` beside real traffic, and a real Prometheus."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.terminal import Terminal
from support.waiting import wait_until

from .loopback import free_port, talk
from .processes import worker_of
from .test_rights import AS_IF_BY_SUDO

pytestmark = [pytest.mark.tools, pytest.mark.usefixtures("root")]

GRAFANA = Path(__file__).parents[2] / "docs" / "grafana"
KINSPECT = Path(sys.executable).with_name("kinspect")
NAMES = {3: "Metadata", 12: "Heartbeat"}
EXCHANGES = "kinspect_kafka_exchanges_total"


def get(url):
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def samples(port):
    status, text = get(f"http://127.0.0.1:{port}/metrics")
    assert status == 200
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def total(port, name, **labels):
    return sum(
        sample.value
        for sample in samples(port)
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def counted(port, name=EXCHANGES):
    """A metric by its label `api`."""
    found = Counter()
    for sample in samples(port):
        if sample.name == name:
            found[sample.labels["api"]] += sample.value
    return found


@pytest.mark.parametrize(
    "options",
    [("--format", "none"), ("--format", "jsonl"), ("--format", "table"), ("--fields", "api")],
    ids=" ".join,
)
def test_every_exchange_is_counted_whatever_is_printed(live, tmp_path, options):
    port, at, path = free_port(), free_port(), tmp_path / "out"
    with (
        path.open("wb") as stdout,
        live("-i", "lo", "--port", port, "--metrics", at, *options, stdout=stdout) as running,
    ):
        talked = talk(port, 50, connections=2)
        expected = Counter(NAMES[exchange.api_key] for exchange in talked)
        wait_until(lambda: counted(at) == expected)
        assert counted(at, "kinspect_kafka_service_duration_seconds_count") == expected
        wait_until(lambda: total(at, "kinspect_connections_total", kind="kafka", end_reason="fin") == 2)
        assert total(at, "kinspect_capture_packets_total", interface="lo") > 200
        assert total(at, "kinspect_kafka_message_bytes_total") > 10_000
        assert total(at, "kinspect_capture_process_resident_memory_bytes") > 1 << 20
        assert get(f"http://127.0.0.1:{at}/healthz") == (200, "ok\n")
        # It ends although somebody is connected.
        with socket.create_connection(("127.0.0.1", at)):
            _, err = running.end()
        assert running.process.returncode == 0
    out = path.read_text("utf-8")
    assert f"kinspect: metrics at http://127.0.0.1:{at}/metrics\n" in err
    if options[-1] == "jsonl":
        assert {json.loads(line)["type"] for line in out.splitlines()} == {"exchange"}
    assert (len(out.splitlines()) >= 100) == (options[-1] != "none")


def test_the_live_view_goes_on_beside_it(tmp_path):
    port, at = free_port(), free_port()
    terminal = Terminal(tmp_path, (80, 24))
    try:
        terminal.run(f"{KINSPECT} live -i lo --port {port} --utc --metrics {at}; echo status $?")
        terminal.until("kinspect live lo", "DROPPED")
        talk(port, 20)
        wait_until(lambda: sum(counted(at).values()) == 20)
        terminal.until("Heartbeat", "Metadata")
        terminal.send("q")
        terminal.until("status 0")
    finally:
        terminal.close()


def test_filters_choose_what_is_counted(live):
    port, at = free_port(), free_port()
    with live(
        "-i", "lo", "--port", port, "--api", "Metadata", "--metrics", at, "--format", "none"
    ) as running:
        talk(port, 20)
        wait_until(lambda: counted(at) == {"Metadata": 2})
        wait_until(lambda: total(at, "kinspect_connections_total", kind="kafka") == 1)
        running.end()


def test_who_does_not_read_the_lines_is_seen(live):
    port, at = free_port(), free_port()
    with live("-i", "lo", "--port", port, "--metrics", at, "--format", "jsonl") as running:
        talk(port, 200)
        wait_until(lambda: total(at, "kinspect_output_blocked_seconds_total") > 2)
        assert total(at, "kinspect_decode_lag_seconds") > 1
        wait_until(lambda: get(f"http://127.0.0.1:{at}/healthz")[0] == 503)
        assert re.fullmatch(r"decoding is \d\d+\.\d s behind\n", get(f"http://127.0.0.1:{at}/healthz")[1])
        for _ in range(200):
            running.line()
        wait_until(lambda: get(f"http://127.0.0.1:{at}/healthz") == (200, "ok\n"))
        wait_until(lambda: sum(counted(at).values()) == 200)
        running.end()


def test_the_user_behind_sudo_serves_them(live):
    port, at = free_port(), free_port()
    options = ("--metrics", at, "--format", "none", "--metrics-detail", "--metrics-broker")
    with live("-i", "lo", "--port", port, *options, env=AS_IF_BY_SUDO) as running:
        talk(port, 20)
        wait_until(lambda: sum(counted(at).values()) == 20)
        assert total(at, EXCHANGES, broker=f"127.0.0.1:{port}") == 20
        assert total(at, "kinspect_kafka_group_exchanges_total", group="workers") == 18
        _, err = running.end()
        assert running.process.returncode == 0
    assert "Error" not in err


def test_the_capturing_process_does_not_hold_the_port(live):
    at = free_port()
    with live("-i", "lo", "--metrics", at, "--format", "none") as running:
        wait_until(lambda: get(f"http://127.0.0.1:{at}/healthz")[0] == 200)
        rows = [row.split() for row in Path("/proc/thread-self/net/tcp").read_text("ascii").splitlines()[1:]]
        (inode,) = [row[9] for row in rows if row[1] == f"0100007F:{at:04X}" and row[3] == "0A"]

        def holds(pid):
            folder = Path(f"/proc/{pid}/fd")
            return f"socket:[{inode}]" in [os.readlink(entry) for entry in folder.iterdir()]

        assert holds(running.process.pid)
        assert not holds(worker_of(running))
        running.end()


def test_a_host_that_is_not_known_is_one_line(live):
    with live("-i", "lo", "--metrics", "no.such.host.invalid:9464") as running:
        out, err = running.end(0)
        assert (running.process.returncode, out, err) == (1, "", "")
    assert running.started.startswith("kinspect: --metrics: cannot listen on no.such.host.invalid:9464: ")


def test_an_address_that_cannot_be_had_is_one_line(live):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = taken.getsockname()[1]
        with live("-i", "lo", "--metrics", at) as running:
            out, err = running.end(0)
            assert (running.process.returncode, out, err) == (1, "", "")
    assert (
        running.started == f"kinspect: --metrics: cannot listen on 127.0.0.1:{at}: Address already in use\n"
    )


@contextmanager
def prometheus(folder, kinspect):
    """A Prometheus with the configuration of the documentation, but for the port and the pace; gives its port."""
    if shutil.which("prometheus") is None:
        pytest.fail("needs the program prometheus (package prometheus)")
    for path in GRAFANA.glob("*.yml"):
        text = path.read_text("utf-8").replace("127.0.0.1:9464", f"127.0.0.1:{kinspect}")
        (folder / path.name).write_text(re.sub(r"(_interval): 15s", r"\1: 1s", text), "utf-8")
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def queried(port, path, **parameters):
    try:
        status, text = get(f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
    except OSError:
        return {}
    return json.loads(text)["data"] if status == 200 else {}


def values(port, query):
    """The result of a query, by the label `api`."""
    found = queried(port, "query", query=query).get("result", ())
    return {row["metric"].get("api"): float(row["value"][1]) for row in found}


def test_prometheus_scrapes_it(live, tmp_path):
    port, at = free_port(), free_port()
    with (
        live("-i", "lo", "--port", port, "--metrics", at, "--format", "none") as running,
        prometheus(tmp_path, at) as asked,
    ):
        exchanges = f"sum by (api) ({EXCHANGES})"
        expected = Counter(NAMES[exchange.api_key] for exchange in talk(port, 100))
        wait_until(lambda: values(asked, exchanges) == expected)
        # A rate needs amounts before and after.
        more = expected + Counter(NAMES[exchange.api_key] for exchange in talk(port, 100))
        wait_until(lambda: values(asked, exchanges) == more)
        assert values(asked, 'up{job="kinspect"}') == {None: 1}
        # Every tenth exchange is a Heartbeat of 20 ms.
        wait_until(
            lambda: (
                0.01 < values(asked, "kinspect:kafka_broker_duration_seconds:p99_5m").get("Heartbeat", 0) < 10
            )
        )
        groups = queried(asked, "rules")["groups"]
        assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}
        assert len(groups) == 3
        running.end()


def test_help_says_where_it_listens():
    command = [sys.executable, "-m", "kinspect", "live", "--help"]
    text = " ".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    assert "Without HOST on 127.0.0.1" in text
