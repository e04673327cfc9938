"""The input for filters, with completions below it."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input, Static

from kinspect.output.escape import escape
from kinspect.tui.index.complete import completions
from kinspect.tui.index.store import Store

PLACEHOLDER = "no filter; / sets one, as  api=Fetch  topic=orders-*  errors-only"


class FilterInput(Input):
    """A line of text in which Tab completes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "Complete", priority=True),
        Binding("enter", "submit", "Apply"),
    ]

    class Completing(Message):
        """Tab was pressed."""

    def action_complete(self) -> None:
        self.post_message(self.Completing())


class FilterBar(Vertical):
    """The applied filter or, while another one is written, that one with a line of hints: names that fit, or its
    error."""

    class Entered(Message):
        """A filter was entered."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, store: Store, text: str) -> None:
        super().__init__()
        self._store = store
        self._applied = text
        self._is_written = False
        self._offered: list[str] = []
        self._chosen = -1
        self._completing = False

    def compose(self) -> ComposeResult:
        yield FilterInput(self._applied, placeholder=PLACEHOLDER, select_on_focus=False)
        yield Static()

    @property
    def input(self) -> FilterInput:
        return self.query_one(FilterInput)

    def accept(self, text: str) -> None:
        """Show that this filter is applied from now on."""
        self._applied = self.input.value = text
        self._is_written = False
        self.complain("")

    def discard(self) -> None:
        """Show the filter that is applied in place of one that was written and not applied."""
        if self._is_written:
            self._is_written = False
            self.complain("")
            self.remove_class("open")
            self.input.value = self._applied

    def complain(self, error: str) -> None:
        """Show an error in the filter; empty: there is none."""
        self.set_class(bool(error), "wrong")
        self._hint()
        if error:
            self.query_one(Static).update(Text(escape(error)))
            self.add_class("open")

    def on_descendant_focus(self) -> None:
        self._is_written = True
        self.add_class("open")
        self._offer()

    def on_descendant_blur(self) -> None:
        self.set_class(self.has_class("wrong"), "open")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if not self._completing:
            self._offer()
        self._completing = False
        self.remove_class("wrong")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Entered(event.value))

    @on(FilterInput.Completing)
    def _complete(self) -> None:
        if not self._offered:
            return
        self._chosen = (self._chosen + 1) % len(self._offered)
        self._completing = self.input.value != self._offered[self._chosen]
        self.input.value = self._offered[self._chosen]
        self.input.cursor_position = len(self.input.value)
        self._hint()
        if len(self._offered) == 1:
            self._offer()

    def _offer(self) -> None:
        """Look for completions."""
        self._offered, self._chosen = completions(self.input.value, self._store), -1
        self._hint()

    def _hint(self) -> None:
        """Show the completions, with the one that Tab chose highlighted."""
        text = Text("Tab: ")
        for number, offered in enumerate(self._offered[max(self._chosen, 0) :], max(self._chosen, 0)):
            word = offered[offered.rfind(" ") + 1 :]
            if not word.endswith("="):
                word = word.rpartition("=")[2].rpartition(",")[2]
            text.append(word, "reverse" if number == self._chosen else "").append("  ")
        self.query_one(Static).update(text if self._offered else Text())
