"""Rows of records: beside what `read --records` prints."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest
from support.captures import CAPTURES
from support.packets import cut_at, nanosecond_pcap, packets, tcp

import kinspect
from kinspect.analysis import recordrows
from kinspect.analysis.recordevents import RecordLines
from kinspect.analysis.recordrows import RecordRows, SeenOffsets
from kinspect.kafka.view.batchrows import KEYS
from kinspect.kafka.view.view import View

REFUSED = None
TXN = "captures/4.4.0/txn_java.pcap.gz"
DEFAULT = View()
"""The outcome of a record that a broker refused."""
CASES = {
    "captures/0.11.0.3/transactions.pcap.gz": {"committed", "aborted", "none", REFUSED},
    "captures/3.6.2/txn_java.pcap.gz": {"committed", "aborted", "none"},
    "captures/4.4.0/txn_librdkafka.pcap.gz": {"committed", "aborted", "none"},
    "captures/4.4.0/cluster_kraft.pcap.gz": {"committed", "aborted", "none"},
    "captures/4.4.0/share.pcap.gz": {"none"},
    "captures/4.4.0/nano.pcap": {"none"},
    "captures/4.4.0/errors_java.pcap.gz": {"aborted", "none", REFUSED},
    "captures/settings/java.pcap.gz": {"committed", "none"},
    "captures/0.10.0.1/message-format-downconv.pcap.gz": {"none"},
}


def rows_of(capture, control=False, view=DEFAULT):
    rows = []
    maker = RecordRows(RecordLines(view), lambda found: found, control)
    for exchange in kinspect.read(capture):
        for found in maker.take(exchange):
            rows += found
    for found in maker.finish():
        rows += found
    assert maker.undecided == 0
    return rows


def _sizes(value, found):
    if isinstance(value, list):
        for item in value:
            _sizes(item, found)
    elif isinstance(value, dict):
        if "is_control" in value:
            if not value["is_control"]:
                found.update((record["key_size"], record["value_size"]) for record in value["records"])
            return
        for item in value.values():
            _sizes(item, found)


@pytest.mark.parametrize("capture", CASES)
def test_rows_are_the_records_that_read_prints(capture):
    rows, printed = rows_of(capture), Counter()
    for exchange in kinspect.read(capture, records=True):
        line = exchange.to_dict()
        if line["api"] in ("Produce", "Fetch", "ShareFetch"):
            _sizes([line["request"], line["response"]], printed)
    assert Counter((row["key_size"], row["value_size"]) for row in rows) == printed
    assert rows
    assert all((*row,) == KEYS for row in rows)
    assert {row["transaction"] for row in rows} == CASES[capture]
    assert {row["offset"] for row in rows if row["transaction"] is REFUSED} <= {None}
    produced, read = (
        {
            (row["topic"], row["partition"], row["offset"]): (row["transaction"], row["sequence"])
            for row in rows
            if row["direction"] in ways
        }
        for ways in (["produce"], ["consume", "replicate"])
    )
    assert all(produced[place] == read[place] for place in produced.keys() & read.keys())


def test_a_share_groups_rows_have_its_group_and_others_that_of_their_client():
    groups = {(row["direction"], row["group"]) for row in rows_of("captures/4.4.0/share.pcap.gz")}
    assert {group for way, group in groups if way == "produce"} == {None}
    assert None not in {group for way, group in groups if way == "consume"}
    consumed = [
        row for row in rows_of("captures/4.4.0/groups_classic.pcap.gz") if row["direction"] == "consume"
    ]
    assert {row["group"] for row in consumed} >= {"pc-grp-librdkafka"}


def test_a_fetch_cut_before_its_replica_id_has_the_direction_that_topics_says(tmp_path):
    whole, part = CAPTURES / "4.4.0/groups_classic.pcap.gz", tmp_path / "part.pcap"
    heads = {
        exchange.to_dict()["request"]["frames"]["first"]: 14 + len(exchange.client_id)
        for exchange in kinspect.read(whole, filter={"api": "Fetch"})
    }
    cut = [
        cut_at(packet, len(packet.data) - len(tcp(packet.data).carried) + heads[number])
        if number in heads
        else packet
        for number, packet in enumerate(packets(whole), 1)
    ]
    part.write_bytes(nanosecond_pcap(cut))
    for capture, fetched in ((whole, "consume"), (part, None)):
        directions = {row["direction"] for row in kinspect.answer("topics", capture)["rows"]}
        assert {row["direction"] for row in rows_of(capture)} == directions == {fetched}


def test_control_records_have_rows_where_they_are_asked_for():
    rows = rows_of("captures/4.4.0/txn_java.pcap.gz", control=True)
    markers = Counter((row["control"], row["transaction"]) for row in rows if row["control"])
    assert markers.keys() == {("COMMIT", "committed"), ("ABORT", "aborted")}
    assert len(rows) - sum(markers.values()) == len(rows_of("captures/4.4.0/txn_java.pcap.gz"))


def test_an_offset_is_new_once_whether_or_not_its_topics_name_is_known():
    seen = SeenOffsets(room=2)

    def is_new(topic, offset, topic_id="id"):
        return seen.is_new({"topic": topic, "topic_id": topic_id, "partition": 0, "offset": offset})

    assert [is_new(None, 5), is_new(None, 6), is_new("t", 5), is_new("t", 7), is_new("t", 7, None)] == [
        *(True, True, False, True, False)
    ]
    assert [is_new("u", 5, None), is_new("v", 5, None), seen.forgotten, is_new("u", 5, None)] == [
        True,
        True,
        1,
        False,
    ]


SECOND = 10**9


def test_what_waits_too_long_in_a_capture_that_goes_on_is_open():
    whole, rows, waited = rows_of(TXN), [], []
    maker = RecordRows(RecordLines(DEFAULT), lambda found: found)
    for exchange in kinspect.read(TXN):
        rows += chain.from_iterable(maker.take(exchange))
        now = exchange.completed_at
        assert [*maker.let_go(now)] == []
        waited.append([*chain.from_iterable(maker.let_go(now + 6 * SECOND))])
        rows += waited[-1]
    rows += chain.from_iterable(maker.finish())
    assert {row["transaction"] for each in waited for row in each if row["producer_id"] is not None} >= {
        "open"
    }
    assert len(rows) == len(whole)
    for row, decided in zip(rows, whole, strict=True):
        assert row in (decided, {**decided, "transaction": "open"}, {**decided, "transaction": None})


def test_no_more_rows_than_a_bound_wait_in_a_capture_that_goes_on(monkeypatch):
    monkeypatch.setattr(recordrows, "LIVE_ROWS", 0)
    maker = RecordRows(RecordLines(DEFAULT), lambda found: found)
    for exchange in kinspect.read(TXN):
        [*maker.take(exchange)]
        [*maker.let_go(0)]
        assert maker._held.rows == 0
