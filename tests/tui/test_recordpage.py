"""The page of records: it shows what `kinspect records` prints, and leads to the fields and bytes of each."""

import json
from array import array

import pytest
from support.hostile import dangerous
from support.shares import one_in
from support.tui import CAPTURES, NANO, indexed

import kinspect
from kinspect.kafka.view.view import View
from kinspect.tui.index import recordpage
from kinspect.tui.index.counting import count, query_for
from kinspect.tui.index.filterline import ALL_NAMES, NAMES
from kinspect.tui.index.shownpayloads import ShownPayloads

TRANSACTIONS = CAPTURES / "4.1.2" / "txn_java.pcap.gz"
TEXT = View(records=True, payload="text")


def rows_of(path, exchange=None):
    """The rows of a capture, or of the exchange of that number."""
    rows = [*kinspect.records_of(path, payload="text", control=True)]
    if exchange is None:
        return rows
    event_id = next(each.to_dict()["event_id"] for each in kinspect.read(path) if each.order == exchange)
    return [row for row in rows if row["event_id"] == event_id]


def shown(explorer):
    """The rows of the page, with the keys that `kinspect records` has too."""
    return [{key: row[key] for key in recordpage.KEPT} for row in explorer.main.page.rows.sheet.rows]


def kept(rows):
    return [{key: row[key] for key in recordpage.KEPT} for row in rows]


