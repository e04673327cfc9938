import json

import pytest

from kinspect.protocol import Message, encode_request, encode_response

HEARTBEAT, SASL_AUTHENTICATE = 12, 36
BEAT = {"group_id": "workers", "generation_id": 1, "member_id": "m"}
REQUEST = encode_request(Message(HEARTBEAT, 0, 7, BEAT, "app-1"))
RESPONSE = encode_response(Message(HEARTBEAT, 1, 7, {"throttle_time_ms": 9, "error_code": 27}))
LOGIN = encode_request(Message(SASL_AUTHENTICATE, 0, 1, {"auth_bytes": b"\0alice\0hunter2"}, "c"))


def test_a_request_with_the_offsets_of_its_fields(kinspect):
    result = kinspect("decode", REQUEST.hex())
    assert result.status == 0
    rows = [line.split() for line in result.out.splitlines()]
    assert result.out.startswith("Heartbeat v0 request, 31 bytes\n")
    assert ["8–15", "client_id", "string", '"app-1"'] in rows
    assert ["15–24", "group_id", "string", '"workers"'] in rows
    assert ["24–28", "generation_id", "int32", "1"] in rows
    assert ["28–31", "member_id", "string", '"m"'] in rows


def test_a_response(kinspect):
    result = kinspect("decode", "--response", "--api", "heartbeat", "--api-version", "1", RESPONSE.hex())
    assert result.status == 0
    assert ["8–10", "error_code", "int16", "27"] in [line.split() for line in result.out.splitlines()]


def test_json(kinspect):
    found = json.loads(kinspect("decode", "--format", "json", REQUEST.hex()).out)
    assert found["body"] == BEAT
    assert found["header"]["client_id"] == "app-1"
    assert found["fields"][-1] == {
        "path": "member_id",
        "start": 28,
        "end": 31,
        "type": "string",
        "value": "m",
    }
    assert found["problems"] == []


def test_where_the_message_comes_from(kinspect, process, tmp_path):
    expected = kinspect("decode", REQUEST.hex()).out
    path = tmp_path / "message"
    for content in (REQUEST, REQUEST.hex(" ").encode(), len(REQUEST).to_bytes(4) + REQUEST):
        path.write_bytes(content)
        assert kinspect("decode", "--file", path).out == expected
        assert process("decode", input=content).stdout.decode() == expected


def test_the_size_in_front(kinspect):
    sized = (len(REQUEST).to_bytes(4) + REQUEST).hex()
    expected = kinspect("decode", REQUEST.hex()).out
    assert kinspect("decode", sized).out == expected
    assert kinspect("decode", "--size-prefix", "yes", sized).out == expected
    assert kinspect("decode", "--size-prefix", "no", REQUEST.hex()).out == expected
    assert kinspect("decode", "--size-prefix", "yes", sized + "00").status == 1


def test_secrets(kinspect):
    for format_name in ("text", "json"):
        hidden = kinspect("decode", "--format", format_name, LOGIN.hex())
        assert hidden.status == 0
        assert "secret" in hidden.out
        assert "AGFsaWNlAGh1bnRlcjI=" not in hidden.out
        assert (
            "AGFsaWNlAGh1bnRlcjI="
            in kinspect("decode", "--show-secrets", "--format", format_name, LOGIN.hex()).out
        )


def test_a_broken_message_says_where(kinspect):
    result = kinspect("decode", REQUEST[:-4].hex())
    assert result.status == 1
    assert '"workers"' in result.out
    last = result.out.splitlines()[-1]
    assert last.startswith("malformed at byte 24: ")
    assert "generation_id" in last


def test_left_over_bytes_are_told(kinspect):
    result = kinspect("decode", (REQUEST + bytes(4)).hex())
    assert result.status == 0
    assert result.out.splitlines()[-1].startswith("trailing_bytes at byte 31: 4 trailing bytes")


def test_an_unknown_version_shows_its_header(kinspect):
    result = kinspect("decode", "000c 00ff 00000001 0001 61 00")
    assert result.status == 1
    assert "Heartbeat v255 request" in result.out
    assert '"a"' in result.out
    assert "unknown_version" in result.out


def test_text_of_a_message_is_escaped(kinspect):
    evil = encode_request(Message(HEARTBEAT, 0, 7, {**BEAT, "group_id": "\x9b\u202e\x1b[2J"}, "app-1"))
    out = kinspect("decode", evil.hex()).out
    assert not set(out) & {"\x9b", "\u202e", "\x1b"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--response", "00"],
        ["--response", "--api", "Fetch", "00"],
        ["--api", "Fetch", "00"],
        ["--request", "--response", "00"],
        ["00", "--file", "x"],
    ],
)
def test_usage_errors(kinspect, arguments):
    assert kinspect("decode", *arguments).status == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["nothing to see"],
        ["00"],
        ["--file", "/nowhere/x"],
        ["--response", "--api", "Fetsch", "--api-version", "1", "00000000"],
        ["--response", "--api", "Fetch", "--api-version", "99", "00000000"],
        ["--response", "--api", "Fetch", "--api-version", "1", "00"],
    ],
)
def test_what_cannot_be_decoded_is_one_line(kinspect, arguments):
    result = kinspect("decode", *arguments)
    assert result.status == 1
    assert result.out == ""
    assert result.err.startswith("kinspect: ")
    assert result.err.count("\n") == 1
