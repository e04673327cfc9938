"""Recognition of Kafka by its bytes alone: there is no list of ports.

A request counts as Kafka's if its size, API key and version make sense, its client id is text that lies within it,
and its whole body fits a layout of that version to the last byte. Where that says little (a body of a few bytes, no
client id) or does not hold (an unknown API or version, a malformed request), the next request or the broker's answer
decides: the same correlation id, and a body that fits.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from kinspect.kafka.fields.entities import is_error_code, is_partition
from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol import (
    Decoded,
    RequestHeader,
    decode_body,
    fits,
    request_header,
    response_header,
    schema,
)
from kinspect.protocol.apikeys import PRODUCE, SASL_HANDSHAKE
from kinspect.protocol.fieldpaths import field_paths
from kinspect.protocol.schema import Layout

if TYPE_CHECKING:
    from kinspect.protocol.interpreter import ReadResult

MIN_REQUEST: Final = 8  # key, version, correlation id: request header v0
_HEAD: Final = Struct(">ihhi")
_KEYS: Final = Struct(">hhi")
MAX_CLIENT_ID: Final = 1024
# Beginning of a possible request, from its API key on: an API key below 128, a version below 32, any correlation id,
# and a client id below 1 KiB or null. A pattern that begins with a single byte is searched fifty times as fast.
_REQUEST_KEY: Final = re.compile(rb"\x00(?=[\x00-\x7f]\x00[\x00-\x1f][\s\S]{4}(?:[\x00-\x03]|\xff\xff))")
# The same with a client id that is no control character.
_NAMED_KEY: Final = re.compile(rb"\x00(?=[\x00-\x7f]\x00[\x00-\x1f][\s\S]{4}[\x00-\x03][\s\S][\x20-\xff])")
START_BYTES: Final = 15
"""Bytes by which the beginning of a request is known."""
# Places looked at in a search for the response to a request: in hostile data its id may stand everywhere.
_PLACES: Final = 1024
_not_zero: Final = re.compile(rb"[^\0]").search
_LARGEST_SIZE_BYTE: Final = 7  # a size below 128 MiB
_GSSAPI_TAG: Final = b"\x60"
# Bytes that hold a token's tag, length, OID and kind.
MIN_GSSAPI: Final = 24
# A known mechanism's first GSSAPI token (RFC 2743 §3.1): application tag, DER length, the mechanism's OID.
_GSSAPI_OIDS: Final = (bytes.fromhex("06092a864886f712010202"), bytes.fromhex("06062b0601050502"))
# Tokens that begin like it but are never the first: a reply, an error, MIC, Wrap and Delete (RFC 1964 §1.1, §1.2).
_LATER_TOKENS: Final = (b"\x02\x00", b"\x03\x00", b"\x01\x01", b"\x02\x01", b"\x01\x02")
# Limits on unknown API keys and versions, far above Kafka's. Larger keys, which forks have, need a plain client id and
# a whole answer.
MAX_UNKNOWN_KEY: Final = 1_000
MAX_UNKNOWN_VERSION: Final = 127
SURPLUS_BYTES: Final = 8  # zeros that clients are known to append to a request (facts in docs/recognition.md)

# Fewest bytes of client id and body (only of the body, if the client id is no text) with which a single request is
# proof. A plain client id is proof too.
PROOF_BYTES: Final = 8
PROOF_BODY_BYTES: Final = 16
# Clients count from 0 or 1, or begin with a small number.
MAX_FIRST_ID: Final = 0xFFFF
# Bytes of an unfinished body that are read, and the limit on the memory of the result.
_BEGINNING_BYTES: Final = 4096
_BEGINNING_MEMORY: Final = 1 << 20
REPLACEMENT: Final = "\ufffd"
MIN_PLAIN_ID: Final = 4
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9._-]{4,}")
_CLIENT_ID_SIZE: Final = 12  # where the size of a request's client id stands
_CLIENT_ID: Final = _CLIENT_ID_SIZE + 2

_RAW_TOKENS_FOLLOW: Final = _KEYS.pack(SASL_HANDSHAKE, 0, 0)[:4]
_DAY: Final = 24 * 3600 * 1000
_FOREVER: Final = 0x7FFFFFFF  # milliseconds
# Values that clients send in a Produce. acks: since 0.9 a broker refuses others (INVALID_REQUIRED_ACKS, KAFKA-1555).
PRODUCED: Final = {"acks": (-1, 1), "timeout_ms": (-1, _DAY)}
# Values that clients send in any request, checked only of incomplete ones: these prove less.
REQUESTED: Final = {
    **PRODUCED,
    "replica_id": (-2, 1 << 24),
    "max_wait_ms": (0, _DAY),
    "isolation_level": (0, 1),
}
# Limit on the partitions of a topic: whole clusters have fewer.
_MOST_PARTITIONS: Final = 1 << 21
# A broker throttles for a quota's window, seconds by default.
MAX_THROTTLE: Final = _DAY

YES: Final = "yes"
NO: Final = "no"
MAYBE: Final = "maybe"


def is_body(api_key: int, api_version: int, direction: str, data: bytes, start: int, end: int) -> bool:
    """True if `data[start:end]` is exactly one body of that API and version."""
    decoded = decode_body(api_key, api_version, direction, data, start, end)
    return _is_exact(decoded, api_key, api_version, direction, data, start, end)


def _is_exact(
    decoded: Decoded, api_key: int, api_version: int, direction: str, data: bytes, start: int, end: int
) -> bool:
    """`is_body` for a body that was decoded already."""
    if any(problem.code == "cap" for problem in decoded.problems):
        # It is larger than is decoded at once.
        return fits(api_key, api_version, direction, data, start, end)
    return decoded.complete and not decoded.problems


def is_text(client_id: str | None) -> bool:
    """True for a client id that a person or a program would choose: not empty, printable, and valid UTF-8."""
    return (
        client_id is not None and client_id != "" and client_id.isprintable() and REPLACEMENT not in client_id
    )


def is_plain_client_id(client_id: str | None) -> bool:
    """True for a client id of four or more letters, digits, dots, dashes and underscores, as nearly all are."""
    return client_id is not None and _PLAIN_ID.fullmatch(client_id) is not None


def first_request(data: bytes, message_bytes: int, final: bool, opened: bool, gap: bool = False) -> str:
    """Verdict on the beginning of the client's stream `data` as a Kafka request: `yes`, `no` or `maybe`.

    `maybe`: the header could be Kafka's, but either more bytes are needed or only the broker's response can show it.
    With `final` no more bytes will come, or there is a `gap` behind them. Then the beginning of a request is enough if
    it fits, and so is a short request if this side was seen to have `opened` the connection.
    """
    final = final or gap
    if len(data) < _HEAD.size:
        plausible_size = len(data) < 4 or 0 <= int.from_bytes(data[:4], signed=True) <= message_bytes
        return NO if final or not plausible_size else MAYBE
    size, key, version, _ = _HEAD.unpack_from(data)
    if not MIN_REQUEST <= size <= message_bytes:
        return NO
    if data[4:5] == _GSSAPI_TAG:
        if not final and len(data) < 4 + MIN_GSSAPI:
            return MAYBE
        return YES if is_gssapi_token(data) else NO
    if key < 0 or not 0 <= version <= MAX_UNKNOWN_VERSION:
        return NO
    if key > MAX_UNKNOWN_KEY and not _begins_with_plain_id(data):
        return NO
    end = 4 + size
    known = schema.layout(key, version, REQUEST) is not None
    if len(data) < end:
        header = cut_header(data, 4)
        if header is None:
            # A request of an unknown version can be recognised only as a whole.
            return NO if final or known else MAYBE
        return YES if final and _begins_well(header, data, end, gap) else MAYBE
    header = request_header(data, 4, end)
    if header is None:
        return NO
    sound = known and is_sound(header, data, end, opened)
    if sound and (_is_proof(header, end) or (final and opened and _is_usual(header))):
        return YES
    if not sound and not is_text(header.client_id):
        return NO
    # The next request, as soon as it is whole: the data behind it may not be there yet.
    following = end + announced_bytes(data[end : end + 4])
    if end + _HEAD.size <= following <= len(data):
        return YES if request_at(data[:following], end, message_bytes, header.client_id) == YES else MAYBE
    return MAYBE


def _begins_with_plain_id(data: bytes) -> bool:
    """True if a request's client id is plain, as far as it is there."""
    there = data[_CLIENT_ID : _CLIENT_ID + int.from_bytes(data[_CLIENT_ID_SIZE:_CLIENT_ID])]
    if len(there) < MIN_PLAIN_ID:
        return len(data) < _CLIENT_ID + MIN_PLAIN_ID
    return is_plain_client_id(there.decode("latin-1"))


