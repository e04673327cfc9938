"""The input for a text to look for in the fields."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class FindBar(Input):
    """A line of text; not there until it is opened."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Find")]

    class Entered(Message):
        """A text was entered."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self) -> None:
        super().__init__(placeholder="text in names and values of fields; Enter: find   Esc: close")

    def open(self) -> None:
        """Take a text."""
        self.display = True
        self.focus()

    def close(self) -> None:
        """Leave the screen."""
        self.display = False

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Entered(event.value))
