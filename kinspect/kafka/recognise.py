"""Is it Kafka? Told by the bytes alone: there is no list of ports.

A request is taken for Kafka's if its size, API key and version make sense, its client id lies within it, and its whole
body fits a layout of that version to the last byte. Where a body does not fit (an unknown version, surplus bytes, a
malformed request) the broker's answer decides: the same correlation id, and a body that fits.
"""

from __future__ import annotations

import re
from struct import Struct

from kinspect.protocol import (
    Decoded,
    RequestHeader,
    decode_body,
    fits,
    request_header,
    response_header,
    schema,
)

MIN_REQUEST = 8  # key, version, correlation id: request header v0
_HEAD = Struct(">ihhi")
_KEYS = Struct(">hhi")
MAX_CLIENT_ID = 1024
# Whatever could be a request header begins like this: a size below 128 MiB, a known key, a version that exists
# somewhere, any correlation id, and a client id below 1 KiB or null.
_REQUEST_START = re.compile(
    rb"(?=[\x00-\x07][\s\S]{3}\x00[\x00-\x7f]\x00[\x00-\x1f][\s\S]{4}(?:[\x00-\x03]|\xff\xff))"
)
# A known mechanism's first GSSAPI token (RFC 2743 §3.1): application tag, DER length, the mechanism's OID.
_GSSAPI_OIDS = (bytes.fromhex("06092a864886f712010202"), bytes.fromhex("06062b0601050502"))
MAX_UNKNOWN_KEY, MAX_UNKNOWN_VERSION = 10_000, 1_000
SURPLUS_BYTES = 8  # what clients are known to append to a request (facts in docs/recognition.md)

YES, NO, MAYBE = "yes", "no", "maybe"


def is_body(api_key: int, api_version: int, direction: str, data: bytes, start: int, end: int) -> bool:
    """Whether `data[start:end]` is exactly one body of that API and version."""
    decoded = decode_body(api_key, api_version, direction, data, start, end)
    if _is_cut(decoded):
        return fits(api_key, api_version, direction, data, start, end)
    return decoded.complete and not decoded.problems


def _is_cut(decoded: Decoded) -> bool:
    """Whether the body is larger than is decoded at once."""
    return any(problem.code == "cap" for problem in decoded.problems)


def is_text(client_id: str | None) -> bool:
    """A client id that a person or a program would choose: not empty, printable."""
    return client_id is not None and client_id != "" and client_id.isprintable()


def first_request(data: bytes, message_bytes: int, final: bool, opened: bool) -> str:
    """Whether the client's stream `data` begins with a Kafka request: `yes`, `no` or `maybe`.

    `maybe`: the header could be Kafka's, but either more bytes are needed or only the broker's answer can tell.
    With `final` no more bytes will come, and a sound header with a printable client id is enough, unless the body is
    there and does not fit in a stream that was not seen to be `opened` by this side: it may be anything else.
    """
    if len(data) < _HEAD.size:
        plausible_size = len(data) < 4 or 0 <= int.from_bytes(data[:4], signed=True) <= message_bytes
        return NO if final or not plausible_size else MAYBE
    size, key, version, _ = _HEAD.unpack_from(data)
    if not MIN_REQUEST <= size <= message_bytes:
        return NO
    if is_gssapi_token(data):
        return YES
    if not (0 <= key <= MAX_UNKNOWN_KEY and 0 <= version <= MAX_UNKNOWN_VERSION):
        return NO
    end = 4 + size
    if len(data) < end:
        header = cut_header(data, 4)
        if header is None:
            # Of a version nobody knows only the whole message tells.
            return NO if final or schema.layout(key, version, "request") is not None else MAYBE
        return YES if final and is_text(header.client_id) else MAYBE
    header = request_header(data, 4, end)
    if header is None:
        return NO
    if schema.layout(key, version, "request") is not None and _sound(header, data, end):
        return YES
    if final and not opened:
        return NO
    return YES if final and is_text(header.client_id) else MAYBE


