"""The explorer, key by key."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from support.hostile import dangerous, hostile
from support.screen import Screen
from support.shares import one_in
from support.tui import CAPTURES, ERRORS, NANO, keylog

import kinspect
from kinspect.capture.source import STDIN
from kinspect.errors import KinspectError
from kinspect.kafka.view.view import View
from kinspect.output import table
from kinspect.tui.index.filterline import NAMES
from kinspect.tui.index.listing import RowOrder

TALL = (130, 40)


def test_the_list_is_there(explore):
    async def script(explorer):
        text = explorer.read()
        assert "1/4 exchanges" in text
        for told in ("ApiVersions v3", "Metadata v13", "Produce v10", "1.18ms", "pc-v6[0]", "pc-nano"):
            assert told in text

    explore(script, NANO)


def test_the_slowest_exchange_and_its_bytes(explore):
    slowest = max(kinspect.read(ERRORS), key=lambda exchange: exchange.latency_ns or 0)
    head = " ".join(f"{byte:02x}" for byte in slowest.request.raw[:8])

    async def script(explorer):
        await explorer.press("l", "enter")
        text = explorer.read()
        assert f"#{slowest.order} {slowest.api}" in text
        assert head in text
        assert "group_id pcerr-fg" in text

    explore(script, ERRORS)


@pytest.mark.big
def test_slow_answers_stand_before_waits_that_were_asked_for(explore):
    async def script(explorer):
        listing = explorer.main.selection.listing
        for key, order in (("L", "slow"), ("y", "wait")):
            await explorer.press(key)
            assert listing.order == RowOrder(order, True)
            waits = [listing.store[listing[place]].wait for place in range(len(listing))]
            asked_for = [wait in ("long_poll", "group_wait") for wait in waits if wait]
            assert asked_for == sorted(asked_for)
            assert {True, False} == {*asked_for}
        assert "WAIT▼" in explorer.read()
        await explorer.press("L")
        assert "LATENCY▼" in explorer.read()
        waits = [listing.store[listing[place]].wait for place in range(len(listing))]
        place = waits.index("long_poll")
        row = explorer.main.exchanges.draw(place)
        at = row.plain.index(table.latency(listing.store.line(listing[place])["latency_ms"]).plain)
        assert [str(span.style) for span in row.spans if span.start <= at < span.end] == ["dim"]

    explore(script, CAPTURES / "4.4.0" / "groups_classic.pcap.gz", size=(170, 30))


def test_a_field_leads_to_its_bytes_and_a_byte_to_its_field(explore):
    async def script(explorer):
        await explorer.press("l", "enter", "down", "down", "down", "down")
        main = explorer.main
        assert main.details.fields.node.key == "correlation_id"
        assert main.details.hex.field == (4, 8)
        await explorer.press("tab", "down", "right")
        assert main.details.hex.has_focus
        assert (main.details.hex.at, main.details.fields.node.key) == (13, "client_id")
        assert main.details.hex.field == (8, 22)
        await explorer.press("r")
        assert main.details.fields.node.key == "response"
        assert main.details.hex.message.direction == "response"
        await explorer.press("r", "escape")
        assert main.details.fields.node.key == "request"
        assert main.exchanges.has_focus

    explore(script, ERRORS)


def test_the_next_exchange_without_going_back(explore):
    async def script(explorer):
        await explorer.press("enter", "right_square_bracket", "right_square_bracket")
        assert "#3 ApiVersions" in explorer.read()
        await explorer.press("left_square_bracket")
        assert "#2 Metadata" in explorer.read()

    explore(script, NANO)


@pytest.mark.parametrize(
    ("text", "listed"), [("api=Produce", 1), ("--topic 'pc-v6' --api !Produce", 1), ("", 4)]
)
def test_filters(explore, text, listed):
    async def script(explorer):
        await explorer.press("slash")
        explorer.main.filter_bar.input.value = text
        await explorer.press("enter")
        assert f"/{listed}" in explorer.read()
        assert explorer.main.exchanges.has_focus

    explore(script, NANO)


def test_a_wrong_filter_is_said_in_one_line_and_changes_nothing(explore):
    async def script(explorer):
        await explorer.press("slash")
        await explorer.write("apis=1")
        await explorer.press("enter")
        lines = explorer.read().splitlines()
        assert "there is no filter 'apis'" in lines[1]
        assert "1/4 exchanges" in lines[-2]
        await explorer.press("backspace", *["backspace"] * 5, "enter")
        assert "there is no" not in explorer.read()

    explore(script, NANO)


def test_a_filter_left_with_escape_gives_way_to_the_one_that_is_applied(explore):
    async def script(explorer):
        bar = explorer.main.filter_bar
        await explorer.press("slash")
        await explorer.write("api=Fetch")
        await explorer.press("enter")
        listed = len(explorer.main.selection.listing)
        for written in ("errors-only", " apis=1"):
            await explorer.press("slash", "end")
            await explorer.write(written)
            await explorer.press("escape")
            assert bar.input.value == "api=Fetch"
            assert explorer.main.exchanges.has_focus
            assert len(explorer.main.selection.listing) == listed

    explore(script, NANO)


def test_a_wrong_filter_left_with_escape_is_not_said_any_more(explore):
    async def script(explorer):
        await explorer.press("slash")
        await explorer.write("apis=1")
        await explorer.press("enter")
        assert "there is no filter" in explorer.read()
        await explorer.press("escape")
        assert "there is no filter" not in explorer.read()
        assert explorer.main.filter_bar.input.value == ""

    explore(script, NANO)


@pytest.mark.big
def test_the_order_by_time_is_that_of_the_time_shown(explore):
    async def script(explorer):
        def times():
            return [line.split()[0] for line in explorer.read().splitlines()[2:-2]]

        assert explorer.main.selection.listing.order == RowOrder("completion")
        assert "STARTED " in explorer.read().splitlines()[1]
        completed = times()
        await explorer.press("t")
        assert "STARTED▲" in explorer.read().splitlines()[1]
        assert times() == sorted(times()) != completed
        await explorer.press("t")
        assert times() == sorted(times(), reverse=True)
        await explorer.press("o")
        assert times() == completed

    explore(script, CAPTURES / "4.4.0/cluster_kraft.pcap.gz", size=(160, 24))


def test_tab_completes(explore):
    async def script(explorer):
        await explorer.press("slash")
        await explorer.write("to")
        await explorer.press("tab")
        assert explorer.main.filter_bar.input.value == "topic="
        assert "pc-v6" in explorer.read().splitlines()[1]
        await explorer.press("tab", "enter")
        assert "1/2 of 4 exchanges" in explorer.read()

    explore(script, NANO)


def test_errors_only_and_one_connection(explore):
    async def script(explorer):
        await explorer.press("e")
        assert "of 95 exchanges  errors only (e)" in explorer.read()
        await explorer.press("e", "end", "f")
        first = explorer.main.selection.listing
        connection = explorer.app.store[first[0]].connection
        assert 0 < len(first) < 95
        assert all(explorer.app.store[first[place]].connection == connection for place in range(len(first)))
        await explorer.press("f")
        assert "/95 exchanges" in explorer.read()

    explore(script, ERRORS)


def test_the_filters_of_the_command_line_are_those_it_begins_with(explore):
    async def script(explorer):
        assert "1/2 of 4 exchanges" in explorer.read()
        assert explorer.main.filter_bar.input.value == "topic=pc-v6"

    explore(script, NANO, text="topic=pc-v6")


def test_nothing_passes(explore):
    async def script(explorer):
        assert "0/0 of 4 exchanges" in explorer.read()
        assert "no exchange passes" in explorer.read()
        for key in (
            "enter",
            "c",
            "w",
            "p",
            "x",
            "f",
            "f",
            "space",
            "r",
            "l",
            "right_square_bracket",
            "escape",
        ):
            await explorer.press(key)
        assert "of 4 exchanges" in explorer.read()

    explore(script, NANO, text="api=Fetch", size=TALL)


def test_both_on_a_tall_screen(explore):
    async def script(explorer):
        text = explorer.read()
        assert "Produce v10" in text
        assert "request_api_key 18 (ApiVersions)" in text
        await explorer.press("down")
        assert "#2 Metadata v13" in explorer.read()
        await explorer.press("z")
        assert "CLIENT ID" not in explorer.read()
        await explorer.press("z")
        assert "CLIENT ID" in explorer.read()

    explore(script, NANO, size=TALL)


def test_the_mouse(explore):
    async def script(explorer):
        main = explorer.main
        await explorer.pilot.click(main.exchanges, offset=(5, 3))
        await explorer.rest()
        assert main.exchanges.cursor == 3
        assert "#4 Produce" in explorer.read()
        line = next(
            place for place, node in enumerate(main.details.fields.fields.lines) if node.key == "timeout_ms"
        )
        await explorer.pilot.click(main.details.fields, offset=(12, line))
        await explorer.rest()
        assert main.details.hex.field == (21, 25)
        # The third byte of the first line.
        await explorer.pilot.click(main.details.hex, offset=(2 + 4 + 1 + 6, 0))
        await explorer.rest()
        assert main.details.fields.node.key == "request_api_version"
        await explorer.pilot.click("Titles", offset=(85, 0))
        await explorer.rest()
        assert main.selection.listing.order.key == "latency"
        keys = explorer.keys()
        line = next(number for number, text in enumerate(keys) if "Slowest" in text)
        await explorer.pilot.click("KeyLine", offset=(keys[line].index("Slowest"), line))
        await explorer.rest()
        assert main.selection.listing.order == RowOrder("latency", False)

    explore(script, NANO, size=TALL)


def test_records_are_hidden_and_shown(explore):
    async def hidden(explorer):
        await explorer.press("end", "enter", "z")
        text = explorer.read()
        assert "·· ··" in text
        assert "nano-0" not in text
        await explorer.press("question_mark")
        assert "--payload text shows" in explorer.read() or explorer.app.screen.query("VerticalScroll")

    async def shown(explorer):
        await explorer.press("end", "enter", "z")
        text = explorer.read()
        assert "··" not in text
        assert "nano-0" in text

    explore(hidden, NANO, size=TALL)
    explore(shown, NANO, size=(130, 100), view=View(records=True, payload="text"))


def test_copy_as_json(explore):
    copied = []

    async def script(explorer):
        explorer.app.copy_to_clipboard = copied.append
        await explorer.press("c", "space", "space", "c")

    explore(script, NANO)
    expected = [exchange.to_dict(View(records=True)) for exchange in kinspect.read(NANO)]
    assert [json.loads(line) for line in copied[0].splitlines()] == expected[:1]
    assert [json.loads(line) for line in copied[1].splitlines()] == expected[:2]


def test_files_are_written_once_and_for_their_owner(explore, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("mine")

    async def script(explorer):
        await explorer.press("space", "w", "enter", "p", "enter", "w")
        explorer.app.screen.query_one("Input").value = "there"
        await explorer.press("enter")
        refused = explorer.app.screen.query_one("#refused")
        assert "there: exists; give another name" in str(refused.render())
        # The prompt is still there: what is typed goes into it.
        explorer.app.screen.query_one("Input").value = "no/where"
        await explorer.press("enter")
        assert "no: no such folder" in str(refused.render())
        await explorer.press("escape")

    explore(script, NANO, size=TALL)
    (line,) = (tmp_path / "exchanges.jsonl").read_text().splitlines()
    assert json.loads(line)["api"] == "ApiVersions"
    (saved,) = kinspect.read(tmp_path / "exchanges.pcapng")
    assert (saved.api, saved.latency_ns) == ("ApiVersions", next(iter(kinspect.read(NANO))).latency_ns)
    assert (tmp_path / "exchanges.pcapng").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "there").read_text() == "mine"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("w", "exchanges.jsonl"),
        pytest.param("p", "exchanges.pcapng", marks=pytest.mark.big),
        pytest.param("c", None, marks=pytest.mark.big),
    ],
)
def test_what_cannot_be_read_any_more_is_neither_written_nor_said_to_be(
    explore, plain, tmp_path, monkeypatch, key, name
):
    """The second of two marked exchanges is not there any more."""
    path = plain(CAPTURES / "4.4.0" / "errors_java.pcap.gz")
    monkeypatch.chdir(tmp_path)
    copied = []

    async def script(explorer):
        explorer.app.copy_to_clipboard = copied.append
        await explorer.press("space", "space")
        exchange = explorer.app.store.exchange

        def missing(row, *rest):
            if row:
                raise KinspectError("it is gone")
            return exchange(row, *rest)

        def unsaved(*_):
            raise KinspectError("it is gone")

        explorer.app.store.exchange = missing
        monkeypatch.setattr("kinspect.tui.index.export.save", unsaved)
        await explorer.press(*([key, "enter"] if name else [key]))
        assert "it is gone" in explorer.said()
        assert not re.search("wrote|saved|copied", " ".join(explorer.said()))

    explore(script, path, size=TALL)
    assert copied == []
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


@pytest.mark.big
def test_the_filter_for_tshark(explore):
    async def script(explorer):
        await explorer.press("end", "x")
        assert "tshark -r" in explorer.read()
        assert "tcp.port == 51674" in explorer.app.screen._text
        await explorer.press("escape")
        assert explorer.app.screen is explorer.main

    explore(script, NANO, size=TALL)


@pytest.mark.big
def test_saved_packets_of_tls_are_said_to_need_the_key_log(explore, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = CAPTURES / "tls" / "tls13.pcap.gz"

    async def script(explorer):
        await explorer.press("end", "p", "enter")
        (told,) = explorer.said()
        assert "TLS stays encrypted and the secrets are not in it" in told
        assert "--keylog" in told

    explore(script, path, keylog=keylog(path))


@pytest.mark.parametrize("size", one_in(3, [(80, 24), (40, 10), TALL]))
def test_help_names_every_key(explore, size):
    async def script(explorer):
        await explorer.press("question_mark")
        assert "The slowest exchange and its bytes" in explorer.read()
        await explorer.press("escape")
        bound = {binding[1].key for binding in explorer.main._bindings}
        assert bound >= set("tlbfercwpxszq") | {"slash", "question_mark", "tab", "escape"}

    explore(script, NANO, size=size)


@pytest.mark.big
def test_the_help_page_says_where_there_is_more_of_it(explore):
    async def script(explorer):
        await explorer.press("question_mark")
        last = explorer.read().splitlines()[-1]
        assert ("▼ more" in last, "▲ more" in last) == (True, False)
        await explorer.press("end")
        last = explorer.read().splitlines()[-1]
        assert ("▼ more" in last, "▲ more" in last) == (False, True)

    async def whole(explorer):
        await explorer.press("question_mark")
        assert "Esc: back" in explorer.read()
        assert "more" not in explorer.read().replace("no more", "")

    explore(script, NANO)
    explore(whole, NANO, size=(100, 80))


@pytest.mark.parametrize("width", [80, 120])
def test_what_is_cut_in_the_list_says_so(explore, width):
    async def script(explorer):
        lines = [line for line in explorer.read().splitlines() if "MESSAGE_TOO_LARGE" in line]
        assert lines[0].rstrip(" █▁▂▃▄▅▆▇").endswith("…")

    explore(script, ERRORS, size=(width, 24), text="errors-only")


@pytest.mark.big
def test_several_captures_are_counted_and_the_one_of_the_exchange_is_named(explore):
    async def script(explorer):
        status = explorer.status()
        assert "exchanges in 2 captures" in status
        assert ("errors_java.pcap.gz" in status, "nano.pcap" in status) == (True, False)
        await explorer.press("enter")
        assert re.search(r"request \d+ bytes, frame \d+ of errors_java.pcap.gz", explorer.read())
        await explorer.press("escape")
        await explorer.press("slash")
        explorer.main.filter_bar.input.value = "topic=pc-v6"
        await explorer.press("enter")
        assert "nano.pcap" in explorer.status()

    explore(script, NANO, ERRORS, size=(200, 24))


def test_what_could_not_be_read_is_said(explore):
    async def script(explorer):
        assert "no such file" in explorer.read()
        assert "ends in the middle" in explorer.read() or "0/60" in explorer.read().replace("1/60", "0/60")

    explore(script, CAPTURES / "variants" / "cutfile.pcap", Path("missing.pcap"), size=(250, 40))


@pytest.mark.big
def test_a_spool_that_is_full(explore):
    async def script(explorer):
        assert "spool full" in explorer.read()
        await explorer.press("end", "enter")
        assert "request_api_key" in explorer.read(), "it was read once more"

    explore(script, ERRORS, size=(180, 24), limit=3000)


@pytest.mark.big
@pytest.mark.parametrize("size", one_in(2, [(80, 24), TALL]))
def test_what_a_capture_says_is_text(explore, tmp_path, size):
    path = tmp_path / "[bold]evil\x1b[0m.pcap"
    path.write_bytes(hostile())
    seen = []

    async def script(explorer):
        def look():
            seen.append(explorer.read())

        look()
        for fields in (12, 3, 3, 3):
            await explorer.press("enter")
            look()
            for _ in range(fields):
                await explorer.press("down")
                look()
            await explorer.press("r", "x")
            look()
            await explorer.press("escape", "c")
            look()
            await explorer.press("w")
            explorer.app.screen.query_one("Input").value = str(tmp_path)
            await explorer.press("enter")
            look()
            await explorer.press("escape", "escape", "down")
        await explorer.press("slash")
        for name in ("topic=", "group=", "client-id="):
            explorer.main.filter_bar.input.value = name
            await explorer.press("tab")
            look()
        await explorer.press("enter")
        look()

    explore(script, path, size=size)
    whole = "\n".join(seen)
    assert dangerous(whole) == set()
    assert r"\x1b]0;owned\x07[red]x[/red]:smile:\u202egnp" in whole


@pytest.mark.parametrize(
    ("keys", "broken"),
    [
        (("l", "enter"), "kinspect.tui.control.loader.ExchangeFields"),
        (("c",), "kinspect.tui.index.export.json_line"),
        pytest.param(("w", "enter"), "kinspect.tui.index.export.json_line", marks=pytest.mark.big),
        pytest.param(("p", "enter"), "kinspect.tui.index.export.save", marks=pytest.mark.big),
    ],
    ids=["read", "copy", "write", "save"],
)
def test_what_nobody_expected_is_said_and_kept(explore, tmp_path, monkeypatch, keys, broken):
    monkeypatch.chdir(tmp_path)
    failures = []

    async def script(explorer):
        def fails(*_):
            raise LookupError("of all things")

        monkeypatch.setattr(broken, fails)
        await explorer.press(*keys)
        assert "internal error: LookupError('of all things')" in explorer.said()
        assert keys[0] != "l" or "internal error: LookupError('of" in explorer.read()
        monkeypatch.undo()
        await explorer.press("escape", "down", "enter")
        assert "#" in explorer.read(), "it goes on"
        failures.extend(explorer.app.failures)

    explore(script, NANO)
    assert [type(failure) for failure in failures] == [LookupError]
    assert [*tmp_path.iterdir()] == []


def test_the_line_below_the_fields_tells_nothing_of_the_exchange_before(explore, monkeypatch):
    async def script(explorer):
        def fails(*_):
            raise LookupError("of all things")

        assert "bytes 0–64 (64)" in explorer.read()
        monkeypatch.setattr("kinspect.tui.control.loader.ExchangeFields", fails)
        await explorer.press("down")
        text = explorer.read()
        assert "internal error: LookupError" in text
        assert "bytes 0–64" not in text

    explore(script, NANO, size=TALL)


@pytest.mark.big
@pytest.mark.parametrize("debug", [(), ("--debug",)], ids=["", "debug"])
@pytest.mark.parametrize("broken", one_in(3, ["Explorer._take", "Main.show_state", "Exporter.write"]))
def test_the_command_tells_what_nobody_expected(tmp_path, debug, broken):
    """In one line, once the terminal is given back; where it was with --debug alone, without what variables held."""
    code = f"""
