"""A table with a row for each exchange. Rows are printed as they come, so the columns' widths are fixed beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, cast

from rich.console import Console
from rich.text import Text

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.pair import ANSWERED, NO_RESPONSE, ORPHAN, UNANSWERED
from kinspect.kafka.wire.wait import BROKER, CAUSES, IDLE
from kinspect.output import Opening
from kinspect.output.actions import NO_ACTION, Action, action_of, is_login
from kinspect.output.clock import DayLines
from kinspect.output.columns import REST, WHOLE, Column, Widths, aligned, fitted
from kinspect.output.console import make_console
from kinspect.output.escape import escape
from kinspect.pipeline import EXCHANGES_ONLY
from kinspect.protocol import schema
from kinspect.sink import PieceSink, WrittenLine
from kinspect.wording import counted, listed

FIELDS = frozenset(
    """
    timestamp client broker kind api api_key api_version latency_ms outcome outcome_reason api_candidates
    error_names problems topics partitions groups transactional_ids record_count record_bytes
    """.split()
)
"""Fields of an exchange's line that a row needs; one of `--wide` needs `WAIT` too."""
WAIT = "wait"

WAIT_WIDTH = max(map(len, CAUSES))

TIME = Column("STARTED", rank=3)
"""Times do not ascend: rows stand in the order of completion."""
ENDS = Column("CLIENT → BROKER", rank=5, least=WHOLE)
BROKER_END = Column("BROKER", rank=5)
CLIENT = Column("CLIENT ID", rank=4, least=WHOLE)
API = Column("API", least=WHOLE)
LATENCY = Column("LATENCY", right=True, rank=2)
WAITS = Column(WAIT.upper())
ABOUT = Column("ABOUT", rank=1, least=20)

PARTITIONS_SHOWN = 5
CLOSED = ("closed", "reset")
MISSING = (UNANSWERED, ORPHAN)
"""Outcomes that count as failures, shown with their reason."""

ERROR, PROBLEM, NOTE, DIM, API_STYLE = "bold red", "magenta", "yellow", "dim", "cyan"


NARROW: Widths = {TIME: 8, BROKER_END: 15, CLIENT: 13, API: 17, LATENCY: 7, ABOUT: REST}
MEDIUM: Widths = {TIME: 12, ENDS: 33, CLIENT: 12, API: 20, LATENCY: 8, ABOUT: REST}
BROAD: Widths = {TIME: 12, ENDS: 36, CLIENT: 18, API: 22, LATENCY: 8, ABOUT: REST}
WIDE: Widths = {TIME: 29, ENDS: 43, CLIENT: 24, API: 0, LATENCY: 10, WAITS: WAIT_WIDTH}
"""Widths of `--wide`, without the API column's, which is that of the longest name."""

ABOUT_LEAST = 15
"""Sufficient width of the last column. With less, every row may go on in a second line."""
ABOUT_ENOUGH = 40
"""Width of the last column above which the API's column gets more."""
VERSION = " v99"
LEFT_OUT = ((ABOUT_LEAST, TIME.rank), (1, LATENCY.rank))
"""On a small terminal: columns above a rank are left out if less than this width is left for the last column."""


def widths_for(terminal: int) -> dict[Column, int]:
    """The widths that leave enough of `terminal` columns for the last one, if there are 80 at least."""
    widths = NARROW if terminal < 110 else MEDIUM if terminal < 150 else BROAD
    left = terminal - sum(width + 1 for column, width in widths.items() if column is not ABOUT)
    return {**widths, API: min(widths[API] + max(0, left - ABOUT_ENOUGH), longest_api())}


def longest_api() -> int:
    """Width in which every API's name and version have room."""
    return max(map(len, schema.api_names().values())) + len(VERSION)


