"""The JSON line: its keys, its forms of values, what stands beside the fields, and projections of it."""

from __future__ import annotations

import copy
import gc
import gzip
import json
import math
import pickle
import random
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from struct import pack
from typing import Any

import orjson
import pytest
from exchanges import OTHER_ID, START, TOPIC_ID, bare, batch, exchange, fetched, framed, metadata_value
from support.shares import one_in

from kinspect.errors import KinspectError
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view import fieldselection
from kinspect.kafka.view.view import DEFAULT, LINE_KEYS, View, iso_time, milliseconds
from kinspect.kafka.wire.lineorder import FIRST
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import SASL_TOKEN
from kinspect.model import REQUEST, RESPONSE, Problem
from kinspect.protocol import Message, encode_request, encode_response

VECTORS = Path(__file__).parents[1] / "vectors"
ALL_VIEWS = [
    View(records=records, payload=payload, show_secrets=secrets, int64=int64)
    for records, payload, secrets, int64 in product(
        (False, True), ("none", "text", "base64", "hex"), (False, True), ("number", "string")
    )
]


def vectors() -> Iterator[tuple[bytes, str, int, int]]:
    for name in ("messages.jsonl.gz", "variants.jsonl.gz"):
        with gzip.open(VECTORS / name, "rt", encoding="utf-8") as lines:
            for line in lines:
                entry = json.loads(line)
                yield (
                    bytes.fromhex(entry["frame_hex"]),
                    entry["direction"],
                    entry["api_key"],
                    entry["version"],
                )


MESSAGES = list(vectors())


def body(line: dict[str, Any], side: str = RESPONSE) -> Any:
    return line[side]["body"]


# ---------------------------------------------------------------------- the line


def test_keys_and_their_order() -> None:
    line = DEFAULT.exchange(exchange(1, 17, {"max_wait_ms": 500}, {"throttle_time_ms": 3}))
    assert " ".join(line) == (
        "type schema_version event_id host interface timestamp completed_at client broker connection_id"
        " community_id tls kind api api_key api_version correlation_id outcome outcome_reason api_candidates"
        " latency_ms service_ms in_flight max_wait_ms throttle_time_ms wait topics topic_ids partitions groups"
        " transactional_ids truncated_lists line_truncated record_count record_bytes topic_records error_codes"
        " error_names error_count problem_count request response problems"
    )
    assert list(line["client"]) == [
        "ip",
        "port",
        "id",
        "role",
        "principal",
        "software_name",
        "software_version",
        "name",
        "process",
    ]
    assert list(line["broker"]) == ["ip", "port", "node_id", "name"]
    sides = ["timestamp", "duration_ms", "size", "frames", "layout", "complete", "inferred", "body"]
    assert list(line["request"]) == sides
    assert list(line["response"]) == [*sides, "errors"]
    assert line["request"]["frames"] == {"file": "b.pcap", "first": 12, "last": 13, "packets": 2}
    assert line["timestamp"] == "2026-11-21T06:43:01.123456000Z"
    assert line["completed_at"] == "2026-11-21T06:43:01.125466000Z"
    assert line["request"]["duration_ms"] == 0.01
    assert line["latency_ms"] == line["service_ms"] == 1.99
    assert (line["max_wait_ms"], line["throttle_time_ms"]) == (500, 3)
    assert (line["api"], line["type"], line["schema_version"]) == ("Fetch", "exchange", 2)


def test_any_key_alone_is_as_in_the_whole_line() -> None:
    made = exchange(1, 17, {"max_wait_ms": 500}, {"throttle_time_ms": 3})
    whole = DEFAULT.exchange(made)
    assert list(LINE_KEYS) == list(whole)
    for key, value in whole.items():
        shown = View(fields=[key]).exchange(made)
        assert list(shown) == [key]
        assert shown[key] == value


