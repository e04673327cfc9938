"""A prompt for a file's name, and a text to read and copy."""

from __future__ import annotations

import os
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from kinspect.output.escape import escape


class FileName(ModalScreen[str | None]):
    """Asks for the name of a file to write; gives the name, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back")]
    CSS_PATH = "prompts.tcss"

    def __init__(self, question: str, suggestion: str) -> None:
        super().__init__()
        self._question, self._suggestion = question, suggestion

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Enter: write   Esc: back"
            yield Static(Text(self._question))
            yield Input(self._suggestion)
            yield Static(id="refused")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Submitted)
    def _given(self, event: Input.Submitted) -> None:
        """Stay open at an impossible name: keys typed next are not for the screen behind."""
        path = event.value.strip()
        refused = _refusal(path)
        if refused is None:
            self.dismiss(path)
        else:
            self.query_one("#refused", Static).update(Text(refused, "red"))


def _refusal(path: str) -> str | None:
    """Reason for which no file of this name can be made, as far as can be seen; None if it can."""
    whole = os.path.expanduser(path)
    folder = os.path.dirname(whole) or "."
    if not path:
        return "give a name"
    if os.path.lexists(whole):
        return f"{escape(path)}: exists; give another name"
    if not os.path.isdir(folder):
        return f"{escape(folder)}: no such folder"
    return None if os.access(folder, os.W_OK) else f"{escape(folder)}: no right to write there"


class TextScreen(ModalScreen[None]):
    """Shows a text; `c` copies it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Back"),
        Binding("c", "copy", "Copy"),
    ]
    CSS_PATH = "prompts.tcss"

    def __init__(self, title: str, text: str, copied: str) -> None:
        super().__init__()
        self._title, self._text, self._copied = title, text, copied

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = self._title
            box.border_subtitle = "c: copy   Esc: back"
            yield Static(Text("\n").join(Text(escape(line)) for line in self._text.split("\n")))

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def action_copy(self) -> None:
        """Copy the text to the terminal's clipboard."""
        self.app.copy_to_clipboard(self._copied)
        self.notify("copied to the terminal's clipboard, if it has OSC 52", markup=False)
