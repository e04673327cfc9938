import random
import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinspect.errors import KinspectError
from kinspect.protocol import (
    DecodeError,
    EncodeError,
    Message,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    schema,
)

HEARTBEAT = struct.pack(">hhih", 12, 0, 7, 3) + b"c-1" + b"\0\x01g" + struct.pack(">i", 5) + b"\0\x01m"


def test_a_request():
    message = decode_request(HEARTBEAT)
    assert (message.api_key, message.api, message.api_version) == (12, "Heartbeat", 0)
    assert (message.correlation_id, message.client_id) == (7, "c-1")
    assert message.body == {"group_id": "g", "generation_id": 5, "member_id": "m"}
    assert encode_request(message) == HEARTBEAT
    assert decode_request(memoryview(HEARTBEAT)) == message


def test_trailing_bytes_are_kept():
    message = decode_request(HEARTBEAT + b"\1\2\3\4")
    assert message.trailing == b"\1\2\3\4"
    assert [problem.code for problem in message.problems] == ["trailing_bytes"]
    assert message.problems[0].offset == len(HEARTBEAT)
    assert encode_request(message) == HEARTBEAT + b"\1\2\3\4"


def test_unknown_tags_of_header_and_body_are_kept():
    frame = struct.pack(">hhih", 10, 3, 7, -1) + b"\1\x09\1h" + b"\2k\0" + b"\2\x63\0\xc8\1\2xy"
    message = decode_request(frame)
    assert message.client_id is None
    assert message.unknown_tagged_fields == [{"tag": 9, "bytes": b"h"}]
    assert message.body["unknown_tagged_fields"] == [{"tag": 99, "bytes": b""}, {"tag": 200, "bytes": b"xy"}]
    assert encode_request(message) == frame


def test_the_version_fallback_goes_both_ways():
    frame = struct.pack(">ihi", 7, 35, 0)
    for version in (3, 99):
        message = decode_response(frame, api_key=18, api_version=version)
        assert (message.api_version, message.body_version) == (version, 0)
        assert message.body == {"error_code": 35, "api_keys": []}
        assert encode_response(message) == frame


def test_a_message_of_ones_own():
    body = {"topics": [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [{"partition": 3}]}]}
    frame = encode_request(Message(api_key=1, api_version=13, correlation_id=1, body=body))
    message = decode_request(frame)
    assert message.body["topics"][0]["topic_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert message.body["topics"][0]["partitions"][0]["current_leader_epoch"] == -1
    assert message.client_id is None


def test_decode_errors_say_where():
    with pytest.raises(DecodeError) as caught:
        decode_request(HEARTBEAT[:-1])
    error = caught.value
    assert (error.path, error.offset) == ("member_id", len(HEARTBEAT) - 3)
    assert error.body == {"group_id": "g", "generation_id": 5}
    assert (error.api_key, error.api_version) == (12, 0)


@pytest.mark.parametrize("frame", [b"", b"\0", HEARTBEAT[:9], struct.pack(">hhih", 4242, 0, 1, -1)])
def test_requests_that_cannot_be_decoded(frame):
    with pytest.raises(DecodeError):
        decode_request(frame)


@pytest.mark.parametrize(("api_key", "version"), [(4242, 0), (1, 99), (1, -1), (10**12, 10**12)])
def test_responses_that_cannot_be_decoded(api_key, version):
    with pytest.raises(DecodeError):
        decode_response(b"\0\0\0\1\0\0", api_key=api_key, api_version=version)


@pytest.mark.parametrize(
    "body",
    [
        {"generation_id": "five"},
        {"generation_id": 1 << 40},
        {"generation_id": None},
        {"group_id": None},
        {"group_id": b"g"},
        {"group_id": "x" * 40_000},
        {"group_id": "\ud800"},
        None,
        5,
    ],
)
def test_values_that_do_not_fit_cannot_be_written(body):
    with pytest.raises(EncodeError):
        encode_request(Message(12, 0, 1, body))


@pytest.mark.parametrize(
    "topics",
    [
        5,
        "abc",
        [5],
        [None],
        [{"topic_id": "short"}],
        [{"topic_id": "!" * 22}],
        [{"partitions": ["a"]}],
        {"a": 1},
    ],
)
def test_arrays_that_do_not_fit_cannot_be_written(topics):
    with pytest.raises(EncodeError):
        encode_request(Message(1, 13, 1, {"topics": topics}))


def test_what_is_unknown_cannot_be_written():
    for message in (Message(4242, 0, 1, {}), Message(1, 99, 1, {}), Message(1, 4, 1, {}, layout="3.5–3.6")):
        with pytest.raises(EncodeError) as caught:
            encode_request(message)
        assert isinstance(caught.value, KinspectError)


def test_truncated_and_flipped_vectors_raise_nothing_else(vectors):
    rng = random.Random(6)
    for vector in vectors:
        frame = vector.frame
        flipped = bytearray(frame)
        for _ in range(rng.choice((1, 2, 8))):
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        for damaged in (frame[: rng.randrange(len(frame))], bytes(flipped)):
            with suppress(DecodeError):
                if vector.direction == "request":
                    encode_request(decode_request(damaged))
                else:
                    encode_response(decode_response(damaged, vector.api_key, vector.version))


def test_small_vectors_cut_anywhere(vectors):
    for vector in vectors[::7]:
        for size in range(min(len(vector.frame), 120)):
            frame = vector.frame[:size]
            try:
                if vector.direction == "request":
                    message = decode_request(frame)
                else:
                    message = decode_response(frame, vector.api_key, vector.version)
            except DecodeError:
                continue
            # A cut message may be one of another layout, but then of all its bytes.
            encode = encode_request if vector.direction == "request" else encode_response
            assert len(encode(message)) == size or message.problems


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), st.integers(-1, 100), st.integers(-1, 20))
def test_any_bytes_give_a_message_or_a_decode_error(data, api_key, version):
    for prefix in (b"", struct.pack(">hh", api_key, max(version, 0))):
        try:
            message = decode_request(prefix + data)
        except DecodeError:
            continue
        assert message.api == schema.api_name(message.api_key)
    with suppress(DecodeError):
        decode_response(data, api_key=api_key, api_version=version)
