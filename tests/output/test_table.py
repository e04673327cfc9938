import re
from itertools import chain

import pytest

from kinspect.kafka.view.view import View
from kinspect.output.actions import action_of
from kinspect.output.console import make_console
from kinspect.output.table import (
    ABOUT,
    ABOUT_ENOUGH,
    API,
    MEDIUM,
    NARROW,
    TableWriter,
    about_cell,
    api_text,
    broker,
    ends_text,
    latency,
    longest_api,
    wait,
    widths_for,
)
from kinspect.protocol import Message, encode_request, schema

FIND_COORDINATOR, HEARTBEAT, CREATE_TOPICS, ENVELOPE = 10, 12, 19, 58
JOIN_GROUP, LEAVE_GROUP, END_TXN = 11, 13, 26
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
DESCRIBE_ACLS, CREATE_ACLS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 29, 30, 32, 44
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
    "wait": "retransmitted",
    "record_count": 0,
    "record_bytes": 0,
    "error_names": [],
    "problems": [],
}


LOGIN = {"outcome": "unanswered", "api": "SaslHandshake", "api_key": 17}
BEARER = b"n,,\1auth=Bearer e30.eyJzdWIiOiJjYXJvbCJ9.c2VjcmV0\1\1"


def printed(stream, exchanges, *, width=80, color="never", **options):
    table = TableWriter(make_console(stream, color, width), View(), **options)
    for exchange in exchanges:
        table.take(exchange)
    table.flush()
    return stream.buffer.getvalue().decode()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 110, 120, 150, 200])
def test_rows_fit_the_terminal(exchanges, stream, width):
    group = {**BEAT, "group_id": "a-group-with-a-very-long-name-" * 9}
    rows = printed(
        stream, exchanges((HEARTBEAT, 4, group, {"error_code": 27})), width=width, utc=True
    ).splitlines()
    assert all(len(row) <= width for row in rows)
    assert "2023-11-14 UTC" in rows


@pytest.mark.parametrize(
    ("width", "row"),
    [
        (80, ["22:13:20 10.0.0.9:9092   app-1         Heartbeat v4       0.20ms group workers"]),
        (79, ["22:13:20 app-1         Heartbeat v4       0.20ms group workers"]),
        (64, ["22:13:20 app-1         Heartbeat v4       0.20ms group workers"]),
        (63, ["22:13:20 Heartbeat v4       0.20ms group workers"]),
        (49, ["22:13:20 Heartbeat v4       0.20ms group workers"]),
        (40, ["22:13:20 Heartbeat v4       0.20ms", "         group workers"]),
        (35, ["Heartbeat v4       0.20ms", " group workers"]),
    ],
)
def test_a_small_terminal_does_without_columns_that_matter_less(exchanges, stream, width, row):
    shown = printed(stream, exchanges((HEARTBEAT, 4, BEAT, {})), width=width, utc=True).splitlines()
    assert shown[shown.index("2023-11-14 UTC") + 1 :] == row


