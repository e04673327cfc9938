"""Lines in the Elastic Common Schema: one table of keys, and the index template that is made from it.

Source: ECS 9.0 (elastic.co/docs/reference/ecs). Its keys have its types, and its categorization keys its allowed
values. What it has no key for stands below `kinspect`. Beats write into `kafka`: nothing here does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from kinspect.form import VERSION
from kinspect.jsontext import json_text
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.forms import NONE as NO_BODY
from kinspect.kafka.view.forms import TEXT as BODY_TEXT
from kinspect.kafka.view.view import LINE_KEYS, View
from kinspect.kafka.wire.pair import ANSWERED, SASL_TOKEN
from kinspect.model import NS_PER_MS
from kinspect.output import Opening
from kinspect.output.jsonl import text
from kinspect.output.linefacts import (
    Line,
    at,
    epoch,
    fails,
    message,
    network_type,
    of_frames,
    problem_codes,
    software,
)
from kinspect.output.linelimit import FittedText, LinePaths
from kinspect.output.linesink import LineSink

ECS_VERSION = "9.0.0"
SIZE_BYTES = 4
"""Bytes of the size in front of each message, which `size` does not count."""

Source = str | Callable[[Line], Any]
"""Where a value is from: the dotted path of a key of the line, or a function of the line."""

DATE, KEYWORD, TEXT, LONG, IP, BOOLEAN = "date_nanos", "keyword", "match_only_text", "long", "ip", "boolean"
KEPT = "kept"
"""Text that an index keeps and does not search."""

EXCHANGE, CONNECTION, GAP, SUMMARY = "exchange", "connection", "gap", "summary"
STATS = "stats"
ENDS = (EXCHANGE, CONNECTION)


BODIES = frozenset({"request.body", "response.body"})


class EcsKey(NamedTuple):
    """A key of ECS lines: its dotted path, its type in an index, where its value is from, and the types of lines that
    have it, none for all of them."""

    path: str
    type: str
    source: Source
    lines: tuple[str, ...] = ()


PID_DIGITS = 18
"""Most digits of a number that Elasticsearch takes for a `long`."""

# ---------------------------------------------------------------------- values


def _always(value: Any) -> Source:
    return lambda _: value


def _nanoseconds(path: str) -> Source:
    """Milliseconds as whole nanoseconds, exact up to 26 days."""

    def of(line: Line) -> int | None:
        milliseconds = at(line, path)
        return None if milliseconds is None else round(milliseconds * NS_PER_MS)

    return of


def _first(path: str) -> Source:
    def of(line: Line) -> str | None:
        values = at(line, path)
        return str(values[0]) if values else None

    return of


def _bytes_on_wire(line: Line) -> int:
    return sum(_message_bytes(line, side) or 0 for side in ("request", "response"))


def _message_bytes(line: Line, side: str) -> int | None:
    size = at(line, f"{side}.size")
    return None if size is None else size + SIZE_BYTES


def _sum(*paths: str) -> Source:
    return lambda line: sum(at(line, path) or 0 for path in paths)


def _elapsed(line: Line) -> int | None:
    """Nanoseconds from `timestamp` to `completed_at`."""
    begin, end = (epoch(at(line, path)) for path in ("timestamp", "completed_at"))
    return None if begin is None or end is None else end - begin


def _outcome(line: Line) -> str:
    if fails(line):
        return "failure"
    return "success" if line.get("outcome") == ANSWERED else "unknown"


def _event_type(line: Line) -> list[str]:
    if line["type"] == CONNECTION:
        return ["connection", "info" if line["end_reason"] == "capture_end" else "end"]
    return ["connection", "protocol", *["error"] * fails(line)]


def _action(line: Line) -> str | None:
    return SASL_TOKEN if line.get("kind") == SASL_TOKEN else line.get("api")


def _protocol(line: Line) -> str | None:
    kind = line.get("kind")
    return kind if kind in ("kafka", "tls") else None


def _distinct(*paths: str) -> Source:
    return lambda line: [*dict.fromkeys(filter(None, (at(line, path) for path in paths)))]


def _error_message(line: Line) -> str | None:
    return ", ".join(line.get("error_names") or ()) or None


def _established(line: Line) -> bool | None:
    """True of a connection that was decrypted, or whose handshake was seen to end; unknown of others."""
    return True if line.get("tls") or line.get("tls_status") == "decrypting" else None


def _file(line: Line) -> str | None:
    """The capture; in a live capture `file` is an interface."""
    found: str | None = None if line.get("interface") else of_frames("file")(line)
    return found


def _tls_version(line: Line) -> str | None:
    version = line.get("tls_version")
    return None if version is None else version.rpartition(" ")[2]


def _tls_name(line: Line) -> str | None:
    version = line.get("tls_version")
    return None if version is None else version.partition(" ")[0].lower()


def _domain(line: Line, native: str) -> str | None:
    """The name of an end; of a broker without one, that which the client asked for with TLS."""
    name: str | None = at(line, f"{native}.name")
    return name if name is not None or native == "client" else line.get("server_name")


def _command(line: Line) -> str | None:
    process = at(line, "client.process")
    return None if process is None else str(process.rpartition("[")[0])


def _process_id(line: Line) -> int | None:
    number = (at(line, "client.process") or "").rpartition("[")[2].removesuffix("]")
    return int(number) if number.isascii() and number.isdecimal() and len(number) <= PID_DIGITS else None


def _pod(line: Line) -> list[str]:
    """Namespace and name of the client's pod; none if its name is not that of a pod."""
    parts = (at(line, "client.name") or "").split("/")
    return parts if len(parts) == 2 and all(parts) else []


