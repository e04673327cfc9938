"""`kinspect decode`: one message, each field with the bytes it was read from."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import click
import orjson

from kinspect.cli import candidates, complain
from kinspect.cli.candidates import BROKEN, CUT, FITS, MOST_MEMORY, TRAILING, Guess, MessageOptions
from kinspect.cli.completions import files, words
from kinspect.cli.options import payload_option
from kinspect.cli.pasted import message_bytes
from kinspect.cli.progress import working
from kinspect.cli.rules import OptionRule, check
from kinspect.cli.schemaoption import schema_option
from kinspect.cli.texttable import aligned
from kinspect.cli.types import SIZE
from kinspect.errors import KinspectError
from kinspect.filters.filterdefinitions import apis
from kinspect.filters.values import unknown_api
from kinspect.jsontext import escape_json
from kinspect.kafka.connection.tokens import may_be_token, may_hold_token
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.redact import HIDDEN, STRUCTURE, shown_value, without_texts
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.endpoints import Endpoints
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import KAFKA, TOKEN_NAME
from kinspect.model import REQUEST, RESPONSE, Caps, Counts, Problem
from kinspect.output.escape import escape
from kinspect.output.numbernames import number_name
from kinspect.protocol import interpreter, request_header, schema
from kinspect.protocol.apikeys import SASL_AUTHENTICATE
from kinspect.protocol.interpreter import ReadResult, Span
from kinspect.protocol.schema import Layout
from kinspect.protocol.versions import format_versions
from kinspect.wording import counted, plural

TEXT, JSON = "text", "json"
AUTO = "auto"
SIZE_FIRST = {AUTO: None, "yes": True, "no": False}
LEAST_BYTES = {REQUEST: 8, RESPONSE: 4, None: 8}
"""Size of the fields that every header has; without a direction a request's, so that a word is not read as base64."""
MOST_INPUT = 32 << 20
LISTED, ROWS = 100, 30
"""Largest number of candidates in JSON, and of rows of them in text."""
FAILED = 1

NOT_SHOWN = "(not shown)"
GUESSED = "texts and bytes are not shown, as the API is a guess: --api NAME or --show-secrets shows them"
MISFIT = "texts and bytes are not shown, as the body does not fit to its last byte: --show-secrets shows them"

# Problems that keep a message from being read to its end; bytes that are left over do not.
FAILURES = frozenset({"malformed", "unknown_api", "unknown_version"})
_LAST_NAME = re.compile(r"[^.\[\]]+(?=(?:\[\d+\])?$)")
RULES = (
    OptionRule("request", "{} and --response exclude each other", "response"),
    OptionRule("message", "give a message or --file, not both", "path"),
    OptionRule("api_version", "{} needs --api", unless="api"),
)


class Dissection(NamedTuple):
    """A message taken apart. `header` and `body` are JSON values, the spans of both follow each other. `kept`: why
    texts and bytes are left out of them, empty if they are not."""

    header: dict[str, Any]
    body: dict[str, Any] | None
    header_spans: list[Span]
    body_spans: list[Span]
    layout: Layout | None
    problems: list[Problem]
    kept: str = ""


@click.command()
@click.argument("message", required=False, callback=lambda *asked: None if asked[2] == "-" else asked[2])
@click.option(
    "--file",
    "path",
    metavar="FILE",
    shell_complete=files,
    help="Read the message from FILE, as bytes or as text.",
)
@click.option("--request", is_flag=True, help="The message is a request.")
@click.option("--response", is_flag=True, help="The message is a response.")
@click.option("--api", metavar="API", shell_complete=words(apis), help="The API, by name or key.")
@click.option("--api-version", type=int, metavar="N", help="The version; needs --api.")
@click.option(
    "--size-prefix",
    type=click.Choice(list(SIZE_FIRST)),
    default=AUTO,
    help="Whether the message begins with its 4-byte size; auto: what is possible.",
)
@schema_option
@payload_option("Decode records and show their keys and values; none: their batches only.")
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
    payload: str,
    show_secrets: bool,
    format_name: str,
) -> int:
    """Decode one message, with the offsets of each field.

    MESSAGE is hex, base64, or numbers as Java and Python print bytes. Without it, or for -, the message is read from
    --file or standard input. There it may also be plain bytes, or a dump of hexdump, xxd, od, tcpdump -X, tshark -x or
    Wireshark. Headers of a whole packet are skipped.

    A request names its API. For a response every API and version is tried: the likeliest one that fits is shown, and
    the others are listed. --request, --response, --api and --api-version restrict what is tried. Of a truncated
    message, the fields that are there are shown, and the number of missing bytes. Texts and bytes are hidden if the
    API is a guess, or the body does not fit to its last byte, because they could be a secret of another message.
    """
    check(RULES, {})
    direction = REQUEST if request else RESPONSE if response else None
    options = _message_options(direction, api, api_version)
    read = _input(path) if message is None else message
    with working("decoding"):
        given = _given(read, LEAST_BYTES[direction])
        found = candidates.find(candidates.framings(given, SIZE_FIRST[size_prefix]), options)
    if not found:
        raise KinspectError("the bytes fit no layout that the options allow: try fewer options")
    best = found[0]
    guessed = options == MessageOptions(None, None, None)
    if guessed and not show_secrets and _may_be_token(given, best):
        raise KinspectError(
            f"this may be a raw SASL token ({TOKEN_NAME}), {_bytes(len(best.message.data))}: no request of a known API"
            " begins so; --show-secrets, --request or --response decodes it all the same"
        )
    if guessed and not show_secrets and _may_show_token(given, best):
        raise KinspectError(
            "this may hold a SASL token, and is no whole request: --show-secrets, --request, --response or --api"
            " decodes it all the same"
        )
    wire, header = _message(best)
    view = View(payload=payload, show_secrets=show_secrets, fields=(f"{best.direction}.body",))
    parts = _take_apart(wire, header, view)
    if not show_secrets:
        parts = _held_back(parts, best, candidates.is_told(best, options))
    others = candidates.others(found)
    click.echo((_json if format_name == JSON else _text)(parts, wire, best, others), nl=False)
    if best.message.after:
        size, after = best.message.size or 0, best.message.after
        follow = plural(after, "follows", "follow")
        complain(f"the size says {_bytes(size)}, and {_bytes(after)} {follow}: another message?")
    return FAILED if best.fit in (CUT, BROKEN) or _failed(parts.problems) else 0


