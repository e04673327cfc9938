"""The live view: a sink of exchanges that draws at intervals.

It runs in the decoding process and takes at most a tenth of its time: the capturing process does not wait for it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Any, NamedTuple

from kinspect.analysis.rate import Rate
from kinspect.analysis.recenttraffic import RecentTraffic
from kinspect.analysis.traffic import TrafficResult
from kinspect.answers.counter import AnswerCounter
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.view.view import View
from kinspect.model import NS_PER_SECOND
from kinspect.output import Style, table
from kinspect.output.clock import day_and_clock
from kinspect.sink import CONNECTION, EXCHANGE, Sink
from kinspect.tui.live import livepage, panels
from kinspect.tui.live.keyreader import KeyReader
from kinspect.tui.live.livepage import OPENED, LivePage
from kinspect.tui.live.picture import CaptureState, LastRow, Picture, Rates, ShownPage, row_of
from kinspect.tui.live.screen import Screen

INTERVAL_NS = NS_PER_SECOND // 5
"""Least time between two frames; the stated limit is ten a second."""
REST = 9
"""Least pause between two frames, in multiples of the time that the first took to draw."""
ROWS = 100
ROW_AT_ONCE = 64 * 1024
"""Bytes from which on an exchange becomes a row at once, not at the end of its block."""
RANKED = 20
QUIT, HOLD, WHOLE, OVERVIEW, HELP = "q", " ", "w", "0", "?"

Answered = Callable[[AnswerCounter], dict[str, Any]]
"""Gives the object of an answer's rows as they are now."""


class LiveBody(NamedTuple):
    """Contents below the head: the statistics of `seconds` seconds, and the last exchanges."""

    result: TrafficResult
    seconds: float
    rows: list[LastRow]


class LiveView(Sink):
    """Draws statistics and the last exchanges, or the page of an answer, on `screen`, within `at_work`. `title`: the
    source of the packets; `quit` is called when q is pressed; `clock`: nanoseconds that do not go back; `wall`: the
    time, in seconds."""

    lines = frozenset({EXCHANGE, CONNECTION})
    """Pages count connections too."""

    def __init__(
        self,
        screen: Screen,
        title: str,
        quit: Callable[[], None],
        *,
        utc: bool = False,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._screen = screen
        self._title = title
        self._quit = quit
        self._style = Style(utc=utc)
        self._clock = clock
        self._wall = wall
        self._view = View(fields=table.FIELDS)
        self._begun = clock()
        self._next = self._begun
        self._recent = RecentTraffic(self._begun)
        self._rates = [Rate() for _ in Rates._fields]
        self._counted: tuple[int, ...] = (0,) * len(self._rates)
        self._exchanges = 0
        self._failed = 0
        self._pending: deque[Exchange] = deque(maxlen=ROWS)
        self._rows: deque[LastRow] = deque(maxlen=ROWS)
        self._api_rows = 0
        self._whole = False
        self._held = False
        self._help = False
        self._before: LiveBody | None = None
        self._status: Callable[[], CaptureState] | None = None
        self._answered: Answered | None = None
        self._keys = KeyReader()
        self._pages: dict[str, LivePage] = {}
        self._page: LivePage | None = None

    @contextmanager
    def at_work(self, status: Callable[[], CaptureState], answered: Answered) -> Iterator[None]:
        """Context that takes the screen. `status`: gives the state of the capture; `answered`: the rows of pages."""
        with self._screen:
            self._status, self._answered = status, answered
            try:
                self.flush()
                yield
            finally:
                self._status = None

    def take(self, line: Line) -> None:
        """Count a line. An exchange becomes a row, at once if it is large, else at the next `flush` if it is still
        kept."""
        for page in self._pages.values():
            page.take(line)
        if not isinstance(line, Exchange):
            return
        self._exchanges += 1
        self._failed += self._recent.at(self._clock()).add(line)
        self._pending.append(line)
        messages = (line.request, line.response)
        if sum([message.size for message in messages if message is not None]) >= ROW_AT_ONCE:
            self._make_rows()

    def flush(self) -> None:
        """Draw a frame if one is due. To be called several times a second, also without new exchanges."""
        # No part of a message is kept from one block of packets to the next.
        self._make_rows()
        if self._status is None or self._clock() < self._next:
            return
        pressed = self._keys.of(self._screen.pressed())
        width, height = self._screen.size
        room = panels.page_room(width, height, self._screen.said)
        for key in pressed:
            self._obey(key, room)
        self._look(width)
        now = self._clock()
        shown = self._page.shown(now, width, room) if self._page is not None else None
        self._screen.draw(panels.lines(self._picture(now, self._status(), shown), width, height))
        end = self._clock()
        self._next = max(now + INTERVAL_NS, end + REST * (end - now))

    def _make_rows(self) -> None:
        while self._pending:
            exchange = self._pending.popleft()
            self._rows.append(row_of(exchange, self._view.exchange(exchange), self._style.utc))

    def _obey(self, key: str, room: int) -> None:
        if key == QUIT:
            self._quit()
        elif key == HELP or self._help:
            # Any key ends it.
            self._help = not self._help
        elif key == HOLD:
            self._held = not self._held
        elif key == OVERVIEW:
            self._page = None
        elif key in OPENED:
            self._open(OPENED[key])
        elif self._page is not None:
            self._page.move(key, room)
        elif key == WHOLE:
            self._whole = not self._whole
            self._before = None

    def _open(self, name: str) -> None:
        if name not in self._pages:
            _, clock = day_and_clock(int(self._wall() * NS_PER_SECOND), UTC if self._style.utc else None)
            self._pages[name] = LivePage(name, self._clock(), clock[:8], self._style)
        self._page = self._pages[name]

    def _look(self, width: int) -> None:
        """Look at the rows of the page that is shown, if it is time for that. It does not make frames rarer."""
        page, begin = self._page, self._clock()
        if page is None or self._answered is None or begin < page.due or (self._held and page.looked):
            return
        page.look(self._answered(page.counted), width)
        end = self._clock()
        page.due = max(begin + livepage.LOOK_NS, end + REST * (end - begin))

    def _picture(self, now: int, status: CaptureState, shown: ShownPage | None) -> Picture:
        """The picture now. On hold, everything below the head stays as it was."""
        if self._before is None or not self._held:
            self._before = self._below(now)
        result, seconds, rows = self._before
        self._api_rows = max(self._api_rows, len(result.apis))
        return Picture(
            title=self._title,
            running=(now - self._begun) / NS_PER_SECOND,
            status=status,
            rates=self._rated(now, status),
            exchanges=self._exchanges,
            failed=self._failed,
            result=result,
            seconds=seconds,
            whole=self._whole,
            api_rows=self._api_rows,
            rows=rows,
            held=self._held,
            message=self._screen.said,
            page=shown,
            help=self._help,
        )

    def _below(self, now: int) -> LiveBody:
        traffic, seconds = self._recent.whole(now) if self._whole else self._recent.minute(now)
        return LiveBody(traffic.result(RANKED), seconds, [*self._rows])

    def _rated(self, now: int, status: CaptureState) -> Rates:
        counts = (status.packets, status.bytes, self._exchanges, self._failed)
        for rate, count, before in zip(self._rates, counts, self._counted, strict=True):
            rate.add(now, count - before)
        self._counted = counts
        return Rates(*(rate.result(now) for rate in self._rates))
