"""A picture as lines of a terminal: the most important at the top, and parts without room left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.text import Text

from kinspect import wording
from kinspect.analysis.frequent import Ranking
from kinspect.analysis.histogram import Spread
from kinspect.analysis.traffic import CONNECTIONS_KEPT
from kinspect.model import NS_PER_MS
from kinspect.output import table
from kinspect.output.columns import Column, Grid, fit
from kinspect.output.escape import escape
from kinspect.tui.keybindings import ON_LIVE
from kinspect.tui.live.livepage import OPENED
from kinspect.tui.live.picture import LastRow, Picture, ShownPage

HEAD, DIM, BAD, NOTE, KEY = "bold", "dim", "bold red", "yellow", "bold"
BEHIND_BYTES = 1_000_000
"""Bytes waiting to be decoded above which the head mentions them."""
FOUR_BOXES, BOX_ROWS = 120, 8
TALL = 10_000
HEAD_LINES = 4
LEAST_BESIDE = 12
"""Room for the columns that have none, before what is counted is cut."""

TOTALS = {
    Column(""): 10,
    Column("PACKETS", right=True, rank=5): 10,
    Column("BYTES", right=True, rank=4): 9,
    Column("EXCHANGES", right=True, rank=1): 10,
    Column("FAILED", right=True, rank=3): 8,
    Column("CONNECTIONS", right=True, rank=6): 12,
    Column("DROPPED", right=True, rank=2): 14,
}
SERVICE, LATENCY = "SERVICE", "WITH QUEUEING"
APIS = (
    Column("FAILED", right=True, rank=2),
    Column("P50", right=True, rank=3, group=SERVICE),
    Column("P99", right=True, rank=4, group=SERVICE),
    Column("MAX", right=True, rank=5, group=SERVICE),
    Column("P50", right=True, rank=8, group=LATENCY),
    Column("P99", right=True, rank=6, group=LATENCY),
    Column("MAX", right=True, rank=7, group=LATENCY),
)
"""Columns of the APIs' table behind those of the name and the number."""


class Section(NamedTuple):
    """A part of the screen. `least`: fewest lines with which it is shown; `most`: lines that it can use; `draw` makes
    exactly the given number of lines."""

    least: int
    most: int
    draw: Callable[[int], list[Text]]


def lines(picture: Picture, width: int, height: int) -> list[Text]:
    """The frame: exactly `height` lines of exactly `width` columns."""
    if picture.help:
        return _filled([_title(picture, width), *_help(width)], width, height)
    head = [_title(picture, width), *_totals(picture, width)]
    if picture.message:
        head.append(fit(Text(escape(picture.message), style=NOTE), width))
    if picture.page is not None:
        head += _page(picture.page, width, page_room(width, height, picture.message))
        return [fit(line, width) for line in _filled(head, width, height)]
    sections = _sections(picture, width)
    room = _shared(sections, height - len(head))
    for section, given in zip(sections, room, strict=True):
        head += section.draw(given) if given else []
    return [fit(line, width) for line in _filled(head, width, height)]


def _shared(sections: Sequence[Section], height: int) -> list[int]:
    """Number of lines for each section: the least in the order of importance, then in turn."""
    given = [0] * len(sections)
    # The last exchanges stand below the boxes, but get lines before them.
    for number in (0, len(sections) - 1, *range(1, len(sections) - 1)):
        if sections[number].least <= height:
            given[number] = sections[number].least
            height -= given[number]
    while height > 0:
        growing = [number for number, section in enumerate(sections) if 0 < given[number] < section.most]
        if not growing:
            break
        for number in growing[:height]:
            given[number] += 1
        height -= min(len(growing), height)
    return given


# ---------------------------------------------------------------------- the head


