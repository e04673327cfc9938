"""A body in any layout: the compiled decoder, the interpreter, the skipper and the encoder agree."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import fields
from operator import itemgetter
from typing import Any

from support.layouts import all_layouts

from kinspect.errors import DecodeError
from kinspect.model import REQUEST
from kinspect.protocol import (
    Message,
    compiler,
    decode_body,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    interpreter,
    request_header,
    response_header,
    schema,
)
from kinspect.protocol.bodies import restrict
from kinspect.protocol.interpreter import Span
from kinspect.protocol.primitives import DECODE_FAILURES
from kinspect.protocol.projection import projection
from kinspect.protocol.schema import Layout

from ..script import Script, short
from ..traffic import TESTS

FRAME = 128


def fuzz(data: bytes) -> None:
    steps = Script(data)
    layout = all_layouts()[steps.short() % len(all_layouts())]
    option = steps.byte()
    body = steps.rest()
    check(layout, body, option)
    if layout.api_key is not None and layout.direction is not None:
        decode_body(layout.api_key, layout.version, layout.direction, body, 0, len(body))
        if option & FRAME:
            frame(layout, body)


def check(layout: Layout, body: bytes, option: int) -> None:
    end = 3 + len(body)
    data = b"\x01\x02\x03" + body + b"\x00\x01"
    reading = interpreter.interpret(layout, data, 3, end, spans=True)
    assert 3 <= reading.end <= end
    skipped = None
    try:
        _, skipped = compiler.skipper(layout)(data, 3, end)
    except DECODE_FAILURES:
        assert reading.failure is not None, "the skipper refuses what the interpreter reads"
    else:
        assert reading.failure is None, "the skipper passes what the interpreter refuses"
        assert skipped == reading.end, "the skipper ends elsewhere"
    try:
        decoded, position = compiler.decoder(layout)(data, 3, end)
    except UnicodeDecodeError:
        assert reading.failure or reading.problems, "text that the interpreter can read"
        return
    except DECODE_FAILURES:
        assert reading.failure, "the decoder refuses what the interpreter reads"
        return
    assert reading.failure is None, "the decoder reads what the interpreter refuses"
    assert not reading.problems
    # NaN is not equal to itself; its text is.
    assert repr(decoded) == repr(reading.body), "decoder and interpreter read different bodies"
    assert position == reading.end

    if layout.fields:
        paths = frozenset({layout.fields[option % len(layout.fields)].name})
        wanted, _ = compiler.decoder(layout, paths)(data, 3, end)
        assert repr(wanted) == repr(restrict(deepcopy(decoded), projection(paths)))

    written = compiler.encoder(layout)(decoded)
    again = interpreter.interpret(layout, written, 0, len(written), spans=True)
    assert again.failure is None
    assert again.end == len(written)
    assert same(again.body, decoded), "what was written says something else"
    if [*map(shape, again.spans)] == [*map(shape, reading.spans)]:
        for mine, theirs in zip(again.spans, reading.spans, strict=True):
            # Any octet but 0 is true.
            if mine.type != "bool":
                assert written[mine.start : mine.end] == data[theirs.start : theirs.end]


def shape(span: Span) -> tuple[str, int, str, str]:
    return span.path, span.end - span.start, span.type, repr(span.value)


def frame(layout: Layout, data: bytes) -> None:
    """The bytes as header and body, through the public forms."""
    assert layout.api_key is not None
    try:
        if layout.direction == REQUEST:
            data = short(layout.api_key) + short(layout.version) + data
            message = decode_request(data)
            again = decode_request(encode_request(message))
        else:
            message = decode_response(data, layout.api_key, layout.version)
            again = decode_response(encode_response(message), layout.api_key, layout.version)
    except DecodeError:
        return
    # Text that was not UTF-8 is another text when written.
    if not any(problem.code == "invalid_utf8" for problem in message.problems):
        assert same(told(again), told(message)), "what was written says something else"


def told(message: Message) -> Any:
    return [getattr(message, field.name) for field in fields(message) if field.name != "problems"]


def same(one: Any, other: Any) -> bool:
    """True if the bodies are equal but for the order of tagged fields, which is ascending in written ones."""
    return repr(ordered(one)) == repr(ordered(other))


def ordered(value: Any) -> Any:
    if isinstance(value, list):
        items = [ordered(item) for item in value]
        if items and isinstance(items[0], dict) and items[0].keys() == {"tag", "bytes"}:
            items.sort(key=itemgetter("tag"))
        return items
    return {name: ordered(value[name]) for name in sorted(value)} if isinstance(value, dict) else value


def seeds() -> Iterator[bytes]:
    numbers = {layout: number for number, layout in enumerate(all_layouts())}
    for name in ("messages", "variants"):
        with gzip.open(TESTS / "vectors" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                entry = json.loads(line)
                data = bytes.fromhex(entry["frame_hex"])
                key, version, direction = entry["api_key"], entry["version"], entry["direction"]
                header = (
                    request_header(data, 0, len(data))
                    if direction == REQUEST
                    else response_header(data, 0, len(data), key, version)
                )
                if header is None or len(data) > 3000:
                    continue
                for layout in schema.layouts(key, version, direction):
                    yield short(numbers[layout]) + b"\0" + data[header.body_start :]
                if version % 3 == 0:
                    yield short(numbers[layout]) + bytes((FRAME,)) + data[4 if direction == REQUEST else 0 :]
