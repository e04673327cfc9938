"""The keys that have an effect where the focus is, in one line."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static


class KeyLine(Static):
    """Each key with its effect; a click presses it. Textual's footer would make a widget of each key, and new ones
    whenever the focus moves."""

    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[tuple[str, int]] = []  # and the width of each

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._put_up)

    def _put_up(self, screen: Screen[object]) -> None:
        shown = [binding for _, binding, *_ in screen.active_bindings.values() if binding.show]
        keys = [(binding.key, self.app.get_key_display(binding), binding.description) for binding in shown]
        self._keys = [(key, len(f"{display} {does} ")) for key, display, does in keys]
        parts = [((display, "bold $footer-key-foreground"), f" {does} ") for _, display, does in keys]
        self.update(Content.assemble(*(part for pair in parts for part in pair)), layout=False)

    def on_click(self, event: events.Click) -> None:
        at = 0
        for key, width in self._keys:
            if at <= event.x < at + width:
                self.app.simulate_key(key)
            at += width
