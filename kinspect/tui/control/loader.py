"""Reading of the exchange whose fields and bytes are shown."""

from __future__ import annotations

from functools import partial

from textual.timer import Timer
from textual.worker import get_current_worker

from kinspect.errors import KinspectError
from kinspect.kafka.view.view import View
from kinspect.tui.index.exchangefields import ExchangeFields
from kinspect.tui.index.reread import StoppedError
from kinspect.tui.index.shownpayloads import ShownPayloads
from kinspect.tui.widgets.details import Details
from kinspect.tui.widgets.exchanges import Exchanges

READING = "read"
"""Group of the workers that read an exchange."""
REST_SECONDS = 0.08
"""Time that the cursor rests before the exchange is read."""
AT_ONCE = 0.001
SLOW_SECONDS = 0.4
"""Time after which the screen says that an exchange is still being read."""


class Loader:
    """Reads the exchange with the cursor for `details`, in a thread. `row`: the exchange read last, or being read."""

    def __init__(self, exchanges: Exchanges, details: Details, view: View, payloads: ShownPayloads) -> None:
        self._exchanges = exchanges
        self._details = details
        self._view = view
        self._payloads = payloads
        self._resting: Timer | None = None
        self.row: int | None = None
        self._shown: int | None = None
        # An exchange, and the record in it that gets the cursor.
        self._sought: tuple[int | None, int] | None = None

    @property
    def is_behind(self) -> bool:
        """True if another exchange has the cursor."""
        return self._exchanges.row != self.row

    def start(self, seconds: float = REST_SECONDS) -> None:
        """Read the exchange with the cursor, once the cursor has rested for that time."""
        if self._resting is not None:
            self._resting.stop()
        self._resting = self._details.screen.set_timer(seconds, self._load)

    def seek(self, record: int) -> None:
        """Put the cursor on a record of the exchange with the cursor, once that is read."""
        self._sought = self._exchanges.row, record
        self._find()
        self.start(AT_ONCE)

    def _find(self) -> None:
        if self._sought is not None and self._sought[0] == self._shown:
            self._details.go_to_record(self._sought[1])
            self._sought = None

    def _load(self) -> None:
        before, self.row = self.row, self._exchanges.row
        if self.row is None:
            self._details.show(None)
        elif self.row != before:
            read = partial(self._read, self.row)
            screen = self._details.screen
            screen.run_worker(read, group=READING, thread=True, exclusive=True, exit_on_error=False)

    def _read(self, row: int) -> None:
        """Read an exchange and show it; if it takes long, say so after a moment."""
        worker = get_current_worker()
        screen = self._details.screen
        call = screen.app.call_from_thread
        slow = call(
            screen.set_timer, SLOW_SECONDS, partial(self._show, row, None, "reading its packets again…")
        )
        try:
            exchange = self._exchanges.listing.store.exchange(row, lambda: worker.is_cancelled)
            fields, notice = ExchangeFields(exchange, self._view, self._payloads), ""
        except StoppedError:
            return
        except KinspectError as error:
            fields, notice = None, str(error)
        finally:
            call(slow.stop)
        if not worker.is_cancelled:
            call(self._show, row, fields, notice)

    def _show(self, row: int, fields: ExchangeFields | None, notice: str) -> None:
        if row == self.row:
            self._details.show(fields, notice)
            self._shown = None if fields is None else row
            self._find()
