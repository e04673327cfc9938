"""`kinspect live --answer`: what passes is counted, and the answers are printed at the end."""

from __future__ import annotations

from typing import Any

from kinspect.answers import answerobject, open_answer
from kinspect.answers.counter import AnswerCounter
from kinspect.answers.nextcommand import NO_COMMAND
from kinspect.capture.save import SaveOptions
from kinspect.cli.answerscommand import NOT_ASKED, answer_format, make_next_command, nothing_passed
from kinspect.cli.options import AUTO, LINES_ALONE, OTLP, make_style, usage
from kinspect.cli.outputoptions import GOES_ON
from kinspect.cli.readrun import ReadRun, RunOptions, run_options
from kinspect.cli.rules import OptionRule
from kinspect.formats import FORMATS
from kinspect.output import JSONL
from kinspect.output.tally import LOOKED_AT, PASSED

ALONE = [name for name in answerobject.FORMATS if name not in FORMATS]
"""Formats that answers alone have."""
ANSWER_RULES = (
    OptionRule(f"format_name={'|'.join(ALONE)}", "--format {format_name} is for --answer", unless="answer"),
    OptionRule(
        "answer",
        f"--format {{format}} is not for --answer, which has {', '.join(answerobject.FORMATS)}",
        unless=f"format_name={'|'.join((AUTO, *answerobject.FORMATS))}",
    ),
    OptionRule((*NOT_ASKED, *LINES_ALONE, *GOES_ON, OTLP), "{} is not for --answer", "answer"),
)


def open_answers(names: tuple[str, ...]) -> AnswerCounter | None:
    """The answers of these names, repeated or separated by commas; None if there are none. Raises click.UsageError."""
    asked = [name.strip() for value in names for name in value.split(",")]
    return usage(lambda: AnswerCounter({name: open_answer(name) for name in asked})) if asked else None


def answer_options(counted: AnswerCounter, values: dict[str, Any]) -> RunOptions:
    """The request to count."""
    asked = run_options({**values, "format_name": JSONL, "emit": sorted(counted.lines)})
    counted.serve(asked.filter)
    return asked


def note_counted(run: ReadRun) -> None:
    """Let the summary of a run say that it shows no exchange."""
    run.counts_errors = False
    run.tally.called = PASSED if run.filter.active else LOOKED_AT


def print_answers(
    counted: AnswerCounter, run: ReadRun, values: dict[str, Any], saving: SaveOptions | None
) -> None:
    """Print the answers of a run that is over. `saving`: where its packets are."""
    span = run.tally.first, run.tally.last
    names, options = run.inspector.names, run.filter.options
    found = counted.objects(run.summary(), names, span, options, nothing_passed(run), run.ended)
    named = saving is not None and not saving.rotation.limited
    next_command = make_next_command([saving.path], values) if saving is not None and named else NO_COMMAND
    answerobject.write_several(found, answer_format(values), run.stream, make_style(values), next_command)
