"""Report of the measurements as text, as JSON and as a section of docs/performance.md."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from plan import ANSWER_MEMORY, FASTER, MEMORY, PARTLY, SLOWER, Capture, Plan, Row, Run, Targets

import captures

DOCS = Path(__file__).parents[2] / "docs"
PAGE, NUMBERS = DOCS / "performance.md", Path(__file__).with_name("results.jsonl")
BEGIN, END = "<!-- made by `make bench`, not by hand -->\n", "<!-- end of what `make bench` made -->\n"
FORMS = ("pure", "compiled")
TITLES = {"pure": "Pure Python", "compiled": "Compiled"}
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


class Taken(NamedTuple):
    """Medians: seconds, MiB."""

    rounds: int
    wall: float
    cpu: float
    peak_mib: float


class Outcome(NamedTuple):
    """A row measured. `ratio` is of wall times, `cpu_ratio` of CPU times."""

    work: str
    kind: str
    targets: Targets
    memory: int | None
    run: str
    against: str
    taken: Taken
    other: Taken
    ratio: float
    cpu_ratio: float

    @classmethod
    def of(cls, row: Row, taken: Taken, other: Taken) -> Outcome:
        """A row from the medians of both sides."""
        ratio, cpu_ratio = taken.wall / other.wall, taken.cpu / other.cpu
        if row.kind == FASTER:
            ratio, cpu_ratio = 1 / ratio, 1 / cpu_ratio
        names = _name(row.run), _name(row.against)
        return cls(row.work, row.kind, row.targets, row.memory, *names, taken, other, ratio, cpu_ratio)

    def target(self, form: str) -> float | None:
        return self.targets[FORMS.index(form)]

    def verdict(self, form: str) -> str:
        """`met` or `missed` by the row's target and its memory; a dash if only that had to be kept."""
        if self.memory is not None and self.taken.peak_mib > self.memory:
            return f"missed: {self.memory} MiB"
        target = self.target(form)
        if target is None:
            return "–"
        met = self.ratio >= target if self.kind == FASTER else self.ratio <= target
        return "met" if met else "missed"


class Result(NamedTuple):
    """A run of the benchmark. `captures`: what was measured on, a row each."""

    form: str
    machine: dict[str, str]
    captures: list[dict[str, Any]]
    outcomes: list[Outcome]


def machine(tshark: str, tcpdump: str, kinspect: str) -> dict[str, str]:
    """Machine and versions of a run."""
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "kinspect": _version(kinspect),
        "commit": commit(),
        "Python": platform.python_version(),
        "tshark": _version(tshark),
        "tcpdump": _version(tcpdump),
        "kernel": platform.release(),
        "CPU": model[1] if model else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory / (1 << 30):.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def described(planned: Plan) -> list[dict[str, Any]]:
    """The captures that all programs read: names, sizes, what they hold."""
    return [
        {
            "name": _capture(capture),
            "bytes": captures.path_of(capture).stat().st_size,
            "packets": told.packets,
            "messages": sum(told.messages.values()),
            "records": told.records,
        }
        for capture in planned.witnesses
        for told in [captures.told_of(capture)]
    ]


def keep(result: Result) -> None:
    """Write the numbers beside those of the other form, a line each, and the page's section from both."""
    kept = [json.loads(line) for line in NUMBERS.read_text("utf-8").splitlines()] if NUMBERS.exists() else []
    kept = [line for line in kept if line["form"] != result.form]
    kept.append({"form": result.form, "machine": result.machine, "captures": result.captures})
    kept += [_plain(outcome, result.form) for outcome in result.outcomes]
    NUMBERS.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in kept), "utf-8")
    write_page(kept)


def write_page(kept: list[dict[str, Any]]) -> None:
    """Put the section into the page."""
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{section(kept)}\n{END}{after}", "utf-8")


