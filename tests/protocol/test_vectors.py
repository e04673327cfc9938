"""Kafka's own messages: decoded to the reference's reading by both decoders, and encoded back to the same bytes."""

import base64
from typing import Any

from kinspect.protocol import (
    compiler,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    interpreter,
    schema,
)


def message_of(vector):
    if vector.direction == "request":
        return decode_request(vector.frame)
    return decode_response(vector.frame, api_key=vector.api_key, api_version=vector.version)


def layout_of(vector, label):
    found = schema.layouts(vector.api_key, vector.version, vector.direction)
    return next(layout for layout in found if layout.label == label)


def expect(reference: dict[str, Any], body: dict[str, Any], fields, where: str) -> None:
    """Every key of the reference with its value; more keys only at their default."""
    known = {field.name: field for field in fields}
    assert set(reference) <= set(body), where
    for name, value in body.items():
        field = known[name]
        if name not in reference:
            assert value in (field.default, [], {}), f"{where}.{name}"
            continue
        expected = reference[name]
        if value is None or expected is None or not field.array:
            expect_value(expected, value, field, f"{where}.{name}")
            continue
        assert len(expected) == len(value), f"{where}.{name}"
        for one, other in zip(expected, value, strict=True):
            expect_value(one, other, field, f"{where}.{name}")


def expect_value(expected: Any, value: Any, field, where: str) -> None:
    if field.type == "struct" and value is not None:
        assert expected is not None
        expect(expected, value, field.fields, where)
    elif field.type == "records":
        # The reference tells the content of record sets elsewhere.
        assert (expected is None) == (value is None), where
    elif field.type == "bytes" and value is not None:
        assert base64.b64decode(expected) == value, where
    else:
        assert expected == value, where


def test_every_vector_reads_as_the_reference_does(vectors):
    assert len(vectors) == 1490
    for vector in vectors:
        message = message_of(vector)
        assert (message.correlation_id, message.api_key) == (vector.correlation_id, vector.api_key)
        if vector.direction == "request" and (vector.api_key, vector.version) != (7, 0):
            assert message.client_id == vector.client_id
        assert message.problems == ()
        assert message.trailing == b""
        assert (message.layout is not None) == vector.variant
        expect(vector.body, message.body, layout_of(vector, message.layout).fields, str(vector))


def test_every_vector_encodes_to_the_same_bytes(vectors):
    for vector in vectors:
        encode = encode_request if vector.direction == "request" else encode_response
        assert encode(message_of(vector)) == vector.frame, str(vector)


def body_bytes(vector) -> tuple[Any, bytes]:
    message = message_of(vector)
    layout = layout_of(vector, message.layout)
    return layout, compiler.encoder(layout)(message.body)


def test_interpreter_and_both_decoders_agree_on_every_vector(vectors):
    for vector in vectors:
        layout, raw = body_bytes(vector)
        reading = interpreter.interpret(layout, raw, 0, len(raw), spans=True)
        assert (reading.failure, reading.end) == (None, len(raw)), str(vector)
        for make in (compiler.generated, compiler.walking):
            assert make(layout)(raw, 0, len(raw)) == (reading.body, reading.end), str(vector)


def test_spans_leave_nothing_out(vectors):
    for vector in vectors:
        layout, raw = body_bytes(vector)
        position = 0
        for span in interpreter.interpret(layout, raw, 0, len(raw), spans=True).spans:
            assert span.start == position, (str(vector), span)
            assert span.end > span.start or (span.type == "bytes" and span.value == b""), (str(vector), span)
            position = span.end
        assert position == len(raw), str(vector)


def test_variants_say_which_releases_they_are_of(vectors):
    labels = {
        (vector.api_key, vector.direction): message_of(vector).layout for vector in vectors if vector.variant
    }
    assert labels[54, "request"] == "2.7"
    assert labels[68, "request"] == labels[68, "response"] == "3.5–3.6"
    assert labels[87, "response"] == "3.9–4.0"
