"""Fuzzes targets side by side: `PYTHONPATH=tests python -m fuzz [TARGET...] --seconds 600`. Prints a row a target.

What a target said is in `build/fuzz/<target>/log`, its inputs in `corpus` and `failures` beside it.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import corpus
from .targets import NAMES

PLACE = Path("build") / "fuzz"
ROW = "{:10} {:>12} {:>9} {:>9} {:>8}  {}"
EXECUTIONS = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
COVERAGE = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")


def run(name: str, seconds: int) -> bool:
    """Fuzz one target and print its row; whether nothing was found."""
    place = PLACE / name
    place.mkdir(parents=True, exist_ok=True)
    log = place / "log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", f"{__package__}.run", name, "--seconds", str(seconds)]
        status = subprocess.run(command, stdout=out, stderr=out, check=False).returncode
    text = log.read_text(errors="replace")
    executions = EXECUTIONS.search(text)
    coverage, features, inputs = (COVERAGE.findall(text) or [("?", "?", "?")])[-1]
    found = text.count("\n=== FAILURE")
    result = (
        f"{found} failures, see {log}"
        if found
        else "nothing found"
        if not status
        else f"broke off, see {log}"
    )
    print(
        ROW.format(name, executions[1] if executions else "?", coverage, features, inputs, result), flush=True
    )
    return not found and not status


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--seconds", type=int, default=600, help="how long each target runs")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at the same time")
    parser.add_argument(
        "--keep", action="store_true", help="run nothing; renew corpus.txt.gz from earlier runs"
    )
    options = parser.parse_args()
    if unknown := set(options.targets) - set(NAMES):
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    names = options.targets or NAMES
    if options.keep:
        for name in names:
            if (folder := PLACE / name / "corpus").exists():
                corpus.keep(name, folder)
        return
    print(ROW.format("target", "executions", "coverage", "features", "inputs", "result"), flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        fine = [*pool.map(lambda name: run(name, options.seconds), names)]
    sys.exit(not all(fine))


if __name__ == "__main__":
    main()
