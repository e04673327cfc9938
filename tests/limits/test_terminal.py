"""Nothing that a capture says reaches the terminal as anything but text."""

import unicodedata

import pytest
from support.pcap import Conversation, framed, pcap

from kinspect.protocol import Message, encode_request, encode_response

EVIL = "\x1b]0;owned\x07[red]x[/red]:smile:\u202egnp\n\r\x9b2J\u2028\x00"
FORMATS = [
    ("--format", "table", "--wide"),
    ("--format", "table"),
    ("--format", "table", "--color", "always"),
    ("--format", "detail", "--records", "--payload", "text"),
    ("--format", "detail", "--records", "--payload", "text", "--color", "always"),
    ("--format", "none"),
    ("--format", "jsonl", "--emit", "exchange,connection,gap,summary"),
]


def dangerous(text):
    """The characters that a terminal would obey; colours of kinspect's own are none."""
    plain = text
    for code in range(110):
        plain = (
            plain.replace(f"\x1b[{code}m", "").replace(f"\x1b[1;{code}m", "").replace(f"\x1b[2;{code}m", "")
        )
    return {c for c in plain if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Zl", "Zp"}}


def talk():
    conversation = Conversation()
    conversation.open()
    topics = [{"error_code": 3, "name": EVIL, "is_internal": False, "partitions": []}]
    for number, (key, version, request, response) in enumerate(
        [
            (18, 3, {"client_software_name": EVIL, "client_software_version": EVIL}, None),
            (12, 4, {"group_id": EVIL, "generation_id": 1, "member_id": EVIL}, {"error_code": 27}),
            (3, 1, {"topics": [{"name": EVIL}]}, {"brokers": [], "controller_id": 1, "topics": topics}),
            (10, 3, {"key": EVIL, "key_type": 0}, {"error_code": 15, "error_message": EVIL, "host": EVIL}),
        ],
        1,
    ):
        conversation.client_sends(framed(encode_request(Message(key, version, number, request, "c" + EVIL))))
        if response is not None:
            conversation.broker_sends(framed(encode_response(Message(key, version, number, response))))
    conversation.close()
    return conversation


@pytest.fixture
def capture(tmp_path):
    path = tmp_path / "evil.pcap"
    path.write_bytes(pcap(talk().packets))
    return path


@pytest.mark.parametrize("options", FORMATS, ids=" ".join)
def test_captures(measured, capture, options):
    result = measured("read", capture, *options)
    assert result.status == 0
    assert "4 exchanges" in result.err
    # JSON is for programs: it escapes C0 controls and leaves the rest of Unicode as it is.
    lines = result.out.decode()
    shown = "".join(c for c in lines if c < " ") if "jsonl" in options else lines
    assert dangerous(shown + result.err) == set()
    if "none" not in options:
        assert b"[red]" in result.out


@pytest.mark.parametrize("options", [("--format", "json"), ()], ids=str)
def test_one_message(measured, options):
    body = {"group_id": EVIL, "generation_id": 1, "member_id": EVIL}
    message = encode_request(Message(12, 4, 1, body, "c" + EVIL))
    result = measured("decode", message.hex(), *options)
    assert result.status == 0
    assert dangerous(result.out.decode() + result.err) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("read", "absent{}"), id="read absent{}"),
        pytest.param(("read", "{}", "--keylog", "absent{}"), id="read {} --keylog absent{}"),
        pytest.param(
            ("read", "made.pcap", "--topic-names", "absent{}"),
            id="read made.pcap --topic-names absent{}",
        ),
        pytest.param(("read", "made.pcap", "-o", "no/{}"), id="read made.pcap -o no/{}"),
        ("read", "made.pcap", "--api", "{}"),
        ("read", "made.pcap", "--since", "{}"),
        ("read", "made.pcap", "--emit", "{}"),
        ("read", "made.pcap", "--fields", "{}"),
        ("read", "made.pcap", "--host", "{}"),
        ("read", "made.pcap", "--{}"),
        ("decode", "{}"),
        ("schema", "{}"),
        ("schema", "errors", "{}"),
        ("{}",),
    ],
    ids=" ".join,
)
def test_complaints(measured, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made.pcap").write_bytes(pcap(talk().packets))
    evil = EVIL.replace("\x00", "")
    result = measured(*(argument.format(evil) for argument in arguments))
    assert dangerous(result.out.decode() + result.err) == set()


def test_a_file_with_such_a_name(measured, tmp_path):
    path = tmp_path / (EVIL.replace("\x00", "").replace("/", "") + ".pcap")
    path.write_bytes(pcap(talk().packets)[:-5])
    for options in FORMATS:
        result = measured("read", path, *options)
        assert result.status == 3
        lines = result.out.decode()
        shown = "".join(c for c in lines if c < " ") if "jsonl" in options else lines
        assert dangerous(shown + result.err) == set()
