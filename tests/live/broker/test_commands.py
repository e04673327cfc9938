"""The commands that start brokers: how they end, and what they refuse."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from broker.artifacts import classpath
from broker.scenarios import PROGRAMS, perform
from broker.server import Server, main
from central import ToolError
from support.waiting import wait_until

pytestmark = [pytest.mark.tools, pytest.mark.broker]

ROOT = Path(__file__).parents[3]
SERVER = ROOT / "tools" / "broker" / "server.py"
RECORD = ROOT / "captures" / "record"


def children(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def words(pid):
    """The command line of a process, nothing of one that has ended since it was listed."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def broker_of(pid):
    """The process of the broker that a server.py has started."""
    while True:
        for child in children(pid):
            if b"kafka.Kafka" in words(child):
                return child
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_broker_ends_with_who_started_it(lab, tmp_path, number):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [*lab.inside, sys.executable, str(SERVER), "--port", "9192"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        try:
            broker = broker_of(running.pid)
            running.send_signal(number)
            assert running.communicate()[1] == b""
        finally:
            running.kill()
    assert running.returncode == (-number if number == signal.SIGKILL else 0)
    wait_until(lambda: not Path(f"/proc/{broker}").exists())
    # Whoever is killed leaves its folder.
    assert (list(tmp_path.iterdir()) == []) == (number != signal.SIGKILL)


def test_a_broker_that_dies_is_told_at_once(lab, tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [*lab.inside, sys.executable, str(SERVER), "--port", "9192"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            assert "is ready" in running.stdout.readline()
            os.kill(broker_of(running.pid), signal.SIGKILL)
            complaint = running.communicate()[1]
        finally:
            running.kill()
    assert running.returncode == 1
    assert "ended with status -9; the end of its log:\n" in complaint
    assert "Kafka Server started" in complaint


def test_nobody_waits_for_clients_of_a_broker_that_died(lab, tmp_path, monkeypatch):
    client = tmp_path / "waits.py"
    client.write_text("import signal; signal.pause()")
    monkeypatch.setitem(PROGRAMS, "aiokafka", client)
    with Server(lab.server.release, tmp_path, 9292, lab.inside) as server:
        server._process.kill()
        with pytest.raises(ToolError, match="ended with status -9; the end of its log"):
            perform("codecs_aiokafka", server, lab.inside)


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["3.4.0", "new"], 1, "3.4.0: too old, releases from 3.5.0 on can be started"),
        (["latest", "new"], 1, "latest: not a release of Apache Kafka"),
        (["4.1.0", "new", "juggling"], 2, "no such scenario: juggling"),
        (["4.1.0", "."], 2, ". is not empty"),
    ],
)
def test_what_is_not_recorded(tmp_path, arguments, status, text):
    (tmp_path / "something").touch()
    done = subprocess.run([RECORD, *arguments], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == status
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["something"]


def test_without_maven_its_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr("broker.artifacts.BUILD", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"needs the program mvn \(package maven\)"):
        classpath("4.4.0")


def test_a_release_that_is_not_there(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["server.py", "--release", "9.9.9"])
    assert main() == 1
    assert "Kafka 9.9.9 was not downloaded: " in capsys.readouterr().err
