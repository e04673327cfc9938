"""The checks notice when something is wrong: a check that cannot fail proves nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
from support.checks import complaints, disguises
from support.decoded import exchanges
from support.lines import Line, body, records_of
from support.manifest import load
from support.patterns import listed, matcher, spelt_out

CAPTURES = Path(__file__).parents[2] / "captures"
ROWS = {row.file: row for row in load(CAPTURES)}
CODECS = "4.4.0/codecs_librdkafka.pcap.gz"
SWEEP = "2.8.2/sweep-A-topics-metadata.pcap.gz"
CONSOLE = "0.10.0.1/console-lz4.pcap"
LEDGER = "4.1.2/codecs_java.pcap.gz"
TRANSACTIONS = "4.1.2/txn_java.pcap.gz"

Lines = list[Line]


def _first(lines: Lines, api: str) -> Line:
    return next(line for line in lines if line["api"] == api)


def _lose_an_exchange(lines: Lines) -> None:
    lines.remove(_first(lines, "Metadata"))


def _lose_a_record(lines: Lines) -> None:
    topic = body(_first(lines, "Produce"), "request")["topic_data"][0]
    topic["partition_data"][0]["records"]["batches"][0]["records"].pop()


def _change_a_value(lines: Lines) -> None:
    next(records_of(_first(lines, "Produce"), "request"))[2]["value"] = "none-x"


def _change_a_key(lines: Lines) -> None:
    next(records_of(_first(lines, "Produce"), "request"))[2]["key"] = "x"


def _move_the_offsets(lines: Lines) -> None:
    body(_first(lines, "Produce"), "response")["responses"][0]["partition_responses"][0]["base_offset"] += 1


def _produce_twice(lines: Lines) -> None:
    lines.append(_first(lines, "Produce"))


def _commit_another_offset(lines: Lines) -> None:
    (api,) = {line["api"] for line in lines} & {"OffsetCommit", "TxnOffsetCommit"}
    body(_first(lines, api), "request")["topics"][0]["partitions"][0]["committed_offset"] += 1


def _lose_what_was_fetched(lines: Lines) -> None:
    lines[:] = [line for line in lines if line["api"] != "Fetch"]


def _fetch_what_nobody_produced(lines: Lines) -> None:
    fetches = (record for line in lines if line["api"] == "Fetch" for record in records_of(line, "response"))
    next(fetches)[2]["value"] = "x"


def _change_the_codec(lines: Lines) -> None:
    next(records_of(_first(lines, "Produce"), "request"))[1]["compression"] = "xz"


def _lose_the_headers(lines: Lines) -> None:
    next(records_of(_first(lines, "Produce"), "request"))[2]["headers"].clear()


def _lose_the_groups(lines: Lines) -> None:
    for line in lines:
        line["groups"] = []


def _lose_the_client_ids(lines: Lines) -> None:
    for line in lines:
        line["client"]["id"] = None


def _add_a_problem(lines: Lines) -> None:
    _first(lines, "Metadata")["problems"].append({"code": "gap", "bytes": 4, "message": ""})


def _make_an_orphan(lines: Lines) -> None:
    _first(lines, "Metadata")["outcome"] = "orphan"


def _give_up_a_request(lines: Lines) -> None:
    _first(lines, "Metadata").update(outcome="unanswered", outcome_reason="cap")


def _swap_the_sides(lines: Lines) -> None:
    for line in lines:
        line["client"]["port"], line["broker"]["port"] = line["broker"]["port"], line["client"]["port"]


@pytest.mark.parametrize(
    ("file", "spoil", "check"),
    [
        (CODECS, _lose_an_exchange, "requests_per_api"),
        (CODECS, _lose_a_record, "records"),
        (CODECS, _change_a_value, "records"),
        (CODECS, _change_a_key, "records"),
        (CODECS, _change_the_codec, "records"),
        (CODECS, _lose_the_headers, "records"),
        (CODECS, _lose_the_groups, "groups"),
        (CODECS, _lose_the_client_ids, "client_ids"),
        (CODECS, _add_a_problem, "problems"),
        (CODECS, _make_an_orphan, "outcomes"),
        (CODECS, _give_up_a_request, "outcomes"),
        (CODECS, _swap_the_sides, "ports"),
        (CONSOLE, _change_a_key, "records"),
        (CONSOLE, _lose_a_record, "records"),
        (LEDGER, _lose_an_exchange, "requests_per_api"),
        (LEDGER, _lose_an_exchange, "truth"),
        (LEDGER, _lose_a_record, "ledger"),
        (LEDGER, _change_a_value, "ledger"),
        (LEDGER, _change_a_key, "ledger"),
        (LEDGER, _change_the_codec, "ledger"),
        (LEDGER, _move_the_offsets, "ledger"),
        (LEDGER, _produce_twice, "ledger"),
        (LEDGER, _commit_another_offset, "ledger"),
        (LEDGER, _lose_what_was_fetched, "ledger"),
        (LEDGER, _fetch_what_nobody_produced, "ledger"),
        (TRANSACTIONS, _commit_another_offset, "ledger"),
        (TRANSACTIONS, _change_a_value, "ledger"),
    ],
)
def test_a_spoilt_line_is_noticed(file: str, spoil: Callable[[Lines], None], check: str) -> None:
    row = ROWS[file]
    lines = copy.deepcopy(exchanges(row.path))
    spoil(lines)
    assert check in {complaint.split(":")[0] for complaint in complaints(row, lines)}


def test_every_scalar_of_a_sweep_is_compared() -> None:
    row = ROWS[SWEEP]
    told = {line["corr"]: line for line in row.truth or []}
    for index, line in enumerate(exchanges(row.path)):
        if line["correlation_id"] not in told or "brokers" not in (body(line, "response") or {}):
            continue
        lines = exchanges(row.path)[:index] + copy.deepcopy([line]) + exchanges(row.path)[index + 1 :]
        body(lines[index], "response")["brokers"][0]["port"] += 1
        found = [complaint for complaint in complaints(row, lines) if ".brokers[0].port" in complaint]
        assert len(found) == 1


def test_patterns_are_spelt_out() -> None:
    assert spelt_out("a-{0..1}-{x,y}", None) == ["a-0-x", "a-0-y", "a-1-x", "a-1-y"]
    assert spelt_out("n %03d.", 2) == ["n 000.", "n 001."]
    assert spelt_out("open-{t}", 5) is None
    assert listed("tx-{0..5} committed, (a b)-{i} and one") == ["tx-{0..5}", "(a b)-{i}", "one"]
    assert matcher("v-(text)-{i}").fullmatch("v-some text-12")
    assert not matcher("v-%02d").fullmatch("v-")


def test_a_secret_is_found_in_base64_wherever_it_begins() -> None:
    # "\0alice\0s3cr3t-plain", the token of SASL PLAIN
    token = "AGFsaWNlAHMzY3IzdC1wbGFpbg=="
    assert any(text in token for text in disguises("s3cr3t-plain"))
