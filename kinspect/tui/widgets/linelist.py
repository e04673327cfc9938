"""A list of any length with a cursor on one line."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from kinspect.output.escape import escape


class _OfLines(Message):
    """Base of the messages of a list."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines

    @property
    def control(self) -> Lines:
        return self._lines


class Lines(ScrollView, can_focus=True):
    """Draws only its visible lines, one by one. Subclasses give the number of lines, and draw one."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"lines--cursor", "lines--marked"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "go(0)", "First", show=False),
        Binding("end", "go(-1)", "Last", show=False),
    ]

    class Moved(_OfLines):
        """The cursor was moved to another line."""

    class Chosen(_OfLines):
        """Enter, or a click on the line with the cursor."""

    shows_cursor = True
    """True if the line with the cursor is highlighted."""

    def __init__(self) -> None:
        super().__init__()
        self.cursor = 0
        self.notice: Sequence[str] = ()
        """Text in place of lines if there are none, wrapped to the width."""

    @property
    def count(self) -> int:
        """Number of lines."""
        return 0

    @property
    def line_width(self) -> int:
        """Width of the lines, in cells."""
        return self.scrollable_content_region.width

    def draw(self, place: int) -> Text:
        """The line at `place`."""
        raise NotImplementedError

    def style_of(self, place: int) -> Style | None:
        """Style of the whole line, besides the cursor's."""
        return None

    def put_up(self, cursor: int | None = None) -> None:
        """Measure and redraw after the lines changed, with the cursor on `cursor`."""
        if cursor is not None:
            self.cursor = cursor
        self.cursor = max(0, min(self.cursor, self.count - 1))
        self.virtual_size = Size(self.line_width, self.count)
        self.refresh()

    def on_resize(self) -> None:
        self.put_up()

    def render_line(self, y: int) -> Strip:
        x, top = self.scroll_offset
        width = self.scrollable_content_region.width
        place = top + y
        base = self.rich_style
        if not self.count:
            return self._noticed(place, width).apply_style(base)
        if place >= self.count:
            return Strip.blank(width, base)
        strip = Strip(self.draw(place).render(self.app.console)).extend_cell_length(self.line_width)
        strip = strip.crop(x, x + width).extend_cell_length(width)
        over = self.style_of(place)
        if over is not None:
            strip = strip.apply_style(over)
        if place == self.cursor and self.shows_cursor:
            # The cursor's colours win over those of the line's text.
            cursor = self.get_component_rich_style("lines--cursor")
            strip = Strip([type(s)(s.text, (s.style or Style()) + cursor) for s in strip], strip.cell_length)
        return strip.apply_style(base)

    def _noticed(self, place: int, width: int) -> Strip:
        """A line of the notice."""
        room = max(width - 1, 1)
        broken = [part for line in self.notice for part in wrap(escape(line), room, break_on_hyphens=False)]
        text = Text(broken[place] if place < len(broken) else "", style="italic", no_wrap=True)
        return Strip(text.render(self.app.console)).crop(0, width).extend_cell_length(width)

    def move_to(self, place: int, *, notify: bool = True) -> None:
        """Put the cursor on a line and bring it into view."""
        place = max(0, min(place, self.count - 1))
        moved, self.cursor = place != self.cursor, place
        self.bring_into_view()
        self.refresh()
        if notify and moved:
            self.post_message(self.Moved(self))

    def bring_into_view(self) -> None:
        """Scroll as little as possible to show the line with the cursor."""
        height = self.scrollable_content_region.height
        top = self.scroll_offset.y
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif height and self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, force=True)

    def action_move(self, by: int) -> None:
        self.move_to(self.cursor + by)

    def action_page(self, by: int) -> None:
        self.move_to(self.cursor + by * max(1, self.scrollable_content_region.height - 1))

    def action_go(self, place: int) -> None:
        self.move_to(place if place >= 0 else self.count - 1)

    def on_click(self, event: events.Click) -> None:
        place = self.scroll_offset.y + event.y
        if event.y >= self.scrollable_content_region.height or place >= self.count:
            return
        again = place == self.cursor
        self.clicked(place, event.x + self.scroll_offset.x)
        if again:
            self.post_message(self.Chosen(self))

    def clicked(self, place: int, column: int) -> None:
        """Take a click on a line."""
        self.move_to(place)
