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


def tshark_fields(*names: str) -> tuple[str, ...]:
    """tshark's command that tells these fields of each packet."""
    return (*TSHARK_READ, "-T", "fields", *(word for name in names for word in ("-e", name)))


ANSWERS = {
    **{name: {"bulk": 1.3, "chatty": 1.5} for name in ("topics", "latency", "errors", "summary")},
    **{name: {"bulk": 1.3, "chatty": 1.6} for name in ("settings", "connect")},
}
"""Largest time of an answer, by its name and the profile, in times that of `--format none`."""
RECORDS = 0.6
"""Least speed of `records`, in times that of the lines with records."""

COMMANDS = {
    "full": (KINSPECT, "read", FILE, "-q", "--format", "jsonl", "--records", "--payload", "text"),
    "default": (KINSPECT, "read", FILE, "-q", "--format", "jsonl"),
    "two fields": (KINSPECT, "read", FILE, "-q", "--format", "jsonl", "--fields", ",".join(TWO)),
    "none": (KINSPECT, "read", FILE, "--format", "none"),
    "one job": (KINSPECT, "read", FILE, "-q", "--format", "jsonl", "--records", "--payload", "text", "--jobs", "1"),
    "two jobs": (KINSPECT, "read", FILE, "-q", "--format", "jsonl", "--records", "--payload", "text", "--jobs", "2"),
    "eight jobs": (KINSPECT, "read", FILE, "-q", "--format", "jsonl", "--records", "--payload", "text", "--jobs", "8"),
    **{name: (KINSPECT, name, FILE, "-q") for name in ANSWERS},
    "with records": (KINSPECT, "read", FILE, "-q", "--format", "jsonl", "--records"),
    "records": (KINSPECT, "records", FILE, "-q", "--format", "jsonl"),
    "records, text": (KINSPECT, "records", FILE, "-q", "--format", "jsonl", "--payload", "text"),
    "version": (KINSPECT, "--version"),
    "tshark ek": (*TSHARK_READ, "-T", "ek"),
    "tshark fields": tshark_fields(*(f"kafka.{name}" for name in TWO)),
    "tcpdump": (TCPDUMP, "-r", FILE, "-w", "/dev/null"),
    "import click": (PYTHON, "-c", "import click"),
}  # fmt: skip
TO_FILE = {"one job", "two jobs", "eight jobs"}


class Capture(NamedTuple):
    """A capture of `generate.py`; `connections` is None as the profile has them. `begun`: it begins in the middle of
    them, at so many megabits a second."""

    profile: str
    size: int
    times: int = 1
    connections: int | None = None
    begun: int | None = None


class Run(NamedTuple):
    """A command on a capture."""

    command: str
    capture: Capture | None = None


FASTER, SLOWER = "times faster", "times the time"
"""Kinds of comparison: `against / work`, and `work / against`."""
Targets = tuple[float | None, float | None]
NONE: Targets = (None, None)
MEMORY, ANSWER_MEMORY = 60, 80


class Row(NamedTuple):
    """A comparison of two runs. `targets`: those of pure Python and of the compiled form (None: none); `memory`: the
    largest peak of the work, in MiB."""

    work: str
    run: Run
    against: Run
    kind: str
    targets: Targets = NONE
    memory: int | None = MEMORY


class Group(NamedTuple):
    """Runs that are measured in turn, round after round: `rounds` of them, fewer but two if they take more than about
    `seconds`."""

    name: str
    rows: list[Row]
    rounds: int = 5
    seconds: float = 90

    @property
    def runs(self) -> list[Run]:
        return list(dict.fromkeys(run for row in self.rows for run in (row.run, row.against)))


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


Goals = dict[tuple[str, str], Targets]
GOALS: Goals = {
    ("bulk", "full"): (6, 15),
    ("bulk", "default"): (None, 30),
    ("bulk", "two fields"): (4, 6),
    ("chatty", "full"): (4, 10),
    ("chatty", "default"): (None, 12),
    ("chatty", "two fields"): (2.5, 5),
}
"""How many times faster than tshark, by profile and command; of the other profiles tshark does not decode all."""
BEGUN_GOALS: Goals = {("chatty", "two fields"): (1.5, 3)}
"""The same where the capture begins in the middle of its connections."""
RATES = (110, 1600)
"""Megabits a second of such captures."""
AGAINST_TSHARK = {
    "full": ("records with payload", "tshark ek"),
    "default": ("default", "tshark ek"),
    "two fields": (f"`--fields {','.join(TWO)}`", "tshark fields"),
}


