"""Limit on the memory of a body: the estimate, at which decoder and interpreter stop."""

import struct
import tracemalloc

import pytest

from kinspect.errors import DecodeError
from kinspect.protocol import (
    compiler,
    decode_body,
    decode_record,
    decode_request,
    interpreter,
    memory,
    primitives,
    schema,
    sizes,
)
from kinspect.protocol.codec import encode_body
from kinspect.protocol.headers import request_header

LIMIT = 1 << 20


def metadata(topics):
    return struct.pack(">i", topics) + b"\0\x02ab" * topics


def tagged(count):
    """Heartbeat v4 with so many tagged fields nobody knows."""
    number = bytes((count & 127 | 128, count >> 7 & 127 | 128, count >> 14))
    return b"\x02g" + bytes(4) + b"\x02m\0" + number + b"\x07\0" * count


def numbers(count):
    """OffsetFetch v1, one topic with so many partitions."""
    return b"\0\x01g" + struct.pack(">i", 1) + b"\0\x01t" + struct.pack(f">i{count}i", count, *range(count))


BODIES = {
    "structs": (3, 1, metadata, "topics", "topics[{}]"),
    "tags": (12, 4, tagged, "unknown_tagged_fields", "unknown_tagged_fields"),
    "numbers": (9, 1, numbers, "topics", "topics[0].partition_indexes[{}]"),
}


def elements(body, name):
    found = body[name]
    return found[0]["partition_indexes"] if name == "topics" and "partition_indexes" in found[0] else found


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_read_as_far_as_it_may(name):
    api_key, version, make, field, path = BODIES[name]
    raw = make(50_000)
    decoded = decode_body(api_key, version, "request", raw, 0, len(raw), max_memory=LIMIT)
    read = elements(decoded.body, field)
    assert 1000 < len(read) < 10_000
    assert not decoded.complete
    (problem,) = decoded.problems
    assert (problem.code, problem.side) == ("cap", "request")
    assert problem.path == path.format(len(read))
    assert 0 < problem.offset < len(raw)
    assert problem.offset + problem.bytes == len(raw)
    assert f"the body takes more than {LIMIT} bytes of memory" in problem.message

    whole = decode_body(api_key, version, "request", raw, 0, len(raw))
    assert whole.complete
    assert not whole.problems
    assert elements(whole.body, field)[: len(read)] == read


@pytest.mark.parametrize("name", BODIES)
def test_a_body_takes_no_more_than_the_memory_counted(name):
    api_key, version, make, *_ = BODIES[name]
    raw = make(50_000)
    decode_body(api_key, version, "request", raw, 0, len(raw), max_memory=LIMIT)
    tracemalloc.start()
    decoded = decode_body(api_key, version, "request", raw, 0, len(raw), max_memory=LIMIT)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not decoded.complete
    assert held <= LIMIT
    assert peak <= LIMIT + len(raw)


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("count", [200, 5_000])
def test_the_estimate_is_the_same_in_decoder_and_interpreter(name, count):
    api_key, version, make, *_ = BODIES[name]
    raw = make(count)
    layout = schema.layout(api_key, version, "request")
    decode = compiler.decoder(layout, bounded=True)

    def decoder_takes(limit):
        try:
            return bool(decode(raw, 0, len(raw), limit))
        except primitives.TooLarge:
            return False

    def interpreter_takes(limit):
        reading = interpreter.interpret(layout, raw, 0, len(raw), max_memory=limit)
        assert reading.full == (reading.failure is not None)
        return not reading.full

    low, high = 0, len(raw) * memory.MOST_PER_BYTE
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decoder_takes(middle) else (middle, high)
    assert interpreter_takes(high)
    assert not interpreter_takes(high - 1)


def test_no_byte_is_charged_with_more_than_is_said():
    layouts = [
        layout
        for api_key in range(100)
        for direction in ("request", "response")
        for version in range(40)
        for layout in schema.layouts(api_key, version, direction)
    ]
    assert len(layouts) > 500

    def most(fields):
        for field in fields:
            if field.array:
                yield memory.of_element(field) / max(sizes.minimum_size(field), 1)
            yield from most(field.fields)

    worst = max(max(most(layout.fields), default=0) for layout in layouts)
    assert max(worst, memory.UNKNOWN_TAG / 2) <= memory.MOST_PER_BYTE


def test_a_large_cluster_fits():
    partition = {
        "error_code": 0,
        "leader_id": 1001,
        "leader_epoch": 300,
        "replica_nodes": [1001, 1002, 1003],
        "isr_nodes": [1001, 1002, 1003],
        "offline_replicas": [],
    }
    partitions = [{**partition, "partition_index": index} for index in range(20)]
    topic = {"error_code": 0, "name": "a-team.topic", "topic_id": "A" * 22, "is_internal": False}
    body = {
        "throttle_time_ms": 0,
        "brokers": [],
        "cluster_id": None,
        "controller_id": 1,
        "topics": [{**topic, "partitions": partitions}] * 4_500,
    }
    raw = encode_body(schema.layout(3, 12, "response"), body)
    decoded = decode_body(3, 12, "response", raw, 0, len(raw))
    assert decoded.complete
    assert len(decoded.body["topics"]) == 4_500


def test_text_that_is_not_utf_8_counts_with_its_problem():
    raw = struct.pack(">i", 20_000) + b"\0\x01\xff" * 20_000
    decoded = decode_body(3, 1, "request", raw, 0, len(raw), max_memory=LIMIT)
    assert decoded.problems[-1].code == "cap"
    assert len(decoded.problems) < LIMIT / memory.ODD_TEXT


def test_records_are_limited_too():
    raw = struct.pack(">h", 0) + struct.pack(">i", 20_000) + b"\0\0" * 20_000
    decoded = decode_record("ConsumerProtocolSubscription", 0, raw, 2, len(raw), max_memory=LIMIT)
    assert [problem.code for problem in decoded.problems] == ["cap"]


def test_the_public_forms_refuse_and_tell():
    frame = struct.pack(">hhihc", 3, 1, 7, 1, b"c") + metadata(50_000)
    with pytest.raises(DecodeError, match="is cut at topics") as caught:
        decode_request(frame, max_memory=LIMIT)
    assert 1000 < len(caught.value.body["topics"]) < 10_000
    assert len(decode_request(frame).body["topics"]) == 50_000


def test_tagged_fields_of_a_header_are_stepped_over():
    frame = struct.pack(">hhihc", 12, 4, 7, 1, b"c") + b"\x80\x80\x04" + b"\x07\0" * 65_536 + b"body"
    tracemalloc.start()
    header = request_header(frame, 0, len(frame))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert header.body_start == len(frame) - 4
    assert peak < 10_000
