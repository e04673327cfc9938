"""Columns of the live view; a narrow terminal leaves out the least important ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

GAP = 1


class LiveColumn(NamedTuple):
    """A column. `width` 0: the rest, from `least` to `most`. `rank`: where room is short, columns of the highest rank
    are left out first. `group`: a title above neighbours that share it."""

    title: str
    width: int
    rank: int = 0
    left: bool = False
    group: str = ""
    least: int = 0
    most: int = 1000


def fit(text: Text, width: int, left: bool = True) -> Text:
    """The text in exactly `width` columns; the end of a longer text is cut."""
    width = max(width, 0)
    text.truncate(width, overflow="ellipsis")
    missing = width - text.cell_len
    if left:
        text.pad_right(missing)
    else:
        text.pad_left(missing)
    return text


def chosen(columns: Sequence[LiveColumn], width: int) -> list[int]:
    """The columns that fit into `width`, by their numbers."""
    kept = sorted(range(len(columns)), key=lambda number: columns[number].rank)
    while len(kept) > 1 and sum((columns[n].width or columns[n].least) + GAP for n in kept) - GAP > width:
        kept.pop()
    return sorted(kept)


class Grid:
    """Rows of cells under the columns that fit into `width`."""

    def __init__(self, columns: Sequence[LiveColumn], width: int) -> None:
        self._numbers = chosen(columns, width)
        self._columns = [columns[number] for number in self._numbers]
        fixed = sum(column.width + GAP for column in self._columns) - GAP
        self._widths = [column.width or max(min(width - fixed, column.most), 1) for column in self._columns]
        self._width = width

    def row(self, cells: Sequence[Text]) -> Text:
        """A line of cells, one for each of all columns."""
        line = Text()
        for at, number in enumerate(self._numbers):
            line.append(" " * GAP if at else "")
            line.append_text(fit(cells[number].copy(), self._widths[at], self._columns[at].left))
        return fit(line, self._width)

    def titles(self, style: str) -> Text:
        """The line of titles."""
        line = Text()
        for at, column in enumerate(self._columns):
            line.append(" " * GAP if at else "")
            line.append_text(fit(Text(column.title, style=style), self._widths[at], column.left))
        return fit(line, self._width)

    def groups(self) -> list[tuple[int, int, str]]:
        """Start, end and name of each group."""
        found: list[tuple[int, int, str]] = []
        begin = 0
        for column, width in zip(self._columns, self._widths, strict=True):
            if column.group and found and found[-1][2] == column.group:
                found[-1] = (found[-1][0], begin + width, column.group)
            elif column.group:
                found.append((begin, begin + width, column.group))
            begin += width + GAP
        return found
