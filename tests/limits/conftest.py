"""Runs the command in a process of its own and tells how much memory it took."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

BENCH = Path(__file__).parents[1] / "bench"
sys.path.insert(0, str(BENCH))


class Run(NamedTuple):
    """Result of a run; `peak` is its largest resident memory in MiB."""

    status: int
    out: bytes
    err: str
    peak: float


# The peak must be the process's own: what `wait4` tells counts its parent's memory before `exec` too.
LAUNCH = """
import os
import resource, sys
from pathlib import Path
from kinspect.cli import main
status = main(sys.argv[2:])
own = Path("/proc/self/status")
if own.exists():
    peak = next(int(line.split()[1]) for line in own.read_text().splitlines() if line.startswith("VmHWM"))
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
Path(sys.argv[1]).write_text(str(peak))
sys.exit(status)
"""


@pytest.fixture
def measured(tmp_path):
    """Runs `kinspect` with these arguments."""

    def run(*arguments):
        told = tmp_path / "peak"
        command = [sys.executable, "-c", LAUNCH, str(told), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, check=False)
        return Run(done.returncode, done.stdout, done.stderr.decode(), int(told.read_text()) / 1024)

    return run


@pytest.fixture
def generate(tmp_path):
    """Makes a capture with a script of `tests/bench`."""

    def make(script, *arguments):
        path = tmp_path / "made.pcap"
        command = [sys.executable, str(BENCH / script), *map(str, arguments), "-o", str(path)]
        # They import each other, also where Python is told not to look beside a script.
        environment = os.environ | {"PYTHONPATH": str(BENCH)}
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, env=environment)
        return path

    return make
