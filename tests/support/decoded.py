"""Captures as JSON lines, decoded in this process."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import kinspect
from kinspect.kafka.view.view import View
from support.lines import Line

WHOLE = View(records=True, payload="text")


@lru_cache(maxsize=4)
def exchanges(*paths: Path) -> list[Line]:
    """The exchanges of a capture with their records and payloads as text. The dicts are shared: do not change them."""
    keylog = b"".join(path.read_bytes() for path in map(keylog_beside, paths) if path.exists())
    return [exchange.to_dict(WHOLE) for exchange in kinspect.read(*paths, keylog=keylog)]


def keylog_beside(capture: Path) -> Path:
    """Path of the TLS secrets of a capture, if they are in a file of their own."""
    return capture.with_name(capture.name.split(".")[0] + ".keys.log")
