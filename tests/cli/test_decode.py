import json
import os
import pty
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pcap import Conversation
from support.recordsets import batch_of
from support.shares import one_in

from kinspect.cli.candidates import MessageOptions, find, framings
from kinspect.protocol import Message, encode_request, encode_response, schema

PRODUCE, HEARTBEAT, API_VERSIONS, SASL_AUTHENTICATE = 0, 12, 18, 36
BEAT = {"group_id": "workers", "generation_id": 1, "member_id": "m"}
REQUEST = encode_request(Message(HEARTBEAT, 0, 7, BEAT, "app-1"))
RESPONSE = encode_response(Message(HEARTBEAT, 1, 7, {"throttle_time_ms": 9, "error_code": 27}))
HUNTER = b"hunter2-hunter2"
LOGIN = encode_request(Message(SASL_AUTHENTICATE, 0, 1, {"auth_bytes": b"\0alice\0hunter2"}, "c"))


def test_an_unknown_api_is_told_with_those_that_may_be_meant(kinspect):
    result = kinspect("decode", "--api", "Heartbet", RESPONSE.hex())
    assert result.status == 1
    assert "there is no API 'Heartbet': did you mean Heartbeat" in result.err


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
        assert process("decode", "-", input=content).stdout.decode() == expected


def test_the_size_in_front(kinspect):
    sized = (len(REQUEST).to_bytes(4) + REQUEST).hex()
    expected = kinspect("decode", REQUEST.hex()).out
    assert kinspect("decode", sized).out == expected
    assert kinspect("decode", "--size-prefix", "yes", sized).out == expected
    assert kinspect("decode", "--size-prefix", "no", REQUEST.hex()).out == expected
    for prefix in ("yes", "auto"):
        more = kinspect("decode", "--size-prefix", prefix, sized + "00")
        assert (more.status, more.out) == (0, expected)
        assert more.err == "kinspect: the size says 31 bytes, and 1 byte follows: another message?\n"
    for size in ("00000000", "ffffffff", "7fffffff"):
        assert kinspect("decode", "--size-prefix", "yes", size + REQUEST.hex()).status == 1


def envelope() -> bytes:
    """A request with another in it, which makes a SCRAM credential."""
    credential = {"name": "a", "mechanism": 1, "iterations": 4096, "salt": HUNTER, "salted_password": HUNTER}
    inner = encode_request(Message(51, 0, 3, {"upsertions": [credential]}, client_id="admin"))
    body = {"request_data": inner, "request_principal": b"\0\0\0", "client_host_address": b"\x0a\0\0\1"}
    return encode_request(Message(58, 0, 0, body, client_id=None))


@pytest.mark.parametrize("start", one_in(4, [0, -4, 4, 9]))
@pytest.mark.parametrize("format_name", ["text", "json"])
def test_a_guess_shows_no_bytes_of_another_message(kinspect, start, format_name):
    whole = len(envelope()).to_bytes(4) + envelope()
    told = 0
    for end in range(24, len(whole) + 1, 2):
        found = kinspect("decode", "--format", format_name, whole[start + 4 : end].hex())
        for form in (HUNTER.decode(), HUNTER.hex(), b64encode(HUNTER).decode()[:12]):
            assert form not in found.out
        told += "as the API is a guess" in found.out
    assert told or format_name == "json"


def test_texts_of_a_guess_are_shown_where_the_api_is_told(kinspect):
    raw = encode_response(Message(10, 3, 7, {"host": "broker-1", "error_message": "gone"}))
    guess = kinspect("decode", raw.hex())
    assert (guess.status, "broker-1" in guess.out, "(not shown)" in guess.out) == (0, False, True)
    assert "as the API is a guess: --api NAME or --show-secrets shows them" in guess.out
    assert '"broker-1"' in kinspect("decode", "--show-secrets", raw.hex()).out
    assert '"broker-1"' in kinspect("decode", "--api", "FindCoordinator", raw.hex()).out
    found = json.loads(kinspect("decode", "--format", "json", raw.hex()).out)
    assert "broker-1" not in json.dumps(found)
    assert found["complete"] is True
    longer = kinspect("decode", "--api", "FindCoordinator", "--api-version", "3", f"{raw.hex()}00").out
    assert ("broker-1" in longer, "does not fit to its last byte" in longer) == (False, True)


