"""Public forms of a message: decoding of a frame's bytes to a `Message`, and encoding back to the same bytes.

Source: Kafka protocol guide; KIP-482 (flexible versions, tagged fields), KIP-511 (ApiVersions of unknown versions).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinspect.errors import DecodeError, KinspectError
from kinspect.model import REQUEST, RESPONSE, Problem
from kinspect.protocol import compiler, interpreter, schema
from kinspect.protocol.bodies import decode_body
from kinspect.protocol.memory import MAX_MEMORY
from kinspect.protocol.primitives import DECODE_FAILURES
from kinspect.protocol.projection import Body
from kinspect.protocol.schema import Layout

_NOT_DECODABLE = ("cap", "malformed", "unknown_api", "unknown_version")


class EncodeError(KinspectError):
    """A message that cannot be encoded: its API or version is unknown, or a value does not fit its field."""


@dataclass(slots=True)
class Message:
    """One request or response.

    `body` maps Kafka's field names in snake case to bool, int, float, str (also for UUIDs), bytes, None, lists and
    dicts. `client_id` is a request's, None in responses. `api` is the API's name, looked up by the key. `direction` is
    `request` or `response`. `layout` names an early-access layout ("3.5–3.6"), None is the stable one. `body_version`
    is the version of the body where it differs from `api_version`: a broker answers ApiVersions requests of unknown
    versions in version 0. `trailing` holds the bytes after the last field; `unknown_tagged_fields` are the header's, as
    dicts of tag and bytes. `problems` are surplus bytes and texts that are not UTF-8.
    """

    api_key: int
    api_version: int
    correlation_id: int
    body: Body
    client_id: str | None = None
    api: str | None = None
    direction: str = REQUEST
    layout: str | None = None
    body_version: int | None = None
    trailing: bytes = b""
    unknown_tagged_fields: list[dict[str, Any]] = field(default_factory=list)
    problems: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        if self.api is None:
            self.api = schema.api_name(self.api_key)


def decode_request(frame: bytes, *, max_memory: int = MAX_MEMORY) -> Message:
    """Decode a request. Any bytes give a `Message` or a DecodeError.

    `frame`: header and body, without the 4-byte size. `max_memory`: limit on the memory of the decoded body in bytes,
    by an estimate. Surplus bytes and text that is not UTF-8 are no error but `problems` of the message.

    Raises `DecodeError` for an unknown API or version, for bytes that do not fit the layout, and above `max_memory`.
    Its `body` has the fields up to there.
    """
    data = bytes(frame)
    if len(data) < 4:
        raise DecodeError(f"a request has a header of at least 8 bytes, not {len(data)}")
    api_key, api_version = (int.from_bytes(data[at : at + 2], "big", signed=True) for at in (0, 2))
    return _decode(data, api_key, api_version, REQUEST, max_memory)


def decode_response(frame: bytes, api_key: int, api_version: int, *, max_memory: int = MAX_MEMORY) -> Message:
    """Decode a response to a request of that API and version, which a response does not name itself.

    Otherwise like `decode_request`.
    """
    return _decode(bytes(frame), api_key, api_version, RESPONSE, max_memory)


def _decode(data: bytes, api_key: int, api_version: int, direction: str, max_memory: int) -> Message:
    header, start, header_problems = _decode_header(data, api_key, api_version, direction)
    decoded = decode_body(
        api_key, api_version, direction, data, start, len(data), base=0, max_memory=max_memory
    )
    for problem in decoded.problems:
        if problem.code in _NOT_DECODABLE:
            raise DecodeError(
                problem.message,
                offset=start if problem.offset is None else problem.offset,
                path=problem.path,
                body=decoded.body,
                api_key=api_key,
                api_version=api_version,
            )
    if decoded.body is None or decoded.layout is None:
        raise DecodeError("no layout", offset=start, api_key=api_key, api_version=api_version)
    surplus = sum(problem.bytes or 0 for problem in decoded.problems if problem.code == "trailing_bytes")
    return Message(
        api_key=api_key,
        api_version=api_version,
        correlation_id=header["correlation_id"],
        body=decoded.body,
        client_id=header.get("client_id"),
        direction=direction,
        layout=decoded.layout.label,
        body_version=None if decoded.layout.version == api_version else decoded.layout.version,
        trailing=data[len(data) - surplus :],
        unknown_tagged_fields=header.get("unknown_tagged_fields", []),
        problems=header_problems + decoded.problems,
    )


def _decode_header(
    data: bytes, api_key: int, api_version: int, direction: str
) -> tuple[Body, int, tuple[Problem, ...]]:
    """Values of the header, position of the body, and problems in the header's text."""
    layout = schema.header_layout(direction, schema.header_version(api_key, api_version, direction))
    try:
        values, start = compiler.decoder(layout)(data, 0, len(data))
    except DECODE_FAILURES:
        reading = interpreter.interpret(layout, data, 0, len(data))
        if reading.failure:
            offset, path, reason = reading.failure
            raise DecodeError(
                f"{direction} header does not fit at {path}: {reason}",
                offset=offset,
                path=path,
                api_key=api_key,
                api_version=api_version,
            ) from None
        return reading.body, reading.end, reading.problems
    return values, start, ()


def encode_request(message: Message) -> bytes:
    """Bytes of a request: header and body, without the 4-byte size.

    Fields that the body lacks take Kafka's defaults. Raises `EncodeError` for an unknown API, version or `layout`, and
    for a value that does not fit its field.
    """
    return _encode(message, REQUEST)


def encode_response(message: Message) -> bytes:
    """Bytes of a response: header and body, without the 4-byte size. Otherwise like `encode_request`."""
    return _encode(message, RESPONSE)


def _encode(message: Message, direction: str) -> bytes:
    version = message.api_version
    header = schema.header_layout(direction, schema.header_version(message.api_key, version, direction))
    values = {
        "request_api_key": message.api_key,
        "request_api_version": version,
        "correlation_id": message.correlation_id,
        "client_id": message.client_id,
        "unknown_tagged_fields": message.unknown_tagged_fields,
    }
    body = encode_body(_layout(message, direction), message.body)
    return encode_body(header, values) + body + message.trailing


def encode_body(layout: Layout, body: Body) -> bytes:
    """Bytes of a body in one layout. Raises `EncodeError` for a value that does not fit its field."""
    try:
        return compiler.encoder(layout)(body)
    # Values of wrong types raise various exceptions.
    except Exception as error:
        raise EncodeError(f"{layout.name} version {layout.version} cannot be written: {error}") from error


def _layout(message: Message, direction: str) -> Layout:
    version = message.api_version if message.body_version is None else message.body_version
    for layout in schema.layouts(message.api_key, version, direction):
        if layout.label == message.layout:
            return layout
    label = f" of {message.layout}" if message.layout else ""
    raise EncodeError(f"no layout known of a {direction} of API {message.api_key} version {version}{label}")
