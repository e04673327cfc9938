"""Connections as played: recognition, pairing, SASL, endings."""

from __future__ import annotations

from struct import pack

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

from kinspect.kafka.connection import session
from kinspect.kafka.connection.session import produce_acks
from kinspect.model import Caps
from kinspect.protocol import Message, encode_request

API_VERSIONS_FALLBACK = {
    "error_code": 35,
    "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}],
}


def produce(version: int, acks: int, correlation_id: int, transactional_id: str | None = None) -> bytes:
    body = {"transactional_id": transactional_id, "acks": acks, "timeout_ms": 30000, "topic_data": []}
    return request(0, version, correlation_id, body)


def test_a_request_and_its_response() -> None:
    (exchange,) = Conversation().client(heartbeat(7)).broker(heartbeat_answer(7)).close()
    assert (exchange.api, exchange.api_version, exchange.correlation_id) == ("Heartbeat", 0, 7)
    assert (exchange.outcome, exchange.outcome_reason) == ("answered", None)
    assert exchange.latency_ns == exchange.service_ns == 1 * MS
    assert (exchange.timestamp, exchange.completed_at) == (1 * MS, 2 * MS)
    assert exchange.request is not None
    assert exchange.request.body == {"group_id": "g", "generation_id": 1, "member_id": "m"}
    assert exchange.response is not None
    assert exchange.response.body == {"error_code": 0}


def test_connection_names() -> None:
    conversation = Conversation()
    conversation.client(heartbeat(7)).broker(heartbeat_answer(7)).close()
    assert conversation.line.connection_id == "10.0.0.1:41234-10.0.0.9:9092@0"
    line = conversation.line
    assert (line.kind, line.exchanges, line.client, line.broker) == (
        "kafka",
        1,
        ("10.0.0.1", 41234),
        ("10.0.0.9", 9092),
    )


def test_pipelined_requests_split_latency_from_service_time() -> None:
    conversation = Conversation().client(heartbeat(1), heartbeat(2))
    first, second = conversation.broker(heartbeat_answer(1), heartbeat_answer(2)).close()
    assert (first.in_flight, first.latency_ns, first.service_ns) == (0, 2 * MS, 2 * MS)
    assert (second.in_flight, second.latency_ns, second.service_ns) == (1, 2 * MS, 1 * MS)


def test_behind_a_lost_answer_the_service_time_is_not_known() -> None:
    conversation = Conversation().client(heartbeat(1), heartbeat(2), heartbeat(3))
    conversation.lose(BROKER, len(heartbeat_answer(1))).broker(heartbeat_answer(2), heartbeat_answer(3))
    lost, second, third = conversation.close()
    assert lost.outcome_reason == "gap"
    assert (second.latency_ns, second.service_ns, second.wait) == (3 * MS, None, None)
    assert (third.latency_ns, third.service_ns, third.wait) == (3 * MS, 1 * MS, "queued")


def test_of_a_request_that_waits_alone_the_service_time_is_known_behind_a_hole() -> None:
    answer = heartbeat_answer(1)
    conversation = Conversation().client(heartbeat(1)).broker(answer[:8]).lose(BROKER, len(answer) - 8)
    first, second = conversation.client(heartbeat(2)).broker(heartbeat_answer(2)).close()
    assert (first.outcome, first.service_ns) == ("answered", None)
    assert (second.in_flight, second.service_ns, second.wait) == (0, 1 * MS, "broker")


@pytest.mark.parametrize(("rest", "service"), [([], 1 * MS), ([b"\x07" * 9], None)])
def test_in_the_middle_the_rest_of_an_answer_may_have_been_waited_for(
    rest: list[bytes], service: int | None
) -> None:
    conversation = Conversation(Wire(syn=None)).client(heartbeat(1)).broker(*rest)
    (exchange,) = conversation.broker(heartbeat_answer(1)).close()
    assert exchange.service_ns == service
    assert exchange.latency_ns == (1 + len(rest)) * MS