def test_a_broken_message_says_where(kinspect):
    result = kinspect("decode", REQUEST[:-4].hex())
    assert result.status == 1
    assert '"workers"' in result.out
    where, cut, *_ = result.out.split('"workers"\n')[1].splitlines()
    assert where.startswith("malformed at byte 24: ")
    assert "generation_id" in where
    assert cut == "cut: 1 byte or more is missing"


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
    lines = result.out.splitlines()
    number = next(number for number, line in enumerate(lines) if line.startswith(where))
    assert last_field in lines[number - 1]
    assert lines[number + 1].startswith("cut: ")
    found = json.loads(kinspect("decode", "--format", "json", data).out)
    assert (found["body"], found["complete"]) == (None, False)
    assert found["problems"][0]["code"] == "malformed"


def test_a_broken_header_of_a_response(kinspect):
    result = kinspect("decode", "--response", "--api", "Fetch", "--api-version", "1", "00")
    assert result.status == 1
    assert "the response's header does not fit at correlation_id: int32 needs 4 bytes, 1 left" in result.out


def head(result):
    return result.out.splitlines()[0] if result.out else ""


def cut_line(result):
    return next((line for line in result.out.splitlines() if line.startswith("cut: ")), None)


@pytest.mark.parametrize("prefix", ["auto", "yes"])
@pytest.mark.parametrize("here", [15, 20, 27, 31])
def test_a_message_cut_behind_its_size(kinspect, prefix, here):
    result = kinspect("decode", "--size-prefix", prefix, "00000040" + REQUEST[:here].hex())
    assert (result.status, result.err) == (1, "")
    assert head(result) == f"Heartbeat v0 request, {here} bytes"
    assert cut_line(result) == f"cut: {64 - here} of 64 bytes are missing, {here} are here"


@pytest.mark.parametrize("here", range(15, 31))
def test_a_request_cut_anywhere(kinspect, here):
    result = kinspect("decode", REQUEST[:here].hex())
    assert (result.status, result.err) == (1, "")
    assert head(result) == f"Heartbeat v0 request, {here} bytes"
    assert cut_line(result).endswith(" missing")
    found = json.loads(kinspect("decode", "--format", "json", REQUEST[:here].hex()).out)
    assert (found["fit"], found["complete"]) == ("cut", False)
    assert 0 < found["missing_bytes"] <= len(REQUEST) - here


def test_a_response_cut_behind_its_size(kinspect):
    sized = len(RESPONSE).to_bytes(4) + RESPONSE
    result = kinspect("decode", "--response", "--api", "Heartbeat", "--api-version", "1", sized[:-1].hex())
    assert (result.status, head(result)) == (1, "Heartbeat v1 response, 9 bytes")
    assert cut_line(result) == "cut: 1 of 10 bytes are missing, 9 are here"
    found = json.loads(kinspect("decode", "--format", "json", sized[:-1].hex()).out)
    assert found["fit"] == "cut"
    assert ("Heartbeat", 1, "response", "cut") in places(found)


def places(found):
    return {(one["api"], one["api_version"], one["direction"], one["fit"]) for one in found["candidates"]}


@pytest.mark.parametrize("sized", [False, True])
def test_a_response_without_options(kinspect, sized):
    data = (len(RESPONSE).to_bytes(4) if sized else b"") + RESPONSE
    result = kinspect("decode", data.hex())
    assert (result.status, result.err) == (0, "")
    assert head(result) == "Heartbeat v1 response, 10 bytes"
    assert "REBALANCE_IN_PROGRESS" in result.out
    listed = result.out.split("could also be (--request, --response, --api and --api-version choose)\n")[1]
    assert ["LeaveGroup", "v1-2", "response"] in [line.split()[:3] for line in listed.splitlines()]
    found = json.loads(kinspect("decode", "--format", "json", data.hex()).out)
    assert ("EndTxn", 0, "response", "fits") in places(found)
    assert found["candidates"][0]["api"] == "Heartbeat"
    for options, api in (
        (["--api", "EndTxn"], "EndTxn v0"),
        (["--api", "26", "--api-version", "1"], "EndTxn v1"),
    ):
        assert head(kinspect("decode", *options, data.hex())) == f"{api} response, 10 bytes"