def plan(quick: bool) -> Plan:
    """All of it, or as much of each row as some minutes allow."""
    ones = {name: Capture(name, profile.size // (4 if quick else 1)) for name, profile in PROFILES.items()}
    huge = Capture("bulk", 64 * MIB if quick else GIB)
    middle = Capture("bulk", 32 * MIB if quick else 256 * MIB)
    long = ones["chatty"]._replace(times=4 if quick else 20)
    ten = ones["chatty"]._replace(connections=10)
    begun = [ones[name]._replace(begun=rate) for name in ("bulk", "chatty") for rate in RATES]
    little = Capture("chatty", 100_000, connections=10)
    click = Run("import click")
    rounds, few = (2, 1) if quick else (5, 3)
    groups = [
        *(Group(profile, _against_tshark(capture), rounds) for profile, capture in ones.items()),
        *(
            Group(f"begun {capture.profile} {capture.begun}", _against_tshark(capture, BEGUN_GOALS), few)
            for capture in begun
        ),
        Group("floor", [Row("`--format none`", Run("none", huge), Run("tcpdump", huge), SLOWER, (None, 4))], rounds),
        *(Group(f"answers {capture.profile}", _answers(capture), few) for capture in (huge, long)),
        *(Group(f"records {capture.profile}", _records(capture), few) for capture in (middle, long)),
        *(
            Group(f"jobs {capture.profile}", _jobs(capture), rounds)
            for capture in (middle, long._replace(times=4 if quick else 6))
        ),
        *(
            Group(f"length {profile}", [_length(capture, 4 if quick else 20)], few)
            for profile, capture in ones.items()
        ),
        Group("connections", [_connections(ones["chatty"], ten)], rounds),
        Group(
            "start",
            [
                Row("`kinspect --version`", Run("version"), click, SLOWER, (2, 2)),
                Row("`read` of 100 kB", Run("default", little), click, SLOWER, (2, 2)),
            ],
            5 if quick else 21,
        ),
    ]  # fmt: skip
    return Plan(groups, [*ones.values(), *begun, ten, little], [huge])


def _against_tshark(capture: Capture, goals: Goals = GOALS) -> list[Row]:
    return [
        Row(work, Run(command, capture), Run(other, capture), FASTER, goals.get((capture.profile, command), NONE))
        for command, (work, other) in AGAINST_TSHARK.items()
    ]  # fmt: skip


def _answers(capture: Capture) -> list[Row]:
    none = Run("none", capture)
    return [
        Row(f"`{name}`", Run(name, capture), none, SLOWER, (most[capture.profile],) * 2, memory=ANSWER_MEMORY)
        for name, most in ANSWERS.items()
    ]


def _records(capture: Capture) -> list[Row]:
    return [
        Row(work, Run(name, capture), Run(against, capture), FASTER, (RECORDS, RECORDS), memory=ANSWER_MEMORY)
        for work, name, against in (
            ("`records`", "records", "with records"),
            ("`records --payload text`", "records, text", "full"),
        )
    ]


def _jobs(capture: Capture) -> list[Row]:
    one, two, eight = (Run(command, capture) for command in ("one job", "two jobs", "eight jobs"))
    return [
        Row("`--jobs 2`, to a file", two, one, FASTER, (1.85, 1.85)),
        Row("`--jobs 8`, to a file", eight, one, FASTER, memory=None),
    ]


def _length(capture: Capture, times: int) -> Row:
    """The full command on a capture and on a longer one."""
    most = 1.025 * times
    longer = capture._replace(times=times)
    return Row(f"{times} times the capture", Run("full", longer), Run("full", capture), SLOWER, (most, most))


def _connections(many: Capture, ten: Capture) -> Row:
    work = "1,000 connections, 10 of the same bytes"
    return Row(work, Run("default", many), Run("default", ten), SLOWER, (1.2, 1.2))
