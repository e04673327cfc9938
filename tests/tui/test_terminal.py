"""In a real terminal, and with tshark: what only they can tell."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.terminal import Terminal
from support.tui import CAPTURES, ERRORS, NANO, indexed

import kinspect
from kinspect.tui.index import export

pytestmark = pytest.mark.tools
KINSPECT = Path(sys.executable).with_name("kinspect")


@pytest.fixture
def terminal(tmp_path):
    found = Terminal(tmp_path)
    yield found
    found.close()


def test_keys_and_screen(terminal):
    terminal.run(f"{KINSPECT} explore --utc {ERRORS}")
    terminal.until("1/95 exchanges", "request_api_key 18 (ApiVersions)")
    terminal.send("l")
    terminal.until("LATENCY▼", "#50 JoinGroup v9 503ms")
    terminal.send("Enter", "Down", "Down")
    terminal.until("request_api_key  int16  bytes 0–2 (2)")
    terminal.send("Escape")
    terminal.until("Fields and bytes")  # else a terminal takes Escape and what follows for one key
    terminal.send("/")
    terminal.until("Tab: api=")
    terminal.send(*"api=Prod", "Tab", "Enter")
    terminal.until(" api=Produce", "of 95 exchanges")
    terminal.send("?")
    terminal.until("The slowest exchange and its bytes")
    terminal.send("q")
    terminal.until("Fields and bytes")
    terminal.send("q")
    assert terminal.status() == 0


def test_a_capture_on_standard_input(terminal):
    terminal.run(f"cat {NANO} | {KINSPECT} explore -")
    terminal.until("1/4 exchanges")
    terminal.send("End", "Enter")
    terminal.until("#4 Produce v10")
    terminal.send("q")
    assert terminal.status() == 0


def test_status_of_what_could_not_be_read(terminal):
    terminal.run(f"{KINSPECT} explore missing.pcap {CAPTURES / 'variants' / 'cutfile.pcap'}")
    terminal.until("1/60 exchanges")
    terminal.send("q")
    assert terminal.status() == 3
    terminal.until("missing.pcap: no such file", "ends in the middle of packet 176")


def test_the_reading_ends_with_the_explorer(terminal, tmp_path):
    pipe = tmp_path / "endless"
    os.mkfifo(pipe)
    terminal.run(f"{KINSPECT} explore {pipe}")
    with pipe.open("wb") as file:
        file.write(NANO.read_bytes())
        file.flush()
        terminal.until("exchanges", "reading")
        terminal.send("s")
        terminal.until("stopped: not all was read")
        terminal.send("q")
        assert terminal.status() == 0
        with pytest.raises(BrokenPipeError):  # noqa: PT012 - the reader is gone
            for _ in range(100):
                file.write(bytes(65536))
                file.flush()
        file.close = lambda: None


@pytest.mark.parametrize("name", ["4.4.0/nano.pcap", "4.4.0/ipv6.pcap", "4.4.0/kafkago.pcap.gz"])
def test_tshark_finds_the_packets(name):
    path = CAPTURES / name
    store = indexed(path)
    for number, exchange in list(enumerate(kinspect.read(path)))[::9]:
        ((told, text),) = export.tshark_filters(store, store[number])
        assert told == str(path)
        command = ["tshark", "-r", str(path), "-Y", text]
        found = subprocess.run(
            [*command, "-T", "fields", "-e", "frame.number"], capture_output=True, text=True, check=True
        )
        frames = [*map(int, found.stdout.split())]
        for message in (exchange.request, exchange.response):
            if message is not None:
                assert {message.first_frame, message.last_frame} <= set(frames)
        assert len(frames) <= 60
