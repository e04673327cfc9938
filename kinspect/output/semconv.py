"""Exchanges and other lines by OpenTelemetry's semantic conventions: one table of attributes.

Source: opentelemetry.io/docs/specs/semconv, messaging and Kafka, 1.44 and 1.45; both have the status Development. What
they have no name for stands below `kinspect`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from kinspect.jsontext import json_text
from kinspect.output import SEMCONV
from kinspect.output.linefacts import (
    Line,
    api_name,
    at,
    fails,
    network_type,
    of_frames,
    problem_codes,
    software,
)
from kinspect.protocol import schema

Value = Any
"""Text, a number, a truth value, or a list of texts."""


class Convention(NamedTuple):
    """A version of the conventions: the URL of its schema, and its names where they are not those of `ATTRIBUTES`."""

    schema_url: str
    renamed: dict[str, str]


SYSTEM, OFFSET = "messaging.system", "messaging.kafka.offset"
_RENAMED: tuple[dict[str, str], ...] = ({}, {SYSTEM: "messaging.system.name", OFFSET: "kafka.offset"})
CONVENTIONS = {
    version: Convention(f"https://opentelemetry.io/schemas/{version}.0", renamed)
    for version, renamed in zip(SEMCONV, _RENAMED, strict=True)
}
KAFKA = "kafka"

BASE_OFFSETS = (
    "response.body.responses.partition_responses.base_offset",  # Produce
    "response.body.responses.partitions.records.batches.base_offset",  # Fetch
)
"""Fields of bodies that `ATTRIBUTES` takes; nothing else of bodies."""
FIELDS = [
    *"""
    type event_id interface timestamp completed_at client broker connection_id community_id tls kind api
    api_key api_version correlation_id outcome outcome_reason latency_ms service_ms in_flight max_wait_ms
    throttle_time_ms wait topics partitions groups transactional_ids record_count record_bytes error_codes
    error_names error_count problem_count problems response.errors request.size request.frames
    request.complete response.size response.frames response.complete
    """.split(),
    *BASE_OFFSETS,
]
"""Keys of exchange lines that attributes and messages are made of."""


class Operation(NamedTuple):
    """An operation of a messaging system: the system's name for it, and its type."""

    name: str
    type: str


SEND, RECEIVE = "send", "receive"
"""Types of operations that have records."""
OPERATIONS = {
    schema.api_name(api_key): Operation(*text.split("/"))
    for api_key, text in schema.traits("operation").items()
}
"""Operations by API; other APIs are none."""
WITH_RECORDS = frozenset(api for api, operation in OPERATIONS.items() if operation.type in (SEND, RECEIVE))


# ---------------------------------------------------------------------- values


def _operation(part: str) -> Callable[[Line], Value]:
    return lambda line: getattr(OPERATIONS.get(line["api"]), part, None)


def _only(key: str) -> Callable[[Line], Value]:
    """The entry of a list that has no other."""
    return lambda line: line[key][0] if len(line[key]) == 1 else None


def _partition(line: Line) -> str | None:
    return line["partitions"][0].rpartition("-")[2] if len(line["partitions"]) == 1 else None


def _message_count(line: Line) -> int | None:
    count: int | None = line["record_count"] if line["api"] in WITH_RECORDS else None
    return count


def _base_offset(line: Line) -> int | None:
    """The offset of the first record, where a single batch was written or read."""
    found = [*_offsets(at(line, "response.body"))] if line["api"] in WITH_RECORDS else []
    return found[0] if len(found) == 1 and found[0] >= 0 else None


def _offsets(value: Any) -> list[int]:
    if isinstance(value, list):
        return [offset for item in value for offset in _offsets(item)]
    if isinstance(value, dict):
        own = value.get("base_offset")
        return [own] if own is not None else [offset for item in value.values() for offset in _offsets(item)]
    return []


def _error_type(line: Line) -> str | None:
    if line["error_names"]:
        return str(line["error_names"][0])
    return line["outcome_reason"] if fails(line) else None


def _version(line: Line) -> str | None:
    return None if line["api_version"] is None else str(line["api_version"])


def _key(path: str) -> Callable[[Line], Value]:
    return lambda line: at(line, path)


TEXT, INT, DOUBLE, BOOL, TEXTS = "text", "int", "double", "bool", "texts"


class Attribute(NamedTuple):
    """An attribute of an exchange: its name in 1.44, its type, and its value. None and empty lists are left out."""

    name: str
    type: str
    value: Callable[[Line], Value]