def cut_header(data: bytes, start: int) -> RequestHeader | None:
    """The header of a request of a known version whose bytes end early, with as much of `client_id` as there is.

    None if the bytes cannot be such a header.
    """
    if len(data) < start + MIN_REQUEST:
        return None
    key, version, correlation_id = _KEYS.unpack_from(data, start)
    if schema.layout(key, version, REQUEST) is None:
        return None
    whole = request_header(data, start, len(data))
    if whole is not None:
        return whole
    text = start + MIN_REQUEST + 2
    size = int.from_bytes(data[text - 2 : text], signed=True)
    if not -1 <= size <= MAX_CLIENT_ID:
        return None
    client_id = _beginning_text(data[text : text + max(size, 0)])
    return RequestHeader(key, version, correlation_id, client_id, len(data))


def is_sound(header: RequestHeader, data: bytes, end: int, sent: bool = True) -> bool:
    """True if a request of a known version is one that clients send: its body fits, and its values make sense. `sent`:
    it is from a client, if it is a request."""
    decoded = decode_body(header.api_key, header.api_version, REQUEST, data, header.body_start, end)
    if header.api_key == PRODUCE and not _makes_sense(decoded.body, PRODUCED):
        return False
    if header.api_key == PRODUCE and not sent and decoded.body and not decoded.body.get("topic_data"):
        # Responses of old brokers read like a Produce of nothing.
        return False
    if _is_exact(decoded, header.api_key, header.api_version, REQUEST, data, header.body_start, end):
        return is_text(header.client_id) or header.api_key != PRODUCE or header.correlation_id != 0
    if not decoded.complete or not is_text(header.client_id):
        return False
    surplus = sum(p.bytes or 0 for p in decoded.problems if p.code == "trailing_bytes")
    return 0 < surplus <= SURPLUS_BYTES and not any(data[end - surplus : end])


