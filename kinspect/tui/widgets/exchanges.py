"""The list of exchanges, and the line of titles above it."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kinspect.output import table
from kinspect.output.clock import day_and_clock
from kinspect.output.columns import REST, Column, Widths, aligned, fitted
from kinspect.output.table import ABOUT, API, CLIENT, ENDS, LATENCY, TIME, WAIT_WIDTH, WAITS
from kinspect.tui.index.listing import Listing, RowOrder
from kinspect.tui.widgets.linelist import Lines

SIZE = Column("SIZE", right=True)
NARROW: Widths = {TIME: 8, CLIENT: 12, API: 18, LATENCY: 8, SIZE: 7, ABOUT: REST}
MEDIUM: Widths = {TIME: 12, ENDS: 33, CLIENT: 12, API: 18, LATENCY: 8, SIZE: 7, ABOUT: REST}
BROAD: Widths = {TIME: 15, ENDS: 43, CLIENT: 18, API: 24, LATENCY: 8, WAITS: WAIT_WIDTH, SIZE: 8, ABOUT: REST}
BEYOND = {ENDS: BROAD[ENDS]}
"""What lies beyond the edge of a narrow list."""
ORDERS = {TIME: "time", LATENCY: "latency", WAITS: "wait", SIZE: "size"}
"""By column: the order that a click on its title chooses."""
SIDEWAYS = 22
"""Cells that the list moves sideways at a key press."""
MARK = 1
"""Cells before the first column, for the mark."""
SHOWN_AS = {"slow": "latency"}
"""Orders that go by the column of another one."""


def list_columns(width: int) -> dict[Column, int]:
    """The columns of a list `width` cells wide, each with its width; the last ones may lie beyond the edge."""
    chosen = NARROW if width < 115 else MEDIUM if width < 160 else BROAD
    shown = fitted(chosen, width - MARK, 1, kept=ENDS.rank)
    return {**shown, **BEYOND} if chosen is NARROW else shown


def bytes_text(count: int) -> str:
    """Bytes in about five characters: `812`, `12.3k`, `4.6M`."""
    for unit, least in (("G", 10**9), ("M", 10**6), ("k", 10**4)):
        if count >= least:
            scaled = count / (10**3 if unit == "k" else least)
            return f"{scaled:.{0 if scaled >= 100 else 1}f}{unit}"
    return str(count)


class Exchanges(Lines):
    """The list: one line an exchange."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Fields and bytes"),
        Binding("space", "mark", "Mark", show=False),
        Binding("left", "sideways(-1)", "Left", show=False),
        Binding("right", "sideways(1)", "Right", show=False),
    ]

    class Sideways(Message):
        """The columns were moved."""

    class Marked(Message):
        """A mark was set or removed."""

    def __init__(self, listing: Listing, *, utc: bool) -> None:
        super().__init__()
        self.listing = listing
        self.marked: dict[int, None] = {}
        self._zone: tzinfo | None = UTC if utc else None

    @property
    def count(self) -> int:
        return len(self.listing)

    @property
    def row(self) -> int | None:
        """The exchange with the cursor."""
        return self.listing[self.cursor] if self.cursor < len(self.listing) else None

    @property
    def taken(self) -> list[int]:
        """The marked exchanges, else the one with the cursor."""
        if self.marked:
            return sorted(self.marked)
        return [] if self.row is None else [self.row]

    def put_up_with(self, row: int | None) -> None:
        """Redraw the list, with the cursor on the exchange that had it, if it is still listed."""
        place = None if row is None or row == self.row else self.listing.place(row)
        self.put_up(place)
        if place is not None:
            self.bring_into_view()

    def go_to_top(self) -> None:
        """Put the cursor on the first line, also if another exchange comes there."""
        self.cursor = 0
        self.scroll_to(y=0, animate=False, force=True)

    @property
    def line_width(self) -> int:
        width = self.scrollable_content_region.width
        return MARK + sum(each + 1 for each in list_columns(width).values()) - 1

    def draw(self, place: int) -> Text:
        index = self.listing[place]
        store = self.listing.store
        line = store.line(index)
        found = store[index]
        widths = list_columns(self.scrollable_content_region.width)
        about = table.about_cell(line, line["action"])
        cells = {
            **table.cells(day_and_clock(line["timestamp"], self._zone)[1], line, widths),
            SIZE: Text(bytes_text(found.request.size + found.response.size)),
            ABOUT: Text(" ").join([*about.parts, *about.rest]),
        }
        cells[LATENCY].stylize(table.wait_style(line["wait"]))
        mark = Text("▪" if index in self.marked else " ", no_wrap=True)
        return mark.append_text(aligned(cells, widths, 1)).append(" ")

    def style_of(self, place: int) -> Style | None:
        if self.listing[place] in self.marked:
            return self.get_component_rich_style("lines--marked")
        return None

    def action_sideways(self, by: int) -> None:
        """Scroll to columns beyond the edge."""
        most = max(0, self.line_width - self.scrollable_content_region.width)
        self.scroll_to(x=max(0, min(self.scroll_offset.x + by * SIDEWAYS, most)), animate=False, force=True)

    def watch_scroll_x(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_x(old_value, new_value)
        self.post_message(self.Sideways())

    def action_open(self) -> None:
        self.post_message(self.Chosen(self))

    def action_mark(self) -> None:
        """Mark the exchange, or remove its mark, and go on to the next."""
        if self.row is None:
            return
        if self.row in self.marked:
            del self.marked[self.row]
        else:
            self.marked[self.row] = None
        self.post_message(self.Marked())
        self.refresh()
        self.move_to(self.cursor + 1)


class Titles(Widget):
    """The columns' titles; a click orders the list."""

    class Clicked(Message):
        """A title was clicked: the list is to have this order."""

        def __init__(self, order: str) -> None:
            super().__init__()
            self.order = order

    def __init__(self, exchanges: Exchanges) -> None:
        super().__init__()
        self._exchanges = exchanges

    def render_line(self, y: int) -> Strip:
        order = self._exchanges.listing.order
        widths = self._columns()
        titles = {column: Text(column.title + _arrow(column, order)) for column in widths}
        text = Text(" ", no_wrap=True).append_text(aligned(titles, widths, 1)).append(" ")
        x = self._exchanges.scroll_offset.x
        strip = Strip(text.render(self.app.console)).crop(x, x + self.size.width)
        return strip.extend_cell_length(self.size.width).apply_style(self.rich_style)

    def _columns(self) -> dict[Column, int]:
        return list_columns(self._exchanges.scrollable_content_region.width or self.size.width)

    def on_click(self, event: events.Click) -> None:
        at = MARK - self._exchanges.scroll_offset.x
        for column, width in self._columns().items():
            if at <= event.x <= at + width and column in ORDERS:
                self.post_message(self.Clicked(ORDERS[column]))
            at += width + 1


def _arrow(column: Column, order: RowOrder) -> str:
    if ORDERS.get(column, "") != SHOWN_AS.get(order.key, order.key):
        return ""
    return "▼" if order.down else "▲"
