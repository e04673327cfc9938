"""Key derivation against published vectors."""

import rfc8448
from talks import Reading

from kinspect.tls.keyderivation import expand_label, keys_12, keys_13, next_secret, prf
from kinspect.tls.suites import suite

AES_128 = suite(0x1301)


def test_the_prf_of_tls_12():
    # The vector for P_SHA256 of the IETF's TLS mailing list ("Test vectors for TLS 1.2").
    out = prf(
        bytes.fromhex("9bbe436ba940f017b17652849a71db35"),
        b"test label",
        bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c"),
        100,
        "sha256",
    )
    assert out.hex() == (
        "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9"
        "c9a46b4e14baf9af0fa022f7077def17abfd3797c0564bab4fbc91666e9def9b97fce34f796789ba"
        "a48082d122ee42c5a72e5a5110fff70187347b66"
    )


def test_the_traffic_keys_of_rfc_8448():
    for secret, key, iv in rfc8448.KEYS:
        keys = keys_13(AES_128, bytes.fromhex(secret))
        assert (keys.key.hex(), keys.iv.hex()) == (key, iv)


def test_long_labels_take_several_blocks():
    long = expand_label(b"s" * 32, b"key", 80, "sha256")
    assert len(long) == 80
    assert len(set(long[n : n + 16] for n in range(0, 80, 16))) == 5


def test_an_update_keeps_the_size_of_the_secret():
    for number, size in ((0x1301, 32), (0x1302, 48)):
        assert len(next_secret(suite(number), b"s" * size)) == size


def test_the_key_block_of_tls_12_has_what_the_suite_needs():
    sizes = {
        0xC02F: (0, 16, 4),
        0xC030: (0, 32, 4),
        0xC0AE: (0, 16, 4),
        0xCCA8: (0, 32, 12),
        0xC013: (20, 16, 0),
        0xC027: (32, 16, 0),
        0xC028: (48, 32, 0),
    }
    for number, wanted in sizes.items():
        client, server = keys_12(suite(number), b"m" * 48, b"c" * 32, b"s" * 32)
        assert tuple(map(len, client)) == tuple(map(len, server)) == wanted
        assert client != server


def test_keys_do_not_show():
    assert repr(keys_13(AES_128, b"s" * 32)) == "<Keys>"


def test_the_conversation_of_rfc_8448():
    reading = Reading(rfc8448.KEY_LOG)
    for direction, record in rfc8448.RECORDS:
        reading.feed(direction, bytes.fromhex(record))
    assert reading.both == (bytes(range(50)), bytes(range(50)))
    decryptor = reading.decryptor
    assert (decryptor.status, decryptor.reason) == ("decrypting", None)
    assert (decryptor.version, decryptor.cipher_suite) == ("TLS 1.3", "TLS_AES_128_GCM_SHA256")
    assert decryptor.server_name == "server"
