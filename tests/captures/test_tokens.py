"""Passwords in raw SASL tokens stand in no output, whatever the capture lacks; and doubt is told."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema_rs import Draft202012Validator
from support.packets import packets
from support.pcap import BROKER, CLIENT, Conversation, framed, pcap
from support.reading import EVERYTHING
from support.tui import indexed

import kinspect
from kinspect.capture import open_timeline
from kinspect.cli import main
from kinspect.kafka.view.view import View
from kinspect.pipeline import Inspector
from kinspect.protocol import Message, encode_request, encode_response
from kinspect.run import Run
from kinspect.tui.index.exchangefields import ExchangeFields

TRUST = Path(__file__).parent / "trust"
SCHEMA = Path(__file__).parents[2] / "docs" / "schema" / "exchange.schema.json"
SAMPLES = ("f1", "f1b", "f1c", "f1d")
FORCED = ("--decode-as", "9092")
FORMATS = (
    ("--format", "jsonl", "--emit", "exchange,connection,gap,summary"),
    ("--format", "jsonl", "--records", "--payload", "text"),
    ("--format", "jsonl", "--fields", "client,api,api_key,api_version,correlation_id,problems,request"),
    ("--format", "table"),
    ("--format", "table", "--wide", "--utc"),
    ("--format", "detail"),
    ("--format", "detail", "--records", "--payload", "hex"),
    ("--format", "none"),
)


# A hash, of the capture's path among others: it may have any four digits.
EVENT_ID = re.compile(rb'"event_id": ?"[0-9a-f-]+"')


def pieces(secret: bytes) -> set[bytes]:
    """Every four bytes of a secret, as they are, in hexadecimal, in base64 and as a number."""
    found = set()
    for start in range(len(secret) - 3):
        piece = secret[start : start + 4]
        found |= {piece, piece.hex().encode(), b64encode(secret[start:])[:5]}
        found.add(str(int.from_bytes(piece, signed=True)).encode())
    return found


def token_of(path: Path) -> bytes:
    """The raw token of a sample: the packet that holds a name and a password between zero bytes."""
    for packet in packets(path):
        start = packet.data.find(b"\0grafana\0")
        if start >= 0:
            size = int.from_bytes(packet.data[start - 4 : start])
            return packet.data[start : start + size]
    raise AssertionError(path)


def password_of(path: Path) -> bytes:
    return token_of(path).rpartition(b"\0")[2]


def leaks(path: Path, password: bytes, capfdbinary: pytest.CaptureFixture[bytes]) -> list[tuple[Any, bytes]]:
    hidden = pieces(password)
    found: list[tuple[Any, bytes]] = []
    for options in FORMATS:
        for forced in ((), FORCED):
            capfdbinary.readouterr()
            assert main(["read", str(path), *options, *forced]) == 0
            out, err = capfdbinary.readouterr()
            shown = EVENT_ID.sub(b"", out) + err
            found += [((options, forced), text) for text in hidden if text in shown]
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_no_format_shows_a_password(name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = TRUST / f"{name}.pcap"
    password = password_of(path)
    assert len(password) > 8
    assert leaks(path, password, capfdbinary) == []


@pytest.mark.parametrize("name", SAMPLES)
def test_the_explorer_draws_no_byte_of_a_token(name: str) -> None:
    path = TRUST / f"{name}.pcap"
    hidden = pieces(password_of(path))
    store = indexed(path, kafka_ports=frozenset({9092}))
    tokens = 0
    for number in range(store.count):
        exchange = store.exchange(number)
        fields = ExchangeFields(exchange, View(records=True))
        assert not [text for text in hidden if text in repr((store.line(number), fields.line)).encode()]
        if exchange.kind == "sasl_token":
            tokens += 1
            for message in fields.messages.values():
                assert message.hidden == [(0, len(message.raw))] or not message.raw
    assert tokens == 1


@pytest.mark.parametrize("name", SAMPLES)
def test_decode_shows_no_token(name: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    token = token_of(TRUST / f"{name}.pcap")
    for message in (token, framed(token)):
        for form in ("text", "json"):
            capfdbinary.readouterr()
            assert main(["decode", message.hex(), "--format", form]) == 1
            out, err = capfdbinary.readouterr()
            assert out == b""
            assert b"SaslToken" in err
            assert not [text for text in pieces(token) if text in err]


def sample(name: str) -> list[dict[str, Any]]:
    ports = frozenset({9092} if name == "f1d" else ())
    lines = [exchange.to_dict() for exchange in kinspect.read(TRUST / f"{name}.pcap", decode_as=ports)]
    validator = Draft202012Validator(json.loads(SCHEMA.read_bytes()))
    for line in lines:
        validator.validate(orjson.loads(orjson.dumps(line)))
    return lines


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("f1", ["SaslHandshake", "SaslToken", "Heartbeat"]),
        ("f1b", ["Heartbeat", "SaslHandshake", "SaslToken", "Heartbeat"]),
        ("f1c", ["SaslHandshake", "SaslToken", "Heartbeat"]),
        ("f1d", ["SaslToken", "Heartbeat", "Heartbeat"]),
    ],
)
def test_the_token_is_a_token(name: str, kinds: list[str]) -> None:
    lines = sample(name)
    assert [line["api"] for line in lines] == kinds
    assert [line["problems"] for line in lines] == [[] for _ in lines]
    (token,) = (line for line in lines if line["kind"] == "sasl_token")
    assert {token[key] for key in ("api_key", "api_version", "correlation_id")} == {None}
    assert token["request"]["body"] is None


def test_a_produce_that_may_have_no_answer() -> None:
    lines = sample("f5")
    assert [(line["api"], line["outcome_reason"]) for line in lines if line["outcome"] != "answered"] == [
        ("Produce", "acks_unknown")
    ]
    assert [p["code"] for line in lines for p in line["problems"]] == ["unknown_version"]


def test_an_answer_of_a_lost_request() -> None:
    lines = sample("f7")
    assert [[p["code"] for p in line["problems"]] for line in lines] == [[], ["uncertain_pairing"], []]
    assert (lines[-1]["outcome"], lines[-1]["outcome_reason"]) == ("orphan", "gap")


# ---------------------------------------------------------------------- more of the kind

PASSWORD = b"0f4dcc3b5aa765d61d8327deb882cf99"


def request(api_key: int, number: int, body: dict[str, Any]) -> bytes:
    return framed(encode_request(Message(api_key, 0, number, body, "cl")))


def response(api_key: int, number: int, body: dict[str, Any]) -> bytes:
    return framed(encode_response(Message(api_key, 0, number, body, direction="response")))


def captures() -> Iterator[tuple[str, bytes]]:
    """Logins with user names of several lengths: whole, without any one packet, one side, from any packet on."""
    heartbeat = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    for size in (0, 1, 7, 300):
        talk = Conversation(mss=60)
        talk.open()
        talk.client_sends(request(12, 1, heartbeat))
        talk.broker_sends(response(12, 1, {"error_code": 0}))
        talk.client_sends(request(17, 2, {"mechanism": "PLAIN"}))
        talk.broker_sends(response(17, 2, {"error_code": 0, "mechanisms": ["PLAIN"]}))
        talk.client_sends(framed(b"\0" + b"u" * size + b"\0" + PASSWORD))
        talk.broker_sends(framed(b""))
        for number in (3, 4):
            talk.client_sends(request(12, number, heartbeat))
            talk.broker_sends(response(12, number, {"error_code": 0}))
        talk.close()
        everything = talk.packets
        yield f"{size} whole", pcap(everything)
        for port, side in ((talk.client[1], CLIENT), (talk.broker[1], BROKER)):
            alone = [p for p in everything if int.from_bytes(p.data[34:36]) == port]
            yield f"{size} side {side} alone", pcap(alone)
        for number in range(len(everything)):
            yield f"{size} without {number}", pcap(everything[:number] + everything[number + 1 :])
            yield f"{size} from {number}", pcap(everything[number:])
        for snaplen in range(54, 100, 7):
            yield f"{size} cut to {snaplen}", pcap(everything, snap_length=snaplen)


def test_whatever_is_lost_no_password_is_shown(tmp_path: Path) -> None:
    hidden = pieces(PASSWORD)
    seen = tokens = 0
    path = tmp_path / "login.pcap"
    for what, data in captures():
        path.write_bytes(data)
        for ports in (frozenset[int](), frozenset({9092})):
            inspector = Inspector(emit=EVERYTHING, kafka_ports=ports, files=["login.pcap"])
            lines = [*Run(open_timeline([str(path)]), inspector).all_lines()]
            out = EVENT_ID.sub(b"", orjson.dumps([*(line.to_dict() for line in lines), inspector.summary()]))
            assert [text for text in hidden if text in out] == [], (what, ports)
            seen += 1
            tokens += b"SaslToken" in out
    assert tokens > seen // 2


def test_failed_logins_of_oauthbearer_are_found(capfd: pytest.CaptureFixture[str]) -> None:
    captures = Path(__file__).parents[2] / "captures"
    found = sorted(captures.glob("*/sasl_oauthbearer.pcap"))
    assert len(found) == 2
    for path in found:
        assert (
            main(["read", str(path), "-q", "--errors-only", "--api", "Sasl*", "--format", "table", "--wide"])
            == 0
        )
        assert capfd.readouterr().out.count("login refused (invalid_token) OAUTHBEARER user oauthuser\n") == 1
        store = indexed(path)
        refused = [number for number in range(store.count) if store.line(number)["action"].refused]
        assert len(refused) == 1
        fields = ExchangeFields(store.exchange(refused[0]), View())
        assert [node.value for node in fields.lines if node.kind] == ["login refused (invalid_token)"]
