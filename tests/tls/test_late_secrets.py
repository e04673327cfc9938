"""Secrets that come late, not at all, or do not fit; connections that do not begin at their beginning."""

import ssl
import sys

import pytest
from talks import CLIENT, SERVER, Peers, Reading, messages, read

import kinspect.tls
from kinspect.tls.handshake import ClientHello, parse_client_hello
from kinspect.tls.tlsrecords import looks_like_tls

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
NONE = "no secrets were given"
NONE_FITS = "no secrets for this connection in the key log"


@pytest.fixture(params=VERSIONS, ids=["tls12", "tls13"], scope="module")
def talk(request):
    return Peers(request.param).talk(messages(20, 4000))[0]


def feed(reading, pieces):
    for direction, data in pieces:
        reading.feed(direction, data)


@pytest.mark.parametrize("after", [1, 2, 3, 5, 12])
def test_secrets_that_come_late(talk, after):
    reading = Reading()
    feed(reading, talk.pieces[:after])
    reading.decryptor.retry()
    assert not any(reading.both)
    assert reading.status == ("handshake" if after == 1 else "no_secrets")
    assert reading.reason == (None if after == 1 else NONE)
    reading.keylog.add(talk.keys)
    reading.decryptor.retry()
    feed(reading, talk.pieces[after:])
    assert reading.both == talk.sent
    assert (reading.status, reading.reason, reading.decryptor.held) == ("decrypting", None, 0)


def test_late_secrets_give_the_times_of_the_packets(talk):
    late, soon = Reading(), read(talk, close=False)
    feed(late, talk.pieces)
    late.keylog.add(talk.keys)
    late.decryptor.retry()
    assert late.events == soon.events


def test_a_gap_while_secrets_are_awaited(talk):
    reading = Reading()
    feed(reading, talk.pieces[:8])
    direction, lost = talk.pieces[8]
    reading.gap(direction, len(lost))
    feed(reading, talk.pieces[9:])
    assert reading.losses == []
    reading.keylog.add(talk.keys)
    reading.decryptor.retry()
    assert len(reading.losses) == 1
    assert reading.plain[1 - direction] == talk.sent[1 - direction]
    assert reading.status == "decrypting"


def test_no_secrets(talk):
    reading = read(talk, keys="", close=False)
    assert (reading.status, reading.reason) == ("no_secrets", NONE)
    assert 0 < reading.decryptor.held <= 1024 * 1024
    reading.decryptor.closed()
    assert (reading.status, reading.reason, reading.decryptor.held) == ("no_secrets", NONE, 0)


def test_secrets_of_another_connection(talk):
    reading = read(talk, keys=f"CLIENT_RANDOM {'00' * 32} {'00' * 48}", close=False)
    assert (reading.status, reading.reason) == ("no_secrets", NONE_FITS)


def test_the_cap_on_what_is_held(talk):
    reading = read(talk, keys="", held_bytes=10_000, close=False)
    assert reading.reason == f"{NONE}; gave up after 10,000 held bytes"
    assert (reading.status, reading.decryptor.held) == ("no_secrets", 0)
    reading.keylog.add(talk.keys)
    reading.decryptor.retry()
    assert reading.status == "no_secrets"


def test_nothing_is_held_where_none_may(talk):
    reading = read(talk, keys="", held_bytes=0)
    assert (reading.status, reading.reason) == ("no_secrets", NONE)
    assert read(talk, held_bytes=0).both == talk.sent


def test_small_pieces_count_what_they_cost(talk):
    reading = read(talk, keys="", cut=2, held_bytes=50_000)
    assert "gave up" in reading.reason


def test_some_secrets_are_not_enough():
    talk, _ = Peers(VERSIONS[1]).talk(messages(4, 100))
    keys = "\n".join(line for line in talk.keys.splitlines() if not line.startswith("SERVER_TRAFFIC"))
    assert read(talk, keys=keys).reason == "not all secrets for this connection in the key log"


