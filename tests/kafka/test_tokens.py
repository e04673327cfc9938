"""Raw SASL tokens: told from requests whatever the capture lacks, and nothing of them is shown."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache

import orjson
import pytest
from conversation import (
    BROKER,
    CLIENT,
    Conversation,
    Wire,
    heartbeat,
    heartbeat_answer,
    outcomes,
    request,
    response,
    sized,
)

from kinspect.filters.filter import Filter
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View

PASSWORD = b"hunger2-Geheim"
SECRET = b"VerySecretNonce"
VIEWS = (View(), View(records=True, payload="text"), View(fields=("client.id", "api_key", "problems")))

OID = bytes.fromhex("06092a864886f712010202")
KERBEROS = b"\x60" + bytes((len(OID) + 2 + len(SECRET),)) + OID + b"\x01\0" + SECRET
CLAIMS = base64.urlsafe_b64encode(b'{"sub":"carol"}').rstrip(b"=")

MECHANISMS = {
    "PLAIN": [b"\0alice\0" + PASSWORD],
    "SCRAM-SHA-256": [b"n,,n=bob,r=" + SECRET, b"c=biws,r=" + SECRET + b",p=" + base64.b64encode(PASSWORD)],
    "SCRAM-SHA-512": [b"n,,n=bob,r=" + SECRET, b"c=biws,r=" + SECRET + b",p=" + base64.b64encode(PASSWORD)],
    "OAUTHBEARER": [b"n,,\x01auth=Bearer e30." + CLAIMS + b"." + SECRET + b"\x01\x01"],
    "GSSAPI": [KERBEROS, b"", b"\x05\x04\x04\xff" + bytes(12) + SECRET],
    "OF-A-PLUGIN": [bytes(range(0x41, 0x61)) + PASSWORD],
}
REPLIES = {
    "PLAIN": [b""],
    "SCRAM-SHA-256": [b"r=" + SECRET + b"srv,s=c2FsdA==,i=4096", b"v=" + base64.b64encode(SECRET)],
    "SCRAM-SHA-512": [b"r=" + SECRET + b"srv,s=c2FsdA==,i=4096", b"v=" + base64.b64encode(SECRET)],
    "OAUTHBEARER": [b""],
    "GSSAPI": [b"\x60" + SECRET, b"\x05\x04\x05\xff" + SECRET],
    "OF-A-PLUGIN": [b"ok, " + SECRET],
}
ACCEPTED = {"error_code": 0, "mechanisms": ["PLAIN"]}
REFUSED = {"error_code": 33, "mechanisms": ["GSSAPI"]}


def handshake(mechanism: str, version: int = 0) -> bytes:
    return request(17, version, 2, {"mechanism": mechanism})


def handshake_answer(body: dict[str, object] | None = None) -> bytes:
    return response(17, 0, 2, body or ACCEPTED)


def middle(forced: bool = True) -> Conversation:
    """A connection that was open before the capture."""
    return Conversation(wire=Wire(syn=None), kafka_ports=frozenset({9092} if forced else ()))


@cache
def needles(*secrets: bytes) -> frozenset[bytes]:
    """Four bytes of a secret, as they are and in the encodings of the output."""
    found = set()
    for secret in secrets:
        for start in range(len(secret) - 3):
            piece = secret[start : start + 4]
            found |= {piece, piece.hex().encode(), base64.b64encode(secret[start:])[:5]}
            found.add(str(int.from_bytes(piece, signed=True)).encode())
    return frozenset(found)


def shown(conversation: Conversation) -> bytes:
    """All that is told of a connection."""
    return b"\n".join(
        orjson.dumps(line.to_dict(view)) if isinstance(line, Exchange) else orjson.dumps(line.to_dict())
        for line in conversation.lines
        for view in VIEWS
    )


def assert_hidden(conversation: Conversation, *secrets: bytes) -> None:
    out = shown(conversation)
    assert [needle for needle in needles(*(secrets or (PASSWORD, SECRET))) if needle in out] == []


def kinds(exchanges: list[Exchange]) -> list[str]:
    return [e.kind if e.kind == "sasl_token" else e.api or "?" for e in exchanges]


# ---------------------------------------------------------------------- what the capture lacks

Play = Callable[[Conversation, str, list[bytes], list[bytes]], None]


def in_turn(talk: Conversation, mechanism: str, tokens: list[bytes], replies: list[bytes]) -> None:
    talk.client(handshake(mechanism)).broker(handshake_answer())
    for number, token in enumerate(tokens):
        talk.client(sized(token))
        talk.broker(*map(sized, replies[number : number + 1]))
    talk.client(heartbeat(3)).broker(heartbeat_answer(3))


def answer_lost(talk: Conversation, mechanism: str, tokens: list[bytes], replies: list[bytes]) -> None:
    talk.client(heartbeat(1)).broker(heartbeat_answer(1)).client(handshake(mechanism))
    talk.lose(BROKER, len(handshake_answer()))
    for number, token in enumerate(tokens):
        talk.client(sized(token))
        talk.broker(*map(sized, replies[number : number + 1]))
    talk.client(heartbeat(3)).broker(heartbeat_answer(3))


def answer_late(talk: Conversation, mechanism: str, tokens: list[bytes], replies: list[bytes]) -> None:
    talk.client(handshake(mechanism), *map(sized, tokens)).broker(handshake_answer(), *map(sized, replies))
    talk.client(heartbeat(3)).broker(heartbeat_answer(3))


def in_one_go(talk: Conversation, mechanism: str, tokens: list[bytes], replies: list[bytes]) -> None:
    talk.client(handshake(mechanism) + b"".join(map(sized, tokens)) + heartbeat(3))
    talk.broker(handshake_answer(), *map(sized, replies)).broker(heartbeat_answer(3))


def client_alone(talk: Conversation, mechanism: str, tokens: list[bytes], replies: list[bytes]) -> None:
    talk.client(handshake(mechanism), *map(sized, tokens), heartbeat(3))


def cut_anew(talk: Conversation, mechanism: str, tokens: list[bytes], replies: list[bytes]) -> None:
    stream = handshake(mechanism) + b"".join(map(sized, tokens)) + heartbeat(3)
    talk.client(*(stream[at : at + 5] for at in range(0, len(stream), 5)))
    talk.broker(handshake_answer() + b"".join(map(sized, replies)) + heartbeat_answer(3))


PLAYS = (in_turn, answer_lost, answer_late, in_one_go, client_alone, cut_anew)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.__name__)
def test_behind_a_handshake_all_tokens_are_tokens(play: Play, mechanism: str) -> None:
    tokens = MECHANISMS[mechanism]
    conversation = Conversation(wire=Wire(packets=(1, 0)) if play is client_alone else Wire())
    play(conversation, mechanism, tokens, REPLIES[mechanism])
    exchanges = conversation.close()
    assert [k for k in kinds(exchanges) if k != "Heartbeat"] == [
        "SaslHandshake",
        *["sasl_token"] * len(tokens),
    ]
    assert [e.problems for e in exchanges] == [[] for _ in exchanges]
    beat = exchanges[-1]
    assert (beat.correlation_id, beat.outcome) == (3, "unanswered" if play is client_alone else "answered")
    assert_hidden(conversation)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_connection_seen_from_behind_the_handshake(mechanism: str) -> None:
    tokens = MECHANISMS[mechanism]
    conversation = middle()
    for token, reply in zip(tokens, [*REPLIES[mechanism], b""], strict=False):
        conversation.client(sized(token)).broker(sized(reply))
    exchanges = conversation.client(heartbeat(3)).broker(heartbeat_answer(3)).close()
    assert kinds(exchanges) == [*["sasl_token"] * len(tokens), "Heartbeat"]
    assert (exchanges[-1].outcome, exchanges[-1].problems) == ("answered", [])
    assert {e.client_id for e in exchanges[:-1]} == {None}
    assert_hidden(conversation)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_without_a_port_given_the_tokens_are_passed_over(mechanism: str) -> None:
    conversation = middle(forced=False)
    for token in MECHANISMS[mechanism]:
        conversation.client(sized(token))
    exchanges = conversation.client(heartbeat(3)).broker(heartbeat_answer(3)).close()
    assert "Heartbeat" in kinds(exchanges)
    assert_hidden(conversation)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_brokers_side_alone(mechanism: str) -> None:
    versions = {"error_code": 0, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 0}]}
    conversation = Conversation(wire=Wire(packets=(0, 1)))
    conversation.broker(response(18, 0, 1, versions), handshake_answer())
    conversation.broker(*map(sized, REPLIES[mechanism]), heartbeat_answer(3))
    exchanges = conversation.close()
    replies = [e for e in exchanges if e.kind == "sasl_token"]
    assert len(replies) == len(REPLIES[mechanism])
    assert {(e.outcome, e.outcome_reason, e.correlation_id) for e in replies} == {("orphan", None, None)}
    assert (exchanges[-1].kind, exchanges[-1].correlation_id) == ("kafka", 3)
    assert_hidden(conversation)


def test_gssapi_without_a_handshake() -> None:
    conversation = Conversation().client(*map(sized, MECHANISMS["GSSAPI"]), heartbeat(3))
    conversation.broker(*map(sized, REPLIES["GSSAPI"]), heartbeat_answer(3))
    first, second, last, beat = conversation.close()
    assert [e.kind for e in (first, second, last)] == ["sasl_token"] * 3
    # Java's GSSAPI has no reply to the last token.
    assert outcomes([last, beat]) == [
        ("SaslToken", None, "no_response", None),
        ("Heartbeat", 3, "answered", None),
    ]
    assert beat.problems == []
    assert_hidden(conversation)


def test_a_lost_reply_does_not_shift_the_answers_behind_it() -> None:
    conversation = Conversation().client(handshake("PLAIN") + sized(MECHANISMS["PLAIN"][0]) + heartbeat(3))
    conversation.broker(handshake_answer()).lose(BROKER, 4).broker(heartbeat_answer(3))
    assert outcomes(conversation.close()) == [
        ("SaslHandshake", 2, "answered", None),
        ("SaslToken", None, "unanswered", "gap"),
        ("Heartbeat", 3, "answered", None),
    ]


# ---------------------------------------------------------------------- tokens that look like requests


def behind_the_handshake(
    talk: Conversation, mechanism: str, tokens: list[bytes], replies: list[bytes]
) -> None:
    talk.client(*map(sized, tokens)).broker(*map(sized, replies))
    talk.client(heartbeat(3)).broker(heartbeat_answer(3))


WAYS: tuple[Play, ...] = (in_turn, answer_lost, in_one_go, client_alone, behind_the_handshake)


def login(token: bytes, way: Play) -> Conversation:
    """A token of PLAIN, seen in this way."""
    conversation = middle() if way is behind_the_handshake else Conversation()
    way(conversation, "PLAIN", [token], [b""])
    return conversation


@pytest.mark.big
def test_user_names_of_every_length() -> None:
    for size in range(301):
        for way in WAYS:
            conversation = login(b"\0" + b"u" * size + b"\0" + PASSWORD, way)
            assert kinds(conversation.close())[-2:] == ["sasl_token", "Heartbeat"], size
            assert_hidden(conversation, PASSWORD)


@pytest.mark.big
def test_bytes_that_read_as_an_api_and_a_version() -> None:
    for key in range(96):
        for version in range(20):
            token = b"\0" + bytes((key,)) + b"\0" + bytes((version,)) + PASSWORD
            conversation = login(token, WAYS[(key + version) % len(WAYS)])
            assert "sasl_token" in kinds(conversation.close()), token
            assert_hidden(conversation, PASSWORD)


@pytest.mark.parametrize("tail", [b"", b"\x01"])
def test_a_password_that_fits_a_whole_request(tail: bytes) -> None:
    """Key 18 and version 1, a correlation id, a client id of 257 bytes, and no body: ApiVersions to the last byte."""
    client_id = (PASSWORD * 20)[:257]
    for way in WAYS:
        conversation = login(b"\0\x12\0\x01" + b"abcd" + b"\x01\x01" + client_id + tail, way)
        assert "sasl_token" in kinds(conversation.close())
        assert_hidden(conversation, PASSWORD)


def test_a_second_token_after_the_last() -> None:
    conversation = Conversation()
    in_turn(conversation, "PLAIN", MECHANISMS["PLAIN"], [b""])
    conversation.client(sized(MECHANISMS["PLAIN"][0]), sized(b"\0grafana\0h" + PASSWORD * 8)).close()
    assert kinds(conversation.exchanges) == ["SaslHandshake", "sasl_token", "Heartbeat", "sasl_token"]
    assert_hidden(conversation)


def test_a_token_sent_blindly_behind_a_refused_handshake() -> None:
    conversation = Conversation().client(handshake("PLAIN")).broker(handshake_answer(REFUSED))
    exchanges = conversation.client(sized(MECHANISMS["PLAIN"][0])).close()
    assert kinds(exchanges) == ["SaslHandshake", "sasl_token"]
    assert_hidden(conversation)


# ---------------------------------------------------------------------- tokens lost in part

TOKEN = b"\0alice\0" + PASSWORD


@pytest.mark.parametrize("kept", range(len(sized(TOKEN))))
def test_the_end_of_a_token_is_lost(kept: int) -> None:
    wire = sized(TOKEN)
    for lost in (len(wire) - kept, len(wire) - kept + 7):
        conversation = Conversation().client(handshake("PLAIN")).broker(handshake_answer())
        conversation.client(wire[:kept]).lose(CLIENT, lost).client(heartbeat(3)[lost + kept - len(wire) :])
        conversation.broker(sized(b"")).client(heartbeat(4)).broker(heartbeat_answer(3), heartbeat_answer(4))
        exchanges = conversation.close()
        assert [e.outcome for e in exchanges if e.correlation_id == 4] == ["answered"]
        assert {e.api for e in exchanges} <= {"SaslHandshake", "SaslToken", "Heartbeat", None}
        assert all(e.response is not None for e in exchanges if e.api is None)
        assert_hidden(conversation, PASSWORD)


@pytest.mark.parametrize("lost", range(1, len(sized(TOKEN))))
def test_the_begin_of_a_token_is_lost(lost: int) -> None:
    for conversation in (middle(), middle(forced=False)):
        conversation.client(sized(TOKEN)[lost:], heartbeat(3)).broker(sized(b""), heartbeat_answer(3)).close()
        assert_hidden(conversation, PASSWORD)
    conversation = Conversation().client(handshake("PLAIN")).broker(handshake_answer())
    conversation.lose(CLIENT, lost).client(sized(TOKEN)[lost:], heartbeat(3))
    conversation.broker(sized(b""), heartbeat_answer(3)).close()
    assert_hidden(conversation, PASSWORD)


@pytest.mark.parametrize("kept", range(len(handshake("PLAIN"))))
def test_the_handshake_is_lost_in_part(kept: int) -> None:
    wire = handshake("PLAIN")
    conversation = Conversation().client(heartbeat(1)).broker(heartbeat_answer(1))
    conversation.client(wire[:kept]).lose(CLIENT, len(wire) - kept).broker(handshake_answer())
    conversation.client(sized(TOKEN)).broker(sized(b"")).client(heartbeat(3)).broker(heartbeat_answer(3))
    exchanges = conversation.close()
    assert outcomes(exchanges)[-1] == ("Heartbeat", 3, "answered", None)
    assert {e.api for e in exchanges} <= {"SaslHandshake", "SaslToken", "Heartbeat", None}
    assert_hidden(conversation, PASSWORD)


# ---------------------------------------------------------------------- requests stay requests


def test_requests_behind_a_refused_handshake() -> None:
    unknown = sized(b"\x03\xe7\x00\x00\x00\x00\x00\x05\x00\x05probe")
    conversation = Conversation().client(handshake("PLAIN")).broker(handshake_answer(REFUSED))
    conversation.client(heartbeat(3)).broker(heartbeat_answer(3)).client(unknown)
    assert [(e.api, e.api_key) for e in conversation.close()] == [
        ("SaslHandshake", 17),
        ("Heartbeat", 12),
        (None, 999),
    ]


def test_a_request_of_an_unknown_version_behind_a_refused_handshake() -> None:
    conversation = Conversation().client(handshake("PLAIN")).broker(handshake_answer(REFUSED))
    _, exchange = conversation.client(sized(b"\0\x03\0\x63\0\0\0\x05\0\x01cbody")).close()
    assert (exchange.api, exchange.api_version, exchange.client_id) == ("Metadata", 99, "c")


def test_handshake_v1_has_no_raw_tokens() -> None:
    conversation = Conversation().client(handshake("PLAIN", 1), request(36, 0, 3, {"auth_bytes": TOKEN}))
    exchanges = conversation.client(sized(b"\x03\xe7\0\0\0\0\0\x05\0\x05probe")).close()
    assert [(e.kind, e.api_key) for e in exchanges] == [("kafka", 17), ("kafka", 36), ("kafka", 999)]
    assert_hidden(conversation)


def test_the_first_request_of_a_client_to_come() -> None:
    """ApiVersions in a version that nobody knows, as brokers before it are asked (KIP-511)."""
    fallback = {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}]}
    for conversation in (middle(), middle(forced=False), Conversation()):
        conversation.client(sized(b"\x00\x12\x00\x63\x00\x00\x03\xdf\x00\x01c\x00whatever"))
        (exchange,) = conversation.broker(response(18, 0, 991, fallback)).close()
        assert (exchange.api, exchange.api_version, exchange.outcome) == ("ApiVersions", 99, "answered")


# ---------------------------------------------------------------------- filters


def passing(exchanges: list[Exchange], **options: object) -> list[str]:
    chosen = Filter(**options)  # type: ignore[arg-type]
    return kinds([e for e in exchanges if chosen.matches(e)])


def test_failed_logins_are_found() -> None:
    conversation = Conversation().client(handshake("PLAIN")).broker(handshake_answer())
    exchanges = conversation.client(sized(TOKEN)).fin(BROKER).close()
    assert outcomes(exchanges)[1] == ("SaslToken", None, "unanswered", "closed")
    assert passing(exchanges, api=["Sasl*"], errors_only=True) == ["sasl_token"]
    assert passing(exchanges, api=["saslTOKEN"]) == ["sasl_token"]
    assert passing(exchanges, api=["!SaslToken"]) == ["SaslHandshake"]
    assert passing(exchanges, api=["17"]) == ["SaslHandshake"]


def test_a_login_that_succeeded_is_no_error() -> None:
    conversation = Conversation()
    in_turn(conversation, "PLAIN", MECHANISMS["PLAIN"], REPLIES["PLAIN"])
    assert passing(conversation.close(), errors_only=True) == []
