import pytest

from kinspect.kafka.view import View
from kinspect.output.console import make_console
from kinspect.output.table import Table, about, api, latency, widths_for

METADATA, HEARTBEAT, CREATE_TOPICS = 3, 12, 19
BEAT = {"group_id": "workers", "generation_id": 1, "member_id": "m"}

LINE = {
    "kind": "kafka",
    "api": "Fetch",
    "api_key": 1,
    "api_version": 17,
    "outcome": "answered",
    "outcome_reason": None,
    "api_candidates": [],
    "topics": [],
    "partitions": [],
    "groups": [],
    "transactional_ids": [],
    "record_count": 0,
    "record_bytes": 0,
    "error_names": [],
    "problems": [],
}


def printed(stream, exchanges, *, width=80, color="never", **options):
    table = Table(make_console(stream, color, width), View(), **options)
    for exchange in exchanges:
        table.exchange(exchange)
    table.flush()
    return stream.buffer.getvalue().decode()


@pytest.mark.parametrize("width", [40, 80, 100, 110, 120, 150, 200])
def test_rows_fit_the_terminal(exchanges, stream, width):
    group = {**BEAT, "group_id": "a-group-with-a-very-long-name-" * 9}
    rows = printed(
        stream, exchanges((HEARTBEAT, 4, group, {"error_code": 27})), width=width, utc=True
    ).splitlines()
    assert len(rows) == 3
    assert all(len(row) <= width for row in rows)
    assert rows[0].startswith("TIME")
    assert rows[1] == "2023-11-14 UTC"


def test_a_row(exchanges, stream):
    made = exchanges((HEARTBEAT, 4, BEAT, {"error_code": 27}), (HEARTBEAT, 4, BEAT, None))
    rows = printed(stream, made, width=160, utc=True).splitlines()
    assert rows[2].split() == [
        "22:13:20.000300",
        "10.0.0.1:40000→10.0.0.9:9092",
        "app-1",
        "Heartbeat",
        "v4",
        "0.20ms",
        "REBALANCE_IN_PROGRESS",
        "group",
        "workers",
    ]
    assert "unanswered (capture_end) group workers" in rows[3]


def test_wide_rows_are_not_cut(exchanges, stream):
    group = {**BEAT, "group_id": "g" * 300}
    header, row = printed(stream, exchanges((HEARTBEAT, 4, group, {})), wide=True, utc=True).splitlines()
    assert "TIME (UTC)" in header
    assert row.startswith("2023-11-14 22:13:20.000300000 10.0.0.1:40000→10.0.0.9:9092 ")
    assert row.endswith("g" * 300)


def test_nothing_of_a_capture_reaches_the_terminal_as_it_is(exchanges, stream):
    evil = "\x1b[2J\x9b[red]\u202e\n"
    made = exchanges((HEARTBEAT, 4, {**BEAT, "group_id": evil}, {}), client_id=evil)
    text = printed(stream, made, wide=True, utc=True)
    assert "\\x1b[2J\\x9b[red]\\u202e\\x0a" in text
    assert not set(text) & {"\x1b", "\x9b", "\u202e"}
    assert text.count("\n") == 2


def test_colours_when_asked_for(exchanges, stream):
    text = printed(stream, exchanges((HEARTBEAT, 4, BEAT, {"error_code": 27})), color="always")
    assert "\x1b[1;31mREBALANCE" in text


def test_no_color(exchanges, stream, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in printed(stream, exchanges((HEARTBEAT, 4, BEAT, {"error_code": 27})), color="auto")


def test_rows_wait_for_the_flush(exchanges, stream):
    table = Table(make_console(stream, "never", 80), View())
    table.exchange(exchanges((HEARTBEAT, 4, BEAT, {}))[0])
    assert stream.buffer.getvalue() == b""
    table.flush()
    assert stream.buffer.getvalue().count(b"\n") == 3
    table.flush()
    assert stream.buffer.getvalue().count(b"\n") == 3


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, ""),
        ({"topics": ["orders"]}, "orders"),
        ({"topics": ["orders"], "partitions": ["orders-0", "orders-1"]}, "orders[0,1]"),
        ({"topics": ["a-b"], "partitions": [f"a-b-{i}" for i in range(9)]}, "a-b[0,1,2,3,4,…]"),
        ({"topics": ["a", "b", "c", "d", "e"]}, "a, b, c +2"),
        ({"groups": ["g"], "transactional_ids": ["t"]}, "group g txn t"),
        ({"record_count": 1, "record_bytes": 70}, "1 record 70 B"),
        ({"record_count": 2, "record_bytes": 140}, "2 records 140 B"),
        ({"outcome": "unanswered", "outcome_reason": "reset"}, "unanswered (reset)"),
        ({"outcome": "no_response"}, "no response due"),
        ({"outcome": "orphan", "api_candidates": ["Fetch", "Produce"]}, "orphan (Fetch, Produce)"),
        ({"outcome": "orphan"}, "orphan"),
        ({"topics": ["t"], "error_names": ["NOT_LEADER_OR_FOLLOWER"]}, "NOT_LEADER_OR_FOLLOWER t"),
        ({"problems": [{"code": "gap"}, {"code": "gap"}, {"code": "cap"}]}, "gap cap"),
    ],
)
def test_about(changes, text):
    assert about({**LINE, **changes}).plain == text


@pytest.mark.parametrize(
    ("changes", "width", "text"),
    [
        ({}, 0, "Fetch v17"),
        ({"api": "ConsumerGroupHeartbeat", "api_version": 1}, 13, "ConsumerG… v1"),
        ({"api": None, "api_key": 999}, 13, "API 999 v17"),
        ({"api": None, "api_key": None, "api_version": None}, 13, "?"),
        ({"kind": "sasl_token", "api": None, "api_key": None}, 13, "SASL token"),
    ],
)
def test_api(changes, width, text):
    assert api({**LINE, **changes}, width).plain == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "–"),
        (0.0, "0.00ms"),
        (1.234, "1.23ms"),
        (-3.0, "-3.00ms"),
        (512.4, "512ms"),
        (30012.0, "30.0s"),
    ],
)
def test_latency(milliseconds, text):
    assert latency(milliseconds).plain == text


def test_columns_grow_with_the_terminal():
    sums = [sum(widths_for(width)[:5]) + 5 for width in (80, 120, 160)]
    assert sums == sorted(sums)
    assert all(total <= width - 15 for total, width in zip(sums, (80, 120, 160), strict=True))