def test_wrong_secrets(talk):
    keys = []
    for line in talk.keys.splitlines():
        if line and not line.startswith("#"):
            label, random, secret = line.split()
            keys.append(f"{label} {random} {'00' * (len(secret) // 2)}")
    reading = read(talk, keys="\n".join(keys))
    assert reading.status == "failed"
    assert not any(reading.both)
    assert reading.reason.endswith(
        ": the first protected record does not authenticate: damage, or other secrets"
    )


@pytest.mark.parametrize("from_piece", [1, 2, 6])
def test_a_connection_that_was_open_before(talk, from_piece):
    reading = Reading(talk.keys)
    feed(reading, talk.pieces[from_piece:])
    assert (reading.status, reading.both) == ("no_secrets", (b"", b""))
    assert reading.reason == "the connection does not begin with a ClientHello"


def test_hellos_with_holes(talk):
    reading = Reading(talk.keys)
    reading.feed(CLIENT, talk.pieces[0][1][:50])
    reading.gap(CLIENT, 10)
    assert (reading.status, reading.reason) == (
        "no_secrets",
        "the ClientHello is not in the capture as a whole",
    )
    reading = Reading(talk.keys)
    feed(reading, talk.pieces[:1])
    reading.feed(SERVER, talk.pieces[1][1][:50])
    reading.gap(SERVER, 10)
    assert (reading.status, reading.reason) == ("failed", "the ServerHello is not in the capture as a whole")


def test_only_the_clients_direction(talk):
    reading = Reading(talk.keys)
    for direction, data in talk.pieces:
        if direction == CLIENT:
            reading.feed(direction, data)
    assert (reading.status, reading.reason) == ("handshake", None)
    reading.decryptor.closed()
    assert reading.reason == "the connection ended before the handshake did"
    reading = Reading(talk.keys)
    reading.feed(CLIENT, talk.pieces[0][1])
    for _ in range(80):
        reading.feed(CLIENT, bytes(16_000))
    assert reading.status == "failed"
    assert reading.reason == "the client sent too much before the server's side of the handshake was seen"


def test_the_end_is_the_end(talk):
    reading = read(talk)
    feed(reading, talk.pieces)
    reading.gap(CLIENT, 1)
    reading.decryptor.closed()
    reading.decryptor.retry()
    assert reading.both == talk.sent


def test_without_the_package_for_it(talk, monkeypatch):
    monkeypatch.delitem(sys.modules, "kinspect.tls.protection", raising=False)
    monkeypatch.delattr(kinspect.tls, "protection", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    reading = read(talk)
    assert (reading.status, reading.reason) == (
        "unsupported",
        "decryption needs the Python package cryptography",
    )


def test_a_cipher_that_this_build_does_not_have(talk, monkeypatch):
    from kinspect.tls import protection

    def no(*_args):
        raise protection.UnsupportedAlgorithm("no")

    monkeypatch.setitem(protection.AEADS, "gcm", (no, 16))
    reading = read(talk)
    assert reading.status == "unsupported"
    assert reading.reason.startswith("this build of cryptography does not support the cipher suite TLS_")


def test_the_client_hello_alone(talk):
    data = talk.pieces[0][1]
    assert looks_like_tls(data)
    assert not looks_like_tls(data[:5])
    assert not looks_like_tls(talk.pieces[1][1])
    hello = parse_client_hello(data[9:])
    assert (hello.server_name, hello.alpn, hello.early_data) == ("broker.test", (), False)
    assert len(hello.random) == 32
    assert parse_client_hello(data[9:60]) == ClientHello(hello.random, None, (), False)


def test_secrets_show_nowhere(talk):
    reading = read(talk)
    secrets = [line.split()[2] for line in talk.keys.splitlines() if line and not line.startswith("#")]
    shown = repr(reading.decryptor) + str(reading.decryptor) + repr(reading.keylog) + str(reading.reason)
    assert secrets
    assert not any(secret in shown.lower() for secret in secrets)
