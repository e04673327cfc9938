"""Pages of answers, key by key: each shows what the command prints, over the exchanges that are listed."""

import asyncio
import os
import select
import signal
import threading
import time
from array import array

import pytest
from analysis.runs import fetch_of_a_topic_without_a_name
from support.answered import objects_of
from support.hostile import dangerous, hostile
from support.shares import one_in
from support.tui import CAPTURES, ERRORS, indexed

import kinspect
from kinspect.answers import definition_of, layout
from kinspect.errors import KinspectError
from kinspect.kafka.view.view import iso_time
from kinspect.output import Style
from kinspect.tui.index import answerprocess
from kinspect.tui.index.answerprocess import AnswerProcess
from kinspect.tui.index.counting import count, query_for
from kinspect.tui.index.filterline import parse_filter
from kinspect.tui.index.indexer import Inputs
from kinspect.tui.index.reread import StoppedError
from kinspect.tui.index.spool import Spool
from kinspect.tui.keybindings import PAGE_KEYS
from kinspect.tui.screens.main import ON_LIST, ON_PAGE
from kinspect.tui.widgets.linelist import Lines

GROUPS = CAPTURES / "4.4.0" / "groups_classic.pcap.gz"
TRANSACTIONS = CAPTURES / "4.4.0" / "txn_java.pcap.gz"
CLUSTER = CAPTURES / "4.4.0" / "cluster_kraft.pcap.gz"
LOGINS = CAPTURES / "4.4.0" / "sasl_plain.pcap.gz"
CONTROLLER = CAPTURES / "2.8.2" / "controller-2brokers.pcap.gz"
GUTTER = 1


def printed(found, width):
    """The lines that the command prints, but for those that say what to type next, or to see all columns."""
    lines = [part.plain for part in layout.page(found, width, Style(utc=True))]
    shown = [whole for whole in lines if not whole.startswith(("next: ", "columns left out: "))]
    return [line for whole in shown for line in whole.split("\n")]


@pytest.mark.big
@pytest.mark.parametrize(
    ("path", "width"), [pytest.param(TRANSACTIONS, 80, marks=pytest.mark.big), (LOGINS, 200)]
)
def test_a_page_shows_what_the_command_prints(explore, path, width):
    found = objects_of(path)
    exchanges = found["summary"]["capture"]["exchanges"]

    async def script(explorer):
        for name, key in PAGE_KEYS.items():
            rows, _ = definition_of(name).split(found[name]["rows"])
            if rows:
                await explorer.press(key)
                text = explorer.read().splitlines()
                expected = printed(found[name], width - GUTTER)
                assert text[1 : len(expected) + 1] == expected
                assert f"{name} 1/{len(rows)} rows" in explorer.status()
                assert width < 200 or f"  all {exchanges} exchanges" in explorer.status()

    explore(script, path, size=(width, 60))


def lists(widget=Lines):
    yield widget
    for below in widget.__subclasses__():
        yield from lists(below)


def test_no_list_takes_the_key_of_a_page():
    taken = {key for widget in lists() for binding in widget.BINDINGS for key in binding.key.split(",")}
    assert taken & {"enter", "up"}
    assert not taken & {*PAGE_KEYS.values()}


@pytest.mark.big
def test_a_page_without_rows_has_no_titles_of_the_page_before(explore):
    async def script(explorer):
        await explorer.press("7")
        assert "RELEASES" in explorer.read()
        await explorer.press("8")
        assert "RELEASES" not in explorer.read()

    explore(script, ERRORS)


def test_a_page_without_rows_says_so(explore):
    async def script(explorer):
        await explorer.press("8", "enter", "down", "right")
        text = explorer.read()
        assert "no client authenticated by SASL" in text
        assert "auth 0/0 rows" in text

    explore(script, TRANSACTIONS)


FILTERED = "client-id=pc-jv* api=Fetch,JoinGroup"


