"""Exchanges before and after address translation: told, and counted once."""

import json
import re
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
from support.answered import objects
from support.islands import ALL, CAPTURES
from support.packets import Packet, moved, packets
from support.pcap import pcap
from support.shares import one_in
from support.tui import indexed

import kinspect as package
from kinspect.analysis.metrics import KafkaMetrics
from kinspect.answers import answers
from kinspect.answers.connectanswer import PROBLEMS
from kinspect.filters.filter import filter_from
from kinspect.filters.natcopies import OTHER_ADDRESSES, PLACES_KEPT, TRANSLATIONS_KEPT, NatCopies
from kinspect.tables.request import Request
from kinspect.tui.index.listfilter import ListFilter

LATER_NS = 5_000
GROUPS = "4.4.0/groups_classic.pcap.gz"


def translated(taken: list[Packet]) -> list[Packet]:
    """Each packet, and a little later again with other addresses."""
    return [
        each
        for packet in taken
        for each in (packet, moved(packet, 1, hops=1)._replace(time=packet.time and packet.time + LATER_NS))
    ]


def rows(found: dict) -> str:
    """All rows, without the numbers of frames, which are others among twice as many packets, and without connections
    that failed: these count at each pair of addresses."""
    rows = {
        name: [row for row in answer["rows"] if row.get("finding") not in PROBLEMS]
        for name, answer in found.items()
        if name != "connect"
    }
    text = json.dumps(rows, sort_keys=True)
    return re.sub(r'"(first|last)": \d+', r'"\1": 0', text)


@pytest.mark.parametrize("name", one_in(18, [name for name in ALL if "variants/" not in name]))
def test_a_translated_capture_answers_as_the_capture(name):
    taken = [*packets(CAPTURES / name)]
    alone, exchanges = objects(taken, b"")
    if any(exchange.connection.handshake is None for exchange in exchanges):
        return
    twice, _ = objects(translated(taken), b"")
    for answer in answers():
        counted, twins = (twice[answer]["capture"][key] for key in ("counted", "twins"))
        assert counted == twins == alone[answer]["capture"]["counted"]
        assert alone[answer]["capture"]["twins"] == 0
    assert rows(twice) == rows(alone)


@pytest.mark.big
def test_answers_that_take_more_tell_more_of_them():
    taken = [*packets(CAPTURES / GROUPS)]
    twice, _ = objects(translated(taken), b"", topic="pc-grp")
    alone, _ = objects(taken, b"", topic="pc-grp")
    assert rows(twice) == rows(alone)
    told = {(twice[name]["capture"]["twins"], alone[name]["capture"]["counted"]) for name in answers()}
    assert len(told) > 1
    assert all(twins == counted for twins, counted in told)


def test_connections_with_the_same_numbers_are_apart():
    """Many were begun with the same ones, on ports of their own."""
    found, exchanges = objects([*packets(CAPTURES / "variants/seqwrap.pcap.gz")], b"")
    assert {answer["capture"]["twins"] for answer in found.values()} == {0}
    assert {answer["capture"]["counted"] for answer in found.values()} == {len(exchanges)}


def test_made_connections_that_nobody_forwarded_are_apart():
    taken = [*packets(CAPTURES / GROUPS)]
    found, exchanges = objects([each for packet in taken for each in (packet, moved(packet, 1))], b"")
    assert {answer["capture"]["twins"] for answer in found.values()} == {0}
    assert {answer["capture"]["counted"] for answer in found.values()} == {len(exchanges)}


def test_the_same_packets_again_are_no_translation():
    found, _ = objects([*packets(CAPTURES / "variants/twice.pcap.gz")], b"")
    assert {answer["capture"]["twins"] for answer in found.values()} == {0}


