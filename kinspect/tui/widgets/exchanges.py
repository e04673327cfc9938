"""The list of exchanges, and the line of titles above it."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import Any, ClassVar, NamedTuple

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kinspect.output import table
from kinspect.output.escape import escape
from kinspect.tui.index.listing import Listing, RowOrder
from kinspect.tui.widgets.lines import Lines


class ListColumn(NamedTuple):
    """A column: its title, its width (0: the rest), and the order that a click on it chooses."""

    name: str
    title: str
    width: int
    order: str = ""


ABOUT_LEAST = 20
"""Least width of the last column; it has room in terminals of 80 and of 120 columns."""
NARROW = (
    ListColumn("time", table.TIME, 8, "time"),
    ListColumn("client", "CLIENT ID", 12),
    ListColumn("api", "API", 18),
    ListColumn("latency", "LATENCY", 8, "latency"),
    ListColumn("size", "SIZE", 7, "size"),
    ListColumn("about", "ABOUT", 0),
    ListColumn("ends", "CLIENT → BROKER", 43),
)
MEDIUM = (
    ListColumn("time", table.TIME, 12, "time"),
    ListColumn("ends", "CLIENT → BROKER", 33),
    ListColumn("client", "CLIENT ID", 12),
    ListColumn("api", "API", 18),
    ListColumn("latency", "LATENCY", 8, "latency"),
    ListColumn("size", "SIZE", 7, "size"),
    ListColumn("about", "ABOUT", 0),
)
BROAD = (
    ListColumn("time", table.TIME, 15, "time"),
    ListColumn("ends", "CLIENT → BROKER", 43),
    ListColumn("client", "CLIENT ID", 18),
    ListColumn("api", "API", 24),
    ListColumn("latency", "LATENCY", 8, "latency"),
    ListColumn("wait", "WAIT", table.WAIT_WIDTH, "wait"),
    ListColumn("size", "SIZE", 8, "size"),
    ListColumn("about", "ABOUT", 0),
)
SIDEWAYS = 22
"""Cells that the list moves sideways at a key press."""
MARK = 1
"""Cells before the first column, for the mark."""
SHOWN_AS = {"slow": "latency"}
"""Orders that go by the column of another one."""
RIGHT = frozenset({"latency", "size"})


def list_columns(width: int) -> tuple[tuple[ListColumn, int], ...]:
    """The columns of a list `width` cells wide, each with its width; the last ones may lie beyond the edge."""
    chosen = NARROW if width < 115 else MEDIUM if width < 160 else BROAD
    fixed = sum(column.width + 1 for column in chosen if column.width)
    if chosen is NARROW:
        fixed -= chosen[-1].width + 1
    about = max(ABOUT_LEAST, width - MARK - fixed)
    return tuple((column, column.width or about) for column in chosen)


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
        return MARK + sum(each + 1 for _, each in list_columns(width)) - 1

    def draw(self, place: int) -> Text:
        index = self.listing[place]
        store = self.listing.store
        line = store.line(index)
        found = store[index]
        text = Text("▪" if index in self.marked else " ", no_wrap=True)
        for column, width in list_columns(self.scrollable_content_region.width):
            cell = self._cell(column.name, line, width, found.request.size + found.response.size)
            cell.truncate(width, overflow="ellipsis")
            if column.name in RIGHT:
                cell.pad_left(width - cell.cell_len)
            else:
                cell.pad_right(width - cell.cell_len)
            text.append_text(cell).append(" ")
        return text

    def _cell(self, name: str, line: dict[str, Any], width: int, size: int) -> Text:
        if name == "time":
            return Text(table.day_and_clock(line["timestamp"], self._zone)[1][:width], style=table.DIM)
        if name == "ends":
            return Text(table.ends_text(line, width))
        if name == "client":
            return Text(escape(line["client"]["id"] or ""))
        if name == "api":
            return table.api_text(line, width)
        if name == "latency":
            cell = table.latency(line["latency_ms"])
            cell.stylize(table.wait_style(line["wait"]))
            return cell
        if name == "wait":
            return table.wait(line["wait"])
        if name == "size":
            return Text(bytes_text(size))
        about = table.about(line, line["action"])
        return Text(" ").join([*about.parts, *about.rest])

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
        text = Text(" ", no_wrap=True)
        for column, width in self._columns():
            title = column.title + _arrow(column, order)
            cell = Text(title)
            cell.truncate(width, overflow="ellipsis")
            cell.pad_left(width - cell.cell_len) if column.name in RIGHT else cell.pad_right(
                width - cell.cell_len
            )
            text.append_text(cell).append(" ")
        x = self._exchanges.scroll_offset.x
        strip = Strip(text.render(self.app.console)).crop(x, x + self.size.width)
        return strip.extend_cell_length(self.size.width).apply_style(self.rich_style)

    def _columns(self) -> tuple[tuple[ListColumn, int], ...]:
        return list_columns(self._exchanges.scrollable_content_region.width or self.size.width)

    def on_click(self, event: events.Click) -> None:
        at = MARK - self._exchanges.scroll_offset.x
        for column, width in self._columns():
            if at <= event.x <= at + width and column.order:
                self.post_message(self.Clicked(column.order))
            at += width + 1


def _arrow(column: ListColumn, order: RowOrder) -> str:
    if column.order != SHOWN_AS.get(order.key, order.key):
        return ""
    return "▼" if order.down else "▲"
