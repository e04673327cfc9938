"""Contents of a frame of the live view: plain data, without a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any, NamedTuple

from rich.text import Text

from kinspect.analysis.traffic import TrafficResult
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.output import table
from kinspect.output.actions import action_of
from kinspect.output.clock import day_and_clock
from kinspect.output.escape import escape

ABOUT_SHOWN = 400
"""Columns that a row keeps of its last column."""
NAME_SHOWN = 100


class CaptureState(NamedTuple):
    """State of the capture: packets and bytes on the wire, packets dropped by the kernel (None: not known), packets
    without room in the queue, bytes that wait there, open TCP connections, and interfaces that are away."""

    packets: int = 0
    bytes: int = 0
    kernel_drops: int | None = 0
    queue_drops: int = 0
    waiting: int = 0
    connections: int = 0
    away: tuple[str, ...] = ()


class Rates(NamedTuple):
    """Amounts a second, over the last seconds."""

    packets: float = 0.0
    bytes: float = 0.0
    exchanges: float = 0.0
    failed: float = 0.0


class LastRow(NamedTuple):
    """An exchange in the list of the last ones: its time, keys of its JSON line, and the last column's text."""

    clock: str
    line: dict[str, Any]
    about: Text


class ShownPage(NamedTuple):
    """A page as it is drawn. `clock`: when it was opened; `seconds`: since then; `exchanges`: counted since then;
    `titles`: of its columns, None without rows; `lines`: those below, of which the one with the number `top` is shown
    first; `beside`: columns that have no room."""

    name: str
    clock: str
    seconds: float
    exchanges: int
    titles: Text | None
    lines: list[Text]
    top: int
    beside: str = ""


class Picture(NamedTuple):
    """A frame. `exchanges`, `failed`: since the beginning; `result`: statistics of the last minute, or of all time
    (`whole`), which is `seconds` long. `api_rows`: largest number of APIs so far, as the panel does not shrink.
    `page`: a page in place of everything below the head; `help`: the keys are there instead."""

    title: str
    running: float
    status: CaptureState
    rates: Rates
    exchanges: int
    failed: int
    result: TrafficResult
    seconds: float
    whole: bool
    api_rows: int
    rows: Sequence[LastRow]
    held: bool = False
    message: str = ""
    page: ShownPage | None = None
    help: bool = False


KEPT = ("broker", "kind", "api", "api_key", "api_version", "latency_ms")


def row_of(exchange: Exchange, line: dict[str, Any], utc: bool) -> LastRow:
    """The row of an exchange; `line` has the keys of `table.FIELDS`. It does not keep the messages alive."""
    about = table.about_cell(line, action_of(exchange))
    together = Text(" ").join([*about.parts, *about.rest])
    together.truncate(ABOUT_SHOWN, overflow="ellipsis")
    client = line["client"]
    name = escape((client["id"] or "")[:NAME_SHOWN])
    ends = {"ip": client["ip"], "port": client["port"], "id": name, "name": client.get("name")}
    _, clock = day_and_clock(exchange.timestamp, UTC if utc else None)
    return LastRow(clock, {"client": ends, **{key: line[key] for key in KEPT}}, together)