def test_an_exchange_shows_itself() -> None:
    made = exchange(12, 4, {"group_id": "g"}, {"error_code": 27})
    assert made.to_dict() == DEFAULT.exchange(made)
    assert made.to_dict(View(fields=["api"])) == {"api": "Heartbeat"}
    assert made.latency_ms == 1.99


def test_missing_sides_are_null_and_lists_empty() -> None:
    made = bare(1, 17)
    made.request = WireMessage(REQUEST, b"", 0, 0, None, None, 1, 1, 1, True)
    line = DEFAULT.exchange(made)
    assert line["response"] is line["timestamp"] is line["latency_ms"] is None
    made.request, made.response = None, made.request
    assert DEFAULT.exchange(made)["request"] is None
    assert line["topics"] == line["problems"] == line["error_codes"] == line["api_candidates"] == []
    assert (line["record_count"], line["record_bytes"], line["truncated_lists"]) == (None, None, False)


def test_sasl_token_is_a_size() -> None:
    made = bare(0, 0)
    made.kind, made.api_key, made.api_version = SASL_TOKEN, None, None
    made.request = WireMessage(REQUEST, b"\0alice\0secret", 13, 0, START, START, 1, 1, 1, True)
    line = DEFAULT.exchange(made)
    assert (line["api"], line["request"]["size"], line["request"]["body"]) == ("SaslToken", 13, None)
    assert line["request"]["complete"] is True
    assert "secret" not in str(line)


def test_unknown_version_has_no_body() -> None:
    made = framed(encode_request(Message(12, 4, 7, {"group_id": "g"}, client_id="p")), REQUEST, 12, 999)
    line = DEFAULT.exchange(made)
    assert body(line, REQUEST) is None
    assert line["request"]["complete"] is False
    assert [problem["code"] for problem in line["problems"]] == ["unknown_version"]


def test_a_broken_message_shows_what_could_be_read() -> None:
    made = exchange(12, 4, {"group_id": "g", "member_id": "m"})
    assert made.request is not None
    assert made.request.raw is not None
    made.request.raw = made.request.raw[:6]
    line = DEFAULT.exchange(made)
    assert body(line, REQUEST)["group_id"] == "g"
    assert line["request"]["complete"] is False
    assert line["problem_count"] == len(line["problems"]) == 1


def test_lists_are_cut_at_a_hundred_and_say_so() -> None:
    def made(groups: int) -> Exchange:
        return exchange(42, 2, {"groups_names": [f"g{n}" for n in range(groups)]})

    assert DEFAULT.exchange(made(100))["truncated_lists"] is False
    line = DEFAULT.exchange(made(101))
    assert line["truncated_lists"] is True
    assert len(line["groups"]) == 100
    noisy = made(1)
    noisy.noted = (Problem(None, "cap", "x"),) * 101
    line = DEFAULT.exchange(noisy)
    assert (line["truncated_lists"], line["problem_count"], len(line["problems"])) == (True, 101, 100)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (None, None),
        (0, "1970-01-01T00:00:00.000000000Z"),
        (1_234_567_890_000_000_001, "2009-02-13T23:31:30.000000001Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
        (1 << 80, None),
        (-(1 << 80), None),
    ],
)
def test_times(nanoseconds: int | None, text: str | None) -> None:
    assert iso_time(nanoseconds) == text


def test_milliseconds() -> None:
    assert milliseconds(1_234_000) == 1.234
    assert milliseconds(-1) == -0.000001
    assert milliseconds(None) is None


# ---------------------------------------------------------------------- forms of values


def test_numbers() -> None:
    values = [{"key": str(v), "value": v} for v in (math.nan, math.inf, -math.inf, 0.5)]
    line = DEFAULT.exchange(exchange(48, 1, None, {"entries": [{"entity": [], "values": values}]}))
    shown = [entry["value"] for entry in body(line)["entries"][0]["values"]]
    assert shown == ["NaN", "Infinity", "-Infinity", 0.5]


