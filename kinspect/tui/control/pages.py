"""Pages of answers, counted over the listed exchanges in a process beside this one."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple

from rich.text import Text
from textual.worker import get_current_worker

from kinspect.errors import KinspectError
from kinspect.kafka.view.view import View
from kinspect.output import Style
from kinspect.tui.index.answerlines import AnswerLines
from kinspect.tui.index.answerprocess import AnswerProcess
from kinspect.tui.index.counting import NO_OPTIONS, query_for
from kinspect.tui.index.recordpage import RECORDS, page_definition
from kinspect.tui.index.reread import StoppedError
from kinspect.tui.index.selection import Selection
from kinspect.tui.index.shownpayloads import ShownPayloads
from kinspect.tui.widgets.answerpage import AnswerRows
from kinspect.wording import counted

COUNTING = "answer"
"""Group of the workers that wait for an answer."""
_WHOLE = 100


class PageCount(NamedTuple):
    """What is counted: a page over the exchanges that a selection lists, `listed` of `rows` in all; `only`: over this
    one."""

    name: str
    selected: Hashable
    only: int | None
    listed: int
    rows: int


class PageResult(NamedTuple):
    """A page that was counted. `lost`: exchanges without bytes, which it leaves out."""

    of: PageCount
    sheet: AnswerLines
    lost: int


class Pages:
    """Shows one answer at a time in `rows`. `changed` is called whenever what `status` says has changed."""

    def __init__(
        self,
        rows: AnswerRows,
        selection: Selection,
        answers: AnswerProcess,
        view: View,
        payloads: ShownPayloads,
        style: Style,
        changed: Callable[[], None],
    ) -> None:
        self._rows = rows
        self._selection = selection
        self._answers = answers
        self._view = view
        self._payloads = payloads
        self._style = style
        self._changed = changed
        self._results: dict[str, PageResult] = {}
        self._counting: PageCount | None = None
        # None for what could not be counted.
        self._percent: int | None = 0
        self.shown: str | None = None
        """The page on the screen; None: the list is."""
        self.only: int | None = None
        """The exchange that it is of; None: of all that are listed."""

    def open(self, name: str, row: int = 0, only: int | None = None) -> None:
        """Show a page, with the cursor on a row; if it is on the screen, count anew what came meanwhile, or what could
        not be counted."""
        again = (name, only) == (self.shown, self.only)
        if again and self._counting is not None and self._percent is not None:
            return
        self._stop()
        self.shown, self.only = name, only
        result = self._results.get(name)
        if result is not None and self._is_of_now(result.of) and not (again and self._has_more(result.of)):
            self._show(result, row)
        else:
            self._results.pop(name, None)
            self._rows.show(None)
            self.look()

    def close(self) -> None:
        """Show the list; what is being counted is given up."""
        self._stop()
        self.shown = None

    def look(self) -> None:
        """Count the answer on the screen if it is not that of the listed exchanges, once all of these are known."""
        listing, store = self._selection.listing, self._selection.store
        if self.shown is None or listing.behind:
            return
        result = self._results.get(self.shown)
        listed = listing.passed if self.only is None else array("I", [self.only])
        now = PageCount(self.shown, self._selection.chosen, self.only, len(listed), store.count)
        of = self._counting or (result.of if result is not None else None)
        if of is None or of[:3] != now[:3] or (store.done and of != now):
            self._start(now, array("I", listed))

    def status(self) -> Text | None:
        """The place on the page, and the exchanges that it counts; None for no page."""
        if self.shown is None:
            return None
        result, counting = self._results.get(self.shown), self._counting
        text = Text(f"{self.shown} ", "bold")
        if counting is not None or result is None:
            if self._percent is None:
                return text.append("not counted", "bold red")
            text.append(f"counting {self._percent}%", "bold yellow")
            return text.append(f"  {_exchanges_of(counting)}" if counting is not None else "")
        place = self._rows.place
        text.append(f"{0 if place is None else place + 1:,}/{len(result.sheet.rows):,}", "bold")
        text.append(" rows")
        if result.sheet.no_room:
            text.append(f", no room for {result.sheet.no_room:,} more", "yellow")
        if result.sheet.side:
            text.append("  <: back", "yellow")
        if result.sheet.to_come:
            text.append(f"  >: {', '.join(result.sheet.to_come)}", "yellow")
        text.append(f"  {_exchanges_of(result.of)}")
        if result.lost:
            text.append(f", {result.lost:,} of them without bytes and not counted")
        if self._has_more(result.of):
            text.append(f"; more came: {page_definition(self.shown).page} counts anew", "yellow")
        return text

    def _is_of_now(self, counting: PageCount) -> bool:
        return (counting.selected, counting.only) == (self._selection.chosen, self.only)

    def _has_more(self, counting: PageCount) -> bool:
        return counting.rows < self._selection.store.count

    def _start(self, counting: PageCount, listed: array[int]) -> None:
        self._results.pop(counting.name, None)
        self._counting, self._percent = counting, 0
        self._rows.show(None, f"counting {_exchanges_of(counting)}…")
        self._rows.screen.run_worker(
            partial(self._count, counting, listed, self._selection.listing.filter.options),
            group=COUNTING,
            thread=True,
            exclusive=True,
            exit_on_error=False,
        )
        self._changed()

    def _stop(self) -> None:
        self._counting, self._percent = None, 0
        self._rows.screen.workers.cancel_group(self._rows.screen, COUNTING)

    def _count(self, counting: PageCount, listed: array[int], options: Sequence[str]) -> None:
        """Wait for the answer, in a thread."""
        worker = get_current_worker()
        call = self._rows.app.call_from_thread
        store = self._selection.store
        own = self._of_records() if counting.name == RECORDS else NO_OPTIONS
        query = query_for(store, counting.name, listed, counting.rows, options, own)
        try:
            found, lost = self._answers.answer(
                query, lambda: worker.is_cancelled, partial(call, self._progressed, counting)
            )
        except StoppedError:
            return
        except KinspectError as error:
            if not worker.is_cancelled:
                call(self.failed, str(error))
            return
        result = PageResult(counting, AnswerLines(found, self._style), lost)
        if not worker.is_cancelled:
            call(self._finished, result)

    def _of_records(self) -> dict[str, Any]:
        """The options of the page of records."""
        store, selection = self._selection.store, self._selection
        return {
            "given": {**selection.records, "topic": [*selection.topics]},
            **self._payloads.of_page,
            "show_secrets": self._view.show_secrets,
            "start": store.start,
            "whole": store.inputs.can_reread,
        }

    def _progressed(self, counting: PageCount, part: float) -> None:
        if counting is self._counting:
            self._percent = min(int(_WHOLE * part), _WHOLE)
            self._changed()

    def _finished(self, result: PageResult) -> None:
        if result.of is self._counting:
            self._counting = None
            self._results[result.of.name] = result
            self._show(result)
            self.look()

    def failed(self, told: str) -> None:
        """Show why there is no answer."""
        self._percent = None
        self._rows.show(None, told)
        self._changed()

    def _show(self, result: PageResult, row: int = 0) -> None:
        self._rows.show(result.sheet, row=row)
        self._changed()


def _exchanges_of(counting: PageCount) -> str:
    """The exchanges that are counted, of how many."""
    if counting.only is not None:
        return f"exchange #{counting.only + 1:,}"
    if counting.listed == counting.rows:
        return f"all {counted(counting.rows, 'exchange')}"
    return f"{counting.listed:,} of {counted(counting.rows, 'exchange')} pass the filter"