def cut_header(data: bytes, start: int) -> RequestHeader | None:
    """The header of a request of a known version whose bytes end early, `client_id` as far as it is there.

    None if what is there cannot be such a header.
    """
    if len(data) < start + MIN_REQUEST:
        return None
    key, version, correlation_id = _KEYS.unpack_from(data, start)
    if schema.layout(key, version, "request") is None:
        return None
    whole = request_header(data, start, len(data))
    if whole is not None:
        return whole
    text = start + MIN_REQUEST + 2
    size = int.from_bytes(data[text - 2 : text], signed=True)
    if not -1 <= size <= MAX_CLIENT_ID:
        return None
    client_id = data[text : text + max(size, 0)].decode("utf-8", "ignore")
    return RequestHeader(key, version, correlation_id, client_id, len(data))


def _sound(header: RequestHeader, data: bytes, end: int) -> bool:
    decoded = decode_body(header.api_key, header.api_version, "request", data, header.body_start, end)
    exact = decoded.complete and not decoded.problems
    if _is_cut(decoded):
        exact = fits(header.api_key, header.api_version, "request", data, header.body_start, end)
    if exact:
        return is_text(header.client_id) or header.api_key != 0 or header.correlation_id != 0
    if not decoded.complete:
        return False
    surplus = sum(p.bytes or 0 for p in decoded.problems if p.code == "trailing_bytes")
    return is_text(header.client_id) and 0 < surplus <= SURPLUS_BYTES


def answers(request: bytes, response: bytes) -> bool:
    """Whether the first response answers the first request: the same correlation id and a body that fits."""
    if len(request) < _HEAD.size or len(response) < 8:
        return False
    _, key, version, correlation_id = _HEAD.unpack_from(request)
    size = int.from_bytes(response[:4], signed=True)
    end = 4 + size
    if size < 4 or len(response) < end or int.from_bytes(response[4:8], signed=True) != correlation_id:
        return False
    header = response_header(response, 4, end, key, version)
    return header is not None and is_body(key, version, "response", response, header.body_start, end)


def announced_bytes(data: bytes) -> int:
    """How long the stream's first message is with its size, as announced; 0 if the size is not there."""
    return 4 + int.from_bytes(data[:4]) if len(data) >= 4 else 0


def is_gssapi_token(data: bytes) -> bool:
    """Whether the stream's first message is a GSSAPI initial token (brokers 0.9 to 3.9 take it without a handshake)."""
    size = int.from_bytes(data[:4])
    if size < 16 or data[4:5] != b"\x60":
        return False
    head = data[5:28]
    length_bytes = head[0] & 0x7F if head and head[0] & 0x80 else 0
    announced = int.from_bytes(head[1 : 1 + length_bytes]) if length_bytes else int.from_bytes(head[:1])
    return announced == size - 2 - length_bytes and head[1 + length_bytes :].startswith(_GSSAPI_OIDS)


def request_starts(data: bytes) -> list[int]:
    """Offsets at which a request (its 4-byte size) could begin."""
    return [match.start() for match in _REQUEST_START.finditer(data)]


def request_at(data: bytes, offset: int, message_bytes: int, client_id: str | None, seen: bool = True) -> str:
    """Whether a request begins at `offset`: `yes` if its whole body fits, `maybe` if it is not all there.

    `client_id` is the connection's, if a request was `seen` on it: a header that repeats it counts as proof before the
    body is whole.
    """
    size, key, version, _ = _HEAD.unpack_from(data, offset)
    start, end = offset + 4, offset + 4 + size
    if not MIN_REQUEST <= size <= message_bytes or schema.layout(key, version, "request") is None:
        return NO
    header = request_header(data, start, min(end, len(data)))
    if header is None:
        return NO
    if end <= len(data):
        known = seen and header.client_id == client_id
        exact = is_body(key, version, "request", data, header.body_start, end)
        return YES if exact and (known or is_text(header.client_id)) else NO
    if seen and client_id:
        return YES if header.client_id == client_id else NO
    return MAYBE if is_text(header.client_id) else NO
