"""Request and response headers: the version that goes with each message, and a fast path for reading them.

Source: KIP-482 (tagged fields in header v2 and v1), KIP-511 (ApiVersions' response header stays v0).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol.primitives import DECODE_FAILURES, skip_tags, uvarint
from kinspect.protocol.schema import header_version, layout

_START: Final = struct.Struct(">hhi")
_LENGTH: Final = struct.Struct(">h")
_CORRELATION_ID: Final = struct.Struct(">i")

# From this version on the header ends in a tagged section.
TAGGED: Final = {REQUEST: 2, RESPONSE: 1}


class RequestHeader(NamedTuple):
    """Fields of a request's header. `body_start`: index of the body's first byte in the data."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_start: int


class ResponseHeader(NamedTuple):
    """Field of a response's header. `body_start`: index of the body's first byte in the data."""

    correlation_id: int
    body_start: int


def request_header(data: bytes, start: int, end: int) -> RequestHeader | None:
    """Header of the request that begins at `start` (after its size); None if the bytes do not fit.

    The header of an unknown API or version may be taken for one without tagged fields. In a client id that is not
    UTF-8, invalid bytes become U+FFFD.
    """
    body_start = start + 8
    if body_start > end:
        return None
    api_key, api_version, correlation_id = _START.unpack_from(data, start)
    version = header_version(api_key, api_version, REQUEST)
    client_id = None
    if version:
        if body_start + 2 > end:
            return None
        (size,) = _LENGTH.unpack_from(data, body_start)
        body_start += 2
        if size >= 0:
            stop = body_start + size
            if stop > end:
                return None
            client_id = data[body_start:stop].decode("utf-8", "replace")
            body_start = stop
        elif size != -1:
            return None
    if version >= TAGGED[REQUEST]:
        after = _skip_tags(data, body_start, end)
        if after is None and layout(api_key, api_version, REQUEST) is not None:
            return None
        # In an unknown version, something other than a tagged section may follow the client id.
        body_start = body_start if after is None else after
    return RequestHeader(api_key, api_version, correlation_id, client_id, body_start)


def response_header(
    data: bytes, start: int, end: int, api_key: int, api_version: int
) -> ResponseHeader | None:
    """Header of a response to a request of `api_key` and `api_version`; None if the bytes do not fit."""
    body_start = start + 4
    if body_start > end:
        return None
    (correlation_id,) = _CORRELATION_ID.unpack_from(data, start)
    if header_version(api_key, api_version, RESPONSE) >= TAGGED[RESPONSE]:
        after = _skip_tags(data, body_start, end)
        if after is None:
            return None
        body_start = after
    return ResponseHeader(correlation_id, body_start)


def _skip_tags(data: bytes, pos: int, end: int) -> int | None:
    """Position of the body after the header's tagged section; None if that does not fit."""
    if pos >= end:
        return None
    count = data[pos]
    pos += 1
    if count:
        try:
            if count > 127:
                count, pos = uvarint(data, pos, count)
            pos = skip_tags(data, pos, end, count)
        except DECODE_FAILURES:
            return None
    return pos if pos <= end else None