def test_a_row(exchanges, stream):
    made = exchanges((HEARTBEAT, 4, BEAT, {"error_code": 27}), (HEARTBEAT, 4, BEAT, None))
    rows = printed(stream, made, width=160, utc=True).splitlines()
    assert rows[2].split() == [
        "22:13:20.000",
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


def test_a_row_with_an_error_goes_on_in_a_second_line(exchanges, stream):
    made = exchanges((HEARTBEAT, 4, BEAT, {"error_code": 27}), (HEARTBEAT, 4, BEAT, {}))
    rows = printed(stream, made, width=80, utc=True).splitlines()
    assert rows[2].endswith(" 0.20ms")
    assert rows[3] == "         REBALANCE_IN_PROGRESS group workers"
    assert rows[4].endswith(" 0.20ms group workers")
    assert len(rows) == 5


def test_what_fits_of_an_error_stays_in_the_first_line(exchanges, stream):
    made = exchanges((HEARTBEAT, 4, {**BEAT, "group_id": "g" * 40}, {"error_code": 27}))
    rows = printed(stream, made, width=120, utc=True).splitlines()
    assert rows[2].endswith(" 0.20ms REBALANCE_IN_PROGRESS")
    assert rows[3] == f"{' ' * 13}group {'g' * 40}"


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "unanswered", "outcome_reason": "one_sided"},
        {"outcome": "orphan", "outcome_reason": "gap", "api": None, "api_candidates": ["Heartbeat"]},
    ],
)
def test_a_row_without_its_other_message_goes_on_in_a_second_line(exchanges, stream, monkeypatch, changes):
    (made,) = exchanges((HEARTBEAT, 4, BEAT, {}))
    line = {**made.to_dict(), "latency_ms": None, **changes}
    made.outcome = changes["outcome"]
    monkeypatch.setattr(View, "exchange", lambda *_: line)
    rows = printed(stream, [made], width=80, utc=True).splitlines()
    assert rows[2].endswith(" –")
    assert rows[3].strip().startswith(f"{changes['outcome']} ({changes['outcome_reason']}")
    assert "…" not in rows[3]


def test_a_row_without_an_error_is_cut(exchanges, stream):
    made = exchanges((HEARTBEAT, 4, {**BEAT, "group_id": "g" * 90}, {}))
    rows = printed(stream, made, width=80, utc=True).splitlines()
    assert len(rows) == 3
    assert rows[2].endswith("g…")


APIS = [(api.key, version) for api in schema.apis() for version in {api.versions[0], api.versions[-1]}]


def lines_of_apis(**changes):
    return [
        {**LINE, **changes, "api": schema.api_name(key), "api_key": key, "api_version": version}
        for key, version in APIS
    ]


class Shown:
    """A view that shows these lines whatever it is given."""

    def __init__(self, lines):
        self._lines = iter(lines)

    def exchange(self, _):
        return next(self._lines)


@pytest.mark.parametrize("width", [40, 50, 60, 70, 79, 80, 100, 109, 110, 130, 149, 150, 170, 200, 0])
def test_every_api_keeps_to_its_column(exchanges, stream, width):
    options = {"wide": True} if width == 0 else {}
    table = TableWriter(make_console(stream, "never", width or 80), View(), utc=True, **options)
    made = exchanges((HEARTBEAT, 4, BEAT, {}))[0]
    latencies = [0.0, 1.234, 99.0, 9999.0, 30_012.0, -3.0]
    ends = {
        "client": {"ip": "10.0.0.1", "port": 40000, "id": "c"},
        "broker": {"ip": "10.0.0.9", "port": 9092},
    }
    shown = [
        {**line, **ends, "topics": ["orders"], "latency_ms": latencies[number % len(latencies)]}
        for number, line in enumerate(lines_of_apis())
    ]
    table._view = Shown(shown)
    for _ in shown:
        table.take(made)
    table.flush()
    header, *rows = stream.buffer.getvalue().decode().splitlines()
    rows = [row for row in rows if re.search(r" v\d+ ", row)]
    assert len(rows) == len(APIS)
    end = header.index("LATENCY") + len("LATENCY")
    assert all(re.search(r"(ms|s)$", row[:end]) for row in rows)
    wait = " retransmitted" if width == 0 else ""
    assert all(row[end:] in (wait, f"{wait} orders") for row in rows)
    # No two APIs look alike.
    begin = header.index("API")
    names = {row[begin:].split(" v")[0] for row in rows}
    assert len(names) == len({key for key, _ in APIS})
    if width in (0, 200):
        assert not any("…" in row for row in rows)


def test_an_apis_name_is_cut_in_its_middle(exchanges, stream):
    made = exchanges(
        (68, 0, {"group_id": "g", "member_id": "m"}, {}), (FIND_COORDINATOR, 2, {"key": "g"}, {})
    )
    rows = printed(stream, made, width=80, utc=True).splitlines()[2:]
    assert " app-1         Consume…rtbeat v0  0.20ms join group g" in rows[0]
    assert " app-1         FindCoo…inator v2  0.20ms group g" in rows[1]