def _of_pod(place: int) -> Source:
    def of(line: Line) -> str | None:
        pod = _pod(line)
        return pod[place] if pod else None

    return of


# ---------------------------------------------------------------------- the table


def _side(name: str, native: str, side: str) -> tuple[EcsKey, ...]:
    """An end of the connection, as `client` or `server` and again as `source` or `destination`."""
    return (
        EcsKey(f"{name}.ip", IP, f"{native}.ip", ENDS),
        EcsKey(f"{name}.port", LONG, f"{native}.port", ENDS),
        EcsKey(f"{name}.address", KEYWORD, f"{native}.ip", ENDS),
        EcsKey(f"{name}.domain", KEYWORD, lambda line: _domain(line, native), ENDS),
        EcsKey(f"{name}.bytes", LONG, lambda line: _message_bytes(line, side), (EXCHANGE,)),
        EcsKey(f"{name}.bytes", LONG, f"{native}.bytes", (CONNECTION,)),
    )


KEYS = (
    EcsKey("@timestamp", DATE, "timestamp"),
    EcsKey("ecs.version", KEYWORD, _always(ECS_VERSION)),
    EcsKey("message", TEXT, message),
    EcsKey("event.kind", KEYWORD, _always("event"), (EXCHANGE, CONNECTION, GAP)),
    EcsKey("event.kind", KEYWORD, _always("metric"), (SUMMARY, STATS)),
    EcsKey("event.category", KEYWORD, _always(["network"])),
    EcsKey("event.type", KEYWORD, _event_type, (EXCHANGE,)),
    EcsKey("event.type", KEYWORD, _event_type, (CONNECTION,)),
    EcsKey("event.type", KEYWORD, _always(["info"]), (GAP, SUMMARY, STATS)),
    EcsKey("event.module", KEYWORD, _always("kinspect")),
    EcsKey("event.dataset", KEYWORD, lambda line: f"kinspect.{line['type']}"),
    EcsKey("event.action", KEYWORD, _action, (EXCHANGE,)),
    EcsKey("event.outcome", KEYWORD, _outcome, (EXCHANGE,)),
    EcsKey("event.reason", KEYWORD, "outcome_reason", (EXCHANGE,)),
    EcsKey("event.reason", KEYWORD, "end_reason", (CONNECTION,)),
    EcsKey("event.reason", KEYWORD, "cause", (GAP,)),
    EcsKey("event.start", DATE, "timestamp", (EXCHANGE, CONNECTION, SUMMARY)),
    EcsKey("event.end", DATE, "completed_at", (EXCHANGE, CONNECTION, SUMMARY)),
    EcsKey("event.duration", LONG, _nanoseconds("latency_ms"), (EXCHANGE,)),
    EcsKey("event.duration", LONG, _elapsed, (CONNECTION, SUMMARY)),
    EcsKey("event.id", KEYWORD, "event_id"),
    EcsKey("event.original", KEPT, json_text, (SUMMARY, STATS)),
    EcsKey("network.transport", KEYWORD, _always("tcp"), (EXCHANGE, CONNECTION, GAP)),
    EcsKey("network.protocol", KEYWORD, _always("kafka"), (EXCHANGE, GAP)),
    EcsKey("network.protocol", KEYWORD, _protocol, (CONNECTION,)),
    EcsKey("network.type", KEYWORD, network_type, ENDS),
    EcsKey("network.community_id", KEYWORD, "community_id", ENDS),
    EcsKey("network.bytes", LONG, _bytes_on_wire, (EXCHANGE,)),
    EcsKey("network.bytes", LONG, _sum("client.bytes", "broker.bytes"), (CONNECTION,)),
    EcsKey("network.bytes", LONG, "bytes", (SUMMARY,)),
    EcsKey("network.bytes", LONG, "captured_bytes", (STATS,)),
    EcsKey("network.packets", LONG, _sum("client.packets", "broker.packets"), (CONNECTION,)),
    EcsKey("network.packets", LONG, "packets", (SUMMARY,)),
    EcsKey("network.packets", LONG, "captured_packets", (STATS,)),
    *_side("client", "client", "request"),
    *_side("source", "client", "request"),
    *_side("server", "broker", "response"),
    *_side("destination", "broker", "response"),
    EcsKey("process.name", KEYWORD, _command, ENDS),
    EcsKey("process.pid", LONG, _process_id, ENDS),
    EcsKey("orchestrator.type", KEYWORD, lambda line: "kubernetes" if _pod(line) else None, ENDS),
    EcsKey("orchestrator.namespace", KEYWORD, _of_pod(0), ENDS),
    EcsKey("orchestrator.resource.type", KEYWORD, lambda line: "pod" if _pod(line) else None, ENDS),
    EcsKey("orchestrator.resource.name", KEYWORD, _of_pod(1), ENDS),
    EcsKey("user.name", KEYWORD, "client.principal", ENDS),
    EcsKey("related.ip", IP, _distinct("client.ip", "broker.ip"), ENDS),
    EcsKey("related.user", KEYWORD, _distinct("client.principal"), ENDS),
    EcsKey("user_agent.name", KEYWORD, "client.software_name", ENDS),
    EcsKey("user_agent.version", KEYWORD, "client.software_version", ENDS),
    EcsKey("user_agent.original", KEYWORD, software, ENDS),
    EcsKey("error.code", KEYWORD, _first("error_codes"), (EXCHANGE,)),
    EcsKey("error.type", KEYWORD, _first("error_names"), (EXCHANGE,)),
    EcsKey("error.message", TEXT, _error_message, (EXCHANGE,)),
    EcsKey("tls.established", BOOLEAN, _established, ENDS),
    EcsKey("tls.version", KEYWORD, _tls_version, (CONNECTION,)),
    EcsKey("tls.version_protocol", KEYWORD, _tls_name, (CONNECTION,)),
    EcsKey("tls.cipher", KEYWORD, "tls_cipher_suite", (CONNECTION,)),
    EcsKey("tls.client.server_name", KEYWORD, "server_name", (CONNECTION,)),
    EcsKey("observer.type", KEYWORD, _always("sensor")),
    EcsKey("observer.product", KEYWORD, _always("kinspect")),
    EcsKey("observer.version", KEYWORD, _always(VERSION)),
    EcsKey("observer.hostname", KEYWORD, "host"),
    EcsKey("observer.ingress.interface.name", KEYWORD, "interface"),
    EcsKey("file.path", KEYWORD, _file, (EXCHANGE,)),
    EcsKey("kinspect.frame.first", LONG, of_frames("first"), (EXCHANGE,)),
    EcsKey("kinspect.frame.last", LONG, of_frames("last"), (EXCHANGE,)),
    EcsKey("kinspect.connection_id", KEYWORD, "connection_id", (EXCHANGE, CONNECTION, GAP)),
    EcsKey("kinspect.correlation_id", LONG, "correlation_id", (EXCHANGE,)),
    EcsKey("kinspect.in_flight", LONG, "in_flight", (EXCHANGE,)),
    EcsKey("kinspect.outcome", KEYWORD, "outcome", (EXCHANGE,)),
    EcsKey("kinspect.api.name", KEYWORD, "api", (EXCHANGE,)),
    EcsKey("kinspect.api.key", LONG, "api_key", (EXCHANGE,)),
    EcsKey("kinspect.api.version", LONG, "api_version", (EXCHANGE,)),
    EcsKey("kinspect.client.id", KEYWORD, "client.id", ENDS),
    EcsKey("kinspect.client.role", KEYWORD, "client.role", (EXCHANGE,)),
    EcsKey("kinspect.broker.id", LONG, "broker.node_id", (EXCHANGE,)),
    EcsKey("kinspect.topic.name", KEYWORD, "topics", (EXCHANGE,)),
    EcsKey("kinspect.topic.id", KEYWORD, "topic_ids", (EXCHANGE,)),
    EcsKey("kinspect.partition", KEYWORD, "partitions", (EXCHANGE,)),
    EcsKey("kinspect.group.id", KEYWORD, "groups", (EXCHANGE,)),
    EcsKey("kinspect.transactional_id", KEYWORD, "transactional_ids", (EXCHANGE,)),
    EcsKey("kinspect.truncated_lists", BOOLEAN, "truncated_lists", (EXCHANGE,)),
    EcsKey("kinspect.line_truncated", BOOLEAN, "line_truncated"),
    EcsKey("kinspect.records.count", LONG, "record_count", (EXCHANGE,)),
    EcsKey("kinspect.records.bytes", LONG, "record_bytes", (EXCHANGE,)),
    EcsKey("kinspect.error.codes", LONG, "error_codes", (EXCHANGE,)),
    EcsKey("kinspect.error.names", KEYWORD, "error_names", (EXCHANGE,)),
    EcsKey("kinspect.error.count", LONG, "error_count", (EXCHANGE,)),
    EcsKey("kinspect.service_time", LONG, _nanoseconds("service_ms"), (EXCHANGE,)),
    EcsKey("kinspect.throttle_time", LONG, _nanoseconds("throttle_time_ms"), (EXCHANGE,)),
    EcsKey("kinspect.max_wait", LONG, _nanoseconds("max_wait_ms"), (EXCHANGE,)),
    EcsKey("kinspect.wait", KEYWORD, "wait", (EXCHANGE,)),
    EcsKey("kinspect.problem.codes", KEYWORD, problem_codes, (EXCHANGE,)),
    EcsKey("kinspect.problem.count", LONG, "problem_count", (EXCHANGE,)),
    *(EcsKey(f"kinspect.{path}", TEXT, path, (EXCHANGE,)) for path in sorted(BODIES)),
    EcsKey("kinspect.kind", KEYWORD, "kind", ENDS),
    EcsKey("kinspect.tls.status", KEYWORD, "tls_status", (CONNECTION,)),
    EcsKey("kinspect.gap.direction", KEYWORD, "direction", (GAP,)),
    EcsKey("kinspect.gap.offset", LONG, "offset", (GAP,)),
    EcsKey("kinspect.gap.bytes", LONG, "bytes", (GAP,)),
    EcsKey("kinspect.gap.bytes", LONG, "gap_bytes", (CONNECTION, SUMMARY)),
    EcsKey("kinspect.gap.count", LONG, "gaps", (CONNECTION, SUMMARY)),
    EcsKey("kinspect.exchanges", LONG, "exchanges", (CONNECTION, SUMMARY, STATS)),
    EcsKey("kinspect.exchanges", LONG, "exchanges_hit", (GAP,)),
    EcsKey("kinspect.undecoded_bytes", LONG, "undecoded_bytes", (CONNECTION, SUMMARY)),
    EcsKey("kinspect.drops.kernel", LONG, "kernel_drops", (SUMMARY, STATS)),
    EcsKey("kinspect.drops.queue", LONG, "queue_drops", (SUMMARY, STATS)),
    EcsKey("kinspect.interface_losses", LONG, "interface_losses", (SUMMARY, STATS)),
)

