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

from plan import AT_LEAST, PEAK, PEAKS, Capture, Plan, Row, Run

import captures

DOCS = Path(__file__).parents[2] / "docs"
PAGE, NUMBERS = DOCS / "performance.md", Path(__file__).with_name("results.json")
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
    """A row measured. `ratio` is of wall times (or of peaks, or a peak in MiB), `cpu_ratio` of CPU times."""

    work: str
    kind: str
    targets: tuple[float | None, ...]
    run: str
    against: str | None
    taken: Taken
    other: Taken | None
    ratio: float
    cpu_ratio: float | None

    @classmethod
    def of(cls, row: Row, taken: Taken, other: Taken | None) -> Outcome:
        """A row from the medians of both sides."""
        ratio, cpu_ratio = taken.peak_mib, None
        if other is not None and row.kind == PEAKS:
            ratio = taken.peak_mib / other.peak_mib
        elif other is not None:
            ratio, cpu_ratio = taken.wall / other.wall, taken.cpu / other.cpu
            if row.kind in AT_LEAST:
                ratio, cpu_ratio = 1 / ratio, 1 / cpu_ratio
        against = row.against and _name(row.against)
        return cls(row.work, row.kind, row.targets, _name(row.run), against, taken, other, ratio, cpu_ratio)

    def target(self, form: str) -> float | None:
        return self.targets[FORMS.index(form)]

    def verdict(self, form: str) -> str:
        """`met` or `missed` by the row's target; a dash without a target."""
        target = self.target(form)
        if target is None:
            return "–"
        met = self.ratio >= target if self.kind in AT_LEAST else self.ratio <= target
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
        "kinspect": _first_line(kinspect, "--version").removeprefix("kinspect "),
        "commit": commit(),
        "Python": platform.python_version(),
        "tshark": _first_line(tshark, "--version"),
        "tcpdump": _first_line(tcpdump, "--version"),
        "kernel": platform.release(),
        "CPU": model[1] if model else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{memory / (1 << 30):.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def described(planned: Plan) -> list[dict[str, Any]]:
    """The captures of a plan: names, sizes, what they hold."""
    used = [run.capture for group in planned.groups for run in group.runs if run.capture]
    return [
        {
            "name": _capture(capture),
            "bytes": captures.path_of(capture).stat().st_size,
            **captures.told_of(capture)._asdict(),
        }
        for capture in dict.fromkeys(used)
    ]


def keep(result: Result) -> None:
    """Write the numbers beside those of the other form, and the page's section from both."""
    kept = json.loads(NUMBERS.read_text("utf-8")) if NUMBERS.exists() else {}
    kept[result.form] = {
        "machine": result.machine,
        "captures": result.captures,
        "rows": [_plain(outcome, result.form) for outcome in result.outcomes],
    }
    NUMBERS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
    write_page(kept)


def write_page(kept: dict[str, Any]) -> None:
    """Put the section into the page."""
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}{section(kept)}{END}{after}", "utf-8")


def section(kept: dict[str, Any]) -> str:
    """The Markdown of all forms that were measured."""
    parts = [_form_section(form, kept[form]) for form in FORMS if form in kept]
    return "\n" + "\n".join(parts) + "\n"


def text(result: Result) -> str:
    """The table for a terminal."""
    rows = [_cells(_plain(outcome, result.form)) for outcome in result.outcomes]
    table = [HEAD, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    verdicts = [row[-1] for row in rows]
    lines.append(
        f"{verdicts.count('met')} targets met, {verdicts.count('missed')} missed ({TITLES[result.form]})"
    )
    return "\n".join(lines)


HEAD = ("work", "capture", "kinspect", "against", "rounds", "ratio", "by CPU", "target", "")


def _form_section(form: str, kept: dict[str, Any]) -> str:
    about = "\n".join(f"| {name} | {value} |" for name, value in kept["machine"].items())
    sizes = "\n".join(
        f"| {c['name']} | {c['bytes']:,} | {c['packets']:,} | {sum(c['messages'].values()):,} | {c['records']:,} |"
        for c in kept["captures"]
    )
    table = "\n".join("| " + " | ".join(_cells(row)) + " |" for row in kept["rows"])
    return (
        f"### {TITLES[form]}\n\n"
        f"| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}\n{table}\n\n"
        "Seconds are medians of wall time, with those of CPU time behind them and the peak of resident memory.\n\n"
        f"| | |\n| --- | --- |\n{about}\n\n"
        f"| capture | bytes | packets | messages | records |\n| --- | --- | --- | --- | --- |\n{sizes}\n"
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    sign = "≥" if row["kind"] in AT_LEAST else "≤"
    unit = " MiB" if row["kind"] == PEAK else "×"
    ratio, cpu_ratio, target = row["ratio"], row["cpu_ratio"], row["target"]
    capture, _, against = row["against"].partition(" on ") if row["against"] else ("", "", "")
    here = row["run"].partition(" on ")[2]
    other = capture if against in ("", here) else f"{capture} on {against}"
    return (
        row["work"],
        here or "–",
        _took(row["taken"]),
        f"{other} {_took(row['other'])}".strip() if row["against"] else "–",
        str(row["taken"]["rounds"]),
        f"{ratio:.3g}{unit}",
        "–" if cpu_ratio is None else f"{cpu_ratio:.3g}×",
        "–" if target is None else f"{sign} {target:g}{unit}",
        row["verdict"],
    )


def _took(taken: dict[str, Any]) -> str:
    return f"{taken['wall']:.2f} s ({taken['cpu']:.2f}), {taken['peak_mib']:.0f} MiB"


def _plain(outcome: Outcome, form: str) -> dict[str, Any]:
    row = outcome._asdict()
    del row["targets"]
    for side in ("taken", "other"):
        row[side] = row[side] and {name: round(value, 4) for name, value in row[side]._asdict().items()}
    row |= {name: row[name] and round(row[name], 4) for name in ("ratio", "cpu_ratio")}
    return {**row, "target": outcome.target(form), "verdict": outcome.verdict(form)}


def _name(run: Run) -> str:
    return f"{run.command} on {_capture(run.capture)}" if run.capture else run.command


def _capture(capture: Capture) -> str:
    size = capture.size
    unit, letter = next(((unit, name) for unit, name in UNITS if size % unit == 0), (10**6, "MB"))
    name = f"{capture.profile} {size / unit:.3g} {letter}"
    name += f" × {capture.times}" if capture.times > 1 else ""
    return name + (f", {capture.connections} connections" if capture.connections else "")


def _first_line(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return (done.stdout or done.stderr).partition("\n")[0].rstrip(".")


def commit() -> str:
    root = str(DOCS.parent)
    done = subprocess.run(
        ["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
