"""Output formats: exchanges as lines for programs, a table or trees, and the closing summary."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, TextIO

from kinspect.kafka.view.view import View
from kinspect.pipeline import EXCHANGES_ONLY

JSONL, TABLE, DETAIL, ECS, NONE = "jsonl", "table", "detail", "ecs", "none"
SEMCONV = ("1.44", "1.45")
"""Versions of OpenTelemetry's semantic conventions, the default first; what they say is loaded by those who send."""


class Style(NamedTuple):
    """Look of the formats for people. `color`: `auto`, `always` or `never`; `wide`: nothing is cut."""

    color: str = "auto"
    utc: bool = False
    wide: bool = False


class Opening(NamedTuple):
    """What a format's sink is made of. `stream`: where it writes, bytes to its `buffer`; `emit`: the types of lines
    that are asked for; `own`: the values of the options that the format alone has, None: not given.

    For a format that makes a folder: `path` is its name; `force`: what is there is replaced; `rolls`: what is written
    counts while the run goes on, not all at the end.
    """

    stream: TextIO
    view: View
    style: Style = Style()
    emit: frozenset[str] = EXCHANGES_ONLY
    own: Mapping[str, Collection[str] | None] = {}
    path: str | None = None
    force: bool = False
    rolls: bool = False
