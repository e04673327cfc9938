"""Messages with pseudonyms in place of texts and bytes: field by field as their layouts say, default deny.

A text stays where the table has it as Kafka's own word for its field. Every other text, byte string, uuid and record is
replaced, also within the bytes whose structure Kafka defines; numbers stay.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from struct import unpack_from
from typing import Any, Final, NamedTuple

from kinspect.exports.pseudonyms import Pseudonyms
from kinspect.exports.redactedrecords import Means, redacted_set
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.fields.groupbytes import GROUP_BYTES
from kinspect.kafka.fields.sasl import SERVER_ERRORS, refusal, user_name
from kinspect.kafka.fields.secrets import CONFIG_VALUE_FIELD, is_secret_entry, is_secret_field
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import SASL_TOKEN
from kinspect.model import REQUEST, RESPONSE, Caps
from kinspect.protocol import request_header, response_header, schema
from kinspect.protocol.apikeys import ENVELOPE
from kinspect.protocol.bodies import decode_body
from kinspect.protocol.fieldpaths import along
from kinspect.protocol.headers import TAGGED
from kinspect.protocol.interpreter import Span, interpret
from kinspect.protocol.primitives import UNKNOWN_TAGS, uvarint, uvarint_bytes
from kinspect.protocol.schema import Layout
from kinspect.records.controlrecords import decode_control_record
from kinspect.records.internal import METADATA_TOPICS, TOPICS, decode_key, decode_value
from kinspect.records.recordvalues import newest_version

_WIDTHS: Final = {"string": 2, "bytes": 4, "records": 4}
_REPLACED: Final = frozenset({*_WIDTHS, "uuid"})
_RESOURCE: Final = "resource_name"
_BROKERS: Final = (4, 8)
"""Types of resources with configs whose names are node ids: BROKER, BROKER_LOGGER."""
_PRINCIPAL: Final = "DefaultPrincipalData"
_UNALIGNED: Final = "unaligned_records"
_CONTROL_KEY: Final = 4
_VERSION: Final = 2
_CORRELATION_ID: Final = 4
_LOSSES: Final = ("gap", "truncated_capture")
"""Problems of messages that go on behind bytes that are missing."""
_MARKER: Final = "EndTxnMarker"
_EMBEDDED: Final = {
    **{place: reader[0] for place, reader in GROUP_BYTES.items()},
    ("GroupMetadataValue", "subscription"): "ConsumerProtocolSubscription",
    ("GroupMetadataValue", "assignment"): "ConsumerProtocolAssignment",
    ("ConsumerGroupMemberMetadataValue", "metadata"): "ConsumerProtocolSubscription",
}
"""Messages that are in the bytes of fields, behind their version."""
_STATUSES: Final = frozenset({"invalid_request", "invalid_token", "insufficient_scope"})
"""Why OAUTHBEARER's logins are refused (RFC 6750, section 3.1)."""
_READERS: Final = {reader[0]: reader[1] for reader in GROUP_BYTES.values()}


class _Tag(NamedTuple):
    """A tagged field that is written: its number, its size and its end in the data, and the place of its first part."""

    number: int
    size: int
    end: int
    first: int


