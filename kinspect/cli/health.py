"""How a live run keeps up: what was captured, dropped and waits, and how far decoding and output are behind."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from kinspect.capture.handover import InterfaceCounters
from kinspect.capture.livecapture import OngoingCapture
from kinspect.cli.readrun import ReadRun


class Health(NamedTuple):
    """State of a live run: packets captured and their bytes, and those that the kernel (None: not known) and the
    queue dropped, over all `interfaces`, and of each by its name. `queue_bytes` of `queue_limit` wait to be
    decoded. `lag_ns`: time since the capturing process handed over what is decoded now; with nothing to do it stays
    below 200 ms. `blocked_ns`: time spent so far in writes to the output. `connections`: open TCP connections of
    any kind. `capturing`: the capturing process runs."""

    packets: int
    bytes: int
    kernel_drops: int | None
    queue_drops: int
    interfaces: Mapping[str, InterfaceCounters]
    queue_bytes: int
    queue_limit: int
    lag_ns: int
    blocked_ns: int
    connections: int
    capturing: bool

    @property
    def away(self) -> tuple[str, ...]:
        """The interfaces from which nothing is captured until they are there again."""
        return tuple([name for name, each in self.interfaces.items() if not each.up])


def health(capture: OngoingCapture, run: ReadRun) -> Health:
    """The state now. May be asked in any thread, also while decoding waits for the output."""
    counters = capture.counters
    return Health(
        counters.packets,
        counters.bytes,
        counters.kernel_drops,
        counters.queue_drops,
        capture.interfaces,
        counters.waiting,
        capture.queue_limit,
        max(time.monotonic_ns() - counters.told_at, 0),
        run.stream.file.blocked_ns,
        run.inspector.open_connections,
        capture.capturing,
    )
