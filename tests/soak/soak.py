"""`kinspect live` for an hour: no memory gained, no line lost without a count.

`make soak` runs it as root: a client and a broker exchange on the loopback interface, and the lines go into files that
rotate and are compressed. What it saw is a row each ten seconds, and a JSON object at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

SAMPLE_SECONDS = 10.0
LOOK_SECONDS = 0.2
CONNECTIONS = 20
RECORD_BYTES = 200
GROWTH = 0.10
"""Share by which the memory of the last quarter may exceed that of the second one."""
LOAD = Path(__file__).parents[1] / "live" / "load.py"
ROTATED = re.compile(r"out_(\d+)_\d{14}\.jsonl")
STATS, ANSWERED = b'{"type":"stats"', b'"outcome":"answered"'


class Sample(NamedTuple):
    """One row: seconds since the start, resident memory of both processes in KiB, their open descriptors, and what the
    last line of type `stats` told."""

    seconds: float
    decoding_kib: int
    capturing_kib: int
    decoding_fds: int
    capturing_fds: int
    kernel_drops: int
    queue_drops: int
    lag_seconds: float
    queue_bytes: int
    lines: int


@dataclass
class Followed:
    """The files that `live` writes, read as they grow."""

    folder: Path
    answered: int = 0
    stats: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    _file: BinaryIO | None = None
    _number: int = 0
    _rest: bytes = b""

    def look(self) -> None:
        """Take what was written since the last look."""
        while True:
            # Before reading: what is written into the one before the next is there is complete.
            following = self._following()
            if self._file is not None:
                while data := self._file.read(1 << 20):
                    self._take(data)
            if following is None:
                return
            if self._file is not None:
                self._file.close()
            assert not self._rest, "a file ends within a line"
            self._number, path = following
            self._file = path.open("rb")

    def _following(self) -> tuple[int, Path] | None:
        found = {
            int(match[1]): path
            for path in self.folder.iterdir()
            if (match := ROTATED.fullmatch(path.name)) and int(match[1]) > self._number
        }
        if not found:
            return None
        first = min(found)
        assert first == self._number + 1, f"file {self._number + 1} went before it was read"
        return first, found[first]

    def _take(self, data: bytes) -> None:
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        for line in self._told(whole + newline, STATS):
            self.stats = line
        for line in self._told(whole + newline, b'{"type":"summary"'):
            self.summary = line
        self.answered += whole.count(ANSWERED)

    @staticmethod
    def _told(text: bytes, start: bytes) -> Iterator[dict[str, Any]]:
        at = text.find(start)
        while at >= 0:
            end = text.index(b"\n", at)
            yield json.loads(text[at:end])
            at = text.find(start, end)


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)[0])


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def faults(samples: Sequence[Sample], sent: int, answered: int, dropped: int) -> list[str]:
    """What is wrong: memory or descriptors that grew, exchanges that are missing. `dropped`: packets that were counted
    as dropped, each of which may be one exchange."""
    found = []
    quarter = len(samples) // 4
    if not quarter:
        found.append(f"{len(samples)} samples are too few: four are needed")
    else:
        for name in ("decoding_kib", "capturing_kib", "decoding_fds", "capturing_fds"):
            second, last = (
                sum(getattr(sample, name) for sample in part) / quarter
                for part in (samples[quarter : 2 * quarter], samples[-quarter:])
            )
            if last > second * (1 + GROWTH):
                found.append(f"{name} grew from {second:.0f} to {last:.0f}")
    missing = sent - answered
    if not 0 <= missing <= dropped:
        found.append(
            f"{sent} exchanges were made, {answered} are in the lines, {dropped} packets were dropped"
        )
    return found


def soak(seconds: float, rate: float, folder: Path) -> dict[str, Any]:
    """Run for so long; returns what was seen. Prints a row a sample."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    command = [sys.executable, "-m", "kinspect", "live", "-i", "lo", "--port", str(port)]
    command += ["-o", str(folder / "out.jsonl"), "--emit", "exchange,stats,summary", "--stats-interval", "5s"]
    command += ["--output-rotate-size", "100MB", "--output-rotate-keep", "4", "--output-compress", "gzip"]
    live = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert live.stderr is not None
    samples: list[Sample] = []
    try:
        live.stderr.readline()
        children = Path(f"/proc/{live.pid}/task/{live.pid}/children").read_text()
        worker = int(children)
        told = [str(LOAD), *map(str, (port, seconds, rate, RECORD_BYTES, CONNECTIONS))]
        load = subprocess.Popen([sys.executable, *told], stdout=subprocess.PIPE)
        followed, start = Followed(folder), time.monotonic()
        print(*Sample._fields, sep="\t", flush=True)
        while load.poll() is None:
            time.sleep(LOOK_SECONDS)
            followed.look()
            elapsed = time.monotonic() - start
            if elapsed >= (len(samples) + 1) * min(SAMPLE_SECONDS, seconds / 8):
                samples.append(_sample(elapsed, live.pid, worker, followed))
                print(*samples[-1], sep="\t", flush=True)
        sent = json.loads(load.communicate()[0])
        live.send_signal(signal.SIGINT)
        # What is in the queue is still decoded; the last file may be complete before it ends.
        while live.poll() is None:
            time.sleep(LOOK_SECONDS)
            followed.look()
        followed.look()
    finally:
        live.kill()
        live.wait()
        live.stderr.close()
    summary = followed.summary
    dropped = summary.get("kernel_drops", 0) + summary.get("queue_drops", 0)
    found = faults(samples, sent["exchanges"], followed.answered, dropped)
    if live.returncode:
        found.append(f"live ended with status {live.returncode}")
    return {
        "seconds": sent["seconds"],
        "sent": sent["exchanges"],
        "answered": followed.answered,
        "packets": summary.get("captured_packets"),
        "dropped": dropped,
        "output_blocked_seconds": followed.stats.get("output_blocked_seconds"),
        "longest_lag_seconds": max((sample.lag_seconds for sample in samples), default=None),
        "last": samples[-1]._asdict() if samples else None,
        "faults": found,
    }


def _sample(elapsed: float, decoding: int, capturing: int, followed: Followed) -> Sample:
    told = followed.stats
    return Sample(
        round(elapsed, 1),
        resident_kib(decoding),
        resident_kib(capturing),
        descriptors(decoding),
        descriptors(capturing),
        told.get("kernel_drops", 0),
        told.get("queue_drops", 0),
        told.get("decode_lag_seconds", 0.0),
        told.get("queue_bytes", 0),
        followed.answered,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--rate", type=float, default=5000, help="exchanges a second")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kinspect-soak-") as folder:
        seen = soak(given.seconds, given.rate, Path(folder))
    print(json.dumps(seen, indent=2))
    return 1 if seen["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