@pytest.mark.parametrize("path", one_in(2, [NANO, TRANSACTIONS]), ids=["nano", "transactions"])
def test_each_row_leads_to_its_record_among_the_fields(explore, path):
    rows = rows_of(path)

    async def script(explorer):
        main = explorer.main
        await explorer.press("k")
        assert shown(explorer) == kept(rows)
        assert f"records 1/{len(rows)} rows" in explorer.status()
        assert f"{rows[0]['timestamp'][11:23]}  {rows[0]['direction']}" in explorer.read().splitlines()[2]
        for place in {0, len(rows) // 2, len(rows) - 1}:
            main.page.rows.move_to(place)
            row = main.page.rows.row
            await explorer.press("enter")
            fields = main.details.fields
            record = fields.node
            assert fields.has_focus
            assert record.open
            assert [record.value[key] for key in ("key", "value", "key_size")] == [
                row[key] for key in ("key", "value", "key_size")
            ]
            assert main.details.hex.field == (record.start, record.end)
            raw = main.details.hex.message.raw[record.start : record.end]
            assert row["value"].encode() in raw or row["control"]
            await explorer.press("escape")
            assert (main.pages.shown, main.page.rows.place) == ("records", place)
        await explorer.press("escape")
        assert main.exchanges.has_focus

    explore(script, path, view=TEXT)


@pytest.mark.big
def test_keys_and_values_are_hidden_and_searched_all_the_same(explore):
    async def script(explorer):
        main = explorer.main
        await explorer.press("slash")
        await explorer.write("key=k7")
        await explorer.press("enter")
        (row,) = main.page.rows.sheet.rows
        assert (row["offset"], row["key"], row["value"]) == (77, None, None)
        assert explorer.read().splitlines()[2].endswith("2 B  6 B")
        assert "key=k7" in explorer.read().splitlines()[0]
        await explorer.press("enter")
        assert "not show" in explorer.read()
        assert "key=k7" not in explorer.read()
        await explorer.press("escape")
        assert "records 1/1 rows" in explorer.status()
        assert "key=k7" in explorer.read()
        await explorer.press("escape")
        assert (main.selection.text, main.filter_bar.input.value) == ("", "")
        for text, told in (
            ("offset=70..71 direction=produce", "records 1/2 rows"),
            ("value=re:nano-1.$", "records 1/10 rows"),
            ("api=Metadata key=*", "no record found in what passes the filter"),
            ("key=re:(", "is no regular expression"),
        ):
            main.filter_bar.input.focus()
            main.filter_bar.input.value = text
            await explorer.press("enter")
            assert told in " ".join(explorer.read().split())

    explore(script, NANO)


def test_records_of_an_exchange_and_back_to_its_fields(explore):
    async def script(explorer):
        main = explorer.main
        produced = next(
            place for place in range(51) if main.exchanges.listing.store.line(place)["api"] == "Produce"
        )
        main.exchanges.move_to(produced)
        await explorer.press("enter", "k")
        assert shown(explorer) == kept(rows_of(TRANSACTIONS, produced + 1))
        assert f"exchange #{produced + 1}" in explorer.status()
        await explorer.press("k", "down", "enter", "escape")
        assert main.page.rows.place == 1
        await explorer.press("escape")
        assert (main.pages.shown, main.details.fields.has_focus) == (None, True)
        await explorer.press("escape", "k")
        assert len(shown(explorer)) == len(rows_of(TRANSACTIONS))

    explore(script, TRANSACTIONS, view=TEXT)


@pytest.mark.big
def test_records_of_a_topic_and_back_to_its_row(explore):
    async def script(explorer):
        main = explorer.main
        await explorer.press("2", "down", "k")
        topic = "topic=txn_java-out client-id=txn_java-writer client-host=127.0.0.1"
        assert main.selection.text == topic
        wanted = [row for row in rows_of(TRANSACTIONS) if row["client_id"] == "txn_java-writer"]
        assert shown(explorer) == kept(wanted)
        assert {row["transaction"] for row in shown(explorer)} == {"committed", "aborted"}
        await explorer.press("escape", "escape")
        assert (main.pages.shown, main.page.rows.place, main.selection.text) == ("topics", 1, "")

    explore(script, TRANSACTIONS, view=TEXT)


@pytest.mark.big
def test_a_fetch_of_several_topics_has_those_of_the_filter_alone(explore):
    path = CAPTURES / "4.4.0" / "cluster_kraft.pcap.gz"
    topics = {row["topic"] for row in rows_of(path)} - {None}
    assert len(topics) > 1

    async def script(explorer):
        await explorer.press("k")
        assert {row["topic"] for row in shown(explorer)} == {min(topics)}

    explore(script, path, text=f"topic={min(topics)}")


def test_rows_that_there_is_no_room_for_are_told(explore, monkeypatch):
    monkeypatch.setattr(recordpage, "ROWS_KEPT", 15)

    async def script(explorer):
        await explorer.press("k")
        assert len(shown(explorer)) == 15
        assert "15 rows, no room for 5 more" in explorer.status()

    explore(script, NANO)


def test_what_a_record_says_is_text(explore, tmp_path):
    path = tmp_path / "evil.pcap"
    evil = "\x1b[2J\x07\x00"
    path.write_bytes(
        NANO.read_bytes().replace(b"nano-7", evil.encode()).replace(b"pc-nano", b"\x1b[2J\xe2\x80\xae")
    )

    async def script(explorer):
        await explorer.press("k")
        assert evil in [row["value"] for row in shown(explorer)]
        texts = [explorer.read()]
        explorer.main.page.rows.move_to(7)
        await explorer.press("enter")
        texts.append(explorer.read())
        assert "\\x1b[2J\\x07\\x00" in texts[0]
        assert dangerous("\n".join(texts)) == set()

    explore(script, path, view=TEXT, size=(120, 30))


def test_what_can_be_read_only_once_has_no_outcomes():
    store = indexed(TRANSACTIONS)
    own = {"given": {}, "payload": "text", "show_secrets": False, "start": store.start, "whole": False}
    query = query_for(store, "records", array("I", range(store.count)), store.count, own=own)
    rows, found = (
        rows_of(TRANSACTIONS),
        count(store.inputs, store.spool, query, lambda part: None).found["rows"],
    )
    assert [(row["topic"], row["offset"], row["key"]) for row in found] == [
        (row["topic"], row["offset"], row["key"]) for row in rows
    ]
    assert {row["transaction"] for row in found} == {"none", None}


def test_the_line_offers_filters_of_records(explore):
    async def script(explorer):
        await explorer.press("slash")
        await explorer.write("directio")
        await explorer.press("tab", "tab")
        assert explorer.main.filter_bar.input.value == "direction=consume"

    explore(script, NANO)
    assert {"key", "value", "header"} <= {*ALL_NAMES} - {*NAMES}


ORDERS = CAPTURES.parent / "tests/payloads/data/orders.pcap"
SCHEMAS = ORDERS.with_name("schemas.jsonl")


@pytest.mark.big
@pytest.mark.usefixtures("payload_libraries")
def test_payloads_are_decoded_by_their_schemas_on_the_page_and_among_the_fields(explore):
    wanted = [*kinspect.records_of(ORDERS, payload="auto", schema_registry=SCHEMAS, control=True)]
    by_encoding = {
        row["value_encoding"]: place for place, row in enumerate(wanted) if isinstance(row["value"], dict)
    }
    decoded = [*by_encoding.values()]
    assert decoded
    payloads = ShownPayloads("auto", str(SCHEMAS))

    async def script(explorer):
        main = explorer.main
        await explorer.press("k")
        rows = main.page.rows.sheet.rows
        assert [row["value_encoding"] for row in rows] == [row["value_encoding"] for row in wanted]
        assert json.loads(rows[decoded[0]]["value"]) == wanted[decoded[0]]["value"]
        for place in decoded:
            main.page.rows.move_to(place)
            await explorer.press("enter")
            record = main.details.fields.node
            for name in ("key", "value", "headers", "value_encoding", "value_schema"):
                assert record.value.get(name) == wanted[place][name]
            await explorer.press("escape")
        main.page.rows.move_to(decoded[0])
        await explorer.press("enter")
        start, end = main.details.hex.field
        await explorer.press("ctrl+f")
        main.details.find_bar.value = "2026-11-21T06:43"
        await explorer.press("enter")
        assert main.details.fields.node.path.endswith(".value.at")
        first, last = main.details.hex.field
        assert start <= first < last <= end
        assert "Åsa".encode() in main.details.hex.message.raw[first:last]
        assert "▾ value" in explorer.read()

    try:
        explore(script, ORDERS, payloads=payloads, size=(120, 40))
    finally:
        payloads.close()
