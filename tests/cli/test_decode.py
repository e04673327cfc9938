import json
import os
import pty

import pytest

from kinspect.protocol import Message, encode_request, encode_response

HEARTBEAT, API_VERSIONS, SASL_AUTHENTICATE = 12, 18, 36
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
    rows = [line.split() for line in result.out.splitlines()]
    assert ["8–10", "error_code", "int16", "27", "(REBALANCE_IN_PROGRESS)"] in rows


def test_numbers_are_named(kinspect):
    body = {"error_code": 0, "api_keys": [{"api_key": 3, "min_version": 0, "max_version": 13}]}
    raw = encode_response(Message(API_VERSIONS, 0, 7, body))
    out = kinspect("decode", "--response", "--api", "18", "--api-version", "0", raw.hex()).out
    rows = [line.split() for line in out.splitlines()]
    assert ["4–6", "error_code", "int16", "0"] in rows
    assert ["10–12", "api_keys[0].api_key", "int16", "3", "(Metadata)"] in rows
    assert "request_api_key      int16   12 (Heartbeat)" in kinspect("decode", REQUEST.hex()).out


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


@pytest.mark.parametrize(
    ("data", "last_field", "where"),
    [
        ("00", "", "malformed at byte 0: the request's header does not fit at request_api_key: "),
        ("000c00", "request_api_key", "malformed at byte 2: "),
        ("000c000400000001000663", "correlation_id", "malformed at byte 8: "),
    ],
)
def test_a_broken_header_says_where(kinspect, data, last_field, where):
    result = kinspect("decode", data)
    assert (result.status, result.err) == (1, "")
    *read, last = result.out.splitlines()
    assert last.startswith(where)
    assert last_field in read[-1]
    found = json.loads(kinspect("decode", "--format", "json", data).out)
    assert (found["body"], found["complete"]) == (None, False)
    assert found["problems"][0]["code"] == "malformed"


def test_a_broken_header_of_a_response(kinspect):
    result = kinspect("decode", "--response", "--api", "Fetch", "--api-version", "1", "00")
    assert result.status == 1
    assert "the response's header does not fit at correlation_id: int32 needs 4 bytes, 1 left" in result.out


def test_a_size_that_does_not_match(kinspect):
    hint = "kinspect: the first 4 bytes look like a size of 64, but {} bytes follow\n"
    for data in (REQUEST, REQUEST[:10]):
        result = kinspect("decode", "00000040" + data.hex())
        assert (result.status, result.err) == (1, hint.format(len(data)))
    response = ["decode", "--response", "--api", "SaslAuthenticate", "--api-version", "0"]
    answer = encode_response(Message(SASL_AUTHENTICATE, 0, 7, {"auth_bytes": b"x" * 9}))
    assert kinspect(*response, answer.hex()).err == ""
    assert kinspect(*response, "00000040" + answer.hex()).err == hint.format(len(answer))
    assert kinspect("decode", "--size-prefix", "no", "00000040" + REQUEST.hex()).err == ""
    cut = kinspect("decode", "--size-prefix", "yes", "00000040" + REQUEST[:20].hex())
    assert cut.err == hint.format(20)


def test_a_response_taken_for_a_request(kinspect):
    assert "if this is a response, it needs --response" in kinspect("decode", "7fff0000" + "00" * 8).err


def test_a_capture_is_not_a_message(kinspect, capture):
    result = kinspect("decode", "--file", capture)
    assert (result.status, result.out) == (1, "")
    assert result.err == "kinspect: this is a capture: use `kinspect read`\n"


def test_a_file_is_no_message(kinspect, tmp_path):
    path = tmp_path / "message.bin"
    path.write_bytes(REQUEST)
    result = kinspect("decode", path)
    assert (result.status, result.out) == (1, "")
    assert result.err == f"kinspect: {path}: a file is given with --file\n"


def test_the_shortest_response_in_base64(kinspect):
    known = ["--response", "--api", "LeaveGroup", "--api-version", "0"]
    assert kinspect("decode", *known, "AAAAAQAA").out == kinspect("decode", *known, "000000010000").out


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
        [""],
        [" "],
        ["000"],
        ["zz"],
        ["z" * 5001],
        ["Metadata"],
        ["--response", "--api", "Fetch", "--api-version", "1", "zz"],
        ["--file", "/nowhere/x"],
        ["--response", "--api", "Fetsch", "--api-version", "1", "00000000"],
        ["--response", "--api", "Fetch", "--api-version", "99", "00000000"],
    ],
)
def test_what_cannot_be_decoded_is_one_line(kinspect, arguments):
    result = kinspect("decode", *arguments)
    assert result.status == 1
    assert result.out == ""
    assert result.err.startswith("kinspect: ")
    assert result.err.count("\n") == 1


def test_on_a_terminal_it_says_what_it_waits_for(process):
    controller, terminal = pty.openpty()
    os.write(controller, REQUEST.hex().encode() + b"\n\x04")
    result = process("decode", stdin=terminal)
    os.close(controller)
    os.close(terminal)
    assert result.stderr.decode() == "kinspect: paste a message; Ctrl-D on a line of its own ends it\n"
    assert result.stdout.startswith(b"Heartbeat v0 request, 31 bytes\n")
