"""What a frame of the live view shows: plain data, without a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any, NamedTuple

from rich.text import Text

from kinspect.analysis.traffic import Result
from kinspect.kafka.exchange import Exchange
from kinspect.output import table
from kinspect.output.deeds import told
from kinspect.output.escape import escape

ABOUT_SHOWN = 400
"""What a row keeps of what its exchange is about, in columns."""
NAME_SHOWN = 100


class Status(NamedTuple):
    """How the capture stands: packets and bytes on the wire, those the kernel dropped and those that found no room in
    the queue, bytes that wait there, and TCP connections that are open."""

    packets: int = 0
    bytes: int = 0
    kernel_drops: int = 0
    queue_drops: int = 0
    waiting: int = 0
    connections: int = 0


class Rates(NamedTuple):
    """Over the last seconds, a second."""

    packets: float = 0.0
    bytes: float = 0.0
    exchanges: float = 0.0
    failed: float = 0.0


class Row(NamedTuple):
    """An exchange in the list of the last ones: keys of its JSON line, and what it is about."""

    clock: str
    line: dict[str, Any]
    about: Text


class Picture(NamedTuple):
    """A frame. `exchanges`, `failed`: since the beginning; `result`: of the last minute, or of all (`whole`), which are
    `seconds`. `api_rows`: how many APIs there were at most; the panel does not shrink."""

    title: str
    running: float
    status: Status
    rates: Rates
    exchanges: int
    failed: int
    result: Result
    seconds: float
    whole: bool
    api_rows: int
    rows: Sequence[Row]
    held: bool = False
    message: str = ""


KEPT = ("broker", "kind", "api", "api_key", "api_version", "latency_ms")


def row_of(exchange: Exchange, line: dict[str, Any], utc: bool) -> Row:
    """The row of an exchange; `line` has the keys of `table.FIELDS`. It holds nothing of the messages."""
    about = table.about(line, told(exchange))
    together = Text(" ").join([*about.parts, *about.rest])
    together.truncate(ABOUT_SHOWN, overflow="ellipsis")
    client = line["client"]
    ends = {"ip": client["ip"], "port": client["port"], "id": escape((client["id"] or "")[:NAME_SHOWN])}
    _, clock = table.day_and_clock(exchange.timestamp, UTC if utc else None)
    return Row(clock, {"client": ends, **{key: line[key] for key in KEPT}}, together)
