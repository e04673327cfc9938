"""`kinspect live` as a service: its file, who reads slowly, what it tells of itself."""

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import jsonschema_rs
import pytest
from support.waiting import wait_for_lines, wait_until

from .loopback import free_port, talk
from .processes import balance, worker_of

pytestmark = [pytest.mark.tools, pytest.mark.usefixtures("root")]

LOAD = str(Path(__file__).with_name("load.py"))
SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "stats.schema.json"


def sending(port, seconds, rate):
    """The load generator at work."""
    command = [sys.executable, LOAD, *map(str, (port, seconds, rate, 200, 4))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def sent_by(process):
    return json.loads(process.communicate()[0])["exchanges"]


def ids(*paths):
    """Correlation ids of the whole lines in files, in order."""
    lines = b"".join(path.read_bytes() for path in paths).decode().splitlines(keepends=True)
    assert all(line.endswith("\n") for line in lines)
    return [line["correlation_id"] for line in map(json.loads, lines) if line["type"] == "exchange"]


def test_no_line_is_lost_where_files_are_renamed(live, tmp_path):
    port, out = free_port(), tmp_path / "out.jsonl"
    with live("-i", "lo", "--port", port, "-o", out, "--output-mode", "0640") as running:
        load = sending(port, 6, 500)
        for number in range(5):
            wait_until(lambda: out.exists() and out.stat().st_size)
            out.rename(tmp_path / f"old{number}")
            running.process.send_signal(signal.SIGHUP)
        sent = sent_by(load)
        running.end()
        assert running.process.returncode == 0
    files = [*sorted(tmp_path.glob("old*")), out]
    assert len(files) == 6
    assert all(path.stat().st_mode & 0o777 == 0o640 for path in files)
    assert sorted(ids(*files)) == list(range(sent))


LOGROTATE = (Path(__file__).parents[2] / "docs" / "service" / "logrotate.conf").read_text()


@pytest.fixture
def logrotate():
    if shutil.which("logrotate") is None:
        pytest.fail("needs the program logrotate (package logrotate)")
    return "logrotate"


def test_logrotate_loses_no_line(live, tmp_path, logrotate):
    port, out, config = free_port(), tmp_path / "out.jsonl", tmp_path / "logrotate.conf"
    with live("-i", "lo", "--port", port, "-o", out) as running:
        text = LOGROTATE.replace("/var/log/kinspect", str(tmp_path)).replace("kinspect kinspect", "root root")
        config.write_text(
            text.replace("systemctl reload kinspect.service", f"kill -HUP {running.process.pid}")
        )
        load = sending(port, 8, 300)
        for _ in range(5):
            wait_until(lambda: out.exists() and out.stat().st_size)
            command = [logrotate, "-f", "-s", tmp_path / "state", config]
            subprocess.run(command, check=True, capture_output=True)
        sent = sent_by(load)
        running.end()
        assert running.process.returncode == 0
    packed = [tmp_path / f"out.jsonl.{number}.gz" for number in (5, 4, 3, 2)]
    unpacked = tmp_path / "unpacked"
    with unpacked.open("wb") as file:
        subprocess.run(["gzip", "-dc", *packed], check=True, stdout=file)
    files = [unpacked, tmp_path / "out.jsonl.1", out]
    assert out.stat().st_mode & 0o777 == 0o640
    assert sorted(ids(*files)) == list(range(sent))


def test_only_one_process_holds_the_file_and_the_port(live, tmp_path):
    """Else the space of a file that somebody deletes after a rotation is never free again."""
    port, out = free_port(), tmp_path / "out.jsonl"
    with live("-i", "lo", "--port", port, "-o", out, "--metrics", free_port()) as running:
        # Packets come from a process that has closed what is not its own.
        talk(port, 1)
        wait_until(lambda: out.stat().st_size)
        held = [
            {os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
            for pid in (running.process.pid, worker_of(running))
        ]
        running.end()
        assert running.process.returncode == 0
    listening = {name for name in held[0] if name.startswith("socket:")}
    assert str(out) in held[0]
    assert listening
    assert held[1].isdisjoint({str(out), *listening})


def test_a_file_that_cannot_be_opened_anew_is_told_and_lines_go_on(live, tmp_path):
    port, folder = free_port(), tmp_path / "folder"
    folder.mkdir()
    out, moved = folder / "out.jsonl", tmp_path / "moved"
    with live("-i", "lo", "--port", port, "-o", out) as running:
        talk(port, 3)
        wait_for_lines(out, 3)
        folder.rename(moved)
        running.process.send_signal(signal.SIGHUP)
        told = running.process.stderr.readline().decode()
        talk(port, 2)
        running.end()
        assert running.process.returncode == 0
    assert told.startswith(f"kinspect: SIGHUP: {out}: No such file or directory: lines go on")
    assert len(ids(moved / "out.jsonl")) == 5


@pytest.mark.parametrize("nohup", [False, True])
def test_a_terminal_that_goes_away_ends_it_though_it_writes_a_file(tmp_path, nohup):
    port, out, err = free_port(), tmp_path / "out.jsonl", tmp_path / "err"
    command = ["nohup"] * nohup + [sys.executable, "-m", "kinspect", "live", "-i", "lo", "--port", str(port)]
    pid, terminal = pty.fork()
    if pid == 0:
        errors = os.open(err, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(errors, 2)
        # Else nohup would make a file for it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execvp(command[0], [*command, "-o", str(out)])
    wait_until(lambda: err.exists() and "capturing on lo" in err.read_text())
    talk(port, 3)
    wait_for_lines(out, 3)
    os.kill(pid, signal.SIGHUP)
    talk(port, 2)
    wait_for_lines(out, 5)
    os.close(terminal)
    if nohup:
        talk(port, 1)
        wait_for_lines(out, 6)
        os.kill(pid, signal.SIGTERM)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == (0 if nohup else 129)
    assert len(ids(out)) == 5 + nohup


def test_files_of_its_own_rotation_hold_all_lines(live, tmp_path):
    port, out = free_port(), tmp_path / "out.jsonl"
    options = ("--output-rotate-size", "200k", "--output-compress", "gzip")
    with live("-i", "lo", "--port", port, "-o", out, *options) as running:
        sent = sent_by(sending(port, 4, 500))
        running.end()
        assert running.process.returncode == 0
    packed, plain = sorted(tmp_path.glob("*.gz")), sorted(tmp_path.glob("*.jsonl"))
    assert len(packed) > 3
    assert all(path.stat().st_size <= 200_000 for path in plain)
    unpacked = tmp_path / "unpacked"
    with unpacked.open("wb") as file:
        subprocess.run(["gzip", "-dc", *packed], check=True, stdout=file)
    assert sorted(ids(unpacked, *plain)) == list(range(sent))


def test_who_reads_slowly_loses_no_line_without_a_count(live):
    port = free_port()
    options = ("--emit", "exchange,stats,summary", "--stats-interval", "300ms", "--queue", "300k")
    with live("-i", "lo", "--port", port, *options) as running:
        load = sending(port, 5, 1500)
        first = running.line()
        # The pipe fills, then the queue.
        sent = sent_by(load)
        out, err = running.end()
        assert running.process.returncode == 0
    lines = [json.loads(line) for line in (first.decode(), *out.splitlines())]
    *_, last, summary = lines
    assert last["type"] == "stats"
    assert balance(summary) == summary["captured_packets"]
    assert last["queue_drops"] == summary["queue_drops"] > 0
    assert last["captured_packets"] == summary["captured_packets"]
    assert last["output_blocked_seconds"] > 2
    answered = {line["correlation_id"] for line in lines if line.get("outcome") == "answered"}
    assert answered < set(range(sent))
    assert "captured but not decoded, as they came too fast" in err


def test_sigterm_ends_it_though_nobody_takes_the_output(live):
    port = free_port()
    with live("-i", "lo", "--port", port, "--emit", "exchange,stats", "--stats-interval", "100ms") as running:
        sent_by(sending(port, 2, 500))
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 0
        # Of what was in the pipe, the last line alone may be cut.
        *lines, _ = running.process.stdout.read().splitlines()
    assert {json.loads(line)["type"] for line in lines} <= {"exchange", "stats"}


def test_stats_lines_follow_their_schema_and_add_up(live):
    port = free_port()
    options = ("--emit", "exchange,stats", "--stats-interval", "200ms")
    with live("-i", "lo", "-i", "lo", "--port", port, *options) as running:
        talk(port, 5)
        lines = []
        while sum(line["type"] == "stats" for line in lines) < 4:
            lines.append(json.loads(running.line()))
        out, _ = running.end()
    lines += map(json.loads, out.splitlines())
    schema = json.loads(SCHEMA.read_text())
    found = [line for line in lines if line["type"] == "stats"]
    assert lines[-1] is found[-1]
    for line in found:
        jsonschema_rs.validate(schema, line)
        assert list(line) == list(schema["properties"])
        assert sum(each["captured_packets"] for each in line["interfaces"]) == line["captured_packets"]
    assert [each["name"] for each in found[0]["interfaces"]] == ["lo"]
    assert found[-1]["exchanges"] == found[-1]["shown"] == 5
    for key in ("captured_packets", "exchanges", "shown"):
        assert sum(line["since_last"][key] for line in found) == found[-1][key]
    assert found[1]["since_last"]["seconds"] > 0.15
    assert all(line["decode_lag_seconds"] >= 0 for line in found)


def test_stats_alone(live):
    port = free_port()
    with live("-i", "lo", "--port", port, "--emit", "stats", "--duration", "1s") as running:
        talk(port, 5)
        out, _ = running.end(0)
    (line,) = map(json.loads, out.splitlines())
    assert (line["type"], line["shown"], line["exchanges"]) == ("stats", 5, 5)
    assert (line["host"], line["interface"], line["line_truncated"]) == (socket.gethostname(), "lo", False)


@pytest.fixture
def manager(tmp_path):
    """The socket of a service manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "notify"))
        made.settimeout(60)
        yield made


def told_so_far(manager):
    """What a service manager was told and has not heard."""
    told = []
    manager.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            told.append(manager.recv(4096))
    manager.settimeout(60)
    return told


def seconds_between_signs(manager):
    """How often a service manager hears from now on that all is well, on average of ten times."""
    told_so_far(manager)
    began, heard = time.monotonic(), 0
    while heard < 10:
        heard += manager.recv(4096) == b"WATCHDOG=1"
    return (time.monotonic() - began) / heard


def is_silent(manager):
    """True if a service manager hears nothing for a second, once what was on its way is there."""
    time.sleep(0.5)
    told_so_far(manager)
    time.sleep(1)
    return not told_so_far(manager)


def test_who_reads_slowly_is_no_reason_to_start_anew_but_a_capture_that_died_is(live, tmp_path, manager):
    port = free_port()
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
    with live("-i", "lo", "--port", port, env=environment) as running:
        sent_by(sending(port, 2, 500))
        # The pipe is full, and a write waits.
        assert 0.12 < seconds_between_signs(manager) < 0.5
        os.kill(worker_of(running), signal.SIGKILL)
        assert is_silent(manager)
        _, err = running.end(0)
        assert running.process.returncode == 1
    assert "the capturing process was ended by SIGKILL" in err


def test_a_service_manager_hears_of_it(live, tmp_path, manager):
    port, out = free_port(), tmp_path / "out.jsonl"
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}

    def heard(text):
        message = manager.recv(4096).decode()
        while not message.startswith(text):
            message = manager.recv(4096).decode()
        return message

    with live("-i", "lo", "--port", port, "-o", out, env=environment) as running:
        ready = heard("READY=1")
        assert "STATUS=capturing on lo: 0 packets, 0 dropped, 0 exchanges shown" in ready
        talk(port, 3)
        assert 0.12 < seconds_between_signs(manager) < 0.5
        running.process.send_signal(signal.SIGHUP)
        assert "MONOTONIC_USEC=" in heard("RELOADING=1")
        assert heard("READY=1") == "READY=1"
        assert "3 exchanges shown" in heard("STATUS=")
        # Without the process that captures, nothing is well.
        os.kill(worker_of(running), signal.SIGSTOP)
        assert is_silent(manager)
        os.kill(worker_of(running), signal.SIGCONT)
        heard("WATCHDOG=1")
        running.process.send_signal(signal.SIGTERM)
        heard("STOPPING=1")
        running.end(0)
        assert running.process.returncode == 0


def test_a_disk_that_is_full_is_one_line_and_no_cut_one(live, tmp_path):
    port, out = free_port(), tmp_path / "out.jsonl"
    before = ("prlimit", "--fsize=20000")
    with live("-i", "lo", "--port", port, "-o", out, before=before) as running:
        load = sending(port, 2, 100)
        _, err = running.end(0)
        sent_by(load)
        assert running.process.returncode == 1
    assert "kinspect: cannot write the output: File too large: the capture ends" in err.splitlines()
    assert 0 < out.stat().st_size <= 20_000
    assert ids(out)


def test_stats_in_ecs_are_a_metric_with_the_whole_line_beside_it(live):
    options = ("--format", "ecs", "--emit", "stats", "--duration", "500ms")
    with live("-i", "lo", *options) as running:
        out, _ = running.end(0)
    (line,) = map(json.loads, out.splitlines())
    whole = json.loads(line["event"]["original"])
    jsonschema_rs.validate(json.loads(SCHEMA.read_text()), whole)
    assert (line["event"]["kind"], line["event"]["dataset"]) == ("metric", "kinspect.stats")
    assert line["network"]["packets"] == whole["captured_packets"]
    assert line["kinspect"]["drops"] == {"kernel": 0, "queue": 0}
    assert line["message"].endswith(" exchanges")
