"""Responses whose request nobody can tell for sure say so; the others do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from conversation import (
    BROKER,
    CLIENT,
    MS,
    Conversation,
    Wire,
    heartbeat,
    heartbeat_answer,
    outcomes,
    request,
    response,
    sized,
)
from support.shares import one_in

from kinspect.filters.filter import Filter
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.protocol import Message, encode_request

SIZE = len(heartbeat(1))
ANSWER_SIZE = len(heartbeat_answer(1))


def codes(exchanges: Sequence[Exchange]) -> list[list[str]]:
    return [[problem.code for problem in exchange.problems] for exchange in exchanges]


class TestUnderWayAtTheBegin:
    """A connection that is captured from its middle."""

    def _talk(self) -> Conversation:
        return Conversation(Wire(syn=None, packets=(9, 9)))

    def test_requests_behind_the_one_that_is_being_answered_are_in_no_gap(self) -> None:
        tail = bytes(2000)
        talk = self._talk().client(heartbeat(5), heartbeat(6)).broker(tail).client(heartbeat(7))
        talk.broker(tail + heartbeat_answer(5) + heartbeat_answer(6)[:-1])
        assert outcomes(talk.close("reset")) == [
            ("Heartbeat", 5, "answered", None),
            ("Heartbeat", 6, "unanswered", "reset"),
            ("Heartbeat", 7, "unanswered", "reset"),
        ]

    def test_responses_before_the_first_one_are_lost_not_overtaken(self) -> None:
        talk = self._talk().client(*map(heartbeat, range(5, 8)))
        exchanges = talk.broker(*map(heartbeat_answer, (4, 6, 7))).close()
        assert outcomes(exchanges) == [
            (None, 4, "orphan", None),
            ("Heartbeat", 5, "unanswered", "gap"),
            ("Heartbeat", 6, "answered", None),
            ("Heartbeat", 7, "answered", None),
        ]
        assert codes(exchanges) == [[]] * 4


def test_responses_behind_one_whose_end_was_lost_may_lie_in_the_gap() -> None:
    talk = (
        Conversation()
        .client(*map(heartbeat, range(1, 5)))
        .broker(heartbeat_answer(1), heartbeat_answer(2)[:-1])
    )
    talk.lose(BROKER, 1 + ANSWER_SIZE).broker(heartbeat_answer(4))
    assert [(e.correlation_id, e.outcome, e.outcome_reason) for e in talk.close()] == [
        (1, "answered", None),
        (2, "answered", None),
        (3, "unanswered", "gap"),
        (4, "answered", None),
    ]


class TestLostRequests:
    def test_with_one_id_for_all_pairing_is_uncertain(self) -> None:
        conversation = Conversation().client(heartbeat(1)).lose(CLIENT, SIZE).client(heartbeat(1))
        conversation.broker(*[heartbeat_answer(1)] * 3)
        first, unsure, orphan = conversation.close()
        assert codes([first, unsure, orphan]) == [[], ["uncertain_pairing"], []]
        assert (first.latency_ns is None, unsure.latency_ns) == (False, None)
        assert (orphan.outcome, orphan.outcome_reason) == ("orphan", "gap")
        assert Filter(errors_only=True).matches(orphan)

    @pytest.mark.parametrize("lost", [1, 2, 5])
    @pytest.mark.parametrize("ahead", [1, 3])
    @pytest.mark.parametrize("behind", [1, 4])
    def test_lost_requests_make_the_later_ones_uncertain(self, ahead: int, lost: int, behind: int) -> None:
        conversation = Conversation().client(*[heartbeat(0)] * ahead).lose(CLIENT, SIZE * lost)
        conversation.client(*[heartbeat(0)] * behind)
        exchanges = conversation.broker(*[heartbeat_answer(0)] * (ahead + lost + behind)).close()
        unsure = [[]] * ahead + [["uncertain_pairing"]] * behind
        assert codes(exchanges) == unsure + [[]] * lost
        assert outcomes(exchanges)[ahead + behind :] == [(None, 0, "orphan", "gap")] * lost

    def test_the_one_before_was_answered(self) -> None:
        conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1)).lose(CLIENT, SIZE)
        conversation.client(heartbeat(1)).broker(heartbeat_answer(1), heartbeat_answer(1))
        assert codes(conversation.close()) == [[], ["uncertain_pairing"], []]

    def test_ids_that_count_tell(self) -> None:
        conversation = Conversation().client(heartbeat(1)).lose(CLIENT, SIZE).client(heartbeat(3))
        exchanges = conversation.broker(*map(heartbeat_answer, (1, 2, 3))).close()
        assert codes(exchanges) == [[], [], []]
        assert outcomes(exchanges) == [
            ("Heartbeat", 1, "answered", None),
            (None, 2, "orphan", "gap"),
            ("Heartbeat", 3, "answered", None),
        ]

    def test_orphans_of_two_holes_have_their_reason(self) -> None:
        conversation = Conversation().client(heartbeat(1)).lose(CLIENT, SIZE).client(heartbeat(3))
        conversation.lose(CLIENT, SIZE).client(heartbeat(5)).broker(*map(heartbeat_answer, range(1, 7)))
        reasons = [
            (e.correlation_id, e.outcome_reason) for e in conversation.close() if e.outcome == "orphan"
        ]
        assert reasons == [(2, "gap"), (4, "gap"), (6, None)]

    def test_orphans_of_one_hole_have_their_reason_though_the_client_goes_on(self) -> None:
        conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1)).lose(CLIENT, 2 * SIZE)
        conversation.client().broker(heartbeat_answer(2)).client(heartbeat(4))
        exchanges = conversation.broker(*map(heartbeat_answer, (3, 4, 5))).close()
        assert [e.outcome_reason for e in exchanges] == [None, "gap", "gap", None, None]

    def test_an_orphan_long_after_the_hole_has_another_reason(self) -> None:
        conversation = Conversation().client(heartbeat(1)).lose(CLIENT, SIZE).client(heartbeat(3))
        conversation.broker(*map(heartbeat_answer, (1, 2, 3, 77)))
        assert outcomes(conversation.close())[-1] == (None, 77, "orphan", None)

    def test_a_client_that_waits_is_sure_again(self) -> None:
        conversation = Conversation().client(heartbeat(0)).broker(heartbeat_answer(0)).lose(CLIENT, SIZE)
        conversation.broker(heartbeat_answer(0))
        for _ in range(3):
            conversation.client(heartbeat(0)).broker(heartbeat_answer(0))
        assert codes(conversation.close()) == [[]] * 5

    def test_how_many_requests_of_a_client_that_pipelines_were_lost_is_not_known(self) -> None:
        conversation = Conversation().client(heartbeat(0), heartbeat(0)).lose(CLIENT, SIZE)
        conversation.broker(*[heartbeat_answer(0)] * 3).client(heartbeat(0), heartbeat(0))
        conversation.broker(*[heartbeat_answer(0)] * 2)
        assert codes(conversation.close()) == [[]] * 3 + [["uncertain_pairing"]] * 2

    def test_a_hole_inside_a_request_loses_none(self) -> None:
        wire = heartbeat(1)
        conversation = Conversation().client(wire, wire[:20]).lose(CLIENT, len(wire) - 20).client(wire)
        conversation.broker(*[heartbeat_answer(1)] * 3)
        assert codes(conversation.close()) == [[], ["gap"], []]

    def test_a_request_that_lost_its_header_is_lost(self) -> None:
        wire = heartbeat(1)
        conversation = Conversation().client(wire, wire[:6]).lose(CLIENT, len(wire) - 6).client(wire)
        conversation.broker(*[heartbeat_answer(1)] * 3)
        exchanges = conversation.close()
        assert codes(exchanges) == [[], ["uncertain_pairing"], []]
        assert exchanges[-1].outcome_reason == "gap"

    def test_a_capture_that_begins_among_requests_in_flight(self) -> None:
        conversation = Conversation(wire=Wire(syn=None)).client(heartbeat(1), heartbeat(1))
        conversation.broker(*[heartbeat_answer(1)] * 3)
        assert codes(conversation.close()) == [["uncertain_pairing"], ["uncertain_pairing"], []]

    def test_requests_behind_which_no_byte_of_an_answer_came_wait_to_the_end(self) -> None:
        conversation = Conversation(wire=Wire(syn=None)).client(*map(heartbeat, (1, 2)))
        conversation.broker(heartbeat_answer(9)[:6]).client(*map(heartbeat, (3, 4)))
        reasons = [e.outcome_reason for e in conversation.close("capture_end")]
        assert reasons == ["gap", "gap", "capture_end", "capture_end"]

    def test_ids_that_count_are_sure_from_the_begin_of_the_capture(self) -> None:
        conversation = Conversation(wire=Wire(syn=None)).client(heartbeat(1), heartbeat(2))
        assert codes(conversation.broker(heartbeat_answer(1), heartbeat_answer(2)).close()) == [[], []]


class TestLostResponses:
    def test_with_the_end_of_the_last_request(self) -> None:
        """Its answer was lost too: nothing later overtakes it."""
        wire = heartbeat(2)
        talk = Conversation().client(heartbeat(1), wire[:-4]).lose(BROKER, 2 * ANSWER_SIZE)
        talk.lose(CLIENT, 4).client(heartbeat(3)).broker(heartbeat_answer(3))
        exchanges = talk.client(heartbeat(4)).broker(heartbeat_answer(4)).close()
        assert [(e.correlation_id, e.outcome, e.outcome_reason) for e in exchanges] == [
            (1, "unanswered", "gap"),
            (2, "unanswered", "gap"),
            (3, "answered", None),
            (4, "answered", None),
        ]
        assert codes(exchanges) == [[], ["gap"], [], []]

    @pytest.mark.parametrize("lost", [1, 2])
    def test_with_one_id_for_all_pairing_is_uncertain(self, lost: int) -> None:
        conversation = Conversation().client(*[heartbeat(1)] * 4).broker(heartbeat_answer(1))
        conversation.lose(BROKER, lost * ANSWER_SIZE).broker(*[heartbeat_answer(1)] * (3 - lost))
        exchanges = conversation.close()
        answered = [e for e in exchanges if e.outcome == "answered"]
        assert codes(answered) == [[], *[["uncertain_pairing"]] * (3 - lost)]
        assert {e.outcome_reason for e in exchanges if e.outcome == "unanswered"} == {"gap"}

    def test_the_doubt_stays_while_the_client_goes_on(self) -> None:
        conversation = Conversation().client(heartbeat(1), heartbeat(1)).lose(BROKER, ANSWER_SIZE)
        for _ in range(3):
            conversation.client(heartbeat(1)).broker(heartbeat_answer(1))
        answered = [e for e in conversation.close() if e.outcome == "answered"]
        assert codes(answered) == [["uncertain_pairing"]] * 3

    def test_ids_that_count_tell(self) -> None:
        conversation = Conversation().client(*map(heartbeat, (1, 2, 3))).broker(heartbeat_answer(1))
        conversation.lose(BROKER, ANSWER_SIZE).broker(heartbeat_answer(3))
        assert codes(conversation.close()) == [[], [], []]

    def test_a_client_that_waits_had_its_answer_if_it_does_wait(self) -> None:
        conversation = Conversation().client(heartbeat(1)).lose(BROKER, ANSWER_SIZE)
        exchanges = conversation.client(heartbeat(1)).broker(heartbeat_answer(1)).close()
        assert outcomes(exchanges) == [
            ("Heartbeat", 1, "unanswered", "gap"),
            ("Heartbeat", 1, "answered", None),
        ]
        # It may have sent both at once, for all that is known.
        assert codes(exchanges) == [[], ["uncertain_pairing"]]


def produce(version: int, correlation_id: int) -> bytes:
    """A Produce of a version that nobody knows."""
    head = encode_request(Message(0, 9, correlation_id, {"transactional_id": None, "acks": 1}, "c"))
    return sized(b"\0\0" + version.to_bytes(2, "big") + head[4:])


class TestUnknownAcks:
    def test_without_an_answer(self) -> None:
        conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1)).client(produce(99, 2))
        for number in (3, 4, 5):
            conversation.client(heartbeat(number)).broker(heartbeat_answer(number))
        exchanges = conversation.close()
        assert outcomes(exchanges)[1] == ("Produce", 2, "unanswered", "acks_unknown")
        assert codes(exchanges) == [[], ["unknown_version"], [], [], []]

    def test_with_an_answer(self) -> None:
        conversation = Conversation().client(produce(99, 2), heartbeat(3))
        conversation.broker(response(0, 9, 2, {"responses": []}), heartbeat_answer(3))
        first, second = conversation.close()
        assert [first.outcome, second.outcome] == ["answered", "answered"]
        assert codes([second]) == [[]]

    def test_older_requests_are_not_doubted(self) -> None:
        conversation = Conversation().client(heartbeat(1), produce(99, 2), heartbeat(3))
        exchanges = conversation.broker(heartbeat_answer(3), heartbeat_answer(1)).close()
        by_id = {e.correlation_id: e for e in exchanges}
        assert codes([by_id[3], by_id[1]]) == [["out_of_order"], []]

    @pytest.mark.parametrize("ending", ["fin", "reset", "idle", "capture_end"])
    def test_at_the_end(self, ending: str) -> None:
        conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1)).client(produce(99, 2))
        assert outcomes(conversation.close(ending))[1] == ("Produce", 2, "unanswered", "acks_unknown")

    def test_cut_by_the_snap_length(self) -> None:
        whole = request(0, 3, 2, {"transactional_id": "t", "acks": 0, "timeout_ms": 1, "topic_data": []})
        conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1)).client(whole[:16])
        conversation.connection.gap(CLIENT, 4 * MS, 4, len(whole) - 16, "snaplen")
        exchanges = conversation.client(heartbeat(3)).broker(heartbeat_answer(3)).close()
        assert outcomes(exchanges)[1] == ("Produce", 2, "unanswered", "acks_unknown")

    def test_cut_by_the_end_of_the_capture(self) -> None:
        conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1))
        whole = request(0, 3, 2, {"transactional_id": "t", "acks": 1, "timeout_ms": 1, "topic_data": []})
        exchanges = conversation.client(whole[:16]).close("capture_end")
        assert outcomes(exchanges)[1] == ("Produce", 2, "unanswered", "capture_end")

    def test_of_a_client_with_one_id_for_all(self) -> None:
        conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1))
        conversation.client(produce(99, 1), heartbeat(1)).broker(heartbeat_answer(1))
        exchanges = conversation.close()
        assert outcomes(exchanges)[1:] == [
            ("Produce", 1, "unanswered", "acks_unknown"),
            ("Heartbeat", 1, "answered", None),
        ]

    def test_of_a_client_that_pipelines_with_one_id_for_all(self) -> None:
        conversation = Conversation().client(heartbeat(1), heartbeat(1))
        conversation.broker(heartbeat_answer(1), heartbeat_answer(1))
        conversation.client(produce(99, 1), heartbeat(1)).broker(heartbeat_answer(1))
        exchanges = conversation.close()
        answered = [e for e in exchanges if e.outcome == "answered"]
        assert "uncertain_pairing" in codes(answered)[-1]


# ---------------------------------------------------------------------- ids that come again

IDS: dict[str, Callable[[Random, int], int]] = {
    "one": lambda _, number: 9,
    "three": lambda _, number: number % 3,
    "pairs": lambda _, number: number // 2,
    "random of three": lambda random, _: random.randrange(3),
    "random of fifty": lambda random, _: random.randrange(50),
    "random": lambda random, _: random.randrange(1 << 31),
    "counted": lambda _, number: number,
    "counted, with others between": lambda random, number: number * 7 + random.randrange(7),
}


class Talk:
    """A client that pipelines, with some of what both say lost; each answer tells the number of its request."""

    def __init__(self, ids: str, depth: int, seed: int) -> None:
        self.random = Random(seed)
        self.conversation = Conversation()
        waiting: list[tuple[int, int]] = []
        number = 0
        while number < 60 or waiting:
            if number < 60 and len(waiting) < depth and (not waiting or self.random.random() < 0.6):
                correlation_id = IDS[ids](self.random, number)
                body = {"group_id": "g", "generation_id": number, "member_id": "m"}
                self.say(CLIENT, request(12, 1, correlation_id, body), number >= 12)
                waiting.append((number, correlation_id))
                number += 1
            else:
                answered, correlation_id = waiting.pop(0)
                body = {"throttle_time_ms": answered, "error_code": 0}
                self.say(BROKER, response(12, 1, correlation_id, body), number >= 12)

    def say(self, side: int, message: bytes, may_lose: bool) -> None:
        if may_lose and self.random.random() < 0.1:
            self.conversation.lose(side, len(message))
        elif side == CLIENT:
            self.conversation.client(message)
        else:
            self.conversation.broker(message)

    def pairs(self) -> list[tuple[bool, bool]]:
        """Of each exchange that was answered: is the answer its own, and is it said to be uncertain?"""
        found = []
        for exchange in self.conversation.close():
            asked = exchange.request and exchange.request.body
            answered = exchange.response and exchange.response.body
            if exchange.outcome == "answered" and asked and answered:
                own = asked["generation_id"] == answered["throttle_time_ms"]
                found.append((own, any(p.code == "uncertain_pairing" for p in exchange.problems)))
        return found


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("depth", one_in(3, [2, 1, 5]))
def test_no_wrong_answer_without_a_problem(ids: str, depth: int) -> None:
    found = [pair for seed in range(12) for pair in Talk(ids, depth, seed).pairs()]
    assert (False, False) not in found
    if ids.startswith("counted"):
        assert {*found} == {(True, False)}


def test_ids_of_a_login_are_no_ids_that_come_again() -> None:
    conversation = Conversation()
    for correlation_id in (2147483640, 2147483641, 0, 1, 2, 3):
        conversation.client(heartbeat(correlation_id)).broker(heartbeat_answer(correlation_id))
    conversation.client(heartbeat(4)).lose(CLIENT, SIZE).client(heartbeat(6), heartbeat(7))
    conversation.lose(BROKER, ANSWER_SIZE).broker(*map(heartbeat_answer, (5, 6, 7)))
    assert not any("uncertain_pairing" in problem for problem in codes(conversation.close()))


def test_a_run_of_ids_that_comes_again() -> None:
    conversation = Conversation()
    for correlation_id in (0, 1, 2, 3, 0, 1):
        conversation.client(heartbeat(correlation_id)).broker(heartbeat_answer(correlation_id))
    conversation.client(heartbeat(2)).lose(BROKER, ANSWER_SIZE).broker(heartbeat_answer(2))
    assert codes(conversation.close())[-1] == ["uncertain_pairing"]
