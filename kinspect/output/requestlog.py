"""Exchanges as Kafka's brokers write them into their request log.

Sources: KIP-673 (the log in JSON), Kafka's RequestConvertToJson and the JsonConverter classes that it generates for its
messages. What only a broker knows (its queues, its listener) is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from ipaddress import ip_address
from typing import Any, NamedTuple

import orjson

from kinspect.jsontext import escape_json
from kinspect.kafka.bodysummary import REQUEST_DATA, RESPONSE_DATA
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View, iso_time, milliseconds
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import ANSWERED, NO_RESPONSE
from kinspect.model import REQUEST
from kinspect.output import Opening
from kinspect.output.linesink import LineSink
from kinspect.protocol import Decoded, schema
from kinspect.protocol.schema import Field

HIDDEN = "[hidden]"
"""In place of a secret, as brokers write it in place of a sensitive config."""
NO_TIME = "-"
UNKNOWN = "unknown"
"""Software of a client that did not name it."""

Struct = dict[str, Any]


class _Body(NamedTuple):
    """A body, by the rules of Kafka's JsonConverters. `shown`: as the view shows it, without secrets."""

    fields: Sequence[Field]
    struct: Struct
    shown: Struct


def open_sink(opening: Opening) -> LineSink:
    """Exchanges as lines of a request log."""
    return RequestLog(opening, RequestLogTexts(opening.view).exchange, lambda _: b"")


def has_line(exchange: Exchange) -> bool:
    """True of a completed request with a Kafka header: one that was answered, or that no answer is due for."""
    return exchange.outcome in (ANSWERED, NO_RESPONSE) and exchange.api_key is not None


class RequestLog(LineSink):
    """Writes completed requests alone."""

    def has(self, exchange: Exchange) -> bool:
        return has_line(exchange)


class RequestLogTexts:
    """The line of each exchange; empty for one that has none."""

    def __init__(self, view: View) -> None:
        self._view = View(show_secrets=view.show_secrets, users=view.users)

    def exchange(self, exchange: Exchange) -> bytes:
        if not has_line(exchange):
            return b""
        # Into one text: each copy of a large message takes as much memory again.
        text = BytesIO()
        text.write(f"[{_time(exchange.timestamp)}] DEBUG Completed request:".encode())
        before = b"{"
        for key, value in self._line(exchange).items():
            text.write(b'%b"%b":' % (before, key.encode()))
            before = b","
            if isinstance(value, _Body):
                _write(text, value.fields, value.struct, value.shown)
            else:
                text.write(orjson.dumps(value))
        text.write(b"} (kafka.request.logger)\n")
        return escape_json(text.getvalue())

    def _line(self, exchange: Exchange) -> Struct:
        ends = exchange.connection
        shown: list[Any] = [
            side and side["body"] for side in (self._view.request(exchange), self._view.response(exchange))
        ]
        told = (_own if exchange.summary.inner(REQUEST_DATA) is None else _forwarded)(exchange, *shown)
        told["connection"] = (
            f"{_address(ends.broker_ip)}:{ends.broker_port}-{_address(ends.client_ip)}:{ends.client_port}-0-0"
        )
        found = {
            "totalTimeMs": milliseconds(_total_time(exchange)),
            "throttleTimeMs": told.pop("throttleTimeMs"),
        }
        told |= {name: value for name, value in found.items() if value is not None}
        told["securityProtocol"] = ("SASL_" * _is_sasl(exchange)) + ("SSL" if ends.tls else "PLAINTEXT")
        principal = told.pop("principal", None) or _principal(exchange)
        if principal is not None and self._view.users:
            told["principal"] = principal
        told["clientInformation"] = {
            "softwareName": exchange.software_name or UNKNOWN,
            "softwareVersion": exchange.software_version or UNKNOWN,
        }
        return told


# ---------------------------------------------------------------------- the messages


def _own(exchange: Exchange, request: Struct | None, response: Struct | None) -> Struct:
    """The request and its response. `request`, `response`: their bodies as the view shows them."""
    header = exchange.api_key, exchange.api_version, exchange.correlation_id, exchange.client_id
    return {
        "isForwarded": False,
        "requestHeader": _header(*header),
        "request": _body(exchange.request, request),
        "response": _body(exchange.response, response),
        "throttleTimeMs": exchange.summary.throttle_time_ms,
    }


