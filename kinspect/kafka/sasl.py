"""What the SASL tokens of a connection tell besides secrets: the mechanism and the user's name.

Sources: RFC 4616 (PLAIN), RFC 5802 (SCRAM), RFC 7628 (OAUTHBEARER), KIP-12, KIP-43, KIP-152, KIP-255.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable

AS_MANY_AS_IT_TAKES = -1
# Raw tokens the client sends after SaslHandshake v0, by mechanism; of others as many as it takes.
CLIENT_TOKENS: dict[str, int] = {"PLAIN": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2, "OAUTHBEARER": 2}


def _plain(token: bytes) -> str | None:
    parts = token.split(b"\0")
    return _text(parts[1]) if len(parts) == 3 else None


def _scram(token: bytes) -> str | None:
    if not token.startswith((b"n,", b"y,", b"p=")):
        return None
    for attribute in token.split(b","):
        if attribute.startswith(b"n="):
            name = _text(attribute[2:])
            return name and name.replace("=2C", ",").replace("=3D", "=")
    return None


def _oauthbearer(token: bytes) -> str | None:
    for part in token.split(b"\x01"):
        if part.startswith(b"auth=Bearer "):
            claims = part[12:].split(b".")
            return _subject(claims[1]) if len(claims) == 3 else None
    return None


def _subject(claims: bytes) -> str | None:
    try:
        subject = json.loads(base64.urlsafe_b64decode(claims + b"=" * (-len(claims) % 4))).get("sub")
    except (binascii.Error, ValueError, AttributeError, RecursionError):
        return None
    # JSON can spell half a surrogate pair, which is no text.
    return subject if isinstance(subject, str) and subject.isprintable() else None


def _text(name: bytes) -> str | None:
    try:
        return name.decode() or None
    except UnicodeDecodeError:
        return None


_USER: dict[str, Callable[[bytes], str | None]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "OAUTHBEARER": _oauthbearer,
}


def user_name(mechanism: str | None, token: bytes) -> str | None:
    """The user a client's SASL `token` names; None if it names none or the mechanism keeps it secret."""
    reader = _USER.get(mechanism or "")
    return reader(token) if reader else None
