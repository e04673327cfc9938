"""Decryption of TLS 1.2 and 1.3 with the secrets of a key log; no key is ever guessed or derived from traffic.

    keylog = KeyLog()
    keylog.add(text)
    decryptor = Decryptor(keylog, client=0, deliver=take)
    decryptor.data(direction, time, frame, buffer, start, end)

Pure: it opens nothing. `cryptography` is imported when the first connection has its secrets.
"""

from kinspect.tls.decryptor import (
    DECRYPTING,
    FAILED,
    HANDSHAKE,
    NO_SECRETS,
    NONE_GIVEN,
    UNSUPPORTED,
    Decryptor,
)
from kinspect.tls.handshake import ClientHello, looks_like_tls, parse_client_hello
from kinspect.tls.keylog import KeyLog

__all__ = [
    "DECRYPTING",
    "FAILED",
    "HANDSHAKE",
    "NONE_GIVEN",
    "NO_SECRETS",
    "UNSUPPORTED",
    "ClientHello",
    "Decryptor",
    "KeyLog",
    "looks_like_tls",
    "parse_client_hello",
]
