"""A tree written line by line: no line needs those below it, and none above it is kept."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

StyledText = tuple[str, str]
"""A part of a line and the name of its rich style; the text is escaped."""
Pieces = tuple[StyledText, ...] | Iterator[StyledText]
"""The pieces of a line; an iterator for a line that may be long."""

BATCH_CHARACTERS = 32 * 1024
"""Characters that are buffered at most."""
ROOM_LEAST = 20
"""Least columns for a line's text, however deep it stands and however narrow the terminal is."""
GUIDE_STYLE = "dim"


class _Guides(NamedTuple):
    """Guides before a line: `fork`, or `end` before its parent's last; before the lines below it: `by`, or `past`."""

    fork: str
    end: str
    by: str
    past: str


UNICODE = _Guides("├── ", "└── ", "│   ", "    ")
ASCII = _Guides("+-- ", "`-- ", "|   ", "    ")


class TreeWriter:
    """Writes trees to a console's stream, lines folded at its width."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = console.width
        self._guides = ASCII if console.options.ascii_only else UNICODE
        self._colored = console.color_system is not None and not console.no_color
        self._marks = cache(self._found_marks)
        self._lines: list[str] = []
        self._waiting = 0
        self._most: float = BATCH_CHARACTERS

    def root(self, pieces: Pieces) -> None:
        """Begin a tree."""
        self._write("", "", pieces)

    def line(self, above: str, last: bool, pieces: Pieces) -> str:
        """Write a line and return its prefix, to be passed as `above` for the lines below it. `above` is empty below
        the root; `last`: no line with the same parent follows."""
        fork, end, by, past = self._guides
        below = above + (past if last else by)
        self._write(above + (end if last else fork), below, pieces)
        return below

    @contextmanager
    def aside(self) -> Iterator[list[str]]:
        """Collect rows, as long as the context lasts, in place of writing them."""
        self.flush()
        self._most = math.inf
        try:
            yield self._lines
        finally:
            self._lines, self._waiting, self._most = [], 0, BATCH_CHARACTERS

    def put(self, text: str) -> None:
        """Write text that was collected."""
        self._lines.append(text)
        self._waiting += len(text)
        if self._waiting >= self._most:
            self.flush()

    def flush(self) -> None:
        """Write everything buffered."""
        if self._lines:
            # Emptied first: text that a closed pipe refused is not written to it again.
            text, self._lines, self._waiting = "".join(self._lines), [], 0
            self._console.file.write(text)
            self._console.file.flush()

    def _write(self, guides: str, later: str, pieces: Pieces) -> None:
        room = max(self._width - len(guides), ROOM_LEAST)
        text = "".join([piece[0] for piece in pieces]) if isinstance(pieces, tuple) else None
        if text is not None and len(text) <= room and text.isascii():
            self._row(guides, text, pieces)
            return
        for row in folded(pieces, room):
            self._row(guides, "".join([piece[0] for piece in row]), row)
            guides = later

    def _row(self, guides: str, text: str, pieces: Iterable[StyledText]) -> None:
        if self._colored:
            text = "".join([self._styled(piece) for piece in ((guides, GUIDE_STYLE), *pieces)])
            guides = ""
        self.put(f"{guides}{text}\n")

    def _styled(self, piece: StyledText) -> str:
        text, style = piece
        if not text or not style:
            return text
        before, after = self._marks(style)
        return f"{before}{text}{after}"

    def _found_marks(self, style: str) -> tuple[str, str]:
        """The control sequences around a text of that style."""
        with self._console.capture() as capture:
            self._console.print(Text("x", style=style), end="")
        before, _, after = capture.get().partition("x")
        return before, after


def folded(pieces: Iterable[StyledText], room: int) -> Iterator[list[StyledText]]:
    """The pieces in rows of at most `room` cells, broken at spaces where there are some. A piece may be of any length,
    and there may be any number: a row at a time is held."""
    row: list[StyledText] = []
    left = room
    for text, style in pieces:
        at = 0
        while at < len(text):
            end, cells = _fitting(text, at, left)
            if end == len(text):
                row.append((text[at:], style))
                left -= cells
                break
            space = text.rfind(" ", at + (not row), end + 1)
            if space >= 0:
                end = space
            elif row and len(text) - at <= room:
                end = at
            if end > at:
                row.append((text[at:end], style))
            yield row
            row, left, at = [], room, end + (space >= 0)
    if row:
        yield row


def _fitting(text: str, at: int, room: int) -> tuple[int, int]:
    """End of the longest part of the text from `at` on that fits in `room` cells, and the cells it takes."""
    part = text[at : at + room]
    taken = len(part) if part.isascii() else cell_len(part)
    if taken <= room:
        return at + len(part), taken
    taken = 0
    for place, character in enumerate(part, at):
        cells = cell_len(character)
        if taken + cells > room:
            return place, taken
        taken += cells
    return at + len(part), taken
