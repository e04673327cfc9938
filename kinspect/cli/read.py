"""`kinspect read`: captures in, exchanges out."""

from __future__ import annotations

import sys
from typing import Any

import click
import orjson

from kinspect.capture import Timeline, open_timeline
from kinspect.cli import INTERRUPTED, complain, outfile, topicnames
from kinspect.cli.options import (
    FILTERS,
    INPUT,
    OUTPUT,
    SUMMARY,
    choose_format,
    line_types,
    make_caps,
    make_filter,
    make_style,
    make_view,
    needs_heads_only,
    options,
    usage,
)
from kinspect.cli.progress import Progress
from kinspect.cli.run import Run
from kinspect.errors import TruncatedCaptureError
from kinspect.output import open_writer
from kinspect.output.summary import summary_text
from kinspect.pipeline import Inspector

UNREADABLE, CUT = 1, 3


@click.command()
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True)
@options(OUTPUT, FILTERS, INPUT)
def read(captures: tuple[str, ...], **values: Any) -> int:
    """Decode captures into exchanges, a request and its response a line.

    CAPTURE is a pcap or pcapng file, plain or compressed (gzip, zstd, lz4), or - for standard input. Several
    files are one timeline, as rotated captures are.

    Filters AND; the values of one filter, repeated or separated by commas, OR. Values are case-sensitive
    globs (orders-*); a leading ! negates (--api '!Heartbeat').
    """
    path = values["output"]
    if path is not None:
        usage(lambda: outfile.check(path, values["force"], captures))
    format_name = choose_format(values, terminal=path is None and sys.stdout.isatty())
    emit = line_types(values)
    chosen = make_filter(values)
    view = make_view(values)
    names = usage(lambda: topicnames.load(values["topic_names"])) if values["topic_names"] else None
    timeline = open_timeline(captures)
    stream = usage(lambda: outfile.open_output(path, values["force"]))
    run = Run(
        timeline,
        Inspector(
            caps=make_caps(values),
            names=names,
            kafka_ports=frozenset(values["decode_as"]),
            heads_only=needs_heads_only(view, chosen),
            emit=emit,
            files=[_printable(name) for name in timeline.files],
        ),
        chosen,
        open_writer(format_name, stream, view, make_style(values)),
        limit=values["limit"],
        progress=Progress(timeline) if _wants_progress(values["progress"], path) else None,
        count_damage=view.fields is None,
    )
    interrupted = run.run()
    summary = run.summary()
    if SUMMARY in emit:
        stream.buffer.write(orjson.dumps(summary, option=orjson.OPT_APPEND_NEWLINE))
    stream.flush()
    if path is not None:
        stream.close()
    for error in timeline.errors:
        complain(str(error))
    if not values["quiet"]:
        click.echo(summary_text(summary, run.tally), nl=False, err=True)
    return INTERRUPTED if interrupted else _status(timeline)


def _status(timeline: Timeline) -> int:
    return max(
        (CUT if isinstance(error, TruncatedCaptureError) else UNREADABLE for error in timeline.errors),
        default=0,
    )


def _wants_progress(asked: bool | None, path: str | None) -> bool:
    # Rows on the same terminal and a bar would overwrite each other.
    return sys.stderr.isatty() and (path is not None or not sys.stdout.isatty()) if asked is None else asked


def _printable(name: str) -> str:
    """A file's name with U+FFFD for bytes that are no text."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
