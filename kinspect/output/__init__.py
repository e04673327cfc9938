"""Output formats: exchanges as lines for programs, a table or trees, and the closing summary."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TextIO

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.pair import ANSWERED, NO_RESPONSE

JSONL, TABLE, DETAIL, NONE = "jsonl", "table", "detail", "none"
ECS, REQUEST_LOG = "ecs", "request-log"
SEMCONV = ("1.44", "1.45")
"""Versions of OpenTelemetry's semantic conventions, the default first; what they say is loaded by those who send."""


class Writer(Protocol):
    """An output format at work."""

    def exchange(self, exchange: Exchange) -> None:
        """Write an exchange; it may be buffered until `flush`."""

    def line(self, line: dict[str, Any]) -> None:
        """Write a line of another type; formats without such lines leave it out."""

    def flush(self) -> None:
        """Write everything buffered."""


Piece = tuple[str, bytes]
"""An exchange as a format writes it: the heading that it stands below, and its text."""


class PieceWriter(Writer, Protocol):
    """A format that gives the text of an exchange, to be written later."""

    def piece(self, exchange: Exchange) -> Piece:
        """The exchange as text."""

    def put(self, piece: Piece) -> None:
        """Write a piece; it may be buffered until `flush`."""


class LineTexts(Protocol):
    """A format of lines: the text of each, with its line feed."""

    def exchange(self, exchange: Exchange) -> bytes:
        """The line of an exchange that has one (`has_line`)."""

    def line(self, line: dict[str, Any]) -> bytes:
        """A line of another type; empty if the format has no such lines."""


class Style(NamedTuple):
    """Look of the formats for people. `color`: `auto`, `always` or `never`; `wide`: nothing is cut."""

    color: str = "auto"
    utc: bool = False
    wide: bool = False


def open_writer(name: str, stream: TextIO, view: View, style: Style) -> PieceWriter:
    """The writer of format `name`. A format's libraries are loaded only here."""
    return _WRITERS[name](stream, view, style)


class _NullWriter:
    def exchange(self, exchange: Exchange) -> None:
        pass

    def line(self, line: dict[str, Any]) -> None:
        pass

    def piece(self, exchange: Exchange) -> Piece:
        return "", b""

    def put(self, piece: Piece) -> None:
        pass

    def flush(self) -> None:
        pass


NULL_WRITER = _NullWriter()


def has_line(name: str, exchange: Exchange) -> bool:
    """True if format `name` has something for the exchange. A request log has completed requests with a Kafka header:
    those that were answered, or that no answer is due for."""
    return name != REQUEST_LOG or (
        exchange.outcome in (ANSWERED, NO_RESPONSE) and exchange.api_key is not None
    )


def line_texts(name: str, view: View) -> LineTexts:
    """The texts of format `name`, one of `LINE_FORMATS`."""
    module, made = LINE_FORMATS[name]
    texts: LineTexts = getattr(import_module(module), made)(view)
    return texts


def _lines(name: str) -> Callable[[TextIO, View, Style], PieceWriter]:
    def opened(stream: TextIO, view: View, style: Style) -> PieceWriter:
        writer: PieceWriter = import_module("kinspect.output.jsonl").LineWriter(
            stream.buffer, line_texts(name, view)
        )
        return writer

    return opened


def _table(stream: TextIO, view: View, style: Style) -> PieceWriter:
    writer: PieceWriter = import_module("kinspect.output.table").TableWriter(
        _console(stream, style), view, utc=style.utc, wide=style.wide
    )
    return writer


def _detail(stream: TextIO, view: View, style: Style) -> PieceWriter:
    writer: PieceWriter = import_module("kinspect.output.detail").Detail(_console(stream, style), view)
    return writer


def _none(stream: TextIO, view: View, style: Style) -> PieceWriter:
    return NULL_WRITER


def _console(stream: TextIO, style: Style) -> Any:
    return import_module("kinspect.output.console").make_console(stream, style.color)


LINE_FORMATS = {
    JSONL: ("kinspect.output.jsonl", "JsonTexts"),
    ECS: ("kinspect.output.ecs", "EcsTexts"),
    REQUEST_LOG: ("kinspect.output.requestlog", "RequestLogTexts"),
}
"""Formats in which every line stands for itself, so that they can go on in another file: the module and the class of
their `LineTexts`."""

_WRITERS: dict[str, Callable[[TextIO, View, Style], PieceWriter]] = {
    TABLE: _table,
    DETAIL: _detail,
    **{name: _lines(name) for name in LINE_FORMATS},
    NONE: _none,
}
FORMATS = tuple(_WRITERS)
"""The names of all output formats, in the order of the help."""