def test_how_a_transaction_ends(exchanges, stream):
    def ended(committed):
        body = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0, "committed": committed}
        return printed(stream, exchanges((END_TXN, 3, body, {})), width=160, utc=True).splitlines()[-1]

    assert ended(True).endswith(" commit txn t")
    assert ended(False).endswith(" abort txn t")


def test_why_members_come_and_go(exchanges, stream):
    join = {"group_id": "g", "protocol_type": "consumer", "reason": "re\x9bjoin", "protocols": []}
    members = [{"member_id": m, "reason": "bye"} for m in "ab"] + [{"member_id": "c", "reason": "x" * 99}]
    made = exchanges(
        (JOIN_GROUP, 8, join, {}),
        (LEAVE_GROUP, 5, {"group_id": "g", "members": members}, {}),
        (LEAVE_GROUP, 0, {"group_id": "g", "member_id": "a"}, {}),
    )
    rows = printed(stream, made, width=160, utc=True).splitlines()[2:]
    assert rows[0].endswith(' group g "re\\x9bjoin"')
    assert rows[1].endswith(' group g "bye"')
    assert rows[2].endswith("ms group g")


def test_what_an_envelope_carries(exchanges, stream):
    inner = encode_request(Message(CREATE_TOPICS, 7, 1, {"topics": [{"name": "orders"}]}, "admin"))
    made = exchanges((ENVELOPE, 0, {"request_data": inner, "client_host_address": b"\x0a\0\0\1"}, {}))
    row = printed(stream, made, width=160, utc=True).splitlines()[-1]
    assert " Envelope v0 " in row
    assert row.endswith("ms CreateTopics v7 orders")


def test_wide_rows_are_not_cut(exchanges, stream):
    group = {**BEAT, "group_id": "g" * 300}
    header, row = printed(stream, exchanges((HEARTBEAT, 4, group, {})), wide=True, utc=True).splitlines()
    assert "STARTED (UTC)" in header
    assert row.startswith("2023-11-14 22:13:20.000300000 10.0.0.1:40000→10.0.0.9:9092 ")
    assert row.endswith("g" * 300)


def test_wide_rows_say_why_it_took_so_long(exchanges, stream):
    beat, wait = (HEARTBEAT, 4, BEAT, {}), (HEARTBEAT, 4, BEAT, {"throttle_time_ms": 7})
    made = exchanges(beat, wait, beat, (HEARTBEAT, 4, BEAT, None))
    header, *rows = printed(stream, made, wide=True, utc=True).splitlines()
    column = slice(header.index("WAIT"), header.index("ABOUT"))
    assert [row[column].strip() for row in rows] == ["broker", "throttled", "throttled", "–"]


@pytest.mark.parametrize(
    ("cause", "style"),
    [
        ("broker", ""),
        *((cause, "dim") for cause in ("long_poll", "group_wait", None)),
        *((cause, "yellow") for cause in ("queued", "throttled", "retransmitted")),
    ],
)
def test_causes_of_waits_have_a_colour_where_it_says_something(cause, style):
    assert wait(cause).style == style


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
    table = TableWriter(make_console(stream, "never", 80), View())
    table.take(exchanges((HEARTBEAT, 4, BEAT, {}))[0])
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
        ({**LOGIN, "outcome_reason": "closed"}, "unanswered (closed) login refused?"),
        ({**LOGIN, "outcome_reason": "reset", "kind": "sasl_token"}, "unanswered (reset) login refused?"),
        ({**LOGIN, "outcome_reason": "one_sided"}, "unanswered (one_sided)"),
        ({"outcome": "no_response"}, "no response due"),
        ({"outcome": "orphan", "api_candidates": ["Fetch", "Produce"]}, "orphan (Fetch, Produce)"),
        ({"outcome": "orphan"}, "orphan"),
        ({"topics": ["t"], "error_names": ["NOT_LEADER_OR_FOLLOWER"]}, "NOT_LEADER_OR_FOLLOWER t"),
        ({"problems": [{"code": "gap"}, {"code": "gap"}, {"code": "cap"}]}, "gap cap"),
    ],
)
def test_about(changes, text):
    assert " ".join(part.plain for part in chain(*about_cell({**LINE, **changes}))) == text


