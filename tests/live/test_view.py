"""The live view in a real terminal, beside real traffic."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.terminal import Terminal

from kinspect.tui.live.screen import FRAME

from .loopback import free_port, talk
from .processes import packets_in

pytestmark = [pytest.mark.tools, pytest.mark.usefixtures("root")]

KINSPECT = Path(sys.executable).with_name("kinspect")
LOAD = Path(__file__).with_name("load.py")


@pytest.fixture
def terminal(tmp_path):
    found = Terminal(tmp_path, (80, 24))
    yield found
    found.close()


@contextmanager
def load(port, rate, seconds, size=300):
    """Traffic; gives the function that waits for its end and tells what was exchanged."""
    command = [sys.executable, LOAD, *map(str, (port, seconds, rate, size, 5))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        yield lambda: json.loads(process.stdout.read())


def live(terminal, port, *options):
    """Start the view between two notes of how the terminal is set; gives where they are."""
    before, after = terminal.log.with_name("before"), terminal.log.with_name("after")
    command = f"{KINSPECT} live -i lo --port {port} --utc {' '.join(options)}"
    note = f"n=$?; stty -g > {after}; (exit $n)"
    terminal.run(f"stty -g > {before}; echo $$ > {before}.pid; {command}; {note}")
    terminal.until("kinspect live lo", "DROPPED")
    return before, after


def pid_of(terminal):
    shell = terminal.log.with_name("before.pid").read_text().strip()
    return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])


@pytest.mark.parametrize("ending", ["C-c", "q", "SIGTERM"])
def test_what_it_shows_and_how_it_ends(terminal, ending):
    port = free_port()
    before, after = live(terminal, port)
    assert (terminal.told("alternate_on"), terminal.told("cursor_flag")) == ("1", "0")
    with load(port, 200, 4) as exchanged:
        terminal.until(
            "load-producer",
            "5 Kafka",
            patterns=(
                r"a second +[\d.]+( k)? +[\d.]+ [kM]?B +[1-9]\d* +0 +\d+ open +kernel 0",
                r"Produce +[\d.]+( +[\d.]+ms){6}",
                r"\d\d:\d\d:\d\d load-consumer +Fetch v12 .*orders\[0\].*",
            ),
        )
        count = exchanged()["exchanges"]
    terminal.until(f" {count:,} ")
    if ending == "SIGTERM":
        os.kill(pid_of(terminal), signal.SIGTERM)
    else:
        terminal.send(ending)
    assert terminal.status() == 0
    screen = terminal.until(f"{count:,} exchanges", "packets dropped by the capturing kernel: 0")
    assert "Last exchanges" not in screen
    told = [terminal.told(what) for what in ("alternate_on", "cursor_flag", "wrap_flag")]
    assert told == ["0", "1", "1"]
    assert before.read_text() == after.read_text()


def test_the_size_may_change(terminal):
    port = free_port()
    live(terminal, port)
    with load(port, 100, 6):
        terminal.until("load-producer")
        for width, height in ((130, 40), (60, 15), (80, 24)):
            terminal.resize(width, height)
            lines = []
            # A rule reaches from edge to edge, and rows fill the screen to its last line.
            while len(lines) != height or len(lines[4]) != width or "orders" not in lines[-1]:
                lines = terminal.screen().splitlines()
            assert lines[0].startswith("kinspect live lo")
            assert all(len(line) <= width for line in lines)
    terminal.send("q")
    assert terminal.status() == 0


def test_pages_count_from_when_they_are_opened(terminal):
    port = free_port()
    live(terminal, port)
    with load(port, 100, 2) as exchanged:
        exchanged()
    terminal.until("orders")
    terminal.send("2")
    terminal.until("topics, 0 exchanges since ", "no exchange yet")
    with load(port, 100, 3) as exchanged:
        terminal.until(patterns=(r"orders +consume +load-consumer .*", r"orders +produce +load-producer .*"))
        for width, height in ((120, 40), (60, 15), (80, 24)):
            terminal.resize(width, height)
            terminal.until("load-consumer", patterns=(rf"(?=topics, .* since ).{{{width}}}",))
        count = exchanged()["exchanges"]
    half = (count + 1) // 2, count // 2
    rows = tuple(
        rf"orders +{does} +load-{who} .* {each} .*"
        for does, who, each in zip(("produce", "consume"), ("producer", "consumer"), half, strict=True)
    )
    terminal.until(f"topics, {count} exchanges since ", patterns=rows)
    terminal.send("3")
    terminal.until("clients, 0 exchanges since ")
    terminal.send("0")
    terminal.until("Last exchanges")
    terminal.send("2", "PageDown", "Up")
    terminal.until(f"topics, {count} exchanges since ", patterns=rows)
    terminal.send("C-c")
    assert terminal.status() == 0
    terminal.until("packets dropped by the capturing kernel: 0")


def test_a_limit_is_of_exchanges(terminal):
    port = free_port()
    live(terminal, port, "--limit", "22")
    talk(port, 5, connections=4)
    terminal.until(patterns=(r"in all .* 20 +0 .*",))
    talk(port, 5)
    assert terminal.status() == 0
    terminal.until("22 shown")


@pytest.mark.parametrize("background", [False, True])
def test_stopped_and_brought_back(terminal, background):
    port = free_port()
    terminal.send("q")
    terminal.send("Enter")
    live(terminal, port)
    terminal.send("C-z")
    terminal.until("Stopped")
    assert terminal.told("cursor_flag") == "1"
    terminal.log.unlink()
    if background:
        terminal.send("bg", "Enter")
    with load(port, 100, 2) as exchanged:
        count = exchanged()["exchanges"]
    terminal.send("echo typed here is the shells", "Enter")
    assert "Last exchanges" not in terminal.until("typed here is the shells")
    terminal.send("fg", "Enter")
    terminal.until("Last exchanges", f" {count} ")
    terminal.send("C-c")
    terminal.until(f"{count} shown")
    assert (terminal.told("alternate_on"), terminal.told("cursor_flag")) == ("0", "1")


def test_exploring_what_comes(terminal, tmp_path):
    port, saved = free_port(), tmp_path / "saved.pcapng"
    terminal.resize(100, 34)
    passing = f"tcp port {port}"
    terminal.run(f"{KINSPECT} live -i lo --bpf '{passing}' --utc --explore -w {saved}")
    terminal.until("0/0", "exchanges", "lo")
    with load(port, 100, 3) as exchanged:
        terminal.until("Produce v9", "Fetch v12")
        terminal.send("Enter")
        terminal.until("request_api_key")
        count = exchanged()["exchanges"]
    terminal.until(f"/{count:,}")
    terminal.send("s")
    terminal.until("capture stopped  lo")
    terminal.send("q")
    assert terminal.status() == 0
    told = terminal.until("exchanges listed", "packets dropped by the capturing kernel: 0", "too fast: 0")
    assert re.search(rf"[\d,]+ packets, [\d,]+ bytes on lo, of those that pass '{passing}'", told)
    captured, kept = re.findall(r"([\d,]+) packets captured, ([\d,]+) of them saved", told)[0]
    assert captured == kept == f"{packets_in(saved):,}"
    assert terminal.told("alternate_on") == "0"


def test_a_burst_is_drawn_at_most_ten_times_a_second():
    """Every frame is counted, by the times at which the terminal got them; and all is shown, or drops are told."""
    port, frames, end = free_port(), [], threading.Event()
    controller, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))

    def read():
        while not end.is_set():
            try:
                data = os.read(controller, 1 << 16)
            except OSError:
                return
            frames.extend([time.monotonic()] * data.count(FRAME.encode()))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    environment = {**os.environ, "TERM": "xterm"}
    command = [KINSPECT, "live", "-i", "lo", "--port", str(port)]
    with subprocess.Popen(command, stdout=inside, stderr=subprocess.PIPE, env=environment) as process:
        os.close(inside)
        assert b"capturing on lo" in process.stderr.readline()
        begin = time.monotonic()
        with load(port, 5000, 6) as exchanged:
            count = exchanged()["exchanges"]
        seconds = time.monotonic() - begin
        process.send_signal(signal.SIGINT)
        told = process.stderr.read().decode()
        assert process.wait() == 0
    end.set()
    assert "packets dropped by the capturing kernel: " in told
    if "packets dropped by the capturing kernel: 0" in told and "as they came too fast: 0" in told:
        assert f"{count:,} shown" in told
    during = [at for at in frames if begin <= at <= begin + seconds]
    assert 1 < len(during) <= 10 * seconds
    assert count > 10 * len(during)
