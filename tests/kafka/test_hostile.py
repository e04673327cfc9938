"""Input of a hostile client or capture: whatever it is, it ends in a line, and that line is JSON."""

from __future__ import annotations

import base64
from struct import pack

import orjson
import pytest
from conversation import CLIENT, Conversation, heartbeat, heartbeat_answer, request, response, sized

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View
from kinspect.records import batches, summarise
from kinspect.records.embedded import decode_assignment, decode_subscription

VIEW = View(records=True, payload="text")


def lines(exchanges: list[Exchange]) -> list[bytes]:
    return [orjson.dumps(VIEW.exchange(exchange)) for exchange in exchanges]


def test_a_group_assignment_with_a_null_topic() -> None:
    null_topic = bytes.fromhex("0000 00000001 ffff 00000000 ffffffff")
    body = {
        "group_id": "g",
        "generation_id": 1,
        "member_id": "m",
        "assignments": [{"member_id": "m", "assignment": null_topic}],
    }
    assert b"assignment_decoded" not in lines(Conversation().client(request(14, 0, 1, body)).close())[0]


@pytest.mark.parametrize("count", ["ffffffff", "ffffffb3"])
def test_no_list_of_the_consumer_protocol_is_null(count: str) -> None:
    assert decode_subscription(bytes.fromhex("0000" + count + "ffffffff")) is None
    assert decode_assignment(bytes.fromhex("0000" + count + "ffffffff")) is None


def test_a_principal_that_is_no_text() -> None:
    claims = base64.urlsafe_b64encode(b'{"sub":"\\ud800"}').rstrip(b"=")
    token = b"n,,\x01auth=Bearer e30." + claims + b".\x01\x01"
    conversation = Conversation().client(request(17, 1, 1, {"mechanism": "OAUTHBEARER"}))
    conversation.broker(response(17, 1, 1, {"error_code": 0, "mechanisms": ["OAUTHBEARER"]}))
    conversation.client(request(36, 1, 2, {"auth_bytes": token}))
    exchanges = conversation.close()
    assert len(lines(exchanges)) == 2
    assert exchanges[-1].principal is None


@pytest.mark.parametrize("base", [(1 << 63) - 1, -(1 << 63)])
def test_offsets_and_timestamps_at_the_edge_of_64_bits(base: int) -> None:
    record = b"\x0e\x00\x7e\x7e\x01\x01\x00\x00"
    header = pack(
        ">qiibIhiqqqhii", base, 49 + len(record), 0, 2, 0, 0, (1 << 31) - 1, base, base, -1, -1, -1, 1
    )
    for found in (summarise(header + record), batches(header + record)):
        orjson.dumps([{**batch, "records": None} for batch in found])
        assert "malformed_records" in {problem.code for problem in found.problems}
    assert batches(header + record)[0]["records"] == []


def test_an_absurd_count_is_reported_and_not_counted() -> None:
    header = pack(">qiibIhiqqqhii", 0, 49, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, (1 << 31) - 1)
    body = {
        "acks": 1,
        "timeout_ms": 1,
        "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": header}]}],
    }
    (exchange,) = Conversation().client(request(0, 3, 1, body)).close()
    assert exchange.summary.record_count <= len(header)
    assert "malformed_records" in {problem.code for problem in exchange.problems}


def test_boundaries_lost_again_and_again() -> None:
    torn = b"".join(b"\xff\xff\xff\xff" + heartbeat(number) for number in range(2, 402))
    conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1)).client(torn)
    conversation.client(heartbeat(1000))
    exchanges = conversation.close()
    assert 64 <= len(exchanges) <= 402
    lines(exchanges)


def test_a_null_client_id_comes_back_after_a_hole() -> None:
    conversation = Conversation().client(heartbeat(1, None)).broker(heartbeat_answer(1))
    conversation.lose(CLIENT, 100).client(heartbeat(2, None)).broker(heartbeat_answer(2))
    assert [exchange.outcome for exchange in conversation.close()] == ["answered", "answered"]


def test_acks_lost_in_a_hole_do_not_make_later_answers_out_of_order() -> None:
    produce = request(0, 3, 2, {"transactional_id": None, "acks": 0, "timeout_ms": 1, "topic_data": []})
    conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1))
    conversation.client(produce[:16]).lose(CLIENT, len(produce) - 16)
    conversation.client(heartbeat(3)).broker(heartbeat_answer(3))
    _, lost, after = conversation.close()
    assert (lost.outcome, lost.outcome_reason) == ("unanswered", "acks_unknown")
    assert (after.outcome, after.noted) == ("answered", ())


def test_the_acks_of_an_unknown_version_are_not_guessed() -> None:
    unknown = sized(b"\x00\x00\x00\x28\x00\x00\x00\x02\x00\x01c" + bytes(20))
    conversation = (
        Conversation().client(heartbeat(1), unknown).broker(heartbeat_answer(1), sized(b"\x00\x00\x00\x02"))
    )
    assert [exchange.outcome for exchange in conversation.close()] == ["answered", "answered"]


def test_an_unknown_version_with_another_header_is_shown() -> None:
    unknown = sized(b"\x00\x12\x00\x63\x00\x00\x00\x02\x00\x01c\xff\xff\xff")
    conversation = Conversation().client(heartbeat(1), unknown).broker(heartbeat_answer(1))
    exchange = conversation.close()[1]
    assert (exchange.api, exchange.api_version) == ("ApiVersions", 99)
    assert [problem.code for problem in exchange.problems] == ["unknown_version"]