def _makes_sense(body: dict[str, Any] | None, ranges: dict[str, tuple[int, int]]) -> bool:
    """True if the numbers in a body are in the ranges that clients send."""
    if body is not None:
        for name, (least, most) in ranges.items():
            value: int = body.get(name, least)
            if not least <= value <= most and value != _FOREVER:
                return False
    return True


def _is_proof(header: RequestHeader, end: int) -> bool:
    """True if a sound request could hardly be anything else."""
    body = end - header.body_start
    client_id = header.client_id
    if client_id is None or not is_text(client_id):
        return body >= PROOF_BODY_BYTES
    return body + len(client_id) >= PROOF_BYTES or is_plain_client_id(client_id)


def _is_usual(header: RequestHeader) -> bool:
    """True if a client may begin with such a header, which alone is no proof."""
    return 0 <= header.correlation_id <= MAX_FIRST_ID and (not header.client_id or is_text(header.client_id))


def _begins_well(header: RequestHeader, data: bytes, end: int, gap: bool) -> bool:
    """True if the beginning of a request that ends at `end` could hardly be anything else."""
    client_id = header.client_id
    if client_id is None or not is_text(client_id):
        return False
    if header.body_start == len(data):
        # A snap length cuts like this. Bytes behind a whole client id belong to the body.
        is_last = len(data) <= 4 + MIN_REQUEST + 2 + int.from_bytes(data[12:14])
        return (
            gap
            and is_last
            and len(client_id) >= PROOF_BYTES
            and is_plain_client_id(client_id)
            and _is_usual(header)
        )
    return any(
        _begins_body(header, layout, data, end, gap)
        for layout in schema.layouts(header.api_key, header.api_version, REQUEST)
    )