def test_in_the_middle_an_answer_from_before_a_request_is_to_another_one_with_its_id() -> None:
    conversation = Conversation(Wire(syn=None)).broker(response(0, 0, 0, {"responses": []}))
    conversation.client(heartbeat(0)).broker(heartbeat_answer(0))
    orphan, exchange = conversation.close()
    assert (orphan.outcome, exchange.outcome, exchange.latency_ns) == ("orphan", "answered", 1 * MS)
    assert exchange.problems == []


def test_a_response_with_a_hole_that_the_end_of_its_connection_cuts_is_no_answer() -> None:
    answer = heartbeat_answer(1)
    conversation = Conversation().client(heartbeat(1)).broker(answer[:8])
    conversation.connection.gap(BROKER, 3 * MS, 3, 1, "snaplen")
    (exchange,) = conversation.close("reset")
    assert outcomes([exchange]) == [("Heartbeat", 1, "unanswered", "reset")]
    assert [problem.code for problem in exchange.problems] == ["truncated_capture"]


def test_an_answer_without_a_request_or_a_hole_is_an_orphan_without_a_reason() -> None:
    conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1), heartbeat_answer(7))
    exchanges = conversation.close()
    assert [(e.outcome, e.outcome_reason) for e in exchanges] == [("answered", None), ("orphan", None)]


def test_a_correlation_id_used_again_is_paired_in_order() -> None:
    conversation = Conversation().client(heartbeat(5), heartbeat(5))
    first, second = conversation.broker(heartbeat_answer(5, 27), heartbeat_answer(5, 25)).close()
    assert first.request is not None
    assert second.request is not None
    assert (first.request.first_frame, second.request.first_frame) == (1, 2)
    assert [e.response.body["error_code"] for e in (first, second) if e.response and e.response.body] == [
        27,
        25,
    ]
    assert first.noted == second.noted == ()


def test_an_overtaking_response_is_paired_and_reported() -> None:
    conversation = Conversation().client(heartbeat(1), heartbeat(2))
    second, first = conversation.broker(heartbeat_answer(2), heartbeat_answer(1)).close()
    assert (second.correlation_id, [p.code for p in second.noted]) == (2, ["out_of_order"])
    assert (first.correlation_id, first.noted) == (1, ())


@pytest.mark.parametrize(
    ("version", "transactional_id"), [(0, None), (2, None), (3, None), (3, "tx"), (9, "tx"), (12, None)]
)
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_acks_lie_where_the_version_puts_them(version: int, transactional_id: str | None, acks: int) -> None:
    conversation = Conversation().client(heartbeat(1), produce(version, acks, 2, transactional_id))
    conversation.broker(heartbeat_answer(1))
    outcome = {e.correlation_id: e.outcome for e in conversation.close()}[2]
    assert outcome == ("no_response" if acks == 0 else "unanswered")


def test_acks_of_cut_requests_are_unknown() -> None:
    body = {"transactional_id": "a transaction", "acks": 0, "timeout_ms": 1, "topic_data": []}
    for version in (0, 3, 9):
        raw = encode_request(Message(0, version, 1, body, None))
        start = len(raw) - len(raw[raw.index(b"\xff\xff") + 2 + (version >= 9) :])
        assert produce_acks(raw, start, version) == 0
        assert produce_acks(raw[: start + 1], start, version) is None


def test_no_response_completes_with_its_request() -> None:
    conversation = Conversation().client(heartbeat(1), produce(7, 0, 2), heartbeat(3))
    conversation.broker(heartbeat_answer(1), heartbeat_answer(3))
    assert [e.correlation_id for e in conversation.close()] == [2, 1, 3]


