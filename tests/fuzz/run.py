"""Fuzzes one target under atheris: `PYTHONPATH=tests python -m fuzz.run pcap --seconds 60`.

It goes on after an input that breaks a rule: a failure is shown once a place, as small as it can be made in short
time, and written to the folder `failures` of the target. The inputs that reached new code are kept beside it.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path

import atheris

from .targets import NAMES, target

PLACE = Path("build") / "fuzz"
SLOWEST_SECONDS = 20
MEMORY_MIB = 2048
LONGEST_INPUT = 16 * 1024
MINIMISING_SECONDS = 10

Place = tuple[str, ...]


def place_of(error: BaseException) -> Place:
    """Identity of a failure: its kind and the innermost lines of this project."""
    frames = [
        f"{Path(frame.filename).name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "kinspect" in frame.filename or "fuzz" in frame.filename
    ]
    return type(error).__name__, *frames[-2:]


class Watcher:
    """Runs a target and takes note of what fails."""

    def __init__(self, fuzz: Callable[[bytes], None], folder: Path) -> None:
        self.fuzz = fuzz
        self.folder = folder
        self.places: set[Place] = set()

    def __call__(self, data: bytes) -> None:
        try:
            self.fuzz(data)
        except Exception as error:
            where = place_of(error)
            if where not in self.places:
                self.places.add(where)
                self.report(self.minimised(data, where), where)

    def fails_at(self, data: bytes) -> Place | None:
        try:
            self.fuzz(data)
        except Exception as error:
            return place_of(error)
        return None

    def minimised(self, data: bytes, where: Place) -> bytes:
        """Leave out what is not needed for the failure."""
        end = time.monotonic() + MINIMISING_SECONDS
        size = len(data)
        while size:
            at = 0
            while at < len(data) and time.monotonic() < end:
                shorter = data[:at] + data[at + size :]
                if self.fails_at(shorter) == where:
                    data = shorter
                else:
                    at += size
            size //= 2
        return data

    def report(self, data: bytes, where: Place) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / sha1(data).hexdigest()[:16]).write_bytes(data)
        print(f"\n=== FAILURE {' '.join(where)}\n=== {len(data)} bytes: {data.hex()}", file=sys.stderr)
        try:
            self.fuzz(data)
        except Exception:
            traceback.print_exc()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=NAMES)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, default=PLACE, help="where inputs are kept, a folder a target")
    options = parser.parse_args()

    place = options.corpus / options.target
    corpus = place / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["kinspect"], enable_loader_override=False):
        from . import corpus as inputs

        chosen = target(options.target)
        for data in inputs.inputs(options.target):
            (corpus / sha1(data).hexdigest()).write_bytes(data)
    arguments = [
        f"-max_total_time={options.seconds}",
        f"-timeout={SLOWEST_SECONDS}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-max_len={LONGEST_INPUT}",
        f"-artifact_prefix={place}/",
        "-print_final_stats=1",
    ]
    atheris.Setup(["fuzz", *arguments, str(corpus)], Watcher(chosen.fuzz, place / "failures"))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
