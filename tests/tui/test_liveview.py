"""The live view without an interface: frames, when they are drawn, and what is written to the terminal."""

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from support.shares import one_in

import kinspect
from kinspect import wording
from kinspect.analysis.frequent import Ranking
from kinspect.analysis.histogram import Spread
from kinspect.analysis.traffic import ApiResult, Fault, NameCounts, TrafficResult
from kinspect.answers import layout
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.output import Style
from kinspect.output.console import make_console
from kinspect.pipeline import Inspector
from kinspect.tui.keybindings import ON_LIVE
from kinspect.tui.live import panels
from kinspect.tui.live.keyreader import DOWN, END, HOME, PAGE_DOWN, PAGE_UP, UP, KeyReader
from kinspect.tui.live.liveloop import INTERVAL_NS, REST, ROWS, LiveView
from kinspect.tui.live.livepage import OPENED
from kinspect.tui.live.picture import CaptureState, LastRow, Picture, Rates, ShownPage, row_of
from kinspect.tui.live.screen import Screen

from . import frames

CAPTURES = Path(__file__).parents[2] / "captures" / "4.4.0"
SECOND = 1_000_000_000
MS = 1_000_000


@pytest.mark.parametrize("page", frames.PAGES, ids=["overview", "groups"])
@pytest.mark.parametrize("size", one_in(4, frames.SIZES), ids=str)
def test_frames(size, page):
    """`tests/tui/frames.py`, run as a program, writes them anew."""
    shown = frames.frame(size, first=page)
    assert [line.rstrip() for line in shown] == frames.kept(size, page).read_text("utf-8").splitlines()


def test_since_start():
    shown = frames.frame((80, 24), "w")
    assert "APIs, since start" in shown[4]
    assert shown[5].split() == words("API COUNT FAILED P50 P99 MAX P50 P99 MAX")
    assert shown[6].split()[:2] == ["Fetch", "204"]
    assert shown[0].endswith("w last minute  space hold  1-9 pages  ? keys  q quit")


def words(text):
    return text.split()


def names(*amounts, others=0, missed=0):
    return Ranking([(f"name-{number}", amount) for number, amount in enumerate(amounts)], others, missed)


def picture(**changes):
    """A frame with something in each panel."""
    spread = Spread(1 * MS, 5 * MS, 20 * MS, 300 * MS)
    queued = Spread(2 * MS, 5 * MS, 40 * MS, 12_000 * MS)
    result = TrafficResult(
        exchanges=6000,
        failed=12,
        bytes=10**7,
        connections=3,
        apis=[ApiResult("Fetch", 5400, 12, spread, queued), ApiResult("Heartbeat", 600, 0, spread, spread)],
        faults=Ranking([(Fault("Fetch", "NOT_LEADER_OR_FOLLOWER"), 12)]),
        topics=names(6_000_000, 60_000),
        clients=names(5400, 600),
        groups=names(600),
        names=NameCounts(1, 2, 2, 1),
    )
    line = {
        "client": {"ip": "10.0.0.1", "port": 40000, "id": "app"},
        "broker": {"ip": "10.0.0.9", "port": 9092},
        "kind": "kafka",
        "api": "Fetch",
        "api_key": 1,
        "api_version": 17,
        "latency_ms": 1.0,
    }
    made = Picture(
        title="eth0",
        running=3725,
        status=CaptureState(123_456, 98_765_432, 0, 0, 0, 7),
        rates=Rates(1234.5, 3_456_000, 100.4, 0.2),
        exchanges=1_234_567,
        failed=12,
        result=result,
        seconds=60,
        whole=False,
        api_rows=2,
        rows=[LastRow(f"12:34:{second:02}.000000000", line, Text("orders[0]")) for second in range(60)],
    )
    return made._replace(**changes)


def shown(width, height, **changes):
    return [line.plain for line in panels.lines(picture(**changes), width, height)]