def section(kept: list[dict[str, Any]]) -> str:
    """The Markdown of all forms that were measured: one table, a column a form."""
    about = {line["form"]: line for line in kept if "machine" in line}
    forms = [form for form in FORMS if form in about]
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for line in kept:
        if "work" in line:
            rows.setdefault(_names(line), {})[line["form"]] = _measured(line)
    table = [(*names, *(cells.get(form, "–") for form in forms)) for names, cells in rows.items()]
    facts = [f"{name} {value}" for form in forms for name, value in about[form]["machine"].items()]
    sizes = [
        (held["name"], *(f"{held[column]:,}" for column in SIZES[1:]))
        for held in about[forms[-1]]["captures"]
    ]
    parts = [
        _table((*NAMES, *(TITLES[form] for form in forms)), table),
        "; ".join(dict.fromkeys(facts)) + ".",
        NOTE,
        _table(SIZES, sizes),
    ]
    return "\n\n".join(parts) + "\n"


def text(result: Result) -> str:
    """The table for a terminal."""
    rows = [_cells(_plain(outcome, result.form)) for outcome in result.outcomes]
    table = [HEAD, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    missed = sum(row[-1].startswith("missed") for row in rows)
    lines.append(
        f"{sum(row[-1] == 'met' for row in rows)} targets met, {missed} missed ({TITLES[result.form]})"
    )
    return "\n".join(lines)


NAMES = ("work", "capture", "beside")
HEAD = (*NAMES, "took", "kinspect", "ratio", "target", "")
SIZES = ("capture", "bytes", "packets", "messages", "records")
NOTE = (
    f"Ratios are of wall time: {FASTER} than tshark, one job and lines with records, else {SLOWER}. Behind "
    f"them is what kinspect took, as medians. The peak of resident memory must not exceed {MEMORY} MiB, of "
    f"answers and rows of records {ANSWER_MEMORY}; eight processes have no target. Of "
    f"{' and '.join(f'`{name}`' for name in sorted(PARTLY))} tshark decodes the bodies of half of the clients only."
)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _names(row: dict[str, Any]) -> tuple[str, ...]:
    """What was measured, on which capture, beside what."""
    other, _, against = row["against"].partition(" on ")
    here = row["run"].partition(" on ")[2]
    return row["work"], here or "–", other if against in ("", here) else f"{other} on {against}"


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    ratio = f"{row['ratio']:.3g}×"
    return (*_names(row), _took(row["other"]), _took(row["taken"]), ratio, _target(row), row["verdict"])


def _measured(row: dict[str, Any]) -> str:
    judged = "" if row["verdict"] == "–" else f" ({_target(row)}, {row['verdict']})"
    return f"{row['ratio']:.3g}×{judged}: {_took(row['taken'])}"


def _target(row: dict[str, Any]) -> str:
    sign = "≥" if row["kind"] == FASTER else "≤"
    return "–" if row["target"] is None else f"{sign} {row['target']:g}×"


def _took(taken: dict[str, Any]) -> str:
    return f"{taken['wall']:.2f} s, {taken['peak_mib']:.0f} MiB"


def _plain(outcome: Outcome, form: str) -> dict[str, Any]:
    row = outcome._asdict()
    del row["targets"]
    for side in ("taken", "other"):
        row[side] = {name: round(value, 4) for name, value in row[side]._asdict().items()}
    row |= {name: round(row[name], 4) for name in ("ratio", "cpu_ratio")}
    return {"form": form, **row, "target": outcome.target(form), "verdict": outcome.verdict(form)}


def _name(run: Run) -> str:
    return f"{run.command} on {_capture(run.capture)}" if run.capture else run.command


def _capture(capture: Capture) -> str:
    size = capture.size
    unit, letter = next(((unit, name) for unit, name in UNITS if size % unit == 0), (10**6, "MB"))
    name = f"{capture.profile} {size / unit:.3g} {letter}"
    name += f" × {capture.times}" if capture.times > 1 else ""
    name += f", {capture.connections} connections" if capture.connections else ""
    return name + (f", begun, {capture.begun} Mbit/s" if capture.begun else "")


def _version(program: str) -> str:
    """Of the first line that it prints, the first number with what is in brackets and is one word."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"\d[\w.]*(?<!\.)( \(\w+\))?", done.stdout or done.stderr)
    assert found is not None
    return found[0]


def commit() -> str:
    root = str(DOCS.parent)
    done = subprocess.run(
        ["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
