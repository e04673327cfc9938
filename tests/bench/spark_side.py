"""One side of `spark.py`: the exchanges of captures written as Parquet, by Spark or by processes that share the work as
those of `kinspect read --jobs` do. Prints what it took as JSON.

    python spark_side.py spark --cores 2 --way fast --out DIR CAPTURE...
    python spark_side.py read --jobs 2 --out DIR CAPTURE...

Time begins when the session is there and has read a small capture (`--first`: when it is there), or the processes are.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kinspect.capture import open_timeline
from kinspect.kafka.view import View
from kinspect.pipeline import Inspector
from kinspect.spark.tables import EXCHANGES, Row, make_batch, open_table

TICKS = os.sysconf("SC_CLK_TCK")
CHUNK_BYTES = 256 * 1024
ROWS = 1000
EVERY_S = 0.1
SMALL = Path(__file__).parents[2] / "captures/2.8.2/console-zstd.pcap"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=("spark", "read"))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--way", default="fast")
    parser.add_argument("--first", action="store_true", help="time the first query of the session")
    parser.add_argument(
        "--one-cpu", action="store_true", help="of the machine's, also for what runs beside the tasks"
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("captures", nargs="+")
    options = parser.parse_args()
    took = by_spark(options) if options.side == "spark" else by_read(options)
    print(json.dumps(took))


# ---------------------------------------------------------------------- kinspect read


def by_read(options: argparse.Namespace) -> dict[str, Any]:
    """Every process reads and pairs everything, and makes rows of what completes in its own chunks: see
    `kinspect.cli.jobs`."""
    Path(options.out).mkdir(parents=True)
    begin = time.perf_counter()
    children = []
    for number in range(options.jobs):
        child = os.fork()
        if not child:
            write(options.captures, f"{options.out}/{number}.parquet", number, options.jobs)
            os._exit(0)
        children.append(child)
    rows = [os.waitpid(child, 0)[1] for child in children]
    wall = time.perf_counter() - begin
    if any(rows):
        sys.exit("a process failed")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall": wall,
        "python_cpu": used.ru_utime + used.ru_stime,
        "python_peak_mib": used.ru_maxrss / 1024,
        "rows": counted(options.out),
    }


def write(paths: list[str], out: str, mine: int, jobs: int) -> None:
    from pyarrow.parquet import ParquetWriter

    table = open_table(EXCHANGES, None, View())
    timeline = open_timeline(paths)
    inspector = Inspector(files=timeline.files)
    position = 0
    rows: list[Row] = []
    with ParquetWriter(out, table.schema) as writer:
        for block in timeline:
            lines = inspector.feed(block)
            own = position // CHUNK_BYTES % jobs == mine
            position += len(block.data)
            if own:
                for line in lines:
                    rows += table.rows(line)
                if len(rows) >= ROWS:
                    writer.write_batch(make_batch(completed(rows), table.schema))
                    rows = []
        for line in inspector.finish():
            if not mine:
                rows += table.rows(line)
        writer.write_batch(make_batch(completed(rows), table.schema))


def completed(rows: list[Row]) -> list[Row]:
    """With the column that Spark's rows have in addition."""
    for row in rows:
        row["completion"] = bytes(33)
    return rows


# ---------------------------------------------------------------------- Spark


def by_spark(options: argparse.Namespace) -> dict[str, Any]:
    import kinspect.spark
    from kinspect.spark.session import open_session

    if options.one_cpu:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    events = Path(options.out + "-events").resolve()
    events.mkdir(parents=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    session = open_session(f"local[{options.cores}]", settings, progress=False)
    session.sparkContext.setLogLevel("ERROR")
    if not options.first:
        kinspect.spark.read(session, [str(SMALL)], way=options.way).write.parquet(options.out + "-small")
    processes = Processes()
    before = resource.getrusage(resource.RUSAGE_SELF)
    java, python = processes.cpu()
    begin = time.perf_counter()
    frame = kinspect.spark.read(session, options.captures, way=options.way)
    frame.write.parquet(options.out)
    wall = time.perf_counter() - begin
    java_after, python_after = processes.cpu()
    after = resource.getrusage(resource.RUSAGE_SELF)
    processes.stop()
    session.stop()
    driver = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "wall": wall,
        "java_cpu": java_after - java,
        "python_cpu": python_after - python + driver,
        "python_peak_mib": processes.peak_mib,
        "shuffled": shuffled(events),
        "rows": counted(options.out),
    }


class Processes:
    """The JVM and its Python workers, watched by a thread."""

    def __init__(self) -> None:
        self.peak_mib = 0.0
        self._java = next(pid for pid, (parent, _, _) in processes().items() if parent == os.getpid())
        self._done = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def cpu(self) -> tuple[float, float]:
        """CPU seconds so far: of the JVM, and of the Python processes below it, those that ended too."""
        table = processes()
        found = [*below(self._java, table)]
        python = sum(sum(table[pid][1:]) for pid in found if is_python(pid))
        # Some are programs that Hadoop's file system runs.
        others = sum(sum(table[pid][1:]) for pid in found if not is_python(pid))
        return table[self._java][1] + table[self._java][2] + others, python

    def stop(self) -> None:
        self._done.set()

    def _watch(self) -> None:
        while not self._done.wait(EVERY_S):
            for pid in filter(is_python, below(self._java, processes())):
                self.peak_mib = max(self.peak_mib, high_water_mib(pid))


def processes() -> dict[int, tuple[int, float, float]]:
    """Of every process its parent, its CPU seconds and those of its children that ended."""
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


def is_python(pid: int) -> bool:
    """Whether it is a worker, and not the JVM before it has become another program."""
    try:
        return b"pyspark" in Path("/proc", str(pid), "cmdline").read_bytes().partition(b"\0-m\0")[2]
    except OSError:
        return False


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


def counted(folder: str) -> int:
    """Rows of all Parquet files in a folder."""
    from pyarrow.parquet import read_metadata

    return sum(read_metadata(path).num_rows for path in Path(folder).glob("*.parquet"))


if __name__ == "__main__":
    main()