def _title(picture: Picture, width: int) -> Text:
    left = Text.assemble(("kinspect live ", HEAD), escape(picture.title))
    if picture.held:
        left.append("  on hold", style=NOTE)
    if picture.status.away:
        left.append(f"  {escape(', '.join(picture.status.away))} away", style=BAD)
    if picture.status.waiting >= BEHIND_BYTES:
        left.append(f"  {wording.size(picture.status.waiting)} wait to be decoded", style=NOTE)
    keys = _keys(picture)
    while True:
        parts = [part for key, does in keys for part in (("  ", ""), (key, KEY), (f" {does}", DIM))]
        right = Text.assemble(wording.duration(picture.running), *parts)
        if not keys or left.cell_len + 2 + right.cell_len <= width:
            break
        keys = keys[1:]
    if right.cell_len >= width:
        return fit(left, width)
    return fit(left, width - right.cell_len - 1).append(" ").append_text(right)


def _keys(picture: Picture) -> tuple[tuple[str, str], ...]:
    """The keys to be shown, those first that may be left out."""
    hold = ("space", "go on" if picture.held else "hold")
    last = ("?", "keys"), ("q", "quit")
    if picture.page is not None:
        return ("PgUp PgDn", "scroll"), hold, ("0", "overview"), *last
    return ("w", "last minute" if picture.whole else "since start"), hold, ("1-9", "pages"), *last


def _help(width: int) -> list[Text]:
    """All keys, and the pages' names with theirs."""
    keys = [Text.assemble(("  ", ""), (f"{key.key:<23}", KEY), f" {key.does}") for key in ON_LIVE]
    return [fit(line, width) for line in (*keys, Text(), *_tabs("", width))]


def _totals(picture: Picture, width: int) -> list[Text]:
    status, rates, result = picture.status, picture.rates, picture.result
    active = wording.count(result.connections) + "+" * (result.connections >= CONNECTIONS_KEPT)
    grid = Grid(TOTALS, width)
    now = (
        Text("a second"),
        Text(wording.rate(rates.packets)),
        Text(wording.size(rates.bytes)),
        Text(wording.rate(rates.exchanges), style=HEAD),
        Text(wording.rate(rates.failed), style=BAD if rates.failed else ""),
        Text(f"{wording.count(status.connections)} open"),
        _drops("kernel", status.kernel_drops),
    )
    whole = (
        Text("in all"),
        Text(wording.count(status.packets)),
        Text(wording.size(status.bytes)),
        Text(wording.count(picture.exchanges), style=HEAD),
        Text(wording.count(picture.failed), style=BAD if picture.failed else ""),
        Text(f"{active} Kafka"),
        _drops("queue", status.queue_drops),
    )
    return [grid.titles(DIM), grid.row(now), grid.row(whole)]


def _drops(where: str, packets: int | None) -> Text:
    return Text(f"{where} {'?' if packets is None else wording.count(packets)}", style=BAD if packets else "")


# ---------------------------------------------------------------------- a page


def page_room(width: int, height: int, message: str) -> int:
    """Number of lines of a page that are shown at once; below the head, the names of pages and the page's own head."""
    return max(height - HEAD_LINES - bool(message) - len(_tabs("", width)) - 2, 1)


def _page(page: ShownPage, width: int, room: int) -> list[Text]:
    shown = page.lines[page.top : page.top + room]
    title = Text.assemble(
        (page.name, HEAD),
        (
            f", {wording.count(page.exchanges)} exchanges since {page.clock} ({wording.duration(page.seconds)})",
            DIM,
        ),
    )
    place = Text(style=DIM)
    if len(shown) < len(page.lines):
        place.append(f" {page.top + 1:,}–{page.top + len(shown):,} of {len(page.lines):,}")
    beside = Text(f" {page.beside}" if page.beside else "", style=NOTE)
    left = width - title.cell_len - place.cell_len - 1
    beside.truncate(max(left, LEAST_BESIDE), overflow="ellipsis")
    rule = _rule(title, width - beside.cell_len - place.cell_len).append_text(beside).append_text(place)
    if not page.exchanges:
        shown = [Text("no exchange yet", style=DIM)]
    return [*_tabs(page.name, width), rule, page.titles or Text(), *shown]


