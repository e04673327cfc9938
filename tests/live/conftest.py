"""Running `kinspect live` beside traffic of the test's own."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

PATIENCE = 20


@pytest.fixture
def root():
    """What captures and makes interfaces."""
    if os.geteuid() != 0:
        pytest.fail("needs root, to capture from an interface")


@pytest.fixture
def iproute(root):
    """The program `ip`."""
    if shutil.which("ip") is None:
        pytest.fail("needs the program ip (package iproute2), to make network namespaces")


def read_some(descriptor):
    """What comes next from a pipe or terminal."""
    ready, _, _ = select.select([descriptor], [], [], PATIENCE)
    assert ready, "nothing came"
    data = os.read(descriptor, 65536)
    assert data, "the output ended"
    return data


class Running:
    """`kinspect live` at work: its lines as they come, and its end."""

    def __init__(self, process):
        self.process = process
        self.started = process.stderr.readline().decode()
        self._read = b""

    def line(self):
        """The next line of standard output."""
        while b"\n" not in self._read:
            self._read += read_some(self.process.stdout.fileno())
        line, _, self._read = self._read.partition(b"\n")
        return line

    def end(self, number=signal.SIGINT, patience=PATIENCE):
        """Ask it to end (0: wait until it does); gives what it still printed."""
        if number:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=patience)
        return (self._read + (out or b"")).decode(), err.decode()


@pytest.fixture
def live():
    """Starts `kinspect live` and comes back when it captures."""

    @contextmanager
    def run(*arguments, before=(), program=("-m", "kinspect"), stdout=subprocess.PIPE, **options):
        command = [*before, sys.executable, *program, "live", *map(str, arguments)]
        process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, bufsize=0, **options)
        try:
            yield Running(process)
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    return run