def test_what_the_numbers_are():
    title, heads, now, whole, _, _, fetch, beat, *rest = map(str.split, shown(80, 24))
    assert title[:4] == ["kinspect", "live", "eth0", "1h"]
    assert heads == ["PACKETS", "BYTES", "EXCHANGES", "FAILED", "CONNECTIONS", "DROPPED"]
    assert now == words("a second 1.23 k 3.46 MB 100 0.20 7 open kernel 0")
    assert whole == words("in all 123,456 98.8 MB 1.23 M 12 3 Kafka queue 0")
    assert fetch == words("Fetch 90 12 1.00ms 20ms 300ms 2.00ms 40ms 12.0s")
    assert beat == words("Heartbeat 10 1.00ms 20ms 300ms 1.00ms 20ms 300ms")
    assert ["12", "Fetch", "NOT_LEADER_OR_FOLLOWER", "100", "kB/s", "name-0"] in rest
    assert ["90/s", "name-0", "10/s", "name-0"] in rest
    assert words("12:34:59 app Fetch v17 1.00ms orders[0]") == rest[-1]


PAGE = ShownPage(
    "groups", "23:12:11", 65, 1234, Text("GROUP  KIND"), [Text(f"line {number}") for number in range(40)], 3
)


@given(st.integers(1, 300), st.integers(1, 90), st.booleans(), st.sampled_from([None, PAGE]))
def test_every_line_has_the_width_of_the_terminal(width, height, whole, page):
    changes = {"whole": whole, "message": "something", "held": whole, "page": page}
    lines = panels.lines(picture(**changes), width, height)
    assert len(lines) == height
    assert {line.cell_len for line in lines} == {width}
    assert not any("\n" in line.plain for line in lines)


@pytest.mark.parametrize(
    ("height", "there", "missing"),
    [
        (24, ["APIs", "Failures", "Clients", "Last exchanges"], []),
        (14, ["APIs", "Failures", "Last exchanges"], ["Clients"]),
        (11, ["APIs", "Last exchanges"], ["Failures", "Clients"]),
        (8, ["APIs"], ["Last exchanges", "Failures", "Clients"]),
        (4, ["in all"], ["APIs"]),
    ],
)
def test_panels_give_way_to_more_important_ones(height, there, missing):
    text = "\n".join(shown(80, height))
    assert [name for name in (*there, *missing) if name in text] == there


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (80, "API A SECOND FAILED P50 P99 MAX P50 P99 MAX"),
        (72, "API A SECOND FAILED P50 P99 MAX P99 MAX"),
        (60, "API A SECOND FAILED P50 P99 MAX"),
        (40, "API A SECOND FAILED P50"),
        (24, "API A SECOND"),
    ],
)
def test_columns_give_way(width, columns):
    assert shown(width, 24)[5].split() == columns.split()


@pytest.mark.parametrize(
    ("width", "keys"),
    [
        (80, "w since start space hold 1-9 pages ? keys q quit"),
        (70, "space hold 1-9 pages ? keys q quit"),
        (60, "1-9 pages ? keys q quit"),
        (50, "? keys q quit"),
        (40, "q quit"),
        (30, ""),
    ],
)
def test_keys_give_way(width, keys):
    assert shown(width, 24)[0].split() == [*words("kinspect live eth0 1h 02m"), *keys.split()]


def test_drops_and_what_waits_are_told():
    lines = shown(80, 24, status=CaptureState(9, 9, 1_234, 56_789, 12_345_678, 3))
    assert "12.3 MB wait to be decoded" in lines[0]
    assert lines[2].rstrip().endswith("kernel 1,234")
    assert lines[3].rstrip().endswith("queue 56,789")


def test_what_has_no_room_is_added_up():
    result = picture().result
    apis = [ApiResult(f"Api{number}", 60, 1, Spread(), Spread()) for number in range(40)]
    clients = names(*[600] * 20, others=1200)
    result = result._replace(apis=apis, clients=clients, names=NameCounts(1, 2, 32, 1))
    lines = shown(80, 24, result=result)
    assert words("36 others 36 36") in map(str.split, lines)
    assert any("200/s 30 others" in line for line in lines)
    result = result._replace(clients=clients._replace(missed=7))
    assert any("≥10/s name-0" in line for line in shown(80, 24, result=result))


def test_nothing_yet():
    empty = TrafficResult(
        0, 0, 0, 0, [], Ranking([]), Ranking([]), Ranking([]), Ranking([]), NameCounts(0, 0, 0, 0)
    )
    lines = shown(80, 24, result=empty, rows=[], exchanges=0, api_rows=0)
    assert lines[6].strip() == "no exchange yet"
    assert sum(line.split()[:1] == ["none"] for line in lines) == 2


