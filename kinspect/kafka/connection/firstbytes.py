"""Which protocol the first bytes of a direction are of: those that reach a Kafka port by mistake."""

from __future__ import annotations

import re
from typing import Final

LOOKED_AT: Final = 8
"""Bytes that are looked at; four of them tell most protocols."""
LOST: Final = b"\xff" * LOOKED_AT
"""What stands for bytes that are missing: no protocol goes on with it."""

# Not what others begin with, too: "220 " is FTP's greeting as well, PostgreSQL's startup message like Kafka's Metadata.
_PATTERNS: Final = {
    "tls": rb"[\x14-\x17]\x03[\x00-\x04]",
    "http2": rb"PRI ",
    "http": rb"HTTP|GET |HEAD|POST|PUT |DELE|OPTI|PATC|CONN|TRAC",
    "ssh": rb"SSH-",
    "proxy": rb"PROX|\r\n\r\n\x00\r\nQ",
    "amqp": rb"AMQP",
    "mqtt": rb"\x10[\s\S]\x00\x04MQTT",
    "redis": rb"\*\d\r\n|PING",
    "postgresql": rb"\x00\x00\x00\x08\x04\xd2\x16\x2f",
    "smtp": rb"EHLO|HELO",
    "zookeeper": rb"ruok|stat|srvr|mntr|imok",
}
_PROTOCOL: Final = re.compile(b"|".join(b"(%s)" % pattern for pattern in _PATTERNS.values()))
_NAMES: Final = list(_PATTERNS)


def protocol_of(data: bytes) -> str | None:
    """The protocol that a stream begins with, in lower case; None if it is none that is known."""
    found = _PROTOCOL.match(data)
    return None if found is None or found.lastindex is None else _NAMES[found.lastindex - 1]
