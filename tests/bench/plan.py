"""Plan of `make bench`: captures, commands, and the rows with their targets."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from profiles import PROFILES

MIB, GIB = 1 << 20, 1 << 30
PYTHON = sys.executable
KINSPECT = str(Path(PYTHON).parent / "kinspect")
TSHARK, TCPDUMP = (shutil.which(name) or name for name in ("tshark", "tcpdump"))
TWO = ("api_key", "correlation_id")
FILE = "{}"
PARTLY = {"mixed", "tls"}
"""Profiles of which tshark decodes half of the clients' bodies."""
TSHARK_READ = (TSHARK, "-r", FILE, "-d", "tcp.port==9093,tls", "-d", "tls.port==9093,kafka")

ANSWER_NAMES = ("topics", "latency", "errors", "summary")
ANSWERS = {"bulk": 1.3, "chatty": 1.5}
"""Largest time of an answer, by the profile, in times that of `--format none`."""

COMMANDS = {
    "full": (KINSPECT, "read", FILE, "-q", "--format", "jsonl", "--records", "--payload", "text"),
    "default": (KINSPECT, "read", FILE, "-q", "--format", "jsonl"),
    "two fields": (KINSPECT, "read", FILE, "-q", "--format", "jsonl", "--fields", ",".join(TWO)),
    "none": (KINSPECT, "read", FILE, "--format", "none"),
    "one job": (KINSPECT, "read", FILE, "-q", "--format", "jsonl", "--records", "--payload", "text", "--jobs", "1"),
    "two jobs": (KINSPECT, "read", FILE, "-q", "--format", "jsonl", "--records", "--payload", "text", "--jobs", "2"),
    "eight jobs": (KINSPECT, "read", FILE, "-q", "--format", "jsonl", "--records", "--payload", "text", "--jobs", "8"),
    **{name: (KINSPECT, name, FILE, "-q") for name in ANSWER_NAMES},
    "version": (KINSPECT, "--version"),
    "tshark ek": (*TSHARK_READ, "-T", "ek"),
    "tshark fields": (*TSHARK_READ, "-T", "fields", *(word for name in TWO for word in ("-e", f"kafka.{name}"))),
    "tcpdump": (TCPDUMP, "-r", FILE, "-w", "/dev/null"),
    "import click": (PYTHON, "-c", "import click"),
}  # fmt: skip
TO_FILE = {"one job", "two jobs", "eight jobs"}


class Capture(NamedTuple):
    """A capture of `generate.py`; `connections` is None as the profile has them."""

    profile: str
    size: int
    times: int = 1
    connections: int | None = None


class Run(NamedTuple):
    """A command on a capture."""

    command: str
    capture: Capture | None = None


FASTER, SLOWER, PEAKS, PEAK = "times faster", "times the time", "times the peak", "MiB"
"""Kinds of comparison: `against / work`, `work / against`, the same of their peaks, the peak itself."""
AT_LEAST = {FASTER}


class Row(NamedTuple):
    """A comparison of two runs; the targets are those of pure Python and of the compiled form (None: none)."""

    work: str
    run: Run
    against: Run | None
    kind: str
    targets: tuple[float | None, float | None] = (None, None)


class Group(NamedTuple):
    """Runs that are measured in turn, round after round: `rounds` of them, fewer but two if they take more than about
    `seconds`."""

    name: str
    rows: list[Row]
    rounds: int = 5
    seconds: float = 90

    @property
    def runs(self) -> list[Run]:
        both = [run for row in self.rows for run in (row.run, row.against) if run is not None]
        return list(dict.fromkeys(both))


class Plan(NamedTuple):
    """`witnesses`: the captures of which all programs must have read the same messages, `counted`: as many."""

    groups: list[Group]
    witnesses: list[Capture]
    counted: list[Capture]

    def only(self, names: tuple[str, ...]) -> Plan:
        """The groups whose names begin so, and the captures they use."""
        groups = [group for group in self.groups if group.name.startswith(names)]
        used = {run.capture for group in groups for run in group.runs}
        return Plan(
            groups,
            [capture for capture in self.witnesses if capture in used],
            [capture for capture in self.counted if capture in used],
        )


