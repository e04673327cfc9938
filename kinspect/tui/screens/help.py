"""The help page."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from kinspect.tui.keys import FILTERS, RECIPES, SECTIONS


class Help(ModalScreen[None]):
    """What to press for what."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "dismiss", "Back")]
    DEFAULT_CSS = """
    Help { align: center middle; }
    Help > VerticalScroll {
        width: 94; max-width: 100%; height: auto; max-height: 100%; padding: 0 1; border: round $primary;
        background: $surface;
    }
    """

    def __init__(self, notes: str = "") -> None:
        super().__init__()
        self._notes = notes

    def compose(self) -> ComposeResult:
        with VerticalScroll() as page:
            page.border_title = "Help"
            page.border_subtitle = "Esc: back"
            yield Static(help_text(self._notes))

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()


def help_text(notes: str = "") -> Text:
    """The page: what to do first, then all keys."""
    lines: list[Text] = []
    for question, answer in RECIPES:
        lines += [Text(question, style="bold"), Text(f"  {answer}")]
    for heading, keys in SECTIONS.items():
        lines += [Text(), Text(heading, style="bold")]
        lines += [Text.assemble("  ", (f"{key.key:<23}", "cyan"), key.does) for key in keys]
    lines += [Text(), Text("Filter", style="bold"), *(Text(f"  {line}") for line in FILTERS)]
    if notes:
        lines += [Text(), Text("Bytes drawn ··", style="bold"), Text(f"  {notes}")]
    return Text("\n").join(lines)
