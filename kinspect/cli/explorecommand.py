"""`kinspect explore`: captures in a terminal, to look through."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from kinspect.capture.keylogfile import KeyLogFile
from kinspect.cli import complain, topicnames
from kinspect.cli.completions import files
from kinspect.cli.interrupt import ENDED_BY_SIGNAL
from kinspect.cli.options import (
    FILTER_OPTIONS,
    INPUT,
    JOBS,
    LIMITS,
    Sectioned,
    given_hosts,
    make_caps,
    make_filter,
    options,
    usage,
)
from kinspect.cli.payloadoptions import PAYLOAD_RULES, SCHEMA_REGISTRY, form_option
from kinspect.cli.rules import check
from kinspect.cli.schemaoption import SCHEMA
from kinspect.cli.types import SIZE
from kinspect.errors import KinspectError
from kinspect.extras import need
from kinspect.kafka.view.view import View

if TYPE_CHECKING:
    from kinspect.tui.app import Explorer

SPOOL_BYTES = 1 << 30
TERMINAL = "/dev/tty"
DRAWN = "the explorer draws on a terminal"

SHOWN = (
    form_option("Show records' keys and values, also among the bytes; none: their sizes only."),
    SCHEMA_REGISTRY,
    click.option("--show-secrets", is_flag=True, help="Show passwords, tokens and the like."),
    click.option("--utc", is_flag=True, help="Times in UTC (else local time)."),
    click.option(
        "--spool-size",
        type=SIZE,
        help="Bytes kept in a temporary file of messages that cannot be read again: those of compressed captures,"
        f" standard input and TLS.  [default: {SIZE.written(SPOOL_BYTES)}]",
    ),
)


@click.command(cls=Sectioned)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, shell_complete=files)
@options(SHOWN, FILTER_OPTIONS, INPUT, SCHEMA, JOBS, LIMITS)
def explore(
    captures: tuple[str, ...],
    jobs: int | None,
    payload: str,
    schema_registry: str | None,
    show_secrets: bool,
    utc: bool,
    spool_size: int | None,
    **values: Any,
) -> int:
    """Look through captures in the terminal: exchanges, their fields and bytes.

    CAPTURE is what `kinspect read` takes. The list begins with the filters given here; `/` changes them. `?` lists
    the keys.
    """
    check(PAYLOAD_RULES, {})
    need("explore", "the explorer")
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{DRAWN}; `kinspect read` prints to files and pipes")
    make_filter(values)
    from kinspect.tui.index.filterline import filter_line
    from kinspect.tui.index.indexer import Inputs
    from kinspect.tui.index.indexprocess import IndexProcess
    from kinspect.tui.index.shownpayloads import ShownPayloads
    from kinspect.tui.index.spool import Spool
    from kinspect.tui.index.store import Store

    names, keylog = values["topic_names"], values["keylog"]
    inputs = Inputs(
        list(captures),
        make_caps(values),
        None if names is None else usage(lambda: topicnames.load_topic_names(names)),
        frozenset(values["decode_as"]),
        b"" if keylog is None else usage(lambda: KeyLogFile(keylog)).more(),
        jobs=jobs,
        hosts=given_hosts(values),
    )
    spool = Spool(spool_size or SPOOL_BYTES)
    store = Store(inputs, spool)
    # Before the screen is there, so that the processes beside it hold nothing of it.
    payloads = usage(lambda: ShownPayloads(payload, schema_registry))
    view = View(records=True, payload=payloads.viewed, show_secrets=show_secrets)
    rows = IndexProcess(inputs, spool)
    try:
        keys_from_terminal()
        from kinspect.tui.app import Explorer

        explorer = Explorer(store, rows, view, payloads, utc=utc, text=filter_line(values))
        explorer.run()
    finally:
        rows.end()
        payloads.close()
        spool.close()
    status = close(explorer)
    return ENDED_BY_SIGNAL + explorer.ended_by if explorer.ended_by else status


def close(explorer: Explorer) -> int:
    """After its end, print the errors of inputs and return the exit status for them. Raises unexpected errors."""
    # A signal that asked for the end needs no more time limit.
    signal.setitimer(signal.ITIMER_REAL, 0)
    errors = explorer.store.errors
    for _, error in errors:
        complain(error)
    if explorer.failures:
        raise explorer.failures[0]
    return max((status for status, _ in errors), default=0)


def keys_from_terminal() -> None:
    """Take keys from the terminal if standard input is something else: a capture, which the other process reads."""
    if os.isatty(0):
        return
    try:
        terminal = os.open(TERMINAL, os.O_RDWR)
    except OSError as error:
        raise KinspectError(f"{TERMINAL}: {error.strerror or error}") from None
    os.dup2(terminal, 0)
    os.close(terminal)