@pytest.mark.parametrize(
    ("changes", "width", "text"),
    [
        ({}, 0, "Fetch v17"),
        ({"api": "ConsumerGroupHeartbeat", "api_version": 1}, 13, "Consu…beat v1"),
        ({"api": "ConsumerGroupHeartbeat", "api_version": 1}, 5, "C… v1"),
        ({"api": "ConsumerGroupHeartbeat", "api_version": 1}, 2, "… v1"),
        ({"api": None, "api_key": 999}, 13, "API 999 v17"),
        ({"api": None, "api_key": None, "api_version": None}, 13, "?"),
        ({"kind": "sasl_token", "api": "SaslToken", "api_key": None}, 13, "SaslToken"),
    ],
)
def test_api(changes, width, text):
    assert api_text({**LINE, **changes}, width).plain == text


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


def test_a_narrow_row_has_the_brokers_port_and_the_client_id(exchanges, stream):
    made = exchanges((HEARTBEAT, 4, BEAT, {}), client_id="billing-eu-1")
    rows = printed(stream, made, width=80, utc=True).splitlines()
    assert rows[0].split() == ["STARTED", "BROKER", "CLIENT", "ID", "API", "LATENCY", "ABOUT"]
    assert rows[2].startswith("22:13:20 10.0.0.9:9092   billing-eu-1  Heartbeat v4       0.20ms group")


@pytest.mark.parametrize("client_id", [None, ""])
def test_a_client_without_an_id_is_its_address_where_that_is_not_shown(exchanges, stream, client_id):
    made = exchanges((HEARTBEAT, 4, BEAT, {}), client_id=client_id)
    assert " 10.0.0.9:9092   10.0.0.1      Heartbeat" in printed(stream, made, width=80, utc=True)
    assert printed(stream, made, width=120, utc=True).count("10.0.0.1") == 2


SHORT = {"client": {"ip": "10.0.0.1", "port": 40000}, "broker": {"ip": "10.0.0.9", "port": 9092}}
LONG = {
    "client": {"ip": "10.244.103.117", "port": 40000},
    "broker": {"ip": "192.168.100.200", "port": 19092},
}
V6 = {
    "client": {"ip": "2001:db8:aaaa:bbbb::1", "port": 40000},
    "broker": {"ip": "2001:db8:aaaa:bbbb:cccc::2", "port": 9092},
}

NAMED = {
    "client": {"ip": "10.0.0.1", "port": 40000, "name": "orders-7.default.svc.cluster.local"},
    "broker": {"ip": "10.0.0.9", "port": 9092, "name": "kafka-0.kafka.default.svc"},
}


@pytest.mark.parametrize(
    ("line", "width", "text"),
    [
        (NAMED, 36, "orders-7.default…→kafka-0.kafk…:9092"),
        (NAMED, 12, "orde…→…:9092"),
        (SHORT, 33, "10.0.0.1:40000→10.0.0.9:9092"),
        (LONG, 0, "10.244.103.117:40000→192.168.100.200:19092"),
        (LONG, 36, "10.244.103.117→192.168.100.200:19092"),
        (LONG, 33, "10.244.103.117→…168.100.200:19092"),
        (V6, 0, "[2001:db8:aaaa:bbbb::1]:40000→[2001:db8:aaaa:bbbb:cccc::2]:9092"),
        (V6, 33, "…8:aaaa:bbbb::1]→…b:cccc::2]:9092"),
    ],
)
def test_ends(line, width, text):
    assert ends_text(line, width) == text
    assert len(text) <= (width or 99)


