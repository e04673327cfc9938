"""Updates of the list."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from kinspect.tui.index.listing import COMPLETION
from kinspect.tui.widgets.exchanges import Exchanges

SORT_SECONDS = 1.0
"""Least time between two sorts, while captures are read."""
REDRAW_SECONDS = 0.2
"""Time after which an unfinished update is drawn."""


class Updates:
    """Brings the list up to date with its store, piece by piece so that no key has to wait. `shown` is called whenever
    it was redrawn."""

    def __init__(self, exchanges: Exchanges, shown: Callable[[], None]) -> None:
        self._exchanges = exchanges
        self._listing = exchanges.listing
        self._shown = shown
        self._running = False
        self._ended = 0.0

    def grown(self) -> None:
        """Take in new rows of the store; at intervals, if the list has to be sorted."""
        waits = self._listing.order.key != COMPLETION and not self._listing.store.done
        if not waits or time.monotonic() - self._ended > SORT_SECONDS:
            self.start()

    def start(self) -> None:
        """Bring the list up to date, unless that is under way."""
        if not self._running:
            self._running = True
            self._exchanges.run_worker(self._update())

    def reorder(self) -> None:
        """Show the list from its top, in another order."""
        self._exchanges.go_to_top()
        self._exchanges.run_worker(self._reorder())

    async def _update(self) -> None:
        row = self._exchanges.row
        try:
            await self._catch_up(row)
        finally:
            self._running = False
            self._ended = time.monotonic()
        self._redraw(row)

    async def _catch_up(self, row: int | None) -> None:
        """Update until no row is left and neither filter nor order changed during the update."""
        listing = self._listing
        while True:
            list_filter, order = listing.filter, listing.order
            drawn = time.monotonic()
            for _ in listing.update():
                await asyncio.sleep(0)
                if time.monotonic() - drawn > REDRAW_SECONDS and order.key == COMPLETION:
                    drawn = time.monotonic()
                    self._redraw(row)
            if (list_filter, order) == (listing.filter, listing.order) and not listing.behind:
                return

    async def _reorder(self) -> None:
        while self._running:
            await asyncio.sleep(0.01)
        self._running = True
        try:
            for _ in self._listing.update():
                await asyncio.sleep(0)
        finally:
            self._running = False
        self._exchanges.put_up(0)
        self._shown()

    def _redraw(self, row: int | None) -> None:
        self._exchanges.put_up_with(row)
        self._shown()
