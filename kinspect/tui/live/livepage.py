"""Pages of the live view: an answer each, counted from when it is opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.text import Text

from kinspect.answers import open_answer
from kinspect.answers.counter import AnswerCounter
from kinspect.answers.layout import TableLimits
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.model import NS_PER_SECOND
from kinspect.output import Style
from kinspect.tui.index.answerlines import AnswerLines
from kinspect.tui.keybindings import PAGE_KEYS
from kinspect.tui.live.keyreader import DOWN, END, HOME, LEFT, PAGE_DOWN, PAGE_UP, RIGHT, UP
from kinspect.tui.live.picture import ShownPage

OPENED = {key: name for name, key in PAGE_KEYS.items()}
"""The answers by the keys that open their pages."""
LOOK_NS = NS_PER_SECOND
"""Least time between two looks at the rows."""
ROOM = TableLimits(rows=500, details=100, more="")
"""Rows and lines below a row that a page has."""

MOVES: dict[str, Callable[[int, int], int]] = {
    UP: lambda top, _: top - 1,
    DOWN: lambda top, _: top + 1,
    PAGE_UP: lambda top, room: top - room,
    PAGE_DOWN: lambda top, room: top + room,
    HOME: lambda _top, _room: 0,
    END: lambda _top, _room: 1 << 40,
}
"""By key: the first line shown, from that before and the number of lines shown."""
SIDEWAYS = {RIGHT: 1, ">": 1, LEFT: -1, "<": -1}
"""By key: the step to other columns."""


class LivePage:
    """An answer and the lines of its last look. `now`: when it is opened; `clock`: the time of day then."""

    def __init__(self, name: str, now: int, clock: str, style: Style) -> None:
        self.counted = AnswerCounter({name: open_answer(name)})
        self.due = now
        """When to look at the rows again."""
        self.looked = False
        self._name = name
        self._begun = now
        self._clock = clock
        self._style = style
        self._exchanges = 0
        self._sheet: AnswerLines | None = None
        self._side = 0
        self._width = 0
        self._lines: list[Text] = []
        self._top = 0

    def take(self, line: Line) -> None:
        """Count a line."""
        self._exchanges += isinstance(line, Exchange)
        self.counted.take(line)

    def look(self, found: dict[str, Any], width: int) -> None:
        """Take the rows of the answer's object."""
        self._sheet = AnswerLines(found, self._style, ROOM)
        self.looked = True
        self._lay_out(width)

    def move(self, key: str, room: int) -> None:
        """Obey a key that scrolls, where there is room for so many lines."""
        if key in MOVES:
            self._top = MOVES[key](self._top, room)
            self._clamp(room)
        if key in SIDEWAYS:
            self._side += SIDEWAYS[key]
            self._lay_out(self._width)

    def shown(self, now: int, width: int, room: int) -> ShownPage:
        """The page for that width, and room for so many lines."""
        if width != self._width:
            self._lay_out(width)
        self._clamp(room)
        sheet, seconds = self._sheet, (now - self._begun) / NS_PER_SECOND
        beside = ["<: back"] if self._side else []
        beside += [f">: {', '.join(sheet.to_come)}"] if sheet and sheet.to_come else []
        titles = sheet.head()[0] if sheet and sheet.rows else None
        return ShownPage(
            self._name,
            self._clock,
            seconds,
            self._exchanges,
            titles,
            self._lines,
            self._top,
            "  ".join(beside),
        )

    def _clamp(self, room: int) -> None:
        self._top = max(0, min(self._top, len(self._lines) - room))

    def _lay_out(self, width: int) -> None:
        self._width = width
        sheet = self._sheet
        if sheet is None:
            return
        sheet.fit(width)
        self._side = sheet.sideways(self._side)
        nothing = [] if sheet.rows else [Text(sheet.nothing)]
        self._lines = [*nothing, *(sheet.draw(place) for place in range(len(sheet.lines)))]