def test_int64_as_text() -> None:
    view = View(records=True, int64="string")
    big = (1 << 63) - 1
    line = view.exchange(exchange(66, 1, {"producer_id_filters": [big, 0], "duration_filter": -1}))
    assert body(line, REQUEST)["producer_id_filters"] == [str(big), "0"]
    assert body(line, REQUEST)["duration_filter"] == "-1"
    partition = body(view.exchange(fetched(batch((b"k", b"v")))))["responses"][0]["partitions"][0]
    assert (partition["high_watermark"], partition["partition_index"]) == ("1", 0)
    shown = partition["records"]["batches"][0]
    assert (shown["base_offset"], shown["producer_id"], shown["delete_horizon_ms"]) == ("5", "-1", None)
    assert (shown["count"], shown["producer_epoch"]) == (1, -1)
    assert (shown["records"][0]["offset"], shown["records"][0]["timestamp_ms"]) == ("5", "1000")


def test_int64_as_text_in_readings() -> None:
    value = metadata_value(7, "FenceBrokerRecord", {"id": 1, "epoch": 77})
    line = View(records=True, int64="string").exchange(fetched(batch((None, value)), "__cluster_metadata"))
    record = body(line)["responses"][0]["partitions"][0]["records"]["batches"][0]["records"][0]
    assert record["value_decoded"] == {
        "type": "FenceBrokerRecord",
        "version": 0,
        "data": {"id": 1, "epoch": "77"},
    }


def test_unknown_tagged_fields_are_kept_anywhere() -> None:
    tags = [{"tag": 99, "bytes": b"\xff"}]
    topics = [{"name": "a", "unknown_tagged_fields": tags, "partitions": []}]
    line = DEFAULT.exchange(exchange(3, 12, None, {"topics": topics, "unknown_tagged_fields": tags}))
    assert body(line)["unknown_tagged_fields"] == [{"tag": 99, "bytes": "/w=="}]
    assert body(line)["topics"][0]["unknown_tagged_fields"] == [{"tag": 99, "bytes": "/w=="}]
    orjson.dumps(line)


# ---------------------------------------------------------------------- records


