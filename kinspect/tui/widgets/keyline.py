"""The keys that have an effect where the focus is, in one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import NamedTuple

from textual import events
from textual.content import Content
from textual.widgets import Static


class Short(NamedTuple):
    """The name of an action in the line; `key`: shown in place of its own, for several."""

    name: str
    key: str = ""


class KeyLine(Static):
    """Keys with their effects, as many as there is room for; a click presses one. `names`: gives the actions to show,
    in their order, each with its name.

    Textual's footer would make a widget of each key, and new ones whenever the focus moves.
    """

    ALLOW_SELECT = False

    def __init__(self, names: Callable[[], Mapping[str, Short]]) -> None:
        super().__init__()
        self._names = names
        self._keys: list[tuple[str, int]] = []  # and the width of each

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self._put_up())

    def on_resize(self) -> None:
        self._put_up()

    def _put_up(self) -> None:
        bindings = (found.binding for found in self.screen.active_bindings.values())
        # Input fields have actions of the same names, which are not shown.
        active = {binding.action: binding for binding in bindings if binding.show}
        shown = [(active[action], short) for action, short in self._names().items() if action in active]
        texts = [
            (short.key or self.app.get_key_display(binding), f" {short.name} ") for binding, short in shown
        ]
        ends = accumulate(len(key + does) for key, does in texts)
        # The last one needs no space behind it.
        texts = [text for text, end in zip(texts, ends, strict=True) if end - 1 <= self.size.width]
        self._keys = [
            (binding.key, len(key + does)) for (binding, _), (key, does) in zip(shown, texts, strict=False)
        ]
        parts = [((key, "bold $footer-key-foreground"), does) for key, does in texts]
        self.update(Content.assemble(*(part for pair in parts for part in pair)), layout=False)

    def on_click(self, event: events.Click) -> None:
        at = 0
        for key, width in self._keys:
            if at <= event.x < at + width:
                self.app.simulate_key(key)
            at += width