def test_without_a_handshake_nothing_is_claimed():
    taken = [*packets(CAPTURES / GROUPS)]
    begun = translated(taken[len(taken) // 2 :])
    found, exchanges = objects(begun, b"")
    known = sum(exchange.connection.handshake is not None for exchange in exchanges)
    assert found["clients"]["capture"]["twins"] == known // 2 < len(exchanges) // 2


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    """A translated capture."""
    made: Path = tmp_path_factory.mktemp("translated") / "twice.pcap"
    taken = translated([*packets(CAPTURES / GROUPS)])
    made.write_bytes(pcap([((packet.time or 0) // 1000, packet.data) for packet in taken]))
    return made


@pytest.mark.parametrize("jobs", one_in(2, ["1", "2"]))
def test_the_command_tells_them(kinspect, path, jobs):
    found = json.loads(kinspect("groups", "--format", "json", "--jobs", jobs, path).out)
    alone = json.loads(kinspect("groups", "--format", "json", CAPTURES / GROUPS).out)
    assert rows({"groups": found}) == rows({"groups": alone})
    assert found["capture"]["twins"] == 671
    assert "671 exchanges seen again at translated addresses: counted once" in (
        kinspect("groups", "--format", "table", "--jobs", jobs, path).out
    )


@pytest.mark.parametrize("jobs", one_in(2, ["1", "2"]))
def test_read_leaves_them_out(kinspect, path, jobs):
    fields = ("--fields", "client.ip,api,correlation_id,timestamp,latency_ms")
    alone = kinspect("read", CAPTURES / GROUPS, "-q", *fields).out
    both = kinspect("read", path, *fields, "--jobs", jobs)
    assert both.out.count("\n") == 2 * alone.count("\n")
    assert "seen again at translated addresses: 671; --no-twins leaves them out\n" in both.err
    found = kinspect("read", path, *fields, "--no-twins", "--jobs", jobs)
    assert found.out == alone
    assert "1,342 exchanges, 2 unanswered; 671 shown" in found.err
    assert "left out, as seen again at translated addresses: 127.0.0.1 as 127.0.1.1 671\n" in found.err
    # The filter comes before: what is behind the translation is what is asked for.
    behind = json.loads(kinspect("read", path, "-q").out.splitlines()[1])["client"]["ip"]
    assert behind != json.loads(alone.splitlines()[0])["client"]["ip"]
    chosen = kinspect("read", path, *fields, "--client-host", behind, "--no-twins", "--jobs", jobs)
    assert (chosen.out.count("\n"), "translated" in chosen.err) == (671, False)


@pytest.mark.parametrize("jobs", one_in(2, ["1", "2"]))
def test_the_summary_line_counts_them(kinspect, path, jobs):
    def summary(*options):
        found = kinspect("read", path, "-q", "--emit", "summary", "--jobs", jobs, *options).out
        return json.loads(found)

    assert summary("--no-twins")["twins"] == [{"name": "127.0.0.1 as 127.0.1.1", "count": 671}]
    assert summary("--no-twins", "--client-host", "127.0.1.1")["twins"] == []
    assert summary()["twins"] is None


@pytest.mark.parametrize("jobs", one_in(2, ["1", "2"]))
def test_records_are_told_and_left_out(kinspect, path, jobs):
    alone = kinspect("records", CAPTURES / GROUPS, "--format", "csv")
    both = kinspect("records", path, "--format", "csv", "--jobs", jobs)
    rows = alone.out.count("\n") - 1
    assert rows > 0
    assert both.out.count("\n") - 1 == 2 * rows
    assert "seen again at translated addresses: 671; --no-twins leaves them out\n" in both.err
    assert "translated" not in alone.err + kinspect("records", path, "--once", "--jobs", jobs).err
    found = kinspect("records", path, "--format", "csv", "--no-twins", "--jobs", jobs)
    assert f"{rows} records; {rows} shown" in found.err
    assert found.out.count("\n") - 1 == rows
    # What a filter leaves out is nobody's original.
    behind = kinspect("records", path, "--client-host", "127.0.1.1", "--no-twins", "--jobs", jobs)
    assert f"; {rows} shown" in behind.err


@pytest.mark.big
def test_export_and_python_leave_them_out(kinspect, path, tmp_path):
    made = tmp_path / "one.pcapng"
    kinspect("export", path, "--no-twins", "-o", made)
    assert kinspect("read", made, "-q", "--fields", "event_id").out == (
        kinspect("read", CAPTURES / GROUPS, "-q", "--fields", "event_id").out
    )
    reading = package.read(path, filter={"no_twins": True})
    assert len([*reading]) == 671
    assert reading.summary["twins"] == [{"name": "127.0.0.1 as 127.0.1.1", "count": 671}]
    rows = package.records_of(path, no_twins=True)
    assert len([*rows]) == len([*package.records_of(CAPTURES / GROUPS)])


@pytest.mark.big
def test_a_redacted_capture_tells_them(kinspect, path, tmp_path):
    made, alone = tmp_path / "redacted.pcapng", tmp_path / "alone.pcapng"
    for capture, of in ((path, made), (CAPTURES / GROUPS, alone)):
        kinspect("export", "--redact", "--redact-key", tmp_path / "key", capture, "-o", of)
    fields = "--fields", "client.ip,api,correlation_id,timestamp,request.size,topics"
    found = kinspect("read", made, *fields, "--no-twins")
    assert "left out, as seen again at translated addresses: 127.0.0.1 as " in found.err
    assert found.out.count("\n") == 671
    assert found.out == kinspect("read", alone, *fields, "--no-twins").out
    answers = [json.loads(kinspect("topics", "--format", "json", each).out) for each in (made, alone)]
    assert [answer["capture"]["twins"] for answer in answers] == [671, 0]
    assert rows({"topics": answers[0]}) == rows({"topics": answers[1]})


def test_the_explorer_lists_one_of_them(path):
    store = indexed(path)
    assert store.count == 2 * 671
    assert ListFilter(store, {"no_twins": True}).passes(0, store.count) == (
        [
            row
            for row, exchange in enumerate(package.read(path))
            if exchange.connection.client_ip == "127.0.0.1"
        ]
    )


def test_answers_do_not_ask_for_it(kinspect, path):
    given = "groups", "--format", "json", path
    assert kinspect(*given, "--no-twins") == kinspect(*given)
    assert package.answer("groups", path, filter={"no_twins": True}) == package.answer("groups", path)


def test_metrics_count_what_passes(path):
    metrics, chosen = KafkaMetrics(), filter_from({"no_twins": True})
    for exchange in package.read(path):
        if chosen.matches(exchange):
            metrics.add(exchange)
    alone = KafkaMetrics()
    for exchange in package.read(CAPTURES / GROUPS):
        alone.add(exchange)
    assert (
        metrics.result()["kinspect_kafka_exchanges_total"]
        == (alone.result()["kinspect_kafka_exchanges_total"])
    )


def test_spark_says_that_it_cannot():
    with pytest.raises(package.KinspectError, match="no_twins is not for Spark"):
        Request(chosen={"no_twins": True})


@pytest.mark.parametrize("name", one_in(18, ALL))
def test_read_leaves_out_nothing_else(kinspect, name):
    given = kinspect("read", CAPTURES / name)
    found = kinspect("read", CAPTURES / name, "--no-twins")
    assert (found.out, found.status) == (given.out, given.status)
    assert "translated" not in given.err + found.err


def test_translations_are_counted_apart_as_long_as_there_is_room():
    (exchange,) = [*package.read(CAPTURES / GROUPS)][:1]
    copies = NatCopies()
    own = exchange.connection
    number, other, hops = own.handshake
    for place in range(TRANSLATIONS_KEPT + 2):
        for ip, left in ((f"10.0.{place >> 8}.{place & 255}", hops), ("x", hops - 1)):
            exchange.connection = replace(own, client_ip=ip, handshake=(number + place, other, left))
            again = copy(exchange)
            assert copies.seen(again) == (ip == "x")
        copies.count(again)
    assert (len(copies.translations), copies.translations[OTHER_ADDRESSES]) == (TRANSLATIONS_KEPT + 1, 2)


def test_a_handshake_at_many_addresses_is_kept_at_few():
    taken = [*packets(CAPTURES / GROUPS)]
    twins = NatCopies()
    for number in range(3 * PLACES_KEPT):
        _, exchanges = objects([moved(packet, number) for packet in taken[:40]], b"")
        assert exchanges
        for exchange in exchanges:
            twins.seen(exchange)
        assert max(map(len, twins._recent.values())) == min(number + 1, PLACES_KEPT)