@pytest.mark.parametrize(
    "name", ["\x1b]0;title\x07", "\x9b31m", "\u202etxt", "[red]bold[/red]", "漢字" * 80, "a\nb"]
)
def test_hostile_names(name):
    result = picture().result
    ranking = Ranking([(name, 5)])
    result = result._replace(topics=ranking, clients=ranking, groups=ranking)
    for width, height in ((80, 24), (200, 60)):
        lines = panels.lines(picture(result=result, title=name, message=name), width, height)
        assert {line.cell_len for line in lines} == {width}
        assert all(line.plain.isprintable() for line in lines)
    if name.startswith("["):
        assert any(name in line.plain for line in lines)


def test_a_row_holds_nothing_of_the_messages():
    for exchange in kinspect.read(CAPTURES / "errors_java.pcap.gz"):
        line = exchange.to_dict()
        row = row_of(exchange, line, True)
        assert row.line["client"].keys() == {"ip", "port", "id", "name"}
        assert row.about.cell_len <= 400
        assert "request" not in row.line


@pytest.mark.parametrize(
    ("function", "number", "text"),
    [
        (wording.count, 999_999, "999,999"),
        (wording.count, 1_234_567, "1.23 M"),
        (wording.count, 10**30, "1000000000000 E"),
        (wording.rate, 0, "0"),
        (wording.rate, 0.001, "0.01"),
        (wording.rate, 0.996, "1.0"),
        (wording.rate, 9.96, "10"),
        (wording.rate, 999.6, "1.00 k"),
        (wording.rate, 1234, "1.23 k"),
        (wording.size, 999, "999 B"),
        (wording.size, 999.6, "1.00 kB"),
        (wording.size, 45_600_000, "45.6 MB"),
        (wording.duration, 59.9, "59s"),
        (wording.duration, 65, "1m 05s"),
        (wording.duration, 7380, "2h 03m"),
        (wording.duration, 363_600, "4d 05h"),
    ],
)
def test_units(function, number, text):
    assert function(number) == text


# ---------------------------------------------------------------------- when is drawn


KEYS = {
    **{
        f"\x1b{before}{letter}": key
        for before in "[O"
        for letter, key in zip("ABHF", (UP, DOWN, HOME, END), strict=True)
    },
    "\x1b[5~": PAGE_UP,
    "\x1b[6~": PAGE_DOWN,
    "\x1b[1~": HOME,
    "\x1b[4~": END,
    "\x1b[15~": "\x1b[15~",
    "\x1b[1;5A": "\x1b[1;5A",
}
"""What terminals send for keys; of those that the view does not know the same."""


class Clock:
    """A time that is set, and moves on while a frame is drawn."""

    def __init__(self):
        self.now = 5 * SECOND
        self.drawing = 0

    def __call__(self):
        return self.now


class Paper(frames.replay.Paper):
    def __init__(self, size, clock):
        super().__init__(size)
        self.clock = clock
        self.times = []

    def draw(self, lines):
        super().draw(lines)
        self.times.append(self.clock.now)
        self.clock.now += self.clock.drawing


def no_rows(counted):
    """The object of an answer about nothing."""
    names = LearnedNames()
    (found,) = counted.objects(Inspector().summary(), names, (None, None))
    return found


def view_on(paper, clock, quit=lambda: None):
    return LiveView(paper, "lo", quit, utc=True, clock=clock, wall=lambda: 83_531)


@pytest.mark.parametrize(("drawing", "least"), [(0, INTERVAL_NS), (50 * MS, 50 * MS * (REST + 1))])
def test_a_burst_is_drawn_at_most_so_often(drawing, least):
    clock = Clock()
    clock.drawing = drawing
    paper = Paper((80, 24), clock)
    view = view_on(paper, clock)
    exchanges = [*kinspect.read(CAPTURES / "errors_java.pcap.gz")]
    with view.at_work(CaptureState, no_rows):
        for number in range(5_000):
            view.take(exchanges[number % len(exchanges)])
            clock.now += SECOND // 1000
            view.flush()
    assert SECOND / least <= 10
    assert min(after - before for before, after in zip(paper.times, paper.times[1:], strict=False)) >= least
    assert len(paper.times) >= 5 * SECOND // least - 1
    assert any("5,000" in line.plain for line in paper.lines) or drawing


