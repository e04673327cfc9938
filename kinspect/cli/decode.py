"""`kinspect decode`: one message, each field with the bytes it was read from."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from kinspect.cli.pasted import message_bytes
from kinspect.errors import KinspectError
from kinspect.kafka.exchange import KAFKA, Exchange, WireMessage
from kinspect.kafka.flow import Ends
from kinspect.kafka.names import TopicNames
from kinspect.kafka.view import View
from kinspect.model import REQUEST, RESPONSE, Caps, Counts, Problem
from kinspect.output.escape import escape
from kinspect.protocol import interpreter, request_header, response_header, schema
from kinspect.protocol.interpreter import Span
from kinspect.protocol.schema import Api, Layout
from kinspect.protocol.versions import format_versions

TEXT, JSON = "text", "json"
AUTO, YES, NO = "auto", "yes", "no"
SIZE_BYTES = 4
FAILED = 1

# What keeps a message from being read to its end; bytes that are left over do not.
FAILURES = frozenset({"malformed", "unknown_api", "unknown_version"})
# Spans of what holds values, not of a value.
STRUCTURE = frozenset({"struct", "tags", "tag"})

HIDDEN = "(secret: not shown)"
_MISSING = object()
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


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
    or the dump of hexdump -C, xxd, tcpdump -X or Wireshark.
    """
    if request and response:
        raise click.UsageError("--request and --response exclude each other")
    if message is not None and path is not None:
        raise click.UsageError("give a message or --file, not both")
    if response and (api is None or api_version is None):
        raise click.UsageError("--response needs --api and --api-version: a response does not say what it is")
    if not response and (api is not None or api_version is not None):
        raise click.UsageError("--api and --api-version are for --response: a request says what it is")
    data = _without_size(message_bytes(_input(message, path)), size_prefix)
    wire = _response(data, _known_api(api or ""), api_version or 0) if response else _request(data)
    parts = _take_apart(wire, show_secrets)
    click.echo(_json(parts, wire) if format_name == JSON else _text(parts, wire), nl=False)
    return FAILED if any(problem.code in FAILURES for problem in parts.problems) else 0


def _input(message: str | None, path: str | None) -> bytes:
    if message is not None:
        return message.encode(errors="surrogateescape")
    if path is None:
        data = sys.stdin.buffer.read()
    else:
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise KinspectError(f"{path}: {error.strerror or error}") from None
    if not data.strip():
        raise KinspectError("there is no message: give one as argument, with --file or on standard input")
    return data


def _without_size(data: bytes, prefix: str) -> bytes:
    size = int.from_bytes(data[:SIZE_BYTES], signed=True)
    fits = len(data) > SIZE_BYTES and size == len(data) - SIZE_BYTES
    if prefix == NO or (prefix == AUTO and not fits):
        return data
    if not fits and size < len(data) - SIZE_BYTES:
        left = len(data) - SIZE_BYTES - size
        raise KinspectError(f"the size says {size} bytes, but {left} more follow: is it one message?")
    return data[SIZE_BYTES:]


def _known_api(name: str) -> Api:
    api = schema.api(name)
    if api is None:
        raise KinspectError(f"there is no API {name!r}: see `kinspect schema`")
    return api


def _request(data: bytes) -> WireMessage:
    header = request_header(data, 0, len(data))
    if header is None:
        raise KinspectError(f"{len(data)} bytes do not hold a request's header (a response needs --response)")
    return _message(REQUEST, data, header.body_start, header.api_key, header.api_version)


def _response(data: bytes, api: Api, version: int) -> WireMessage:
    if version not in api.versions:
        raise KinspectError(
            f"{api.name} has no version {version}: its versions are {format_versions(api.versions)}"
        )
    header = response_header(data, 0, len(data), api.key, version)
    if header is None:
        raise KinspectError(f"{len(data)} bytes do not hold a response's header")
    return _message(RESPONSE, data, header.body_start, api.key, version)


def _message(direction: str, data: bytes, body_start: int, api_key: int, api_version: int) -> WireMessage:
    message = WireMessage(direction, data, len(data), body_start, None, None, 0, 0, 0, True)
    message.api_key, message.api_version = api_key, api_version
    return message


def _take_apart(message: WireMessage, show_secrets: bool) -> Parts:
    data = message.raw or b""
    header_version = schema.header_version(message.api_key or 0, message.api_version or 0, message.direction)
    header_layout = schema.header_layout(message.direction, header_version)
    header = interpreter.read(header_layout, data, 0, message.body_start, spans=True)
    layout = message.decode().layout
    spans: list[Span] = []
    if layout is not None:
        spans = interpreter.read(layout, data, message.body_start, len(data), spans=True).spans
    exchange = _alone(message)
    view = View(show_secrets=show_secrets, fields=(f"{message.direction}.body",))
    body = view.exchange(exchange)[message.direction]["body"]
    return Parts(header.body, body, header.spans, spans, layout, exchange.problems)


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
        "api": schema.api_name(message.api_key or 0),
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
            for value in (_plain(_value(span, shown)),)
        ],
        "problems": [problem.to_dict() for problem in parts.problems],
    }
    return json.dumps(result, indent=2) + "\n"


def _text(parts: Parts, message: WireMessage) -> str:
    name = schema.api_name(message.api_key or 0) or f"API {message.api_key}"
    early = f", early access {parts.layout.label}" if parts.layout and parts.layout.label else ""
    lines = [f"{name} v{message.api_version} {message.direction}{early}, {message.size} bytes"]
    for title, spans, shown in (
        ("header", parts.header_spans, parts.header),
        ("body", parts.body_spans, parts.body),
    ):
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


def _place(problem: Problem) -> str:
    return "" if problem.offset is None else f" at byte {problem.offset}"


def _written(span: Span, shown: dict[str, Any] | None) -> str:
    value = _plain(_value(span, shown))
    if span.type.startswith("[]") and value is not None:
        return f"{value} elements" if value != 1 else "1 element"
    return value if value == HIDDEN else json.dumps(value, ensure_ascii=False)


def _value(span: Span, shown: dict[str, Any] | None) -> Any:
    """What to show of a span's value: what the view shows at its place, as that leaves secrets out."""
    if span.value is None or span.type in STRUCTURE or span.type.startswith("[]"):
        return span.value
    found = _at(shown, span.path)
    if isinstance(found, list):
        # Unknown tagged fields: the span is that of one entry's bytes.
        return span.value if all(entry["bytes"] is not None for entry in found) else HIDDEN
    return HIDDEN if found is None or found is _MISSING else found


def _at(value: Any, path: str) -> Any:
    """The value at `topics[0].name`."""
    for name, index in _STEP.findall(path):
        if isinstance(value, dict):
            value = value.get(name, _MISSING)
        elif isinstance(value, list) and index and int(index) < len(value):
            value = value[int(index)]
        else:
            return _MISSING
    return value


def _plain(value: Any) -> Any:
    """Bytes, in a header's unknown tagged fields or a body's, as hex."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
