"""Handshake messages that determine how a connection is protected (RFC 8446 §4, RFC 5246 §7.4)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from kinspect.tls.tlsrecords import CLIENT_HELLO

SERVER_HELLO, ENCRYPTED_EXTENSIONS, FINISHED, KEY_UPDATE = 2, 8, 20, 24
# Message types that are used; others are skipped by their length.
_READ = frozenset({CLIENT_HELLO, SERVER_HELLO, ENCRYPTED_EXTENSIONS, FINISHED, KEY_UPDATE})
_MESSAGE_HEADER = 4
MESSAGE_BYTES = 256 * 1024

# Extensions: RFC 6066, RFC 7301, RFC 7366, RFC 8446.
_SERVER_NAME, _ALPN, _ENCRYPT_THEN_MAC, _EARLY_DATA, _SUPPORTED_VERSIONS = 0, 16, 22, 42, 43
_RANDOM = slice(2, 34)
# A ServerHello with this random is a HelloRetryRequest (RFC 8446 §4.1.3): SHA-256 of its name.
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")

# RFC 8446 §6 and RFC 5246 §7.2.
ALERT_LEVELS = {1: "warning", 2: "fatal"}
ALERTS = {
    0: "close_notify",
    10: "unexpected_message",
    20: "bad_record_mac",
    21: "decryption_failed",
    22: "record_overflow",
    30: "decompression_failure",
    40: "handshake_failure",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    90: "user_canceled",
    100: "no_renegotiation",
    109: "missing_extension",
    110: "unsupported_extension",
    112: "unrecognized_name",
    113: "bad_certificate_status_response",
    115: "unknown_psk_identity",
    116: "certificate_required",
    120: "no_application_protocol",
}


class MessageReader:
    """Reassembles messages that span several records, and splits records with several messages."""

    STATE: ClassVar = ("_pending", "_skip", "desynchronised")
    __slots__ = STATE

    def __init__(self) -> None:
        self._pending = bytearray()
        self._skip = 0
        self.desynchronised = False
        """True after a loss, while the start of the next message is not known."""

    def drop(self) -> None:
        """Discard the incomplete message."""
        self._pending.clear()
        self._skip = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Type and body of each message that is now complete and of a type in use.

        Raises ValueError if one is too long.
        """
        messages: list[tuple[int, bytes]] = []
        if self.desynchronised:
            return messages
        pending = self._pending
        pending += data
        position = 0
        while True:
            skipped = min(self._skip, len(pending) - position)
            position += skipped
            self._skip -= skipped
            if len(pending) - position < _MESSAGE_HEADER:
                break
            kind = pending[position]
            start = position + _MESSAGE_HEADER
            size = int.from_bytes(pending[position + 1 : start])
            if kind not in _READ:
                position, self._skip = start, size
            elif size > MESSAGE_BYTES:
                raise ValueError
            elif start + size <= len(pending):
                position = start + size
                messages.append((kind, bytes(pending[start:position])))
            else:
                break
        del pending[:position]
        return messages


class ClientHello(NamedTuple):
    """A ClientHello: `server_name` (SNI), the offered `alpn` protocols, and `early_data`: early data may follow."""

    random: bytes
    server_name: str | None
    alpn: tuple[str, ...]
    early_data: bool


class ServerHello(NamedTuple):
    """Choices of a ServerHello. `retry`: it is a HelloRetryRequest."""

    version: int
    suite: int
    compressed: bool
    alpn: str | None
    encrypt_then_mac: bool
    random: bytes
    retry: bool


def parse_client_hello(body: bytes) -> ClientHello:
    """Parse a ClientHello's body, which may be incomplete; missing parts are None or empty."""
    random, position = body[_RANDOM], _RANDOM.stop
    try:
        position += 1 + body[position]  # session id
        position += 2 + int.from_bytes(body[position : position + 2])  # cipher suites
        position += 1 + body[position]  # compression methods
    except IndexError:
        return ClientHello(random, None, (), False)
    extensions = _extensions(body, position)
    name = extensions.get(_SERVER_NAME, b"")
    return ClientHello(
        random,
        name[5 : 5 + int.from_bytes(name[3:5])].decode("ascii", "replace") or None,
        _alpn(extensions.get(_ALPN, b"")),
        _EARLY_DATA in extensions,
    )


def parse_server_hello(body: bytes) -> ServerHello | None:
    """Parse a ServerHello's body; None if it is cut short."""
    position = _RANDOM.stop
    if len(body) <= position or len(body) < (choice := position + 1 + body[position]) + 3:
        return None
    extensions = _extensions(body, choice + 3)
    version = extensions.get(_SUPPORTED_VERSIONS, body[:2])
    return ServerHello(
        version=int.from_bytes(version),
        suite=int.from_bytes(body[choice : choice + 2]),
        compressed=body[choice + 2] != 0,
        alpn=next(iter(_alpn(extensions.get(_ALPN, b""))), None),
        encrypt_then_mac=_ENCRYPT_THEN_MAC in extensions,
        random=body[_RANDOM],
        retry=body[_RANDOM] == _RETRY,
    )


def parse_encrypted_extensions(body: bytes) -> tuple[str | None, bool]:
    """The protocol (ALPN) that the TLS 1.3 server chose, and True if it accepts early data."""
    extensions = _extensions(body, 0)
    return next(iter(_alpn(extensions.get(_ALPN, b""))), None), _EARLY_DATA in extensions


def _extensions(body: bytes, position: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    position += 2
    while position + 4 <= len(body):
        start = position + 4
        size = int.from_bytes(body[position + 2 : start])
        found[int.from_bytes(body[position : position + 2])] = body[start : start + size]
        position = start + size
    return found


def _alpn(body: bytes) -> tuple[str, ...]:
    names, position = [], 2
    while position < len(body):
        start = position + 1
        position = start + body[position]
        names.append(body[start:position].decode("ascii", "replace"))
    return tuple(names)
