"""Derivation of a direction's keys from the secrets of a key log: the PRF of TLS 1.2 and the HKDF of TLS 1.3."""

from __future__ import annotations

import hmac
from typing import NamedTuple

from kinspect.tls.suites import CBC, CHACHA, Suite

IV_BYTES = 12
# IV bytes in the key block of TLS 1.2: the rest stands in each record (RFC 5288 §3, RFC 5246 §6.2.3.2).
_BLOCK_IV_BYTES = {CBC: 0, CHACHA: IV_BYTES}
_SALT_BYTES = 4
_MAC_BYTES = {None: 0, "sha1": 20, "sha256": 32, "sha384": 48}


class Keys(NamedTuple):
    """Keys of one direction. Never shown."""

    mac: bytes
    key: bytes
    iv: bytes

    def __repr__(self) -> str:
        return "<Keys>"


def prf(secret: bytes, label: bytes, seed: bytes, size: int, digest: str) -> bytes:
    """Pseudorandom function of TLS 1.2 (RFC 5246 §5)."""
    seed = label + seed
    out, link = b"", seed
    while len(out) < size:
        link = hmac.digest(secret, link, digest)
        out += hmac.digest(secret, link + seed, digest)
    return out[:size]


def expand_label(secret: bytes, label: bytes, size: int, digest: str) -> bytes:
    """HKDF-Expand-Label with an empty context (RFC 8446 §7.1, RFC 5869 §2.3)."""
    label = b"tls13 " + label
    info = size.to_bytes(2) + len(label).to_bytes(1) + label + b"\0"
    out, block, count = b"", b"", 0
    while len(out) < size:
        count += 1
        block = hmac.digest(secret, block + info + count.to_bytes(1), digest)
        out += block
    return out[:size]


def keys_12(suite: Suite, master: bytes, client_random: bytes, server_random: bytes) -> tuple[Keys, Keys]:
    """Keys of client and server under TLS 1.2 (RFC 5246 §6.3).

    The key log's master secret is used in the same way, be it derived by RFC 5246 §8.1 or extended (RFC 7627).
    """
    sizes = _MAC_BYTES[suite.mac], suite.key_bytes, _BLOCK_IV_BYTES.get(suite.mode or "", _SALT_BYTES)
    block = prf(master, b"key expansion", server_random + client_random, 2 * sum(sizes), suite.digest)
    parts: list[bytes] = []
    for size in sizes:
        for _ in range(2):
            parts.append(block[:size])
            block = block[size:]
    return Keys(*parts[0::2]), Keys(*parts[1::2])


def keys_13(suite: Suite, secret: bytes) -> Keys:
    """Keys of a direction under TLS 1.3 (RFC 8446 §7.3)."""
    return Keys(
        b"",
        expand_label(secret, b"key", suite.key_bytes, suite.digest),
        expand_label(secret, b"iv", IV_BYTES, suite.digest),
    )


def next_secret(suite: Suite, secret: bytes) -> bytes:
    """Traffic secret after a KeyUpdate (RFC 8446 §7.2)."""
    return expand_label(secret, b"traffic upd", len(secret), suite.digest)