@pytest.mark.parametrize("name", one_in(4, ["topics", "groups", "latency", "clients"]))
def test_a_page_counts_what_the_filter_passes(explore, name):
    found = kinspect.answer(name, GROUPS, filter=parse_filter(FILTERED))
    passed = sum(1 for _ in kinspect.read(GROUPS, filter=parse_filter(FILTERED)))

    async def script(explorer):
        await explorer.press(PAGE_KEYS[name])
        assert explorer.main.page.rows.sheet.rows == found["rows"]
        assert f"{passed} of 671 exchanges pass the filter" in explorer.read()

    explore(script, GROUPS, text=FILTERED, size=(120, 40))


NOTE = "only exchanges that name such a group were counted"


@pytest.mark.big
@pytest.mark.parametrize("text", ["group=pc-grp-java", "group=none"], ids=["rows", "nothing"])
def test_a_page_says_that_exchanges_without_the_group_were_not_counted(explore, text):
    async def script(explorer):
        await explorer.press("4")
        assert NOTE in explorer.read()
        committed = [row["committed"].values() for row in explorer.main.page.rows.sheet.rows]
        assert {each["lag"] for of_group in committed for each in of_group} <= {None}

    explore(script, GROUPS, text=text, size=(120, 40))


@pytest.mark.big
def test_a_page_says_so_of_a_group_that_is_followed(explore):
    async def script(explorer):
        main = explorer.main
        await explorer.press("4")
        assert NOTE not in explorer.read()
        await explorer.press("g", "4")
        assert main.selection.group == main.page.rows.sheet.rows[0]["group"]
        assert NOTE in explorer.read()

    explore(script, GROUPS, size=(120, 60))


def test_another_filter_counts_anew_on_the_page(explore):
    async def script(explorer):
        await explorer.press("2", "slash")
        explorer.main.filter_bar.input.value = "client-id=pc-err-big"
        await explorer.press("enter")
        (row,) = explorer.main.page.rows.sheet.rows
        assert row["client_id"] == "pc-err-big"
        assert explorer.main.page.rows.has_focus
        await explorer.press("e")
        assert "1 of 95 exchanges pass the filter  errors only (e)" in explorer.read()
        await explorer.press("0", "e")
        assert explorer.main.exchanges.has_focus
        listed = sum(1 for _ in kinspect.read(ERRORS, filter={"client_id": "pc-err-big"}))
        assert f"1/{listed} of 95 exchanges" in explorer.read()

    explore(script, ERRORS, size=(120, 30))


NARROWED = {
    "topics": (TRANSACTIONS, 1, "topic=pc-txout client-id=pc-jt-read_uncommitted client-host=127.0.0.1"),
    "clients": (ERRORS, 0, "client-id=pc-err-fence client-host=127.0.0.1"),
    "groups": (GROUPS, 0, "group=pc-grp-librdkafka-coop"),
    "latency": (TRANSACTIONS, 1, "api=AddPartitionsToTxn"),
    "errors": (
        ERRORS,
        0,
        "api=Metadata client-id=pc-err-unk client-host=127.0.0.1 error=UNKNOWN_TOPIC_OR_PARTITION",
    ),
    "brokers": (CLUSTER, 0, "broker-host=127.0.0.1 port=39091,39101"),
    "auth": (LOGINS, 0, "api=Sasl* client-id=pc-ckbad-plain client-host=127.0.0.1"),
    "transactions": (TRANSACTIONS, 0, "client-id=pc-open"),
    "connect": (CAPTURES / "connect" / "idle_java.pcap.gz", 0, "client-host=10.77.1.2"),
    "upgrade": (GROUPS, 1, "client-id=pc-ck-1 client-host=127.0.0.1"),
}


