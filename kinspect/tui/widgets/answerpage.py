"""A page: the rows of an answer, and the titles above them."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kinspect.tui.index.answerlines import AnswerLines
from kinspect.tui.widgets.linelist import Lines


class AnswerRows(Lines):
    """The rows with the lines below them; a notice until there is a sheet."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Its exchanges"),
        Binding("right", "turn(True)", "Unfold", show=False),
        Binding("left", "turn(False)", "Fold", show=False),
        Binding("greater_than_sign", "sideways(1)", "More columns", show=False),
        Binding("less_than_sign", "sideways(-1)", "Columns before", show=False),
    ]

    class LaidOut(Message):
        """Other columns are shown, or of other widths."""

    def __init__(self) -> None:
        super().__init__()
        self.sheet: AnswerLines | None = None

    @property
    def count(self) -> int:
        return len(self.sheet.lines) if self.sheet is not None else 0

    @property
    def place(self) -> int | None:
        """Number of the row with the cursor."""
        return self.sheet.lines[self.cursor].row if self.sheet is not None and self.count else None

    @property
    def row(self) -> dict[str, Any] | None:
        """The row with the cursor."""
        place = self.place
        return self.sheet.rows[place] if self.sheet is not None and place is not None else None

    def show(self, sheet: AnswerLines | None, notice: str = "", row: int = 0) -> None:
        """Show a sheet with the cursor on a row, or, without one, a notice in its place."""
        self.sheet = sheet
        self.notice = (notice,) if sheet is None or sheet.rows else (sheet.nothing, *sheet.warnings)
        self.scroll_to(y=0, animate=False, force=True)
        self.put_up()
        if sheet is not None and row < len(sheet.rows):
            self.move_to(sheet.place(row), notify=False)

    def put_up(self, cursor: int | None = None) -> None:
        if self.sheet is not None and self.sheet.rows:
            self.sheet.fit(max(1, self.scrollable_content_region.width))
        self.post_message(self.LaidOut())
        super().put_up(cursor)

    def draw(self, place: int) -> Text:
        assert self.sheet is not None
        return self.sheet.draw(place)

    def action_open(self) -> None:
        if self.row is not None:
            self.post_message(self.Chosen(self))

    def action_sideways(self, by: int) -> None:
        """Show columns that had no room, or those before."""
        if self.sheet is not None:
            self.sheet.sideways(self.sheet.side + by)
            self.refresh()
            self.post_message(self.LaidOut())

    def action_turn(self, unfold: bool) -> None:
        """Show all lines below the row with the cursor, or the first ones, with the cursor on it."""
        row = self.place
        if self.sheet is not None and row is not None:
            self.sheet.turn(row, unfold)
            super().put_up(self.cursor if unfold else self.sheet.place(row))
            self.bring_into_view()


class AnswerHead(Widget):
    """The lines above the rows."""

    def __init__(self, rows: AnswerRows) -> None:
        super().__init__()
        self._rows = rows
        self._lines: list[Text] = []

    def put_up(self) -> None:
        """Show the lines of the rows' sheet."""
        sheet = self._rows.sheet
        self._lines = sheet.head() if sheet is not None else []
        self.styles.height = max(1, len(self._lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        text = self._lines[y] if y < len(self._lines) else Text()
        strip = Strip(text.render(self.app.console)).crop(0, self.size.width)
        return strip.extend_cell_length(self.size.width).apply_style(self.rich_style)


class AnswerPage(Vertical):
    """The rows below their head."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = AnswerRows()
        self._head = AnswerHead(self.rows)

    def compose(self) -> ComposeResult:
        yield self._head
        yield self.rows

    @on(AnswerRows.LaidOut)
    def _laid_out(self) -> None:
        self._head.put_up()
