"""Recognition of raw SASL tokens on a connection.

Sources: RFC 4616 (PLAIN), RFC 4752 (GSSAPI), RFC 5802 (SCRAM), RFC 7628 (OAUTHBEARER), KIP-12, KIP-43, KIP-152,
KIP-255.
"""

from __future__ import annotations

import re
from typing import ClassVar

from kinspect.kafka.connection.orphans import TRIED_BYTES, Candidate
from kinspect.kafka.connection.recognise import is_body, is_text
from kinspect.kafka.fields.sasl import SASL_HANDSHAKE
from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol import RequestHeader, schema

API_VERSIONS = 18
AS_MANY_AS_IT_TAKES = -1
# Raw tokens the client sends after SaslHandshake v0, by mechanism; of others as many as it takes.
CLIENT_TOKENS: dict[str, int] = {"PLAIN": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2, "OAUTHBEARER": 2}
# PLAIN's token has two zero bytes; a request has them in its key, its version, its correlation id and its lengths.
PLAIN_ZEROS = 2
SHORTEST_PLAIN = 4


# Tokens inside other bytes: PLAIN, SCRAM's four messages, OAUTHBEARER.
_INSIDE = re.compile(
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
    """True if a message of the client, by itself, could be a raw token: no known API and version, and no more zero
    bytes than in a token. `header`: its header if it were a request."""
    return not is_known(header) and len(raw) >= SHORTEST_PLAIN and raw.count(0) <= PLAIN_ZEROS


class Tokens:
    """Tracks whether messages without a Kafka header may be under way on a connection.

    After a SaslHandshake v0 request both sides send raw tokens: a size and bytes. Whether the handshake was accepted
    may not be known, and on a connection that was not seen from its start not even whether there was one (`unseen`).
    Where tokens are possible, a message of the client counts as a request only if it fits a known version to its last
    byte.
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
        """The client asked to send tokens, or sends them unasked (GSSAPI)."""
        self.mechanism = mechanism
        self.possible = self.replies = True
        self._unseen = self._refused = False
        self._left = CLIENT_TOKENS.get(mechanism or "", AS_MANY_AS_IT_TAKES)

    def lose(self) -> None:
        """Bytes of the client were lost: it may have asked to send tokens."""
        self.possible = self.replies = self._unseen = True
        self._refused = False
        self._left = AS_MANY_AS_IT_TAKES

    def is_token(self, raw: bytes, complete: bool, header: RequestHeader | None) -> bool:
        """True if a message of the client is a token. `header`: its header if it were a request, or None."""
        if not self.possible:
            # It makes no sense as a request; if it is a token, to show it would give a password away.
            return header is not None and may_be_token(raw, header)
        if self._unseen and not complete:
            # Not even the message boundary is known: the bytes taken for a size may be a part of a token.
            return False
        if header is None or raw.count(0) <= PLAIN_ZEROS:
            return True
        if self._refused:
            return False
        if is_known(header):
            return complete and not is_body(
                header.api_key, header.api_version, REQUEST, raw, header.body_start, len(raw)
            )
        # The first request of clients of future releases (KIP-511).
        return not (self._unseen and header.api_key == API_VERSIONS and is_text(header.client_id))

    def after_token(self) -> None:
        """The client sent a token."""
        if self._left > 0:
            self._left -= 1
            self.possible = self._left > 0

    def after_request(self) -> None:
        """The client sent a request: it is done with tokens."""
        self.possible = False

    def after_answer(self, api_key: int | None, api_version: int | None, raw: bytes) -> None:
        """The broker answered a request of this API and version (None: a token)."""
        if api_key == SASL_HANDSHAKE and api_version == 0:
            error = raw[4:6]
            self._refused = len(error) == 2 and error != b"\0\0"
            self.replies = not self._refused
        elif api_key is not None:
            self.replies = False

    def is_reply(self, raw: bytes, complete: bool, found: list[Candidate]) -> bool:
        """True if a message of the broker that no request waits for is a token. `found`: the responses it could be."""
        return self.replies and len(raw) <= TRIED_BYTES and not found and (complete or not self._unseen)

    def after_orphan(self, raw: bytes) -> None:
        """The broker answered a request that was not captured: it may have been a handshake."""
        self.replies = is_body(SASL_HANDSHAKE, 0, RESPONSE, raw, 4, len(raw))
