"""Runs the command in a process of its own and tells how much memory it took."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest

BENCH = Path(__file__).parents[1] / "bench"
sys.path.insert(0, str(BENCH))


class Run(NamedTuple):
    """How a run ended; `peak` is its largest resident memory in MiB."""

    status: int
    out: bytes
    err: str
    peak: float


@pytest.fixture
def measured():
    """Runs `kinspect` with these arguments."""

    def run(*arguments, timeout=600):
        command = [sys.executable, "-m", "kinspect", *map(str, arguments)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            errors = []
            reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
            reader.start()
            watchdog = threading.Timer(timeout, process.kill)
            watchdog.start()
            out = process.stdout.read()
            reader.join()
            _, wait_status, usage = os.wait4(process.pid, 0)
            watchdog.cancel()
            process.returncode = os.waitstatus_to_exitcode(wait_status)
        kib = usage.ru_maxrss if sys.platform != "darwin" else usage.ru_maxrss / 1024
        return Run(process.returncode, out, errors[0].decode(), kib / 1024)

    return run


@pytest.fixture
def generate(tmp_path):
    """Makes a capture with a script of `tests/bench`."""

    def make(script, *arguments):
        path = tmp_path / "made.pcap"
        command = [sys.executable, str(BENCH / script), *map(str, arguments), "-o", str(path)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return path

    return make
