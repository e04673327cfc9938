"""Summary of an exchange: names and counts in its bodies, its client's role, its problems."""

from __future__ import annotations

import tracemalloc
from struct import pack
from typing import Any
from zlib import crc32

import pytest
from exchanges import OTHER_ID, TOPIC_ID, bare, batch, encoded, exchange, fetched

from kinspect.filters.filter import Filter
from kinspect.kafka.bodysummary import layout_walk
from kinspect.kafka.connection.roles import HIDDEN, role_of, stronger
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.learnednames import METADATA_TOPIC_ID
from kinspect.kafka.wire.message import WireMessage
from kinspect.model import REQUEST, RESPONSE, Problem
from kinspect.protocol import Message, encode_request, encode_response, schema
from kinspect.protocol.primitives import ZERO_UUID


def resource(kind: int, name: str) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name}


def test_request_comes_first_and_each_name_once() -> None:
    request = {
        "transactional_id": "tx",
        "topic_data": [
            {"name": "b", "partition_data": [{"index": 1, "records": None}, {"index": 0, "records": None}]},
            {"name": "a", "partition_data": [{"index": 0, "records": None}]},
        ],
    }
    response = {
        "responses": [
            {"name": "a", "partition_responses": [{"index": 0}]},
            {"name": "c", "partition_responses": [{"index": 7}]},
        ]
    }
    found = exchange(0, 9, request, response).summary
    assert found.topics == ["b", "a", "c"]
    assert found.partitions == ["b-1", "b-0", "a-0", "c-7"]
    assert found.transactional_ids == ["tx"]
    assert found.topic_ids == []
    assert (found.record_count, found.record_bytes) == (0, 0)


def test_topic_ids_by_name_if_it_is_known() -> None:
    topics = [
        {"topic_id": TOPIC_ID, "partitions": [{"partition": 0}]},
        {"topic_id": OTHER_ID, "partitions": [{"partition": 2}]},
        {"topic_id": METADATA_TOPIC_ID, "partitions": []},
        {"topic_id": ZERO_UUID, "partitions": [{"partition": 5}]},
    ]
    forgotten = [{"topic_id": OTHER_ID, "partitions": [3, 4]}]
    request = {"max_wait_ms": 500, "topics": topics, "forgotten_topics_data": forgotten}
    found = exchange(1, 17, request, names={TOPIC_ID: "orders"}).summary
    assert found.topics == ["orders", OTHER_ID, "__cluster_metadata"]
    assert found.topic_ids == [TOPIC_ID, OTHER_ID, METADATA_TOPIC_ID]
    assert list(found.unresolved_topic_ids) == [OTHER_ID]
    assert found.partitions == ["orders-0", f"{OTHER_ID}-2", f"{OTHER_ID}-3", f"{OTHER_ID}-4"]
    assert (found.max_wait_ms, found.throttle_time_ms) == (500, None)


def test_a_name_counts_only_once_it_was_told_earlier() -> None:
    made = exchange(1, 17, {"topics": [{"topic_id": TOPIC_ID, "partitions": []}]})
    made.connection.names.learn(TOPIC_ID, "orders", (1, 0, 0, 0))
    assert made.summary.topics == [TOPIC_ID]
    later = exchange(1, 17, {"topics": [{"topic_id": TOPIC_ID, "partitions": []}]})
    later.connection.names.learn(TOPIC_ID, "orders", (1, 0, 0, 0))
    later.key = (1, 0, 0, 1)
    assert later.summary.topics == ["orders"]


GROUPS = [
    ("JoinGroup", 11, 9, {"group_id": "g"}, None),
    ("DescribeGroups", 15, 5, {"groups": ["g"]}, None),
    ("ListGroups", 16, 5, None, {"groups": [{"group_id": "g"}]}),
    ("DeleteGroups", 42, 2, {"groups_names": ["g"]}, {"results": [{"group_id": "g"}]}),
    ("OffsetFetch v7", 9, 7, {"group_id": "g"}, None),
    ("OffsetFetch v8", 9, 8, {"groups": [{"group_id": "g"}]}, {"groups": [{"group_id": "g"}]}),
    ("FindCoordinator v0", 10, 0, {"key": "g"}, None),
    ("FindCoordinator v1", 10, 1, {"key": "g", "key_type": 0}, None),
    (
        "FindCoordinator v4",
        10,
        4,
        {"key_type": 0, "coordinator_keys": ["g"]},
        {"coordinators": [{"key": "g"}]},
    ),
    ("ReadShareGroupState", 84, 0, {"group_id": "g"}, None),
    ("ConsumerGroupDescribe", 69, 1, {"group_ids": ["g"]}, {"groups": [{"group_id": "g"}]}),
]


