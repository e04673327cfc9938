"""`kinspect records`: beside what clients logged, and what its filters choose."""

from __future__ import annotations

import csv
import json
from collections import Counter
from io import StringIO
from pathlib import Path

import pytest
from pyarrow.parquet import read_table
from support.manifest import load
from support.packets import packets
from support.pcap import pcap

import kinspect as kinspect_package
from kinspect.kafka.view.batchrows import KEYS

CAPTURES = Path(__file__).parents[2] / "captures"
LOGGED = {row.file: row for row in load(CAPTURES) if "delivered" in row.facts}
TXN, NANO = CAPTURES / "4.1.2/txn_java.pcap.gz", CAPTURES / "4.4.0/nano.pcap"
KEPT = ("topic", "partition", "offset", "key", "value")


@pytest.fixture
def records(kinspect):
    def run(*arguments):
        result = kinspect("records", "-q", "--format", "jsonl", *arguments)
        assert (result.status, result.err) == (0, "")
        return [json.loads(line) for line in result.out.splitlines()]

    return run


def test_manifests_tell_of_records():
    assert len(LOGGED) >= 4


@pytest.mark.parametrize("file", LOGGED)
def test_each_record_of_a_run_is_there_once(records, file):
    row = LOGGED[file]
    rows = records(row.path, "--once", "--payload", "text")
    assert Counter(tuple(each[key] for key in KEPT) for each in rows) == Counter(
        map(tuple, row.facts["delivered"])
    )
    if "aborted_txns" in row.facts:
        received = Counter(map(tuple, row.facts["received"]))
        committed = Counter(
            tuple(each[key] for key in KEPT)
            for each in records(row.path, "--once", "--committed", "--payload", "text")
        )
        assert committed == received, "its consumers read committed records"


FILTERS = {
    ("--key", "k1*"): lambda row: row["key"].startswith("k1"),
    ("--key", "!k1*"): lambda row: not row["key"].startswith("k1"),
    ("--value", "re:-[0-4]$"): lambda row: row["value"][-2:] in {"-0", "-1", "-2", "-3", "-4"},
    ("--value", "!re:nano"): lambda row: False,
    ("--header", "h-idx=1?"): lambda row: row["n"] >= 10,
    ("--header", "h-idx=re:^.$"): lambda row: row["n"] < 10,
    ("--header", "h-null"): lambda row: True,
    ("--header", "h-null=*"): lambda row: False,
    ("--header", "!h-null=*"): lambda row: True,
    ("--header", "h-null=re:^"): lambda row: False,
    ("--header", "h-idx=1", "--header", "h-idx=2"): lambda row: row["n"] in (1, 2),
    ("--offset", "72..75"): lambda row: 2 <= row["n"] <= 5,
    ("--offset", "..71,88.."): lambda row: row["n"] in (0, 1, 18, 19),
    ("--partition", "0"): lambda row: True,
    ("--partition", "1..4"): lambda row: False,
    ("--topic", "pc-*"): lambda row: True,
    ("--topic", "!pc-v6"): lambda row: False,
    ("--direction", "produce"): lambda row: True,
    ("--direction", "consume"): lambda row: False,
    ("--record-time", "2026-11-21T07:17:06Z.."): lambda row: True,
    ("--record-time", "..2026-11-21T07:17:06Z"): lambda row: False,
    ("--committed",): lambda row: True,
    ("--client-id", "other"): lambda row: False,
    ("--group", "*"): lambda row: False,
}


@pytest.mark.parametrize("options", FILTERS, ids=" ".join)
def test_filters_choose_rows_and_show_no_payload_unasked(records, options):
    everything = records(NANO, "--payload", "text")
    assert len(everything) == 20
    wanted = [row["offset"] for n, row in enumerate(everything) if FILTERS[options]({**row, "n": n})]
    found = records(NANO, *options)
    assert [row["offset"] for row in found] == wanted
    assert all((*row,) == KEYS for row in [*everything, *found])
    assert {value for row in found for value in (row["key"], row["value"], row["key_encoding"])} <= {None}
    assert {header["value"] for row in found for header in row["headers"]} <= {None}


def test_a_topic_stands_alone_though_its_exchange_has_others(records):
    rows = records(CAPTURES / "4.4.0/txn_java.pcap.gz", "--topic", "!pc-txin")
    assert {row["topic"] for row in rows} == {
        row["topic"] for row in records(CAPTURES / "4.4.0/txn_java.pcap.gz")
    } - {"pc-txin"}


