"""The table of an answer: its rows, what the capture lacks, and the command to type next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from textwrap import fill
from typing import Any, NamedTuple

from rich.text import Text

from kinspect import wording
from kinspect.answers import definition_of
from kinspect.answers.celltexts import DIM, HEAD, NOTE, TIME_OF_DAY, UNKNOWN, counted
from kinspect.answers.definition import Definition, address_texts, nothing_decoded
from kinspect.answers.nextcommand import NO_COMMAND, NextCommand
from kinspect.output import Style
from kinspect.output.columns import SHOWS_ALL, Column, Row, aligned, fitted, left_out_text
from kinspect.output.escape import escape

ADDRESSES = frozenset({"ADDRESS", "BROKER"})
"""Titles of columns that have addresses."""
GAP = 2
"""Spaces between columns."""


class TableLimits(NamedTuple):
    """Rows of a table, and lines below a row; `more`: the way to see more, also of columns."""

    rows: int
    details: int
    more: str


TEXT_WIDTH = 80
"""Smallest width to which lines on what is missing are broken."""
PRINTED = TableLimits(40, 6, SHOWS_ALL)


def parts(
    found: dict[str, Any], width: int, style: Style, next_command: NextCommand = NO_COMMAND
) -> Iterator[Text]:
    """Lines to show for an answer's object on a terminal of that width. `next_command`: the one to type next;
    without captures there is none."""
    layout = definition_of(found["answer"])
    rows = found["rows"]
    if rows:
        whole, folded = (layout.ordered(rows), []) if style.wide else layout.split(rows)
        shown = whole if style.wide else whole[: PRINTED.rows]
        if shown:
            yield from _table(Cells(layout, shown, style, address_texts(found["capture"])), width, style)
        if len(whole) > len(shown):
            yield Text(f"and {counted(len(whole) - len(shown), 'more row')}{PRINTED.more}", style=DIM)
        if folded:
            text = layout.folded(folded).removeprefix("" if shown else "and ")
            yield Text(_filled(escape(text), width), style=DIM)
        for note in layout.notes(shown, found["capture"]):
            yield Text(_filled(escape(note), width))
    else:
        yield Text(layout.empty(found["capture"]))
    for text in warnings(found["capture"]):
        yield Text(
            fill(text, max(width, TEXT_WIDTH), subsequent_indent="  ", break_on_hyphens=False), style=NOTE
        )
    if rows and next_command.captures:
        command = next_command.command(layout.more, whole + folded, found["capture"])
        yield Text(f"next: {escape(command)}", style=DIM)


def page(
    found: dict[str, Any], width: int, style: Style, next_command: NextCommand = NO_COMMAND
) -> Iterator[Text]:
    """The `parts` of an answer's object, below the capture's time span where the answer has that."""
    if definition_of(found["answer"]).spans:
        yield from filter(None, [span(found["capture"], style)])
    yield from parts(found, width, style, next_command)


def span(capture: dict[str, Any], style: Style) -> Text | None:
    """When the capture begins and ends, and how much it holds."""
    if capture["from"] is None or nothing_decoded(capture):
        return None
    first, last = (_local(capture[key], style)[: TIME_OF_DAY[1]] for key in ("from", "until"))
    if last[: TIME_OF_DAY[0]] == first[: TIME_OF_DAY[0]]:
        last = last[TIME_OF_DAY[0] :]
    zone = " UTC" if style.utc else ""
    packets, exchanges = (counted(capture[key], key[:-1]) for key in ("packets", "exchanges"))
    passed = capture["counted"]
    fewer = f", {passed:,} of them counted" if passed < capture["exchanges"] else ""
    return Text(f"{first} to {last}{zone}: {packets}, {exchanges}{fewer}")


def several(
    found: list[dict[str, Any]], width: int, style: Style, next_command: NextCommand
) -> Iterator[Text]:
    """The `parts` of several answers, each below its name."""
    for each in found:
        if each is not found[0]:
            yield Text()
        yield Text(each["answer"], style=HEAD)
        yield from page(each, width, style, next_command)


def warnings(capture: dict[str, Any]) -> list[str]:
    """Lines on what was not counted, and on what was not seen."""
    named = capture["only_naming"]
    counted = f"only exchanges that name such a {' and '.join(named)} were counted" if named else ""
    return [text for text in (counted, capture["instead"], _twins(capture), _lacking(capture)) if text]


def _twins(capture: dict[str, Any]) -> str:
    twins = capture["twins"]
    return (
        f"{wording.counted(twins, 'exchange')} seen again at translated addresses: counted once"
        if twins
        else ""
    )


def _lacking(capture: dict[str, Any]) -> str:
    """A line on what is missing; empty if nothing is."""
    found = capture["incomplete"][1:] if nothing_decoded(capture) else capture["incomplete"]
    return f"{escape(', '.join(found))}: counts are of what was seen" if found else ""


class Cells:
    """The cells of rows, escaped, in those columns that have any text. `names`: what stands for addresses there."""

    def __init__(self, layout: Definition, rows: list[Row], style: Style, names: dict[str, str]) -> None:
        self.layout = layout
        self.rows = rows
        self._style = style
        columns = (
            replace(column, title=f"{column.title} (UTC)") if column.time and style.utc else column
            for column in layout.titled
        )
        texts = {column: [_cell(column, row, style, names) for row in rows] for column in columns}
        self._texts = {column: cells for column, cells in texts.items() if any(cells)}
        self.widths = {column: max(map(len, [column.title, *cells])) for column, cells in self._texts.items()}
        """Columns with the widths that cut nothing."""

    def fitted(self, most: int) -> dict[Column, int]:
        """Columns and their widths where there is room for `most` cells."""
        return fitted(self.widths, most, GAP)

    def sides(self, most: int) -> list[dict[Column, int]]:
        """What is shown side by side where there is room for `most` cells: first what fits, then, beside the first
        column, those that were left out or cut."""
        sides = [self.fitted(most)]
        while len(sides[0]) > 1 and sum(sides[0].values()) + GAP * (len(sides[0]) - 1) > most:
            sides[0].popitem()
        lead, room = next(iter(self.widths), None), 0
        for column, width in self.widths.items():
            if lead is None or column is lead or sides[0].get(column, 0) >= width:
                continue
            if width + GAP > room:
                sides.append({lead: sides[0][lead]})
                room = max(most - sides[0][lead], GAP + 1)
            sides[-1][column] = min(width, room - GAP)
            room -= sides[-1][column] + GAP
        return sides

    def beside(self, widths: dict[Column, int]) -> list[str]:
        """The titles of the columns but the first."""
        return [column.title for column in widths][1:]

    def without(self, *shown: dict[Column, int]) -> list[str]:
        """The titles of the columns that are in none of these."""
        return [column.title for column in self.widths if not any(column in each for each in shown)]

    def titles(self, widths: dict[Column, int]) -> Text:
        """The line above the rows."""
        return _line({column: (column.title, HEAD) for column in widths}, widths)

    def line(self, number: int, widths: dict[Column, int]) -> Text:
        """The line of a row."""
        row = self.rows[number]
        return _line({column: (self._texts[column][number], column.style(row)) for column in widths}, widths)

    def texts(self, number: int) -> dict[Column, str]:
        """The cells of a row, uncut."""
        return {column: cells[number] for column, cells in self._texts.items()}

    def details(self, number: int) -> list[str]:
        """The lines below a row, escaped."""
        row, meaning = self.rows[number], self.layout.meaning
        lines = self.layout.details(row, lambda time: clock(time, self._style))
        if number == 0 or meaning(row) != meaning(self.rows[number - 1]):
            lines = [*lines, *meaning(row)]
        return [escape(line) for line in lines]


def _table(cells: Cells, width: int, style: Style) -> Iterator[Text]:
    """The rows below the titles, in as many columns as fit."""
    widths = cells.widths if style.wide else cells.fitted(width)
    yield cells.titles(widths)
    for number in range(len(cells.rows)):
        yield cells.line(number, widths)
        yield from _details(cells.details(number), width, style)
    if without := cells.without(widths):
        yield Text(_filled(left_out_text(without), width), style=DIM)


def _cell(column: Column, row: Row, style: Style, names: dict[str, str]) -> str:
    text = column.text(row)
    if column.title in ADDRESSES:
        text = names.get(text, text)
    if column.time is not None and text not in ("", UNKNOWN):
        return _local(text, style)[slice(*column.time)]
    return escape(text)


def _details(lines: list[str], width: int, style: Style) -> Iterator[Text]:
    shown = lines if style.wide else lines[: PRINTED.details]
    if shown != lines:
        shown = [*shown, f"and {len(lines) - len(shown):,} more{PRINTED.more}"]
    indent = " " * GAP
    for line in shown:
        text = indent + line if style.wide else _filled(line, width, indent)
        yield Text(text, style=DIM)


def _filled(text: str, width: int, indent: str = "") -> str:
    """A text in lines of that width, all but the first indented further."""
    return fill(
        text, width, initial_indent=indent, subsequent_indent=indent + " " * GAP, break_on_hyphens=False
    )


def clock(time: str | None, style: Style) -> str:
    """The time of day of a row's time, to the millisecond, in local time or UTC."""
    return UNKNOWN if time is None else _local(time, style)[slice(*TIME_OF_DAY)]


def _local(time: str, style: Style) -> str:
    moment = datetime.fromisoformat(time)
    # A broken clock may be so near to the year 9999 that local time has no room there.
    with suppress(OverflowError, OSError):
        moment = moment.astimezone(UTC if style.utc else None)
    return moment.isoformat(" ", "milliseconds")


def _line(cells: dict[Column, tuple[str, str]], widths: dict[Column, int]) -> Text:
    texts = {column: Text.assemble(cell) if column.right else Text(*cell) for column, cell in cells.items()}
    found = aligned(texts, widths, GAP)
    found.rstrip()
    return found