FULL_TARGETS = {"bulk": (5.5, 15), "chatty": (12, 25)}
DEFAULT_TARGETS = {"bulk": (28, 45), "chatty": (15, 30)}
USUAL = {name: profile.size for name, profile in PROFILES.items()}


def plan(quick: bool) -> Plan:
    """All of it, or as much of each row as two minutes allow."""
    sizes = {profile: size // (4 if quick else 1) for profile, size in USUAL.items()}
    big, middle, small = (64 * MIB, 32 * MIB, 16 * MIB) if quick else (GIB, 256 * MIB, 64 * MIB)
    rounds, few = (2, 1) if quick else (5, 3)
    ones = {profile: Capture(profile, size) for profile, size in sizes.items()}

    def longer(profile: str, times: int) -> Capture:
        return Capture(profile, sizes[profile], times)

    groups = [Group(profile, _against_tshark(profile, one), rounds) for profile, one in ones.items()]
    huge, large = Capture("bulk", big), Capture("bulk", middle)
    least = Capture("bulk", small)
    groups.append(
        Group(
            "floor", [Row("`--format none`", Run("none", huge), Run("tcpdump", huge), SLOWER, (6, 4))], rounds
        )
    )
    for capture in (huge, longer("chatty", 4 if quick else 20)):
        groups.append(Group(f"answers {capture.profile}", _answers(capture), few))
    for capture in (large, longer("chatty", 4 if quick else 6)):
        one, two, eight = (Run(command, capture) for command in ("one job", "two jobs", "eight jobs"))
        rows = [
            Row("`--jobs 2`, to a file", two, one, FASTER, (1.85, 1.85)),
            Row("`--jobs 8`, to a file", eight, one, FASTER),
        ]
        groups.append(Group(f"jobs {capture.profile}", rows, rounds))
    for name, command, longest, shortest in (
        ("records with payload", "full", huge, least),
        ("default", "default", huge, least),
        ("default", "default", longer("chatty", 4 if quick else 20), longer("chatty", 1 if quick else 4)),
    ):
        groups.append(
            Group(
                f"memory {longest.profile} {name}",
                [
                    Row(name, Run(command, longest), Run(command, shortest), PEAKS, (1.1, 1.1)),
                    Row(name, Run(command, longest), None, PEAK, (60, 60)),
                ],
                1,
            )
        )
    for profile in ones:
        short, four, twenty = (Run("full", longer(profile, times)) for times in (1, 4, 20))
        groups.append(
            Group(f"length {profile}", [Row("four times the capture", four, short, SLOWER, (4.1, 4.1))], few)
        )
        if not quick:
            groups.append(
                Group(f"length {profile} × 20", [Row("twenty times the capture", twenty, short, SLOWER)], 1)
            )
    ten = Capture("chatty", sizes["chatty"], connections=10)
    connections = Row(
        "1,000 connections, 10 of the same bytes",
        Run("default", ones["chatty"]),
        Run("default", ten),
        SLOWER,
        (1.2, 1.2),
    )
    groups.append(Group("connections", [connections], rounds))
    click = Run("import click")
    little = Capture("chatty", 100_000, connections=10)
    groups.append(
        Group(
            "start",
            [
                Row("`kinspect --version`", Run("version"), click, SLOWER, (2, 2)),
                Row("`read` of 100 kB", Run("default", little), click, SLOWER, (4, 4)),
            ],
            5 if quick else 21,
        )
    )
    return Plan(groups, [*ones.values(), ten, little], [huge])


def _answers(capture: Capture) -> list[Row]:
    most = ANSWERS[capture.profile]
    none = Run("none", capture)
    timed = [Row(f"`{name}`", Run(name, capture), none, SLOWER, (most, most)) for name in ANSWER_NAMES]
    return [*timed, *(Row(row.work, row.run, None, PEAK, (80, 80)) for row in timed)]


def _against_tshark(profile: str, capture: Capture) -> list[Row]:
    ek, fields = Run("tshark ek", capture), Run("tshark fields", capture)
    return [
        Row(
            "records with payload", Run("full", capture), ek, FASTER, FULL_TARGETS.get(profile, (None, None))
        ),
        Row("default", Run("default", capture), ek, FASTER, DEFAULT_TARGETS.get(profile, (None, None))),
        Row(f"`--fields {','.join(TWO)}`", Run("two fields", capture), fields, FASTER, (10, 20)),
    ]
