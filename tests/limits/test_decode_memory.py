"""`kinspect decode` of large messages: bounded memory, whatever the bytes are."""

import pytest

from kinspect.protocol import Message, encode_request, encode_response

METADATA, FETCH = 3, 1
PEAK = 500
"""MiB: a message, its body and its spans, of which each has a limit, and the text of both."""


def topics(encode, count):
    return encode(Message(METADATA, 1, 1, {"topics": [{"name": "a"} for _ in range(count)]}, "c"))


# Made when they are wanted: collecting the tests takes no time.
MESSAGES = {
    "200,000 topics": lambda: topics(encode_request, 200_000),
    "zeros": lambda: bytes(8 << 20),
    "ones": lambda: b"\0\0\0\7" + bytes(5) + b"\x01" * (1 << 20),
    "a response": lambda: topics(encode_response, 50_000),
}
TEXTS = {
    "as hex": lambda: bytes(1 << 20).hex(" ").encode(),
    "as numbers": lambda: str(list(bytes(1 << 20))).encode(),
    "as Python": lambda: repr(topics(encode_request, 200_000)).encode(),
    "line feeds": lambda: b" \n" * (2 << 20) + b"00",
}


@pytest.mark.parametrize(
    ("make", "form"),
    [
        *(
            pytest.param(
                make, form, id=f"{name}-{form}", marks=[] if name == "a response" else pytest.mark.big
            )
            for name, make in MESSAGES.items()
            for form in ("text", "json")
        ),
        # What is written of the bytes that were read has no part in how they were.
        *(pytest.param(make, "text", id=name, marks=pytest.mark.big) for name, make in TEXTS.items()),
    ],
)
def test_large_messages(measured, tmp_path, make, form):
    path = tmp_path / "message"
    path.write_bytes(make())
    result = measured("decode", "--format", form, "--file", path)
    assert result.status in (0, 1)
    assert result.out
    assert result.err.count("\n") <= 1
    assert "internal error" not in result.err
    assert result.peak < PEAK
