"""One run by several processes, with the same output as one process gives (`--jobs`).

A connection's lines depend on its own packets. So every worker reads and dissects all packets, and decodes and formats
the lines of its own connections. State that the run shares goes through the first process, which inspects nothing:

- After each chunk of the input a worker reports its new lines, by place, key and size, and the names learned from them.
- With the reports of all workers, the first process puts the lines in order, as one inspector does. Then it sends each
  worker its turn: the names that all workers learned, and which of its lines are ready, in order.
- The worker formats those lines and sends their text, which is written in the order of the run. Until its turn comes, a
  worker may read on.

Workers are forked, not spawned: they begin with the options and with everything that was loaded and compiled. No thread
has been started by then.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kinspect.capture import Timeline
from kinspect.jobs.chunks import CHUNK_BYTES

if TYPE_CHECKING:
    from kinspect.jobs.linemerge import TextOutput, WorkerTotals
    from kinspect.jobs.worker import WorkerJob

LARGE = 64 * 1024 * 1024
"""Bytes of input from which on several processes are the default."""
USEFUL = 8
"""Most processes that the default uses."""


def processes(asked: int | None, timeline: Timeline) -> int:
    """Number of processes to read with. `asked`: the requested number; 0: one for each processor; None: the default.

    It is 1 if the input cannot be read twice or the system has no fork. It is never more than the number of chunks.
    """
    size = timeline.bytes_total  # None for an input that cannot be read twice
    if not hasattr(os, "fork") or size is None or (asked is None and size < LARGE):
        return 1
    return min(asked or min(_processors(), USEFUL), size // CHUNK_BYTES + 1)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_shared(job: Callable[[int, int], WorkerJob], count: int, output: TextOutput) -> WorkerTotals:
    """Read with `count` workers and write their lines to `output`. Returns the workers' counts.

    `job`: makes the job of a worker of its number (from 0) and the number of workers. Raises KinspectError if a worker
    died or if workers read different input, and the exceptions that workers raise.
    """
    # Who asks for the number of processes needs none of it.
    from kinspect.jobs.linemerge import LineMerge
    from kinspect.jobs.worker import work
    from kinspect.jobs.workerlink import JobWorker

    workers: list[JobWorker] = []
    try:
        for number in range(count):
            workers.append(JobWorker(number, partial(work, job, number, count)))
        return LineMerge(output, workers).run()
    finally:
        for worker in workers:
            worker.end()