def _may_be_token(given: bytes, best: Guess) -> bool:
    return any(
        may_be_token(data, request_header(data, 0, len(data))) and not candidates.begins_request(data)
        for data in {given, best.message.data}
    )


def _may_show_token(given: bytes, best: Guess) -> bool:
    """True if the best reading, a guess, could show secrets that SaslAuthenticate's would hide."""
    is_request = best.direction == REQUEST and best.fit == FITS
    return not is_request and best.api_key != SASL_AUTHENTICATE and may_hold_token(given)


def _given(message: str | bytes, least: int) -> bytes:
    try:
        return message_bytes(message, least)
    except KinspectError:
        if isinstance(message, str) and os.path.isfile(message):
            raise KinspectError(f"{message}: a file is given with --file") from None
        raise


def _input(path: str | None) -> bytes:
    try:
        if path is None:
            if sys.stdin.isatty():
                complain("paste a message; Ctrl-D on a line of its own ends it")
            data = sys.stdin.buffer.read(MOST_INPUT + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(MOST_INPUT + 1)
    except OSError as error:
        raise KinspectError(f"{path or 'standard input'}: {error.strerror or error}") from None
    if len(data) > MOST_INPUT:
        raise KinspectError(f"the input is larger than {SIZE.written(MOST_INPUT)}: is it one message?")
    return data


def _message_options(direction: str | None, name: str | None, version: int | None) -> MessageOptions:
    api = None if name is None else schema.api(name)
    if name is not None and api is None:
        raise unknown_api(name, schema.api_names().values())
    if api is not None and version is not None and version not in api.versions:
        raise KinspectError(
            f"{api.name} has no version {version}: its versions are {format_versions(api.versions)}"
        )
    return MessageOptions(direction, api, version)


def _failed(problems: Iterable[Problem]) -> bool:
    return any(problem.code in FAILURES for problem in problems)


def _message(best: Guess) -> tuple[WireMessage, ReadResult]:
    """The message and its header."""
    data = best.message.data
    header = candidates.header(data, best.direction, best.api_key, best.version)
    # Behind a header that does not fit there is no body to look for.
    raw = data if header.failure is None else None
    message = WireMessage(best.direction, raw, len(data), header.end, None, None, 0, 0, 0, raw is not None)
    message.api_key, message.api_version = best.api_key, best.version
    caps = Caps(body_bytes=MOST_MEMORY)
    message.ends = Endpoints("", 0, "", 0, "", "", LearnedNames(), [""], caps, Counts())
    return message, header


def _take_apart(message: WireMessage, header: ReadResult, view: View) -> Dissection:
    data = message.raw or b""
    layout = message.decode().layout
    exchange = _alone(message)
    problems = list(exchange.problems)
    spans: list[Span] = []
    if layout is not None:
        read = interpreter.interpret(
            layout, data, message.body_start, len(data), spans=True, max_memory=MOST_MEMORY
        )
        spans = read.spans
        if read.full and not any(problem.code == "cap" for problem in problems):
            text = "what follows is too much to be listed"
            problems.append(Problem(message.direction, "cap", text, read.end, message.size - read.end))
    body = view.exchange(exchange)[message.direction]["body"]
    if header.failure is not None:
        offset, path, why = header.failure
        text = f"the {message.direction}'s header does not fit at {path}: {why}"
        problems = [Problem(message.direction, "malformed", text, offset, message.size - offset, path)]
    return Dissection(header.body, body, header.spans, spans, layout, problems)


def _held_back(parts: Dissection, best: Guess, told: bool) -> Dissection:
    """The reading without texts and bytes where they may be those of another message, which could be secrets."""
    if not told:
        return parts._replace(
            header=without_texts(parts.header), body=without_texts(parts.body), kept=GUESSED
        )
    if best.fit in (TRAILING, BROKEN) and parts.body_spans:
        return parts._replace(body=without_texts(parts.body), kept=MISFIT)
    return parts


def _alone(message: WireMessage) -> Exchange:
    """An exchange of this message alone: the code that hides secrets works on exchanges."""
    assert message.ends is not None
    exchange = Exchange(message.ends, KAFKA)
    exchange.api_key, exchange.api_version = message.api_key, message.api_version
    setattr(exchange, message.direction, message)
    return exchange


def _json(parts: Dissection, message: WireMessage, best: Guess, others: list[Guess]) -> str:
    result = {
        "direction": message.direction,
        "api": None if message.api_key is None else schema.api_name(message.api_key),
        "api_key": message.api_key,
        "api_version": message.api_version,
        "size": message.size,
        "fit": best.fit,
        "missing_bytes": _missing(best),
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
        "candidates": [_candidate(one) for one in (best, *others)[:LISTED]],
    }
    return escape_json(orjson.dumps(result, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)).decode()


def _candidate(one: Guess) -> dict[str, Any]:
    return {
        "direction": one.direction,
        "api": None if one.api_key is None else schema.api_name(one.api_key),
        "api_key": one.api_key,
        "api_version": one.version,
        "size_prefix": one.message.size is not None,
        "fit": one.fit,
        "missing_bytes": _missing(one),
        "trailing_bytes": one.amount if one.fit == TRAILING else 0,
    }


def _missing(one: Guess) -> int:
    """Number of missing bytes: exact if there is a size, else the least possible."""
    return one.message.missing or one.amount if one.fit == CUT else 0


def _cut_text(one: Guess) -> str:
    size, here = one.message.size, len(one.message.data)
    if size is not None and one.message.missing:
        return f"cut: {one.message.missing} of {_bytes(size)} are missing, {here} {plural(here, 'is', 'are')} here"
    return f"cut: {_bytes(one.amount)} or more {plural(one.amount, 'is', 'are')} missing"


def _listed(others: list[Guess]) -> list[str]:
    """Lines for the other candidates; versions of an API that fit in the same way share one."""
    if not others:
        return []
    together: dict[tuple[str, str, str], list[int]] = {}
    for one in others:
        name = f"API {one.api_key}" if one.api_key is None else schema.api_name(one.api_key) or ""
        fit = {TRAILING: f"{_bytes(one.amount)} left over", CUT: "cut"}.get(one.fit, one.fit)
        sized = f"{fit}, with its size before it" if one.message.size is not None else fit
        together.setdefault((name, one.direction, sized), []).append(one.version or 0)
    rows = [
        (f"{name} v{format_versions(versions)}", direction, fit)
        for (name, direction, fit), versions in together.items()
    ]
    more = [f"  and {len(rows) - ROWS} more"] if len(rows) > ROWS else []
    return [
        "could also be (--request, --response, --api and --api-version choose)",
        *(f"  {line}" for line in aligned(rows[:ROWS])),
        *more,
    ]


def _text(parts: Dissection, message: WireMessage, best: Guess, others: list[Guess]) -> str:
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
            (
                f"{span.start}–{span.end}",
                span.path,
                span.type,
                _written(span, shown, NOT_SHOWN if parts.kept else HIDDEN, message.api_key),
            )
            for span in spans
            if span.type not in STRUCTURE
        ]
        lines += [f"  {line}" for line in aligned(rows, numbers=1)]
    lines += [f"{problem.code}{_place(problem)}: {problem.message}" for problem in parts.problems]
    if best.fit == CUT:
        lines.append(_cut_text(best))
    if parts.kept:
        lines.append(parts.kept)
    lines += _listed(others)
    return "".join(f"{escape(line)}\n" for line in lines)


def _api_text(message: WireMessage) -> str:
    """Name and version as far as they are known: `Heartbeat v4 `."""
    if message.api_key is None:
        return ""
    name = schema.api_name(message.api_key) or f"API {message.api_key}"
    return f"{name} " if message.api_version is None else f"{name} v{message.api_version} "


def _bytes(count: int) -> str:
    return counted(count, "byte", "")


def _place(problem: Problem) -> str:
    return "" if problem.offset is None else f" at byte {problem.offset}"


def _written(span: Span, shown: dict[str, Any] | None, hidden: str, api_key: int | None) -> str:
    value = _plain(shown_value(span, shown))
    if span.type.startswith("[]") and value is not None:
        return counted(value, "element", "")
    if value == HIDDEN:
        return hidden
    last_name = _LAST_NAME.search(span.path)
    name = number_name(last_name[0], value, api_key) if last_name else None
    return json.dumps(value, ensure_ascii=False) + (f" ({name})" if name else "")


def _plain(value: Any) -> Any:
    """The value with bytes (those of unknown tagged fields) as hex."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
