"""Any bytes give plaintext or a status: nothing is raised, and little is kept."""

import ssl
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from talks import CLIENT, SERVER, Reading, long_talk, recorded

from kinspect.tls.handshake import (
    MESSAGE_BYTES,
    MessageReader,
    parse_client_hello,
    parse_encrypted_extensions,
    parse_server_hello,
)
from kinspect.tls.keylog import KeyLog
from kinspect.tls.suites import NAMES, suite
from kinspect.tls.tlsrecords import BrokenRecordError, RecordReader

STATES = {"handshake", "decrypting", "no_secrets", "unsupported", "failed"}
TALKS = [
    long_talk(ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES128-SHA256"),
    long_talk(ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES256-GCM-SHA384"),
    long_talk(ssl.TLSVersion.TLSv1_3),
    recorded("tls13_early_data"),
]
RECORDS = st.builds(
    lambda kind, version, body: bytes([kind]) + version + len(body).to_bytes(2) + body,
    st.integers(19, 25),
    st.sampled_from([b"\x03\x01", b"\x03\x03", b"\x02\x00"]),
    st.binary(max_size=60),
)
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from([CLIENT, SERVER]), st.one_of(st.binary(max_size=80), RECORDS, st.integers(1, 10**7))
    )
)


def act(reading, actions):
    for direction, item in actions:
        if isinstance(item, int):
            reading.gap(direction, item)
        else:
            reading.feed(direction, item)
    reading.decryptor.retry()
    reading.decryptor.closed()
    assert reading.status in STATES
    assert "\n" not in (reading.reason or "")


@given(ACTIONS)
def test_any_bytes_from_the_start(actions):
    act(Reading(TALKS[0].keys), actions)


@settings(deadline=None)
@given(st.sampled_from(TALKS), st.integers(1, 8), ACTIONS)
def test_any_bytes_after_a_true_start(talk, pieces, actions):
    reading = Reading(talk.keys)
    for direction, data in talk.pieces[:pieces]:
        reading.feed(direction, data)
    before = reading.both
    act(reading, actions)
    for plain, was in zip(reading.both, before, strict=True):
        assert plain == was


@settings(deadline=None)
@given(
    st.sampled_from(TALKS), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2000), st.integers(1, 255)))
)
def test_any_change_to_the_handshake(talk, changes):
    pieces = [(direction, bytearray(data)) for direction, data in talk.pieces]
    for number, position, value in changes:
        data = pieces[number][1]
        data[position % len(data)] ^= value
    act(Reading(talk.keys), [(direction, bytes(data)) for direction, data in pieces])


@pytest.mark.parametrize("version", [b"\x03\x03", b"\x03\x04"])
def test_any_suite_under_any_version(version):
    """With a ServerHello that chooses it, and nonsense behind."""
    talk = TALKS[2]
    hello = talk.pieces[0][1]
    random = hello[11:43]
    keys = talk.keys + f"\nCLIENT_RANDOM {random.hex()} {'11' * 48}"
    extensions = b"\0\x06\0\x2b\0\x02" + version if version != b"\x03\x03" else b""
    for number in (*NAMES, 0, 0x1306, 0xFFFF):
        body = b"\x03\x03" + bytes(32) + b"\0" + number.to_bytes(2) + b"\0" + extensions
        message = b"\x02" + len(body).to_bytes(3) + body
        reading = Reading(keys)
        act(
            reading,
            [
                (CLIENT, hello),
                (SERVER, b"\x16\x03\x03" + len(message).to_bytes(2) + message),
                *[
                    (side, b"\x14\x03\x03\0\x01\x01\x17\x03\x03\0\x80" + bytes(128))
                    for side in (CLIENT, SERVER)
                ],
                *[(side, b"\x17\x03\x03\0\x03abc") for side in (CLIENT, SERVER)],
            ],
        )
        fits = suite(number).mode and suite(number).is_13 == (version == b"\x03\x04")
        assert (reading.status == "unsupported") == (suite(number).mode is None), number
        assert fits or reading.status in ("unsupported", "failed"), number
        assert reading.both == (b"", b""), number


@given(st.binary(max_size=300))
def test_any_key_log(text):
    log = KeyLog(text)
    log.add(text.decode("latin-1"))
    assert len(log) == 0


@given(st.binary(max_size=200))
@example(b"\x03\x03" + bytes(32) + b"\xff")
def test_any_hello(body):
    parse_client_hello(body)
    parse_server_hello(body)
    parse_encrypted_extensions(body)


@given(st.lists(st.binary(max_size=40), max_size=20), st.data())
def test_messages_however_they_are_cut(bodies, data):
    kinds = [data.draw(st.sampled_from([0, 1, 2, 4, 8, 11, 20, 24])) for _ in bodies]
    stream = b"".join(
        bytes([kind]) + len(body).to_bytes(3) + body for kind, body in zip(kinds, bodies, strict=True)
    )
    reader, found = MessageReader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += reader.feed(stream[:size])
        stream = stream[size:]
    assert found == [row for row in zip(kinds, bodies, strict=True) if row[0] in (1, 2, 8, 20, 24)]


def test_a_message_has_a_limit():
    reader = MessageReader()
    assert reader.feed(b"\x0b\xff\xff\xff") == []
    for _ in range(1023):
        reader.feed(bytes(16 * 1024))
    assert len(reader._pending) == 0
    with pytest.raises(ValueError, match=r"^$"):
        MessageReader().feed(b"\x01" + (MESSAGE_BYTES + 1).to_bytes(3))
    reading = Reading()
    reading.feed(CLIENT, b"\x16\x03\x01\x00\x04\x01\x04\x00\x01")
    assert reading.reason == "the connection does not begin with a ClientHello"


def test_a_server_hello_that_is_cut_short():
    reading = Reading()
    reading.feed(CLIENT, TALKS[2].pieces[0][1])
    reading.feed(SERVER, b"\x16\x03\x03\x00\x06\x02\x00\x00\x02\x03\x03")
    assert (reading.status, reading.reason) == ("failed", "the ServerHello is malformed")


@given(st.lists(st.binary(max_size=40), max_size=20), st.data())
def test_records_however_they_are_cut(bodies, data):
    records = [b"\x17\x03\x03" + len(body).to_bytes(2) + body for body in bodies]
    stream = b"".join(records)
    reader, found = RecordReader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        chunk, stream, position = stream[:size], stream[size:], 0
        while position < len(chunk):
            record, position = reader.take(chunk, position, len(chunk))
            if record is not None:
                found.append(record)
    assert found == records
    assert reader.drop() == 0


def test_a_record_has_a_limit():
    reader = RecordReader()
    assert reader.take(b"\x17\x03\x03\x48\x00", 0, 5) == (None, 5)
    assert reader.drop() == 5
    with pytest.raises(BrokenRecordError):
        reader.take(b"\x17\x03\x03\x48\x01", 0, 5)


def test_a_search_does_not_take_long():
    """The worst that can be searched: nothing but what looks like a record."""
    talk = TALKS[2]
    reading = Reading(talk.keys)
    for direction, data in talk.pieces[:8]:
        reading.feed(direction, data)
    reading.gap(CLIENT, 10**9)
    start = time.process_time()
    for _ in range(100):
        reading.feed(CLIENT, b"\x17\x03\x03\x00\x11" * 2000)
    assert reading.status == "failed"
    assert time.process_time() - start < 5
