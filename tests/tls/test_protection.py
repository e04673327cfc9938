"""Records as a hostile sender who knows the keys would make them: nothing but None or what was authenticated."""

import hashlib
import hmac
from struct import pack

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kinspect.tls.keyderivation import Keys
from kinspect.tls.protection import Aead12, Aead13, Cbc12
from kinspect.tls.suites import suite

KEYS = Keys(b"m" * 20, b"k" * 16, b"")
CBC, GCM_12, GCM_13 = suite(0x002F), suite(0x009C), suite(0x1301)
IV = b"i" * 16


def record(fragment, kind=23):
    return bytes([kind]) + b"\x03\x03" + pack(">H", len(fragment)) + fragment


def encrypted(plain):
    cipher = Cipher(algorithms.AES(KEYS.key), modes.CBC(IV)).encryptor()
    return IV + cipher.update(plain)


def tag(data, sequence=7, kind=23):
    head = pack(">QB", sequence, kind) + b"\x03\x03" + pack(">H", len(data))
    return hmac.digest(KEYS.mac, head + data, hashlib.sha1)


def padded(data, padding):
    return data + bytes([padding - 1]) * padding


@pytest.mark.parametrize("size", [0, 1, 11, 12, 100])
@pytest.mark.parametrize("more", [0, 16, 240])
def test_cbc_with_the_mac_inside(size, more):
    data = b"d" * size
    inside = data + tag(data)
    sealed = record(encrypted(padded(inside, more + 16 - len(inside) % 16)))
    opener = Cbc12(CBC, KEYS, encrypt_then_mac=False)
    assert opener.open(8, sealed) is None
    assert opener.open(7, sealed) == (23, data)
    assert opener.open(7, sealed) == (23, data)
    assert opener.open(7, record(sealed[5:], kind=22)) is None
    assert len(sealed) >= opener.smallest


@pytest.mark.parametrize("size", [0, 1, 15, 16, 100])
def test_cbc_with_the_mac_outside(size):
    data = b"d" * size
    body = encrypted(padded(data, 16 - size % 16))
    sealed = record(body + tag(body))
    opener = Cbc12(CBC, KEYS, encrypt_then_mac=True)
    assert opener.open(8, sealed) is None
    assert opener.open(7, sealed) == (23, data)
    assert len(sealed) >= opener.smallest


@pytest.mark.parametrize(
    "plain",
    [
        bytes(31) + b"\x20",  # more padding than there is
        b"\x1f" * 32,  # padding alone
        b"d" * 16 + b"\x0f" * 16,  # no room for a MAC
        b"d" * 30 + b"\x00\x01",  # padding of unlike bytes
        padded(bytes(40), 8),  # no MAC
    ],
)
def test_cbc_that_makes_no_sense(plain):
    opener = Cbc12(CBC, KEYS, encrypt_then_mac=False)
    assert opener.open(7, record(encrypted(plain))) is None
    assert opener.open(7, record(encrypted(plain) + b"x")) is None
    assert opener.open(7, record(b"")) is None


@pytest.mark.parametrize("body", [encrypted(bytes(31) + b"\x20"), encrypted(bytes(32)) + b"x"])
def test_authentic_nonsense_is_none(body):
    opener = Cbc12(CBC, KEYS, encrypt_then_mac=True)
    assert opener.open(7, record(body + tag(body))) is None


@pytest.mark.parametrize(
    ("inner", "wanted"),
    [
        (b"data\x17", (23, b"data")),
        (b"\x17", (23, b"")),
        (b"data\x15" + bytes(300), (21, b"data")),
        (bytes(9), None),
    ],
)
def test_what_is_in_a_record_of_tls_13(inner, wanted):
    keys = Keys(b"", b"k" * 16, b"n" * 12)
    nonce = (int.from_bytes(keys.iv) ^ 7).to_bytes(12)
    head = b"\x17\x03\x03" + pack(">H", len(inner) + 16)
    sealed = head + AESGCM(keys.key).encrypt(nonce, inner, head)
    opener = Aead13(GCM_13, keys)
    assert opener.open(7, sealed) == wanted
    assert opener.open(6, sealed) is None
    assert opener.open(7, record(b"short")) is None


def test_a_record_of_tls_12_without_data():
    keys = Keys(b"", b"k" * 16, b"salt")
    sealed = record(
        b"explicit" + AESGCM(keys.key).encrypt(b"saltexplicit", b"", pack(">Q", 7) + b"\x17\x03\x03\0\0")
    )
    opener = Aead12(GCM_12, keys)
    assert len(sealed) == opener.smallest == opener.overhead
    assert opener.open(7, sealed) == (23, b"")
    assert opener.open(8, sealed) is None
    assert opener.open(7, record(b"short")) is None
