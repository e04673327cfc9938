"""The fields of an exchange beside the bytes of its messages, and a line on the field with the cursor."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from kinspect.kafka.view.view import View
from kinspect.model import RESPONSE
from kinspect.tui.index.exchangefields import ExchangeFields
from kinspect.tui.widgets.fieldline import FieldLine
from kinspect.tui.widgets.fieldtree import FieldTree
from kinspect.tui.widgets.findbar import FindBar
from kinspect.tui.widgets.hexview import HexView
from kinspect.tui.widgets.linelist import Lines


class Details(Vertical):
    """Shows an exchange. A field leads to its bytes, and a byte to its field."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.fields = FieldTree()
        self.hex = HexView()
        self._line = FieldLine(view)
        self.find_bar = FindBar()

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield self.fields
            yield self.hex
        yield self._line
        yield self.find_bar

    def show(self, fields: ExchangeFields | None, notice: str = "") -> None:
        """Show an exchange, or, without one, a notice in its place."""
        self.fields.show(fields, notice)
        self.hex.show(None)
        if fields is not None:
            first = next((place for place, node in enumerate(fields.lines) if node.side), 0)
            self.fields.move_to(first, notify=False)
        self._show_bytes()

    def go_to_record(self, number: int) -> None:
        """Put the cursor on a record, by its number in the exchange."""
        fields = self.fields.fields
        place = None if fields is None else fields.record_line(number)
        if place is not None:
            self.fields.put_up()
            self.fields.move_to(place)
            self.fields.scroll_to(y=place, animate=False, force=True)

    def swap(self) -> None:
        """Move from the request to the response, or back."""
        fields, node = self.fields.fields, self.fields.node
        if fields is None:
            return
        sides = [*fields.messages]
        wanted = sides[-1] if node is None or node.side != RESPONSE else sides[0]
        place = fields.root_line(wanted)
        if place is not None:
            self.fields.move_to(place)
            self.fields.scroll_to(y=place, animate=False, force=True)

    @on(Lines.Moved, "FieldTree")
    def _show_bytes(self) -> None:
        """Highlight the bytes of a field; for a message's own line, show its bytes without a highlight."""
        fields, node = self.fields.fields, self.fields.node
        if fields is None or node is None:
            self._line.update("")
            return
        message = fields.messages.get(node.side)
        if message is not None:
            whole = not node.depth and not node.kind
            self.hex.show(message, node.start, node.start if whole else node.end)
        self._line.show(fields, node)

    @on(HexView.Picked)
    def _byte_picked(self, event: HexView.Picked) -> None:
        fields = self.fields.fields
        place = fields.line_at(event.direction, event.offset) if fields is not None else None
        if fields is None or place is None:
            self.hex.field = (event.offset, event.offset)
            self._line.show_unread(event.offset)
            return
        self.fields.put_up()
        self.fields.move_to(place, notify=False)
        node = fields.lines[place]
        self.hex.field = (node.start, node.end)
        self.hex.refresh()
        self._line.show(fields, node, event.offset)