class Redaction:
    """Replaces what is in messages."""

    def __init__(self, pseudonyms: Pseudonyms, caps: Caps) -> None:
        self._to = pseudonyms
        self._caps = caps
        self._exchange: Exchange | None = None
        self._left = 0

    def message(self, message: WireMessage, exchange: Exchange) -> tuple[bytes, int] | None:
        """What the message's bytes become, as far as they were captured, and how many at their end are left out, as a
        field was cut there; None if it is not understood."""
        raw = message.raw
        if raw is None:
            return None
        if message.api_key is None or message.api_version is None:
            return (self._token(raw, exchange.mechanism), 0) if exchange.kind == SASL_TOKEN else None
        self._exchange = exchange
        start, layout = message.body_start, message.decode().layout
        if message.direction == REQUEST:
            version = schema.header_version(message.api_key, message.api_version, REQUEST)
        else:
            version = TAGGED[RESPONSE] if start > _CORRELATION_ID else 0
        head = self.struct(schema.header_layout(message.direction, version), raw, 0, start)
        self._left = 0
        if layout is None:
            body = self._to.data(raw[start:])
        else:
            lost = any(
                problem.code in _LOSSES and problem.side == message.direction for problem in exchange.problems
            )
            body = self.struct(layout, raw, start, len(raw), is_cut=lost and not message.complete)
        message.forget()
        return head + body, self._left

    # ------------------------------------------------------------------ structures

    def struct(self, layout: Layout, data: bytes, start: int, end: int, is_cut: bool = False) -> bytes:
        """`data[start:end]` with what is read of the layout replaced, and what is behind it. `is_cut`: that is a part
        of a field, and is left out."""
        reading = interpret(layout, data[:end], start, end, spans=True, max_memory=self._caps.body_bytes)
        parts: list[bytes] = []
        tags: list[_Tag] = []
        position = start

        def leave(until: int, is_cut: bool = False) -> None:
            while tags and (is_cut or tags[-1].end <= until):
                tag = tags.pop()
                content = b"".join(parts[tag.first :])
                size = tag.size if is_cut else len(content)
                parts[tag.first :] = [uvarint_bytes(tag.number), uvarint_bytes(size), content]

        for span in reading.spans:
            leave(span.start)
            if span.type == "tag":
                size, _ = _uvarint(data, _uvarint(data, span.start)[1])
                tags.append(_Tag(span.value, size, span.end + size, len(parts)))
            elif span.type in _REPLACED and span.value is not None:
                parts.append(self._value(layout, span, data[span.start : span.end], reading.body))
            else:
                parts.append(data[span.start : span.end])
            position = span.end
        leave(position)
        if is_cut:
            self._left = end - position
        else:
            parts.append(self._to.data(data[position:end]))
        leave(end, is_cut=True)
        return b"".join(parts)

    def _value(self, layout: Layout, span: Span, raw: bytes, body: dict[str, Any]) -> bytes:
        """A value with its length, replaced."""
        path = re.sub(r"\[\d+\]", "", span.path)
        if span.type == "uuid":
            return self._to.uuid(raw)
        if path.endswith(UNKNOWN_TAGS):
            return self._to.data(raw)
        width = _WIDTHS[span.type]
        fixed = len(raw) >= width and int.from_bytes(raw[:width]) == len(raw) - width
        value = raw[width if fixed else _uvarint(raw, 0)[1] :]
        if span.type == "string":
            made = self._text(path, value, span.path, body)
        elif span.type == "records":
            made = self._records(value, span.path, body)
        else:
            made = self._bytes(layout, path, value, body)
        return (len(made).to_bytes(width) if fixed else uvarint_bytes(len(made) + 1)) + made

    # ------------------------------------------------------------------ values

    def _text(self, path: str, value: bytes, place: str, body: dict[str, Any]) -> bytes:
        name = path.rpartition(".")[2]
        entry, users = None, False
        if name == CONFIG_VALUE_FIELD or name.startswith(_RESOURCE):
            *_, entry, _ = (None, body, *along(body, place))
            of_broker = isinstance(entry, dict) and entry.get("resource_type") in _BROKERS
            users = name != CONFIG_VALUE_FIELD and value.isdigit() and not of_broker
        if not users and schema.is_own_word(path, value.decode(errors="replace")):
            return value
        if name == CONFIG_VALUE_FIELD and isinstance(entry, dict) and is_secret_entry(entry):
            return b"0" * len(value)
        return b"0" * len(value) if is_secret_field(name, "string") else self._to.raw_text(value)

    def _bytes(self, layout: Layout, path: str, value: bytes, body: dict[str, Any]) -> bytes:
        name = path.rpartition(".")[2]
        if name == "auth_bytes":
            mechanism = None if self._exchange is None else self._exchange.mechanism
            return self._token(value, mechanism)
        if is_secret_field(name, "bytes"):
            return bytes(len(value))
        if layout.api_key == ENVELOPE:
            return self._envelope(name, value)
        if (inner := _EMBEDDED.get((layout.name, name))) is not None and _READERS[inner](value) is not None:
            return self._prefixed(inner, value)
        return self._to.data(value)

    def _prefixed(self, name: str, value: bytes) -> bytes:
        """A message behind an int16 with its version, which may be one that is not known yet."""
        version = min(int(unpack_from(">h", value)[0]), newest_version(name))
        layout = schema.record_layouts(name, version)[0]
        return value[:_VERSION] + self.struct(layout, value, _VERSION, len(value))

    def _envelope(self, name: str, value: bytes) -> bytes:
        """Contents of an Envelope. Envelopes do not nest."""
        if name == "client_host_address" and len(value) in (4, 16):
            return self._to.address(value)
        if name == "request_principal":
            known = len(value) > _VERSION and schema.record_layouts(_PRINCIPAL, unpack_from(">h", value)[0])
            return self._prefixed(_PRINCIPAL, value) if known else self._to.data(value)
        request = value
        if name == "response_data":
            asked = None if self._exchange is None else self._exchange.request
            body = None if asked is None else asked.facts().body
            request = (body or {}).get("request_data") or b""
        header = request_header(request, 0, len(request))
        if header is None or header.api_key == ENVELOPE:
            return self._to.data(value)
        direction, start, version = REQUEST, header.body_start, 0
        if name == "response_data":
            own = response_header(value, 0, len(value), header.api_key, header.api_version)
            if own is None:
                return self._to.data(value)
            direction, start = RESPONSE, own.body_start
        version = schema.header_version(header.api_key, header.api_version, direction)
        layout = decode_body(header.api_key, header.api_version, direction, value, start, len(value)).layout
        if layout is None:
            return self._to.data(value)
        head = schema.header_layout(direction, version)
        return self.struct(head, value, 0, start) + self.struct(layout, value, start, len(value))

    def _token(self, token: bytes, mechanism: str | None) -> bytes:
        """A SASL token with zeros, but for who logs in and why it is refused, which are in the form that they had."""
        user = user_name(mechanism, token)
        if token.startswith(b"e=") and token[2:].decode("ascii", "replace") in SERVER_ERRORS:
            return token
        if (status := refusal(token)) is not None and token.startswith(b"{"):
            status = status if status in _STATUSES else self._to.text(status)
            return json.dumps({"status": status}).encode().ljust(len(token))
        if user is None:
            return bytes(len(token))
        name = self._to.raw_text(user.encode())
        if mechanism == "PLAIN":
            authorization, _, password = token.split(b"\0")
            return b"\0".join([self._to.raw_text(authorization), name, b"0" * len(password)])
        if mechanism == "OAUTHBEARER":
            claims = urlsafe_b64encode(json.dumps({"sub": name.decode()}).encode()).rstrip(b"=")
            return b"n,,\x01auth=Bearer 0." + claims + b".0\x01\x01"
        return b"n,,n=" + name.replace(b"=", b"=3D").replace(b",", b"=2C") + b",r=" + b"0" * 24

    # ------------------------------------------------------------------ records

    def _records(self, value: bytes, place: str, body: dict[str, Any]) -> bytes:
        topic = self._topic(place, body)

        def record(
            key: bytes | None, content: bytes | None, control: bool
        ) -> tuple[bytes | None, bytes | None]:
            if control:
                return self._control(key, content)
            if topic is not None:
                return self._internal(topic, key, content)
            return self._opaque(key), self._opaque(content)

        means = Means(record, self._to.data, self._to.raw_text)
        return redacted_set(value, means, aligned=not place.endswith(_UNALIGNED))

    def _topic(self, place: str, body: dict[str, Any]) -> str | None:
        """The internal topic that the record set belongs to, if it is one."""
        for struct in along(body, place):
            if not isinstance(struct, dict):
                continue
            name = struct.get("topic") or struct.get("name")
            if isinstance(topic_id := struct.get("topic_id"), str) and self._exchange is not None:
                name = self._exchange.connection.names.name(topic_id, self._exchange.key)
            if name in TOPICS:
                return str(name)
        return None

    def _opaque(self, value: bytes | None) -> bytes | None:
        return None if value is None else self._to.data(value)

    def _control(self, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        _, found = decode_control_record(key, value)
        made = self._opaque(value)
        if found is not None and value is not None:
            made = self._inner(found, value, _VERSION if found["type"] == _MARKER else 0)
        return key if key is not None and len(key) == _CONTROL_KEY else self._opaque(key), made

    def _internal(
        self, topic: str, key: bytes | None, value: bytes | None
    ) -> tuple[bytes | None, bytes | None]:
        known, found = decode_key(topic, key), decode_value(topic, key, value)
        made, content = self._opaque(key), self._opaque(value)
        if known is not None and key is not None:
            made = self._inner(known, key, _VERSION)
        if found is not None and value is not None:
            start = _VERSION
            if topic in METADATA_TOPICS:
                start = 0
                for _ in range(3):
                    start = _uvarint(value, start)[1]
            content = self._inner(found, value, start)
        return made, content

    def _inner(self, found: dict[str, Any], data: bytes, start: int) -> bytes:
        layout = schema.record_layouts(found["type"], found["version"])[0]
        return data[:start] + self.struct(layout, data, start, len(data))


def _uvarint(data: bytes, position: int) -> tuple[int, int]:
    return (
        uvarint(data, position + 1, data[position])
        if data[position] > 127
        else (data[position], position + 1)
    )