ATTRIBUTES = (
    Attribute(SYSTEM, TEXT, lambda line: KAFKA),
    Attribute("messaging.operation.name", TEXT, _operation("name")),
    Attribute("messaging.operation.type", TEXT, _operation("type")),
    Attribute("messaging.destination.name", TEXT, _only("topics")),
    Attribute("messaging.destination.partition.id", TEXT, _partition),
    Attribute("messaging.client.id", TEXT, _key("client.id")),
    Attribute("messaging.consumer.group.name", TEXT, _only("groups")),
    Attribute("messaging.batch.message_count", INT, _message_count),
    Attribute(OFFSET, INT, _base_offset),
    Attribute("error.type", TEXT, _error_type),
    Attribute("server.address", TEXT, _key("broker.ip")),
    Attribute("server.port", INT, _key("broker.port")),
    Attribute("client.address", TEXT, _key("client.ip")),
    Attribute("client.port", INT, _key("client.port")),
    Attribute("network.peer.address", TEXT, _key("broker.ip")),
    Attribute("network.peer.port", INT, _key("broker.port")),
    Attribute("network.transport", TEXT, lambda line: "tcp"),
    Attribute("network.type", TEXT, network_type),
    Attribute("network.protocol.name", TEXT, lambda line: KAFKA),
    Attribute("network.protocol.version", TEXT, _version),
    Attribute("user_agent.original", TEXT, software),
    Attribute("enduser.id", TEXT, _key("client.principal")),
    Attribute("kinspect.event_id", TEXT, _key("event_id")),
    Attribute("kinspect.interface", TEXT, _key("interface")),
    Attribute("kinspect.connection_id", TEXT, _key("connection_id")),
    Attribute("kinspect.community_id", TEXT, _key("community_id")),
    Attribute("kinspect.tls", BOOL, _key("tls")),
    Attribute("kinspect.kind", TEXT, _key("kind")),
    Attribute("kinspect.api.name", TEXT, _key("api")),
    Attribute("kinspect.api.key", INT, _key("api_key")),
    Attribute("kinspect.api.version", INT, _key("api_version")),
    Attribute("kinspect.correlation_id", INT, _key("correlation_id")),
    Attribute("kinspect.client.name", TEXT, _key("client.name")),
    Attribute("kinspect.client.process", TEXT, _key("client.process")),
    Attribute("kinspect.broker.name", TEXT, _key("broker.name")),
    Attribute("kinspect.client.role", TEXT, _key("client.role")),
    Attribute("kinspect.broker.id", INT, _key("broker.node_id")),
    Attribute("kinspect.outcome", TEXT, _key("outcome")),
    Attribute("kinspect.outcome_reason", TEXT, _key("outcome_reason")),
    Attribute("kinspect.wait", TEXT, _key("wait")),
    Attribute("kinspect.latency_ms", DOUBLE, _key("latency_ms")),
    Attribute("kinspect.service_time_ms", DOUBLE, _key("service_ms")),
    Attribute("kinspect.throttle_time_ms", INT, _key("throttle_time_ms")),
    Attribute("kinspect.max_wait_ms", INT, _key("max_wait_ms")),
    Attribute("kinspect.in_flight", INT, _key("in_flight")),
    Attribute("kinspect.topics", TEXTS, _key("topics")),
    Attribute("kinspect.partitions", TEXTS, _key("partitions")),
    Attribute("kinspect.groups", TEXTS, _key("groups")),
    Attribute("kinspect.transactional_ids", TEXTS, _key("transactional_ids")),
    Attribute("kinspect.record_count", INT, _key("record_count")),
    Attribute("kinspect.record_bytes", INT, _key("record_bytes")),
    Attribute("kinspect.error_names", TEXTS, _key("error_names")),
    Attribute("kinspect.error_count", INT, _key("error_count")),
    Attribute("kinspect.problem_codes", TEXTS, problem_codes),
    Attribute("kinspect.problem_count", INT, _key("problem_count")),
    Attribute("kinspect.request.size", INT, _key("request.size")),
    Attribute("kinspect.response.size", INT, _key("response.size")),
    Attribute("kinspect.frames.file", TEXT, of_frames("file")),
    Attribute("kinspect.frames.first", INT, of_frames("first")),
)
"""The attributes of logs and spans of exchanges."""


class AttributeNames:
    """The table by a version of the conventions."""

    def __init__(self, version: str) -> None:
        self.schema_url, renamed = CONVENTIONS[version]
        self._table = [(renamed.get(name, name), value) for name, _, value in ATTRIBUTES]

    def exchange(self, line: Line) -> dict[str, Value]:
        """Attributes of an exchange, a line with `FIELDS`."""
        found = {name: value(line) for name, value in self._table}
        return {name: value for name, value in found.items() if value is not None and value != []}

    def other(self, line: Line) -> dict[str, Value]:
        """Attributes of another line: its keys below `kinspect`. A list of objects is one text, which is JSON."""
        return dict(self._below(line, "kinspect"))

    def _below(self, line: Line, path: str) -> list[tuple[str, Value]]:
        found: list[tuple[str, Value]] = []
        for key, value in line.items():
            if isinstance(value, dict):
                found += self._below(value, f"{path}.{key}")
            elif value not in (None, []) and key not in LEFT_OUT:
                objects = isinstance(value, list) and isinstance(value[0], dict)
                found.append((f"{path}.{key}", json_text(value) if objects else value))
        return found


def characters(attributes: dict[str, Value]) -> int:
    """Number of characters of the texts in attributes."""
    texts = [[value] if isinstance(value, str) else value for value in attributes.values()]
    return sum(
        len(text) for listed in texts if isinstance(listed, list) for text in listed if isinstance(text, str)
    )


LEFT_OUT = frozenset({"type", "schema_version", "timestamp", "host", "line_truncated"})
"""Keys of other lines that a log record has by itself, or not at all."""


# ---------------------------------------------------------------------- severities, and names of spans


class Severity(IntEnum):
    """Severities of OpenTelemetry's logs."""

    INFO = 9
    WARN = 13
    ERROR = 17


def severity(line: Line) -> Severity:
    """ERROR for what failed; WARN if the client is to try again, or to wait."""
    if fails(line):
        errors = (line["response"] or {}).get("errors") or ()
        return Severity.WARN if errors and all(error["retriable"] for error in errors) else Severity.ERROR
    return Severity.WARN if (line["throttle_time_ms"] or 0) > 0 else Severity.INFO


def span_name(line: Line) -> str:
    """`send orders`: the operation and its topic; else the API."""
    operation, topics = OPERATIONS.get(line["api"]), line["topics"]
    if operation is None:
        return api_name(line)
    return f"{operation.name} {topics[0]}" if len(topics) == 1 else operation.name