def _tabs(opened: str, width: int) -> list[Text]:
    """The names of all pages with their keys, on as many lines as they need."""
    lines = [Text()]
    for key, name in OPENED.items():
        tab = Text.assemble((key, KEY), (f" {name}", HEAD if name == opened else DIM))
        if lines[-1].cell_len and lines[-1].cell_len + 2 + tab.cell_len > width:
            lines.append(Text())
        lines[-1] = Text("  ").join([lines[-1], tab]) if lines[-1].cell_len else tab
    return lines


# ---------------------------------------------------------------------- the sections


def _sections(picture: Picture, width: int) -> list[Section]:
    most = max(picture.api_rows, len(picture.result.apis), 1)
    boxes = _boxes(picture)
    side_by_side = 4 if width >= FOUR_BOXES else 2
    together = [boxes[at : at + side_by_side] for at in range(0, len(boxes), side_by_side)]
    return [
        Section(2 + min(most, 3), 2 + most, lambda height: _apis(picture, width, height)),
        *(Section(3, 1 + BOX_ROWS, _beside(some, width)) for some in together),
        Section(3, TALL, lambda height: _last(picture.rows, width, height)),
    ]


def _rule(title: Text, width: int) -> Text:
    """A heading, and a line to the right of it."""
    title = Text.assemble(title, " ")
    title.truncate(max(width, 0), overflow="ellipsis")
    return title.append("─" * (width - title.cell_len), style=DIM)


def _span(picture: Picture) -> str:
    return "since start" if picture.whole else "last minute"


def _apis(picture: Picture, width: int, height: int) -> list[Text]:
    number = Column("COUNT" if picture.whole else "A SECOND", right=True, rank=1)
    grid = Grid({Column("API", least=min(14, width)): 36, number: 8, **dict.fromkeys(APIS, 7)}, width)
    rule = _rule(Text.assemble(("APIs", HEAD), (f", {_span(picture)}", DIM)), width)
    for begin, end, name in grid.groups():
        name = name[: end - begin - 2]
        if end - begin > 7:
            cut = end - len(name) - 1
            rule = Text.assemble(rule[:cut], " ", (name, HEAD), rule[end:])
    apis, shown = picture.result.apis, height - 2
    hidden = len(apis) - shown
    if hidden > 0:
        apis = apis[: shown - 1]
    rows = [
        grid.row(
            (
                Text(escape(api.name), style=table.API_STYLE),
                Text(_amount(picture, api.exchanges)),
                Text(wording.count(api.failed) if api.failed else "", style=BAD),
                *_times(api.service),
                *_times(api.latency),
            )
        )
        for api in apis
    ]
    if hidden > 0:
        others = picture.result.apis[shown - 1 :]
        count = sum(api.exchanges for api in others)
        failed = sum(api.failed for api in others)
        cells = (
            Text(wording.counted(len(others), "other"), style=DIM),
            Text(_amount(picture, count), style=DIM),
        )
        rows.append(grid.row((*cells, Text(wording.count(failed) if failed else "", style=BAD))))
    elif not rows:
        rows.append(fit(Text("no exchange yet" if not picture.exchanges else "none", style=DIM), width))
    return _filled([rule, grid.titles(DIM), *rows], width, height)


def _amount(picture: Picture, count: int) -> str:
    """The number since the start, or the number a second in the last minute."""
    if picture.whole:
        return wording.count(count)
    return wording.rate(count / max(picture.seconds, 1))


def _times(spread: Spread) -> tuple[Text, Text, Text]:
    median, p99, greatest = (
        table.latency(None if ns is None else ns / NS_PER_MS)
        for ns in (spread.median, spread.p99, spread.greatest)
    )
    return median, p99, greatest