def test_keys():
    clock, stops = Clock(), []
    paper = Paper((80, 24), clock)
    view = view_on(paper, clock, lambda: stops.append(True))
    (first, second, *_) = kinspect.read(CAPTURES / "nano.pcap")

    def after(keys):
        paper.keys = keys
        clock.now += SECOND
        view.flush()
        return [line.plain for line in paper.lines]

    with view.at_work(CaptureState, no_rows):
        view.take(first)
        assert " on hold" in after(" ")[0]
        view.take(second)
        held = after("")
        assert (held[3].split()[5], "Metadata" in held[-1]) == ("2", False)
        assert "APIs, since start" in after("w")[4]
        going = after(" w")
        assert "Metadata" in "\n".join(going)
        assert "on hold" not in going[0]
        assert not stops
        after("xq")
        assert stops == [True]


class Pages:
    """A view whose exchanges come when a test says so, and what it shows."""

    def __init__(self):
        self.clock = Clock()
        self.paper = Paper((80, 24), self.clock)
        self.view = view_on(self.paper, self.clock)
        self.names = LearnedNames()
        self.asked = 0
        self.asking = 0
        self.options = []
        self.span = None, None

    def answered(self, counted):
        self.asked += 1
        self.clock.now += self.asking
        summary = Inspector(files=["lo"]).summary()
        return counted.objects(summary, self.names, self.span, self.options)[0]

    def after(self, keys="", exchanges=(), seconds=2):
        for exchange in exchanges:
            self.view.take(exchange)
        self.paper.keys = keys
        self.clock.now += seconds * SECOND
        self.view.flush()
        return [line.plain.rstrip() for line in self.paper.lines]


@pytest.fixture
def pages():
    made = Pages()
    with made.view.at_work(CaptureState, made.answered):
        yield made


ERRORS = [*kinspect.read(CAPTURES / "errors_java.pcap.gz")]


def test_a_page_has_the_rows_of_its_answer(pages):
    pages.paper.size = (120, 100)
    pages.span = ERRORS[0].key[0], ERRORS[-1].key[0]
    pages.after("6")
    lines = pages.after(exchanges=ERRORS)
    found = kinspect.answer("errors", CAPTURES / "errors_java.pcap.gz")
    parts = layout.parts(found, 120, Style(utc=True))
    expected = [
        line.rstrip()
        for part in parts
        if part.style != layout.NOTE and not part.plain.startswith("columns left out: ")
        for line in part.plain.splitlines()
    ]
    start = lines.index(expected[0])  # The names of all answers stand before it.
    assert lines[start : start + len(expected)] == expected
    assert not any(lines[start + len(expected) :])


@pytest.mark.parametrize(("key", "option"), [("4", "--group"), ("2", "--topic")])
def test_a_page_says_what_the_filter_left_out_that_its_command_would_count(pages, key, option):
    pages.paper.size = (120, 200)
    pages.options = [option]
    pages.after(key)
    said = f"only exchanges that name such a {option.strip('-')} were counted"
    assert said in pages.after("", ERRORS)
    pages.options = ["--client-id"]
    assert said not in pages.after()


@pytest.mark.parametrize(("key", "name"), OPENED.items())
def test_each_page_opens_and_the_overview_comes_back(pages, key, name):
    opened = pages.after(key, ERRORS)
    assert opened[6].startswith(f"{name}, 0 exchanges since 23:12:11 (0s) ─")
    assert opened[8] == "no exchange yet"
    assert opened[0].endswith("PgUp PgDn scroll  space hold  0 overview  ? keys  q quit")
    assert pages.after("", ERRORS)[6].startswith(f"{name}, {len(ERRORS)} exchanges since 23:12:11 (2s) ")
    assert "APIs, last minute" in pages.after("0")[4]


def test_a_page_counts_on_while_another_one_is_shown(pages):
    pages.after("2")
    pages.after("6", ERRORS)
    pages.after("0", ERRORS)
    lines = pages.after("2")
    assert lines[6].startswith(f"topics, {2 * len(ERRORS)} exchanges since 23:12:11 (6s) ")
    whole = kinspect.answer("topics", CAPTURES / "errors_java.pcap.gz")["rows"]
    small = [row for row in whole if row["topic"] == "pcerr-small" and row["client_id"] == "pc-err-oor"]
    line = next(line for line in lines if "pc-err-oor" in line)
    assert int(line.split()[3]) == 2 * sum(row["requests"] for row in small)


def test_connections_that_end_are_counted():
    lines = frames.frame((200, 60), first="3", capture="captures/4.4.0/sasl_plain.pcap.gz")
    titles, row = [
        re.split("  +", line.strip()) for line in lines if "  RESETS  " in line or "pc-ckc-plain" in line
    ]
    assert int(row[titles.index("RESETS")]) > 0