def _begins_body(header: RequestHeader, layout: Layout, data: bytes, end: int, gap: bool) -> bool:
    """True if the beginning of a body that ends at `end` fits a layout, and holds enough."""
    reading = _beginning(layout, data, header.body_start, end, REQUESTED)
    if reading is None:
        return False
    read = reading.end - header.body_start
    rest = data[reading.end : header.body_start + _BEGINNING_BYTES]
    if rest and is_text(_beginning_text(rest)):
        return read > 0 and len(header.client_id or "") + read + len(rest) >= PROOF_BYTES
    if gap and read and _is_usual(header) and is_plain_client_id(header.client_id):
        # As a snap length cuts.
        name = len(header.client_id or "")
        return name >= PROOF_BYTES or name + read >= PROOF_BODY_BYTES
    # The bytes that are cut are no text, or there are none: then there must be text before them.
    return read >= PROOF_BODY_BYTES and _holds_text(reading.body)


def _beginning(
    layout: Layout, data: bytes, start: int, end: int, ranges: dict[str, tuple[int, int]]
) -> ReadResult | None:
    """The beginning of a body that ends at `end`, read; None if it does not fit, has values outside `ranges`, or names
    partitions that no topic has."""
    from kinspect.protocol.interpreter import interpret

    part = data[: start + _BEGINNING_BYTES]
    reading = interpret(layout, part, start, end, max_memory=_BEGINNING_MEMORY)
    if not (reading.cut or reading.full) or reading.problems or not _makes_sense(reading.body, ranges):
        return None
    partitions = field_paths(layout, is_partition).walk(reading.body or {})
    if not all(0 <= struct[name] < _MOST_PARTITIONS for _, struct, name in partitions):
        return None
    return reading


def _holds_text(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_text, value.values()))
    if isinstance(value, list):
        return any(map(_holds_text, value))
    return isinstance(value, str) and is_text(value)


def _beginning_text(data: bytes) -> str:
    """`data` as the beginning of a text whose last character may be cut."""
    return getincrementaldecoder("utf-8")("replace").decode(data)


def response_places(data: bytes, correlation_id: int) -> Iterator[int]:
    """Offsets at which the response with this id may begin, in their order."""
    needle = correlation_id.to_bytes(4, signed=True)
    at = data.find(needle, 4)
    for _ in range(_PLACES):
        if at < 0:
            return
        yield at - 4
        if correlation_id or data[at - 4 : at] != needle:
            at += 1
        else:
            # Payload may be nothing but zeros.
            behind = _not_zero(data, at)
            at = behind.end() if behind is not None else len(data)
        at = data.find(needle, at)


def answered_in(data: bytes, request: bytes) -> bool:
    """True if the response to the first request, which is whole and of a known version, is anywhere in the stream."""
    _, key, version, correlation_id = _HEAD.unpack_from(request)
    for offset in response_places(data, correlation_id):
        start, end = offset + 4, offset + 4 + int.from_bytes(data[offset : offset + 4], signed=True)
        if start + 4 <= end <= len(data):
            own = response_header(data, start, end, key, version)
            if own is not None and fits_a_broker(key, version, data, own.body_start, end):
                return True
    return False


