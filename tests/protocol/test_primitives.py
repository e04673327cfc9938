import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinspect.protocol import primitives


@given(st.integers(0, (1 << 32) - 1))
def test_uvarints_there_and_back(value):
    raw = primitives.uvarint_bytes(value)
    assert (value, len(raw)) == (primitives.uvarint(raw, 1, raw[0]) if raw[0] > 127 else (raw[0], 1))


@given(st.binary(min_size=16, max_size=16))
def test_uuids_there_and_back(raw):
    text = primitives.uuid_text(raw)
    assert len(text) == 22
    assert primitives.uuid_bytes(text) == raw


def test_the_metadata_topics_id():
    assert primitives.uuid_text(b"\0" * 15 + b"\1") == "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "+", "é" * 22])
def test_what_is_no_uuid(text):
    with pytest.raises(ValueError, match=r".+"):
        primitives.uuid_bytes(text)
