"""The list of exchanges, with the fields and the bytes of one below it or in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from kinspect.answers import definition_of
from kinspect.background import spoken
from kinspect.errors import KinspectError
from kinspect.kafka.view.view import View
from kinspect.output import Style
from kinspect.output.escape import escape
from kinspect.tui.control.exporter import ExchangeExporter
from kinspect.tui.control.loader import AT_ONCE, READING, REST_SECONDS, Loader
from kinspect.tui.control.pages import COUNTING, Pages
from kinspect.tui.control.search import FieldSearch
from kinspect.tui.control.updates import Updates
from kinspect.tui.index.answerprocess import AnswerProcess
from kinspect.tui.index.emptystate import empty_state
from kinspect.tui.index.export import tshark_commands
from kinspect.tui.index.filterline import narrowed
from kinspect.tui.index.hidden import hint
from kinspect.tui.index.recordpage import RECORDS
from kinspect.tui.index.rowfilter import page_of, row_filter
from kinspect.tui.index.selection import Selection
from kinspect.tui.index.shownpayloads import ShownPayloads
from kinspect.tui.index.store import Store
from kinspect.tui.keybindings import OF_DETAILS, OF_LIST, OF_PAGES, PAGE_KEYS, SECTIONS
from kinspect.tui.screens.help import Help
from kinspect.tui.screens.prompts import FileName, TextScreen
from kinspect.tui.widgets.answerpage import AnswerPage, AnswerRows
from kinspect.tui.widgets.details import Details
from kinspect.tui.widgets.exchanges import Exchanges, Titles
from kinspect.tui.widgets.filterbar import FilterBar
from kinspect.tui.widgets.findbar import FindBar
from kinspect.tui.widgets.keyline import KeyLabel, KeyLine
from kinspect.tui.widgets.linelist import Lines
from kinspect.tui.widgets.status import InputErrors, StatusLine
from kinspect.wording import counted

TALL = 30
"""Lines of a terminal from which on the list and the fields are shown together."""
NARROW = 115
"""Columns of a terminal below which there are fewer bytes in a line."""
SLIM = 65
"""Columns below which the bytes stand below the fields."""
WRONG_SECONDS = 12.0
"""Time that an error message is shown."""

ON_LIST = {
    "open": KeyLabel("Fields and bytes"),
    "help": KeyLabel("All keys"),
    "app.quit": KeyLabel("Quit"),
    "filter": KeyLabel("Filter"),
    "page('summary')": KeyLabel("Answers", "1–9"),
    "order('latency')": KeyLabel("Slowest"),
    "errors": KeyLabel("Errors"),
    "follow": KeyLabel("Follow"),
    "group": KeyLabel("Group"),
    "quiet": KeyLabel("Unexpected"),
    "find": KeyLabel("Find"),
    "order('size')": KeyLabel("Largest"),
    "order('time')": KeyLabel("Time"),
    "records": KeyLabel("Records"),
    "copy": KeyLabel("Copy"),
}
"""Actions in the last lines of the screen, with their names there."""
ON_DETAILS = {
    "back": KeyLabel("List"),
    "help": ON_LIST["help"],
    "app.quit": ON_LIST["app.quit"],
    "pane(1)": KeyLabel("Next pane", "Tab"),
    "swap": KeyLabel("Req/Resp"),
    "records": ON_LIST["records"],
    "beside(-1)": KeyLabel("Before"),
    "beside(1)": KeyLabel("Next"),
    "find": ON_LIST["find"],
    "zoom": KeyLabel("Zoom"),
    "copy": ON_LIST["copy"],
    "write": KeyLabel("Write"),
    "packets": KeyLabel("Packets"),
    "tshark": KeyLabel("tshark"),
    **ON_LIST,
}
ON_INPUT = {
    "submit": KeyLabel("Apply", "Enter"),
    "complete": KeyLabel("Complete", "Tab"),
    "back": KeyLabel("Discard"),
}
ON_PAGE = {
    "help": ON_LIST["help"],
    **{f"page('{name}')": KeyLabel(name.capitalize()) for name in PAGE_KEYS},
    "records": ON_LIST["records"],
    "list": KeyLabel("List"),
    "open": KeyLabel("Open"),
    **{action: ON_LIST[action] for action in ("app.quit", "filter", "errors", "group", "quiet")},
}
ON_RECORDS = {
    "open": ON_LIST["open"],
    "list": ON_PAGE["list"],
    **{
        action: ON_LIST[action]
        for action in ("help", "app.quit", "filter", "page('summary')", "errors", "group", "quiet")
    },
}
NOT_ON_PAGE = frozenset(
    {"order", "follow", "copy", "write", "packets", "tshark", "swap", "beside", "zoom", "find", "match"}
)
"""Actions for exchanges."""
KEY_NAMES = {"/": "slash", "?": "question_mark", "Ctrl-F": "ctrl+f"}


def _bindings() -> list[BindingType]:
    keys = [key for section in SECTIONS.values() for key in section if key.action]
    return [
        Binding(KEY_NAMES.get(key.key, key.key), key.action, key.does, key_display=key.key) for key in keys
    ]


class VisitedPage(NamedTuple):
    """A page that led to the list: its row, the filter at that time, and the exchange that it was of."""

    name: str
    row: int
    text: str
    only: int | None


class Main(Screen[None]):
    """The explorer's main screen. `store`: the exchanges, which may still grow; `answers`: counts answers over
    them; `view` and `payloads`: how one is shown; `text`: the filter at first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *_bindings(),
        Binding("tab", "pane(1)", "Next pane"),
        Binding("shift+tab", "pane(-1)", "Pane before", show=False),
        Binding("left_square_bracket", "beside(-1)", "Exchange before"),
        Binding("right_square_bracket", "beside(1)", "Next exchange"),
        Binding("full_stop", "match(1)", "Next match", show=False),
        Binding("comma", "match(-1)", "Match before", show=False),
        Binding("escape", "back", "Back", key_display="Esc"),
    ]
    CSS_PATH = "main.tcss"

    class Failed(Message):
        """An unexpected error; the explorer goes on."""

        def __init__(self, error: BaseException) -> None:
            super().__init__()
            self.error = error

    def __init__(
        self,
        store: Store,
        answers: AnswerProcess,
        view: View,
        payloads: ShownPayloads,
        *,
        utc: bool,
        text: str = "",
    ) -> None:
        super().__init__()
        self._store = store
        self._view = view
        self.selection = Selection(store, text)
        self.filter_bar = FilterBar(store, text)
        self.exchanges = Exchanges(self.selection.listing, utc=utc)
        self.details = Details(view)
        self.page = AnswerPage()
        style = Style(utc=utc)
        self.pages = Pages(self.page.rows, self.selection, answers, view, payloads, style, self.show_state)
        self._left: list[VisitedPage] = []
        self._titles = Titles(self.exchanges)
        self._errors = InputErrors()
        self._status = StatusLine(self.selection, self.exchanges, self.pages.status)
        self._updates = Updates(self.exchanges, self._list_shown)
        self._loader = Loader(self.exchanges, self.details, view, payloads)
        self._search = FieldSearch(self.details, self.say)
        self._exporter = ExchangeExporter(self, store, view, style, self.say)

    def compose(self) -> ComposeResult:
        yield self.filter_bar
        yield self._titles
        yield self.exchanges
        yield self.details
        yield self.page
        yield self._errors
        yield self._status
        yield KeyLine(self._keys_shown)

    def on_mount(self) -> None:
        self.exchanges.focus()
        if self.selection.text:
            self.choose(self.selection.text)
        self.show_state()

    def on_resize(self) -> None:
        self.set_class(self.size.height >= TALL, "tall")
        self.set_class(self.size.width < NARROW, "narrow")
        self.set_class(self.size.width < SLIM, "slim")
        if self.has_class("tall"):
            self._load()

    def _keys_shown(self) -> Mapping[str, KeyLabel]:
        if isinstance(self.focused, Input):
            return ON_INPUT
        if self.pages.shown is not None:
            return ON_RECORDS if self.pages.shown == RECORDS else ON_PAGE
        return ON_DETAILS if self.details.has_focus_within else ON_LIST

    @property
    def details_shown(self) -> bool:
        return self.pages.shown is None and (self.has_class("tall") or self.has_class("details"))

    @property
    def is_at_rest(self) -> bool:
        """True if the screen shows the result of every request so far."""
        loads = self.details_shown and self._loader.is_behind
        return not loads and all(worker.is_finished for worker in self.app.workers)

    # ------------------------------------------------------------------ the list

    def grown(self) -> None:
        """Update the screen: the store has more rows, or is done."""
        self.show_state()
        self._updates.grown()

    def _list_shown(self) -> None:
        """Update everything that depends on the list."""
        if self._loader.is_behind:
            self._load()
        self._titles.refresh()
        self.pages.look()
        self.show_state()

    @on(Exchanges.Marked)
    def show_state(self) -> None:
        """Update the line of numbers, the errors, and the notice in an empty list."""
        self._status.show_state()
        self._errors.show_state(self._store.errors)
        if not self.exchanges.count:
            self.exchanges.notice = empty_state(self._store)
            self.exchanges.refresh()

    def choose(self, text: str) -> None:
        """List the exchanges that the filter passes, or their records if it chooses these. An error in the filter is
        shown below it."""
        try:
            self.selection.choose(text)
        except KinspectError as error:
            self.filter_bar.complain(str(error))
            return
        if self.selection.records and self.pages.shown != RECORDS:
            self._show_page(RECORDS)
        self.filter_bar.accept(text)
        self._updates.start()
        self._focus()

    def _focus(self) -> None:
        """Focus the list, or the page in its place."""
        (self.exchanges if self.pages.shown is None else self.page.rows).focus()

    @on(FilterBar.Entered)
    def _filter_entered(self, event: FilterBar.Entered) -> None:
        self._left.clear()
        self.choose(event.text)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Discard a filter that was not entered when the focus moves away from it."""
        if event.widget is not self.filter_bar.input:
            self.filter_bar.discard()

    @on(Exchanges.Sideways)
    def _sideways(self) -> None:
        self._titles.refresh()

    @on(Titles.Clicked)
    def _title_clicked(self, event: Titles.Clicked) -> None:
        self.action_order(event.order)

    def action_order(self, key: str) -> None:
        """Order by `key`; a second time in reverse."""
        self.selection.order_by(key)
        self._updates.reorder()

    def action_filter(self) -> None:
        self.filter_bar.input.focus()

    def action_errors(self) -> None:
        """List only errors and problems, or all exchanges again."""
        self.selection.errors_only = not self.selection.errors_only
        self.choose(self.selection.text)

    def action_follow(self) -> None:
        """List only one connection, or all of them again."""
        self.selection.follow(self.exchanges.row)
        self.choose(self.selection.text)

    # ------------------------------------------------------------------ pages

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """False for actions on exchanges while a page is shown."""
        return self.pages.shown is None or action not in NOT_ON_PAGE

    def action_page(self, name: str, row: int = 0) -> None:
        """Show an answer over the listed exchanges, in place of the list."""
        self._left.clear()
        self._leave_records()
        self._show_page(name, row)

    def action_records(self) -> None:
        """Show the records of the listed exchanges; from the fields those of the exchange, from a page of its row."""
        name, row, place = self.pages.shown, self.page.rows.row, self.page.rows.place
        if name == RECORDS:
            self._show_page(RECORDS, only=self.pages.only)
            return
        self._left.clear()
        only = self.exchanges.row if self.details.has_focus_within else None
        if name is not None and row is not None and place is not None:
            words = row_filter(name, row, self.selection.store.nameless)
            if words:
                self._left.append(self._visited(name, place))
                self.choose(narrowed(self.selection.text, words))
        self._show_page(RECORDS, only=only)

    def _show_page(self, name: str, row: int = 0, only: int | None = None) -> None:
        self.remove_class("details")
        self.add_class("page")
        self.pages.open(name, row, only)
        self._page_turned()

    def _leave_records(self) -> None:
        """The filters of records go with their page."""
        if self.selection.records:
            self.selection.leave_records()
            self.filter_bar.accept(self.selection.text)

    def _visited(self, name: str, row: int) -> VisitedPage:
        return VisitedPage(name, row, self.selection.text, self.pages.only)

    def action_list(self) -> None:
        """Show the list."""
        self._leave_records()
        self.pages.close()
        self.remove_class("page")
        self._page_turned()
        self._list_shown()

    def _page_turned(self) -> None:
        self._focus()
        self.refresh_bindings()
        self.show_state()

    @on(Lines.Moved, "AnswerRows")
    @on(AnswerRows.LaidOut)
    def _row_moved(self) -> None:
        self.show_state()

    @on(Lines.Chosen, "AnswerRows")
    def _row_chosen(self) -> None:
        """List the exchanges of a row or its connections' packets, or show the answer that a finding leads to."""
        name, row, place = self.pages.shown, self.page.rows.row, self.page.rows.place
        if name is None or row is None or place is None:
            return
        if name == RECORDS:
            self._open_record(row, place)
            return
        following = page_of(name, row)
        places = definition_of(name).connections(row)
        if following is not None:
            self.action_page(following)
        elif places:
            self._exporter.list_packets(row, places, partial(self._row_read, name, row, place))
        else:
            self._row_read(name, row, place, None)

    def _row_read(self, name: str, row: dict[str, Any], place: int, packets: str | None) -> None:
        """Show the packets of a row's connections, or without any list its exchanges, if it is still there."""
        if self.app.screen is not self or self.pages.shown != name or self.page.rows.row is not row:
            return
        words = row_filter(name, row, self.selection.store.nameless)
        if packets is not None:
            self.app.push_screen(TextScreen("Packets", packets, packets))
        elif words:
            self._left = [self._visited(name, place)]
            self.action_list()
            self.choose(narrowed(self.selection.text, words))
        else:
            self.say("no filter finds the exchanges of this row", wrong=True)

    def _open_record(self, row: dict[str, Any], place: int) -> None:
        """Show a record among the fields of its exchange."""
        listed = self.selection.listing.place(row["exchange"])
        if listed is None:
            self.say("its exchange is not listed any more", wrong=True)
            return
        self._left.append(self._visited(RECORDS, place))
        self.action_list()
        self.exchanges.move_to(listed)
        self._opened()
        self._loader.seek(row["record"])

    def action_group(self) -> None:
        """List only one group's exchanges, or all of them again."""
        if self.selection.group is None and self._group is None:
            self.say("nothing here names a group")
            return
        self.selection.group = self._group if self.selection.group is None else None
        if self.pages.shown is not None:
            self.action_list()
        self.choose(self.selection.text)

    @property
    def _group(self) -> str | None:
        """The first group that the exchange or the row with the cursor names."""
        if self.pages.shown is not None:
            row = self.page.rows.row or {}
            groups = [row["group"]] if "group" in row else row.get("groups", ())
        else:
            index = self.exchanges.row
            groups = () if index is None else self._store.groups(self._store[index].subject)
        return next(iter(groups), None)

    def action_quiet(self) -> None:
        """Hide what is expected, or show it again."""
        self.selection.quiet = not self.selection.quiet
        self.choose(self.selection.text)

    # ------------------------------------------------------------------ fields and bytes

    @on(Lines.Moved, "Exchanges")
    def _list_moved(self) -> None:
        self._load()
        self.show_state()

    @on(Lines.Chosen, "Exchanges")
    def _opened(self) -> None:
        if not self.has_class("tall"):
            self.add_class("details")
        self._load(AT_ONCE)
        self.details.fields.focus()

    def _load(self, seconds: float = REST_SECONDS) -> None:
        """Read the exchange with the cursor, if there is room to show it."""
        if self.details_shown:
            self._loader.start(seconds)

    def action_swap(self) -> None:
        """Move from the request to the response, or back."""
        if self.details_shown:
            self.details.swap()

    def action_find(self) -> None:
        """Take a text to look for in the fields."""
        if not self.details_shown:
            self._opened()
        self.details.find_bar.open()

    @on(FindBar.Entered)
    def _find_entered(self, event: FindBar.Entered) -> None:
        self.details.find_bar.close()
        self.details.fields.focus()
        self._search.start(event.text)

    def action_match(self, step: int) -> None:
        """Go to the next match of the text, or to the one before."""
        self._search.go(step)

    def action_pane(self, by: int) -> None:
        """Focus the next of list, fields and bytes; a page is alone."""
        if self.pages.shown is not None:
            return
        panes: list[Lines] = [self.exchanges, self.details.fields, self.details.hex]
        there = [pane for pane in panes if pane.display and (pane is self.exchanges or self.details_shown)]
        now = next((place for place, pane in enumerate(there) if pane.has_focus), -1)
        there[(now + by) % len(there)].focus()

    def action_beside(self, by: int) -> None:
        """Move to the previous or next exchange in the list."""
        self.exchanges.move_to(self.exchanges.cursor + by)

    def action_zoom(self) -> None:
        """Show fields and bytes on the whole screen, or below the list."""
        if self.has_class("details"):
            self.action_back()
        else:
            self._opened()
            self.add_class("details")

    def action_back(self) -> None:
        """Return to the list; from there, close the errors of inputs, or return to the page that led there."""
        if self.details.find_bar.has_focus:
            self.details.find_bar.close()
            self.details.fields.focus()
            return
        there = self.exchanges.has_focus and not self.has_class("details")
        of_record = self.details.has_focus_within and self._left[-1:] and self._left[-1].name == RECORDS
        self.remove_class("details")
        if self.page.rows.has_focus:
            only = self.pages.only
            self.action_list()
            if only is not None:
                self._opened()
        elif of_record or (there and self._left and not self._errors.display):
            name, row, text, only = self._left.pop()
            if text != self.selection.text:
                self.choose(text)
            self._show_page(name, row, only)
        else:
            if there:
                self._errors.dismiss()
            self._focus()

    # ------------------------------------------------------------------ exports

    def action_copy(self) -> None:
        """Copy the exchanges' JSON lines to the terminal's clipboard."""
        self._exporter.copy(self.exchanges.taken)

    def action_write(self) -> None:
        """Write the exchanges' JSON lines to a file, after a prompt."""
        self._ask("Write {} as JSON lines to", "exchanges.jsonl", self._exporter.write)

    def action_packets(self) -> None:
        """Save the exchanges' packets to a file, after a prompt."""
        if self._exporter.can_save(self.exchanges.taken):
            self._ask("Save the packets of {} as pcapng to", "exchanges.pcapng", self._exporter.save)

    def _ask(self, question: str, suggestion: str, then: Callable[[list[int], str], None]) -> None:
        """Ask for a file's name, and call `then` with the exchanges and the name."""
        rows = self.exchanges.taken
        if rows:
            prompt = FileName(question.format(counted(len(rows), "exchange")), suggestion)
            self.app.push_screen(prompt, lambda path: then(rows, path) if path else None)

    def action_tshark(self) -> None:
        """Show the display filter that finds the exchange."""
        row = self.exchanges.row
        if row is not None:
            commands = tshark_commands(self._store, self._store[row])
            self.app.push_screen(TextScreen("tshark and Wireshark", commands.text, commands.copied))

    # ------------------------------------------------------------------ the rest

    def say(self, text: str, *, wrong: bool = False) -> None:
        """Show a message in the corner, for a few seconds."""
        severity: SeverityLevel = "error" if wrong else "information"
        self.notify(escape(text), severity=severity, timeout=WRONG_SECONDS if wrong else None, markup=False)

    @on(Worker.StateChanged)
    def _worker_changed(self, event: Worker.StateChanged) -> None:
        """Report an unexpected error of a worker that the explorer can do without."""
        worker, error = event.worker, event.worker.error
        if event.state is not WorkerState.ERROR or error is None or worker.exit_on_error:
            return
        told = spoken(error)
        if worker.group == READING:
            self.details.show(None, told)
        elif worker.group == COUNTING:
            self.pages.failed(told)
        self.say(told, wrong=True)
        self.post_message(self.Failed(error))

    def action_help(self) -> None:
        first = OF_PAGES if self.pages.shown else OF_DETAILS if self.details.has_focus_within else OF_LIST
        self.app.push_screen(Help(first, hint(self._view)))