@pytest.mark.parametrize("name", one_in(10, [*NARROWED]))
def test_enter_lists_the_exchanges_of_a_row_and_escape_goes_back_to_it(explore, name):
    path, place, text = NARROWED[name]
    orders = {exchange.order for exchange in kinspect.read(path, filter=parse_filter(text))}
    assert orders

    async def script(explorer):
        main = explorer.main
        await explorer.press(PAGE_KEYS[name])
        rows = main.page.rows
        rows.move_to(rows.sheet.place(place))
        await explorer.press("enter")
        assert main.selection.text == f"since=+0s {text}"
        assert main.selection.text in explorer.read().splitlines()[0]
        assert main.exchanges.has_focus
        assert {row + 1 for row in main.selection.listing.passed} == orders
        await explorer.press("escape")
        assert (main.pages.shown, rows.place, main.selection.text) == (name, place, "since=+0s")
        await explorer.press("escape")
        assert (main.pages.shown, main.exchanges.has_focus) == (None, True)
        assert "since=+0s" in explorer.read().splitlines()[0]

    explore(script, path, text="since=+0s", size=(120, 40))


def of_session(exchange):
    """Names and ids of the topics that a fetch session stands for."""
    return {text for topic in exchange.session_topics for text in topic}


@pytest.mark.big
def test_enter_on_a_topic_lists_exchanges_from_before_its_name_was_told(explore):
    row = next(row for row in kinspect.answer("topics", CLUSTER)["rows"] if row["topic"] == "pc-rep-x")
    name, topic_id, client = row["topic"], row["topic_id"], row["client_id"]
    of_client = [exchange for exchange in kinspect.read(CLUSTER) if exchange.client_id == client]
    named = {
        exchange.order
        for exchange in of_client
        if {name, topic_id} & {*exchange.summary.topics, *exchange.summary.topic_ids, *of_session(exchange)}
    }
    assert any(topic_id in exchange.summary.topics for exchange in of_client)

    async def script(explorer):
        await explorer.press("2")
        rows = explorer.main.page.rows
        rows.move_to(rows.sheet.place(rows.sheet.rows.index(row)))
        await explorer.press("enter")
        assert f"topic={name},{topic_id} client-id={client}" in explorer.main.selection.text
        assert {place + 1 for place in explorer.main.selection.listing.passed} == named

    explore(script, CLUSTER, size=(120, 40))


def test_enter_on_a_topic_without_a_name_finds_nothing(explore, tmp_path):
    capture = fetch_of_a_topic_without_a_name(tmp_path)

    async def script(explorer):
        await explorer.press("2")
        assert '""' in explorer.read()
        await explorer.press("enter")
        assert explorer.said() == ["no filter finds the exchanges of this row"]
        assert explorer.main.pages.shown == "topics"

    explore(script, capture)


def test_enter_on_a_finding_opens_its_page(explore):
    async def script(explorer):
        await explorer.press("1", "enter")
        assert explorer.main.pages.shown == "brokers"

    explore(script, ERRORS)


@pytest.mark.big
def test_a_row_s_filters_take_the_place_of_those_of_the_same_names(explore):
    async def script(explorer):
        await explorer.press("2", "enter")
        assert explorer.main.selection.text == (
            "api=Produce topic=pcerr-small client-id=pc-err-big client-host=127.0.0.1"
        )
        # A filter written by hand is not given up for that of the page.
        await explorer.press(
            "slash", "end", *["backspace"] * len(" client-host=127.0.0.1"), "enter", "escape"
        )
        assert explorer.main.pages.shown is None
        assert explorer.main.selection.text.endswith("client-id=pc-err-big")

    explore(script, ERRORS, text="api=Produce topic=pcerr-*")


@pytest.mark.big
def test_lines_below_a_row_unfold(explore, monkeypatch):
    monkeypatch.setattr("kinspect.tui.index.answerlines.PRINTED", layout.PRINTED._replace(details=1))
    (row,) = kinspect.answer("groups", GROUPS, filter={"group": "pc-grp-java"})["rows"]
    reason = "".join(row["rebalances"][-1]["reason"].split())

    async def script(explorer):
        await explorer.press("4")
        assert reason not in "".join(explorer.read().split())
        await explorer.press("right")
        assert reason in "".join(explorer.read().split())
        await explorer.press("down", "down", "left")
        assert reason not in "".join(explorer.read().split())
        assert explorer.main.page.rows.cursor == 0

    explore(script, GROUPS, text="group=pc-grp-java")


