"""What the tables cost on Spark, beside `kinspect read`: the same 2 GiB in 40 rotated files, exchanges as Parquet.

    make bench-spark                                            # writes its section of docs/performance.md
    .venv/bin/python tests/bench/spark.py --quick               # 128 MiB in 8 files, and nothing is kept

Connections live through all files, so each of them goes on in every split. Runs alternate; the numbers are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import report
from generate import PCAP_HEADER, RECORD_SIZE
from plan import GIB, MIB, Capture

import captures

BEGIN = "<!-- made by `make bench-spark`, not by hand -->\n"
END = "<!-- end of what `make bench-spark` made -->\n"
SIDE = Path(__file__).with_name("spark_side.py")
CONNECTIONS = 200
BUFFER = 1 << 20
Took = dict[str, float]


class Case(NamedTuple):
    """A run: what it is called, the arguments of `spark_side.py`, and which part of the files."""

    name: str
    arguments: tuple[str, ...]
    part: int = 1


READ = Case("`read --jobs 2`", ("read", "--jobs", "2"))
TWO = Case("`local[2]`", ("spark", "--cores", "2"))
ONE = Case("`local[1]`", ("spark", "--cores", "1"))
ONE_CPU = Case("`local[1]`, JVM and all on one CPU", ("spark", "--cores", "1", "--one-cpu"))
FIRST = Case("`local[2]`, the session's first query", ("spark", "--cores", "2", "--first"))
RELAY = Case('`local[2]`, `way="relay"`', ("spark", "--cores", "2", "--way", "relay"))
QUARTER = Case("`local[2]`, a quarter of the files", ("spark", "--cores", "2"), 4)
PLAIN = Case('the same, `way="plain"`', ("spark", "--cores", "2", "--way", "plain"), 4)
CASES = (READ, TWO, ONE, ONE_CPU, FIRST, RELAY, QUARTER, PLAIN)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    size, count = (128 * MIB, 8) if options.quick else (2 * GIB, 40)
    paths = rotated(Capture("bulk", size, connections=CONNECTIONS), count)
    before = os.getloadavg()[0]
    taken: dict[Case, list[Took]] = {case: [] for case in CASES}
    rounds = 1 if options.quick else options.rounds
    for number in range(rounds):
        for case in CASES[:: -1 if number % 2 else 1]:
            taken[case].append(run(case, paths))
            print(case.name, json.dumps(taken[case][-1]), flush=True)
    medians = {case: median(found) for case, found in taken.items()}
    if len({found["rows"] for case, found in medians.items() if case.part == 1}) > 1:
        sys.exit("the sides do not have the same number of rows")
    text = section(medians, sum(path.stat().st_size for path in paths), count, rounds, before)
    print(text)
    if not options.quick:
        keep(text)


def rotated(capture: Capture, count: int) -> list[Path]:
    """The files of a capture cut into `count`, as a capture that rotates writes them; made once."""
    whole = captures.path_of(capture)
    folder = whole.with_suffix(f".{count}")
    if not folder.exists():
        made = Path(tempfile.mkdtemp(dir=whole.parent))
        with whole.open("rb", BUFFER) as source:
            source.seek(len(PCAP_HEADER))
            share = whole.stat().st_size / count
            for number in range(count):
                with (made / f"{number:02}.pcap").open("wb", BUFFER) as out:
                    out.write(PCAP_HEADER)
                    copy_packets(source, out, share * (number + 1))
        made.rename(folder)
    return sorted(folder.glob("*.pcap"))


def copy_packets(source: BinaryIO, out: BinaryIO, end: float) -> None:
    """Packets up to about the byte `end` of the source."""
    position = source.tell()
    while position < end and (head := source.read(RECORD_SIZE)):
        data = source.read(struct.unpack_from("<I", head, 8)[0])
        position += len(head) + len(data)
        out.write(head + data)


def run(case: Case, paths: list[Path]) -> Took:
    """One run, in processes of its own."""
    folder = tempfile.mkdtemp()
    try:
        chosen = paths[: len(paths) // case.part]
        command = [sys.executable, SIDE, *case.arguments, "--out", f"{folder}/out", *chosen]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{case.name}: {done.stderr[-4000:]}")
        found: Took = json.loads(done.stdout.splitlines()[-1])
        found["bytes"] = sum(path.stat().st_size for path in chosen)
        return found
    finally:
        shutil.rmtree(folder)


def median(found: list[Took]) -> Took:
    return {name: statistics.median(took[name] for took in found) for name in found[0]}


def section(medians: dict[Case, Took], size: int, count: int, rounds: int, before: float) -> str:
    """The numbers as tables."""
    lines = [
        "| run | MiB/s | seconds | CPU of Python | CPU of the JVM | largest Python process | moved, per GiB |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case, took in medians.items():
        moved = f"{took['shuffled'] * GIB / took['bytes'] / MIB:.1f} MiB" if "shuffled" in took else "–"
        lines.append(
            f"| {case.name} | {speed(took):.0f} | {took['wall']:.1f} | {took['python_cpu']:.1f} s |"
            f" {seconds(took.get('java_cpu'))} | {took['python_peak_mib']:.0f} MiB | {moved} |"
        )
    peak = max(medians[case]["python_peak_mib"] for case in (TWO, ONE, RELAY, QUARTER))
    lines += ["", "| target | by time | by CPU |  |", "| --- | --- | --- | --- |"]
    for text, by_time, by_cpu, met in (
        (
            f"{TWO.name} has at least 0.7 of the throughput of {READ.name}",
            speed(medians[TWO]) / speed(medians[READ]),
            cpu(medians[READ]) / cpu(medians[TWO]),
            lambda ratio: ratio >= 0.7,
        ),
        (
            f"{TWO.name} has at least 1.5 of that of {ONE.name}",
            speed(medians[TWO]) / speed(medians[ONE]),
            None,
            lambda ratio: ratio >= 1.5,
        ),
        (
            f"{TWO.name} has at least 1.5 of that of {ONE_CPU.name}",
            speed(medians[TWO]) / speed(medians[ONE_CPU]),
            None,
            lambda ratio: ratio >= 1.5,
        ),
        (
            "four times the files take at most 4.3 times the time",
            medians[TWO]["wall"] / medians[QUARTER]["wall"],
            cpu(medians[TWO]) / cpu(medians[QUARTER]),
            lambda ratio: ratio <= 4.3,
        ),
    ):
        shown = "–" if by_cpu is None else f"{by_cpu:.2f}"
        lines.append(f"| {text} | {by_time:.2f} | {shown} | {'met' if met(by_time) else 'missed'} |")
    lines.append(
        f"| Python workers stay below 400 MiB | {peak:.0f} MiB | – | {'met' if peak < 400 else 'missed'} |"
    )
    facts: dict[str, Any] = {
        "captures": f"{size:,} bytes in {count} files, {CONNECTIONS} connections",
        "exchanges": f"{int(medians[TWO]['rows']):,}",
        "rounds": rounds,
        "commit": report.commit(),
        "load before and after": f"{before:.1f}, {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        "date": datetime.now(UTC).date().isoformat(),
    }
    lines += ["", "| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts.items())]
    return "\n".join(lines) + "\n"


def speed(took: Took) -> float:
    return took["bytes"] / MIB / took["wall"]


def cpu(took: Took) -> float:
    return took["python_cpu"] + took.get("java_cpu", 0)


def seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} s"


def keep(text: str) -> None:
    page = report.PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    report.PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