class RankingBox(NamedTuple):
    """A ranking under a title. `kept`: number of names in all; `amount` formats an amount, in `wide` columns. `share`:
    its part of the width."""

    title: Text
    names: list[tuple[Text, int]]
    others: int
    missed: int
    kept: int
    amount: Callable[[int], str]
    style: str = ""
    wide: int = 10
    share: int = 3


def _boxes(picture: Picture) -> list[RankingBox]:
    result, names = picture.result, picture.result.names

    def amount(count: int) -> str:
        return wording.count(count) if picture.whole else f"{_amount(picture, count)}/s"

    def size(number: int) -> str:
        return (
            wording.size(number) if picture.whole else f"{wording.size(number / max(picture.seconds, 1))}/s"
        )

    def named(ranking: Ranking[str]) -> list[tuple[Text, int]]:
        return [(Text(escape(name)), number) for name, number in ranking.names]

    def box(name: str, by: str, ranking: Ranking[str], kept: int, show: Callable[[int], str]) -> RankingBox:
        title = Text.assemble((name, HEAD), (f" by {by}", DIM))
        return RankingBox(title, named(ranking), ranking.others, ranking.missed, kept, show)

    faults = result.faults
    told = [(Text(escape(f"{fault.api} {fault.what}")), times) for fault, times in faults.names]
    title = Text("Failures", style=HEAD)
    return [
        RankingBox(title, told, faults.others, faults.missed, names.faults, wording.count, BAD, 7, 4),
        box("Topics", "bytes of records", result.topics, names.topics, size),
        box("Clients", "exchanges", result.clients, names.clients, amount),
        box("Groups", "exchanges", result.groups, names.groups, amount),
    ]


def _beside(boxes: Sequence[RankingBox], width: int) -> Callable[[int], list[Text]]:
    def draw(height: int) -> list[Text]:
        between = 2
        room, shares = width - between * (len(boxes) - 1), sum(box.share for box in boxes)
        widths = [room * box.share // shares for box in boxes]
        widths[-1] += room - sum(widths)
        columns = [_boxed(box, wide, height) for box, wide in zip(boxes, widths, strict=True)]
        return [Text(" " * between).join(row) for row in zip(*columns, strict=True)]

    return draw


def _boxed(box: RankingBox, width: int, height: int) -> list[Text]:
    room = height - 1
    names, others = box.names[:room], box.others
    if others or len(box.names) > room:
        names = names[: max(room - 1, 1)]
        others += sum(number for _, number in box.names[len(names) :])
    least = "≥" if box.missed else ""
    rows = [(Text(least + box.amount(number), style=box.style), name) for name, number in names]
    if others:
        # The number of forgotten names is not known.
        who = "others" if box.missed else wording.counted(box.kept - len(names), "other")
        rows.append((Text(box.amount(others), style=DIM), Text(who, style=DIM)))
    elif not rows:
        rows.append((Text(), Text("none", style=DIM)))
    shown = [_rule(box.title, width)]
    for amount, name in rows:
        shown.append(fit(Text(" ").join([fit(amount, min(box.wide, width), right=True), name]), width))
    return _filled(shown, width, height)


def _last(rows: Sequence[LastRow], width: int, height: int) -> list[Text]:
    widths = table.widths_for(width)
    widths.pop(table.BROKER_END, None)
    grid = Grid(widths, width)
    shown = [_rule(Text("Last exchanges", style=HEAD), width)]
    for clock, line, about in rows[len(rows) - min(len(rows), height - 1) :]:
        cells = {**table.cells(clock, line, widths), table.ABOUT: about.copy()}
        shown.append(grid.row(cells[column] for column in widths))
    return _filled(shown, width, height)


def _filled(shown: list[Text], width: int, height: int) -> list[Text]:
    return shown[:height] + [Text(" " * width) for _ in range(height - len(shown))]