def answers(request: bytes, response: bytes, final: bool) -> bool:
    """True if the first response answers the first request: the same correlation id, and a body that fits.

    With `final` no more bytes will come, and the beginning of a response is enough if the request is whole and fits, or
    has a plain client id and the beginnings of both fit: a snap length cuts both. For an unknown API or version the
    header and the size are enough if the request has a client id. A request that is not whole must have one too.
    """
    if not _both_begin(request, response) or request[8:12] != response[4:8]:
        return False
    size, key, version, _ = _HEAD.unpack_from(request)
    asked, end = 4 + size, 4 + int.from_bytes(response[:4], signed=True)
    header = request_header(request, 4, asked) if len(request) >= asked else cut_header(request, 4)
    if header is None or end < 8:
        return False
    if len(request) < asked and not is_text(header.client_id):
        return False
    there = len(response) >= end
    if there:
        own = response_header(response, 4, end, key, version)
        if own is not None and fits_a_broker(key, version, response, own.body_start, end):
            return True
    if len(request) < asked:
        return final and not there and _beginnings_fit(header, request, asked, response, end)
    if schema.layout(key, version, REQUEST) is not None:
        return final and not there and is_sound(header, request, asked)
    if key > MAX_UNKNOWN_KEY and not there:
        return False
    # Zeros stand in the same place in many protocols.
    named = (
        is_plain_client_id(header.client_id) if schema.api_name(key) is None else is_text(header.client_id)
    )
    return (there or final) and named and header.correlation_id != 0


def _beginnings_fit(header: RequestHeader, request: bytes, asked: int, response: bytes, end: int) -> bool:
    """True if the beginnings of a request that ends at `asked` and of a possible answer that ends at `end` fit."""
    key, version = header.api_key, header.api_version
    # Zeros stand in the same place in many protocols.
    name = len(header.client_id or "")
    if not is_plain_client_id(header.client_id) or (header.correlation_id == 0 and name < PROOF_BYTES):
        return False
    own = response_header(response, 4, len(response), key, version)
    return (
        own is not None
        and any(
            _beginning(layout, request, header.body_start, asked, REQUESTED) is not None
            for layout in schema.layouts(key, version, REQUEST)
        )
        and any(
            reading is not None and reading.end > own.body_start and _is_sensible(layout, reading.body)
            for layout in schema.layouts(key, version, RESPONSE)
            for reading in (_beginning(layout, response, own.body_start, end, {}),)
        )
    )


def fits_a_broker(api_key: int, api_version: int, data: bytes, start: int, end: int) -> bool:
    """True if `data[start:end]` is a response's body of that API and version, with only values that a broker would
    send."""
    decoded = decode_body(api_key, api_version, RESPONSE, data, start, end)
    if decoded.layout is not None and not _is_sensible(decoded.layout, decoded.body or {}):
        return False
    return _is_exact(decoded, api_key, api_version, RESPONSE, data, start, end)


def _is_sensible(layout: Layout, body: dict[str, Any]) -> bool:
    """True if a body has only error codes of Kafka's and a plausible throttle time."""
    if not 0 <= body.get("throttle_time_ms", 0) <= MAX_THROTTLE:
        return False
    codes = field_paths(layout, is_error_code).walk(body)
    return all(struct[name] in schema.errors() for _, struct, name in codes)


def contradicts(request: bytes, response: bytes) -> bool:
    """True if the first response has another correlation id than the first request, and that request is whole."""
    return (
        _both_begin(request, response)
        and request[8:12] != response[4:8]
        and len(request) >= announced_bytes(request)
    )


def _both_begin(request: bytes, response: bytes) -> bool:
    return len(request) >= _HEAD.size and len(response) >= 8


def may_be_refused(data: bytes) -> bool:
    """True if the stream is one request with a plain client id. A broker closes the connection without an answer if it
    does not know the API or the version, or if the body does not fit."""
    if len(data) < _HEAD.size or announced_bytes(data) != len(data):
        return False
    header = request_header(data, 4, len(data))
    return header is not None and header.api_key <= MAX_UNKNOWN_KEY and is_plain_client_id(header.client_id)


def announced_bytes(data: bytes) -> int:
    """Announced length of the stream's first message, with its size; 0 if the size is not there."""
    return 4 + int.from_bytes(data[:4]) if len(data) >= 4 else 0


