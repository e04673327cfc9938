"""`kinspect check`: captures and rules in, which rules they keep out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from kinspect.checks.checker import RuleChecker
from kinspect.checks.rulesfile import load_rules
from kinspect.checks.wirerule import KEYS, Row
from kinspect.cli.answerscommand import FOUND, NOT_ASKED
from kinspect.cli.completions import files
from kinspect.cli.options import (
    FILTER_OPTIONS,
    INPUT,
    LIMITS,
    LINES_ALONE,
    OUTPUT_FILE,
    QUIET,
    TABLE_SHOWN,
    Sectioned,
    options,
    usage,
)
from kinspect.cli.readrun import ReadRun, RunOptions, run_options
from kinspect.cli.rowsink import ROW_FORMATS, RowSink, print_rows
from kinspect.cli.schemaoption import SCHEMA
from kinspect.cli.types import Number
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.output import JSONL, TABLE
from kinspect.sink import EXCHANGE, SUMMARY, RunInput, SinkReport
from kinspect.wording import counted

FORMATS = {
    TABLE: "kinspect.output.checktable",
    JSONL: ROW_FORMATS[JSONL],
    "junit": "kinspect.output.junit",
    "github": "kinspect.output.annotations",
}
RULES = "--rules"
OWN = (
    click.option(
        RULES,
        required=True,
        metavar="FILE",
        shell_complete=files,
        help="What is expected: a table [[rule]] of TOML for each rule.",
    ),
    click.option(
        "--allow-unknown",
        is_flag=True,
        help=f"A rule that the capture is too incomplete to decide does not lead to exit status {FOUND}.",
    ),
    click.option(
        "--evidence",
        type=Number(0, 100),
        default=3,
        show_default=True,
        metavar="N",
        help="Show N exchanges that break a rule.",
    ),
)
SHOWN = (
    click.option(
        "--format",
        "format_name",
        type=click.Choice([*FORMATS]),
        default=TABLE,
        show_default=True,
        help="junit: JUnit XML, a test case a rule; github: annotations of GitHub Actions.",
    ),
    QUIET,
    *TABLE_SHOWN,
)


@click.command(cls=Sectioned)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, shell_complete=files)
@options(OWN, OUTPUT_FILE, SHOWN, FILTER_OPTIONS, INPUT, SCHEMA, LIMITS)
def check(captures: tuple[str, ...], rules: str, allow_unknown: bool, evidence: int, **values: Any) -> int:
    """Check captures against rules: what clients must say, must not say, and how often.

    Ends with exit status 4 if a rule fails, or cannot be decided as the capture lacks something. CAPTURE is what
    `kinspect read` takes. All filters must match; what they leave out is not checked.
    """
    values["wide"] = False
    lines = {"format_name": JSONL, "emit": [SUMMARY]}
    asked = run_options({**NOT_ASKED, **LINES_ALONE, **values, **lines}, [*captures, rules])
    checker = RuleChecker(usage(lambda: load_rules(RULES, rules, evidence)))
    return print_rows(captures, CheckSink(asked, values, checker, allow_unknown))


class CheckSink(RowSink):
    """Gives exchanges to the rules, and writes what became of these."""

    lines = frozenset({EXCHANGE})
    formats = FORMATS
    keys = KEYS

    def __init__(
        self, asked: RunOptions, values: dict[str, Any], checker: RuleChecker, allow_unknown: bool
    ) -> None:
        super().__init__(asked, values)
        self._checker, self._allow_unknown = checker, allow_unknown
        self._run: ReadRun | None = None
        self._rows: list[Row] = []

    def open(self, run: ReadRun) -> None:
        super().open(run)
        self._run = run

    def take(self, line: Line) -> None:
        if isinstance(line, Exchange):
            self._checker.take(line, self.asked.filter.start)

    def finish(self) -> None:
        run = self._run
        if run is None or run.nothing_read:
            return
        summary = {"unknown_to_filters": self.asked.filter.unknown, **run.summary()}
        run.note_stop()
        self._rows = self._checker.results(summary, run.ended, allow_unknown=self._allow_unknown)
        for row in self._rows:
            self.written.tell(row)
        self.written.finish()

    def close(self, read: RunInput) -> SinkReport:
        found = Counter(row["status"] for row in self._rows)
        told = ", ".join(f"{count:,} {status}" for status, count in sorted(found.items()))
        broken = any(row["broken"] for row in self._rows)
        messages = [f"{counted(len(self._rows), 'rule')}: {told}"] if told else []
        return SinkReport(messages + self.written.close(read).messages, FOUND if broken else 0)