def test_what_a_broker_would_hardly_say_is_less_likely(kinspect):
    body = {
        "error_code": 0,
        "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}],
        "throttle_time_ms": 0,
    }
    raw = encode_response(Message(API_VERSIONS, 1, 7, body))
    assert head(kinspect("decode", raw.hex())) == f"ApiVersions v1 response, {len(raw)} bytes"


@pytest.mark.parametrize("key", [0, 1, 3, 8, 11, 18, 19, 36, 68, 75])
def test_requests_of_any_api_and_their_responses_are_among_the_candidates(kinspect, key):
    api = schema.api(key)
    for version in api.versions:
        for encode, direction in ((encode_request, "request"), (encode_response, "response")):
            raw = encode(
                Message(key, version, 5, {}, "app-1")
                if direction == "request"
                else Message(key, version, 5, {})
            )
            found = json.loads(kinspect("decode", "--format", "json", raw.hex()).out)
            if direction == "request":
                assert (found["api"], found["api_version"], found["direction"]) == (
                    api.name,
                    version,
                    direction,
                )
            else:
                chosen = ["--response", "--api", api.name, "--api-version", version, "--format", "json"]
                assert json.loads(kinspect("decode", *chosen, raw.hex()).out)["fit"] == "fits"
                listed = (api.name, version, direction, "fits") in places(found)
                assert listed or len(found["candidates"]) == 100


def test_options_that_nothing_fits(kinspect):
    for options in (["--response", "--api", "Fetch"], ["--api", "Fetch"], ["--api", "Fetch", "--request"]):
        result = kinspect("decode", *options, "000000")
        assert (result.status, result.out) == (1, "")
        assert result.err == ("kinspect: the bytes fit no layout that the options allow: try fewer options\n")


def produce():
    partitions = [{"index": 0, "records": batch_of(["hello\x9b".encode(), b"\xff\xfe"])}]
    topics = [{"name": "orders", "partition_data": partitions}]
    return encode_request(Message(PRODUCE, 9, 7, {"acks": 1, "timeout_ms": 9, "topic_data": topics}, "app-1"))


@pytest.mark.parametrize(
    ("payload", "shown", "hidden"),
    [
        ("none", '"batches"', "hello"),
        ("text", "hello\\x9b", "aGVsbG"),
        ("base64", "aGVsbG", "hello"),
        ("hex", "68656c6c6f", "hello"),
    ],
)
def test_payload(kinspect, payload, shown, hidden):
    for form in ("text", "json"):
        result = kinspect("decode", "--payload", payload, "--format", form, produce().hex())
        assert (result.status, result.err) == (0, "")
        assert (shown if form == "text" else shown.replace("\\x9b", "\\u009b")) in result.out
        assert hidden not in result.out
        assert not set(result.out) & {"\x9b"}


def test_json_has_no_control_characters(kinspect):
    group = "\x7f\x9b\u202e\u2028\u2066"
    evil = encode_request(Message(HEARTBEAT, 0, 7, {**BEAT, "group_id": group}, "app-1"))
    out = kinspect("decode", "--format", "json", evil.hex()).out
    assert not set(out) & set(group)
    assert json.loads(out)["body"]["group_id"] == group


@pytest.mark.parametrize(
    "make", [list, repr, bytearray, lambda raw: [b - 256 if b > 127 else b for b in raw]]
)
def test_what_java_and_python_print(kinspect, make):
    assert kinspect("decode", str(make(REQUEST))).out == kinspect("decode", REQUEST.hex()).out


