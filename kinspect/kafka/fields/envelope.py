"""Contents of an Envelope: another client's request, its response, the client's principal and address (KIP-590)."""

from __future__ import annotations

from typing import Any, NamedTuple

from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol import Decoded, RequestHeader, decode_body, request_header, response_header
from kinspect.protocol.apikeys import ENVELOPE
from kinspect.records.recordvalues import read_prefixed


class InnerMessage(NamedTuple):
    """A message inside an Envelope that could be read to its last byte; `header` is its request's."""

    header: RequestHeader
    decoded: Decoded


def inner_request(data: bytes) -> InnerMessage | None:
    """The request in `request_data`; None if it does not parse exactly."""
    header = request_header(data, 0, len(data))
    return None if header is None else _inner(header, REQUEST, data, header.body_start)


def inner_response(request_data: bytes | None, data: bytes) -> InnerMessage | None:
    """The response in `response_data`, laid out as the request in the Envelope's `request_data` says."""
    header = None if request_data is None else request_header(request_data, 0, len(request_data))
    if header is None:
        return None
    own = response_header(data, 0, len(data), header.api_key, header.api_version)
    return None if own is None else _inner(header, RESPONSE, data, own.body_start)


def _inner(header: RequestHeader, direction: str, data: bytes, start: int) -> InnerMessage | None:
    # Envelopes do not nest, and hostile ones shall not make the reader recurse.
    if header.api_key == ENVELOPE:
        return None
    decoded = decode_body(header.api_key, header.api_version, direction, data, start, len(data))
    return InnerMessage(header, decoded) if decoded.complete and not decoded.problems else None


def principal(data: bytes | None) -> dict[str, Any] | None:
    """`version`, `type`, `name`, `token_authenticated`; None for the format of a custom principal builder."""
    found = read_prefixed(("DefaultPrincipalData",), data) if data else None
    return None if found is None else {"version": found["version"], **found["data"]}


def address(data: bytes | None) -> str | None:
    """4 or 16 address bytes as text."""
    if data is None or len(data) not in (4, 16):
        return None
    from ipaddress import ip_address

    return str(ip_address(data))
