"""Captures indexed, by one process or by several."""

from __future__ import annotations

from collections.abc import Callable

from kinspect.capture import open_timeline
from kinspect.jobs import processes
from kinspect.tui.index.indexer import CaptureRun, Indexer, Inputs, RowBatch, index_packets
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
    run = CaptureRun(timeline, inputs.inspector(emit=inputs.emit), inputs.plain)

    def send_with_places(batch: RowBatch) -> None:
        places, descriptions = run.take_places()
        send(batch._replace(places=places, descriptions=descriptions))

    index_packets(run, Indexer(run, spool, inputs.plain), send_with_places)
