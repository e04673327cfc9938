"""The bytes of a message, with those of a field highlighted."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message as Posted

from kinspect.tui.index.exchangefields import ShownMessage
from kinspect.tui.widgets.linelist import Lines

HIDDEN = "··"
_PRINTED = {byte: chr(byte) for byte in range(0x20, 0x7F)}


class HexView(Lines):
    """Offsets, bytes and characters. `cursor` is the line; `at` the byte in it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = Lines.COMPONENT_CLASSES | {"hex--field", "hex--byte"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Back", show=False),
        Binding("right", "step(1)", "On", show=False),
    ]

    class Picked(Posted):
        """A byte was chosen."""

        def __init__(self, direction: str, offset: int) -> None:
            super().__init__()
            self.direction, self.offset = direction, offset

    shows_cursor = False

    def __init__(self) -> None:
        super().__init__()
        self.message: ShownMessage | None = None
        self.at = 0
        self.field = (0, 0)

    @property
    def across(self) -> int:
        """Number of bytes in a line."""
        width = self.scrollable_content_region.width
        return next((count for count in (32, 16, 8) if self._width(count) <= width), 4)

    @property
    def digits(self) -> int:
        """Number of digits of an offset."""
        return max(4, len(f"{len(self.message.raw):x}")) if self.message is not None else 4

    def _width(self, count: int) -> int:
        return self.digits + 2 + 3 * count + (count > 8) + 1 + count

    @property
    def count(self) -> int:
        return -(-len(self.message.raw) // self.across) if self.message is not None else 0

    def show(self, message: ShownMessage | None, start: int = 0, end: int = 0) -> None:
        """Show a message with the bytes `start` to `end` highlighted, and bring them into view."""
        self.message, self.field, self.at = message, (start, end), start
        self.put_up(start // self.across)
        height = self.scrollable_content_region.height
        last = max(end - 1, start) // self.across
        # The whole field if it fits, else its beginning.
        if last >= self.scroll_offset.y + height and last - self.cursor < height:
            self.scroll_to(y=last - height + 1, animate=False, force=True)
        elif last - self.cursor >= height or self.cursor < self.scroll_offset.y:
            self.scroll_to(y=self.cursor, animate=False, force=True)

    def on_resize(self) -> None:
        self.put_up(self.at // self.across)
        self.bring_into_view()

    def draw(self, place: int) -> Text:
        message = self.message
        assert message is not None
        across = self.across
        first = place * across
        text = Text(no_wrap=True).append(f"{first:0{self.digits}x}  ", "dim")
        characters = Text()
        start, end = self.field
        field = self.get_component_rich_style("hex--field")
        byte = self.get_component_rich_style("hex--byte")
        for offset in range(first, first + across):
            if offset >= len(message.raw):
                text.append("   " + " " * (offset - first == 7 and across > 8))
                continue
            hidden = message.is_hidden(offset)
            value = message.raw[offset]
            style: Style | str = "dim" if hidden else ""
            if start <= offset < end:
                style = field
            if offset == self.at and self.has_focus:
                style = byte
            gap = style if start <= offset + 1 < end and style == field else ""
            text.append(HIDDEN if hidden else f"{value:02x}", style)
            text.append(
                " " * (1 + (offset - first == 7 and across > 8)), gap if offset + 1 < first + across else ""
            )
            characters.append("·" if hidden else _PRINTED.get(value, "."), style)
        return text.append(" ").append_text(characters)

    def action_step(self, by: int) -> None:
        """Move the cursor by this number of bytes."""
        self.pick(self.at + by)

    def action_move(self, by: int) -> None:
        self.pick(self.at + by * self.across)

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.scrollable_content_region.height - 1))

    def action_go(self, place: int) -> None:
        self.pick(0 if place == 0 or self.message is None else len(self.message.raw) - 1)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def clicked(self, place: int, column: int) -> None:
        column -= self.digits + 2
        across = self.across
        extra = int(across > 8)
        if column >= 3 * across + extra + 1:
            at = column - (3 * across + extra + 1)
        else:
            at = (column - (1 if extra and column >= 25 else 0)) // 3
        if 0 <= at < across:
            self.pick(place * across + at)

    def pick(self, offset: int) -> None:
        """Put the cursor on a byte and post `Picked`."""
        message = self.message
        if message is None or not message.raw:
            return
        self.at = max(0, min(offset, len(message.raw) - 1))
        self.cursor = self.at // self.across
        self.bring_into_view()
        self.refresh()
        self.post_message(self.Picked(message.direction, self.at))
