"""`kinspect topics` and the other answers: one pass over captures, rows at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from kinspect.analysis.answer import Answer, Row
from kinspect.answers import answerobject, answers, definition_of, open_answer
from kinspect.answers.counter import AnswerCounter
from kinspect.answers.definition import OwnOption
from kinspect.answers.nextcommand import PLACE, NextCommand
from kinspect.api import own_options
from kinspect.capture import Timeline, open_timeline
from kinspect.cli.completions import files, words
from kinspect.cli.interrupt import Interrupt
from kinspect.cli.options import (
    AUTO,
    FILTER_OPTIONS,
    IN_BODIES,
    INPUT,
    JOBS,
    LIMITS,
    LINES_ALONE,
    OUTPUT_FILE,
    TABLE_SHOWN,
    Sectioned,
    asked_format,
    make_caps,
    make_style,
    options,
    usage,
)
from kinspect.cli.outputoptions import INPUT_FILES
from kinspect.cli.readrun import ReadRun, open_run, run_options
from kinspect.cli.schemaoption import SCHEMA
from kinspect.filters.filterdefinitions import FILTERS, option_of
from kinspect.jobs import processes
from kinspect.model import NS_PER_MS
from kinspect.output import JSONL
from kinspect.output.filterhint import filter_hint
from kinspect.wording import all_listed

NOT_ASKED = {**IN_BODIES, "show_secrets": False, "limit": None}
"""Options of `read` that answers do without."""

SHOWN = (
    click.option(
        "--format",
        "format_name",
        type=click.Choice([AUTO, *answerobject.FORMATS]),
        default=AUTO,
        help="auto: table on a terminal, else json; jsonl: a row a line; csv: lists joined by semicolons.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="No messages on how far reading has got."),
    *TABLE_SHOWN,
    click.option("--wide", is_flag=True, help="Cut nothing in tables."),
)


REPEATED_INPUT = (*INPUT_FILES, "decode_as")
"""Options on the input that the command to type next has too."""
NOT_AGAIN = ("/dev/", "/proc/")
"""Where the names of open files stand, as `/dev/stdin`."""
FOUND = 4
"""Exit status if a row is one of those that `--fail-on` names."""


def answer_command(name: str) -> click.Command:
    """The command of an answer."""
    found = definition_of(name)
    own, failures = found.options, found.failures
    fail_on = click.option(
        "--fail-on",
        type=click.Choice([*failures]),
        help=f"End with exit status {FOUND} if there are such rows.",
    )

    def command(
        captures: tuple[str, ...], jobs: int | None, fail_on: str | None = None, **values: Any
    ) -> int:
        given = {option: values.pop(option) for option in own}
        answer = usage(lambda: open_answer(name, **own_options(name, given, values["keylog"] or b"")))
        return _run(name, answer, captures, jobs, failures.get(fail_on or ""), values)

    command.__doc__ = f"""{found.help}

    CAPTURE is what `kinspect read` takes. All filters must match; what they leave out is not counted. Lines
    below the table name what the capture lacks.
    """
    asked = [*map(_option, own, own.values()), *([fail_on] if failures else ())]
    decorated = options(asked, OUTPUT_FILE, SHOWN, FILTER_OPTIONS, INPUT, SCHEMA, JOBS, LIMITS)(command)
    argument = click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, shell_complete=files)
    return click.command(name, cls=AnswerCommand)(argument(decorated))


class AnswerCommand(Sectioned):
    """The command of an answer; an option that other answers have is refused with their names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            asked = error.option_name
            if having := [
                name
                for name, each in answers().items()
                if asked in map(option_of, each.options) or (each.failures and asked == "--fail-on")
            ]:
                raise click.UsageError(f"{asked} is an option of {all_listed(having)} only.", ctx) from None
            raise


