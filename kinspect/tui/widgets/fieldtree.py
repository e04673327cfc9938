"""The fields of an exchange, to be folded and unfolded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from kinspect.output import detail, table
from kinspect.output.escape import escape
from kinspect.output.treewriter import StyledText
from kinspect.tui.index.exchangefields import ERROR, PROBLEM, ExchangeFields, TreeNode
from kinspect.tui.widgets.linelist import Lines

INDENT = 2
MARK = "bold underline yellow"
"""Style of a text that was looked for; the cursor leaves its line and weight."""
VALUE_SHOWN = 500
"""Characters of a value in the tree; the line below the tree has more of it."""
KINDS = {ERROR: table.ERROR, PROBLEM: table.PROBLEM}


class FieldTree(Lines):
    """The tree; empty until `show`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "turn", "Fold", show=False),
        Binding("right", "unfold", "Unfold", show=False),
        Binding("left", "fold", "Fold", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.fields: ExchangeFields | None = None
        self.marked: re.Pattern[str] | None = None
        """Text that is marked."""

    def mark(self, text: str) -> None:
        """Mark a text wherever it stands, in large or small letters; an empty one: nothing."""
        self.marked = re.compile(re.escape(text), re.IGNORECASE) if text else None
        self.refresh()

    def show(self, fields: ExchangeFields | None, notice: str = "") -> None:
        """Show an exchange, or, without one, a notice in its place."""
        self.fields, self.notice = fields, (notice,)
        self.scroll_to(y=0, animate=False, force=True)
        self.put_up(0)

    @property
    def count(self) -> int:
        return len(self.fields.lines) if self.fields is not None else 0

    @property
    def node(self) -> TreeNode | None:
        """The field with the cursor."""
        return self.fields.lines[self.cursor] if self.fields is not None and self.count else None

    def draw(self, place: int) -> Text:
        assert self.fields is not None
        node = self.fields.lines[place]
        text = Text(" " * (INDENT * node.depth), no_wrap=True)
        text.append("▾ " if node.open else "▸ " if node.unfolds else "  ", style="dim")
        text.append(
            escape(node.key), style=KINDS.get(node.kind) or ("bold" if not node.depth else detail.KEY)
        )
        told = value(node, self.fields)
        if told is not None:
            text.append(" ").append_text(told)
        if self.marked is not None:
            for match in self.marked.finditer(text.plain):
                text.stylize(MARK, *match.span())
        return text

    def clicked(self, place: int, column: int) -> None:
        node = self.fields.lines[place] if self.fields is not None else None
        self.move_to(place)
        if node is not None and INDENT * node.depth <= column <= INDENT * node.depth + 1:
            self.action_turn()

    def action_turn(self) -> None:
        """Fold or unfold."""
        if self.fields is not None:
            self.fields.toggle(self.cursor)
            self.put_up()

    def action_unfold(self) -> None:
        """Unfold, or move on to the next line."""
        node = self.node
        if node is not None and node.unfolds and not node.open:
            self.action_turn()
        else:
            self.action_move(1)

    def action_fold(self) -> None:
        """Fold, or go up to the parent."""
        node = self.node
        if node is None or self.fields is None:
            return
        if node.open:
            self.action_turn()
        elif node.parent is not None:
            self.move_to(self.fields.lines.index(node.parent))


def searched(node: TreeNode, fields: ExchangeFields, marked: re.Pattern[str]) -> bool:
    """True if the text is in the node's name, or in its value as far as that is shown."""
    if marked.search(escape(node.key)):
        return True
    # What stands beside an unfolding name is a field's below it.
    told = None if node.unfolds else value(node, fields)
    return told is not None and marked.search(told.plain) is not None


def value(node: TreeNode, fields: ExchangeFields) -> Text | None:
    """Text behind a node's name; None for no text."""
    item: Any = node.value
    if node.kind:
        return Text(escape(str(item)), style=KINDS[node.kind])
    if not node.depth:
        if item is not None:
            return Text(escape(str(item)), style=table.DIM)
        return Text.assemble(
            (f"#{fields.exchange.order} ", "dim"),
            table.api_text(fields.line),
            " ",
            table.latency(fields.line["latency_ms"]),
        )
    if node.unfolds:
        return Text(f"({len(item)})", style="dim") if isinstance(item, list) else _gist(item)
    if item is None and _is_hidden(node):
        told = Text("not shown", style="italic dim")
    elif item == "" and f"{node.key}_size" in _siblings(node):
        told = Text()
    else:
        told = _begin(detail.scalar(item))
    if node.name:
        told.append(f" ({node.name})", style="dim")
    return told


def _begin(pieces: Iterable[StyledText]) -> Text:
    """The beginning of a value, as much as is shown; no more of it is looked at."""
    text = Text()
    for piece, style in pieces:
        left = VALUE_SHOWN - len(text)
        text.append(piece[:left], style=style)
        if len(piece) > left:
            return text.append("…")
    return text


_GIST = ("name", "topic", "topic_name_resolved", "topic_id", "partition_index", "partition", "index", "key")


def _gist(item: Any) -> Text | None:
    """A value that distinguishes a struct of an array from the next; None if there is none."""
    if not isinstance(item, dict):
        return None
    for key in _GIST:
        found = item.get(key)
        if isinstance(found, int) or (isinstance(found, str) and found):
            return Text(escape(str(found)[:VALUE_SHOWN]), style="dim")
    return None


def _siblings(node: TreeNode) -> dict[str, Any]:
    return node.parent.value if node.parent is not None and isinstance(node.parent.value, dict) else {}


def _is_hidden(node: TreeNode) -> bool:
    """True if a null value is hidden: then its size stands beside it."""
    inner = node.payload and node.parent is not None and node.parent.payload
    return not inner and _siblings(node).get(f"{node.key}_size") is not None
