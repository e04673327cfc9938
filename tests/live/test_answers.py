"""`kinspect live --answer` on the loopback interface, beside real traffic."""

import csv
import io
import json
import os
import pty
import signal
import subprocess
from contextlib import suppress

import pytest

import kinspect
from kinspect.answers import answers

from .conftest import read_some
from .loopback import free_port, talk
from .processes import packets_in
from .test_loopback import overrun

pytestmark = [pytest.mark.tools, pytest.mark.usefixtures("root")]


def rows_of_file(name, path, port):
    """The rows of an answer about saved packets, with the interface in place of the file."""
    text = json.dumps(kinspect.answer(name, path, filter={"port": port})["rows"])
    return json.loads(text.replace(json.dumps(str(path)), '"lo"'))


ENDINGS = [(signal.SIGINT, ()), (signal.SIGTERM, ()), (0, ("--count", "400")), (0, ("--duration", "2s"))]


@pytest.mark.parametrize(("number", "options"), ENDINGS)
def test_answers_are_those_of_the_saved_packets(live, tmp_path, number, options):
    port, path = free_port(), tmp_path / "saved.pcapng"
    asked = ("--answer", ",".join(answers()), "--port", port, "-w", path, *options)
    with live("-i", "lo", *asked) as running:
        talk(port, 100, connections=3)
        out, err = running.end(number)
        assert running.process.returncode == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert [each["answer"] for each in found] == [*answers()]
    for each in found:
        assert each["rows"] == rows_of_file(each["answer"], path, port)
        assert each["capture"]["files"] == ["lo"]
        assert each["capture"]["packets"] == packets_in(path)
    assert {row["api"] for each in found if each["answer"] == "latency" for row in each["rows"]} > {
        "Metadata"
    }
    assert "packets dropped by the capturing kernel: 0" in err
    assert "shown" not in err


def test_filters_choose_what_is_counted(live):
    port = free_port()
    with live("-i", "lo", "--port", port, "--answer", "latency", "--api", "Metadata") as running:
        talk(port, 20)
        out, err = running.end()
    (row,) = json.loads(out)["rows"]
    assert row["api"] == "Metadata"
    assert f"{row['count']} passed the filters" in err


def test_rows_tell_which_answer_they_are_of(live, tmp_path):
    port, path = free_port(), tmp_path / "rows"
    for form in ("jsonl", "csv"):
        asked = (
            "--answer",
            "clients",
            "--answer",
            "groups, latency",
            "--format",
            form,
            "-o",
            path,
            "--force",
        )
        with live("-i", "lo", "--port", port, *asked) as running:
            talk(port, 20)
            assert running.end()[0] == ""
        text = path.read_text()
        lines = text.splitlines() if form == "jsonl" else csv.DictReader(io.StringIO(text))
        rows = [json.loads(line) if form == "jsonl" else line for line in lines]
        assert [*dict.fromkeys(row["answer"] for row in rows)] == ["clients", "groups", "latency"]
        assert [row["group"] for row in rows if row["answer"] == "groups"] == ["workers"]


def test_a_terminal_gets_tables_at_the_end(live):
    port = free_port()
    controller, terminal = pty.openpty()
    shown = b""
    with (
        os.fdopen(controller, "rb", buffering=0) as screen,
        live("-i", "lo", "--port", port, "--answer", "groups,latency", stdout=terminal) as running,
    ):
        os.close(terminal)
        talk(port, 20)
        running.end()
        assert running.process.returncode == 0
        with suppress(OSError):
            while data := read_some(screen.fileno()):
                shown += data
    lines = shown.decode().replace("\r\n", "\n").splitlines()
    assert "\x1b[?1049h" not in shown.decode()
    plain = [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in lines]
    assert plain[0] == "groups"
    assert plain[1].split()[:2] == ["GROUP", "KIND"]
    assert plain[plain.index("latency") - 1] == ""
    assert not [line for line in plain if line.startswith("next: ")]


def test_what_to_type_next_is_for_the_saved_packets(live, tmp_path):
    port, path = free_port(), tmp_path / "saved.pcapng"
    with live("-i", "lo", "--port", port, "--answer", "groups", "--format", "table", "-w", path) as running:
        talk(port, 20)
        out, _ = running.end()
    assert out.splitlines()[-1] == f"next: kinspect read {path} --group workers --port {port}"


def test_drops_are_told(live):
    with live("-i", "lo", "--answer", "errors") as running:
        overrun(running)
        out, err = running.end()
        assert running.process.returncode == 0
    assert json.loads(out)["capture"]["complete"] is False
    assert "packets dropped by the capturing kernel: 0" not in err


def test_a_reader_that_goes_away_ends_it(live):
    with live("-i", "lo", "--answer", "errors", stdout=subprocess.PIPE) as running:
        running.process.stdout.close()
        first, *_ = running.process.stderr.read().decode().splitlines()
        assert running.process.wait() == 1
    assert first == "kinspect: cannot write the output: Broken pipe: the capture ends"


def test_nothing_came(live):
    with live("-i", "lo", "--answer", "groups,errors", "--duration", "0.3s") as running:
        out, _ = running.end(0)
        assert running.process.returncode == 0
    for line in out.splitlines():
        found = json.loads(line)
        assert (found["rows"], found["capture"]["complete"]) == ([], False)
    assert len(out.splitlines()) == 2
