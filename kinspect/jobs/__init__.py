"""Several processes for one reading, whose lines are those of one.

A connection's lines depend on its own packets. So every worker reads and dissects all packets, and decodes and formats
the lines of its own connections. What the run shares goes through the first process, which inspects nothing:

- After each chunk of the input a worker tells which lines came, by place, key and size, and which names they told.
- With what all workers told of the chunk, the first process puts the lines in order, as one inspector does, and gives
  each worker its turn: the names of all, and which of its lines are ready, in order.
- A worker formats those and sends their text, which is taken in the order of all lines. Until then it may read on.

Workers are forked, not spawned: they begin with the options and all that was loaded and compiled. Nothing has started a
thread by then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from kinspect.capture import Timeline
from kinspect.jobs.link import JobWorker, fork
from kinspect.jobs.merge import LineMerge, Shares, TextOutput
from kinspect.jobs.worker import CHUNK_BYTES, WorkerJob, work
from kinspect.model import Block

LARGE = 64 * 1024 * 1024
"""Input from which on several processes are used unasked."""
USEFUL = 8
"""Processes that are used unasked, at most."""


def processes(asked: int | None, timeline: Timeline) -> int:
    """How many processes to read with if `asked` were asked for (0: one a processor; None: the same for large inputs).

    One, where the input cannot be read twice or there is no fork; and never more than there are chunks.
    """
    size = timeline.bytes_total
    # Of what cannot be read twice, the size is not known.
    if not hasattr(os, "fork") or size is None or (asked is None and size < LARGE):
        return 1
    return min(asked or min(_processors(), USEFUL), size // CHUNK_BYTES + 1)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_shared(
    job: Callable[[int, int], WorkerJob], blocks: Iterator[Block], count: int, output: TextOutput
) -> Shares:
    """Reads the blocks with so many workers, each of which does its `job`, by number and their count.

    Raises KinspectError if one of them died or if not all of them read the same, and what they raise.
    """
    workers: list[JobWorker] = []
    try:
        for number in range(count):
            workers.append(
                fork(
                    lambda link, own=number: work(job(own, count), blocks, own, count, link),  # type: ignore[misc]
                    workers,
                )
            )
        return LineMerge(output, workers).run()
    finally:
        for worker in workers:
            worker.end()
