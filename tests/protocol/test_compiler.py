import linecache
import random
import struct
import traceback
from copy import deepcopy
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinspect.protocol import compiler, interpreter, schema
from kinspect.protocol.bodies import restrict
from kinspect.protocol.fieldpaths import each_field
from kinspect.protocol.primitives import DECODE_FAILURES, Malformed, TooLarge, uvarint_bytes
from kinspect.protocol.projection import projection

METADATA = schema.layout(3, 12, "response")
FETCH = schema.layout(1, 12, "response")


# `compiler.decoder` as it is in the interpreted form, and as it is in the compiled one.
MAKERS = [cache(compiler.generated), cache(compiler.walking)]


@pytest.fixture(scope="module", params=MAKERS, ids=["generated", "walking"])
def decoder(request):
    return request.param


def paths_of(fields):
    return [path for path, _, _ in each_field(fields)]


def test_every_layout_round_trips_random_values(decoder, layouts, random_body):
    rng = random.Random(1)
    for layout in layouts * 3:
        body = random_body(layout, rng)
        raw = compiler.encoder(layout)(body)
        # Bytes around the message must not matter.
        data = b"\x7f" * 5 + raw + b"\x01" * 40
        assert decoder(layout)(data, 5, 5 + len(raw)) == (body, 5 + len(raw)), layout
        reading = interpreter.interpret(layout, data, 5, 5 + len(raw))
        assert (reading.body, reading.end, reading.failure) == (body, 5 + len(raw), None), layout


def test_skipping_ends_where_decoding_does(decoder, layouts, random_body):
    rng = random.Random(2)
    for layout in layouts:
        raw = compiler.encoder(layout)(random_body(layout, rng))
        assert decoder(layout, frozenset())(raw, 0, len(raw)) == ({}, len(raw)), layout


def test_projection_is_the_whole_body_restricted(decoder, layouts, random_body):
    rng = random.Random(3)
    for layout in layouts:
        body = random_body(layout, rng)
        raw = compiler.encoder(layout)(body)
        paths = [*paths_of(layout.fields), "unknown_tagged_fields", "no_such_field.below"]
        fields = frozenset(rng.sample(paths, min(3, len(paths))))
        expected = restrict(deepcopy(body), projection(fields))
        assert decoder(layout, fields)(raw, 0, len(raw)) == (expected, len(raw)), (layout, fields)


def test_a_path_to_a_container_takes_all_of_it():
    assert projection(["topics.name", "topics", "brokers.host"]) == {
        "topics": None,
        "brokers": {"host": None},
    }


def test_each_field_alone_of_a_response_with_tags(decoder, random_body):
    rng = random.Random(4)
    for _ in range(5):
        body = random_body(FETCH, rng)
        raw = compiler.encoder(FETCH)(body)
        for path in paths_of(FETCH.fields):
            fields = frozenset([path])
            expected = restrict(deepcopy(body), projection(fields))
            assert decoder(FETCH, fields)(raw, 0, len(raw)) == (expected, len(raw))


@pytest.mark.parametrize("count", [2, 1000, 2**31 - 1])
def test_an_announced_count_allocates_nothing(decoder, count):
    layout = schema.layout(3, 1, "response")
    raw = struct.pack(">i", count) + b"\0" * 8
    with pytest.raises(Malformed):
        decoder(layout)(raw, 0, len(raw))


def test_a_cut_off_string_is_not_silently_short(decoder):
    layout = schema.layout(10, 0, "request")
    raw = struct.pack(">h", 5) + b"group"
    decode = decoder(layout)
    assert decode(raw, 0, 7) == ({"key": "group"}, 7)
    with pytest.raises(Malformed):
        decode(raw + b"more", 0, 6)


@pytest.mark.parametrize("size", [-1, -2, -32768])
def test_null_and_negative_lengths_are_errors_where_null_is_not_allowed(decoder, size):
    raw = struct.pack(">h", size)
    with pytest.raises(Malformed):
        decoder(schema.layout(10, 0, "request"))(raw, 0, 2)


def test_varints_of_many_bytes(decoder):
    layout = schema.layout(18, 3, "request")
    name = "x" * 20_000
    body = {"client_software_name": name, "client_software_version": ""}
    raw = compiler.encoder(layout)(body)
    assert raw.startswith(uvarint_bytes(20_001))
    assert decoder(layout)(raw, 0, len(raw))[0] == body
    with pytest.raises(DECODE_FAILURES):
        decoder(layout)(b"\xff" * 12, 0, 12)


def test_a_tagged_field_must_fill_its_size(decoder):
    layout = schema.layout(1, 12, "request")
    raw = compiler.encoder(layout)({"cluster_id": "abc"})
    assert raw.endswith(b"\x01\x00\x04\x04abc")
    longer = raw[:-6] + b"\x00\x05\x04abc\x00"
    with pytest.raises(Malformed):
        decoder(layout)(longer, 0, len(longer))


