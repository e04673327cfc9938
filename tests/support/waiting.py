"""Waiting for what must come, however slow the machine is: the limit of a whole test ends what hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def wait_until(condition: Callable[[], object], told: Callable[[], str] = str) -> None:
    """Return when the condition holds. `told`: printed if it never does."""
    try:
        while not condition():
            time.sleep(0.02)
    except BaseException:
        print(told())
        raise


def wait_for_lines(path: Path, count: int) -> list[bytes]:
    """The lines of a file, as soon as it has that many."""
    wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") >= count)
    return path.read_bytes().splitlines()