def test_an_unknown_version_keeps_its_header_and_its_answer() -> None:
    body = sized(b"\x00\x12\x00\x63\x00\x00\x03\xdf\x00\x01c\x00whatever")
    conversation = Conversation().client(body).broker(response(18, 0, 991, API_VERSIONS_FALLBACK))
    (exchange,) = conversation.close()
    assert (exchange.api, exchange.api_version, exchange.correlation_id) == ("ApiVersions", 99, 991)
    assert exchange.request is not None
    assert exchange.request.body is None
    assert [p.code for p in exchange.problems] == ["unknown_version"]
    assert exchange.response is not None
    assert exchange.response.body == API_VERSIONS_FALLBACK


def test_an_unknown_api_is_shown_by_its_key() -> None:
    unknown = sized(b"\x03\xe7\x00\x00\x00\x00\x00\x05\x00\x05probe")
    (exchange,) = Conversation().client(unknown).fin(BROKER).close()
    assert (exchange.api, exchange.api_key, exchange.outcome_reason) == (None, 999, "closed")
    assert [p.code for p in exchange.problems] == ["unknown_api"]


def test_controlled_shutdown_v0_has_no_client_id() -> None:
    shutdown = request(7, 0, 3, {"broker_id": 1}, None)
    conversation = Conversation().client(shutdown)
    answer = response(7, 0, 3, {"error_code": 0, "remaining_partitions": []})
    (exchange,) = conversation.broker(answer).close()
    assert (exchange.api, exchange.client_id, exchange.outcome) == ("ControlledShutdown", None, "answered")


def test_surplus_bytes_of_an_old_client_are_reported() -> None:
    surplus = sized(b"\x00\x12\x00\x00\x00\x00\x00\x01\x00\x07rdkafka\x00\x00\x00\x00")
    body = {"error_code": 0, "api_keys": []}
    (exchange,) = Conversation().client(surplus).broker(response(18, 0, 1, body)).close()
    assert [(p.code, p.bytes) for p in exchange.problems] == [("trailing_bytes", 4)]


HANDSHAKE = {"mechanism": "PLAIN"}
ACCEPTED = {"error_code": 0, "mechanisms": ["PLAIN"]}


class TestSasl:
    def test_raw_tokens_after_handshake_v0(self) -> None:
        conversation = Conversation().client(request(17, 0, 1, HANDSHAKE))
        conversation.broker(response(17, 0, 1, ACCEPTED))
        conversation.client(sized(b"\0alice\0s3cret")).broker(sized(b""))
        conversation.client(heartbeat(2)).broker(heartbeat_answer(2))
        handshake, token, beat = conversation.close()
        assert (token.kind, token.api, token.correlation_id, token.outcome) == (
            "sasl_token",
            "SaslToken",
            None,
            "answered",
        )
        assert token.request is not None
        assert (token.request.size, token.request.body) == (13, None)
        assert [e.principal for e in (handshake, token, beat)] == [None, "alice", "alice"]
        assert beat.api == "Heartbeat"

    def test_a_refused_handshake_is_followed_by_requests(self) -> None:
        conversation = Conversation().client(request(17, 0, 1, {"mechanism": "X"}))
        conversation.broker(response(17, 0, 1, {"error_code": 33, "mechanisms": ["PLAIN"]}))
        conversation.client(heartbeat(2)).broker(heartbeat_answer(2))
        assert [e.kind for e in conversation.close()] == ["kafka", "kafka"]

    def test_gssapi_tokens_from_the_first_byte(self) -> None:
        oid = bytes.fromhex("06092a864886f712010202")
        token = b"\x60" + bytes((len(oid) + 20,)) + oid + b"t" * 20
        conversation = Conversation().client(sized(token)).broker(sized(b"reply"))
        conversation.client(sized(b"t" * 30)).broker(sized(b""))
        conversation.client(heartbeat(2)).broker(heartbeat_answer(2))
        assert [e.kind for e in conversation.close()] == ["sasl_token", "sasl_token", "kafka"]

    def test_reauthentication_changes_the_principal(self) -> None:
        conversation = Conversation()
        for number, user in enumerate((b"alice", b"bob")):
            at = number * 10
            conversation.client(request(17, 1, at, HANDSHAKE)).broker(response(17, 1, at, ACCEPTED))
            conversation.client(request(36, 1, at + 1, {"auth_bytes": b"\0" + user + b"\0pw"}))
            answer = {"error_code": 0, "error_message": None, "auth_bytes": b"", "session_lifetime_ms": 0}
            conversation.broker(response(36, 1, at + 1, answer))
        assert [e.principal for e in conversation.close()] == [None, "alice", "alice", "bob"]