@pytest.mark.parametrize(
    ("_name", "api_key", "version", "request_", "response"), GROUPS, ids=[g[0] for g in GROUPS]
)
def test_groups(
    _name: str, api_key: int, version: int, request_: dict[str, Any] | None, response: dict[str, Any] | None
) -> None:
    found = exchange(api_key, version, request_, response).summary
    assert found.groups == ["g"]
    assert found.transactional_ids == found.topics == []


def test_find_coordinator_of_a_transaction_and_of_a_share_group() -> None:
    answer = {"coordinators": [{"key": "k"}]}
    transaction = exchange(10, 4, {"key_type": 1, "coordinator_keys": ["k"]}, answer).summary
    assert (transaction.transactional_ids, transaction.groups) == (["k"], [])
    share = exchange(10, 6, {"key_type": 2, "coordinator_keys": ["g:AAAA:0"]}, answer).summary
    assert (share.transactional_ids, share.groups, share.topics) == ([], [], [])
    alone = exchange(10, 4, None, answer).summary
    assert (alone.transactional_ids, alone.groups) == ([], [])


def test_arrays_of_names_and_partitions() -> None:
    request = {
        "group_id": "g",
        "subscribed_topic_names": ["a", "b"],
        "topic_partitions": [{"topic_id": TOPIC_ID, "partitions": [0, 1]}],
    }
    found = exchange(68, 1, request).summary
    assert found.topics == ["a", "b", TOPIC_ID]
    assert found.partitions == [f"{TOPIC_ID}-0", f"{TOPIC_ID}-1"]


def test_a_partition_that_is_named_often_is_held_once() -> None:
    body = {"timeout_ms": 1, "topics": [{"name": "a", "partition_indexes": [7] * 100_000}]}
    found = exchange(46, 0, body)
    assert found.request is not None
    found.request.decode()
    tracemalloc.start()
    assert found.summary.partitions == ["a-7"]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1_000_000


def test_numbers_of_partitions_are_not_partitions() -> None:
    topology = {"subtopologies": [{"state_changelog_topics": [{"name": "t", "partitions": 3}]}]}
    assert exchange(88, 1, {"group_id": "g", "topology": topology}).summary.partitions == []


def test_errors_wherever_they_sit() -> None:
    response = {
        "error_code": 0,
        "throttle_time_ms": 12,
        "responses": [
            {
                "topic_id": TOPIC_ID,
                "partitions": [
                    {"partition_index": 0, "error_code": 0, "acknowledge_error_code": 121},
                    {"partition_index": 1, "error_code": 3, "acknowledge_error_code": 0},
                    {"partition_index": 2, "error_code": 3, "acknowledge_error_code": 4242},
                ],
            }
        ],
    }
    found = exchange(78, 1, None, response).summary
    assert found.error_count == 4
    assert found.error_codes == [121, 3, 4242]
    assert found.error_names == [
        schema.error_name(121, 78),
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_CODE_4242",
    ]
    assert found.errors[1] == {
        "path": "responses[0].partitions[1]",
        "code": 3,
        "name": "UNKNOWN_TOPIC_OR_PARTITION",
        "retriable": True,
    }
    assert [error["path"][-3:] for error in found.errors] == ["[0]", "[1]", "[2]", "[2]"]
    assert found.throttle_time_ms == 12


def test_error_of_the_whole_response() -> None:
    found = exchange(12, 4, None, {"error_code": 27}).summary
    assert [error["path"] for error in found.errors] == [""]
    assert found.error_names == ["REBALANCE_IN_PROGRESS"]