import sys
from kinspect.tui.app import Explorer
from kinspect.tui.screens.main import Main
import kinspect.tui.index.export
def fails(*_):
    secret = "of all " * 2
    raise LookupError("things")
if {broken!r} == "Exporter.write":
    kinspect.tui.index.export.json_line = fails
else:
    {broken} = fails
from kinspect.cli import main
sys.exit(main([*{debug!r}, "explore", {str(NANO)!r}]))
"""
    terminal = Screen(tmp_path, sys.executable, "-c", code)
    if broken == "Exporter.write":
        terminal.until(b"Produce")
        os.write(terminal.controller, b"w")
        terminal.until(b"exchanges.jsonl")
        os.write(terminal.controller, b"\r")
        terminal.until(b"internal error")
        os.write(terminal.controller, b"q")
    told = terminal.rest()
    assert terminal.status() == 1
    told = told.rpartition(b"\x1b[?1004l")[2].decode()
    assert "kinspect: internal error: LookupError('things')" in told
    assert told.count("Traceback") == len(debug)
    assert "of all of all" not in told
    assert debug or len(told.splitlines()) == 1


NO_KAFKA = "No Kafka found."


@pytest.mark.parametrize(
    ("names", "told", "untold"),
    [
        (["not-kafka/http.pcap.gz"], [NO_KAFKA, " 0 Kafka, ", " other", "--decode-as PORT"], ["--keylog"]),
        (["tls/tls13.pcap.gz"], [NO_KAFKA, " TLS (", "--keylog FILE"], ["--decode-as"]),
        (
            ["not-kafka/emptypcap.pcap"],
            ["0 packets, 0 bytes in 1 file", NO_KAFKA, "No connection has"],
            ["--"],
        ),
        (
            ["not-kafka/garbage.pcap", "4.4.0/none.pcap"],
            ["nothing could be read", "no such file"],
            [NO_KAFKA],
        ),
        (
            ["not-kafka/http.pcap.gz", "4.4.0/none.pcap"],
            [NO_KAFKA, "in 1 file, 1 could not be read", "no such file"],
            ["2 files"],
        ),
    ],
    ids=["other", "tls", "empty", "unreadable", "one of two unreadable"],
)
@pytest.mark.parametrize("size", one_in(2, [(80, 24), TALL]))
def test_an_empty_list_says_what_the_captures_hold(explore, names, told, untold, size):
    async def script(explorer):
        text = " ".join(explorer.read().split())
        assert [part for part in told if part not in text] == []
        assert [part for part in untold if part in text] == []
        await explorer.press("l", "down", "enter", "escape")

    explore(script, *(CAPTURES / name for name in names), size=size)


def test_an_empty_list_before_anything_was_read(explore, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDWR), "wb"):
        told = []

        async def script(explorer):
            told.append(explorer.read())
            await explorer.press("s")
            told.append(explorer.read())

        explore(script, pipe, ends=False)
    assert "no exchange yet" in told[0]
    assert "the reading was ended before the first exchange" in told[1]


@pytest.mark.parametrize(
    "keys",
    one_in(3, [(), ("enter",), ("slash",), ("question_mark",), ("x",), ("w", "end")]),
    ids="-".join,
)
def test_ctrl_c_ends_it_as_q_does(explore, keys):
    """From the list, the fields, the filter, and what lies above them."""

    async def script(explorer):
        await explorer.press(*keys)
        await explorer.pilot.press("ctrl+c")
        await explorer.pilot.pause()
        assert not explorer.app.is_running
        assert (explorer.app.return_code, explorer.said()) == (0, [])

    explore(script, NANO)


def test_ctrl_c_copies_what_is_selected(explore):
    copied = []

    async def script(explorer):
        explorer.app.copy_to_clipboard = copied.append
        await explorer.press("slash")
        await explorer.write("api=Fetch")
        await explorer.press("shift+home", "ctrl+c")
        assert explorer.app.is_running
        assert copied == ["api=Fetch"]

    explore(script, NANO)


@pytest.mark.parametrize("interface", [None, "eth0"], ids=["pipe", "live"])
def test_packets_that_were_not_kept_are_refused_at_the_key(explore, interface):
    async def script(explorer):
        # As if the same had come through a pipe, which cannot be read again.
        inputs = explorer.app.store.inputs
        inputs.paths[0], inputs.interface = STDIN, interface
        await explorer.press("p")
        assert explorer.app.screen is explorer.main
        (told,) = explorer.said()
        assert "not kept" in told
        assert ("-w/--save" in told) is (interface is not None)

    explore(script, NANO)


SMALL = (80, 24)


@pytest.mark.big
def test_the_line_of_numbers_says_where_it_is_cut(explore):
    async def script(explorer):
        line = explorer.status()
        assert "exchanges in 8 captures" in line
        assert (len(line), line[-1]) == (79, "…")

    # Between words, where it could break.
    paths = [CAPTURES / "4.4.0" / name for name in ("nano.pcap", "franz.pcap.gz")] * 4
    explore(script, *paths, text="client-id=nobody", size=SMALL)


def test_all_filters_are_named_where_there_is_none_of_a_name(explore):
    async def script(explorer):
        await explorer.press("slash")
        await explorer.write("apis=1")
        await explorer.press("enter")
        text = " ".join(explorer.read().split())
        assert f"there are {', '.join(NAMES)}" in text

    explore(script, NANO, size=SMALL)


def test_escape_closes_the_errors_of_inputs(explore, monkeypatch):
    monkeypatch.chdir(CAPTURES / "4.4.0")

    async def script(explorer):
        assert "none.pcap: no such file (Esc)" in explorer.read()
        await explorer.press("enter", "escape")
        assert "none.pcap" in explorer.read()
        await explorer.press("escape")
        assert "none.pcap" not in explorer.read()
        # As does every change of the list.
        explorer.app.screen.show_state()
        assert "none.pcap" not in explorer.read()

    explore(script, NANO, "none.pcap", size=SMALL)


@pytest.mark.big
@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["none.pcap"], "none.pcap: no such file"),
        (["none.pcap", "neither.pcap"], "2 inputs could not be read: "),
        (["none.pcap", "../variants/cutfile.pcap"], "2 inputs could not be read, or not to their end: "),
        (["../variants/cutfile.pcap"] * 2, "2 inputs could not be read to their end: "),
        ([f"none-{number}.pcap" for number in range(6)], "; and 3 more"),
    ],
)
def test_all_inputs_that_could_not_be_read_are_on_the_screen(explore, monkeypatch, names, told):
    monkeypatch.chdir(CAPTURES / "4.4.0")

    async def script(explorer):
        text = " ".join(explorer.read().partition("ABOUT")[2].split())
        assert told in text
        assert [name for name in names[:3] if name not in text] == []
        assert "1/" in explorer.status()

    explore(script, NANO, *names, size=SMALL)


def test_fields_and_bytes_have_room_on_the_smallest_terminal(explore):
    async def script(explorer):
        await explorer.press("enter")
        assert "request" in explorer.read()
        assert " 00 12 " in explorer.read()

    explore(script, NANO, size=(40, 12))