PLACES = LinePaths(
    (("kinspect", "response", "body"), ("kinspect", "request", "body"), ("event", "original")),
    ("kinspect", "line_truncated"),
)
"""The texts that are JSON, which go first, and the key that says so."""

_MADE_OF = frozenset(
    """
    type kind api api_key api_version outcome outcome_reason latency_ms service_ms throttle_time_ms
    max_wait_ms topics partitions groups transactional_ids error_codes error_names tls client broker.ip broker.name
    problems.code request.size request.frames response.size response.frames
    """.split()
)
"""Keys of an exchange's line that the functions of `KEYS` read."""


def _of(kind: str) -> list[EcsKey]:
    """The keys of this type of line."""
    return [key for key in KEYS if not key.lines or kind in key.lines]


def _fields(keys: Iterable[EcsKey]) -> frozenset[str]:
    """The keys of an exchange's line that these keys are made of."""
    paths = {key.source for key in keys if isinstance(key.source, str)} - BODIES
    return frozenset(path for path in paths | _MADE_OF if path.partition(".")[0] in LINE_KEYS)


# ---------------------------------------------------------------------- lines


def open_sink(opening: Opening) -> LineSink:
    """Exchanges, and the other line types, in ECS: an object a line."""
    texts = EcsTexts(opening.view)
    return LineSink(opening, texts.exchange, texts.line)