def test_errors_beyond_a_hundred_are_counted() -> None:
    found = exchange(
        42, 2, None, {"results": [{"group_id": str(n), "error_code": 69} for n in range(300)]}
    ).summary
    assert (found.error_count, len(found.errors), len(found.groups)) == (300, 100, 300)


def test_what_an_envelope_carries_counts() -> None:
    """A forwarded CreateTopics (KIP-590), of which the second topic is there already."""
    topics = [{"name": "orders"}, {"name": "payments"}]
    answers = [{"name": "orders"}, {"name": "payments", "error_code": 36}]
    made = exchange(58, 0, *enveloped(19, 7, {"topics": topics}, {"topics": answers}))
    found = made.summary
    assert found.topics == ["orders", "payments"]
    assert (found.error_codes, found.error_count) == ([36], 1)
    assert found.errors == [
        {
            "path": "response_data_decoded.body.topics[1]",
            "code": 36,
            "name": "TOPIC_ALREADY_EXISTS",
            "retriable": False,
        }
    ]
    inner = found.inner("request_data")
    assert inner is not None
    assert inner.header.client_id == "admin"
    assert Filter(topic=["payments"]).matches(made)
    assert Filter(errors_only=True).matches(made)


def test_groups_and_partitions_of_an_envelope() -> None:
    body = {
        "group_id": "g",
        "topics": [{"name": "orders", "partitions": [{"partition_index": 2}]}],
    }
    found = exchange(58, 0, *enveloped(47, 0, body, {"error_code": 16}), {}).summary
    assert (found.groups, found.partitions) == (["g"], ["orders-2"])
    assert found.errors[0]["path"] == "response_data_decoded.body"


def test_errors_of_an_envelope_come_first() -> None:
    request, response = enveloped(19, 7, {"topics": []}, {"topics": [{"name": "t", "error_code": 36}]})
    found = exchange(58, 0, request, {**response, "error_code": 41}).summary
    assert [error["path"] for error in found.errors] == ["", "response_data_decoded.body.topics[0]"]
    assert found.error_counts == {36: 1, 41: 1}


def test_an_envelope_that_cannot_be_read() -> None:
    request, response = enveloped(19, 7, {"topics": [{"name": "t"}]}, {"topics": [{"name": "t"}]})
    cut = {**request, "request_data": request["request_data"][:-1]}
    assert exchange(58, 0, cut, None).summary.topics == []
    assert exchange(58, 0, None, response).summary.topics == []


def test_the_message_in_an_envelope_is_decoded_once() -> None:
    carried = exchange(58, 0, *enveloped(19, 7, {"topics": []}, {"topics": []}))
    for name in ("request_data", "response_data"):
        read = carried.summary.inner(name)
        assert read is not None
        # Who decoded the bytes again would not see this.
        read.decoded.body["topics"] = [{"name": "marked"}]
    line = carried.to_dict()
    assert "marked" in str(line["request"]["body"])
    assert "marked" in str(line["response"]["body"])


