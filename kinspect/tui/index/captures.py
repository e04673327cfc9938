"""Captures indexed, by one process or by several."""

from __future__ import annotations

from collections.abc import Callable

from kinspect.capture import open_timeline
from kinspect.jobs import processes
from kinspect.tui.index.indexer import Indexer, Inputs, RowBatch, index_packets
from kinspect.tui.index.spool import Spool


def index(inputs: Inputs, spool: Spool, send: Callable[[RowBatch], None]) -> None:
    """Read the inputs to their end, and send batches of their exchanges. An exception of `send` ends the reading."""
    timeline = open_timeline(inputs.paths, skew_ns=inputs.caps.skew_ns)
    count = processes(inputs.jobs, timeline)
    if count > 1:
        # Loaded when it is needed.
        from kinspect.tui.index.shared import index_shared

        index_shared(inputs, spool, timeline, count, send)
        return
    indexer = Indexer(inputs.inspector(emit=inputs.emit), spool, inputs.plain)
    described = 0

    def send_with_places(batch: RowBatch) -> None:
        nonlocal described
        descriptions = timeline.descriptions[described:]
        described += len(descriptions)
        send(batch._replace(descriptions=descriptions))

    index_packets(indexer, timeline, timeline.offset, send_with_places)