def _option(name: str, own: OwnOption) -> Callable[[Any], Any]:
    """An option of an answer."""
    return click.option(
        option_of(name),
        is_flag=own.metavar is None,
        metavar=own.metavar,
        shell_complete=own.words and words(own.words),
        help=own.help,
    )


def _run(
    name: str,
    answer: Answer,
    captures: tuple[str, ...],
    jobs: int | None,
    fails: Callable[[Row], bool] | None,
    values: dict[str, Any],
) -> int:
    if values["quiet"] and values["progress"] is None:
        values["progress"] = False
    interrupt = Interrupt()
    counted = CountedCaptures({name: answer}, captures, values, interrupt, captures)
    failed = False
    with interrupt:
        if objects := counted.objects(jobs):
            (found,) = objects
            failed = fails is not None and any(map(fails, found["rows"]))
            answerobject.write(
                found,
                answer_format(values),
                counted.run.stream,
                make_style(values),
                make_next_command(captures, values),
            )
        status = max(counted.close(), FOUND if failed else 0)
    return interrupt.status or status


class CountedCaptures:
    """Captures whose exchanges answers count. `inputs`: files that the output must not overwrite."""

    def __init__(
        self,
        counting: Mapping[str, Answer],
        captures: Sequence[str],
        values: dict[str, Any],
        interrupt: Interrupt,
        inputs: Sequence[str],
    ) -> None:
        self._counted = AnswerCounter(counting)
        lines = {"format_name": JSONL, "emit": sorted(self._counted.lines)}
        self._asked = run_options({**NOT_ASKED, **LINES_ALONE, **values, **lines}, inputs)
        self._counted.serve(self._asked.filter)
        self._timeline = open_timeline(captures, skew_ns=make_caps(self._asked.values).skew_ns)
        self.run = open_run(self._asked, self._timeline, interrupt, self._counted)
        self.run.counts_errors = False
        self._summary: dict[str, Any] | None = None

    def objects(self, jobs: int | None) -> list[dict[str, Any]]:
        """Count all exchanges, with so many processes; return the answers' objects, none if nothing could be read."""
        run = self.run
        self._summary = _read_counted(run, self._timeline, jobs)
        if run.nothing_read:
            return []
        span = run.tally.first, run.tally.last
        run.note_stop()
        return self._counted.objects(
            self._summary, run.inspector.names, span, run.filter.options, nothing_passed(run), run.ended
        )

    def close(self) -> int:
        """Close the output; return the exit status."""
        self._asked.values["quiet"] = True
        return self.run.close(self._summary)


def _read_counted(run: ReadRun, timeline: Timeline, jobs: int | None) -> dict[str, Any]:
    """Count all exchanges; return the `summary` line's object."""
    count = processes(jobs, timeline)
    if count == 1:
        run.run()
        return run.summary()
    from kinspect.cli.sharedread import read_shared

    return read_shared(run, timeline, count)


def nothing_passed(run: ReadRun) -> str | None:
    """What there is where no exchange passed the filter."""
    return filter_hint(run.tally) if run.tally.seen and not run.tally.shown else None


def make_next_command(captures: Sequence[str], values: dict[str, Any]) -> NextCommand:
    """What the command to type next is for. Standard input and pipes cannot be read again."""
    named = all(map(os.path.isfile, captures)) and not any(name.startswith(NOT_AGAIN) for name in captures)
    given = [(option_of(name), values.get(name)) for name in (*FILTERS, *REPEATED_INPUT)]
    options: list[tuple[str, str | None]] = []
    for option, value in given:
        each = value if isinstance(value, (tuple, list)) else [value] if value else []
        options += [(option, None if one is True else str(one)) for one in each]
    if values.get("clock_skew"):
        options.append(("--clock-skew", f"{values['clock_skew'] / NS_PER_MS:g}ms"))
    return NextCommand(captures if named else [PLACE], options)


def answer_format(values: dict[str, Any]) -> str:
    """The format that the options ask for."""
    return asked_format(values, answerobject.JSON)