def test_the_last_of_a_repeated_tag_counts(decoder):
    layout = schema.layout(1, 12, "request")
    raw = compiler.encoder(layout)({})[:-1] + b"\x02\x00\x02\x02a\x00\x02\x02b"
    assert decoder(layout)(raw, 0, len(raw))[0]["cluster_id"] == "b"


def test_no_tags_in_two_bytes(decoder):
    layout = schema.layout(12, 4, "request")
    raw = compiler.encoder(layout)({"group_id": "g"})[:-1] + b"\x80\x00"
    body, pos = decoder(layout)(raw, 0, len(raw))
    assert pos == len(raw)
    assert "unknown_tagged_fields" not in body


def test_missing_keys_are_written_at_their_default(decoder):
    layout = schema.layout(1, 4, "request")
    raw = compiler.encoder(layout)({"max_wait_ms": 5})
    body, _ = decoder(layout)(raw, 0, len(raw))
    assert body == {
        "replica_id": -1,
        "max_wait_ms": 5,
        "min_bytes": 0,
        "max_bytes": 0x7FFFFFFF,
        "isolation_level": 0,
        "topics": [],
    }


def test_a_traceback_shows_the_generated_line():
    with pytest.raises(DECODE_FAILURES) as caught:
        compiler.generated(METADATA)(b"\0", 0, 1)
    shown = "".join(traceback.format_tb(caught.tb))
    assert "<kinspect decode MetadataResponse v12>" in shown
    assert "unpack_from" in shown
    linecache.checkcache()
    assert linecache.getline("<kinspect decode MetadataResponse v12>", 1)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10_000), st.binary(max_size=200))
def test_any_bytes_either_decode_or_fail_as_announced(decoder, pick, data):
    api = schema.apis()[pick % len(schema.apis())]
    version = api.versions[pick % len(api.versions)]
    for direction in ("request", "response"):
        for layout in schema.layouts(api.key, version, direction):
            reading = interpreter.interpret(layout, data, 0, len(data))
            try:
                body, pos = decoder(layout)(data, 0, len(data))
            except UnicodeDecodeError:
                assert reading.failure or reading.problems
            except DECODE_FAILURES:
                assert reading.failure
            else:
                # NaN is not equal to itself; its text is.
                assert (repr(body), pos, reading.failure) == (repr(reading.body), reading.end, None)


def outcome(decode, data, end, room=0):
    try:
        return repr(decode(data, 0, end, room))
    except DECODE_FAILURES as error:
        return "too large" if isinstance(error, TooLarge) else "malformed"


def fails_alike(layout, data, end, fields=None):
    made = [make(layout, fields) for make in MAKERS]
    assert len({outcome(decode, data, end) for decode in made}) == 1, (layout, fields, end)


def test_both_forms_end_alike_at_every_cut(layouts, random_body):
    rng = random.Random(5)
    for layout in rng.sample(layouts, 150):
        raw = compiler.encoder(layout)(random_body(layout, rng))[:400]
        fields = frozenset(rng.sample(paths_of(layout.fields), min(2, len(layout.fields))))
        for end in range(len(raw)):
            # What follows the end must not be read as if it were before it.
            fails_alike(layout, raw, end)
            fails_alike(layout, raw[:end], end)
            fails_alike(layout, raw, end, fields)


def test_both_forms_take_damaged_bytes_alike(layouts, random_body):
    rng = random.Random(6)
    for layout in layouts:
        raw = bytearray(compiler.encoder(layout)(random_body(layout, rng)))
        fields = frozenset(rng.sample(paths_of(layout.fields), min(2, len(layout.fields))))
        for _ in range(5 if raw else 0):
            changed = bytearray(raw)
            changed[rng.randrange(len(raw))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
            fails_alike(layout, bytes(changed), len(changed))
            fails_alike(layout, bytes(changed), len(changed), fields)
            fails_alike(layout, bytes(changed), len(changed), frozenset())


def test_both_forms_refuse_the_same_room(layouts, random_body):
    rng = random.Random(7)
    for layout in layouts:
        raw = compiler.encoder(layout)(random_body(layout, rng))
        one, other = (make(layout, None, True) for make in MAKERS)
        low, high = 0, 1 << 30
        while low < high:
            middle = (low + high) // 2
            fits = outcome(one, raw, len(raw), middle) != "too large"
            low, high = (low, middle) if fits else (middle + 1, high)
        assert outcome(other, raw, len(raw), low) == outcome(one, raw, len(raw), low) != "too large", layout
        if low:
            assert outcome(other, raw, len(raw), low - 1) == "too large", layout