@pytest.mark.big
@pytest.mark.parametrize("width", [50, 60, 80])
@pytest.mark.parametrize("name", ["groups", "clients"])
def test_columns_without_room_are_named_and_shown_sideways(explore, name, width):
    found = kinspect.answer(name, GROUPS)
    titles, *_ = layout.parts(found, 10_000, Style(utc=True))

    async def script(explorer):
        shown = []
        await explorer.press(PAGE_KEYS[name])
        first = explorer.read().splitlines()[1]
        sheet = explorer.main.page.rows.sheet
        while sheet.beside:
            assert ">: " + sheet.beside[0] in explorer.status()
            following = sheet.beside
            await explorer.press("greater_than_sign")
            line = explorer.read().splitlines()[1]
            assert line.split()[0] == first.split()[0]
            assert all(title in line for title in following if len(title) < width // 3)
            shown.append(line)
        assert {*titles.plain.split()} == {*" ".join([first, *shown]).split()} - {"…"}
        assert ">:" not in explorer.status()
        for _ in shown:
            assert "<: back" in explorer.status()
            await explorer.press("less_than_sign")
        assert explorer.read().splitlines()[1] == first
        assert "<: back" not in explorer.status()

    explore(script, GROUPS, size=(width, 24))


def test_the_summary_says_what_the_captures_hold(explore):
    expected = next(layout.page(kinspect.answer("summary", GROUPS), 80, Style(utc=True))).plain

    async def script(explorer):
        await explorer.press("1")
        assert explorer.read().splitlines()[1] == expected
        await explorer.press("2")
        assert expected not in explorer.read()

    explore(script, GROUPS)


def test_the_keys_of_the_list_have_no_effect_on_a_page(explore):
    async def script(explorer):
        await explorer.press(
            "2", "l", "f", "c", "w", "p", "x", "z", "r", "tab", "right_square_bracket", "space"
        )
        assert explorer.app.screen is explorer.main
        assert explorer.main.pages.shown == "topics"
        assert explorer.main.selection.listing.order.key == "completion"
        assert explorer.said() == []
        await explorer.press("slash", "escape", "3", "q")
        assert not explorer.app.is_running

    explore(script, TRANSACTIONS)


@pytest.mark.parametrize("size", one_in(5, [(80, 24), (30, 12), (97, 24), (120, 40), (160, 9)]))
def test_the_last_lines_have_whole_keys_alone(explore, size):
    width, height = size

    def whole(names):
        return [word for short in names.values() for word in short.name.split()]

    async def script(explorer):
        for key, names in (("0", ON_LIST), ("2", ON_PAGE)):
            await explorer.press(key)
            lines = explorer.keys()
            keys = " ".join(lines)
            shown = [word for word in keys.split() if len(word) > 1 and word[0].isalpha() and "-" not in word]
            assert shown == whole(names)[: len(shown)]
            assert max(map(len, lines)) <= width
            assert len(lines) <= max(height // 10, 1)
            assert width < 80 or "? All keys" in keys

    explore(script, ERRORS, size=size)


@pytest.mark.big
def test_every_page_is_in_the_last_lines_of_a_small_terminal(explore):
    async def script(explorer):
        await explorer.press("1")
        keys = " ".join(explorer.keys())
        for name, key in PAGE_KEYS.items():
            assert f"{key} {name.capitalize()}" in keys
        await explorer.press("question_mark")
        assert "Pages of answers" in explorer.read().splitlines()[1]

    explore(script, ERRORS, size=(80, 24))


@pytest.mark.big
def test_the_mouse_on_a_page(explore):
    async def script(explorer):
        main = explorer.main
        keys = explorer.keys()[0]
        await explorer.pilot.click("KeyLine", offset=(keys.index("Answers"), 0))
        await explorer.rest()
        keys = explorer.keys()[0]
        await explorer.pilot.click("KeyLine", offset=(keys.index("Topics"), 0))
        await explorer.rest()
        for _ in range(2):
            await explorer.pilot.click(main.page.rows, offset=(5, 1))
            await explorer.rest()
        assert main.selection.text.startswith("topic=pc-txout client-id=pc-jt-read_uncommitted")

    explore(script, TRANSACTIONS, size=(120, 24))


@pytest.mark.big
def test_what_a_capture_says_is_text_on_pages(explore, tmp_path):
    path = tmp_path / "[bold]evil\x1b[0m.pcap"
    path.write_bytes(hostile())
    seen = []

    async def script(explorer):
        for key in PAGE_KEYS.values():
            await explorer.press(key, "right")
            seen.append(explorer.read())
            await explorer.press("end", "home", "enter")
            seen.append(explorer.read())
            await explorer.press("escape", "0")

    explore(script, path, size=(200, 40))
    assert dangerous("\n".join(seen)) == set()


@pytest.mark.big
def test_a_page_that_is_left_is_not_counted_further(explore, monkeypatch):
    seen = []

    def slow(_, question, stopped, tell):
        tell(0.5)
        while not stopped():
            pass
        seen.append(question.name)
        raise StoppedError

    async def script(explorer):
        monkeypatch.setattr(AnswerProcess, "answer", slow)
        await explorer.pilot.press("2")
        while "counting 50%" not in explorer.read():
            await asyncio.sleep(0)
        assert "counting all 95 exchanges" in explorer.read()
        await explorer.press("escape")
        assert "1/95 exchanges" in explorer.read()
        monkeypatch.undo()
        await explorer.press("3")
        assert "clients 1/16 rows" in explorer.read()

    explore(script, ERRORS)
    assert seen == ["topics"]


@pytest.mark.big
def test_what_goes_wrong_is_told_on_the_page(explore, monkeypatch):
    def broken(*_):
        raise KinspectError("of all things")

    def unexpected(*_):
        raise LookupError("who knows")

    async def script(explorer):
        for answer, told in (
            (broken, "of all things"),
            (unexpected, "internal error: LookupError('who knows')"),
        ):
            monkeypatch.setattr(AnswerProcess, "answer", answer)
            await explorer.press("2")
            assert told in explorer.read()
            assert "topics not counted" in explorer.read()
            await explorer.press("0")
        monkeypatch.undo()
        await explorer.press("2")
        assert "topics 1/8 rows" in explorer.read()
        assert [type(failure) for failure in explorer.app.failures] == [LookupError]
        explorer.app.failures.clear()

    explore(script, ERRORS)


@pytest.mark.big
def test_the_key_of_a_page_that_could_not_be_counted_tries_again(explore, monkeypatch):
    tried = []

    def broken(*_):
        tried.append(True)
        raise KinspectError(f"try {len(tried)}")

    async def script(explorer):
        monkeypatch.setattr(AnswerProcess, "answer", broken)
        await explorer.press("2", "2")
        assert "try 2" in explorer.read()
        monkeypatch.undo()
        await explorer.press("2")
        assert "topics 1/8 rows" in explorer.read()

    explore(script, ERRORS)


@pytest.mark.big
def test_the_key_of_a_page_that_is_being_counted_does_not_begin_anew(explore, monkeypatch):
    asked, go_on = [], threading.Event()
    answer = AnswerProcess.answer

    def waits(*arguments):
        asked.append(True)
        go_on.wait()
        return answer(*arguments)

    async def script(explorer):
        monkeypatch.setattr(AnswerProcess, "answer", waits)
        explorer.main.action_page("topics")
        explorer.main.action_page("topics")
        await explorer.pilot.pause()
        shown = explorer.read()
        go_on.set()
        await explorer.rest()
        assert "counting all 95 exchanges" in shown
        assert "topics 1/8 rows" in explorer.read()
        assert len(asked) == 1

    explore(script, ERRORS)


@pytest.mark.big
def test_a_capture_that_changed_is_told(explore, plain):
    path = plain(ERRORS)

    async def script(explorer):
        path.write_bytes(path.read_bytes()[:20_000])
        await explorer.press("2")
        assert "did they change meanwhile?" in explorer.read()

    explore(script, path, size=(120, 24))


@pytest.fixture
def read_once(monkeypatch):
    """Captures as if they came through a pipe: answers are counted over the spool."""
    monkeypatch.setattr(Inputs, "can_reread", False)


def counted(store, name, rows=None):
    """A page's object over the first rows of a store."""
    rows = store.count if rows is None else rows
    found, lost = count(
        store.inputs, store.spool, query_for(store, name, array("I", range(rows)), rows), lambda _: None
    )
    assert lost == 0
    return found


@pytest.mark.parametrize(
    "path", one_in(3, [CONTROLLER, CLUSTER, TRANSACTIONS]), ids=lambda path: path.name.split(".")[0]
)
def test_an_answer_over_the_spool_is_what_the_command_gives(read_once, path):
    store = indexed(path)
    for name in PAGE_KEYS:
        found, expected = counted(store, name), kinspect.answer(name, path)
        assert found["rows"] == expected["rows"], name
        # Nothing has the time of the last packet here, but that of the last exchange.
        assert {**found["capture"], "until": None} == {**expected["capture"], "until": None}, name


def test_an_answer_over_the_spool_ends_with_the_exchanges_it_is_about(read_once):
    store = indexed(TRANSACTIONS)
    until = store.exchange(49).completed_at
    assert counted(store, "topics", 50)["capture"]["until"] == iso_time(until)


PIECE_BYTES, PIECE_SECONDS = 16 * 1024, 0.05


class Piped:
    """A capture that comes through a pipe, the rest of it when `go_on` is called."""

    def __init__(self, folder, capture, first):
        self.path = folder / "pipe"
        os.mkfifo(self.path)
        self._halves = capture[:first], capture[first:]
        self._goes_on = threading.Event()
        self.go_on = self._goes_on.set
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self):
        before = self._halves[0]
        with self.path.open("wb", buffering=0) as file:
            # What came is listed when more comes, and some time went by.
            for place in range(0, len(before), PIECE_BYTES):
                file.write(before[place : place + PIECE_BYTES])
                time.sleep(PIECE_SECONDS)
            self._goes_on.wait()
            file.write(self._halves[1])


@pytest.fixture
def piped(plain, tmp_path):
    """A capture that can be read only once; `first`: the part of it that comes at once."""

    def make(path, first=1.0):
        capture = plain(path).read_bytes()
        folder = tmp_path / "once"
        folder.mkdir()
        return Piped(folder, capture, int(first * len(capture)))

    return make


@pytest.mark.big
def test_pages_of_what_can_be_read_only_once(explore, piped):
    pipe = piped(GROUPS)
    pipe.go_on()
    placeless = {"slowest": None, "frames": None}  # frames are those of another file

    async def script(explorer):
        for name, key in PAGE_KEYS.items():
            await explorer.press(key)
            rows, _ = definition_of(name).split(kinspect.answer(name, GROUPS)["rows"])
            sheet = explorer.main.page.rows.sheet
            shown = [] if sheet is None else sheet.rows
            assert [row | placeless for row in shown] == [row | placeless for row in rows]

    explore(script, pipe.path)


@pytest.mark.big
def test_a_page_says_that_more_came_and_counts_anew_at_its_key_and_at_the_end(explore, piped):
    pipe = piped(GROUPS, 0.5)

    async def until(condition):
        while not condition():
            await asyncio.sleep(0.001)

    async def script(explorer):
        main, store = explorer.main, explorer.app.store
        await until(lambda: store.count)
        await explorer.press("5")
        await until(lambda: " rows " in explorer.read())
        counted = sum(row["count"] for row in main.page.rows.sheet.rows)
        assert f"all {counted} exchanges" in explorer.read()
        store.count += 1
        main.show_state()
        assert "more came: 5 counts anew" in " ".join(explorer.read().split())
        store.count -= 1
        pipe.go_on()
        await until(lambda: store.done and main.is_at_rest)
        assert sum(row["count"] for row in main.page.rows.sheet.rows) == 671
        assert "all 671 exchanges" in explorer.read()

    explore(script, pipe.path, ends=False, size=(120, 40))


def test_exchanges_whose_bytes_were_not_kept_are_told(piped):
    pipe = piped(ERRORS)
    pipe.go_on()
    store = indexed(pipe.path, limit=20_000)
    assert 0 < store.refused < store.count
    process = AnswerProcess(store.inputs, store.spool)
    found, lost = process.answer(
        query_for(store, "latency", array("I", range(store.count)), store.count), lambda: False, print
    )
    process.end()
    assert lost == store.refused
    assert sum(row["count"] for row in found["rows"]) == 95 - lost


def test_a_process_ends_when_nobody_waits_for_its_answer(monkeypatch, tmp_path):
    """Its number comes through a file: it has none of this process's pipes open."""
    told = tmp_path / "number"

    def endless(inputs, spool, question, tell):
        told.write_text(str(os.getpid()))
        while True:
            tell(0.5)

    monkeypatch.setattr(answerprocess, "count", endless)
    store = indexed(ERRORS)
    process = AnswerProcess(store.inputs, store.spool)
    parts = []
    with pytest.raises(StoppedError):
        process.answer(query_for(store, "topics", array("I"), 0), lambda: len(parts) > 1, parts.append)
    try:
        ended = os.pidfd_open(int(told.read_text()))
    except ProcessLookupError:
        pass
    else:
        select.select([ended], [], [])
        os.close(ended)
    assert parts[0] == 0.5
    process.end()
    process.end()
    with pytest.raises(KinspectError, match="the process that counts was ended by SIGKILL"):
        process.answer(query_for(store, "topics", array("I"), 0), lambda: False, print)


def test_an_unexpected_error_of_a_process_is_told(monkeypatch):
    def broken(*_):
        raise LookupError("of all things")

    monkeypatch.setattr(answerprocess, "count", broken)
    process = AnswerProcess(Inputs([str(ERRORS)]), Spool())
    with pytest.raises(KinspectError, match="internal error: LookupError"):
        process.answer(query_for(indexed(ERRORS), "topics", array("I"), 0), lambda: False, print)
    process.end()


def test_of_a_process_that_is_killed_it_is_told_and_the_next_one_counts(monkeypatch, tmp_path):
    killed = tmp_path / "killed"

    def once(*arguments):
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return count(*arguments)

    monkeypatch.setattr(answerprocess, "count", once)
    store = indexed(ERRORS)
    process = AnswerProcess(store.inputs, store.spool)
    question = query_for(store, "topics", array("I", range(store.count)), store.count)
    with pytest.raises(
        KinspectError, match="the process that counts was ended by SIGKILL, as when memory runs"
    ):
        process.answer(question, lambda: False, print)
    assert len(process.answer(question, lambda: False, lambda _: None).found["rows"]) == 8
    process.end()


def test_the_process_that_waits_for_questions_holds_no_pipe_of_others_open():
    reader, writer = os.pipe()
    process = AnswerProcess(Inputs([str(ERRORS)]), Spool())
    # It is there, and has closed what it inherited, once it has answered.
    process.answer(query_for(indexed(ERRORS), "topics", array("I"), 0), lambda: False, lambda _: None)
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)
    process.end()
