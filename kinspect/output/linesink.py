"""Formats of lines for programs, each of which stands for itself: written in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.output import Opening
from kinspect.sink import PieceSink, WrittenLine

BATCH_BYTES = 32 * 1024
"""Bytes that are buffered at most. With more, malloc returns memory to the system after each batch and takes it again:
with 256 KiB that was a tenth of the time."""


class LineSink(PieceSink):
    """Writes the text, with its line feed, that `exchange` makes of an exchange, and `other` of the object of another
    line; empty text is no line."""

    def __init__(
        self,
        opening: Opening,
        exchange: Callable[[Exchange], bytes],
        other: Callable[[dict[str, Any]], bytes],
    ) -> None:
        self.lines = opening.emit
        self._stream = opening.stream.buffer
        self._exchange = exchange
        self.other = other
        self._waiting: list[bytes] = []
        self._bytes = 0

    def _text(self, line: Line) -> bytes:
        return self._exchange(line) if isinstance(line, Exchange) else self.other(line.to_dict())

    def take(self, line: Line) -> bool | None:
        text = self._text(line)
        if not text:
            return False
        self._put(text)
        return None

    def piece(self, line: Line) -> WrittenLine:
        return WrittenLine(self._text(line))

    def put(self, piece: WrittenLine) -> None:
        self._put(piece.text)

    def tell(self, line: dict[str, Any]) -> None:
        self._put(self.other(line))

    def _put(self, text: bytes) -> None:
        self._waiting.append(text)
        self._bytes += len(text)
        if self._bytes >= BATCH_BYTES:
            self._write()

    def flush(self) -> None:
        if self._waiting:
            self._write()
            self._stream.flush()

    def _write(self) -> None:
        # Emptied first: bytes that a closed pipe refused are not written to it again.
        data, self._waiting, self._bytes = b"".join(self._waiting), [], 0
        self._stream.write(data)
