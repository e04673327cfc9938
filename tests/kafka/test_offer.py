"""A broker that tells the versions it offers is believed more than the table: another version must fit exactly."""

from __future__ import annotations

from typing import Any

import pytest
from conversation import Conversation, heartbeat, heartbeat_answer, request, response, sized

from kinspect.kafka.connection.kafkaconnection import KafkaConnection
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.model import Problem
from kinspect.state import from_bytes, to_bytes

HEARTBEAT, API_VERSIONS, UNREGISTER_CONTROLLER = 12, 18, 94


def offer(*apis: tuple[int, int, int], error: int = 0) -> bytes:
    keys = [{"api_key": key, "min_version": low, "max_version": high} for key, low, high in apis]
    return response(API_VERSIONS, 0, 1, {"error_code": error, "api_keys": keys})


def greeted(*apis: tuple[int, int, int], error: int = 0) -> Conversation:
    return Conversation().client(request(API_VERSIONS, 0, 1, {})).broker(offer(*apis, error=error))


def longer(message: bytes, tail: bytes) -> bytes:
    """The message with something behind its body."""
    return sized(message[4:] + tail)


def resumed(talk: Conversation) -> Conversation:
    """The same talk, gone on with from its state."""
    kept = from_bytes(to_bytes(talk.connection.state()))
    talk.connection = KafkaConnection.from_state(kept, talk.wire, talk.ledger)
    return talk


def told(exchange: Exchange) -> tuple[Any, Any, list[Problem]]:
    assert exchange.request is not None
    assert exchange.response is not None
    return exchange.request.body, exchange.response.body, exchange.problems


BEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


@pytest.mark.parametrize("resumes", [False, True])
@pytest.mark.parametrize(
    ("apis", "error", "is_believed"),
    [
        ([(HEARTBEAT, 0, 4)], 0, True),
        ([(HEARTBEAT, 1, 4)], 0, False),
        ([(API_VERSIONS, 0, 4)], 0, False),
        ([], 0, True),
        ([(HEARTBEAT, 1, 4)], 35, True),
        ([(key, 0, 0) for key in range(2000, 4000)], 0, True),
    ],
)
def test_a_version_that_is_not_offered_counts_if_it_fits_exactly(
    apis: list[tuple[int, int, int]], error: int, is_believed: bool, resumes: bool
) -> None:
    talk = greeted(*apis, error=error)
    if resumes:
        resumed(talk)
    talk.client(heartbeat(2)).broker(heartbeat_answer(2))
    talk.client(longer(heartbeat(3), b"\1")).broker(longer(heartbeat_answer(3), b"\1"))
    _, exact, surplus = talk.close()
    assert told(exact) == (BEAT, {"error_code": 0}, [])
    asked, answered, problems = told(surplus)
    if is_believed:
        assert (asked, answered) == (BEAT, {"error_code": 0})
        assert [problem.code for problem in problems] == ["trailing_bytes"] * 2
    else:
        assert (asked, answered) == (None, None)
        assert [problem.code for problem in problems] == ["unknown_version"] * 2
        assert problems[0].message == "HeartbeatRequest version 0 is not among those that the broker offers"
    assert surplus.summary.groups == (["g"] if is_believed else [])


def test_a_version_in_use_before_the_broker_tells_is_looked_at_from_then_on() -> None:
    talk = Conversation().client(heartbeat(2), heartbeat(3)).broker(heartbeat_answer(2), heartbeat_answer(3))
    talk.client(request(API_VERSIONS, 0, 1, {})).broker(offer((HEARTBEAT, 3, 4)))
    talk.client(longer(heartbeat(4), b"\1")).broker(heartbeat_answer(4))
    last = talk.close()[-1]
    assert told(last)[:2] == (None, {"error_code": 0})
    assert [problem.code for problem in last.problems] == ["unknown_version"]


def test_an_api_key_that_a_fork_uses_for_its_own_gives_no_invented_value() -> None:
    """94 is UnregisterController in Apache's releases, CreateMirror in a fork's."""
    talk = greeted((HEARTBEAT, 0, 4))
    named = request(UNREGISTER_CONTROLLER, 0, 2, {"controller_id": 7})
    talk.client(longer(named[:-5], b"\x07mirror\x01\0"))
    talk.broker(longer(response(UNREGISTER_CONTROLLER, 0, 2, {})[:-7], bytes(12)))
    _, exchange = talk.close()
    assert told(exchange)[:2] == (None, None)
    assert {problem.code for problem in exchange.problems} == {"unknown_version"}


def test_what_was_read_of_a_malformed_body_is_shown_but_is_no_fact() -> None:
    talk = Conversation().client(heartbeat(2)).broker(heartbeat_answer(2))
    topic = {"name": "t", "partitions": [{"partition_index": 0}]}
    asked = request(9, 1, 3, {"group_id": "g", "topics": [topic]})
    talk.client(sized(asked[4:-4] + b"\x7f")).broker(response(9, 1, 3, {"topics": []}))
    _, exchange = talk.close()
    line = exchange.to_dict()
    assert [problem["code"] for problem in line["problems"]] == ["malformed", "unsure_layout"]
    assert (line["request"]["body"]["group_id"], line["request"]["complete"]) == ("g", False)
    assert (line["groups"], line["topics"], line["partitions"]) == ([], [], [])
    assert exchange.request is not None
    assert exchange.request.facts().body is None
    assert exchange.summary.cut
