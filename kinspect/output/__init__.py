"""Output formats: exchanges as JSON lines, a table or trees, and the closing summary."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TextIO

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View

JSONL, TABLE, DETAIL, NONE = "jsonl", "table", "detail", "none"
LINE_FORMATS = (JSONL,)
"""Formats in which every line stands for itself: they can go on in another file."""


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


def _jsonl(stream: TextIO, view: View, style: Style) -> PieceWriter:
    writer: PieceWriter = import_module("kinspect.output.jsonl").JsonLines(stream.buffer, view)
    return writer


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


_WRITERS: dict[str, Callable[[TextIO, View, Style], PieceWriter]] = {
    TABLE: _table,
    DETAIL: _detail,
    JSONL: _jsonl,
    NONE: _none,
}
FORMATS = tuple(_WRITERS)
"""The names of all output formats, in the order of the help."""