def record_of(line: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body(line)["responses"][0]["partitions"][0]["records"]["batches"][0]["records"][0]
    return found


def test_batches_without_records() -> None:
    records = batch((b"k", b"v"))
    shown = body(DEFAULT.exchange(fetched(records + b"\0\0")))["responses"][0]["partitions"][0]["records"]
    assert shown["partial_bytes"] == 2
    assert " ".join(shown["batches"][0]) == (
        "base_offset last_offset magic compression count size crc_ok timestamp_type base_timestamp_ms"
        " max_timestamp_ms delete_horizon_ms producer_id producer_epoch base_sequence partition_leader_epoch"
        " is_transactional is_control"
    )
    assert shown["batches"][0]["size"] == len(records)


PAYLOADS = [
    ("none", b"k\xff", b"v", (None, None, None, None, None, None)),
    ("text", b"k\xff", b"v", ("a/8=", "base64", "v", "utf-8", "x", "utf-8")),
    ("base64", b"k\xff", b"v", ("a/8=", "base64", "dg==", "base64", "eA==", "base64")),
    ("hex", b"k\xff", b"v", ("6bff", "hex", "76", "hex", "78", "hex")),
]


@pytest.mark.parametrize(("payload", "key", "value", "shown"), PAYLOADS, ids=[p[0] for p in PAYLOADS])
def test_payloads(payload: str, key: bytes, value: bytes, shown: tuple[str | None, ...]) -> None:
    record = record_of(View(records=True, payload=payload).exchange(fetched(batch((key, value)))))
    assert record == {
        "offset": 5,
        "timestamp_ms": 1000,
        "key": shown[0],
        "key_size": 2,
        "key_encoding": shown[1],
        "value": shown[2],
        "value_size": 1,
        "value_encoding": shown[3],
        "headers": [{"key": "h", "value": shown[4], "value_encoding": shown[5]}],
    }


@pytest.mark.parametrize("payload", ["none", "text", "base64", "hex"])
def test_null_keys_and_values(payload: str) -> None:
    record = record_of(View(records=True, payload=payload).exchange(fetched(batch((None, None)))))
    assert [record[k] for k in ("key", "key_size", "key_encoding")] == [None] * 3
    assert [record[k] for k in ("value", "value_size", "value_encoding")] == [None] * 3


def test_null_records_stay_null() -> None:
    made = exchange(0, 9, {"topic_data": [{"name": "a", "partition_data": [{"index": 0, "records": None}]}]})
    assert body(DEFAULT.exchange(made), REQUEST)["topic_data"][0]["partition_data"][0]["records"] is None


def test_control_records_are_read() -> None:
    marker = batch((b"\0\0\0\1", b"\0\0\0\0\0\7"), control=True)
    record = record_of(View(records=True).exchange(fetched(marker)))
    assert record["key_decoded"] == {"type": "COMMIT", "version": 0}
    assert record["value_decoded"]["data"] == {"coordinator_epoch": 7}
    assert list(record).index("value_decoded") == list(record).index("value_size") + 1


@pytest.mark.parametrize("topic", ["__consumer_offsets", None])
def test_internal_topics_are_read_by_name_or_id(topic: str | None) -> None:
    key = pack(">hh", 2, 1) + b"g"
    names = {TOPIC_ID: "__consumer_offsets"}
    record = record_of(View(records=True).exchange(fetched(batch((key, None)), topic, names)))
    assert record["key_decoded"] == {"type": "GroupMetadataKey", "version": 0, "data": {"group": "g"}}
    assert "value_decoded" not in record
    assert "key_decoded" not in record_of(View(records=True).exchange(fetched(batch((key, None)))))


def test_topic_ids_in_records_are_resolved() -> None:
    value = metadata_value(9, "RemoveTopicRecord", {"topic_id": TOPIC_ID})
    made = fetched(batch((None, value)), "__cluster_metadata", {TOPIC_ID: "orders"})
    data = record_of(View(records=True).exchange(made))["value_decoded"]["data"]
    assert data == {"topic_id": TOPIC_ID, "topic_name_resolved": "orders"}


def test_problems_of_records_show_only_if_records_are_read() -> None:
    good = batch((b"k", b"v"))
    lying = good[:57] + pack(">i", 2) + good[61:]
    codes = [problem["code"] for problem in View(records=True).exchange(fetched(lying))["problems"]]
    assert "malformed_records" in codes
    assert all(problem["code"] == "crc_mismatch" for problem in DEFAULT.exchange(fetched(lying))["problems"])


# ---------------------------------------------------------------------- what stands beside the fields


def test_topic_names_stand_beside_ids() -> None:
    topics = [{"topic_id": i, "partitions": []} for i in (TOPIC_ID, OTHER_ID)]
    shown = body(DEFAULT.exchange(exchange(1, 17, {"topics": topics}, names={TOPIC_ID: "orders"})), REQUEST)[
        "topics"
    ]
    assert list(shown[0]) == ["topic_id", "topic_name_resolved", "partitions"]
    assert shown[0]["topic_name_resolved"] == "orders"
    assert "topic_name_resolved" not in shown[1]


def test_a_name_on_the_wire_needs_none_beside_it() -> None:
    topics = [{"name": "orders", "topic_id": TOPIC_ID}, {"name": None, "topic_id": TOPIC_ID}]
    shown = body(DEFAULT.exchange(exchange(20, 6, {"topics": topics}, names={TOPIC_ID: "orders"})), REQUEST)[
        "topics"
    ]
    assert "topic_name_resolved" not in shown[0]
    assert shown[1]["topic_name_resolved"] == "orders"


def text(value: str) -> bytes:
    return pack(">h", len(value)) + value.encode()


SUBSCRIPTION = pack(">hi", 0, 1) + text("orders") + pack(">i", 2) + b"\xff\0"
ASSIGNMENT = pack(">hi", 0, 1) + text("orders") + pack(">iii", 1, 3, -1)
READ_SUBSCRIPTION = {"version": 0, "topics": ["orders"], "user_data": "/wA="}
READ_ASSIGNMENT = {
    "version": 0,
    "assigned_partitions": [{"topic": "orders", "partitions": [3]}],
    "user_data": None,
}


def join(kind: str) -> dict[str, Any]:
    return {"protocol_type": kind, "protocols": [{"name": "range", "metadata": SUBSCRIPTION}]}


def test_subscriptions_are_read() -> None:
    members = {"members": [{"member_id": "m", "metadata": SUBSCRIPTION}]}
    for version in (5, 9):
        answer = {**members, "protocol_type": "consumer"} if version >= 7 else members
        line = DEFAULT.exchange(exchange(11, version, join("consumer"), answer))
        assert body(line, REQUEST)["protocols"][0]["metadata_decoded"] == READ_SUBSCRIPTION
        assert body(line)["members"][0]["metadata_decoded"] == READ_SUBSCRIPTION
        assert body(line)["members"][0]["metadata"] == b64encode(SUBSCRIPTION).decode()
    line = DEFAULT.exchange(exchange(11, 5, join("connect"), members))
    assert "metadata_decoded" not in body(line, REQUEST)["protocols"][0]
    assert "metadata_decoded" not in body(line)["members"][0]


def test_assignments_are_read() -> None:
    request = {"assignments": [{"member_id": "m", "assignment": ASSIGNMENT}]}
    for version, kind, is_read in (
        (3, None, True),
        (5, "consumer", True),
        (5, "connect", False),
        (5, None, True),
    ):
        told = {"protocol_type": kind} if version >= 5 else {}
        line = DEFAULT.exchange(
            exchange(14, version, {**request, **told}, {"assignment": ASSIGNMENT, **told})
        )
        shown = (body(line, REQUEST)["assignments"][0], body(line))
        assert [entry.get("assignment_decoded") for entry in shown] == [
            READ_ASSIGNMENT if is_read else None
        ] * 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        ASSIGNMENT + b"\0",
        ASSIGNMENT[:-1],
        ASSIGNMENT.replace(b"orders", b"ord/rs"),
        pack(">hi", 0, 1) + text("a") + pack(">iii", 1, -3, -1),
    ],
)
def test_other_bytes_are_left_alone(data: bytes) -> None:
    line = DEFAULT.exchange(exchange(14, 3, None, {"assignment": data}))
    assert body(line) == {"throttle_time_ms": 0, "error_code": 0, "assignment": b64encode(data).decode()}


