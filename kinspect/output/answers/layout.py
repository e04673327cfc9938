"""The table of an answer: its rows, what the capture lacks, and the command to type next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from shlex import quote
from textwrap import fill
from typing import Any, NamedTuple

from rich.text import Text

from kinspect.output import Style
from kinspect.output.escape import escape

GAP = 2
"""Spaces between columns."""
ROWS_SHOWN = 40
"""Rows of a table; more with `--wide`."""
DETAILS_SHOWN = 6
"""Lines below a row; more with `--wide`."""
LEAST = 16
"""Width to which most texts are cut at most, before columns are left out."""
UNKNOWN = "?"
HEAD, NOTE, DIM, ERROR = "bold", "yellow", "dim", "bold red"

Row = dict[str, Any]
Clock = Callable[[str | None], str]
"""Gives the time of day of a row's time."""


class Column(NamedTuple):
    """A column of a table. `text`: a row's cell; `right`: it holds numbers; `rank`: columns of higher rank are left out
    first where room is little; `style`: of the cell, by its row; `least`: width to which a text is cut at most before
    columns are left out."""

    title: str
    text: Callable[[Row], str]
    right: bool = False
    rank: int = 0
    style: Callable[[Row], str] = lambda _: ""
    least: int = LEAST


class Layout(NamedTuple):
    """The look of an answer. `nothing`: the text where there are no rows; `more`: the command to type next, from a
    file's name and the rows; `details`: lines below a row, for what one line has no room for; `notes`: lines below the
    table, from the rows that it shows."""

    columns: tuple[Column, ...]
    nothing: str
    more: Callable[[str, list[Row]], str]
    details: Callable[[Row, Clock], list[str]] = lambda *_: []
    notes: Callable[[list[Row]], list[str]] = lambda _: []


def layout_of(answer: str) -> Layout:
    """The look of an answer."""
    layout: Layout = import_module(f"kinspect.output.answers.{answer}").LAYOUT
    return layout


def parts(found: dict[str, Any], width: int, style: Style) -> Iterator[Text]:
    """Lines to print for an answer's object on a terminal of that width."""
    layout = layout_of(found["answer"])
    rows = found["rows"]
    if rows:
        shown = rows if style.wide else rows[:ROWS_SHOWN]
        yield from _table(Cells(layout, shown), width, style)
        if len(rows) > ROWS_SHOWN and not style.wide:
            yield Text(f"and {len(rows) - ROWS_SHOWN:,} more rows: --wide shows all", style=DIM)
        for note in layout.notes(shown):
            yield Text(fill(escape(note), width, subsequent_indent="  "))
    else:
        yield Text(layout.nothing)
    lacks = lacking(found["capture"])
    if lacks:
        yield Text(lacks, style=NOTE)
    if rows and found["capture"]["files"]:
        yield Text(f"next: {escape(layout.more(quote(found['capture']['files'][0]), rows))}", style=DIM)


def lacking(capture: dict[str, Any]) -> str:
    """A line on what was not seen; empty if all was."""
    found = [
        f"{capture['gaps']:,} gaps ({capture['gap_bytes']:,} bytes)" if capture["gaps"] else "",
        f"{capture['orphans']:,} answers without their request" if capture["orphans"] else "",
        f"{capture['unresolved_topic_ids']:,} topic ids without a name"
        if capture["unresolved_topic_ids"]
        else "",
        f"no room for {capture['left_out']:,} more" if capture["left_out"] else "",
    ]
    text = ", ".join(filter(None, found))
    if capture["complete"]:
        return text
    return f"{text or 'not all was read'}: counts are lower bounds"


class Cells:
    """The cells of rows, escaped, in those columns that have any text."""

    def __init__(self, layout: Layout, rows: list[Row]) -> None:
        self.layout = layout
        self.rows = rows
        texts = {column: [escape(column.text(row)) for row in rows] for column in layout.columns}
        self._texts = {column: cells for column, cells in texts.items() if any(cells)}
        self.widths = {column: max(map(len, [column.title, *cells])) for column, cells in self._texts.items()}
        """Columns with the widths that cut nothing."""

    def fitted(self, most: int) -> dict[Column, int]:
        """Columns and their widths where there is room for `most` cells."""
        return _fitted(self.widths, most)

    @staticmethod
    def titles(widths: dict[Column, int]) -> Text:
        """The line above the rows."""
        return _line([(column, column.title, HEAD) for column in widths], widths)

    def line(self, number: int, widths: dict[Column, int]) -> Text:
        """The line of a row."""
        row = self.rows[number]
        return _line([(column, self._texts[column][number], column.style(row)) for column in widths], widths)

    def details(self, number: int, style: Style) -> list[str]:
        """The lines below a row, escaped."""
        return [
            escape(line) for line in self.layout.details(self.rows[number], lambda time: clock(time, style))
        ]


def _table(cells: Cells, width: int, style: Style) -> Iterator[Text]:
    """The rows below the titles, in as many columns as fit."""
    widths = cells.widths if style.wide else cells.fitted(width)
    yield cells.titles(widths)
    for number in range(len(cells.rows)):
        yield cells.line(number, widths)
        yield from _details(cells.details(number, style), width, style)


def _details(lines: list[str], width: int, style: Style) -> Iterator[Text]:
    shown = lines if style.wide else lines[:DETAILS_SHOWN]
    if shown != lines:
        shown = [*shown, f"and {len(lines) - len(shown):,} more: --wide shows all"]
    for line in shown:
        text = Text(" " * GAP + line, style=DIM)
        if not style.wide:
            text.truncate(width, overflow="ellipsis")
        yield text


def clock(time: str | None, style: Style) -> str:
    """The time of day of a row's time, to the millisecond, in local time or UTC."""
    if time is None:
        return UNKNOWN
    moment = datetime.fromisoformat(time)
    # A broken clock may be so near to the year 9999 that local time has no room there.
    with suppress(OverflowError, OSError):
        moment = moment.astimezone(UTC if style.utc else None)
    return moment.isoformat(timespec="milliseconds")[11:23]


def _fitted(widths: dict[Column, int], most: int) -> dict[Column, int]:
    """The widths that fit: the longest texts are cut, then columns are left out."""
    widths = dict(widths)
    while (over := sum(widths.values()) + GAP * (len(widths) - 1) - most) > 0:
        texts = [column for column in widths if not column.right and widths[column] > column.least]
        if texts:
            *_, longest = sorted(texts, key=lambda column: widths[column])
            second = max((widths[column] - 1 for column in texts if column is not longest), default=0)
            widths[longest] -= min(over, widths[longest] - max(second, longest.least))
            continue
        least = max(widths, key=lambda column: column.rank)
        if not least.rank:
            break
        del widths[least]
    return widths


def _line(cells: list[tuple[Column, str, str]], widths: dict[Column, int]) -> Text:
    line = Text()
    for column, text, style in cells:
        cell = Text(text, style=style)
        cell.truncate(widths[column], overflow="ellipsis")
        padding = " " * (widths[column] - cell.cell_len)
        line.append_text(Text(padding) + cell if column.right else cell + Text(padding))
        line.append(" " * GAP)
    line.rstrip()
    return line


def known(value: Any) -> str:
    """A value as text, `?` if it is not known; numbers with commas."""
    return UNKNOWN if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def listed(values: list[str] | dict[str, int], most: int = 3) -> str:
    """The first values, and how many more there are; those of a dict with their counts."""
    texts = [f"{name} {count:,}" for name, count in values.items()] if isinstance(values, dict) else values
    return ", ".join(texts[:most]) + (f" +{len(texts) - most}" if len(texts) > most else "")