def enveloped(
    api_key: int, version: int, request: dict[str, Any], response: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The bodies of an Envelope's request and response that carry these."""
    asked = encode_request(Message(api_key, version, 3, request, client_id="admin"))
    answered = encode_response(Message(api_key, version, 3, response, direction=RESPONSE))
    return {"request_data": asked, "client_host_address": b"\x0a\0\0\1"}, {"response_data": answered}


def test_record_sets_are_counted_and_read_once() -> None:
    records = batch((b"k", b"v"), (None, b"w"))
    made = fetched(records)
    found = made.summary
    assert (found.record_count, found.record_bytes) == (2, len(records))
    assert made.response is not None
    body = made.response.body
    assert body is not None
    field = found.record_field(body["responses"][0]["partitions"][0]["records"])
    assert field is not None
    assert field.batches() is field.batches()
    assert field.problems(True) is field.problems(True)
    first, again = field.take_records(), field.take_records()
    assert first == again
    assert first is not again
    assert field.count == 2
    assert found.record_field(bytes(bytearray(records))) is None


def test_all_record_sets_of_an_exchange_have_one_limit() -> None:
    def partitions(count: int) -> Exchange:
        rows = [{"partition_index": n, "records": batch((b"k", b"v"), (b"k", b"w"))} for n in range(count)]
        made = exchange(1, 12, None, {"responses": [{"topic": "orders", "partitions": rows}]})
        made.connection.caps.records = 10  # each record has a header
        return made

    def shown(made: Exchange) -> list[int]:
        rows = made.to_dict(View(records=True))["response"]["body"]["responses"][0]["partitions"]
        return [len(found["records"]) for row in rows for found in row["records"]["batches"]]

    within, beyond = partitions(2), partitions(4)
    assert shown(within) == [2, 2]
    assert within.connection.counts.caps_hit == {}
    assert shown(beyond) == shown(beyond) == [2, 2, 2, 0]
    line = beyond.to_dict(View(records=True))
    assert [(p["code"], p["path"]) for p in line["problems"]] == [
        ("cap", "responses[0].partitions[3].records")
    ]
    assert line["record_count"] == 8
    assert beyond.connection.counts.caps_hit == {"records": 1}


def test_snapshot_chunks_need_not_begin_with_a_batch() -> None:
    chunk = b"\0" * 7 + batch((b"k", b"v"))
    partition = {"index": 0, "position": 1000, "unaligned_records": chunk}
    made = exchange(59, 1, None, {"topics": [{"name": "__cluster_metadata", "partitions": [partition]}]})
    assert (made.summary.record_count, made.summary.record_bytes) == (1, len(chunk))
    assert made.problems == []


def test_nothing_to_read() -> None:
    for made in (bare(1, 17), bare(9999, 3), exchange(12, 4, {"group_id": "g"})):
        found = made.summary
        assert found.topics == found.partitions == found.errors == found.error_codes == []
        assert found.error_count is None


def produced() -> Exchange:
    """A Produce request of one record, answered."""
    partition = {"index": 0, "records": batch((b"k", b"v"))}
    request = {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [partition]}]}
    return exchange(0, 9, request, {"responses": []})


def without_request(made: Exchange) -> Exchange:
    made.request = None
    return made


def without_response(made: Exchange) -> Exchange:
    made.response = None
    return made


def cut(made: Exchange, message: WireMessage | None) -> Exchange:
    """The exchange, with the last 3 bytes of the message not captured."""
    assert message is not None
    assert message.raw is not None
    message.raw = message.raw[:-3]
    message.complete = False
    return made


def orphan_of(api_key: int | None, version: int | None) -> Exchange:
    made = bare(0, 0)
    made.api_key, made.api_version = api_key, version
    made.response = fetched(batch((b"k", b"v"))).response
    return made


def token() -> Exchange:
    made = bare(0, 0)
    made.api_key = made.api_version = made.correlation_id = None
    made.request = produced().request
    assert made.request is not None
    made.request.api_key = None
    return made


SIZE = len(batch((b"k", b"v")))
RECORDS = [
    ("produce", produced(), (1, SIZE)),
    ("produce without its answer", without_response(produced()), (1, SIZE)),
    ("produce whose answer is cut", cut(made := produced(), made.response), (1, SIZE)),
    ("produce that is cut", cut(made := produced(), made.request), (None, None)),
    ("answer to a lost produce", without_request(produced()), (None, None)),
    ("fetch without its request", fetched(batch((b"k", b"v"))), (1, SIZE)),
    ("fetch of nothing", exchange(1, 12, {}, {"responses": []}), (0, 0)),
    ("fetch without its answer", exchange(1, 12, {}), (None, None)),
    ("fetch whose answer is cut", cut(made := fetched(batch((b"k", b"v"))), made.response), (None, None)),
    ("fetch of an unknown version", bare(1, 999), (None, None)),
    ("heartbeat of an unknown version", bare(12, 999), (0, 0)),
    ("unknown API", bare(9999, 3), (None, None)),
    ("heartbeat without its answer", exchange(12, 4, {"group_id": "g"}), (0, 0)),
    ("orphan of an unknown API", orphan_of(None, None), (None, None)),
    ("raw SASL token", token(), (0, 0)),
]


@pytest.mark.parametrize(("made", "expected"), [row[1:] for row in RECORDS], ids=[row[0] for row in RECORDS])
def test_records_are_counted_only_where_all_are_seen(
    made: Exchange, expected: tuple[int | None, int | None]
) -> None:
    assert (made.summary.record_count, made.summary.record_bytes) == expected
    line = made.to_dict(View(fields=["record_count", "record_bytes"]))
    assert (line["record_count"], line["record_bytes"]) == expected


