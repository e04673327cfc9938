"""A line on how far a command is, on the terminal of who waits."""

import fcntl
import gzip
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest
from support.shares import one_in
from support.tui import CAPTURES

from kinspect.capture.timeline import SourceStatus
from kinspect.cli import complain, progress

ERASE = progress.ERASE
GROUPS = CAPTURES / "4.4.0" / "groups_classic.pcap.gz"


class Stderr:
    """Stands in for standard error, a terminal."""

    def __init__(self, terminal=True):
        self.text = ""
        self.isatty = lambda: terminal
        self.flush = lambda: None

    def write(self, text):
        self.text += text

    def fileno(self):
        raise OSError


@pytest.fixture
def stderr(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Stderr()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    return stream


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def reading():
    found = SimpleNamespace(bytes_read=10_000, bytes_total=100_000)
    found.shown = progress.of_reading(SimpleNamespace(status=found))
    yield found
    found.shown.stop()


def test_nothing_is_shown_in_the_first_second(stderr, clock, reading):
    for clock[0] in (100.5, 100.9):
        reading.shown.update()
    assert stderr.text == ""
    for clock[0] in (101.0, 101.1, 101.3):
        reading.bytes_read += 10_000
        reading.shown.update()
    reading.shown.stop()
    assert stderr.text.split(ERASE) == [
        "",
        "reading: 20% of 100 kB, 20.0 kB/s, 4s left",
        "reading: 40% of 100 kB, 30.8 kB/s, 1s left",
        "",
    ]


def test_without_an_end_it_says_how_long_it_took(stderr, clock, reading):
    reading.bytes_total = None
    clock[0] = 165
    reading.shown.update()
    assert stderr.text == f"{ERASE}reading: 10.0 kB, 154 B/s, 1m 05s"


def test_other_processes_may_tell_the_number(stderr, clock, reading):
    clock[0] = 102
    reading.shown.update(50_000)
    assert "50%" in stderr.text


def test_it_makes_way_for_messages_and_stays_away_while_they_come(stderr, clock, reading, monkeypatch):
    monkeypatch.setattr("kinspect.cli.click.echo", lambda text, err: stderr.write(f"{text}\n"))
    clock[0] = 102
    reading.shown.update()
    complain("something")
    assert stderr.text.endswith(f"left{ERASE}kinspect: something\n")
    clock[0] = 102.5
    reading.shown.update()
    assert stderr.text.endswith("something\n")
    clock[0] = 103
    reading.shown.update()
    assert stderr.text.count("reading") == 2


@pytest.mark.parametrize(("term", "terminal"), [("dumb", True), ("xterm", False)])
def test_lines_that_cannot_be_taken_away_are_few(stderr, clock, monkeypatch, term, terminal):
    monkeypatch.setenv("TERM", term)
    stderr.isatty = lambda: terminal
    shown = progress.of_reading(SimpleNamespace(status=SourceStatus([], 10_000, 100_000)))
    for clock[0] in range(101, 115):
        shown.update()
    shown.stop()
    first, second, end = stderr.text.split("\n")
    assert first.startswith("reading: 10%")
    assert second.startswith("reading: 10%")
    assert end == ""


def test_work_without_parts(stderr, monkeypatch):
    shown, writers = threading.Semaphore(0), []

    def write(text):
        stderr.text += text
        writers.append(threading.current_thread())
        if "decoding: 1s" in text:
            shown.release()

    monkeypatch.setattr(stderr, "write", write, raising=False)
    with progress.working("decoding"):
        for _ in range(2):
            assert shown.acquire(timeout=60)
        # No handler of signals, which may come within a write.
        assert threading.current_thread() not in writers
    assert stderr.text.endswith(ERASE)
    assert not [
        writer for writer in writers if writer is not threading.current_thread() and writer.is_alive()
    ]


IMPATIENT = (
    "import sys; from kinspect.cli import main, progress;"
    "progress.PATIENCE_SECONDS = progress.INTERVAL_SECONDS = 0; sys.exit(main(sys.argv[1:]))"
)
"""A command that shows its progress from the first block on."""


class OnATerminal:
    """A command on a terminal of 80 columns: its output is read up to a text, or to its end."""

    def __init__(self, *arguments):
        self._controller, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", IMPATIENT, *map(str, arguments)],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
        )
        os.close(inside)
        self.output = ""

    def until(self, text):
        while text not in self.output:
            self.output += os.read(self._controller, 1 << 16).decode()

    def rest(self):
        # Linux ends a pseudo-terminal's output with an error.
        with suppress(OSError):
            while piece := os.read(self._controller, 1 << 16):
                self.output += piece.decode()
        os.close(self._controller)
        return self.process.wait()

    @property
    def left(self):
        """What stands there in the end."""
        return re.sub(r"[^\n]*\r\x1b\[K", "", self.output.replace("\r\n", "\n"))


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "groups.pcap"
    path.write_bytes(gzip.decompress(GROUPS.read_bytes()))
    return path


@pytest.mark.parametrize("jobs", one_in(2, [(), ("--jobs", "2")]), ids=["alone", "jobs"])
@pytest.mark.parametrize("command", [("topics",), ("read", "--client-id", "nobody")], ids=["topics", "read"])
def test_on_a_terminal(command, jobs, capture):
    shown = OnATerminal(*command, *jobs, capture, capture, capture)
    assert shown.rest() == 0
    assert re.search(r"reading: \d+% of .* left", shown.output)
    assert "reading" not in shown.left


def test_ctrl_c_ends_with_what_is_done(capture, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    shown = OnATerminal("topics", pipe)
    with pipe.open("wb") as written:
        written.write(capture.read_bytes()[:300_000])
        written.flush()
        shown.until("reading: ")
        shown.process.send_signal(signal.SIGINT)
        assert shown.rest() == 130
    assert "reading" not in shown.left
    assert "pc-grp" in shown.left
    assert "Traceback" not in shown.left


@pytest.mark.parametrize("option", ["--no-progress", "-q"])
def test_no_progress_where_none_is_asked_for(option, capture):
    shown = OnATerminal("topics", option, capture)
    assert shown.rest() == 0
    assert "reading" not in shown.output
