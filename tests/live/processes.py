"""The processes of `kinspect live`."""

from __future__ import annotations

import time


def worker_of(running):
    """The process that captures."""
    pid = running.process.pid
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return int(file.read())


def waiting_for(condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