@pytest.mark.parametrize(
    "options", [("--topic", "txn_java-out"), ("--direction", "consume"), ("--until", "+3s")]
)
def test_what_filters_leave_out_still_decides_transactions(records, options):
    rows = records(TXN, *options)
    assert {row["transaction"] for row in rows} >= {"committed"}
    assert "open" not in {row["transaction"] for row in rows}


def test_formats_have_the_same_rows(kinspect, records):
    rows = records(TXN, "--payload", "text")
    found = kinspect("records", "-q", TXN, "--payload", "text", "--format", "csv")
    header, *lines = csv.reader(StringIO(found.out))
    assert tuple(header) == KEYS
    assert [(line[KEYS.index("value")], line[KEYS.index("transaction")]) for line in lines] == [
        (row["value"], row["transaction"]) for row in rows
    ]
    table = kinspect("records", "-q", TXN, "--payload", "text", "--format", "table", "--utc").out.splitlines()
    assert len(table) == len(rows) + 2
    assert all(len(line) <= 80 for line in table)
    wide = kinspect("records", "-q", TXN, "--payload", "text", "--format", "table", "--wide").out.splitlines()
    assert [line.endswith(row["value"]) for line, row in zip(wide[1:], rows, strict=True)] == [True] * len(
        rows
    )


def test_hex_and_base64_are_those_of_read(kinspect, records):
    for form in ("hex", "base64"):
        line = json.loads(
            kinspect("read", "-q", NANO, "--payload", form, "--api", "Produce", "--limit", 1).out
        )
        (topic,) = line["request"]["body"]["topic_data"]
        inner = topic["partition_data"][0]["records"]["batches"][0]["records"]
        rows = records(NANO, "--payload", form)
        names = ("key", "key_encoding", "value", "value_encoding", "headers")
        assert [[row[name] for name in names] for row in rows] == [
            [record[name] for name in names] for record in inner
        ]


def test_json_is_an_object_in_lines_and_a_text_in_tables(kinspect, records):
    capture = CAPTURES / "4.4.0/nano.pcap"
    rows = records(capture, "--payload", "json", "--key", "k7")
    assert [header["value"] for header in rows[0]["headers"]] == ["none", None, 7]
    assert (rows[0]["value"], rows[0]["value_encoding"]) == ("nano-7", "utf-8")


def test_a_limit_ends_the_run_and_the_summary_says_what_was_left_out(kinspect):
    found = kinspect("records", TXN, "--limit", 3, "--format", "jsonl")
    assert len(found.out.splitlines()) == 3
    assert "stopped at --limit 3" in found.err
    errors = CAPTURES / "4.4.0/errors_java.pcap.gz"
    found = kinspect("records", errors, "--once", "--format", "jsonl")
    assert "left out by --once, as no offset is known: " in found.err
    found = kinspect("records", errors, "--committed", "--format", "jsonl")
    assert "left out by --committed, as what it asks for is not known: 8" in found.err
    assert '"value_size":5000' not in found.out, "the broker refused it"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--offset", "9..5"], "--offset: '9..5' is empty"),
        (["--offset", "x"], "--offset: 'x' is no number"),
        (["--partition", "-1"], "--partition: '-1' is no number"),
        (["--header", "=x"], "--header: '=x' has no name"),
        (["--key", "re:("], "--key: '(' is no regular expression"),
        (["--direction", "up"], "--direction: there is no direction 'up'"),
        (
            ["--record-time", "2026.."],
            "--record-time: a year needs a date and a time too, as 2026-01-01T00:00:00Z",
        ),
        (["--record-time", "+5s"], "--record-time: '+5s' is no range"),
    ],
)
def test_wrong_values_are_told(kinspect, options, message):
    found = kinspect("records", NANO, *options)
    assert (found.status, found.out) == (2, "")
    assert message in found.err


NEW_PRODUCER = "3.6.2/txn_java.pcap.gz", "pg-txout-open"
"""It takes a transactional id, whose transaction is aborted by that."""