def _forwarded(exchange: Exchange, request: Struct, response: Struct | None) -> Struct:
    """The messages inside an Envelope, which brokers log in its place. `request`, `response`: the Envelope's bodies."""
    inner, answer = (exchange.summary.inner(name) for name in (REQUEST_DATA, RESPONSE_DATA))
    assert inner is not None
    own = inner.header
    told: Struct = {
        "isForwarded": True,
        "requestHeader": _header(own.api_key, own.api_version, own.correlation_id, own.client_id),
        "request": _decoded(inner.decoded, request["request_data_decoded"]["body"]),
        "response": None,
        "throttleTimeMs": None,
    }
    if answer is not None and response is not None:
        told["response"] = _decoded(answer.decoded, response["response_data_decoded"]["body"])
        told["throttleTimeMs"] = (answer.decoded.body or {}).get("throttle_time_ms")
    principal = request.get("request_principal_decoded")
    if principal is not None:
        told["principal"] = f"{principal['type']}:{principal['name']}"
    return told


def _header(
    key: int | None, version: int | None, correlation_id: int | None, client_id: str | None
) -> Struct:
    assert key is not None
    assert version is not None
    told: Struct = {"requestApiKey": key, "requestApiVersion": version, "correlationId": correlation_id}
    if schema.header_version(key, version, REQUEST) > 0:
        told["clientId"] = client_id
    api = schema.api(key)
    if api is not None:
        told["requestApiKeyName"] = api.enum
        # Some versions were deprecated for a few releases, and then kept.
        if version in api.deprecated and version in api.removed:
            told["requestApiVersionDeprecated"] = True
    return told


def _time(nanoseconds: int | None) -> str:
    """A time as log4j writes it: `2026-11-21 07:15:41,629`."""
    text = iso_time(nanoseconds)
    return NO_TIME if text is None else text[:23].replace("T", " ").replace(".", ",")


def _total_time(exchange: Exchange) -> int | None:
    """Nanoseconds from the request's last byte to the response's last."""
    latency, response = exchange.latency_ns, exchange.response
    if latency is None or response is None or response.first_time is None or response.last_time is None:
        return None
    return latency + response.last_time - response.first_time


def _address(text: str) -> str:
    """The address as Java writes it: of IPv6 every group, without leading zeros."""
    if ":" not in text:
        return text
    groups = ip_address(text).exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups)


def _is_sasl(exchange: Exchange) -> bool:
    return exchange.mechanism is not None or exchange.principal is not None


def _principal(exchange: Exchange) -> str | None:
    """The user, None if a login keeps it secret."""
    if exchange.principal is not None:
        return f"User:{exchange.principal}"
    return None if _is_sasl(exchange) else "User:ANONYMOUS"


# ---------------------------------------------------------------------- bodies


def _body(message: WireMessage | None, shown: Struct | None) -> _Body | None:
    return None if message is None else _decoded(message.decode(), shown)


def _decoded(decoded: Decoded, shown: Struct | None) -> _Body | None:
    if decoded.layout is None or decoded.body is None or shown is None:
        return None
    return _Body(decoded.layout.fields, decoded.body, shown)


def _write(text: BytesIO, fields: Sequence[Field], struct: Struct, shown: Struct) -> None:
    """Write a struct as JSON. Field by field: of a large message, a copy in other names would take much memory."""
    before = b"{"
    for field in fields:
        name = field.name
        # A field is absent where its message was cut.
        if name not in struct or (field.tag is not None and _is_default(field, struct[name])):
            continue
        key = field.kafka_name[0].lower() + field.kafka_name[1:]
        value = shown[name]
        if field.type == "records" and value is not None:
            key, value = f"{key}SizeInBytes", len(struct[name])
        elif value is None and struct[name] is not None:
            value = HIDDEN
        text.write(b'%b"%b":' % (before, key.encode()))
        before = b","
        if not field.fields or value is None:
            text.write(orjson.dumps(value))
        elif field.array:
            _write_array(text, field.fields, struct[name], value)
        else:
            _write(text, field.fields, struct[name], value)
    text.write(b"}" if before == b"," else b"{}")


def _write_array(text: BytesIO, fields: Sequence[Field], structs: list[Struct], shown: list[Struct]) -> None:
    before = b"["
    for struct, shown_struct in zip(structs, shown, strict=True):
        text.write(before)
        _write(text, fields, struct, shown_struct)
        before = b","
    text.write(b"]" if structs else b"[]")


def _is_default(field: Field, value: Any) -> bool:
    """True of a tagged field that Kafka would not have sent."""
    if field.array or value is None:
        return not value and (field.default is None) == (value is None)
    if field.fields:
        return field.default is not None and all(
            inner.name not in value or _is_default(inner, value[inner.name]) for inner in field.fields
        )
    return bool(value == field.default)