def test_records_of_a_batch_that_cannot_be_expanded_are_not_counted_as_none() -> None:
    value = b"not gzip"
    head = b"\1\1" + bytes(8) + pack(">ii", -1, len(value)) + value  # magic 1, gzip, timestamp, no key
    chunk = bytes(8) + pack(">iI", 4 + len(head), crc32(head)) + head
    found = fetched(chunk).summary
    assert (found.record_count, found.record_bytes) == (None, len(chunk))


def test_layouts_are_compiled_once() -> None:
    layout = schema.layout(1, 17, RESPONSE)
    assert layout is not None
    assert layout_walk(layout) is layout_walk(layout)


# ---------------------------------------------------------------------- problems


def test_problems_of_records_say_where_they_are() -> None:
    good = batch((b"k", b"v"))
    bad = good[:-1] + b"?"
    partitions = [
        {"partition_index": n, "records": records} for n, records in enumerate((good, bad, good, bad))
    ]
    made = exchange(1, 12, None, {"responses": [{"topic": "orders", "partitions": partitions}]})
    assert made.response is not None
    raw = made.response.raw
    assert raw is not None
    first = raw.find(bad)
    assert [(p.side, p.code, p.path, p.offset) for p in made.problems] == [
        (RESPONSE, "crc_mismatch", "responses[0].partitions[1].records", first),
        (RESPONSE, "crc_mismatch", "responses[0].partitions[3].records", raw.find(bad, first + 1)),
    ]


def test_problems_are_those_of_the_request_first() -> None:
    made = exchange(12, 4, {"group_id": "g"}, {"error_code": 0})
    assert made.request is not None
    assert made.request.raw is not None
    assert made.response is not None
    made.request.raw += b"\0\0"
    made.response.first_time = made.request.last_time - 5  # type: ignore[operator]
    made.noted = (Problem(RESPONSE, "out_of_order", "x"), Problem(None, "cap", "y"))
    assert [(p.side, p.code) for p in made.problems] == [
        (REQUEST, "trailing_bytes"),
        (RESPONSE, "out_of_order"),
        (None, "cap"),
        (None, "negative_latency"),
    ]


def test_the_response_to_a_malformed_request_may_be_of_another_layout() -> None:
    beat = {"group_id": "g", "generation_id": 1, "member_id": "m"}

    def codes(cut: int, answer: dict[str, Any] | None, complete: bool = True) -> list[tuple[str | None, str]]:
        made = exchange(12, 3, beat, answer)
        assert made.request is not None
        assert made.request.raw is not None
        made.request.raw = made.request.raw[: len(made.request.raw) - cut]
        made.request.complete = complete
        return [(p.side, p.code) for p in made.problems]

    answer = {"throttle_time_ms": 0, "error_code": 0}
    assert codes(0, answer) == []
    assert codes(3, answer) == [(REQUEST, "malformed"), (RESPONSE, "unsure_layout")]
    assert codes(3, None) == [(REQUEST, "malformed")]
    assert codes(3, answer, complete=False) == []


# ---------------------------------------------------------------------- roles

ROLES = [
    (0, 9, {}, "producer"),
    (22, 4, {}, "producer"),
    (24, 3, {}, "producer"),
    (24, 5, {"transactions": []}, "broker"),
    (1, 12, {"replica_id": -1}, "consumer"),
    (1, 12, {"replica_id": 2}, "follower"),
    (1, 17, {"replica_state": {"replica_id": 2, "replica_epoch": 1}}, "follower"),
    (1, 17, {}, "consumer"),
    (2, 7, {"replica_id": -1}, None),
    (2, 7, {"replica_id": 1}, "follower"),
    (23, 4, {"replica_id": 1}, "follower"),
    (11, 9, {}, "consumer"),
    (19, 7, {}, "admin"),
    (63, 0, {}, "broker"),
    (52, 0, {}, "controller"),
    (3, 12, {"topics": None}, None),
    (18, 3, {}, None),
    (36, 2, {}, None),
]