class EcsTexts:
    """The text of each line."""

    def __init__(self, view: View) -> None:
        asks = view.body == BODY_TEXT
        fields = _fields(_of(EXCHANGE)) | (BODIES if asks else frozenset())
        self._view = replace(view, fields=fields, body=BODY_TEXT if asks else NO_BODY, nulls=True)
        self._plans: dict[str, Plan] = {}
        self._made = text if view.max_line is None else FittedText(view.max_line, False, text, PLACES)

    def exchange(self, exchange: Exchange) -> bytes:
        return self._text(self._view.exchange(exchange))

    def line(self, line: Line) -> bytes:
        return self._text(self._view.other(line))

    def _text(self, line: Line) -> bytes:
        kind = line["type"]
        plan = self._plans.get(kind)
        if plan is None:
            plan = self._plans[kind] = [(key.path.split("."), _reader(key.source)) for key in _of(kind)]
        return self._made(_nested(plan, line))


Plan = list[tuple[list[str], Callable[[Line], Any]]]


def _reader(where: Source) -> Callable[[Line], Any]:
    return where if callable(where) else lambda line: at(line, where)


def _nested(plan: Plan, line: Line) -> Line:
    """The line in ECS: absent rather than null or an empty list."""
    shown: Line = {}
    for (*above, name), read in plan:
        value = read(line)
        if value is None or value == []:
            continue
        node = shown
        for step in above:
            node = node.setdefault(step, {})
        node[name] = value
    return shown


