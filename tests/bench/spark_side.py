"""One side of `spark.py`: the exchanges of captures written by Spark, or by `kinspect read`. Prints what it took.

    python spark_side.py read --out FILE CAPTURE...
    python spark_side.py spark --master local[2] --out DIR CAPTURE...
    python spark_side.py spark --workers 2 --out DIR CAPTURE...     # a standalone cluster, each worker with one core

On Spark, time and CPU begin when the session has read a small capture: its processes are there, with their classes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
TICKS = os.sysconf("SC_CLK_TCK")
EVERY_S = 0.1
PYTHON, EXECUTOR, DRIVER = "python", "executor", "driver"
"""Kinds of processes; with a local master the driver's JVM is the executor's too, with a cluster master and workers'
JVMs count as the driver."""
SMALL = TESTS.parent / "captures/2.8.2/console-zstd.pcap"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=("spark", "read"))
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--first", action="store_true", help="measure the first query of the session")
    parser.add_argument("--out", required=True)
    parser.add_argument("captures", nargs="+")
    options = parser.parse_args()
    took = by_spark(options) if options.side == "spark" else by_read(options)
    print(json.dumps(took))


def by_read(options: argparse.Namespace) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "kinspect",
        "read",
        "--jobs",
        "1",
        "-q",
        "-o",
        options.out,
        *options.captures,
    ]
    begin = time.perf_counter()
    subprocess.run(command, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(options.out, "rb") as lines:
        rows = sum(1 for _ in lines)
    return {
        "wall": time.perf_counter() - begin,
        "python_cpu": used.ru_utime + used.ru_stime,
        "python_peak_mib": used.ru_maxrss / 1024,
        "rows": rows,
    }


def by_spark(options: argparse.Namespace) -> dict[str, Any]:
    from kinspect.spark.job import Job, run
    from kinspect.spark.sparksession import open_session
    from kinspect.tables.request import Request

    exchanges = Request(("exchanges",))

    events = Path(options.out + "-events").resolve()
    events.mkdir(parents=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "1g",
    }
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    with ExitStack() as stack:
        master = options.master
        if options.workers:
            sys.path.insert(0, str(TESTS / "spark"))
            from cluster import Cluster

            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            cluster = Cluster(folder, options.workers)
            stack.callback(cluster.stop)
            master = cluster.url
        session = open_session(master, settings, progress=False)
        stack.callback(session.stop)
        session.sparkContext.setLogLevel("ERROR")
        if not options.first:
            run(session, Job([str(SMALL)], options.out + "-small", exchanges), lambda _: None)
        processes_below = Processes()
        before = processes_below.cpu()
        begin = time.perf_counter()
        result = run(session, Job(options.captures, options.out, exchanges), lambda _: None)
        wall = time.perf_counter() - begin
        used = {kind: cpu - before.get(kind, 0.0) for kind, cpu in processes_below.cpu().items()}
        processes_below.stop()
    return {
        "wall": wall,
        "executor_cpu": used.get(EXECUTOR, 0.0),
        "driver_cpu": used[DRIVER],
        "python_cpu": used[PYTHON],
        "python_peak_mib": processes_below.peak_mib,
        "shuffled": shuffled(events),
        "rows": result.rows["exchanges"],
    }


class Processes:
    """Processes that this one started, JVMs and Python workers, watched by a thread."""

    def __init__(self) -> None:
        self.peak_mib = 0.0
        self._done = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far, by kind of process; of Python also those that ended, this one among them."""
        table, used = processes(), {PYTHON: 0.0, DRIVER: 0.0}
        for pid in [os.getpid(), *below(os.getpid(), table)]:
            kind = kind_of(pid)
            used[kind] = used.get(kind, 0.0) + (sum(table[pid][1:]) if kind == PYTHON else table[pid][1])
        return used

    def stop(self) -> None:
        self._done.set()

    def _watch(self) -> None:
        while not self._done.wait(EVERY_S):
            for pid in filter(is_python, below(os.getpid(), processes())):
                self.peak_mib = max(self.peak_mib, high_water_mib(pid))


def processes() -> dict[int, tuple[int, float, float]]:
    """Parent, CPU seconds, and CPU seconds of ended children of every process, by process id."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            times = [int(field) / TICKS for field in fields[11:15]]
            found[int(entry)] = int(fields[1]), times[0] + times[1], times[2] + times[3]
    return found


def below(top: int, table: dict[int, tuple[int, float, float]]) -> Iterator[int]:
    for pid, (parent, _, _) in table.items():
        if parent == top:
            yield pid
            yield from below(pid, table)


def kind_of(pid: int) -> str:
    """`PYTHON`: a worker, and not the JVM before it has become another program; of a cluster's JVMs `EXECUTOR`."""
    try:
        command = Path("/proc", str(pid), "cmdline").read_bytes()
    except OSError:
        return DRIVER
    if b"pyspark" in command.partition(b"\0-m\0")[2]:
        return PYTHON
    return EXECUTOR if b"CoarseGrainedExecutorBackend" in command else DRIVER


def is_python(pid: int) -> bool:
    return kind_of(pid) == PYTHON


def high_water_mib(pid: int) -> float:
    try:
        status = Path("/proc", str(pid), "status").read_text()
    except OSError:
        return 0.0
    return next(
        (int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0
    )


def shuffled(events: Path) -> int:
    """Bytes that tasks wrote for other tasks, by the event log."""
    total = 0
    for path in events.iterdir():
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                total += event["Task Metrics"]["Shuffle Write Metrics"]["Shuffle Bytes Written"]
    return total


if __name__ == "__main__":
    main()