def test_software_and_role_are_learned_from_requests() -> None:
    software = {"client_software_name": "librdkafka", "client_software_version": "2.16.0"}
    conversation = Conversation().client(request(18, 3, 1, software)).client(produce(9, 0, 2))
    versions, sent = sorted(conversation.close(), key=lambda e: e.correlation_id or 0)
    assert (versions.software_name, versions.software_version) == ("librdkafka", "2.16.0")
    assert sent.role == "producer"


def fetch(version: int, correlation_id: int, replica_id: int) -> bytes:
    body = {"max_wait_ms": 1, "min_bytes": 1, "topics": [], "forgotten_topics_data": [], "rack_id": ""}
    replica = {"replica_state": {"replica_id": replica_id, "replica_epoch": 1}} if version > 14 else {}
    return request(1, version, correlation_id, {**body, **replica, "replica_id": replica_id})


DESCRIBE_CONFIGS = request(32, 0, 90, {"resources": []})
HEARTBEAT = heartbeat(91)
VOTE = request(52, 0, 92, {"cluster_id": None, "topics": []})


@pytest.mark.parametrize(
    ("messages", "roles"),
    [
        # From v15 the replica stands at the end.
        ([fetch(17, 1, 3)[:-4], DESCRIBE_CONFIGS], [None, None]),
        ([DESCRIBE_CONFIGS, fetch(17, 1, 3)[:-4], DESCRIBE_CONFIGS], ["admin", None, None]),
        ([fetch(17, 1, 3)[:-4], produce(9, 1, 2)], [None, None]),
        ([fetch(17, 1, 3)[:-4], VOTE], [None, None]),
        ([VOTE, fetch(17, 1, 3)[:-4]], ["controller", "controller"]),
        ([fetch(17, 1, -1)[:-4], HEARTBEAT], [None, "consumer"]),
        # The same version, whole at last.
        ([fetch(17, 1, 3)[:-4], fetch(17, 2, 3)], [None, "follower"]),
        ([fetch(17, 1, -1)[:-4], fetch(17, 2, -1)], [None, "consumer"]),
        # Before v15 at the beginning.
        ([fetch(12, 1, 3)[:-4]], ["follower"]),
        ([fetch(12, 1, -1)[:-4], DESCRIBE_CONFIGS], ["consumer", "consumer"]),
    ],
)
def test_what_was_cut_off_may_show_the_role(messages: list[bytes], roles: list[str | None]) -> None:
    conversation = Conversation()
    for message in (request(18, 0, 89, {}), *messages):
        conversation.client(message)
        missing = 4 + int.from_bytes(message[:4]) - len(message)
        if missing:
            conversation.connection.gap(
                CLIENT, conversation.packet * MS, conversation.packet, missing, "snaplen"
            )
        # Answered before the next request: the exchange has the role that was shown up to here.
        conversation.broker(sized(message[8:12] + bytes(8)))
    assert [each.role for each in conversation.close()] == [None, *roles]