def test_described_groups_are_read() -> None:
    member = {"member_id": "m", "member_metadata": SUBSCRIPTION, "member_assignment": ASSIGNMENT}
    groups = [
        {"group_id": kind, "protocol_type": kind, "members": [member]} for kind in ("consumer", "connect")
    ]
    shown = [
        group["members"][0]
        for group in body(DEFAULT.exchange(exchange(15, 5, None, {"groups": groups})))["groups"]
    ]
    assert shown[0]["member_metadata_decoded"] == READ_SUBSCRIPTION
    assert shown[0]["member_assignment_decoded"] == READ_ASSIGNMENT
    assert not any(key.endswith("_decoded") for key in shown[1])


def test_envelopes_are_read() -> None:
    inner = encode_request(
        Message(20, 6, 3, {"topics": [{"name": None, "topic_id": TOPIC_ID}]}, client_id="admin")
    )
    answer = encode_response(Message(20, 6, 3, {"responses": []}, direction=RESPONSE))
    request = {
        "request_data": inner,
        "request_principal": b"\0\0" + bytes((5,)) + b"User" + bytes((6,)) + b"alice" + b"\1\0",
        "client_host_address": b"\x0a\0\0\1",
    }
    made = exchange(58, 0, request, {"response_data": answer}, {TOPIC_ID: "orders"})
    line = DEFAULT.exchange(made)
    shown = body(line, REQUEST)
    told = {"api": "DeleteTopics", "api_key": 20, "api_version": 6, "correlation_id": 3, "client_id": "admin"}
    assert list(shown)[:2] == ["request_data", "request_data_decoded"]
    assert shown["request_data_decoded"] == {
        **told,
        "body": {
            "topics": [{"name": None, "topic_id": TOPIC_ID, "topic_name_resolved": "orders"}],
            "timeout_ms": 0,
        },
    }
    assert shown["request_principal_decoded"] == {
        "version": 0,
        "type": "User",
        "name": "alice",
        "token_authenticated": True,
    }
    assert shown["client_host_address_decoded"] == "10.0.0.1"
    assert body(line)["response_data_decoded"] == {**told, "body": {"throttle_time_ms": 0, "responses": []}}
    without_request = exchange(58, 0, None, {"response_data": answer})
    assert body(DEFAULT.exchange(without_request)) == {
        "response_data": None,
        "response_data_size": len(answer),
        "error_code": 0,
    }


