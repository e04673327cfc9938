"""An explorer that is to end: the terminal goes away, or a signal comes."""

import os
import signal
import sys
from pathlib import Path

import pytest
from support.screen import Screen
from support.shares import one_in
from support.tui import NANO

KINSPECT = Path(sys.executable).with_name("kinspect")


@pytest.fixture(params=["read", "reading"])
def explorer(request, tmp_path):
    """One that has read all, and one that has not."""
    captures, writer = [NANO], None  # what is read, and who has not written all of it
    if request.param == "reading":
        pipe = tmp_path / "endless"
        os.mkfifo(pipe)
        captures = [pipe]
    found = Screen(tmp_path, KINSPECT, "explore", *captures)
    if request.param == "reading":
        writer = pipe.open("wb", buffering=0)
        writer.write(NANO.read_bytes())
    found.until(b"Produce" if writer is None else b"reading")
    yield found
    found.end()
    if writer is not None:
        writer.close()


@pytest.mark.parametrize("keys", one_in(3, [b"", b"\r", b"?"]), ids=["list", "fields", "help"])
def test_it_ends_with_its_terminal_and_leaves_nothing(explorer, keys):
    os.write(explorer.controller, keys)
    explorer.close()
    assert explorer.status() == 128 + signal.SIGHUP
    assert explorer.alive() == []
    assert [*explorer.spools.iterdir()] == []


@pytest.mark.parametrize("number", one_in(2, [signal.SIGTERM, signal.SIGHUP]), ids=["SIGTERM", "SIGHUP"])
def test_it_gives_the_terminal_back_when_a_signal_ends_it(explorer, number):
    explorer.process.send_signal(number)
    told = explorer.until(b"\x1b[?1049l")
    told += explorer.rest()
    assert explorer.status() == 128 + number
    assert b"\x1b[?25h" in told
    assert b"Traceback" not in told
    assert explorer.alive() == []


BUSY = """
import sys
from kinspect import cli
from kinspect.tui import app

def busy(self, number):
    while True:
        pass

app.Explorer._end = busy
sys.exit(cli.main())
"""
"""The explorer, which never comes to its end."""


def test_whatever_it_does_a_signal_ends_it(tmp_path):
    busy = Screen(tmp_path, sys.executable, "-c", BUSY, "explore", NANO)
    busy.until(b"Produce")
    busy.process.send_signal(signal.SIGTERM)
    told = busy.until(b"\x1b[?1049l")
    told += busy.rest()
    assert busy.status() == 128 + signal.SIGTERM
    assert b"\x1b[?25h" in told
    assert b"Traceback" not in told
    assert busy.alive() == []
    busy.end()