class TestEndings:
    @pytest.mark.parametrize(
        ("reason", "expected"),
        [
            ("fin", "closed"),
            ("reuse", "closed"),
            ("reset", "reset"),
            ("idle", "idle"),
            ("cap", "cap"),
            ("capture_end", "capture_end"),
        ],
    )
    def test_reasons(self, reason: str, expected: str) -> None:
        conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1)).client(heartbeat(2))
        assert outcomes(conversation.close(reason))[1] == ("Heartbeat", 2, "unanswered", expected)

    def test_one_sided(self) -> None:
        conversation = Conversation(wire=Wire(packets=(1, 0))).client(heartbeat(1))
        assert outcomes(conversation.close()) == [("Heartbeat", 1, "unanswered", "one_sided")]

    def test_the_brokers_fin_ends_what_is_in_flight(self) -> None:
        conversation = Conversation().client(heartbeat(1)).fin(BROKER)
        assert outcomes(conversation.exchanges) == [("Heartbeat", 1, "unanswered", "closed")]

    def test_the_clients_fin_leaves_the_broker_time_to_answer(self) -> None:
        conversation = Conversation().client(heartbeat(1)).fin(CLIENT).broker(heartbeat_answer(1))
        assert outcomes(conversation.close()) == [("Heartbeat", 1, "answered", None)]

    def test_half_a_response_leaves_the_request_unanswered(self) -> None:
        conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1)[:9])
        (exchange,) = conversation.close("capture_end")
        assert (exchange.outcome, exchange.outcome_reason) == ("unanswered", "capture_end")
        assert exchange.response is not None
        assert exchange.response.complete is False
        assert exchange.problems == []

    def test_half_a_request_is_shown_as_such(self) -> None:
        conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1))
        exchange = conversation.client(heartbeat(2)[:-3]).close("reset")[1]
        assert (exchange.outcome, exchange.outcome_reason) == ("unanswered", "reset")
        assert exchange.request is not None
        assert exchange.request.complete is False
        assert exchange.problems == []


class TestLoss:
    def test_a_lost_response_leaves_its_request_unanswered_by_gap(self) -> None:
        conversation = Conversation().client(heartbeat(1), heartbeat(2), heartbeat(3))
        conversation.broker(heartbeat_answer(1)).lose(BROKER, len(heartbeat_answer(2)))
        conversation.broker(heartbeat_answer(3))
        assert outcomes(conversation.close()) == [
            ("Heartbeat", 1, "answered", None),
            ("Heartbeat", 2, "unanswered", "gap"),
            ("Heartbeat", 3, "answered", None),
        ]
        assert [(g.offset, g.bytes, g.direction) for g in conversation.gaps] == [(10, 10, "broker")]

    def test_a_lost_request_leaves_an_orphan(self) -> None:
        conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1))
        conversation.lose(CLIENT, len(heartbeat(2))).broker(heartbeat_answer(2))
        conversation.client(heartbeat(3)).broker(heartbeat_answer(3))
        answered, orphan, after = conversation.close()
        assert (orphan.outcome, orphan.outcome_reason, orphan.api) == ("orphan", "gap", None)
        assert orphan.correlation_id == 2
        assert "Heartbeat" in orphan.api_candidates
        assert (answered.outcome, after.outcome) == ("answered", "answered")

    def test_a_hole_inside_a_request_is_told(self) -> None:
        whole = heartbeat(2)
        conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1)).client(whole[:20])
        conversation.lose(CLIENT, 4).client(whole[24:]).broker(heartbeat_answer(2))
        exchange = conversation.close()[1]
        assert exchange.outcome == "answered"
        assert [(p.side, p.code, p.bytes) for p in exchange.problems] == [("request", "gap", len(whole) - 20)]
        assert exchange.latency_ns is None


