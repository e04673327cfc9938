"""`kinspect live --explore`: the explorer, with exchanges that come while it is open."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import click

from kinspect.capture.keylogfile import KeyLogFile
from kinspect.capture.livecapture import OngoingCapture
from kinspect.capture.source import STDIN
from kinspect.capture.timeline import SourceStatus
from kinspect.cli.explorecommand import DRAWN, SPOOL_BYTES, close, keys_from_terminal
from kinspect.cli.interrupt import ENDED_BY_SIGNAL
from kinspect.cli.liveview import come_from
from kinspect.cli.options import LINES_ALONE, OTLP, make_caps, usage
from kinspect.cli.readrun import RunOptions
from kinspect.cli.rules import OptionRule
from kinspect.kafka.view.view import View
from kinspect.model import Block
from kinspect.output.escape import escape
from kinspect.output.runsummary import COUNTED, DROPS, saved_text
from kinspect.wording import counted

ELSEWHERE = ("answer", "output", *LINES_ALONE, "limit", "wide", "progress", OTLP, "format_name")
"""Options for printed output."""
EXPLORE_RULES = (
    OptionRule(
        "explore", f"{DRAWN}; without {{}}, `kinspect live` prints to files and pipes", unless="terminal"
    ),
    OptionRule(ELSEWHERE, "{} is not for --explore", "explore"),
)


class FollowedCapture:
    """The packets of a capture, and the TLS secrets added to a key log meanwhile."""

    def __init__(self, capture: OngoingCapture, keylog: KeyLogFile | None) -> None:
        self._capture = capture
        self._keylog = keylog
        self.files = capture.files
        # Even if there are none yet: connections wait for them.
        self.secrets = [] if keylog is None else [b""]
        self._left = False
        self.start = capture.start
        self.stop = capture.stop
        self.close = capture.close

    def __iter__(self) -> Iterator[Block]:
        for block in self._capture:
            if self._keylog is not None and (text := self._keylog.more()):
                self.secrets.append(text)
            yield block
            if self._left:
                return

    def leave(self) -> None:
        self._left = True
        self.stop()

    @property
    def status(self) -> SourceStatus:
        return self._capture.status


def explore_live(capture: OngoingCapture, options: RunOptions, payload: str, registry: str | None) -> int:
    """Explore the exchanges as they come; return the exit status. The capture ends with the explorer. `payload`,
    `registry`: as `ShownPayloads` takes them."""
    from kinspect.tui.index.filterline import filter_line
    from kinspect.tui.index.indexer import Inputs, RowBatch
    from kinspect.tui.index.indexprocess import IndexProcess
    from kinspect.tui.index.shownpayloads import ShownPayloads
    from kinspect.tui.index.spool import Spool
    from kinspect.tui.index.store import Store

    values = options.values
    # Like a pipe's, its data cannot be read again.
    inputs = Inputs(
        [STDIN],
        make_caps(values),
        options.names,
        frozenset(values["decode_as"]),
        interface=capture.files[0],
        hosts=options.hosts,
    )
    spool = Spool(SPOOL_BYTES)
    store = Store(inputs, spool)
    payloads = usage(lambda: ShownPayloads(payload, registry))
    view = View(records=True, payload=payloads.viewed, show_secrets=values["show_secrets"])
    over, held = os.pipe()
    rows = IndexProcess(inputs, spool, FollowedCapture(capture, options.keylog))
    os.close(held)
    capture.leave()
    try:
        from kinspect.tui.app import Explorer

        keys_from_terminal()
        explorer = Explorer(store, rows, view, payloads, utc=values["utc"], text=filter_line(values))
        explorer.run()
        rows.leave()
        while not store.done and isinstance(batch := rows.receive(), RowBatch):
            store.add(batch)
    finally:
        rows.end()
        payloads.close()
        # It ends once nobody holds the other end: the capturing process has closed its files then.
        os.read(over, 1)
        os.close(over)
        spool.close()
    if not values["quiet"]:
        _print_summary(store.summary or {}, come_from(capture, values), store.count)
    status = close(explorer)
    return ENDED_BY_SIGNAL + signal.SIGHUP if explorer.ended_by == signal.SIGHUP else status


def _print_summary(summary: dict[str, Any], interface: str, exchanges: int) -> None:
    packets, size = summary.get("packets", 0), summary.get("bytes", 0)
    click.echo(f"{counted(packets, 'packet')}, {counted(size, 'byte')} on {escape(interface)}", err=True)
    click.echo(f"{counted(exchanges, 'exchange')} listed", err=True)
    if summary.get("saved_packets") is not None:
        click.echo(saved_text(summary), err=True)
    for key in (*DROPS, "interface_losses", "left_packets"):
        count = summary.get(key)
        if count or (key in DROPS and count is not None):
            click.echo(COUNTED[key].format(f"{count:,}"), err=True)