def test_envelopes_in_envelopes_are_not_followed() -> None:
    data = encode_request(Message(12, 4, 1, {"group_id": "g"}, client_id="c"))
    for _ in range(3):
        data = encode_request(Message(58, 0, 1, {"request_data": data}, client_id="c"))
    shown = body(DEFAULT.exchange(exchange(58, 0, {"request_data": data})), REQUEST)
    assert "request_data_decoded" not in shown
    assert shown["request_data_size"] == len(data)


# ---------------------------------------------------------------------- projections


def full() -> Exchange:
    partitions = [{"partition_index": 0, "error_code": 3, "records": batch((b"k", b"v"))}]
    request = {"topics": [{"topic_id": TOPIC_ID, "partitions": [{"partition": 0}]}], "rack_id": "r"}
    response = {"responses": [{"topic_id": TOPIC_ID, "partitions": partitions}]}
    return exchange(1, 17, request, response, {TOPIC_ID: "orders"})


PROJECTIONS: list[tuple[list[str], dict[str, Any]]] = [
    (["latency_ms", "api"], {"api": "Fetch", "latency_ms": 1.99}),
    (["client.ip", "broker.port"], {"client": {"ip": "10.0.0.1"}, "broker": {"port": 9092}}),
    (
        ["request.body.topics.partitions.partition"],
        {"request": {"body": {"topics": [{"partitions": [{"partition": 0}]}]}}},
    ),
    (["request.body.rack_id", "request.size"], {"request": {"size": 77, "body": {"rack_id": "r"}}}),
    (
        ["response.body.responses.topic_name_resolved"],
        {"response": {"body": {"responses": [{"topic_name_resolved": "orders"}]}}},
    ),
    (["response.errors.code"], {"response": {"errors": [{"code": 3}]}}),
    (["problems.code", "topics"], {"topics": ["orders"], "problems": []}),
    (
        ["response.body.responses.partitions.records.batches.count"],
        {"response": {"body": {"responses": [{"partitions": [{"records": {"batches": [{"count": 1}]}}]}]}}},
    ),
    (["request.body.members.host"], {"request": {"body": {}}}),
]


@pytest.mark.parametrize(("fields", "line"), PROJECTIONS, ids=[",".join(p[0]) for p in PROJECTIONS])
def test_projection(fields: list[str], line: dict[str, Any]) -> None:
    shown = View(fields=fields).exchange(full())
    assert shown == line
    assert list(shown) == [key for key in LINE_KEYS if key in line]


