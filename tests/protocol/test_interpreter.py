import struct

from kinspect.protocol import interpreter, schema
from kinspect.protocol.interpreter import Span

FIND_COORDINATOR = schema.layout(10, 3, "request")
METADATA = schema.layout(3, 0, "response")


def test_spans_of_a_small_message():
    raw = b"\x03ab\x01\x00"
    reading = interpreter.interpret(FIND_COORDINATOR, raw, 0, len(raw), spans=True)
    assert reading.body == {"key": "ab", "key_type": 1}
    assert reading.spans == [
        Span("key", 0, 3, "string", "ab"),
        Span("key_type", 3, 4, "int8", 1),
        Span("unknown_tagged_fields", 4, 5, "tags", 0),
    ]


def test_spans_of_arrays_and_tags_are_indexes_into_the_data():
    raw = b"\x03ab\x01\x01\x07\x02xy"
    spans = interpreter.interpret(FIND_COORDINATOR, b"..." + raw, 3, 3 + len(raw), spans=True).spans
    assert spans[-2:] == [
        Span("unknown_tagged_fields", 8, 10, "tag", 7),
        Span("unknown_tagged_fields", 10, 12, "bytes", b"xy"),
    ]
    layout = schema.layout(5, 0, "request")
    raw = struct.pack(">iibi", 1, 2, 1, 1) + b"\0\x01t" + struct.pack(">i", 4)
    paths = [
        (span.path, span.type, span.value)
        for span in interpreter.interpret(layout, raw, 0, len(raw), spans=True).spans
    ]
    assert paths[-3:] == [
        ("ungrouped_partitions", "[]struct", 1),
        ("ungrouped_partitions[0].topic_name", "string", "t"),
        ("ungrouped_partitions[0].partition_index", "int32", 4),
    ]


def test_a_failure_tells_offset_path_and_what_was_read():
    broker = struct.pack(">ih", 1, 1) + b"h" + struct.pack(">i", 9092)
    topics = struct.pack(">ihh", 1, 0, 6) + b"orders" + struct.pack(">i", 1) + struct.pack(">hi", 0, 3)
    raw = struct.pack(">i", 1) + broker + topics
    reading = interpreter.interpret(METADATA, raw, 0, len(raw))
    assert reading.failure is not None
    assert reading.failure.path == "topics[0].partitions"
    assert reading.failure.offset == len(raw) - 10
    assert reading.body["topics"] == [{"error_code": 0, "name": "orders"}]
    more = raw + struct.pack(">i", 0) + struct.pack(">i", 5) + b"\0" * 8
    reading = interpreter.interpret(METADATA, more, 0, len(more))
    assert reading.failure is not None
    assert reading.failure.path == "topics[0].partitions[0].replica_nodes"
    assert reading.body["topics"][0]["partitions"] == [
        {"error_code": 0, "partition_index": 3, "leader_id": 0}
    ]


def test_one_byte_is_one_byte():
    assert (
        interpreter.interpret(FIND_COORDINATOR, b"\x03ab", 0, 3).failure.message
        == "int8 needs 1 byte, 0 left"
    )
    assert "needs 2 bytes, 0 left" in interpreter.interpret(FIND_COORDINATOR, b"\x03", 0, 1).failure.message
    metadata = interpreter.interpret(METADATA, struct.pack(">i", 1), 0, 4)
    assert metadata.failure.message.startswith("1 element needs at least ")


def test_text_that_is_not_utf8_is_read_on_and_told():
    raw = b"\x03a\xff\x01\x00"
    reading = interpreter.interpret(FIND_COORDINATOR, b"...." + raw, 4, 9, base=1)
    assert reading.body == {"key": "a\ufffd", "key_type": 1}
    (problem,) = reading.problems
    assert (problem.code, problem.side, problem.path) == ("invalid_utf8", "request", "key")
    assert (problem.offset, problem.bytes) == (3, 2)
