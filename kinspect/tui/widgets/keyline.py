"""The keys that have an effect where the focus is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.widgets import Static

LINES_FOR_ONE = 10
"""Lines of the screen for each line of keys."""


class KeyLabel(NamedTuple):
    """The name of an action in the line; `key`: shown in place of its own, for several."""

    name: str
    key: str = ""


class KeyLine(Static):
    """Keys with their effects, on as many lines as they need and the screen can spare; a click presses one. `names`:
    gives the actions to show, in their order, each with its name.

    Textual's footer would make a widget of each key, and new ones whenever the focus moves.
    """

    ALLOW_SELECT = False

    def __init__(self, names: Callable[[], Mapping[str, KeyLabel]]) -> None:
        super().__init__()
        self._names = names
        self._lines: list[list[_Shown]] = []

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self._put_up())

    def on_resize(self) -> None:
        self._put_up()

    def _put_up(self) -> None:
        bindings = (found.binding for found in self.screen.active_bindings.values())
        # Input fields have actions of the same names, which are not shown.
        active = {binding.action: binding for binding in bindings if binding.show}
        keys = [
            _Shown(
                active[action].key, short.key or self.app.get_key_display(active[action]), f" {short.name} "
            )
            for action, short in self._names().items()
            if action in active
        ]
        self._lines = _broken(keys, self.size.width)[: max(1, self.screen.size.height // LINES_FOR_ONE)]
        # A space behind the last key would go on in another line.
        content = [
            Content.assemble(*(part for key in line for part in key.parts)).rstrip() for line in self._lines
        ]
        self.styles.height = max(1, len(content))
        self.update(Content("\n").join(content), layout=False)

    def on_click(self, event: events.Click) -> None:
        at = 0
        for key in self._lines[event.y] if event.y < len(self._lines) else ():
            if at <= event.x < at + key.width:
                self.app.simulate_key(key.key)
            at += key.width


class _Shown(NamedTuple):
    """A key, its text, and its effect between spaces."""

    key: str
    text: str
    does: str

    @property
    def width(self) -> int:
        return len(self.text) + len(self.does)

    @property
    def parts(self) -> tuple[tuple[str, str], str]:
        return (self.text, "bold $footer-key-foreground"), self.does


def _broken(keys: list[_Shown], width: int) -> list[list[_Shown]]:
    """The keys in lines of whole keys; those that are wider than a line are left out."""
    lines: list[list[_Shown]] = [[]]
    left = width
    for key in keys:
        # The last one of a line needs no space behind it.
        if key.width - 1 > width:
            continue
        if key.width - 1 > left:
            lines.append([])
            left = width
        lines[-1].append(key)
        left -= key.width
    return lines
