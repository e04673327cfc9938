"""Cost of the tables on Spark, beside `kinspect read`: exchanges of captures in rotated files.

    make bench-spark                                            # writes its section of docs/scale.md
    .venv/bin/python tests/bench/spark.py --quick               # small captures, and nothing is kept

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
PAGE = report.DOCS / "scale.md"
SIDE = Path(__file__).with_name("spark_side.py")
CONNECTIONS = 200
BUFFER = 1 << 20
Took = dict[str, float]


class Case(NamedTuple):
    """A run: what it is called, the arguments of `spark_side.py`, and which part of the files."""

    name: str
    arguments: tuple[str, ...]
    part: int = 1


READ = Case("`read --jobs 1`", ("read",))
TWO = Case("`local[2]`", ("spark", "--master", "local[2]"))
FIRST = Case("`local[2]`, the session's first query", ("spark", "--master", "local[2]", "--first"))
ONE_WORKER = Case("standalone, one worker", ("spark", "--workers", "1"))
TWO_WORKERS = Case("standalone, two workers", ("spark", "--workers", "2"))
QUARTER = Case("standalone, two workers, a quarter of the files", ("spark", "--workers", "2"), 4)
CASES = (READ, TWO, FIRST, ONE_WORKER, TWO_WORKERS, QUARTER)


class Traffic(NamedTuple):
    """Captures, and how much more CPU than `read` executors may take for them, once JVMs have compiled."""

    capture: Capture
    files: int
    target: float


def traffic(quick: bool) -> list[Traffic]:
    part = 8 if quick else 1
    return [
        Traffic(Capture("bulk", GIB // part, connections=CONNECTIONS), 20, 3.0),
        Traffic(Capture("chatty", GIB // 16 // part, connections=1000), 8, 2.0),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    rounds = 1 if options.quick else options.rounds
    text = ""
    for of in traffic(options.quick):
        paths = rotated(of.capture, of.files)
        taken: dict[Case, list[Took]] = {case: [] for case in CASES}
        for number in range(rounds):
            for case in CASES[:: -1 if number % 2 else 1]:
                taken[case].append(run(case, paths))
                print(of.capture.profile, case.name, json.dumps(taken[case][-1]), flush=True)
        medians = {case: median(found) for case, found in taken.items()}
        if len({found["rows"] for case, found in medians.items() if case.part == 1}) > 1:
            sys.exit("the sides do not have the same number of rows")
        text += section(of, medians, sum(path.stat().st_size for path in paths))
    text += facts(rounds, before)
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


def section(of: Traffic, medians: dict[Case, Took], size: int) -> str:
    """The numbers as tables."""
    lines = [
        f"`{of.capture.profile}`: {size:,} bytes in {of.files} files, {of.capture.connections:,} connections through"
        f" all of them, {int(medians[TWO]['rows']):,} exchanges.",
        "",
        "| run | seconds | CPU of Python | CPU of executors' JVMs | CPU of the driver's JVM | largest Python process |"
        " shuffled, per GiB |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case, took in medians.items():
        moved = f"{took['shuffled'] * GIB / took['bytes'] / MIB:.0f} MiB" if "shuffled" in took else "–"
        lines.append(
            f"| {case.name} | {took['wall']:.1f} | {took['python_cpu']:.1f} s | {seconds(took.get('executor_cpu'))} |"
            f" {seconds(took.get('driver_cpu'))} |"
            f" {took['python_peak_mib']:.0f} MiB | {moved} |"
        )
    lines += ["", "| target | measured |  |", "| --- | --- | --- |"]
    for text, ratio, most in (
        (
            f"without what is once a run, two workers take at most {of.target} times the CPU of {READ.name}",
            further(medians),
            of.target,
        ),
        (
            "two workers take at most 1.15 times the CPU of one",
            cpu(medians[TWO_WORKERS]) / cpu(medians[ONE_WORKER]),
            1.15,
        ),
        (
            "four times the files take at most 4.2 times the CPU",
            cpu(medians[TWO_WORKERS]) / cpu(medians[QUARTER]),
            4.2,
        ),
    ):
        lines.append(f"| {text} | {ratio:.2f} | {'met' if ratio <= most else 'missed'} |")
    return "\n".join(lines) + "\n\n"


def facts(rounds: int, before: float) -> str:
    told: dict[str, Any] = {
        "rounds": rounds,
        "commit": report.commit(),
        "load before and after": f"{before:.1f}, {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        "date": datetime.now(UTC).date().isoformat(),
    }
    return (
        "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in told.items())])
        + "\n"
    )


def cpu(took: Took) -> float:
    """CPU seconds that grow with the captures: with a local master the only JVM is the executor's."""
    executors = took.get("executor_cpu", 0.0)
    return took["python_cpu"] + (executors or took.get("driver_cpu", 0.0))


def further(medians: dict[Case, Took]) -> float:
    """CPU of two workers for the files beyond the first quarter, in times of what one `read` takes for them: JVMs have
    started and compiled by then."""
    read, some, every = (medians[case] for case in (READ, QUARTER, TWO_WORKERS))
    share = 1 - some["bytes"] / every["bytes"]
    return (cpu(every) - cpu(some)) / (cpu(read) * share)


def seconds(value: float | None) -> str:
    return f"{value:.1f} s" if value else "–"


def keep(text: str) -> None:
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main()
