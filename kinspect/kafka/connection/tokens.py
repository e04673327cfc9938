"""Recognition of raw SASL tokens on a connection.

Sources: RFC 4616 (PLAIN), RFC 4752 (GSSAPI), RFC 5802 (SCRAM), RFC 7628 (OAUTHBEARER), KIP-12, KIP-43, KIP-152,
KIP-255.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from kinspect.kafka.connection.orphans import TRIED_BYTES, Candidate
from kinspect.kafka.connection.recognise import is_body, is_sound, is_text
from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol import RequestHeader, schema
from kinspect.protocol.apikeys import API_VERSIONS, SASL_HANDSHAKE

AS_MANY_AS_IT_TAKES: Final = -1
# Number of raw tokens that the client sends after SaslHandshake v0, by mechanism; others have no fixed number.
CLIENT_TOKENS: Final[dict[str, int]] = {"PLAIN": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2, "OAUTHBEARER": 2}
# Zero bytes in PLAIN's token. A request has more, in its key, version, correlation id and lengths.
PLAIN_ZEROS: Final = 2
SHORTEST_PLAIN: Final = 4


# Tokens inside other bytes: PLAIN, SCRAM's four messages, OAUTHBEARER.
_INSIDE: Final = re.compile(
    rb"\0[\x21-\x7e]{1,255}\0[\x21-\x7e]{4}|[nyp](=[^,]*)?,[^,]*,n=[^,]+,r=|r=[^,]+,s=[A-Za-z0-9+/=]+,i=\d"
    rb"|c=[A-Za-z0-9+/=]+,r=[^,]+,p=|v=[A-Za-z0-9+/=]{20}|auth=Bearer "
)


def may_hold_token(data: bytes) -> bool:
    """True if something in the bytes looks like a SASL token with a secret (RFC 4616, RFC 5802, RFC 7628)."""
    return _INSIDE.search(data) is not None


def is_known(header: RequestHeader | None) -> bool:
    """True for the header of an API and version that some release has."""
    return header is not None and schema.layout(header.api_key, header.api_version, REQUEST) is not None


def may_be_token(raw: bytes, header: RequestHeader | None) -> bool:
    """True if a message of the client could be a raw token: it has no known API and version, and no more zero bytes
    than a token. `header`: its header as a request."""
    return not is_known(header) and len(raw) >= SHORTEST_PLAIN and raw.count(0) <= PLAIN_ZEROS


class Tokens:
    """Tracks whether messages without a Kafka header may be under way on a connection.

    After a SaslHandshake v0 request both sides send raw tokens: a size and bytes. The capture may not show that the
    handshake was accepted, nor, on a connection not seen from its start (`unseen`), that there was one. Where tokens
    are possible, a message of the client counts as a request only if it fits a known version to its last byte.
    """

    STATE: ClassVar = ("_left", "_refused", "_unseen", "mechanism", "possible", "replies")
    __slots__ = STATE

    def __init__(self, unseen: bool) -> None:
        self.mechanism: str | None = None
        self.possible = unseen  # the client's next message may be a token
        self.replies = unseen  # the broker's next message may be one
        self._unseen = unseen
        self._refused = False
        self._left = AS_MANY_AS_IT_TAKES

    def begin(self, mechanism: str | None) -> None:
        """Expect tokens: the client sent a handshake, or begins without one (GSSAPI)."""
        self.mechanism = mechanism
        self.possible = self.replies = True
        self._unseen = self._refused = False
        self._left = CLIENT_TOKENS.get(mechanism or "", AS_MANY_AS_IT_TAKES)

    def lose(self) -> None:
        """Note lost bytes of the client: there may have been a handshake in them."""
        self.possible = self.replies = self._unseen = True
        self._refused = False
        self._left = AS_MANY_AS_IT_TAKES

    def is_token(self, raw: bytes, complete: bool, header: RequestHeader | None) -> bool:
        """True if a message of the client is a token. `header`: its header if it were a request, or None."""
        if not self.possible:
            # An impossible request that could be a token is taken for one: showing it could reveal a password.
            return header is not None and may_be_token(raw, header)
        if self._unseen and not complete:
            # The message boundary is not known: the bytes taken for a size may be a part of a token.
            return False
        if header is None or raw.count(0) <= PLAIN_ZEROS:
            return True
        if self._refused:
            return False
        if is_known(header):
            key, version, start, end = header.api_key, header.api_version, header.body_start, len(raw)
            fits = is_body(key, version, REQUEST, raw, start, end) or is_sound(header, raw, end)
            return complete and not fits
        # The first request of clients of future releases (KIP-511).
        return not (self._unseen and header.api_key == API_VERSIONS and is_text(header.client_id))

    def after_token(self) -> None:
        """Note a token of the client."""
        if self._left > 0:
            self._left -= 1
            self.possible = self._left > 0

    def after_request(self) -> None:
        """Note a request of the client, which ends its tokens."""
        self.possible = False

    def after_answer(self, api_key: int | None, api_version: int | None, raw: bytes) -> None:
        """Note the broker's answer to a request of this API and version (None: to a token)."""
        if api_key == SASL_HANDSHAKE and api_version == 0:
            error = raw[4:6]
            self._refused = len(error) == 2 and error != b"\0\0"
            self.replies = not self._refused
        elif api_key is not None:
            self.replies = False

    def is_reply(self, raw: bytes, complete: bool, found: list[Candidate]) -> bool:
        """True if a message of the broker without a waiting request is a token. `found`: the responses it could be."""
        return self.replies and len(raw) <= TRIED_BYTES and not found and (complete or not self._unseen)

    def after_orphan(self, raw: bytes) -> None:
        """Note the broker's answer to a request that was not captured, which may have been a handshake."""
        self.replies = is_body(SASL_HANDSHAKE, 0, RESPONSE, raw, 4, len(raw))
