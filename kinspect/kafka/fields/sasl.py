"""Facts in SASL tokens that are not secret: who logs in, and why a broker refuses.

Sources: RFC 4616 (PLAIN), RFC 5802 (SCRAM), RFC 7628 (OAUTHBEARER), KIP-43, KIP-255.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final


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
    from base64 import urlsafe_b64decode

    try:
        subject = json.loads(urlsafe_b64decode(claims + b"=" * (-len(claims) % 4))).get("sub")
    except (ValueError, AttributeError, RecursionError):
        return None
    # JSON can spell half a surrogate pair, which is no text.
    return subject if isinstance(subject, str) and subject.isprintable() else None


def _text(name: bytes) -> str | None:
    """A name that a person could have typed, else None: bytes of a damaged token may be its secret."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() and text else None


_USER: Final[dict[str, Callable[[bytes], str | None]]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "OAUTHBEARER": _oauthbearer,
}


# RFC 5802, section 7: server-error-value.
SERVER_ERRORS: Final = frozenset(
    """
    invalid-encoding extensions-not-supported invalid-proof channel-bindings-dont-match
    server-does-support-channel-binding channel-binding-not-supported no-resources
    unsupported-channel-binding-type unknown-user invalid-username-encoding other-error
    """.split()
)
STATUS_NOT_SHOWN: Final = "status not shown"
"""Shown in place of a status that is not one short word: it could hold a part of the token."""
_STATUS: Final = re.compile(r"[a-z]+(?:_[a-z]+){0,4}")
_STATUS_LONGEST: Final = 40
_FAILURE_LONGEST: Final = 4096
"""Length of the longest token that is checked for a failure."""


def refusal(token: bytes) -> str | None:
    """The broker's reason to refuse a login, from its `token`: the status of OAUTHBEARER's failure (RFC 7628, section
    3.2.2), which comes without an error code, or SCRAM's server error; None if it has neither."""
    if len(token) > _FAILURE_LONGEST:
        return None
    if token.startswith(b"e="):
        error = token[2:].partition(b",")[0].decode("ascii", "replace")
        return error if error in SERVER_ERRORS else None
    if not token.startswith(b"{"):
        return None
    try:
        status = json.loads(token).get("status")
    except (ValueError, RecursionError):
        return None
    if not isinstance(status, str):
        return None
    is_word = len(status) <= _STATUS_LONGEST and _STATUS.fullmatch(status)
    return status if is_word else STATUS_NOT_SHOWN


def user_name(mechanism: str | None, token: bytes) -> str | None:
    """The user a client's SASL `token` names; None if it names none or the mechanism keeps it secret."""
    reader = _USER.get(mechanism or "")
    return reader(token) if reader else None