def is_gssapi_token(data: bytes) -> bool:
    """True if the stream's first message is a GSSAPI initial token (brokers 0.9 to 3.9 take it without a handshake)."""
    size = int.from_bytes(data[:4])
    if size < MIN_GSSAPI or data[4:5] != _GSSAPI_TAG:
        return False
    head = data[5 : 4 + MIN_GSSAPI]
    length_bytes = head[0] & 0x7F if head and head[0] & 0x80 else 0
    announced = int.from_bytes(head[1 : 1 + length_bytes]) if length_bytes else int.from_bytes(head[:1])
    mechanism = head[1 + length_bytes :]
    return announced == size - 2 - length_bytes and any(
        mechanism.startswith(oid) and mechanism[len(oid) : len(oid) + 2] not in _LATER_TOKENS
        for oid in _GSSAPI_OIDS
        if len(mechanism) >= len(oid) + 2
    )


def request_starts(data: bytes, named: bool = False) -> list[int]:
    """Offsets at which a request (its 4-byte size) could begin; `named`: one with a client id."""
    keys = (_NAMED_KEY if named else _REQUEST_KEY).finditer(data, 4)
    return [at for match in keys if data[at := match.start() - 4] <= _LARGEST_SIZE_BYTE]


def request_at(data: bytes, offset: int, message_bytes: int, client_id: str | None, seen: bool = True) -> str:
    """Verdict on a request at `offset`: `yes` if its whole body fits, `maybe` if it is not all there, else `no`.

    `client_id` is the connection's, if a request was `seen` on it: a header that repeats it is proof before the
    body is whole. If none was seen, the next message must repeat this request's client id.
    """
    size, key, version, _ = _HEAD.unpack_from(data, offset)
    start, end = offset + 4, offset + 4 + size
    if not MIN_REQUEST <= size <= message_bytes or schema.layout(key, version, REQUEST) is None:
        return NO
    header = request_header(data, start, min(end, len(data)))
    if header is None:
        return NO
    if end <= len(data):
        if not is_sound(header, data, end, seen):
            return NO
        if seen and header.client_id == client_id:
            return YES
        proof = is_text(header.client_id) and _is_proof(header, end) and _repeats_client_id(data, start, end)
        # Surplus zeros are allowed only where a message is known to begin.
        return YES if proof and is_body(key, version, REQUEST, data, header.body_start, end) else NO
    if seen and client_id:
        return YES if header.client_id == client_id else NO
    return MAYBE if is_text(header.client_id) else NO


def requests_follow(data: bytes, offset: int, others: set[int]) -> str:
    """Verdict on what follows the request at `offset`: `no` if a message behind it has another client id, as where
    requests lie in records; `maybe` if the last one is not all there. `others`: offsets from which `no` was reached,
    which are added to."""
    own = data[
        offset + _CLIENT_ID_SIZE : offset + _CLIENT_ID + int.from_bytes(data[offset + 12 : offset + 14])
    ]
    passed = []
    at = offset
    while at not in others:
        size, key, version, _ = _HEAD.unpack_from(data, at)
        passed.append(at)
        if data[at + _CLIENT_ID_SIZE : at + _CLIENT_ID_SIZE + len(own)] != own or size < MIN_REQUEST:
            break
        end = at + 4 + size
        if (
            end + _CLIENT_ID_SIZE + len(own) > len(data)
            or _KEYS.pack(key, version, 0)[:4] == _RAW_TOKENS_FOLLOW
        ):
            return YES if end <= len(data) else MAYBE
        at = end
    others.update(passed)
    return NO


def _repeats_client_id(data: bytes, start: int, end: int) -> bool:
    """True if the message after the request in `data[start:end]` has its client id too, as far as it is there.

    Raw tokens, which have none, follow a SaslHandshake v0.
    """
    if data[start : start + 4] == _RAW_TOKENS_FOLLOW:
        return True
    at = start + MIN_REQUEST
    own = data[at : at + 2 + int.from_bytes(data[at : at + 2])]
    there = data[end + 4 + MIN_REQUEST : end + 4 + MIN_REQUEST + len(own)]
    return own.startswith(there)
