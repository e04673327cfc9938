import random
import struct

import pytest

from kinspect.model import PROBLEM_CODES
from kinspect.protocol import compiler, decode_body, decode_record, fits, schema


def encoded(layout, body):
    return compiler.encoder(layout)(body)


def test_a_body_that_fits_has_no_problems():
    layout = schema.layout(10, 3, "request")
    decoded = decode_body(10, 3, "request", b"..\x02g\x00\x00!", 2, 6)
    assert (decoded.body, decoded.layout) == ({"key": "g", "key_type": 0}, layout)
    assert (decoded.complete, decoded.problems) == (True, ())


def test_surplus_bytes_are_told_and_counted_from_the_base():
    decoded = decode_body(18, 0, "request", b"h" * 10 + b"\0" * 4, 10, 14, base=2)
    assert (decoded.body, decoded.complete) == ({}, True)
    (problem,) = decoded.problems
    assert (problem.code, problem.offset, problem.bytes, problem.side) == ("trailing_bytes", 8, 4, "request")
    assert "4 trailing bytes" in problem.message


def test_a_broken_body_gives_what_was_read():
    raw = struct.pack(">ih", 7, 100) + b"secret"
    decoded = decode_body(17, 0, "response", struct.pack(">hi", 33, 2) + b"\0\x05PLAIN\0\x09secret", 0, 15)
    assert decoded.body == {"error_code": 33, "mechanisms": ["PLAIN"]}
    assert decoded.complete is False
    (problem,) = decoded.problems
    assert (problem.code, problem.offset, problem.path) == ("malformed", 13, "mechanisms[1]")
    assert "secret" not in problem.message
    assert decode_body(12, 0, "request", raw, 0, len(raw)).complete is False


def test_invalid_utf8_is_complete():
    decoded = decode_body(10, 0, "request", b"\0\x02a\xff", 0, 4)
    assert decoded.body == {"key": "a\ufffd"}
    assert decoded.complete
    assert [problem.code for problem in decoded.problems] == ["invalid_utf8"]


@pytest.mark.parametrize(
    ("api_key", "version", "code"),
    [
        (4242, 0, "unknown_api"),
        (-1, 0, "unknown_api"),
        (1, 99, "unknown_version"),
        (1, -1, "unknown_version"),
    ],
)
def test_what_is_unknown_has_no_body(api_key, version, code):
    decoded = decode_body(api_key, version, "request", b"abc", 0, 3)
    assert (decoded.body, decoded.layout, decoded.complete) == (None, None, False)
    assert [problem.code for problem in decoded.problems] == [code]


def test_an_early_access_layout_is_taken_where_it_alone_fits():
    stable, early = schema.layouts(68, 0, "request")
    body = {"group_id": "g", "member_id": "m", "client_assignors": [{"name": "range"}]}
    raw = encoded(early, body)
    decoded = decode_body(
        68, 0, "request", raw, 0, len(raw), frozenset(["group_id", "client_assignors.name"])
    )
    assert decoded.body == {"group_id": "g", "client_assignors": [{"name": "range"}]}
    assert decoded.layout is early
    assert early.label == "3.5–3.6"
    raw = encoded(stable, body)
    assert decode_body(68, 0, "request", raw, 0, len(raw)).layout is stable


def test_an_early_access_layout_whose_text_is_not_utf8():
    early = schema.layouts(68, 0, "request")[1]
    raw = encoded(early, {"group_id": "gg", "client_assignors": []}).replace(b"gg", b"g\xff")
    decoded = decode_body(68, 0, "request", raw, 0, len(raw))
    assert decoded.layout is early
    assert [problem.code for problem in decoded.problems] == ["invalid_utf8"]


@pytest.mark.parametrize("version", [1, 3, 4, 99])
def test_a_broker_answers_unknown_api_versions_in_version_0(version):
    raw = struct.pack(">hihhh", 35, 1, 18, 0, 3)
    decoded = decode_body(18, version, "response", raw, 0, len(raw))
    assert decoded.body == {
        "error_code": 35,
        "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 3}],
    }
    assert decoded.layout is schema.layout(18, 0, "response")
    assert (decoded.complete, decoded.problems) == (True, ())
    wanted = frozenset(["api_keys.max_version"])
    assert decode_body(18, version, "response", raw, 0, len(raw), wanted).body == {
        "api_keys": [{"max_version": 3}]
    }


def test_only_error_35_speaks_for_the_fallback():
    raw = struct.pack(">hihhh", 0, 1, 18, 0, 3)
    assert decode_body(18, 3, "response", raw, 0, len(raw)).complete is False
    assert decode_body(18, 99, "response", raw, 0, len(raw)).body is None


def test_records_of_old_releases():
    for label, layout in (
        (layout.label, layout) for layout in schema.record_layouts("LeaderChangeMessage", 0)
    ):
        raw = encoded(layout, {"leader_id": 3, "voters": [{"voter_id": 3}]})
        decoded = decode_record("LeaderChangeMessage", 0, raw, 0, len(raw))
        assert (decoded.body["leader_id"], decoded.layout.label) == (3, label)
    assert [layout.label for layout in schema.record_layouts("TopicRecord", 0)] == [None, "2.8"]


def test_records_that_do_not_fit_or_are_not_known():
    decoded = decode_record("TopicRecord", 0, b"\x05ab", 0, 3)
    assert (decoded.complete, decoded.problems[0].code) == (False, "malformed")
    assert decode_record("TopicRecord", 9, b"", 0, 0).problems[0].code == "unknown_version"
    assert decode_record("NoSuchRecord", 0, b"", 0, 0).body is None


def test_fits():
    layout = schema.layout(3, 9, "response")
    raw = encoded(layout, {})
    assert fits(3, 9, "response", raw, 0, len(raw))
    assert not fits(3, 9, "response", raw + b"\0", 0, len(raw) + 1)
    assert not fits(3, 9, "response", raw, 0, len(raw) - 1)
    assert not fits(3, 99, "response", raw, 0, len(raw))


def test_damaged_vectors_give_results_and_known_problems(vectors):
    rng = random.Random(5)
    for vector in vectors:
        start = 10 if vector.direction == "request" else 4
        data = bytearray(vector.frame)
        cut = rng.randint(start, len(data)) if len(data) > start else len(data)
        decoded = decode_body(vector.api_key, vector.version, vector.direction, bytes(data), cut, len(data))
        for _ in range(3):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        decoded = decode_body(vector.api_key, vector.version, vector.direction, bytes(data), start, len(data))
        assert decoded.complete or decoded.problems
        assert {problem.code for problem in decoded.problems} <= PROBLEM_CODES