@pytest.mark.parametrize(
    ("file", "topic", "lost"),
    [
        (*NEW_PRODUCER, (382, 2)),
        (*NEW_PRODUCER, (384, 1)),
        (*NEW_PRODUCER, (384, 4)),
        # The end, and connections but for the last packets of one.
        ("4.1.2/txn_kafkapython.pcap.gz", "txn_kafkapython-out", (100, 40)),
        # EndTxn and its marker: the next marker is another transaction's.
        ("2.0.1/transactions.pcap.gz", "quay-tx", (74, 20)),
    ],
)
def test_what_is_lost_makes_no_outcome_but_null(records, tmp_path, file, topic, lost):
    first, count = lost
    every = packets(CAPTURES / file)
    path = tmp_path / "lossy.pcap"
    whole, lossy = (
        {
            (row["producer_epoch"], row["sequence"]): row["transaction"]
            for row in records(path, "--direction", "produce", "--topic", topic)
        }
        for kept in (every, [*every[:first], *every[first + count :]])
        if path.write_bytes(pcap([(each.time // 1000, each.data) for each in kept], every[0].link_type))
    )
    assert whole
    assert lossy.keys() <= whole.keys()
    assert all(outcome in (whole[batch], None) for batch, outcome in lossy.items())


@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "EndTxn", "InitProducerId"])
def test_requests_that_cannot_be_read_decide_nothing(records, tmp_path, api):
    file = CAPTURES / "2.0.1/transactions.pcap.gz"
    every = packets(file)
    frames = {
        exchange.to_dict()["request"]["frames"]["first"]
        for exchange in kinspect_package.read(file, filter={"api": [api]})
    }
    path = tmp_path / "damaged.pcap"
    name = b"\x00\x0bc-quay-txid"
    data = [
        each.data.replace(name, b"\x7f\xff" + name[2:]) if number in frames else each.data
        for number, each in enumerate(every, 1)
    ]
    assert sum(made != each.data for made, each in zip(data, every, strict=True)) > 0
    path.write_bytes(
        pcap([(each.time // 1000, made) for each, made in zip(every, data, strict=True)], every[0].link_type)
    )
    whole, damaged = (
        [
            (row["frame"], row["sequence"], row["transaction"])
            for row in records(each, "--direction", "produce")
        ]
        for each in (file, path)
    )
    assert len(whole) == len(damaged)
    assert all(found in (row, (*row[:2], None)) for row, found in zip(whole, damaged, strict=True))


def test_what_a_filter_could_have_asked_for_is_told(kinspect):
    said = kinspect("records", NANO, "--topic", "pc-v7,x").err
    assert "no record passes --topic; did you mean pc-v6? topics there are: pc-v6 20" in said.splitlines()
    assert "no record passes" not in kinspect("records", NANO, "--topic", "pc-v6", "--key", "none").err
    assert "no record passes" not in kinspect("records", NANO, "--topic", "pc-*").err


def test_a_table_says_which_columns_it_leaves_out(kinspect, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    said = kinspect("records", NANO, "--format", "table").err
    assert "columns left out: TIME, DIRECTION, CLIENT ID: --wide shows all" in said.splitlines()
    assert "columns left out" not in kinspect("records", NANO, "--format", "table", "--wide").err
    assert "columns left out" not in kinspect("records", NANO, "--topic", "none", "--format", "table").err


def test_a_table_marks_records_whose_crc_is_wrong(kinspect, tmp_path):
    path = tmp_path / "damaged.pcap"
    path.write_bytes(NANO.read_bytes().replace(b"nano-7", b"nano_7"))
    rows = kinspect("records", path, "--format", "table", "--payload", "text", "--wide").out
    assert "bad CRC: nano_7" in rows
    assert "bad CRC" not in kinspect("records", NANO, "--format", "table").out


def test_the_error_of_a_refused_record_is_told(kinspect, records):
    errors = CAPTURES / "4.4.0/errors_java.pcap.gz"
    told = Counter(row["error"] for row in records(errors) if row["offset"] is None)
    assert told == {"MESSAGE_TOO_LARGE": 1, "INVALID_RECORD": 1, "INVALID_PRODUCER_EPOCH": 1, None: 5}, (
        "acks=0"
    )
    assert all(row["error"] is None for row in records(errors, "--offset", "0.."))
    shown = kinspect("records", errors, "--format", "table", "--payload", "text", "--wide").out
    assert "INVALID_RECORD: v\n" in shown


def test_several_processes_write_the_same_table(kinspect, tmp_path):
    found = []
    for jobs in (1, 2):
        out = tmp_path / str(jobs)
        assert kinspect("records", TXN, "--jobs", jobs, "--format", "parquet", "-o", out).status == 0
        found.append(read_table(out / "record_rows").drop_columns("run_id"))
    assert found[0].equals(found[1])
    assert found[0].num_rows > 20


@pytest.mark.parametrize("jobs", [(), ("--jobs", 2)])
def test_the_last_filter_that_left_anything_out_is_named(kinspect, jobs):
    path = CAPTURES / "4.1.2/txn_java.pcap.gz"
    found = kinspect("records", path, "--topic", "txn_java-out", "--offset", "99..", *jobs)
    assert found.err.splitlines()[-1] == "no record that passes --topic passes --offset"