@pytest.mark.parametrize(
    ("line", "text"), [(SHORT, "10.0.0.9:9092"), (LONG, "….100.200:19092"), (V6, "…:cccc::2]:9092")]
)
def test_broker(line, text):
    assert broker(line, 15) == text


def test_columns_grow_with_the_terminal():
    def sum_of(widths):
        return sum(width + 1 for column, width in widths.items() if column != ABOUT)

    sums = [sum_of(widths_for(width)) for width in (80, 120, 160)]
    assert sums == sorted(sums)
    assert all(total <= width - 15 for total, width in zip(sums, (80, 120, 160), strict=True))
    for terminal in range(80, 250):
        widths = widths_for(terminal)
        left = terminal - sum_of(widths)
        assert left >= ABOUT_ENOUGH or widths in (NARROW, MEDIUM)
    assert widths[API] == longest_api()


def abouts(exchanges, *messages):
    return [about_cell(View().exchange(made), action_of(made)) for made in exchanges(*messages)]


def texts(*messages, exchanges):
    return [" ".join(part.plain for part in chain(*found)) for found in abouts(exchanges, *messages)]


def test_logins(exchanges):
    answer = {"error_code": 0, "auth_bytes": b'{"status":"invalid_token"}'}
    failed = {"error_code": 58, "error_message": "Authentication failed:\n" + "x" * 60}
    assert texts(
        (SASL_HANDSHAKE, 1, {"mechanism": "OAUTHBEARER"}, {}),
        (SASL_AUTHENTICATE, 1, {"auth_bytes": BEARER}, answer),
        (SASL_AUTHENTICATE, 1, {"auth_bytes": b"\1"}, failed),
        exchanges=exchanges,
    ) == [
        "OAUTHBEARER",
        "login refused (invalid_token) OAUTHBEARER user carol",
        f'SASL_AUTHENTICATION_FAILED OAUTHBEARER user carol "Authentication failed:\\x0a{"x" * 36}…"',
    ]


def test_what_a_client_calls_itself_in_a_login_is_escaped_and_cut(exchanges):
    name = "\x1b[2J" + "m" * 99
    (shown,) = texts((SASL_HANDSHAKE, 1, {"mechanism": name}, {}), exchanges=exchanges)
    assert shown == "\\x1b[2J" + "m" * 55 + "…"


def test_resources_of_configs_and_acls(exchanges):
    acl = {"principal": "User:a", "host": "*", "operation": 2, "permission_type": 3}
    creations = [
        {**acl, "resource_type": kind, "resource_name": name, "resource_pattern_type": pattern}
        for kind, name, pattern in (
            (2, "orders", 3),
            (2, "pay-", 4),
            (3, "g", 3),
            (4, "kafka-cluster", 3),
            (99, "x", 3),
        )
    ]
    configs = [
        {"resource_type": kind, "resource_name": name, "configs": []}
        for kind, name in ((2, "orders"), (4, "1"))
    ]
    denied = {"error_code": 29, "error_message": "no", "resource_type": 4, "resource_name": "1"}
    asked = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    }
    assert texts(
        (CREATE_ACLS, 2, {"creations": creations}, {"results": []}),
        (INCREMENTAL_ALTER_CONFIGS, 1, {"resources": configs}, {"responses": [denied]}),
        (DESCRIBE_ACLS, 2, asked, {}),
        exchanges=exchanges,
    ) == [
        "topic pay- (prefix), group g, cluster kafka-cluster +1 orders",
        'TOPIC_AUTHORIZATION_FAILED broker 1 orders "no"',
        "any resource",
    ]


def test_resources_of_a_malformed_body_are_no_facts(exchanges):
    named = {4: "1000001", 8: "1"}
    configs = [{"resource_type": kind, "resource_name": named[kind]} for kind in named]
    (made,) = exchanges((DESCRIBE_CONFIGS, 0, {"resources": configs}, None))
    assert action_of(made).name == "broker 1000001, broker logger 1"
    made.request.raw = made.request.raw[:-7]
    made.request.forget()
    assert action_of(made).name is None