def test_a_page_scrolls_as_far_as_it_goes(pages):
    pages.after("6", seconds=1)
    first = pages.after("", ERRORS)
    (count,) = map(int, re.findall(r" 1–16 of (\d+)$", first[6]))
    assert pages.after("\x1b[B")[6].endswith(f" 2–17 of {count}")
    assert pages.after("\x1b[6~")[6].endswith(f" 18–33 of {count}")
    assert pages.after("\x1bOF")[6].endswith(f" {count - 15}–{count} of {count}")
    assert pages.after("\x1b[B\x1b[6~")[6].endswith(f" {count - 15}–{count} of {count}")
    assert pages.after("\x1b[5~\x1b[A")[6].endswith(f" {count - 32}–{count - 17} of {count}")
    last = pages.after("\x1b[H")
    assert last[7:] == first[7:]
    assert last[7].split()[0] == "ERROR"
    pages.after("\x1b[F")
    pages.paper.size = (80, 200)
    assert " of " not in pages.after()[6]


def test_a_page_goes_sideways_to_columns_that_have_no_room(pages):
    found = kinspect.answer("clients", CAPTURES / "errors_java.pcap.gz")
    titles, *_ = layout.parts(found, 10_000, Style(utc=True))
    pages.after("3")
    lines = pages.after("", ERRORS)
    first, seen = lines[7], [lines[7]]
    assert "  >: ADDRESS" in lines[6] or " >: ADDRESS" in lines[6]
    while ">: " in lines[6]:
        lines = pages.after("\x1b[C")
        assert "<: back" in lines[6]
        seen.append(lines[7])
    assert {*titles.plain.split()} == {*" ".join(seen).split()}
    assert pages.after(">>>")[7] == seen[-1]
    for _ in seen[1:]:
        lines = pages.after("\x1b[D")
    assert lines[7] == first
    assert pages.after("<")[7] == first


def test_the_keys_are_told_until_one_is_pressed(pages):
    before = pages.after("2", ERRORS)
    told = "\n".join(pages.after("?"))
    for key in ON_LIVE:
        assert re.search(f"^ *{re.escape(key.key)} +{re.escape(key.does)}$", told, re.MULTILINE)
    for key, name in OPENED.items():
        assert f"{key} {name}" in told
    assert pages.after("x")[4:6] == before[4:6]


def test_a_page_on_hold_stays_and_counts_on(pages):
    pages.after("6 ")
    held = pages.after("", ERRORS)
    assert " on hold" in held[0]
    assert held[6].startswith("errors, ")
    assert "UNKNOWN_TOPIC_OR_PARTITION" not in "\n".join(held)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in "\n".join(pages.after(" "))


def test_rows_that_take_long_are_looked_at_less_often_than_frames_are_drawn(pages):
    pages.after("6")
    pages.asking, pages.asked = SECOND // 2, 0
    pages.paper.times.clear()
    begin = pages.clock.now
    while pages.clock.now < begin + 20 * SECOND:
        pages.clock.now += SECOND // 20
        pages.view.flush()
    assert 3 <= pages.asked <= 5
    assert len(pages.paper.times) > 60


@pytest.mark.parametrize("name", ["\x1b]0;title\x07", "\u202etxt", "[red]bold[/red]", "漢字" * 80, "a\nb"])
def test_hostile_names_on_pages(name):
    row, *_ = kinspect.answer("groups", CAPTURES / "kip848.pcap.gz")["rows"]
    made = Pages()
    with made.view.at_work(
        CaptureState, lambda counted: {**no_rows(counted), "rows": [{**row, "group": name}]}
    ):
        made.after("4")
        made.after("", ERRORS)
    assert {line.cell_len for line in made.paper.lines} == {80}
    assert all(line.plain.isprintable() for line in made.paper.lines)
    assert "classic" in made.paper.lines[8].plain or "consumer" in made.paper.lines[8].plain


@given(st.lists(st.sampled_from([*map(chr, range(32, 127)), *KEYS]), max_size=20), st.data())
def test_keys_are_the_same_wherever_they_are_cut(keys, data):
    text = "".join(keys)
    at = data.draw(st.integers(0, len(text)))
    split = KeyReader()
    assert [*split.of(text[:at]), *split.of(text[at:])] == [KEYS.get(key, key) for key in keys]


