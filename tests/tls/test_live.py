"""Conversations of Python's ssl with itself, in every version, suite and mode that OpenSSL offers."""

import ssl

import pytest
from talks import CLIENT, NO_ENCRYPT_THEN_MAC, NO_EXTENDED_MASTER_SECRET, SERVER, Peers, messages, read

from kinspect.tls.decryptor import Decryptor
from kinspect.tls.keylog import KeyLog

TLS_12, TLS_13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
MESSAGES = messages(12, 40_000)

# OpenSSL's name, the certificate, and IANA's name.
SUITES = [
    ("ECDHE-RSA-AES128-GCM-SHA256", "rsa", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "rsa", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "ec", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("AES256-GCM-SHA384", "rsa", "TLS_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "rsa", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "ec", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("AES128-CCM", "rsa", "TLS_RSA_WITH_AES_128_CCM"),
    ("AES256-CCM8", "rsa", "TLS_RSA_WITH_AES_256_CCM_8"),
    ("ECDHE-ECDSA-AES256-CCM", "ec", "TLS_ECDHE_ECDSA_WITH_AES_256_CCM"),
    ("ECDHE-ECDSA-AES128-CCM8", "ec", "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8"),
    ("AES128-SHA", "rsa", "TLS_RSA_WITH_AES_128_CBC_SHA"),
    ("AES256-SHA256", "rsa", "TLS_RSA_WITH_AES_256_CBC_SHA256"),
    ("ECDHE-RSA-AES256-SHA", "rsa", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    ("ECDHE-RSA-AES128-SHA256", "rsa", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    ("ECDHE-ECDSA-AES256-SHA384", "ec", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"),
]


def check(talk, *, version, suite=None, **options):
    """Whole and in small pieces, the talk reads as what was sent."""
    for cut in (None, 2000, 7):
        reading = read(talk, cut=cut, **options)
        assert reading.both == talk.sent
        assert (reading.status, reading.reason, reading.losses) == ("decrypting", None, [])
        assert reading.decryptor.version == version
        assert suite in (None, reading.decryptor.cipher_suite)
        assert reading.decryptor.server_name == "broker.test"
    return reading.decryptor


@pytest.mark.parametrize(("cipher", "kind", "name"), SUITES, ids=[row[0] for row in SUITES])
def test_suites_of_tls_12(cipher, kind, name):
    talk, _ = Peers(TLS_12, cipher, kind=kind).talk(MESSAGES)
    check(talk, version="TLS 1.2", suite=name)


@pytest.mark.parametrize("cipher", ["AES128-SHA", "ECDHE-RSA-AES128-SHA256", "ECDHE-RSA-AES256-SHA384"])
@pytest.mark.parametrize(
    "options", [NO_ENCRYPT_THEN_MAC, NO_EXTENDED_MASTER_SECRET], ids=["mac-inside", "no-ems"]
)
def test_cbc_in_its_forms(cipher, options):
    talk, _ = Peers(TLS_12, cipher, options=options).talk(MESSAGES)
    check(talk, version="TLS 1.2")


@pytest.mark.parametrize("cipher", ["ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES256-SHA384"])
@pytest.mark.parametrize("options", [0, NO_ENCRYPT_THEN_MAC], ids=["mac-outside", "mac-inside"])
def test_cbc_with_every_padding(cipher, options):
    talk, _ = Peers(TLS_12, cipher, options=options).talk([(n % 2, b"x" * n) for n in range(1, 50)])
    check(talk, version="TLS 1.2")


def test_tls_13():
    talk, _ = Peers(TLS_13, alpn=["kafka", "h2"]).talk(MESSAGES)
    decryptor = check(talk, version="TLS 1.3", suite="TLS_AES_256_GCM_SHA384")
    assert (decryptor.offered_alpn, decryptor.alpn) == (("kafka", "h2"), "kafka")


def test_the_protocol_that_tls_12_chose():
    talk, _ = Peers(TLS_12, alpn=["h2"]).talk(MESSAGES)
    assert check(talk, version="TLS 1.2").alpn == "h2"


@pytest.mark.parametrize("version", [TLS_12, TLS_13])
def test_the_clients_key_log_does_as_well(version):
    talk, _ = Peers(version, log_at="client").talk(MESSAGES)
    check(talk, version=version.name.replace("TLSv", "TLS ").replace("_", "."))


@pytest.mark.parametrize(
    ("version", "options"),
    [(TLS_12, 0), (TLS_12, ssl.OP_NO_TICKET), (TLS_13, 0)],
    ids=["ticket", "session-id", "tls13-ticket"],
)
def test_resumption(version, options):
    peers = Peers(version, options=options)
    first, end = peers.talk(MESSAGES)
    second, end = peers.talk(MESSAGES, session=end.session)
    assert end.session_reused
    assert len(second.stream(SERVER)) < len(first.stream(SERVER))
    name = "TLS 1.3" if version == TLS_13 else "TLS 1.2"
    check(first, version=name)
    check(second, version=name)


def test_hello_retry_request():
    peers = Peers(TLS_13)
    peers.server.set_ecdh_curve("secp384r1")
    talk, _ = peers.talk(MESSAGES)
    assert b"\xcf\x21\xad\x74\xe5\x9a\x61\x11" in talk.stream(SERVER)
    check(talk, version="TLS 1.3")


@pytest.mark.parametrize("version", [TLS_12, TLS_13])
def test_time_and_frame_are_those_of_the_packet_that_completes_the_record(version):
    peers = Peers(version)
    talk, _ = peers.talk([(CLIENT, b"a question")])
    position = next(n for n, (_, data) in enumerate(talk.pieces) if read(talk, pieces=n + 1).events)
    direction, record = talk.pieces[position]
    talk.pieces[position : position + 1] = [
        (direction, part) for part in (record[:3], record[3:20], record[20:])
    ]
    completed = position + 3
    assert read(talk).events == [(CLIENT, completed * 10, completed, b"a question")]


def test_a_direction_may_be_named_either_way():
    talk, _ = Peers(TLS_13).talk(MESSAGES)
    plain = bytearray(), bytearray()
    decryptor = Decryptor(
        KeyLog(talk.keys), 1, lambda direction, _time, _frame, data: plain[direction].extend(data)
    )
    for direction, data in talk.pieces:
        decryptor.data(1 - direction, None, 1, data, 0, len(data))
    assert (bytes(plain[1]), bytes(plain[0])) == talk.sent


def test_without_the_secrets_of_the_handshake_those_of_the_data_do():
    talk, _ = Peers(TLS_13).talk(MESSAGES)
    keys = "\n".join(line for line in talk.keys.splitlines() if "HANDSHAKE" not in line)
    check(talk, version="TLS 1.3", keys=keys)