@pytest.mark.parametrize("path", ["/dev/zero", "sparse"])
def test_an_endless_input_is_one_line(kinspect, tmp_path, path):
    if path == "sparse":
        path = tmp_path / path
        with path.open("wb") as file:
            file.truncate(10 << 30)
    result = kinspect("decode", "--file", path)
    assert (result.status, result.out) == (1, "")
    assert result.err == "kinspect: the input is larger than 32MiB: is it one message?\n"


@given(data=st.binary(max_size=80))
def test_any_bytes_end_in_a_line_or_a_reading(data):
    for framed in framings(data, None):
        for candidate in find([framed], MessageOptions(None, None, None)):
            assert candidate.fit in ("fits", "trailing", "cut", "broken")


def test_text_in_a_file_is_not_the_message_itself(kinspect, process, tmp_path):
    path = tmp_path / "message"
    path.write_text("Liebes Tagebuch, heute war es schön\u00a0…\n")
    for result in (kinspect("decode", "--file", path), kinspect("decode", path.read_text())):
        assert (result.status, result.out) == (1, "")
        assert result.err.startswith("kinspect: the input is no message: it contains 'ö'; give hex, ")
        assert result.err.count("\n") == 1
    assert process("decode", input=path.read_bytes()).returncode == 1


def test_a_frame_as_one_line_of_hex(kinspect):
    talk = Conversation()
    talk.client_sends(len(REQUEST).to_bytes(4) + REQUEST)
    assert kinspect("decode", talk.packets[0].data.hex()).out == kinspect("decode", REQUEST.hex()).out


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
    assert any(
        line.startswith("trailing_bytes at byte 31: 4 trailing bytes") for line in result.out.splitlines()
    )


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
        ["--api-version", "1", "00"],
        ["--payload", "all", "00"],
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
        ["[0, 18, …]"],
        ["{0x00, 0x0c, …}"],
        ["…" * 5001],
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


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_the_begin_of_a_header_is_a_request_that_is_cut(kinspect, size):
    request = encode_request(Message(HEARTBEAT, 4, 0x01010101, BEAT | {"group_instance_id": None}, "app-1"))
    result = kinspect("decode", request[:size].hex())
    assert result.status == 1
    assert result.out.startswith("Heartbeat v4 request, " if size >= 4 else "Heartbeat request, ")
    assert "\ncut: " in result.out


def test_the_begin_of_a_header_of_the_first_api_may_be_a_response_too(kinspect):
    result = kinspect("decode", "00000009")
    assert result.out.startswith("Produce v9 request, 4 bytes\n")
    assert "\ncut: 4 bytes or more are missing\n" in result.out
    assert ["FindCoordinator", "v0-2", "response", "cut"] in [
        line.split() for line in result.out.splitlines()
    ]


@pytest.mark.parametrize("token", [b"\0a\0b", b"x\0a\0b", b"\0al\0pw"])
def test_a_short_token_is_not_the_begin_of_a_header(kinspect, token):
    result = kinspect("decode", token.hex())
    assert (result.status, result.out) == (1, "")
    assert "may be a raw SASL token" in result.err


SCRAM_ANSWER = b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=U0VDUkVUc2FsdA==,i=4096"
ANSWERED_LOGIN = {
    "error_code": 0,
    "error_message": None,
    "auth_bytes": SCRAM_ANSWER,
    "session_lifetime_ms": 0,
}


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("damage", ["cut", "twice", "without its beginning"])
def test_a_token_is_not_shown_as_something_else(kinspect, version, damage):
    """Another API's layout may fit the bytes of a cut SaslAuthenticate, and would show the token."""
    answer = encode_response(Message(36, version, 7, ANSWERED_LOGIN, None))
    request = encode_request(Message(36, version, 7, {"auth_bytes": b"\0alice\0open sesame"}, "c"))
    sized = len(answer).to_bytes(4) + answer
    given = {"cut": answer[:-6], "twice": sized + sized, "without its beginning": request[4:]}[damage]
    for options in ((), ("--format", "json")):
        result = kinspect("decode", *options, given.hex())
        shown = result.out + result.err
        assert "sesame" not in shown
        assert "U0VDUkVU" not in shown
        assert "SECRET" not in shown