def test_no_message_is_kept_from_one_block_to_the_next():
    clock = Clock()
    paper = Paper((80, 24), clock)
    view = view_on(paper, clock)
    exchanges = [*kinspect.read(CAPTURES / "errors_java.pcap.gz")]
    with view.at_work(CaptureState, no_rows):
        for exchange in exchanges * 3:
            view.take(exchange)
        view.flush()
        assert not view._pending
        assert len(view._rows) == ROWS


def test_large_messages_are_let_go_of_at_once(monkeypatch):
    clock = Clock()
    view = view_on(Paper((80, 24), clock), clock)
    exchanges = [*kinspect.read(CAPTURES / "errors_java.pcap.gz")]
    largest = max(exchange.response.size for exchange in exchanges if exchange.response is not None)
    monkeypatch.setattr("kinspect.tui.live.liveloop.ROW_AT_ONCE", largest)
    held = []
    for exchange in exchanges:
        view.take(exchange)
        held.append(len(view._pending))
    assert 0 in held[1:]
    assert max(held) > 1
    assert [row.line["api"] for row in view._rows] == [
        exchange.api for exchange in exchanges[: len(view._rows)]
    ]


def test_without_the_screen_nothing_is_drawn():
    clock = Clock()
    paper = Paper((80, 24), clock)
    view = view_on(paper, clock)
    view.flush()
    with view.at_work(CaptureState, no_rows):
        pass
    clock.now += SECOND
    view.flush()
    view.tell({"type": "summary"})
    assert paper.frames == 1


# ---------------------------------------------------------------------- what is written


class Pty:
    """A terminal that keeps what is written to it."""

    def __init__(self, encoding="utf-8"):
        self._controller, terminal = pty.openpty()
        self.resize(80, 24)
        self.stream = os.fdopen(terminal, "w", encoding=encoding)

    def resize(self, width, height):
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def written(self, encoding="utf-8"):
        """Output up to a pause."""
        found = b""
        while select.select([self._controller], [], [], 0.1)[0]:
            found += os.read(self._controller, 1 << 20)
        return found.decode(encoding)

    def close(self):
        self.stream.close()
        os.close(self._controller)


@pytest.fixture
def terminal():
    made = Pty()
    yield made
    made.close()


def lines_of(*texts):
    return [Text(text.ljust(80)) for text in texts]


def test_only_what_changed_is_written(terminal):
    screen = Screen(make_console(terminal.stream, "never"))
    with screen:
        assert terminal.written() == "\x1b[?1049h\x1b[?25l\x1b[?7l"
        screen.draw(lines_of("one", "two", "x" * 80))
        assert terminal.written() == (
            f"\x1b[?2026h\x1b[H\x1b[2J\x1b[1;1Hone\x1b[K\x1b[2;1Htwo\x1b[K\x1b[3;1H{'x' * 80}\x1b[?2026l"
        )
        screen.draw(lines_of("one", "2", "x" * 80))
        assert terminal.written() == "\x1b[?2026h\x1b[2;1H2\x1b[K\x1b[?2026l"
        terminal.resize(60, 15)
        assert screen.size == (60, 15)
        screen.draw(lines_of("one", "2"))
        assert terminal.written().startswith("\x1b[?2026h\x1b[H\x1b[2J\x1b[1;1Hone")
    assert terminal.written() == "\x1b[15;1H\x1b[?7h\x1b[?25h\x1b[?1049l"


@pytest.mark.parametrize(("color", "colored"), [("never", False), ("always", True)])
def test_colours(terminal, color, colored):
    screen = Screen(make_console(terminal.stream, color))
    with screen:
        screen.draw([Text("bad".ljust(80), style="bold red")])
    assert ("\x1b[1;31m" in terminal.written()) is colored