# ---------------------------------------------------------------------- the index template

PATTERN = "kinspect-*"
PRIORITY = 200
"""Above those of Elasticsearch's own templates, which are 100 at most."""
IGNORE_ABOVE = 1024
"""Characters of a keyword that is still searched; a longer one is kept. ECS has the same number."""

TYPES: dict[str, dict[str, Any]] = {
    **{name: {"type": name} for name in (DATE, TEXT, LONG, IP, BOOLEAN)},
    KEYWORD: {"type": "keyword", "ignore_above": IGNORE_ABOVE},
    KEPT: {"type": "keyword", "index": False, "doc_values": False},
}
LEGACY_TYPES = {**TYPES, DATE: {"type": "date"}, TEXT: {"type": "text"}}
"""Types of Elasticsearch 6, which has neither nanoseconds nor `match_only_text`."""

STRINGS = {"strings": {"match_mapping_type": "string", "mapping": TYPES[KEYWORD]}}
"""Of keys that a shipper adds."""


def template() -> dict[str, Any]:
    """A composable index template, for Elasticsearch from 7.14 on (`PUT _index_template/kinspect`)."""
    return {
        "index_patterns": [PATTERN],
        "priority": PRIORITY,
        "template": {"settings": _settings(), "mappings": _mappings(TYPES)},
        "_meta": {"description": f"kinspect {VERSION}", "ecs_version": ECS_VERSION},
    }


def legacy_template() -> dict[str, Any]:
    """An index template for Elasticsearch 6 (`PUT _template/kinspect`), where mappings stand below a type."""
    return {
        "index_patterns": [PATTERN],
        "order": PRIORITY,
        "settings": _settings(),
        "mappings": {"_doc": _mappings(LEGACY_TYPES)},
    }


def _settings() -> dict[str, Any]:
    # A capture may hold any time: one beyond the range of an index must not cost the line.
    return {"index": {"mapping": {"ignore_malformed": True}}}


def _mappings(types: dict[str, dict[str, Any]]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for key in KEYS:
        *above, name = key.path.split(".")
        node = properties
        for step in above:
            node = node.setdefault(step, {"properties": {}})["properties"]
        node[name] = types[key.type]
    return {"date_detection": False, "dynamic_templates": [STRINGS], "properties": properties}
