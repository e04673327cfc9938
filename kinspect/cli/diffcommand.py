"""`kinspect diff`: two captures in, what their answers differ in out."""

from __future__ import annotations

import os
from shlex import quote
from typing import Any

import click
import orjson

from kinspect import wording
from kinspect.answers import open_answer
from kinspect.answers.answerobject import CSV, INDENTED, JSON, SCHEMA_VERSION, TABLE
from kinspect.answers.comparison import (
    CHANGES,
    FACTOR,
    KEYS,
    WENT,
    comparable,
    differences,
    not_compared,
    partly_compared,
    side_of,
)
from kinspect.answers.nextcommand import PLACE
from kinspect.cli import CAPTURE_NAME, complain
from kinspect.cli.answerscommand import (
    FOUND,
    SHOWN,
    CountedCaptures,
    answer_format,
    make_next_command,
)
from kinspect.cli.completions import files, words
from kinspect.cli.interrupt import Interrupt
from kinspect.cli.options import (
    FILTER_OPTIONS,
    INPUT,
    JOBS,
    LIMITS,
    OUTPUT_FILE,
    Sectioned,
    make_style,
    options,
    usage,
)
from kinspect.cli.outfile import STANDARD
from kinspect.cli.readrun import ReadRun
from kinspect.cli.schemaoption import SCHEMA
from kinspect.cli.types import Factor
from kinspect.errors import KinspectError
from kinspect.jsontext import escape_json

ANY = "any"
OWN = (
    click.option(
        "--answer",
        "chosen",
        multiple=True,
        metavar="NAME",
        shell_complete=words(comparable),
        help="The answers to compare; repeatable.  [default: all whose rows can be compared]",
    ),
    click.option(
        "--threshold",
        type=Factor(),
        default=FACTOR,
        show_default=True,
        metavar="FACTOR",
        help="Counts, rates and quantiles moved from this factor on.",
    ),
    click.option(
        "--fail-on",
        type=click.Choice([*CHANGES, ANY]),
        multiple=True,
        help=f"End with exit status {FOUND} if there are such differences without a caveat; repeatable.",
    ),
)

Object = dict[str, Any]


@click.command(cls=Sectioned)
@click.argument("before", metavar="BEFORE", shell_complete=files)
@click.argument("after", metavar="AFTER", shell_complete=files)
@options(OWN, OUTPUT_FILE, SHOWN, FILTER_OPTIONS, INPUT, SCHEMA, JOBS, LIMITS)
def diff(
    before: str,
    after: str,
    chosen: tuple[str, ...],
    threshold: float,
    fail_on: tuple[str, ...],
    jobs: int | None,
    **values: Any,
) -> int:
    """Compare two captures: what appeared, went, changed or moved beyond chance, by their answers.

    BEFORE and AFTER are each what `kinspect read` takes, or a folder: those in it named as captures are one. All
    filters must match, in both; what they leave out is not compared.
    """
    asked = usage(lambda: _asked(chosen))
    if values["quiet"] and values["progress"] is None:
        values["progress"] = False
    sides = _files(before), _files(after)
    interrupt = Interrupt()

    def counted(captures: tuple[str, ...], inputs: tuple[str, ...], **own: Any) -> CountedCaptures:
        counting = {name: open_answer(name) for name in asked}
        return CountedCaptures(counting, captures, {**values, "quiet": True, **own}, interrupt, inputs)

    with interrupt:
        first, second = counted(sides[0], (), output=STANDARD), counted(sides[1], (*sides[0], *sides[1]))
        old, new = first.objects(jobs), second.objects(jobs)
        found: Object | None = None
        why: str | None = None
        if old and new:
            why = not_compared(old, new)
            found = {
                "diff": asked,
                "schema_version": SCHEMA_VERSION,
                "threshold": threshold,
                "compared": why is None,
                "before": side_of(old),
                "after": side_of(new),
                "rows": differences(old, new, threshold),
            }
            _write(found, second.run, (before, after), values)
        status = max(first.close(), second.close())
        if why:
            status = max(status, KinspectError.status)
            if answer_format(values) != TABLE:
                complain(f"nothing was compared: {why}")
        elif fail_on and found is not None and (lacks := partly_compared(old, new)):
            status = max(status, KinspectError.status)
            complain(f"--fail-on: not all answers could be compared: {lacks}")
        failing = [row for row in (found or {"rows": ()})["rows"] if {ANY, row["change"]} & {*fail_on}]
        if any(row["caveat"] is None for row in failing):
            status = max(status, FOUND)
        elif failing:
            complain(
                f"--fail-on: {wording.counted(len(failing), 'difference')} not counted, each with a caveat:"
                f" {failing[0]['caveat']}"
            )
    return interrupt.status or status


def _asked(names: tuple[str, ...]) -> list[str]:
    """The answers to compare. Raises KinspectError."""
    known = comparable()
    if unknown := [name for name in names if name not in known]:
        raise KinspectError(f"--answer cannot be {unknown[0]!r}; it is one of {', '.join(known)}")
    return list(dict.fromkeys(names)) or known


def _files(name: str) -> tuple[str, ...]:
    """The files of a capture: itself, or those in a folder that are named as captures are, by name."""
    if not os.path.isdir(name):
        return (name,)
    with os.scandir(name) as entries:
        files = sorted(entry.path for entry in entries if entry.is_file())
    found = [path for path in files if CAPTURE_NAME.fullmatch(os.path.basename(path))]
    if not found:
        raise KinspectError(f"{name}: has no files that are named as captures, such as a.pcap or a.pcapng.gz")
    if others := len(files) - len(found):
        complain(f"{name}: left out, as not named as captures: {wording.counted(others, 'file')}")
    return tuple(found)


def _write(found: Object, run: ReadRun, captures: tuple[str, str], values: Object) -> None:
    """Write the differences in the format that is asked for."""
    name, stream = answer_format(values), run.stream
    if name == TABLE:
        from kinspect.answers.differencetable import lines
        from kinspect.output.console import make_console

        style = make_style(values)
        console = make_console(stream, style.color)
        for line in lines(found, console.width, style, _next(found["rows"], captures, values)):
            console.print(line, soft_wrap=True)
    elif name == JSON:
        stream.write(escape_json(orjson.dumps(found, option=INDENTED)).decode())
    elif name == CSV:
        from kinspect.output.cells import cell
        from kinspect.output.csvlines import CsvTexts

        texts = CsvTexts(KEYS)
        rows = [texts.row([cell(row[key]) for key in KEYS]) for row in found["rows"]]
        stream.write(b"".join([texts.header, *rows]).decode())
    else:
        for row in found["rows"]:
            stream.write(escape_json(orjson.dumps(row)).decode() + "\n")


def _next(rows: list[Object], captures: tuple[str, str], values: Object) -> str:
    """The command that shows the answer of the first difference, in the capture that has it."""
    if not rows:
        return ""
    row = rows[0]
    capture = captures[0] if row["change"] == WENT else captures[1]
    options = make_next_command((capture,), values).options
    given = [name if value is None else f"{name} {quote(value)}" for name, value in options]
    place = quote(capture) if os.path.isfile(capture) else PLACE
    return " ".join([f"kinspect {row['answer']} {place}", *given])