class TestRecognition:
    def test_mid_stream_at_a_boundary(self) -> None:
        conversation = Conversation(wire=Wire(syn=None)).client(heartbeat(1)).broker(heartbeat_answer(1))
        assert outcomes(conversation.close()) == [("Heartbeat", 1, "answered", None)]

    def test_mid_stream_inside_messages(self) -> None:
        conversation = Conversation(wire=Wire(syn=None))
        conversation.client(b"the tail of a request", heartbeat(2))
        conversation.broker(b"the tail of a response" + heartbeat_answer(2))
        assert outcomes(conversation.close()) == [("Heartbeat", 2, "answered", None)]

    def test_who_is_the_broker_is_told_by_the_bytes_not_by_the_port(self) -> None:
        swapped = Wire(syn=None, addresses=tuple(reversed(Wire().addresses)))  # type: ignore[arg-type]
        conversation = Conversation(wire=swapped).client(heartbeat(1)).broker(heartbeat_answer(1))
        (exchange,) = conversation.close()
        assert exchange.connection.broker_port == 41234

    @pytest.mark.parametrize(
        "first",
        [
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            bytes.fromhex("0000000804d2162f"),  # PostgreSQL's SSLRequest
            bytes.fromhex("0000002c00000000000000000000000000007530000000000000000000000010") + bytes(16),
            bytes(64),
        ],
    )
    def test_other_protocols_are_not_kafka(self, first: bytes) -> None:
        conversation = Conversation().client(first).broker(first)
        assert conversation.close() == []
        assert conversation.line.kind == "other"

    def test_a_port_of_the_users_choice(self) -> None:
        conversation = Conversation(kafka_ports=frozenset({9092})).client(b"\x00\x00\x00\x0c" + bytes(12))
        assert [e.api for e in conversation.close()] == ["Produce"]

    def test_requests_in_flight_are_capped(self) -> None:
        conversation = Conversation(caps=Caps(in_flight=2)).client(*map(heartbeat, range(4)))
        assert outcomes(conversation.exchanges) == [
            ("Heartbeat", 0, "unanswered", "cap"),
            ("Heartbeat", 1, "unanswered", "cap"),
        ]
        assert conversation.counts.caps_hit == {"in_flight": 2}

    def test_a_long_client_id_that_is_no_text_lets_no_other_header_pass(self) -> None:
        def metadata(size: int, client_id: bytes, correlation_id: int) -> bytes:
            header = pack(">hhih", 3, 1, correlation_id, size) + client_id
            return sized(header + pack(">i", -1))

        # With U+FFFD for each byte it is longer than a header can say.
        client_id = b"\xff" * 12_000
        conversation = Conversation().client(
            heartbeat(1),
            *(metadata(len(client_id), client_id, number) for number in (2, 3)),
            metadata(-2, b"", 4),
            metadata(-1, b"", 5),
        )
        found = [(e.correlation_id, len(e.client_id or "")) for e in conversation.close()]
        assert found == [(1, 1), (2, 12_000), (3, 12_000), (5, 0)]
        assert conversation.line.undecoded_bytes == 18


@pytest.mark.parametrize("lost", [1, 100, 1000])
def test_responses_are_found_again_however_many_were_lost(lost: int) -> None:
    conversation = Conversation()
    for number in range(lost):
        conversation.client(heartbeat(number)).lose(BROKER, len(heartbeat_answer(number)))
    conversation.lose(BROKER, 3)
    for number in range(lost, lost + 20):
        conversation.client(heartbeat(number)).broker(heartbeat_answer(number))
    found = conversation.close()
    answered = [exchange.correlation_id for exchange in found if exchange.outcome == "answered"]
    assert answered == [*range(lost, lost + 20)]


def test_many_requests_in_flight_do_not_search_the_held_bytes_again_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[int] = []

    def locate(self: session.Session, data: bytes) -> None:
        searched.append(len(data))

    monkeypatch.setattr(session.Session, "_locate_response", locate)
    conversation = Conversation()
    conversation.client(heartbeat(0)).lose(BROKER, 100).broker(bytes(60_000))
    for number in range(1, 1000):
        conversation.client(heartbeat(number))
    conversation.close()
    assert len(searched) <= session.LOCATED_BY + 1