def test_no_color(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen(make_console(terminal.stream))
    with screen:
        screen.draw(panels.lines(picture(), 80, 24))
    assert not re.search(r"\x1b\[[\d;]*m", terminal.written())


def test_a_terminal_without_unicode():
    terminal = Pty("latin-1")
    with Screen(make_console(terminal.stream, "never")) as screen:
        screen.draw([Text("─ é 漢 …".ljust(80))])
    assert "\x1b[1;1H- é ? ." in terminal.written("latin-1")
    terminal.close()


def test_the_terminal_is_given_back_after_an_error(terminal):
    screen = Screen(make_console(terminal.stream, "never"))
    with pytest.raises(KeyboardInterrupt), screen:
        raise KeyboardInterrupt
    assert terminal.written().endswith("\x1b[?7h\x1b[?25h\x1b[?1049l")


class Broken(io.StringIO):
    """A stream that takes nothing any more."""

    def __init__(self, error):
        super().__init__()
        self.error = error
        self.broken = True

    def fileno(self):
        return -1

    @property
    def encoding(self):
        return "utf-8"

    def write(self, text):
        if self.broken:
            raise self.error
        return super().write(text)


@pytest.fixture
def keyboard(monkeypatch):
    """A terminal as standard input, that this process is in the foreground of."""
    controller, inside = pty.openpty()
    before = os.dup(0)
    os.dup2(inside, 0)
    monkeypatch.setattr("kinspect.tui.live.screen._is_ours", lambda _: True)
    yield inside
    os.dup2(before, 0)
    for descriptor in (controller, inside, before):
        os.close(descriptor)


def echoes(keyboard):
    return bool(termios.tcgetattr(keyboard)[3] & termios.ECHO)


@pytest.mark.parametrize("error", [OSError(5, "gone"), ValueError("closed file")], ids=["gone", "closed"])
@pytest.mark.parametrize("begun", [False, True], ids=["at its beginning", "later"])
def test_what_was_changed_is_put_back_where_nothing_can_be_written(keyboard, monkeypatch, error, begun):
    errors = io.StringIO()
    errors.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", errors)
    handlers = [signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)]
    stream = Broken(error)
    stream.broken = not begun
    screen = Screen(make_console(stream, "never"))
    with pytest.raises(type(error)), screen:  # noqa: PT012 - the end of the block is what is looked at
        assert not echoes(keyboard)
        stream.broken = True
        print("told", file=sys.stderr)
        screen.draw(lines_of("one"))
    assert echoes(keyboard)
    assert sys.stderr is errors
    assert errors.getvalue() == "told\n" * begun
    assert [signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)] == handlers


def test_an_end_without_a_terminal_or_errors_to_write_to(keyboard, monkeypatch):
    errors = Broken(OSError(5, "gone"))
    errors.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", errors)
    stream = Broken(OSError(5, "gone"))
    stream.broken = False
    with Screen(make_console(stream, "never")):
        print("told", file=sys.stderr)
        stream.broken = True
    assert echoes(keyboard)


def test_it_is_drawn_anew_when_it_comes_back(terminal, keyboard):
    screen = Screen(make_console(terminal.stream, "never"))
    with screen:
        screen.draw(lines_of("one"))
        terminal.written()
        changed = termios.tcgetattr(keyboard)
        changed[3] |= termios.ECHO | termios.ICANON
        termios.tcsetattr(keyboard, termios.TCSANOW, changed)
        os.kill(os.getpid(), signal.SIGCONT)
        assert screen.pressed() == ""
        assert not echoes(keyboard)
        screen.draw(lines_of("one"))
        assert (
            terminal.written()
            == "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2026h\x1b[H\x1b[2J\x1b[1;1Hone\x1b[K\x1b[?2026l"
        )
    assert echoes(keyboard)


def test_what_is_said_meanwhile_comes_afterwards(terminal, monkeypatch):
    errors = io.StringIO()
    errors.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", errors)
    screen = Screen(make_console(terminal.stream, "never"))
    with screen:
        print("first\nsecond", file=sys.stderr)
        assert errors.getvalue() == ""
        assert screen.said == "second"
    assert errors.getvalue() == "first\nsecond\n"


def test_errors_in_a_file_are_written_at_once(terminal, monkeypatch):
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    with Screen(make_console(terminal.stream, "never")) as screen:
        print("told", file=sys.stderr)
        assert errors.getvalue() == "told\n"
        assert screen.said == ""


@pytest.mark.parametrize(("width", "height"), [*product((80, 200), (24, 60))])
def test_a_whole_frame_on_a_real_size(terminal, width, height):
    terminal.resize(width, height)
    screen = Screen(make_console(terminal.stream, "never"))
    with screen:
        screen.draw(panels.lines(picture(), *screen.size))
    text = terminal.written()
    assert text.count("\x1b[1;1H") == 1
    assert re.search(
        rf"\x1b\[{height};1H12:34:59.* orders\[0\]\x1b\[K\x1b\[\?2026l$",
        text.partition("\x1b[?7l")[2].partition("\x1b[?2026h")[2].partition("2026l")[0] + "2026l",
    )
    assert f"\x1b[{height + 1};" not in text
