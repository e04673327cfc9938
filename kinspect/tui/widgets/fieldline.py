"""The line below fields and bytes."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual.widgets import Static

from kinspect.kafka.view.view import View
from kinspect.output.escape import escape
from kinspect.tui.index.exchangefields import ExchangeFields, ShownMessage, TreeNode
from kinspect.tui.index.hidden import hint
from kinspect.tui.widgets.fieldtree import value
from kinspect.tui.widgets.hexview import HIDDEN


class FieldLine(Static):
    """A field's path, bytes, type and longer value."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self._hint = hint(view)

    def show(self, fields: ExchangeFields, node: TreeNode, offset: int | None = None) -> None:
        """Show a field; `offset`: the byte of it that was picked."""
        text = Text(no_wrap=False, overflow="ellipsis")
        name = node.path or node.key
        text.append(escape(name if name == node.side else f"{node.side} {name}".strip()), "bold")
        message = fields.messages.get(node.side)
        if message is not None:
            for part, style in self._of_bytes(node, message, offset):
                text.append(f"  {part}", style)
        told = value(node, fields)
        if told is not None and node.depth:
            text.append("  ").append_text(told)
        self.update(text)

    def show_unread(self, offset: int) -> None:
        """Show that a byte belongs to no field."""
        self.update(Text(f"byte {offset}: of no field", style="dim"))

    def _of_bytes(
        self, node: TreeNode, message: ShownMessage, offset: int | None
    ) -> Iterator[tuple[str, str]]:
        """Texts on a field's bytes, each with its style."""
        first, last = node.start, node.end
        if node.bare:
            yield "too many fields: this one without its bytes", "italic"
        else:
            yield f"{node.type}  bytes {first}–{last} ({last - first})".lstrip(), "dim"
        if offset is not None:
            yield f"byte {offset}", "dim"
        if any(start < last and first < end for start, end in message.hidden):
            yield f"{HIDDEN}: {self._hint}", "italic"
