"""`kinspect decode`: one message, each field with the bytes it was read from."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import click

from kinspect.cli import complain
from kinspect.cli.pasted import message_bytes
from kinspect.errors import KinspectError
from kinspect.kafka.exchange import KAFKA, Exchange, WireMessage
from kinspect.kafka.flow import Ends
from kinspect.kafka.names import TopicNames
from kinspect.kafka.view import View
from kinspect.model import REQUEST, RESPONSE, Caps, Counts, Problem
from kinspect.output.escape import escape
from kinspect.output.named import number_name
from kinspect.output.redacted import HIDDEN, STRUCTURE, shown_value
from kinspect.protocol import interpreter, schema
from kinspect.protocol.interpreter import Reading, Span
from kinspect.protocol.schema import Api, Layout
from kinspect.protocol.versions import format_versions

TEXT, JSON = "text", "json"
AUTO, YES, NO = "auto", "yes", "no"
SIZE_BYTES = 4
LEAST_BYTES = {REQUEST: 8, RESPONSE: 4}
"""The fields that every header has."""
API_KEY_BYTES, API_VERSION_BYTES = slice(0, 2), slice(2, 4)
FAILED = 1

# What keeps a message from being read to its end; bytes that are left over do not.
FAILURES = frozenset({"malformed", "unknown_api", "unknown_version"})
_LAST_NAME = re.compile(r"[^.\[\]]+(?=(?:\[\d+\])?$)")


class Parts(NamedTuple):
    """A message taken apart. `header` and `body` are JSON values, the spans of both follow each other."""

    header: dict[str, Any]
    body: dict[str, Any] | None
    header_spans: list[Span]
    body_spans: list[Span]
    layout: Layout | None
    problems: list[Problem]


@click.command()
@click.argument("message", required=False)
@click.option("--file", "path", metavar="FILE", help="Read the message from FILE, as bytes or as text.")
@click.option("--request", is_flag=True, help="The message is a request (the default).")
@click.option("--response", is_flag=True, help="The message is a response: needs --api and --api-version.")
@click.option("--api", metavar="API", help="The API of a response, by name or key.")
@click.option("--api-version", type=int, metavar="N", help="The version of a response.")
@click.option(
    "--size-prefix",
    type=click.Choice([AUTO, YES, NO]),
    default=AUTO,
    help="Whether the message begins with its 4-byte size; auto: if it fits exactly.",
)
@click.option("--show-secrets", is_flag=True, help="Print passwords, tokens and the like.")
@click.option(
    "--format", "format_name", type=click.Choice([TEXT, JSON]), default=TEXT, help="How to print it."
)
def decode(
    message: str | None,
    *,
    path: str | None,
    request: bool,
    response: bool,
    api: str | None,
    api_version: int | None,
    size_prefix: str,
    show_secrets: bool,
    format_name: str,
) -> int:
    """Decode one message, with the offsets of each field.

    MESSAGE is hex or base64; without it the message is read from --file or standard input, as bytes, hex, base64,
    or the dump of hexdump -C, xxd, tcpdump -X, tshark -x or Wireshark.
    """
    if request and response:
        raise click.UsageError("--request and --response exclude each other")
    if message is not None and path is not None:
        raise click.UsageError("give a message or --file, not both")
    if response and (api is None or api_version is None):
        raise click.UsageError("--response needs --api and --api-version: a response does not say what it is")
    if not response and (api is not None or api_version is not None):
        raise click.UsageError("--api and --api-version are for --response: a request says what it is")
    given = _given(message, path, LEAST_BYTES[RESPONSE if response else REQUEST])
    data = _without_size(given, size_prefix)
    known = _known_version(api or "", api_version or 0) if response else None
    wire, header = _message(data, known)
    parts = _take_apart(wire, header, show_secrets)
    click.echo(_json(parts, wire) if format_name == JSON else _text(parts, wire), nl=False)
    if not _failed(parts.problems):
        return 0
    if size_prefix == YES or (size_prefix == AUTO and data is given and _may_have_size(given, known)):
        size, left = _size(given), len(given) - SIZE_BYTES
        if left >= 0 and left != size:
            complain(f"the first 4 bytes look like a size of {size}, but {_follow(left)}")
    elif known is None and wire.api_key is not None and schema.api_name(wire.api_key) is None:
        complain("if this is a response, it needs --response, --api and --api-version")
    return FAILED


def _given(message: str | None, path: str | None, least: int) -> bytes:
    try:
        return message_bytes(_input(message, path), least)
    except KinspectError:
        if message is not None and os.path.isfile(message):
            raise KinspectError(f"{message}: a file is given with --file") from None
        raise


def _input(message: str | None, path: str | None) -> bytes:
    if message is not None:
        return message.encode(errors="surrogateescape")
    if path is None:
        if sys.stdin.isatty():
            complain("paste a message; Ctrl-D on a line of its own ends it")
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KinspectError(f"{path}: {error.strerror or error}") from None


def _without_size(data: bytes, prefix: str) -> bytes:
    size, left = _size(data), len(data) - SIZE_BYTES
    fits = left > 0 and size == left
    if prefix == NO or (prefix == AUTO and not fits):
        return data
    if size < left:
        raise KinspectError(
            f"the size says {_bytes(size)}, but {left - size} more follow: is it one message?"
        )
    return data[SIZE_BYTES:]


def _size(data: bytes) -> int:
    return int.from_bytes(data[:SIZE_BYTES], signed=True)


def _may_have_size(data: bytes, known: tuple[Api, int] | None) -> bool:
    """Whether what cannot be read looks like a size and a message instead."""
    plausible = 0 < _size(data) <= Caps().message_bytes
    return plausible and not _makes_sense(data, known) and _makes_sense(data[SIZE_BYTES:], known)


def _makes_sense(data: bytes, known: tuple[Api, int] | None) -> bool:
    """Whether it is the begin of a request of a version that exists, or a response that can be read to its end."""
    if known is not None:
        wire, header = _message(data, known)
        return header.failure is None and not _failed(wire.decode().problems)
    api_key, api_version = _api_of(data)
    api = None if api_key is None else schema.api(api_key)
    return api is not None and api_version in api.versions


def _failed(problems: Iterable[Problem]) -> bool:
    return any(problem.code in FAILURES for problem in problems)


def _known_version(name: str, version: int) -> tuple[Api, int]:
    api = schema.api(name)
    if api is None:
        raise KinspectError(f"there is no API {name!r}: see `kinspect schema`")
    if version not in api.versions:
        raise KinspectError(
            f"{api.name} has no version {version}: its versions are {format_versions(api.versions)}"
        )
    return api, version


def _api_of(request: bytes) -> tuple[int | None, int | None]:
    """The API's key and version in a request's header, as far as they are there."""
    pieces = (request[API_KEY_BYTES], request[API_VERSION_BYTES])
    key, version = (int.from_bytes(piece, signed=True) if len(piece) == 2 else None for piece in pieces)
    return key, version


def _message(data: bytes, known: tuple[Api, int] | None) -> tuple[WireMessage, Reading]:
    """The message and its header: a response's of the `known` API and version, or a request's."""
    direction = REQUEST if known is None else RESPONSE
    api_key, api_version = _api_of(data) if known is None else (known[0].key, known[1])
    header_version = schema.header_version(api_key or 0, api_version or 0, direction)
    header = interpreter.read(schema.header_layout(direction, header_version), data, 0, len(data), spans=True)
    # Behind a header that does not fit there is no body to look for.
    raw = data if header.failure is None else None
    message = WireMessage(direction, raw, len(data), header.end, None, None, 0, 0, 0, raw is not None)
    message.api_key, message.api_version = api_key, api_version
    return message, header


def _take_apart(message: WireMessage, header: Reading, show_secrets: bool) -> Parts:
    data = message.raw or b""
    layout = message.decode().layout
    spans: list[Span] = []
    if layout is not None:
        spans = interpreter.read(layout, data, message.body_start, len(data), spans=True).spans
    exchange = _alone(message)
    view = View(show_secrets=show_secrets, fields=(f"{message.direction}.body",))
    body = view.exchange(exchange)[message.direction]["body"]
    problems = exchange.problems
    if header.failure is not None:
        offset, path, why = header.failure
        text = f"the {message.direction}'s header does not fit at {path}: {why}"
        problems = [Problem(message.direction, "malformed", text, offset, message.size - offset, path)]
    return Parts(header.body, body, header.spans, spans, layout, problems)


def _alone(message: WireMessage) -> Exchange:
    """An exchange of this message alone: what hides secrets works on exchanges."""
    nobody = Ends("", 0, "", 0, "", "", TopicNames(), [""], Caps(), Counts())
    exchange = Exchange(nobody, KAFKA)
    exchange.api_key, exchange.api_version = message.api_key, message.api_version
    setattr(exchange, message.direction, message)
    return exchange


def _json(parts: Parts, message: WireMessage) -> str:
    result = {
        "direction": message.direction,
        "api": None if message.api_key is None else schema.api_name(message.api_key),
        "api_key": message.api_key,
        "api_version": message.api_version,
        "size": message.size,
        "layout": parts.layout.label if parts.layout else None,
        "complete": message.decode().complete,
        "header": _plain(parts.header),
        "body": parts.body,
        "fields": [
            {"path": span.path, "start": span.start, "end": span.end, "type": span.type, "value": value}
            for spans, shown in ((parts.header_spans, parts.header), (parts.body_spans, parts.body))
            for span in spans
            for value in (_plain(shown_value(span, shown)),)
        ],
        "problems": [problem.to_dict() for problem in parts.problems],
    }
    return json.dumps(result, indent=2) + "\n"


def _text(parts: Parts, message: WireMessage) -> str:
    early = f", early access {parts.layout.label}" if parts.layout and parts.layout.label else ""
    lines = [f"{_api_text(message)}{message.direction}{early}, {_bytes(message.size)}"]
    for title, spans, shown in (
        ("header", parts.header_spans, parts.header),
        ("body", parts.body_spans, parts.body),
    ):
        if not spans:
            continue
        lines.append(title)
        rows = [
            (f"{span.start}–{span.end}", span.path, span.type, _written(span, shown))
            for span in spans
            if span.type not in STRUCTURE
        ]
        widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
        lines += [
            f"  {offsets:>{widths[0]}}  {path:{widths[1]}}  {kind:{widths[2]}}  {value}".rstrip()
            for offsets, path, kind, value in rows
        ]
    lines += [f"{problem.code}{_place(problem)}: {problem.message}" for problem in parts.problems]
    return "".join(f"{escape(line)}\n" for line in lines)


def _api_text(message: WireMessage) -> str:
    """`Heartbeat v4 `, as far as it is known."""
    if message.api_key is None:
        return ""
    name = schema.api_name(message.api_key) or f"API {message.api_key}"
    return f"{name} " if message.api_version is None else f"{name} v{message.api_version} "


def _bytes(count: int) -> str:
    return f"{count} byte{'s' * (count != 1)}"


def _follow(count: int) -> str:
    return f"{_bytes(count)} follow{'s' * (count == 1)}"


def _place(problem: Problem) -> str:
    return "" if problem.offset is None else f" at byte {problem.offset}"


def _written(span: Span, shown: dict[str, Any] | None) -> str:
    value = _plain(shown_value(span, shown))
    if span.type.startswith("[]") and value is not None:
        return f"{value} elements" if value != 1 else "1 element"
    if value == HIDDEN:
        return HIDDEN
    last_name = _LAST_NAME.search(span.path)
    name = number_name(last_name[0], value) if last_name else None
    return json.dumps(value, ensure_ascii=False) + (f" ({name})" if name else "")


def _plain(value: Any) -> Any:
    """Bytes, in a header's unknown tagged fields or a body's, as hex."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
