"""Recorded conversations of OpenSSL's programs, for what Python's ssl does not do."""

import pytest
from talks import CLIENT, SERVER, read, recorded

ONE_TWO = b"question one\nquestion two\n", b"answer one\nanswer two\n"
THREE = b"question one\nquestion two\nquestion three\nquestion four\n"
READABLE = {
    "tls13_aes_128_gcm": ONE_TWO,
    "tls13_chacha20_poly1305": ONE_TWO,
    "tls13_aes_128_ccm": ONE_TWO,
    "tls13_aes_128_ccm_8": ONE_TWO,
    "tls13_retry": ONE_TWO,
    "tls13_padding": ONE_TWO,
    "tls13_fragments": ONE_TWO,
    "tls13_resumed": ONE_TWO,
    "tls13_early_data": ONE_TWO,
    "tls13_early_data_refused": ONE_TWO,
    "tls13_key_update": (THREE, b"answer one\nanswer two\nanswer three\nanswer four\nanswer five\n"),
    "tls12_fragments": ONE_TWO,
}


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("cut", [None, 1, 90])
def test_what_was_typed_is_read(name, cut):
    reading = read(recorded(name), cut=cut)
    assert (reading.status, reading.reason) == ("decrypting", None)
    assert reading.both == READABLE[name]
    suite = name.removeprefix("tls13_").upper()
    assert (
        suite not in ("AES_128_CCM", "AES_128_CCM_8")
        or reading.decryptor.cipher_suite == f"TLS_{suite}_SHA256"
    )


def test_early_data_that_was_accepted_is_reported_as_missing():
    assert [loss[0::2] for loss in read(recorded("tls13_early_data")).losses] == [(CLIENT, None)]
    assert read(recorded("tls13_early_data_refused")).losses == []


def test_early_data_without_end_is_given_up():
    talk = recorded("tls13_early_data")
    early = talk.pieces[0][1]
    talk.pieces[1:1] = []
    hello = early[: 5 + int.from_bytes(early[3:5])]
    fake = bytes.fromhex("1703034000") + bytes(0x4000)
    talk.pieces = [(CLIENT, hello), talk.pieces[1], *[(CLIENT, fake)] * 70]
    reading = read(talk)
    assert (reading.status, reading.plain[CLIENT]) == ("failed", b"")
    assert reading.reason == "client: no record authenticates with the secrets of the key log"


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("tls11", "unsupported", "TLS 1.1 is not supported, only TLS 1.2 and TLS 1.3"),
        ("tls12_camellia", "unsupported", "the cipher suite 0xC072 is not supported"),
        ("tls12_renegotiation", "unsupported", "renegotiation is not supported"),
        ("tls12_no_common", "handshake", "the server sent the alert protocol_version"),
        ("tls13_client_auth_refused", "decrypting", "the server sent the alert certificate_required"),
    ],
)
def test_what_cannot_be_read_says_why(name, status, reason):
    reading = read(recorded(name))
    assert (reading.status, reading.reason) == (status, reason)


def test_what_came_before_a_renegotiation_is_read():
    assert read(recorded("tls12_renegotiation")).both == ONE_TWO


def test_key_updates_of_one_side_leave_the_other_alone():
    talk = recorded("tls13_key_update")
    lines = talk.keys.splitlines()
    talk.keys = "\n".join(line for line in lines if "SECRET_N" not in line)
    reading = read(talk)
    assert reading.both == READABLE["tls13_key_update"]
    assert reading.plain[SERVER]
