"""Measure kinspect against tshark and tcpdump, and what it takes of memory and time as captures grow.

    python tests/bench/run.py            # all of it, a quarter of an hour; writes docs/performance.md
    python tests/bench/run.py --quick    # two minutes, smaller captures; prints only

What the programs read of the captures is compared first. Each row's programs then run in turn, round after round,
and their medians are compared; both write to /dev/null (`--jobs`: to a file).
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

import plan
import report
import witness
from plan import COMMANDS, FILE, TO_FILE, Group, Row, Run
from report import Outcome, Taken

import captures
from captures import DIRECTORY

MEASURE = Path(__file__).with_name("measure.py")
SETTINGS = DIRECTORY / "no-settings"
"""An empty directory: tshark must not read the settings of whoever runs this."""


class Measured(NamedTuple):
    """One run."""

    wall: float
    cpu: float
    peak_kib: int
    status: int


def measure(run: Run) -> Measured:
    """Run a command. Raises SystemExit if it fails."""
    path = str(captures.path_of(run.capture)) if run.capture else ""
    command = [word.replace(FILE, path) for word in COMMANDS[run.command]]
    output = _output_of(run) if run.command in TO_FILE else Path(os.devnull)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(SETTINGS),
        "LC_ALL": "C.UTF-8",
        "WIRESHARK_CONFIG_DIR": str(SETTINGS),
    }
    launch = [sys.executable, "-S", "-E", str(MEASURE), str(output), *command]
    done = subprocess.run(launch, env=environment, check=True, capture_output=True, text=True)
    measured = Measured(**json.loads(done.stdout))
    if measured.status:
        raise SystemExit(f"{' '.join(command)} ended with {measured.status}")
    return measured


def measure_group(group: Group) -> dict[Run, Taken]:
    """The medians of a group's runs."""
    runs = group.runs
    for run in runs:
        if run.capture:
            _cached(captures.path_of(run.capture))
    samples: dict[Run, list[Measured]] = defaultdict(list)
    begin = time.monotonic()
    for done in range(group.rounds):
        # Whoever is first in one round is last in the next: what heats up or slows down meets all alike.
        for run in runs if done % 2 == 0 else reversed(runs):
            samples[run].append(measure(run))
        elapsed = time.monotonic() - begin
        if done and elapsed + elapsed / (done + 1) > group.seconds:
            break
    return {
        run: Taken(
            rounds=len(taken),
            wall=median(one.wall for one in taken),
            cpu=median(one.cpu for one in taken),
            peak_mib=median(one.peak_kib for one in taken) / 1024,
        )
        for run, taken in samples.items()
    }


def outcomes(group: Group) -> list[Outcome]:
    """Measure a group."""
    taken = measure_group(group)
    if group.name.startswith("jobs"):
        for row in group.rows:
            _same_output(row)
    return [Outcome.of(row, taken[row.run], taken[row.against]) for row in group.rows]


def _same_output(row: Row) -> None:
    if not filecmp.cmp(_output_of(row.run), _output_of(row.against), shallow=False):
        raise SystemExit(f"{row.run.command} do not write what one job writes")


def _output_of(run: Run) -> Path:
    return DIRECTORY / f"{run.command.replace(' ', '-')}.jsonl"


def _cached(path: Path) -> None:
    """Read a file once, that it comes from memory from then on."""
    with path.open("rb") as file:
        while file.read(1 << 22):
            pass


def _check(planned: plan.Plan) -> None:
    """Stop unless all programs read the same."""
    wrong = [line for capture in planned.witnesses for line in witness.disagreements(capture)]
    wrong += [line for capture in planned.counted for line in witness.miscounted(capture)]
    if wrong:
        raise SystemExit("not what is in the captures:\n" + "\n".join(wrong))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller captures, fewer rounds, nothing kept")
    parser.add_argument("--form", choices=report.FORMS, default=report.FORMS[0], help="whose targets count")
    parser.add_argument("--only", action="append", help="the groups whose names begin so; nothing kept")
    values = parser.parse_args()
    for program in ("tshark", "tcpdump"):
        if shutil.which(program) is None:
            parser.error(f"{program} is not installed; on Debian: apt-get install {program}")
    planned = plan.plan(values.quick)
    if values.only:
        planned = planned.only(tuple(values.only))
    SETTINGS.mkdir(parents=True, exist_ok=True)
    machine = report.machine(plan.TSHARK, plan.TCPDUMP, plan.KINSPECT)
    _check(planned)
    print("what all programs read is the same", file=sys.stderr)
    found: list[Outcome] = []
    for group in planned.groups:
        found += outcomes(group)
        print(f"measured: {group.name}", file=sys.stderr)
    machine["load after"] = f"{os.getloadavg()[0]:.1f}"
    result = report.Result(values.form, machine, report.described(planned), found)
    print(report.text(result))
    if not values.quick and not values.only:
        report.keep(result)


if __name__ == "__main__":
    main()
