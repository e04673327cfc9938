"""JSON lines: one object a line, UTF-8; lines of any form, written in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO, Final

import orjson

from kinspect.jsontext import escape_json
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View
from kinspect.output import LineTexts
from kinspect.output.fit import FittedText

BATCH_BYTES: Final = 32 * 1024
"""Bytes that are buffered at most. With more, malloc returns memory to the system after each batch and takes it again:
with 256 KiB that was a tenth of the time."""


def text(line: dict[str, Any]) -> bytes:
    """The object as a line of text."""
    # Escaped for files too: their text is shown on a terminal sooner or later.
    return escape_json(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def text_maker(view: View) -> Callable[[dict[str, Any]], bytes]:
    """The function that makes text of a line's object."""
    return text if view.max_line is None else FittedText(view.max_line, view.nulls, text)


class JsonTexts:
    """Exchanges, and the other line types, as JSON."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._text = text_maker(view)

    def exchange(self, exchange: Exchange) -> bytes:
        return self._text(self._view.exchange(exchange))

    def line(self, line: dict[str, Any]) -> bytes:
        return self._text(self._view.other(line))


class LineWriter:
    """Writes exchanges, and the other line types, to a binary stream, in the text that `texts` makes of them."""

    def __init__(self, stream: BinaryIO, texts: LineTexts) -> None:
        self._stream = stream
        self._texts = texts
        self._lines: list[bytes] = []
        self._waiting = 0

    def exchange(self, exchange: Exchange) -> None:
        """Write the exchange's line."""
        self._put(self._texts.exchange(exchange))

    def line(self, line: dict[str, Any]) -> None:
        """Write a line of another type."""
        self._put(self._texts.line(line))

    def piece(self, exchange: Exchange) -> tuple[str, bytes]:
        """The exchange's line."""
        return "", self._texts.exchange(exchange)

    def put(self, piece: tuple[str, bytes]) -> None:
        """Write a line given as text."""
        self._put(piece[1])

    def _put(self, data: bytes) -> None:
        self._lines.append(data)
        self._waiting += len(data)
        if self._waiting >= BATCH_BYTES:
            self._write()

    def flush(self) -> None:
        """Write everything buffered."""
        if self._lines:
            self._write()
            self._stream.flush()

    def _write(self) -> None:
        # Emptied first: bytes that a closed pipe refused are not written to it again.
        data, self._lines, self._waiting = b"".join(self._lines), [], 0
        self._stream.write(data)
