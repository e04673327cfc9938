"""Columns of a table on a terminal: which of them fit a width, and rows of cells in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

Row = dict[str, Any]

LEAST = 16
"""Width to which most texts are cut at most, before columns are left out."""
WHOLE = REST = 1000
"""As `least`: no cell is cut for want of room. As a width: all that the other columns leave."""


@dataclass(eq=False, repr=False)
class Column:
    """A column of a table. `text`: a row's cell; `right`: it holds numbers; `rank`: columns of higher rank are left out
    first where room is little; `style`: of the cell, by its row; `least`: width to which a text is cut at most before
    columns are left out; `time`: part of a row's time, which `text` gives then; `spare`: it is left out before any text
    is cut; `group`: a title above neighbours that share it."""

    title: str
    text: Callable[[Row], str] = lambda _: ""
    right: bool = False
    rank: int = 0
    style: Callable[[Row], str] = lambda _: ""
    least: int = LEAST
    time: tuple[int, int] | None = None
    spare: bool = False
    group: str = ""


SHOWS_ALL = ": --wide shows all"


def left_out_text(titles: Iterable[str]) -> str:
    """What is said of the columns that did not fit."""
    return f"columns left out: {', '.join(titles)}{SHOWS_ALL}"


Widths = Mapping[Column, int]


def fitted(widths: Widths, room: int, gap: int, kept: int = 0) -> dict[Column, int]:
    """The widths that fit: columns are left out as long as cut texts are too wide, but for those of ranks up to `kept`;
    then the longest ones are cut."""
    is_cut = sum(widths.values()) + gap * (len(widths) - 1) > room
    widths = {column: width for column, width in widths.items() if not (is_cut and column.spare)}
    while sum(_least(column, width) + gap for column, width in widths.items()) - gap > room:
        last = max(widths, key=lambda column: column.rank)
        if last.rank <= kept:
            break
        del widths[last]
    while (over := sum(widths.values()) + gap * (len(widths) - 1) - room) > 0:
        texts = [column for column in widths if widths[column] > _least(column, widths[column])]
        if not texts:
            break
        *_, longest = sorted(texts, key=lambda column: widths[column])
        second = max((widths[column] - 1 for column in texts if column is not longest), default=0)
        widths[longest] -= min(over, widths[longest] - max(second, longest.least))
    return widths


def _least(column: Column, width: int) -> int:
    """The width to which a column's texts may be cut; numbers are not."""
    return width if column.right else min(width, column.least)


def fit(cell: Text, width: int, right: bool = False) -> Text:
    """The cell in exactly `width` columns; the end of a longer one is cut."""
    width = max(width, 0)
    cell.truncate(width, overflow="ellipsis", pad=not right)
    if right:
        cell.pad_left(width - cell.cell_len)
    return cell


def aligned(cells: Mapping[Column, Text], widths: Widths, gap: int) -> Text:
    """The line of a row."""
    from rich.text import Text

    fitting = (fit(cells[column], width, column.right) for column, width in widths.items())
    return Text(" " * gap).join(fitting)


class Grid:
    """Rows of cells under the columns that fit into `room`."""

    def __init__(self, widths: Widths, room: int) -> None:
        self._columns = [*widths]
        self._room = room
        self._widths = fitted(widths, room, 1)

    def row(self, cells: Iterable[Text]) -> Text:
        """A line of cells: those of all columns, or of the first ones."""
        from rich.text import Text

        row = {column: Text() for column in self._columns} | dict(zip(self._columns, cells, strict=False))
        return fit(aligned(row, self._widths, 1), self._room)

    def titles(self, style: str) -> Text:
        """The line of titles."""
        from rich.text import Text

        return self.row(Text(column.title, style=style) for column in self._columns)

    def groups(self) -> list[tuple[int, int, str]]:
        """Start, end and name of each group."""
        found: list[tuple[int, int, str]] = []
        begin = 0
        for column, width in self._widths.items():
            if column.group and found and found[-1][2] == column.group:
                found[-1] = (found[-1][0], begin + width, column.group)
            elif column.group:
                found.append((begin, begin + width, column.group))
            begin += width + 1
        return found
