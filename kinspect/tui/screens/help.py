"""The help page."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from kinspect.tui.keybindings import FILTERS, OF_LIST, RECIPES, SECTIONS


class Help(ModalScreen[None]):
    """The page of keys. `first`: heading of the section that stands before the others."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "dismiss", "Back")]
    CSS_PATH = "help.tcss"

    def __init__(self, first: str = OF_LIST, notes: str = "") -> None:
        super().__init__()
        self._text = help_text(first, notes)

    def compose(self) -> ComposeResult:
        with HelpPage() as page:
            page.border_title = "Help"
            yield Static(self._text)

    def on_mount(self) -> None:
        self.query_one(HelpPage).focus()


class HelpPage(VerticalScroll):
    """A text whose edge shows if it goes on above or below."""

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._mark_edge()

    def on_resize(self) -> None:
        self.call_after_refresh(self._mark_edge)

    def _mark_edge(self) -> None:
        above = "▲ more   " * (self.scroll_y > 0)
        below = "▼ more (↓ PgDn)   " * (self.scroll_y < self.max_scroll_y)
        self.border_subtitle = f"{above}{below}Esc: back"


def help_text(first: str, notes: str = "") -> Text:
    """The page's text: in the list recipes first, then all keys."""
    lines: list[Text] = []
    for question, answer in RECIPES if first == OF_LIST else ():
        lines += [Text(question, style="bold"), Text(f"  {answer}")]
    for heading in sorted(SECTIONS, key=lambda each: each != first):
        lines += [Text(), Text(heading, style="bold")]
        lines += [Text.assemble("  ", (f"{key.key:<23}", "cyan"), key.does) for key in SECTIONS[heading]]
    lines += [Text(), Text("Filter", style="bold"), *(Text(f"  {line}") for line in FILTERS)]
    if notes:
        lines += [Text(), Text("Bytes drawn ··", style="bold"), Text(f"  {notes}")]
    return Text("\n").join(lines[not lines[0].plain :])
