"""The line of numbers, and the errors of inputs above it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.text import Text
from textual.widgets import Static

from kinspect.errors import TruncatedCaptureError
from kinspect.output.escape import escape
from kinspect.output.runsummary import DROPS
from kinspect.tui.index.export import files_of
from kinspect.tui.index.selection import Selection
from kinspect.tui.index.store import Store
from kinspect.tui.widgets.exchanges import Exchanges
from kinspect.wording import counted

ERRORS_SHOWN = 3
"""Number of inputs whose errors are shown; on exit those of all are printed."""


class StatusLine(Static):
    """The cursor's place, the number of exchanges, what was left out, and the captures of the exchange. `page`: gives
    the words on a page, if one is shown in place of the list."""

    def __init__(self, selection: Selection, exchanges: Exchanges, page: Callable[[], Text | None]) -> None:
        super().__init__()
        self._page = page
        self._selection = selection
        self._exchanges = exchanges

    def show_state(self) -> None:
        """Show the state of now."""
        store = self._selection.store
        text = self._page() or self._list()
        if len(store.inputs.names) > 1:
            text.append(f" in {len(store.inputs.names):,} captures")
        if not store.done:
            text.append(f"  {_progress(store)}", "bold yellow")
        for part in self._remarks():
            text.append(f"  {part}")
        text.append(f"  {escape(self._where())}", "dim")
        self.update(text)

    def _list(self) -> Text:
        store, listed = self._selection.store, len(self._selection.listing)
        text = Text()
        text.append(f"{self._exchanges.cursor + 1 if listed else 0:,}/{listed:,}", "bold")
        if listed != store.count:
            text.append(f" of {store.count:,}")
        return text.append(" exchanges")

    def _remarks(self) -> Iterator[str]:
        selection, store = self._selection, self._selection.store
        if self._exchanges.marked:
            yield f"{len(self._exchanges.marked):,} marked"
        if selection.errors_only:
            yield "errors only (e)"
        if selection.connection is not None:
            yield "one connection (f)"
        if selection.group is not None:
            yield f"group {escape(selection.group)} (g)"
        if selection.quiet:
            yield f"{selection.listing.filter.hidden:,} expected hidden (n)"
        unknown = sum(selection.listing.filter.unknown.values())
        if unknown:
            yield f"{unknown:,} left out: not known whether they pass"
        if store.stopped:
            yield "stopped: not all was read" if store.inputs.interface is None else "capture stopped"
        drops = sum((store.summary or {}).get(key) or 0 for key in DROPS)
        if drops:
            yield f"{counted(drops, 'packet')} dropped"
        if store.refused:
            yield f"spool full: {store.refused:,} without bytes"

    def _where(self) -> str:
        """Names of the captures that the exchange with the cursor is in."""
        store, row = self._selection.store, self._exchanges.row
        if row is None:
            return ", ".join(store.inputs.names)
        return ", ".join(store.inputs.names[file] for file in files_of(store[row]))


class InputErrors(Static):
    """Errors of inputs, in as many lines as they need; not there without one, and until the next one once closed."""

    def __init__(self) -> None:
        super().__init__()
        self._told = self._dismissed = 0

    def show_state(self, errors: list[tuple[int, str]]) -> None:
        """Show errors, each an exit status and a message."""
        self._told = len(errors)
        self.display = self._told > self._dismissed
        told = "; ".join(escape(error) for _, error in errors[:ERRORS_SHOWN])
        if len(errors) > 1:
            told = f"{len(errors):,} inputs could not be read{_how_far(errors)}: {told}"
        if len(errors) > ERRORS_SHOWN:
            told += f"; and {len(errors) - ERRORS_SHOWN:,} more"
        self.update(Text(f"{told} (Esc)"))

    def dismiss(self) -> None:
        """Close what is shown, until there are more."""
        self._dismissed = self._told
        self.display = False


def _how_far(errors: list[tuple[int, str]]) -> str:
    cut = [status == TruncatedCaptureError.status for status, _ in errors]
    if all(cut):
        return " to their end"
    return ", or not to their end" if any(cut) else ""


def _progress(store: Store) -> str:
    if not store.bytes_total:
        return f"reading {store.bytes_read:,} B"
    return f"reading {min(100, 100 * store.bytes_read // store.bytes_total)}%"
