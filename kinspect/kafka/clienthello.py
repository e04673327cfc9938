"""Who a TLS client wants to talk to: server name and ALPN of a ClientHello (RFC 8446 §4.1.2, RFC 6066, RFC 7301)."""

from __future__ import annotations

from typing import NamedTuple

HANDSHAKE = 22
CLIENT_HELLO = 1
RECORD_HEADER = 5
SERVER_NAME, ALPN = 0, 16


class ClientHello(NamedTuple):
    """What a ClientHello tells: `server_name` (SNI) and the offered `alpn` protocols."""

    server_name: str | None
    alpn: tuple[str, ...]


def looks_like_tls(data: bytes) -> bool:
    """Whether the first bytes of a stream are a TLS handshake record with a ClientHello."""
    return len(data) > RECORD_HEADER and data[0] == HANDSHAKE and data[1] == 3 and data[5] == CLIENT_HELLO


def parse_client_hello(data: bytes) -> ClientHello:
    """Read the ClientHello at the start of a stream, as far as it is there; what is not is None or empty."""
    name: str | None = None
    protocols: tuple[str, ...] = ()
    # Record header, handshake header (type, 3-byte length), version and random, then three sized lists.
    position = RECORD_HEADER + 4 + 34
    try:
        position += 1 + data[position]
        position += 2 + int.from_bytes(data[position : position + 2])
        position += 1 + data[position]
    except IndexError:
        return ClientHello(None, ())
    position += 2
    while position + 4 <= len(data):
        kind = int.from_bytes(data[position : position + 2])
        size = int.from_bytes(data[position + 2 : position + 4])
        body = data[position + 4 : position + 4 + size]
        position += 4 + size
        if kind == SERVER_NAME and len(body) > 5:
            name = body[5 : 5 + int.from_bytes(body[3:5])].decode("ascii", "replace")
        elif kind == ALPN:
            protocols = _alpn(body)
    return ClientHello(name, protocols)


def _alpn(body: bytes) -> tuple[str, ...]:
    names, position = [], 2
    while position < len(body):
        size = body[position]
        names.append(body[position + 1 : position + 1 + size].decode("ascii", "replace"))
        position += 1 + size
    return tuple(names)