def printed_widths(terminal: int) -> tuple[dict[Column, int], int]:
    """The widths without the columns that are less important than the last one, and that one's."""
    widths = widths_for(terminal)
    left = widths.pop(ABOUT)
    for least, kept in LEFT_OUT:
        last = replace(ABOUT, least=least)
        widths = fitted({**widths, last: REST}, terminal, 1, kept)
        left = widths.pop(last)
    return widths, left


def open_sink(opening: Opening) -> TableWriter:
    """Exchanges as rows."""
    style = opening.style
    return TableWriter(
        make_console(opening.stream, style.color), opening.view, utc=style.utc, wide=style.wide
    )


class TableWriter(PieceSink):
    """Writes exchanges as rows. `wide`: nothing is cut, rows may be longer than the terminal is wide."""

    def __init__(self, console: Console, view: View, *, utc: bool = False, wide: bool = False) -> None:
        self._console = console
        self._view = replace(view, fields=FIELDS | {WAIT} if wide else FIELDS)
        self._days = DayLines(utc, wide)
        self._wide = wide
        widths, left = ({**WIDE, API: longest_api()}, REST) if wide else printed_widths(console.width)
        self._cut = {column: 0 if wide else width for column, width in widths.items() if column is not API}
        self._api, latency = widths[API], widths.pop(LATENCY)
        self._widths = {**widths, API: self._api + 1 + latency}
        self._small = left < ABOUT_LEAST
        self._rows = self._header()

    lines = EXCHANGES_ONLY

    def take(self, line: Line) -> None:
        day, rows = self._rows_of(cast(Exchange, line))
        self._rows += [*self._days.above(day), *rows]

    def piece(self, line: Line) -> WrittenLine:
        """The exchange's row, to stand below its day."""
        day, rows = self._rows_of(cast(Exchange, line))
        with self._console.capture() as text:
            self._console.print(Text("\n").join(rows), soft_wrap=True)
        return WrittenLine(text.get().encode(), day)

    def put(self, piece: WrittenLine) -> None:
        self._rows += self._days.above(piece.heading)
        self.flush()
        self._console.file.write(piece.text.decode())

    def _rows_of(self, exchange: Exchange) -> tuple[str, list[Text]]:
        """The exchange's day, and its row in one or two lines."""
        line, found = self._view.exchange(exchange), action_of(exchange)
        day, clock = self._days.day_and_time(exchange.timestamp)
        return day, self._row(
            cells(clock, line, self._cut),
            lambda width: api_text(line, width),
            about_cell(line, found),
            failed=bool(
                line["error_names"] or line["problems"] or found.refused or line["outcome"] in MISSING
            ),
        )

    def flush(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._console.print(Text("\n").join(rows), soft_wrap=True)

    def _header(self) -> list[Text]:
        titles = {column: Text(column.title, style="bold") for column in (*self._widths, LATENCY)}
        if self._wide:
            titles[TIME].append(f" ({self._days.zone})")
        api = titles[API]
        return self._row(titles, lambda _: api, AboutCell([Text(ABOUT.title, style="bold")], []))

    def _row(
        self, shown: dict[Column, Text], api: Callable[[int], Text], about: AboutCell, *, failed: bool = False
    ) -> list[Text]:
        """The lines of a row: one, or two if the last column does not fit in one, and it failed or room is little."""
        shown[API] = self._api_and_latency(api, shown[LATENCY])
        room, widths = self._console.width, self._widths
        if self._wide:
            widths = {column: max(width, shown[column].cell_len) for column, width in widths.items()}
        rows = [aligned(shown, widths, 1)]
        for part in about.parts:
            full = rows[-1].cell_len + 1 + part.cell_len > room
            if full and len(rows) == 1 and (failed or self._small) and not self._wide:
                rows.append(Text(" " * self._widths.get(TIME, 0)))
            rows[-1].append(" ").append_text(part)
        for part in about.rest:
            rows[-1].append(" ").append_text(part)
        for line in rows:
            line.rstrip()
            if not self._wide:
                line.truncate(room, overflow="ellipsis")
        return rows

    def _api_and_latency(self, api: Callable[[int], Text], latency: Text) -> Text:
        """Both cells, which together have the same width in every row: a long latency takes room from the API."""
        both = self._widths[API]
        name = api(0 if self._wide else min(self._api, both - 1 - latency.cell_len))
        latency.pad_left(max(1, both - name.cell_len - latency.cell_len))
        return name + latency


CELLS: dict[Column, Callable[[str, dict[str, Any], int], Text]] = {
    TIME: lambda clock, _, width: Text(clock[: width or None], style=DIM),
    ENDS: lambda _, line, width: Text(ends_text(line, width)),
    BROKER_END: lambda _, line, width: Text(broker(line, width)),
    CLIENT: lambda _, line, _width: Text(escape(line["client"]["id"] or "")),
    API: lambda _, line, width: api_text(line, width),
    LATENCY: lambda _, line, _width: latency(line["latency_ms"]),
    WAITS: lambda _, line, _width: wait(line[WAIT]),
}
"""The cell of an exchange's line, with its time of day, in each column but the last; width 0: nothing is cut."""


def cells(clock: str, line: dict[str, Any], widths: Widths) -> dict[Column, Text]:
    """The cells of an exchange, by column. A client without an id has its name or address, where no other
    column shows it."""
    found = {column: CELLS[column](clock, line, width) for column, width in widths.items() if column in CELLS}
    if ENDS not in widths and not line["client"]["id"]:
        found[CLIENT] = Text(escape(line["client"].get("name") or line["client"]["ip"]), style=DIM)
    return found


def ends_text(line: dict[str, Any], width: int = 0) -> str:
    """`10.0.0.1:41234→10.0.0.9:9092`, with names where they are known. To fit in `width` columns (0: no limit) the
    client's port is left out first, then the ends of names and the heads of addresses; the broker's port is always
    there.
    """
    client, right = line["client"], _endpoint(line["broker"])
    left = _endpoint(client)
    if width and len(left) + 1 + len(right) > width:
        left = _address(client)
        right = _cut(line["broker"], max(width - 1 - len(left), width // 2), f":{line['broker']['port']}")
        left = _cut(client, width - 1 - len(right))
    return f"{left}→{right}"


def broker(line: dict[str, Any], width: int) -> str:
    """`10.0.0.9:9092`, cut if that is longer than `width`."""
    return _cut(line["broker"], width, f":{line['broker']['port']}")


def _cut(end: dict[str, Any], width: int, port: str = "") -> str:
    """An end in `width` columns, `port` behind it. Of a name the first label tells most, of an address the last
    part."""
    text = _address(end)
    if len(text) + len(port) <= width:
        return text + port
    if end.get("name") and len(port) + 1 < width:
        return f"{text[: width - len(port) - 1]}…{port}"
    return f"…{(text + port)[len(text + port) - width + 1 :]}"


def api_text(line: dict[str, Any], width: int = 0) -> Text:
    """Name and version. A name too long for `width` is cut in its middle, as APIs differ at either end; the version is
    never cut."""
    if line["api_key"] is None:
        return Text(line["api"] or "?", style=API_STYLE)
    name = line["api"] or f"API {line['api_key']}"
    version = f" v{line['api_version']}"
    return Text((_middle_cut(name, width - len(version)) if width else name) + version, style=API_STYLE)


def _middle_cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    kept = max(width - 1, 0)
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"


def latency(milliseconds: float | None) -> Text:
    """A latency in about four digits and a unit."""
    if milliseconds is None:
        return Text("–", style=DIM)
    size = abs(milliseconds)
    if size < 10:
        return Text(f"{milliseconds:.2f}ms")
    return Text(f"{milliseconds:.0f}ms" if size < 10_000 else f"{milliseconds / 1000:.1f}s")


def wait(cause: str | None) -> Text:
    """The cause of a wait, in its style."""
    return Text("–" if cause is None else cause, style=wait_style(cause))


def wait_style(cause: str | None) -> str:
    """Dim if the client asked for the wait, marked if it is not the broker's own time."""
    if cause is None or cause in IDLE:
        return DIM
    return "" if cause == BROKER else NOTE


class AboutCell(NamedTuple):
    """The last column. `parts`: failures, then the subjects of the exchange; `rest`: details that are cut first."""

    parts: list[Text]
    rest: list[Text]


def about_cell(line: dict[str, Any], found: Action = NO_ACTION) -> AboutCell:
    """The last column of an exchange. `found`: the texts of its action."""
    return AboutCell([*failures(line, found), *subjects(line, found)], rest(line, found))


def failures(line: dict[str, Any], found: Action) -> list[Text]:
    """What came of an exchange, if it was not simply answered."""
    parts = [Text(escape(name), style=ERROR) for name in line["error_names"]]
    parts += [Text(escape(found.refused), style=ERROR)] if found.refused else []
    parts += [Text(code, style=PROBLEM) for code in dict.fromkeys(p["code"] for p in line["problems"])]
    return parts + _outcome(line)


def subjects(line: dict[str, Any], found: Action) -> list[Text]:
    """What an exchange is about."""
    parts = [Text(escape(found.name))] if found.name else []
    return parts + [Text(part) for part in _subjects(line)]


def rest(line: dict[str, Any], found: Action) -> list[Text]:
    """Amounts of records, and reasons."""
    texts = [*_counts(line), *(f'"{escape(reason)}"' for reason in found.reasons)]
    return [Text(part) for part in texts]


def _outcome(line: dict[str, Any]) -> list[Text]:
    outcome = line["outcome"]
    if outcome == ANSWERED:
        return []
    if outcome == NO_RESPONSE:
        return [Text("no response due", style=DIM)]
    detail = "; ".join(filter(None, (line["outcome_reason"], listed(line["api_candidates"]))))
    parts = [Text(escape(f"{outcome} ({detail})" if detail else outcome), style=NOTE)]
    if outcome == UNANSWERED and line["outcome_reason"] in CLOSED and is_login(line["kind"], line["api_key"]):
        # Brokers before 1.0 (KIP-152) cannot refuse a login in another way.
        parts.append(Text("login refused?", style=NOTE))
    return parts


def _subjects(line: dict[str, Any]) -> Iterable[str]:
    topics = _topics(line["topics"], line["partitions"])
    if topics:
        yield listed(topics)
    for key, label in (("groups", "group "), ("transactional_ids", "txn ")):
        if line[key]:
            yield label + listed([escape(name) for name in line[key]])


def _counts(line: dict[str, Any]) -> Iterable[str]:
    if line["record_count"]:
        yield counted(line["record_count"], "record", "")
    if line["record_bytes"]:
        yield f"{line['record_bytes']} B"


def _topics(topics: list[str], partitions: list[str]) -> list[str]:
    """Topics, with their partitions where there are any: `orders[0,1]`."""
    numbers: dict[str, list[str]] = {topic: [] for topic in topics}
    for partition in partitions:
        topic, _, number = partition.rpartition("-")
        numbers.setdefault(topic, []).append(number)
    return [escape(topic) + _numbers(of) for topic, of in numbers.items()]


def _numbers(numbers: list[str]) -> str:
    if not numbers:
        return ""
    more = ",…" if len(numbers) > PARTITIONS_SHOWN else ""
    return f"[{','.join(numbers[:PARTITIONS_SHOWN])}{more}]"


def _endpoint(end: dict[str, Any]) -> str:
    return f"{_address(end)}:{end['port']}"


def _address(end: dict[str, Any]) -> str:
    """The name of an end; without one its address."""
    if name := end.get("name"):
        return escape(name)
    return f"[{end['ip']}]" if ":" in end["ip"] else str(end["ip"])
