"""An answer as lines: rows, the lines below each, and notes at the end."""

from __future__ import annotations

from textwrap import wrap
from typing import Any, NamedTuple

from rich.text import Text

from kinspect.answers.celltexts import DIM, NOTE
from kinspect.answers.definition import address_texts
from kinspect.answers.layout import GAP, PRINTED, Cells, TableLimits, span, warnings
from kinspect.output import Style
from kinspect.output.columns import Column
from kinspect.output.escape import escape
from kinspect.tui.index.recordpage import page_definition
from kinspect.wording import counted


class AnswerLine(NamedTuple):
    """A line: of a row itself, or a text below it. `row`: None for the notes at the end."""

    row: int | None
    text: str | None = None
    style: str = ""


class AnswerLines:
    """The lines of an answer's object (see `answerobject.document`), each drawn when it is asked for. `room`: how
    many there are at most; else all rows, which unfold."""

    def __init__(self, found: dict[str, Any], style: Style, room: TableLimits | None = None) -> None:
        layout = page_definition(found["answer"])
        self.rows, folded = layout.split(found["rows"])
        self._room = room or TableLimits(len(self.rows), PRINTED.details, " (→)")
        left_out = len(self.rows) - self._room.rows
        self.rows = self.rows[: self._room.rows]
        self.no_room = found["capture"]["left_out"]
        """How much there was no room for."""
        self.nothing = layout.empty(found["capture"])
        self._cells = Cells(layout, self.rows, style, address_texts(found["capture"]))
        # A page of `live` is of a part of the capture.
        self._span = span(found["capture"], style) if layout.spans and room is None else None
        self._details = [self._cells.details(number) for number in range(len(self.rows))]
        self.warnings = warnings(found["capture"])
        notes = [(f"and {counted(left_out, 'more row')}", DIM)] if left_out > 0 else []
        text = layout.folded(folded).removeprefix("" if self.rows else "and ") if folded else ""
        notes += [(escape(text), DIM)] if text else []
        notes += [(escape(note), "") for note in layout.notes(self.rows, found["capture"])]
        self._notes = [*notes, *((text, NOTE) for text in self.warnings)]
        self._unfolded: set[int] = set()
        self._width = 0
        self._sides: list[dict[Column, int]] = [{}]
        self._side = 0
        self.lines: list[AnswerLine] = []

    def fit(self, width: int) -> None:
        """Lay the lines out for that many cells."""
        self._width = width
        self._sides = self._cells.sides(width) if self.rows else [{}]
        self._side = min(self._side, len(self._sides) - 1)
        self._lay_out()

    def sideways(self, side: int) -> int:
        """Show columns that have no room; 0: those that have. Returns how far there are some."""
        self._side = max(0, min(side, len(self._sides) - 1))
        return self._side

    @property
    def beside(self) -> list[str]:
        """The columns that are shown next."""
        following = self._sides[self._side + 1 : self._side + 2]
        return self._cells.beside(following[0]) if following else []

    @property
    def to_come(self) -> list[str]:
        """The columns that are shown next, and those after them."""
        titles = [title for widths in self._sides[self._side + 1 :] for title in self._cells.beside(widths)]
        return [*dict.fromkeys(titles)]

    @property
    def side(self) -> int:
        """Which columns are shown; 0: those that have room."""
        return self._side

    @property
    def _widths(self) -> dict[Column, int]:
        return self._sides[self._side]

    def turn(self, row: int, unfold: bool) -> None:
        """Show all lines below a row, or the first ones."""
        (self._unfolded.add if unfold else self._unfolded.discard)(row)
        self._lay_out()

    def _lay_out(self) -> None:
        self.lines = []
        for row, details in enumerate(self._details):
            self.lines.append(AnswerLine(row))
            self.lines += [AnswerLine(row, text, DIM) for text in self._below(row, details)]
        for note, style in self._notes:
            self.lines += [AnswerLine(None, text, style) for text in self._wrapped(note, self._width)]

    def _below(self, row: int, details: list[str]) -> list[str]:
        rest = len(details) - self._room.details
        if rest > 0 and row not in self._unfolded:
            details = [*details[: self._room.details], f"and {rest:,} more{self._room.more}"]
        return [text for detail in details for text in self._wrapped(detail, self._width - GAP)]

    @staticmethod
    def _wrapped(text: str, width: int) -> list[str]:
        """A text in lines, all but the first indented."""
        return wrap(text, max(width, 2 * GAP), subsequent_indent=" " * GAP, break_on_hyphens=False)

    def head(self) -> list[Text]:
        """The lines above the rows: what the capture holds, where the layout has that, and the titles."""
        titles = self._cells.titles(self._widths) if self.rows else Text()
        return [titles] if self._span is None else [self._span, titles]

    def draw(self, place: int) -> Text:
        """A line."""
        line = self.lines[place]
        if line.row is not None and line.text is None:
            return self._cells.line(line.row, self._widths)
        indent = " " * GAP if line.row is not None else ""
        text = Text(indent + (line.text or ""), style=line.style, no_wrap=True)
        text.truncate(self._width, overflow="ellipsis")
        return text

    def place(self, row: int) -> int:
        """The line of a row itself."""
        return next(place for place, line in enumerate(self.lines) if line.row == row and line.text is None)