@pytest.mark.parametrize(("api_key", "version", "body", "role"), ROLES)
def test_role(api_key: int, version: int, body: dict[str, Any], role: str | None) -> None:
    assert role_of(api_key, encoded(REQUEST, api_key, version, body)) == role


def test_role_without_a_body() -> None:
    assert role_of(1, None) is None
    assert role_of(11, None) == "consumer"
    assert role_of(9999, None) is None


def test_no_api_has_two_roles_and_most_have_one() -> None:
    without = {name for key, name in schema.api_names().items() if role_of(key, None) is None}
    assert without == {
        "AddPartitionsToTxn",
        "ApiVersions",
        "DescribeCluster",
        "Fetch",
        "FetchSnapshot",
        "FindCoordinator",
        "GetTelemetrySubscriptions",
        "ListOffsets",
        "Metadata",
        "OffsetFetch",
        "OffsetForLeaderEpoch",
        "PushTelemetry",
        "SaslAuthenticate",
        "SaslHandshake",
    }


@pytest.mark.parametrize(
    ("old", "new", "role"),
    [
        (None, None, None),
        (None, "admin", "admin"),
        ("admin", None, "admin"),
        ("admin", "consumer", "consumer"),
        ("producer", "consumer", "producer"),
        ("consumer", "admin", "consumer"),
        ("consumer", "broker", "broker"),
        ("follower", "consumer", "follower"),
        ("follower", "broker", "follower"),
        ("admin", HIDDEN, HIDDEN),
        ("producer", HIDDEN, "producer"),
        ("controller", HIDDEN, "controller"),
        (HIDDEN, "producer", HIDDEN),
        (HIDDEN, "controller", HIDDEN),
        (HIDDEN, "consumer", "consumer"),
        (HIDDEN, None, HIDDEN),
    ],
)
def test_stronger(old: str | None, new: str | None, role: str | None) -> None:
    assert stronger(old, new) == role


LITERAL, PREFIXED, GROUP = 3, 4, 3


@pytest.mark.parametrize(
    ("api_key", "version", "request_body", "response", "topics"),
    [
        (44, 1, {"resources": [resource(2, "a"), resource(4, "1"), resource(2, "")]}, None, ["a"]),
        (
            33,
            0,
            {"resources": [resource(2, "a")]},
            {"responses": [resource(2, "a"), resource(2, "b")]},
            ["a", "b"],
        ),
        (32, 4, {"resources": [resource(2, "a"), resource(32, "g")]}, {"results": [resource(2, "a")]}, ["a"]),
        (
            30,
            2,
            {
                "creations": [
                    {**resource(2, "a"), "resource_pattern_type": LITERAL},
                    {**resource(2, "b"), "resource_pattern_type": PREFIXED},
                    {**resource(2, "*"), "resource_pattern_type": LITERAL},
                    {**resource(GROUP, "g"), "resource_pattern_type": LITERAL},
                ]
            },
            None,
            ["a"],
        ),
        (30, 0, {"creations": [resource(2, "a")]}, None, ["a"]),
        (
            29,
            2,
            {"resource_type_filter": 2, "resource_name_filter": None, "pattern_type_filter": 1},
            {"resources": [{**resource(2, "a"), "pattern_type": LITERAL, "acls": []}]},
            ["a"],
        ),
        (31, 0, {"filters": [{"resource_type_filter": 2, "resource_name_filter": "a"}]}, None, ["a"]),
    ],
)
def test_topics_of_configs_and_acls(
    api_key: int,
    version: int,
    request_body: dict[str, Any],
    response: dict[str, Any] | None,
    topics: list[str],
) -> None:
    assert exchange(api_key, version, request_body, response).summary.topics == topics


def test_a_refused_login() -> None:
    body = {"auth_bytes": b'{"status":"invalid_token"}'}
    made = exchange(36, 1, {"auth_bytes": b"n,,"}, body)
    assert (made.summary.refusal, made.summary.error_count) == ("invalid_token", 0)
    shown = made.to_dict()["response"]["body"]
    assert (shown["auth_bytes"], shown["auth_bytes_decoded"]) == (None, "invalid_token")
    assert exchange(36, 1, {"auth_bytes": b"n,,"}, {"auth_bytes": b""}).summary.refusal is None