def test_a_whole_field_takes_in_its_parts() -> None:
    for fields in (["request.body.topics", "request.body.topics.topic_id"], ["request.body.topics"]):
        shown = View(fields=fields).exchange(full())
        assert list(shown["request"]["body"]["topics"][0]) == [
            "topic_id",
            "topic_name_resolved",
            "partitions",
        ]


def test_projected_keys_are_there_though_null() -> None:
    fields = ["response.body.members", "timestamp", "client.id", "problems"]
    assert View(fields=fields).exchange(bare(1, 17)) == {
        "timestamp": None,
        "client": {"id": "p-1"},
        "response": None,
        "problems": [],
    }


def test_a_view_can_be_sent_to_another_process() -> None:
    view = View(records=True, payload="hex", fields=("api", "topics"))
    view.exchange(full())
    sent = pickle.loads(pickle.dumps(view))
    assert sent == view
    assert sent.exchange(full()) == view.exchange(full())


def test_a_view_tells_what_it_needs() -> None:
    def needs(*fields: str) -> tuple[Any, Any]:
        view = View(fields=fields)
        return view.request_fields, view.response_fields

    nothing: frozenset[str] = frozenset()
    assert (DEFAULT.request_fields, DEFAULT.response_fields) == (None, None)
    assert needs("api", "client.ip", "request.size", "response.frames") == (nothing, nothing)
    assert needs("topics") == needs("problem_count") == needs("response.errors.code") == (None, None)
    assert needs("response") == (None, None)
    assert needs("request") == needs("request.body") == needs("request.complete") == (None, nothing)
    request_fields, response_fields = needs("request.body.topics.partitions")
    assert response_fields == nothing
    assert {"topics.partitions", "topics.topic_id"} <= request_fields
    assert "topics" not in request_fields


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("zzz", "unknown field 'zzz': see docs/output.md, or any line without --fields"),
        ("latency", "unknown field 'latency': did you mean latency_ms? see docs/output.md, or any line"),
        ("ip", "unknown field 'ip': did you mean client.ip, broker.ip? "),
        ("", "unknown field ''"),
        ("client.nope", "unknown field 'client.nope'; it has ip, port, id"),
        ("api.name", "unknown field 'api.name'; there is nothing below it"),
    ],
)
def test_unknown_fields(field: str, message: str) -> None:
    with pytest.raises(KinspectError) as error:
        View(fields=["tls", field])
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("options", [{"payload": "xml"}, {"int64": "float"}])
def test_unknown_options(options: dict[str, str]) -> None:
    with pytest.raises(KinspectError):
        View(**options)  # type: ignore[arg-type]


def leaves(value: Any, path: str = "") -> set[str]:
    if isinstance(value, dict) and value:
        return {leaf for name, item in value.items() for leaf in leaves(item, f"{path}.{name}")}
    if isinstance(value, list) and value:
        return {leaf for item in value for leaf in leaves(item, path)}
    return {path.removeprefix(".")}


def test_projected_bodies_are_parts_of_whole_ones() -> None:
    rng = random.Random(7)
    for frame, side, api_key, version in MESSAGES[::7]:
        whole = View(records=True).exchange(framed(frame, side, api_key, version))
        paths = sorted(leaves(body(whole, side)) - {""})
        fields = [f"{side}.body.{path}" for path in rng.sample(paths, min(2, len(paths)))]
        if not fields:
            continue
        shown = View(records=True, fields=fields).exchange(framed(frame, side, api_key, version))
        wanted = {side: fieldselection.project(whole[side], fieldselection.parse_paths(fields)[side])}
        assert shown == wanted, (api_key, version, fields)


# ---------------------------------------------------------------------- any message


