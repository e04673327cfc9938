"""The list of exchanges, with the fields and the bytes of one below it or in its place."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Iterable
from typing import Any, ClassVar

from rich.text import Text
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static
from textual.worker import Worker, WorkerState, get_current_worker

from kinspect.errors import KinspectError, TruncatedCaptureError
from kinspect.kafka.view import View
from kinspect.model import RESPONSE
from kinspect.output.escape import escape
from kinspect.output.summary import DROPS
from kinspect.tui.index import export
from kinspect.tui.index.choice import Choice, parse
from kinspect.tui.index.fields import Fields, Node
from kinspect.tui.index.listing import COMPLETION, Listing, Order
from kinspect.tui.index.nothing import nothing_listed
from kinspect.tui.index.reread import StoppedError
from kinspect.tui.index.store import Store
from kinspect.tui.keys import SECTIONS
from kinspect.tui.screens.help import Help
from kinspect.tui.screens.prompts import FileName, Reading
from kinspect.tui.widgets.exchanges import Exchanges, Titles
from kinspect.tui.widgets.fieldtree import FieldTree, value
from kinspect.tui.widgets.filterbar import FilterBar
from kinspect.tui.widgets.hexview import HexView
from kinspect.tui.widgets.keyline import KeyLine
from kinspect.tui.widgets.lines import Lines

TALL = 30
"""Lines of a terminal from which on the list and the fields are shown together."""
LOAD_SECONDS = 0.08
"""Time that the cursor rests before the exchange is read."""
SORT_SECONDS = 1.0
"""Least time between two sorts, while captures are read."""
WRONG_SECONDS = 12.0
"""Time that an error message is shown."""
ERRORS_TOLD = 3
"""Number of inputs whose errors are shown; on exit those of all are printed."""
COPIED_BYTES = 1_000_000
"""Largest size of a copy: terminals have no room for more."""
EARLIEST_FIRST = frozenset({COMPLETION, "time"})
"""Orders that ascend at first."""
READING = "read"
"""Group of the workers that read an exchange for the fields and the bytes."""

SHORT = {
    "help": "Help",
    "app.quit": "Quit",
    "filter": "Filter",
    "order('latency')": "Slowest",
    "errors": "Errors",
    "follow": "Follow",
    "swap": "Req/Resp",
    "order('size')": "Largest",
    "order('time')": "Time",
    "copy": "Copy",
    "packets": "Packets",
}
"""Actions in the last line of the screen, with their names there."""
KEY_NAMES = {"/": "slash", "?": "question_mark"}


def _bindings() -> list[BindingType]:
    keys = [key for section in SECTIONS.values() for key in section if key.action]
    ordered = sorted(keys, key=lambda key: [*SHORT].index(key.action) if key.action in SHORT else 99)
    return [
        Binding(
            KEY_NAMES.get(key.key, key.key),
            key.action,
            SHORT.get(key.action, key.does),
            show=key.action in SHORT,
            key_display=key.key,
        )
        for key in ordered
    ]


class Main(Screen[None]):
    """The explorer's main screen. `store`: the exchanges, which may still grow; `view`: options for showing one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *_bindings(),
        Binding("tab", "pane(1)", "Next pane", show=False),
        Binding("shift+tab", "pane(-1)", "Pane before", show=False),
        Binding("left_square_bracket", "beside(-1)", "Exchange before", show=False),
        Binding("right_square_bracket", "beside(1)", "Next exchange", show=False),
        Binding("escape", "back", "Back", show=False),
    ]
    DEFAULT_CSS = """
    Main { layers: below above; }
    Main #list { height: 2fr; }
    Main #details { height: 3fr; display: none; }
    Main #panes { height: 1fr; }
    Main #fields { width: 1fr; }
    Main #bytes { width: 76; border-left: vkey $panel-lighten-2; }
    Main.narrow #bytes { width: 43; }
    Main #field { height: 2; padding: 0 1; background: $panel; }
    Main #status { height: 1; padding: 0 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis; }
    Main #errors { height: auto; max-height: 6; padding: 0 1; background: $panel; color: $text-error; display: none; }
    Main.tall #details { display: block; }
    Main.details #details { display: block; }
    Main.details #list { display: none; }
    Main.details Titles { display: none; }
    """

    class Failed(Message):
        """An unexpected error; the explorer goes on."""

        def __init__(self, error: BaseException) -> None:
            super().__init__()
            self.error = error

    def __init__(self, store: Store, view: View, *, utc: bool, text: str = "") -> None:
        super().__init__()
        self.store = store
        self.view = view
        self.listing = Listing(store)
        self.errors_only = False
        self._text = text
        self._utc = utc
        self._connection: int | None = None
        self._loaded: int | None = None
        self._updating = False
        self._resting: Timer | None = None
        self._sorted_at = 0.0

    def compose(self) -> ComposeResult:
        yield FilterBar(self.store, self._text)
        exchanges = Exchanges(self.listing, utc=self._utc, id="list")
        yield Titles(exchanges)
        yield exchanges
        with Vertical(id="details"):
            with Horizontal(id="panes"):
                yield FieldTree(id="fields")
                yield HexView(id="bytes")
            yield Static(id="field")
        yield Static(id="errors")
        yield Static(id="status")
        yield KeyLine()

    def on_mount(self) -> None:
        self.exchanges.focus()
        if self._text:
            self.choose(self._text)
        self.tell()

    def on_resize(self) -> None:
        self.set_class(self.size.height >= TALL, "tall")
        self.set_class(self.size.width < 115, "narrow")
        if self.has_class("tall"):
            self._load_soon()

    # ------------------------------------------------------------------ parts

    @property
    def exchanges(self) -> Exchanges:
        return self.query_one("#list", Exchanges)

    @property
    def fields(self) -> FieldTree:
        return self.query_one("#fields", FieldTree)

    @property
    def hex(self) -> HexView:
        return self.query_one("#bytes", HexView)

    @property
    def filter_bar(self) -> FilterBar:
        return self.query_one(FilterBar)

    @property
    def details_shown(self) -> bool:
        return self.has_class("tall") or self.has_class("details")

    @property
    def is_at_rest(self) -> bool:
        """True if everything that was asked for is on the screen."""
        loads = self.details_shown and self.exchanges.row != self._loaded
        return not loads and all(worker.is_finished for worker in self.app.workers)

    # ------------------------------------------------------------------ the list

    def grown(self) -> None:
        """Update the screen: the store has more rows, or is done."""
        self.tell()
        waits = self.listing.order.key != COMPLETION and not self.store.done
        if not waits or time.monotonic() - self._sorted_at > SORT_SECONDS:
            self.bring_up_to_date()

    def bring_up_to_date(self) -> None:
        """Update the list, piece by piece."""
        if not self._updating:
            self._updating = True
            self.run_worker(self._update(), exit_on_error=True)

    async def _update(self) -> None:
        row = self.exchanges.row
        try:
            while True:
                choice, order = self.listing.choice, self.listing.order
                shown = time.monotonic()
                for _ in self.listing.update():
                    await asyncio.sleep(0)
                    if time.monotonic() - shown > 0.2 and order.key == COMPLETION:
                        shown = time.monotonic()
                        self._put_up(row)
                if (choice, order) == (self.listing.choice, self.listing.order) and not self.listing.behind:
                    break
        finally:
            self._updating = False
            self._sorted_at = time.monotonic()
        self._put_up(row)

    def _put_up(self, row: int | None) -> None:
        """Redraw the list, with the cursor on the exchange that had it, if it is still listed."""
        exchanges = self.exchanges
        place = None if row is None or exchanges.row == row else self.listing.place(row)
        before = self._loaded
        exchanges.put_up(place)
        if place is not None:
            exchanges.bring_into_view()
        if exchanges.row != before:
            self._load_soon()
        self.query_one(Titles).refresh()
        self.tell()

    def choose(self, text: str) -> None:
        """List the exchanges that the filter passes. An error in the filter is shown below it."""
        try:
            values = parse(text)
        except KinspectError as error:
            self.filter_bar.complain(str(error))
            return
        self.filter_bar.accept(text)
        if self.errors_only:
            values["errors_only"] = True
        self._text = text
        self.listing.choose(Choice(self.store, values, self._connection))
        self.bring_up_to_date()
        self.exchanges.focus()

    @on(FilterBar.Entered)
    def _filter_entered(self, event: FilterBar.Entered) -> None:
        self.choose(event.text)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Discard a filter that was written and not entered when the focus goes elsewhere."""
        if event.widget is not self.filter_bar.input:
            self.filter_bar.discard()

    @on(Exchanges.Sideways)
    def _sideways(self) -> None:
        self.query_one(Titles).refresh()

    @on(Titles.Clicked)
    def _title_clicked(self, event: Titles.Clicked) -> None:
        self.action_order(event.order)

    def action_order(self, key: str) -> None:
        """Order by `key`, the greatest first but for times; again: the other way round."""
        order = self.listing.order
        self.listing.sort(Order(key, not order.down if order.key == key else key not in EARLIEST_FIRST))
        self.exchanges.cursor = 0
        self.exchanges.scroll_to(y=0, animate=False, force=True)
        self.run_worker(self._reorder())

    async def _reorder(self) -> None:
        while self._updating:
            await asyncio.sleep(0.01)
        self._updating = True
        try:
            for _ in self.listing.update():
                await asyncio.sleep(0)
        finally:
            self._updating = False
        self.exchanges.put_up(0)
        self._put_up(None)
        self._load_soon()

    def action_filter(self) -> None:
        self.filter_bar.input.focus()

    def action_errors(self) -> None:
        """List errors and problems alone, or all again."""
        self.errors_only = not self.errors_only
        self.choose(self._text)

    def action_follow(self) -> None:
        """List one connection alone, or all again."""
        row = self.exchanges.row
        if self._connection is not None:
            self._connection = None
        elif row is not None:
            self._connection = self.store[row].connection or None
        self.choose(self._text)

    # ------------------------------------------------------------------ fields and bytes

    @on(Lines.Moved, "#list")
    def _list_moved(self) -> None:
        self._load_soon()
        self.tell()

    @on(Lines.Chosen, "#list")
    def _opened(self) -> None:
        self.add_class("opened")
        if not self.has_class("tall"):
            self.add_class("details")
        self._load_soon(0)
        self.fields.focus()

    def _load_soon(self, seconds: float = LOAD_SECONDS) -> None:
        """Read the exchange with the cursor, once the cursor rests."""
        if self.details_shown:
            if self._resting is not None:
                self._resting.stop()
            self._resting = self.set_timer(max(seconds, 0.001), self._load_now)

    def _load_now(self) -> None:
        row = self.exchanges.row
        if row is None:
            self._loaded = None
            self.fields.show(None)
            self.hex.show(None)
            self._tell_field(None)
        elif row != self._loaded:
            self._loaded = row
            self._read(row)

    @work(thread=True, exclusive=True, group=READING, exit_on_error=False)
    def _read(self, row: int) -> None:
        """Read an exchange and show it; if it takes long, say so after a moment."""
        worker = get_current_worker()
        slow = self.app.call_from_thread(self.set_timer, 0.4, lambda: self._say_slow(row))
        try:
            exchange = self.store.exchange(row, lambda: worker.is_cancelled)
            fields: Fields | None = Fields(exchange, self.view)
            notice = ""
        except StoppedError:
            return
        except KinspectError as error:
            fields, notice = None, str(error)
        finally:
            self.app.call_from_thread(slow.stop)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show, row, fields, notice)

    def _say_slow(self, row: int) -> None:
        if row == self._loaded:
            self.fields.show(None, "reading its packets again…")
            self.hex.show(None)

    def _show(self, row: int, fields: Fields | None, notice: str) -> None:
        if row != self._loaded:
            return
        self.fields.show(fields, notice)
        self.hex.show(None)
        if fields is not None:
            first = next((place for place, node in enumerate(fields.lines) if node.side), 0)
            self.fields.move_to(first, tell=False)
        self._show_bytes(self.fields.node)

    @on(Lines.Moved, "#fields")
    def _field_moved(self) -> None:
        self._show_bytes(self.fields.node)

    def _show_bytes(self, node: Node | None) -> None:
        """Highlight the bytes of a field; for a message's own line, show its bytes without a highlight."""
        fields = self.fields.fields
        if node is not None and fields is not None:
            message = fields.messages.get(node.side)
            if message is not None:
                whole = not node.depth and not node.kind
                self.hex.show(message, node.start, node.start if whole else node.end)
        self._tell_field(node)

    @on(HexView.Picked)
    def _byte_picked(self, event: HexView.Picked) -> None:
        fields = self.fields.fields
        place = fields.line_at(event.direction, event.offset) if fields is not None else None
        if fields is None or place is None:
            self.hex.field = (event.offset, event.offset)
            self.query_one("#field", Static).update(Text(f"byte {event.offset}: of no field", style="dim"))
            return
        self.fields.put_up()
        self.fields.move_to(place, tell=False)
        node = fields.lines[place]
        self.hex.field = (node.start, node.end)
        self.hex.refresh()
        self._tell_field(node, event.offset)

    def _tell_field(self, node: Node | None, offset: int | None = None) -> None:
        """Show in the line below a field's path, bytes, type and longer value."""
        fields = self.fields.fields
        if node is None or fields is None:
            self.query_one("#field", Static).update("")
            return
        message = fields.messages.get(node.side)
        text = Text(no_wrap=False, overflow="ellipsis")
        name = node.path or node.key
        text.append(escape(name if name == node.side else f"{node.side} {name}".strip()), "bold")
        if message is not None:
            first, last = node.start, node.end
            if node.bare:
                text.append("  too many fields: this one without its bytes", "italic")
            else:
                text.append(
                    f"  {node.type}  bytes {first}–{last} ({last - first})".replace("    ", "  "), "dim"
                )
            if offset is not None:
                text.append(f"  byte {offset}", "dim")
            if message.hidden and any(start < last and first < end for start, end in message.hidden):
                text.append(f"  {self.hidden_note}", "italic")
        told = value(node, fields)
        if told is not None and node.depth:
            text.append("  ").append_text(told)
        self.query_one("#field", Static).update(text)

    @property
    def hidden_note(self) -> str:
        """Hint at the options that show hidden bytes."""
        if self.view.payload == "none":
            return "··: --payload text shows records, --show-secrets secrets"
        return "··: --show-secrets shows it"

    def action_swap(self) -> None:
        """Move from the request to the response, or back."""
        fields = self.fields.fields
        node = self.fields.node
        if fields is None or not self.details_shown:
            return
        sides = [*fields.messages]
        wanted = sides[-1] if node is None or node.side != RESPONSE else sides[0]
        place = fields.root_line(wanted)
        if place is not None:
            self.fields.move_to(place)
            self.fields.scroll_to(y=place, animate=False, force=True)

    def action_pane(self, by: int) -> None:
        """Focus the next of list, fields and bytes."""
        panes: list[Lines] = [self.exchanges, self.fields, self.hex]
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
        """Return to the list."""
        self.remove_class("details")
        self.exchanges.focus()

    # ------------------------------------------------------------------ exports

    @property
    def _taken(self) -> list[int]:
        """The marked exchanges, else the one with the cursor."""
        if self.exchanges.marked:
            return sorted(self.exchanges.marked)
        row = self.exchanges.row
        return [] if row is None else [row]

    def say(self, text: str, *, wrong: bool = False) -> None:
        """Show a message in the corner, for a few seconds."""
        severity: SeverityLevel = "error" if wrong else "information"
        self.notify(escape(text), severity=severity, timeout=WRONG_SECONDS if wrong else None, markup=False)

    @work(thread=True, group="export", exit_on_error=False)
    def action_copy(self) -> None:
        """Copy the exchanges' JSON lines to the terminal's clipboard."""
        rows = self._taken
        taken: list[bytes] = []
        size = 0
        try:
            for line in self._lines(rows):
                taken.append(line)
                size += len(line)
                if size > COPIED_BYTES:
                    break
        except StoppedError:
            return
        except KinspectError as error:
            self.app.call_from_thread(self.say, str(error), wrong=True)
            return
        if size > COPIED_BYTES:
            told = f"more than {COPIED_BYTES:,} bytes are too many to copy: w writes a file"
            self.app.call_from_thread(self.say, told, wrong=True)
        elif taken:
            self.app.call_from_thread(self.app.copy_to_clipboard, b"".join(taken).decode())
            self.app.call_from_thread(
                self.say, f"copied {_exchanges(len(rows))}, if the terminal has OSC 52; w writes a file"
            )

    def _lines(self, rows: Iterable[int]) -> Iterable[bytes]:
        worker = get_current_worker()
        for row in rows:
            yield export.json_line(self.view.exchange(self.store.exchange(row, lambda: worker.is_cancelled)))

    def action_write(self) -> None:
        """Write the exchanges' JSON lines to a file, after a prompt."""
        self._ask(f"Write {_exchanges(len(self._taken))} as JSON lines to", "exchanges.jsonl", self._write)

    def action_packets(self) -> None:
        """Save the exchanges' packets to a file, after a prompt."""
        try:
            export.check_kept(self.store, export.stretches(self.store, self._taken))
        except KinspectError as error:
            self.say(str(error), wrong=True)
            return
        question = f"Save the packets of {_exchanges(len(self._taken))} as pcapng to"
        self._ask(question, "exchanges.pcapng", self._save)

    def _ask(self, question: str, suggestion: str, then: Any) -> None:
        if self._taken:
            self.app.push_screen(FileName(question, suggestion), lambda path: then(path) if path else None)

    @work(thread=True, group="export", exit_on_error=False)
    def _write(self, path: str) -> None:
        rows = self._taken
        try:
            with export.whole_file(path) as file:
                for line in self._lines(rows):
                    file.write(line)
        except StoppedError:
            return
        except (KinspectError, OSError) as error:
            self.app.call_from_thread(self.say, str(error), wrong=True)
            return
        self.app.call_from_thread(self.say, f"wrote {_exchanges(len(rows))} to {path}")

    @work(thread=True, group="export", exit_on_error=False)
    def _save(self, path: str) -> None:
        worker = get_current_worker()
        try:
            with export.whole_file(path) as file:
                saved = export.save(self.store, self._taken, file, lambda: worker.is_cancelled)
        except StoppedError:
            return
        except (KinspectError, OSError, ValueError) as error:
            self.app.call_from_thread(self.say, str(error), wrong=True)
            return
        text = f"saved {saved.packets:,} packets to {path}"
        if saved.timeless:
            text += f"; {saved.timeless} had no time and got that of the packet before"
        if saved.tls:
            text += "; TLS stays encrypted and the secrets are not in it: to read it again, give --keylog"
        self.app.call_from_thread(self.say, text)

    def action_tshark(self) -> None:
        """Show the display filter that finds the exchange."""
        row = self.exchanges.row
        if row is None:
            return
        found = self.store[row]
        filters = export.tshark_filters(self.store, found)
        commands = [f"tshark -r {shlex.quote(name)} -Y '{text}'" for name, text in filters]
        # Of several, a filter says nothing without its capture.
        copied = filters[0][1] if len(filters) == 1 else "\n".join(commands)
        parts = commands
        if len(filters) > 1:
            told = "Its packets lie in several captures; frame numbers are those of each:"
            parts = [told, *commands]
        alone = export.kafka_filter(found)
        if alone is not None:
            parts.append(f"Where Wireshark takes the port for Kafka's, this narrows it down:\n{alone}")
        self.app.push_screen(Reading("tshark and Wireshark", "\n\n".join(parts), copied))

    # ------------------------------------------------------------------ the rest

    @on(Worker.StateChanged)
    def _worker_changed(self, event: Worker.StateChanged) -> None:
        """Report an unexpected error of a worker that the explorer can do without."""
        worker, error = event.worker, event.worker.error
        if event.state is not WorkerState.ERROR or error is None or worker.exit_on_error:
            return
        told = f"internal error: {error!r}"
        if worker.group == READING:
            self.fields.show(None, told)
            self.hex.show(None)
        self.say(told, wrong=True)
        self.post_message(self.Failed(error))

    def action_help(self) -> None:
        self.app.push_screen(Help(self.hidden_note.removeprefix("··: ")))

    def action_stop(self) -> None:
        """Stop reading."""
        self.app.action_stop()  # type: ignore[attr-defined]

    @on(Exchanges.Marked)
    def tell(self) -> None:
        """Update the line of numbers."""
        store, listing = self.store, self.listing
        text = Text()
        text.append(f"{self.exchanges.cursor + 1 if len(listing) else 0:,}/{len(listing):,}", "bold")
        if len(listing) != store.count:
            text.append(f" of {store.count:,}")
        text.append(" exchanges")
        if len(store.inputs.names) > 1:
            text.append(f" in {len(store.inputs.names):,} captures")
        if not store.done:
            text.append(f"  {_progress(store)}", "bold yellow")
        for part in self._remarks():
            text.append(f"  {part}")
        text.append(f"  {escape(self._where())}", "dim")
        self.query_one("#status", Static).update(text)
        self._tell_errors()
        if not len(listing):
            self.exchanges.notice = nothing_listed(store)
            self.exchanges.refresh()

    def _tell_errors(self) -> None:
        """Show the errors of inputs above the numbers, in as many lines as they need."""
        errors = self.store.errors
        told = "; ".join(escape(error) for _, error in errors[:ERRORS_TOLD])
        if len(errors) > 1:
            cut = any(status == TruncatedCaptureError.status for status, _ in errors)
            told = f"{len(errors):,} inputs could not be read{' to their end' if cut else ''}: {told}"
        if len(errors) > ERRORS_TOLD:
            told += f"; and {len(errors) - ERRORS_TOLD:,} more"
        place = self.query_one("#errors", Static)
        place.update(Text(told))
        place.display = bool(errors)

    def _where(self) -> str:
        """Names of the captures that the exchange with the cursor is in."""
        row = self.exchanges.row
        if row is None:
            return ", ".join(self.store.inputs.names)
        return ", ".join(self.store.inputs.names[file] for file in export.files_of(self.store[row]))

    def _remarks(self) -> Iterable[str]:
        store = self.store
        if self.exchanges.marked:
            yield f"{len(self.exchanges.marked):,} marked"
        if self.errors_only:
            yield "errors only (e)"
        if self._connection is not None:
            yield "one connection (f)"
        unknown = sum(self.listing.choice.unknown.values())
        if unknown:
            yield f"{unknown:,} left out: not known whether they pass"
        if store.stopped:
            yield "stopped: not all was read" if store.inputs.interface is None else "capture stopped"
        drops = sum((store.summary or {}).get(key) or 0 for key in DROPS)
        if drops:
            yield f"{drops:,} packets dropped"
        if store.refused:
            yield f"spool full: {store.refused:,} without bytes"


def _exchanges(count: int) -> str:
    return "1 exchange" if count == 1 else f"{count:,} exchanges"


def _progress(store: Store) -> str:
    if not store.bytes_total:
        return f"reading {store.bytes_read:,} B"
    return f"reading {min(100, 100 * store.bytes_read // store.bytes_total)}%"
