"""`kinspect export`: captures in, a capture of what passes the filters out."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from kinspect.answers.incomplete import AnswerCounts, why_incomplete
from kinspect.capture import Timeline, open_timeline
from kinspect.capture.rotation import Rotation
from kinspect.capture.save import SaveFiles, SaveOptions
from kinspect.capture.source import can_reopen
from kinspect.capture.writer import section
from kinspect.cli import complain, progress
from kinspect.cli.completions import files
from kinspect.cli.interrupt import Interrupt, LateError
from kinspect.cli.options import (
    FILTER_OPTIONS,
    IN_BODIES,
    INPUT,
    LIMITS,
    LINE_FACTS,
    LINES_ALONE,
    OUTPUT_FILE,
    PROGRESS,
    QUIET,
    Sectioned,
    make_caps,
    options,
    usage,
)
from kinspect.cli.outfile import STANDARD, check_name, check_overwrite
from kinspect.cli.outputoptions import input_files
from kinspect.cli.readrun import ReadRun, open_run, run_options
from kinspect.cli.rules import OptionRule, check
from kinspect.cli.schemaoption import SCHEMA
from kinspect.cli.types import Size
from kinspect.errors import CaptureError, KinspectError
from kinspect.exports.choice import Choice
from kinspect.exports.chosenpackets import SPANS_KEPT, ChosenPackets
from kinspect.exports.packetcopy import DECRYPTED, REDACTED, PacketCopy, resolution, section_of
from kinspect.output import JSONL
from kinspect.sink import CONNECTION, EXCHANGE, SUMMARY
from kinspect.wording import all_listed, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinspect.cli.redactedexport import RedactedExport
    from kinspect.exports.plaintext import PlainPacket, PlainStreams

STREAM = "/dev/stdout"
TOGETHER = 1_000
"""Packets that are written together at the end."""
NOTHING_COUNTED = AnswerCounts(0, None, 0, 0)
WRITTEN = (
    click.option(
        "--packets",
        type=click.Choice([CONNECTION, EXCHANGE]),
        default=CONNECTION,
        help="Whole connections in which an exchange passes; or only the packets of these exchanges, and what is needed"
        " to decode them.  [default: connection]",
    ),
    click.option(
        "--comments",
        is_flag=True,
        help="Comment on the packet that ends a message of what passes: its API, subject, error codes and latency.",
    ),
    click.option(
        "--decrypted",
        is_flag=True,
        help="Write what was inside TLS as plain TCP, in packets made anew, and no secrets.",
    ),
    click.option(
        "--redact",
        is_flag=True,
        help="Write a capture that can be sent out: with pseudonyms in place of all texts, bytes and addresses that are"
        " not Kafka's own, in packets made anew.",
    ),
    click.option(
        "--redact-key",
        type=click.Path(),
        metavar="FILE",
        help="Make pseudonyms with the key in FILE, the same in each export. A file that is not there is written.",
        shell_complete=files,
    ),
    click.option(
        "--keep-unknown",
        is_flag=True,
        help="Keep bytes of these connections that are in no message that could be read, as they are.",
    ),
    click.option(
        "--split",
        type=Size(least=4096),
        help="Begin a new file before FILE gets larger, as OUT_00001_20261121151919.pcapng: each can be read alone.",
    ),
)
EXPORT_RULES = (
    OptionRule("decrypted", "{} is for --packets connection", f"packets={EXCHANGE}"),
    OptionRule(
        "redact",
        f"{{}} is for whole connections: give it what --packets {EXCHANGE} wrote",
        f"packets={EXCHANGE}",
    ),
    OptionRule("comments", "{} say what --redact replaces: export again what that wrote, with {}", "redact"),
    OptionRule(("redact_key", "keep_unknown"), "{} is for --redact", unless="redact"),
    OptionRule("split", "{} is for -o FILE", unless="path"),
)


@click.command(cls=Sectioned)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, shell_complete=files)
@options(OUTPUT_FILE, WRITTEN, (QUIET, PROGRESS), FILTER_OPTIONS, INPUT, SCHEMA, LIMITS)
def export(captures: tuple[str, ...], **values: Any) -> int:
    """Write the packets of what passes the filters into a capture of its own.

    It is a pcapng file with packets as they were captured. All filters must match, as for `read`. Several
    captures become one, in the order of time. CAPTURE is what `kinspect read` takes, but no pipe, as it is read twice.
    """
    check(EXPORT_RULES, LINE_FACTS)
    usage(lambda: _check(captures, values))
    path = STREAM if values["output"] in (None, STANDARD) else values["output"]
    interrupt = Interrupt()
    status, _ = write_export(captures, path, values, interrupt)
    return interrupt.status or status


def write_export(
    captures: tuple[str, ...], path: str, values: dict[str, Any], interrupt: Interrupt
) -> tuple[int, list[str]]:
    """Write what passes the filters to `path`; return the exit status, and lines on what the captures lack."""
    lines = {**IN_BODIES, **LINES_ALONE, **values, "format_name": JSONL, "emit": [SUMMARY]}
    asked = run_options({**lines, "output": STANDARD, "show_secrets": False, "limit": None, "utc": False})
    timeline = _timeline(captures, values)
    alone = values["packets"] == EXCHANGE
    choice = Choice(
        asked.filter, alone, not (alone or values["redact"] or values["decrypted"] or asked.filter.active)
    )
    run = open_run(asked, timeline, interrupt, choice)
    run.counts_errors = False
    choice.names = run.inspector.names
    if values["comments"]:
        from kinspect.exports.comments import Comments  # loads rich

        choice.comments = Comments()
    with interrupt:
        run.run()
        if interrupt.received:
            choice.report.append("nothing was written")
        elif not run.nothing_read:
            _write(run, choice, timeline, SaveOptions(path, Rotation(values["split"]), values["force"]))
        summary = {"unknown_to_filters": run.tally.unknown, **run.summary()}
        lacks = why_incomplete(summary, NOTHING_COUNTED, ended=run.ended)
        if run.filter.active:
            lacks.append(f"connections in which no exchange passes {all_listed(run.filter.options)}")
        elif choice.passed_over:
            lacks.append(_without_exchange(choice))
        return run.close(), lacks


def _without_exchange(choice: Choice) -> str:
    return f"{counted(choice.passed_over, 'connection')} without an exchange"


def check_read_twice(captures: tuple[str, ...]) -> None:
    """Raise KinspectError for a pipe."""
    for capture in captures:
        if not can_reopen(capture):
            raise KinspectError(f"{capture}: is read twice, and a pipe can be read only once: save it first")


def _check(captures: tuple[str, ...], values: dict[str, Any]) -> None:
    check_read_twice(captures)
    path, key = values["output"], values["redact_key"]
    if key is not None and os.path.realpath(key) in map(os.path.realpath, (*captures, path or STANDARD)):
        raise KinspectError(f"--redact-key: {key}: is a capture, or -o FILE: the key has a file of its own")
    if path not in (None, STANDARD):
        if not os.path.isdir(os.path.dirname(path) or os.curdir):
            raise KinspectError(f"-o: {path}: {os.strerror(errno.ENOENT)}")
        if os.path.isdir(path):
            raise KinspectError(f"-o: {path}: is a folder")
        check_name(path)
        if not values["split"]:
            check_overwrite(path, values["force"], [*captures, *input_files(values)])
    elif sys.stdout.isatty():
        raise KinspectError("packets are not for a terminal: -o FILE says where they go")


def _timeline(captures: tuple[str, ...], values: dict[str, Any]) -> Timeline:
    return open_timeline(captures, skew_ns=make_caps(values).skew_ns, resolved=True)


def _write(run: ReadRun, choice: Choice, read: Timeline, saving: SaveOptions) -> None:
    """Read the captures again, and write the packets that were chosen."""
    again = _timeline(tuple(read.files), run.options.values)
    shows = progress.wanted(run.options.values["progress"])
    shown = progress.of_reading(again, "writing") if shows else None
    try:
        redacts = run.options.values["redact"]
        begin = section() if redacts else section_of(read.findings) + resolution(read.findings)
        saved = SaveFiles(saving, begin, 0)
        copy = PacketCopy(again, read.findings, saved, REDACTED if redacts else DECRYPTED)
        try:
            redacted = _copy(run, choice, again, copy, shown)
        finally:
            saved.close(())
    except CaptureError as error:
        if isinstance(error.__context__, BrokenPipeError):
            raise error.__context__ from None
        raise
    finally:
        again.close()
        if shown is not None:
            shown.stop()
    told = f", and of {choice.tellers:,} as far as they tell names" if choice.tellers else ""
    pieces = f", into {counted(len(saved.names), 'file')}" if saving.rotation.limited else ""
    choice.report.append(
        f"{counted(copy.packets, 'packet')} of {counted(choice.connections, 'connection')} written{told}{pieces}"
    )
    if choice.passed_over and not run.filter.active:
        choice.report.append(f"left out: {_without_exchange(choice)}")
    if not copy.packets and not run.interrupt.received:
        complain(f"{saving.path}: has no packets, as nothing passes")
    if redacted is not None:
        choice.report += redacted.report(None if saving.path == STREAM else saved.names)
    decrypted = run.options.values["decrypted"] or redacts
    if secret := 0 if decrypted else sum(any(run.inspector.secrets_of([each])) for each in choice.randoms):
        choice.report.append(
            f"secrets of {counted(secret, 'TLS connection')} are in it: whoever has it reads these"
        )
    if choice.comments is not None and choice.comments.left_out:
        choice.report.append(f"comments left out for want of room: {choice.comments.left_out:,}")
    if read.findings.resolved_left_out and not redacts:
        choice.report.append(
            f"name resolution blocks left out for want of room: {read.findings.resolved_left_out:,}"
        )
    if choice.spans.left_out:
        choice.report.append(
            f"left out for want of room: {counted(choice.spans.left_out, 'connection')} or messages"
            f" ({SPANS_KEPT:,} are noted)"
        )


def _copy(
    run: ReadRun, choice: Choice, again: Timeline, copy: PacketCopy, shown: progress.ProgressLine | None
) -> RedactedExport | None:
    values, caps = run.options.values, make_caps(run.options.values)
    lines = run.inspector.secrets_of(choice.randoms)
    chosen = ChosenPackets(choice.spans, caps)
    made: PlainStreams | RedactedExport | None = None
    redacted: RedactedExport | None = None
    if values["redact"]:
        from kinspect.cli import redactedexport  # loads what decrypts

        made = redacted = redactedexport.RedactedExport(values, choice, run.inspector, b"".join(lines))
    elif values["decrypted"]:
        from kinspect.exports.plaintext import PlainStreams  # loads what decrypts

        made = PlainStreams(choice.encrypted(), b"".join(lines), caps)
    else:
        copy.secrets(lines)
    comments = choice.comments
    with suppress(LateError), run.interrupt.breakable():
        for block in run.interrupt.guard(iter(again)):
            indexes = chosen.of(block)
            packets: Sequence[PlainPacket] = ()
            if made is not None:
                packets, indexes = made.replaced(chosen.segments, block, indexes)
            copy.mix(block, indexes, packets, comments)
            copy.flush()
            if shown is not None:
                shown.update()
        if made is not None:
            last = iter(made.finish())
            while packets := list(islice(last, TOGETHER)):
                copy.mix(None, (), packets, comments)
                copy.flush()
    return redacted