@pytest.mark.parametrize("part", one_in(8, range(8)))
def test_every_message_in_every_view_is_json(part: int) -> None:
    for frame, side, api_key, version in MESSAGES[part::8]:
        made = framed(frame, side, api_key, version)
        message = made.request or made.response
        assert message is not None
        before = copy.deepcopy(message.body)
        for view in ALL_VIEWS:
            line = view.exchange(made)
            assert json.loads(orjson.dumps(line)) == json.loads(json.dumps(line, allow_nan=False))
        assert message.body == before


def test_no_cut_message_breaks_a_view() -> None:
    rng = random.Random(3)
    view = View(records=True, payload="text", int64="string")
    for frame, side, api_key, version in MESSAGES:
        made = framed(frame, side, api_key, version)
        message = made.request or made.response
        assert message is not None
        message.raw = frame[: rng.randint(message.body_start, len(frame))]
        orjson.dumps(view.exchange(made))


def test_no_changed_byte_breaks_a_view() -> None:
    rng = random.Random(5)
    view = View(records=True, payload="text", show_secrets=True)
    for frame, side, api_key, version in MESSAGES:
        made = framed(frame, side, api_key, version)
        message = made.request or made.response
        assert message is not None
        changed = bytearray(frame)
        for _ in range(3):
            if len(frame) > message.body_start:
                changed[rng.randrange(message.body_start, len(frame))] = rng.randrange(256)
        message.raw = bytes(changed)
        orjson.dumps(view.exchange(made))


def test_layouts_are_compiled_once_a_view() -> None:
    view = View()
    view.exchange(full())
    plans = dict(view._bodies._plans)
    assert len(plans) == 2
    view.exchange(full())
    assert view._bodies._plans == plans


def test_bodies_that_need_nothing_are_not_copied() -> None:
    made = exchange(12, 4, {"group_id": "g"}, {"error_code": 0})
    assert made.response is not None
    assert body(DEFAULT.exchange(made)) is made.response.body


def test_the_ends_of_a_connection_change_from_line_to_line() -> None:
    found = exchange(18, 0, {})
    view, lines = View(), []
    for name, role in (("p-1", None), ("p-2", None), ("p-1", "producer"), ("p-1", None)):
        found.client_id, found.principal, found.role = name, f"User:{name}", role
        lines.append(view.exchange(found))
    found.connection.names.learn_node("10.0.0.9", 9092, 4, FIRST)
    lines.append(view.exchange(found))
    shown = [
        (*(line["client"][key] for key in ("id", "principal", "role")), line["broker"]["node_id"])
        for line in lines
    ]
    assert shown == [
        ("p-1", "User:p-1", None, None),
        ("p-2", "User:p-2", None, None),
        ("p-1", "User:p-1", "producer", None),
        ("p-1", "User:p-1", None, None),
        ("p-1", "User:p-1", None, 4),
    ]
    assert View(users=False).exchange(found)["client"]["principal"] is None


def test_a_line_may_be_changed_without_changing_others() -> None:
    first, second = exchange(18, 0, {}), exchange(18, 0, {})
    changed = first.to_dict()
    changed["client"].clear()
    changed["broker"]["ip"] = "elsewhere"
    assert second.to_dict()["client"]["ip"] == first.to_dict()["client"]["ip"] == "10.0.0.1"
    assert second.to_dict()["broker"]["ip"] == "10.0.0.9"


@pytest.mark.big
def test_a_view_keeps_no_more_than_it_may_of_clients() -> None:
    view = View()

    def kept(long: int, names: int) -> int:
        """Bytes kept of clients whose names are so long, each of a run of its own that learned so many names."""
        tracemalloc.start()
        for number in range(1200):
            found = exchange(18, 0, {}, names={f"{topic:022}": f"topic-{topic}" for topic in range(names)})
            found.client_id = f"{number}{'x' * long}"
            view.exchange(found)
        del found
        gc.collect()
        bytes_kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return bytes_kept

    assert kept(30_000, 0) < 1_000_000
    assert kept(10, 100) < 4_000_000
