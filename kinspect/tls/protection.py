"""Record protection: one object per direction and key; `open(sequence, record)` returns type and plaintext, or None.

None means that the record is not the one its sender protected as number `sequence` with this key: nothing
unauthenticated is ever handed out.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from struct import Struct
from typing import Any, Protocol, TypeAlias

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from kinspect.tls.keyderivation import IV_BYTES, Keys, keys_12, keys_13, next_secret
from kinspect.tls.suites import CBC, CCM, CCM_8, CHACHA, GCM, Suite
from kinspect.tls.tlsrecords import HEADER_BYTES

__all__ = ["Epoch", "UnsupportedAlgorithm", "epoch_13", "epoch_of", "epochs_12"]

_BLOCK = 16
_EXPLICIT_NONCE = 8
# Sequence number, type and version, length (RFC 5246 §6.2.3.1).
_AUTHENTICATED = Struct(">Q3sH")


Origin: TypeAlias = tuple[Any, ...]


class _Aead(Protocol):
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None, /) -> bytes: ...


# Constructor of each mode's cipher, and the size of its tag.
AEADS: dict[str | None, tuple[Callable[[bytes], _Aead], int]] = {
    GCM: (AESGCM, 16),
    CHACHA: (ChaCha20Poly1305, 16),
    CCM: (lambda key: AESCCM(key, tag_length=16), 16),
    CCM_8: (lambda key: AESCCM(key, tag_length=8), 8),
}


class Opener(Protocol):
    """Opens the records of one key. `smallest` is the size of the shortest record, `overhead` the bytes by which
    records exceed their plaintext, None if that varies."""

    smallest: int
    overhead: int | None

    def open(self, sequence: int, record: bytes) -> tuple[int, bytes] | None: ...


class Aead13:
    """TLS 1.3 (RFC 8446 §5.2 and §5.3)."""

    __slots__ = ("_decrypt", "_iv", "overhead", "smallest")

    overhead: int | None

    def __init__(self, suite: Suite, keys: Keys) -> None:
        make, tag = AEADS[suite.mode]
        self._decrypt = make(keys.key).decrypt
        self._iv = int.from_bytes(keys.iv)
        self.smallest = self.overhead = HEADER_BYTES + 1 + tag

    def open(self, sequence: int, record: bytes) -> tuple[int, bytes] | None:
        if len(record) < self.smallest:
            return None
        nonce = (self._iv ^ sequence).to_bytes(IV_BYTES)
        try:
            plain = self._decrypt(nonce, record[HEADER_BYTES:], record[:HEADER_BYTES])
        except InvalidTag:
            return None
        if plain[-1]:
            return plain[-1], plain[:-1]
        plain = plain.rstrip(b"\0")
        return (plain[-1], plain[:-1]) if plain else None


class Aead12:
    """TLS 1.2, with a nonce of salt and explicit part (RFC 5288, RFC 6655) or without (RFC 7905)."""

    __slots__ = ("_decrypt", "_explicit", "_iv", "_salt", "overhead", "smallest")

    overhead: int | None

    def __init__(self, suite: Suite, keys: Keys) -> None:
        make, tag = AEADS[suite.mode]
        self._decrypt = make(keys.key).decrypt
        self._salt = keys.iv
        self._iv = int.from_bytes(keys.iv)
        self._explicit = IV_BYTES - len(keys.iv)
        self.smallest = self.overhead = HEADER_BYTES + self._explicit + tag

    def open(self, sequence: int, record: bytes) -> tuple[int, bytes] | None:
        size = len(record) - self.smallest
        if size < 0:
            return None
        start = HEADER_BYTES + self._explicit
        explicit = record[HEADER_BYTES:start]
        nonce = self._salt + explicit if explicit else (self._iv ^ sequence).to_bytes(IV_BYTES)
        try:
            plain = self._decrypt(nonce, record[start:], _AUTHENTICATED.pack(sequence, record[:3], size))
        except InvalidTag:
            return None
        return record[0], plain


class Cbc12:
    """TLS 1.2 with CBC and HMAC: the MAC covers the plaintext and is encrypted (RFC 5246 §6.2.3.2), or covers the
    ciphertext and follows it (RFC 7366)."""

    __slots__ = ("_decrypt", "_mac", "_mac_bytes", "_mac_outside", "overhead", "smallest")

    def __init__(self, suite: Suite, keys: Keys, encrypt_then_mac: bool) -> None:
        # One context for all records: CBC depends only on the last block of ciphertext before, and each record brings
        # that along as its IV. The IV's own decryption is cut off.
        self._decrypt = Cipher(algorithms.AES(keys.key), modes.CBC(bytes(_BLOCK))).decryptor().update
        self._mac = hmac.new(keys.mac, digestmod=getattr(hashlib, suite.mac or ""))
        self._mac_bytes = self._mac.digest_size
        self._mac_outside = encrypt_then_mac
        self.overhead: int | None = None
        inside = 1 if encrypt_then_mac else 1 + self._mac_bytes
        self.smallest = HEADER_BYTES + _BLOCK + -(-inside // _BLOCK) * _BLOCK
        if encrypt_then_mac:
            self.smallest += self._mac_bytes

    def open(self, sequence: int, record: bytes) -> tuple[int, bytes] | None:
        if len(record) < self.smallest:
            return None
        head, fragment = record[:3], record[HEADER_BYTES:]
        if self._mac_outside:
            fragment, tag = fragment[: -self._mac_bytes], fragment[-self._mac_bytes :]
            if not self._authentic(sequence, head, fragment, tag):
                return None
        if len(fragment) % _BLOCK:
            return None
        plain = self._decrypt(fragment)[_BLOCK:]
        padding = plain[-1] + 1
        size = len(plain) - padding
        if size < 0 or plain[size:] != plain[-1:] * padding:
            return None
        plain = plain[:size]
        if not self._mac_outside:
            size -= self._mac_bytes
            if size < 0:
                return None
            plain, tag = plain[:size], plain[size:]
            if not self._authentic(sequence, head, plain, tag):
                return None
        return record[0], plain

    def _authentic(self, sequence: int, head: bytes, data: bytes, tag: bytes) -> bool:
        mac = self._mac.copy()
        mac.update(_AUTHENTICATED.pack(sequence, head, len(data)))
        mac.update(data)
        return mac.digest() == tag


class Epoch:
    """Lifetime of one key of a direction. `is_handshake`: the key protects the handshake of TLS 1.3.

    `successor()` returns the next epoch; TLS 1.2 has none. `origin` holds the arguments with which `epoch_of` creates
    it again: the cipher suite, the keys or secrets, and True for encrypt-then-MAC.
    """

    __slots__ = ("is_handshake", "opener", "origin", "successor")

    def __init__(
        self,
        opener: Opener,
        origin: Origin,
        is_handshake: bool = False,
        successor: Callable[[], Epoch | None] = lambda: None,
    ) -> None:
        self.opener = opener
        self.origin = origin
        self.is_handshake = is_handshake
        self.successor = successor


def epochs_12(
    suite: Suite, master: bytes, client_random: bytes, server_random: bytes, encrypt_then_mac: bool
) -> list[Epoch]:
    """Epochs of client and server under TLS 1.2."""
    pair = keys_12(suite, master, client_random, server_random)
    return [_epoch_12(suite, keys, encrypt_then_mac) for keys in pair]


def epoch_13(suite: Suite, traffic: bytes, handshake: bytes | None = None) -> Epoch:
    """First epoch with a known secret of a direction under TLS 1.3: the handshake's, or that of application data."""
    return Epoch(
        Aead13(suite, keys_13(suite, handshake or traffic)),
        (suite, traffic, handshake),
        handshake is not None,
        lambda: epoch_13(suite, traffic if handshake else next_secret(suite, traffic)),
    )


def epoch_of(suite: Suite, *made_of: Any) -> Epoch:
    """Epoch with this `origin`."""
    if suite.is_13:
        return epoch_13(suite, *made_of)
    *keys, encrypt_then_mac = made_of
    return _epoch_12(suite, Keys(*keys), encrypt_then_mac)


def _epoch_12(suite: Suite, keys: Keys, encrypt_then_mac: bool) -> Epoch:
    origin = (suite, *keys, encrypt_then_mac)
    if suite.mode == CBC:
        return Epoch(Cbc12(suite, keys, encrypt_then_mac), origin)
    return Epoch(Aead12(suite, keys), origin)
