"""Bodies in JSON: Kafka's decoded fields in the form that a line shows.

A layout is compiled once into functions that touch only the paths that need another form: bytes, record sets, secrets,
topic ids, not-a-number. Other values are shown as they are; the decoded body itself is never changed, but the view
shares its untouched parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from kinspect.jsontext import float_value
from kinspect.kafka.bodysummary import (
    REQUEST_DATA,
    RESPONSE_DATA,
    UNALIGNED_RECORDS,
    BodySummary,
    RecordField,
    RecordRoom,
    Struct,
    problems_of,
    summary_of,
)
from kinspect.kafka.fields import entities, envelope, sasl, secrets
from kinspect.kafka.fields.groupbytes import GROUP_BYTES, GroupReader, read_group_bytes
from kinspect.kafka.fields.resources import BROKER_LOGGER, TYPE_FIELD
from kinspect.kafka.view.recordview import RecordView
from kinspect.kafka.view.redact import base64_text, hide, tags
from kinspect.protocol import schema
from kinspect.protocol.apikeys import JOIN_GROUP
from kinspect.protocol.fieldpaths import each_field
from kinspect.protocol.primitives import UNKNOWN_TAGS, ZERO_UUID

if TYPE_CHECKING:
    from kinspect.kafka.wire.message import WireMessage
    from kinspect.kafka.wire.pair import Pair
    from kinspect.protocol.schema import Field, Layout


PROTOCOL_TYPE: Final = "protocol_type"
PUSH_CODEC: Final = "compression_type"
# Messages whose bytes are shown only where their meaning is known.
_ENVELOPES: Final = frozenset({"EnvelopeRequest", "EnvelopeResponse"})
_PUSHED: Final = "PushTelemetryRequest", "metrics"
_ANSWERED_TOKEN: Final = "SaslAuthenticateResponse", "auth_bytes"
_TEXTS: Final = frozenset({"string", "bytes"})
_REQUEST_DATA: Final = frozenset({REQUEST_DATA})
_PROTOCOL_TYPE: Final = frozenset({PROTOCOL_TYPE})


class Scope:
    """Context of the field that is being shown. `redactions` counts the secrets and record sets left out so far."""

    __slots__ = """
        _exchange _message _room _summary codec protocol_type redactions logger sensitive topic
    """.split()

    def __init__(
        self,
        exchange: Pair,
        message: WireMessage | None,
        summary: BodySummary | None,
        protocol_type: str | None,
    ) -> None:
        self._exchange = exchange
        self._message = message
        self._summary = summary
        self._room: RecordRoom | None = None
        self.protocol_type = protocol_type
        self.codec = -1
        self.topic: str | None = None
        self.sensitive = False
        self.logger = False
        self.redactions = 0

    def topic_name(self, topic_id: str) -> str | None:
        """The name of a topic id as known when the exchange completed."""
        return self._exchange.connection.names.name(topic_id, self._exchange.key)

    def record_field(self, name: str, value: bytes) -> RecordField:
        """The record set, read already if the summary has it."""
        found = self._summary.record_field(value) if self._summary is not None else None
        if found is None:
            ends = self._exchange.connection
            self._room = self._room or RecordRoom(ends.caps)
            found = RecordField(value, name != UNALIGNED_RECORDS, self._room, ends.counts)
        return found

    def inner(self) -> Scope:
        """The scope of a message inside this one."""
        return Scope(self._exchange, None, None, None)

    def is_sure(self) -> bool:
        """True if the message is surely of its layout: it fits to its last byte, and nothing about it is a guess."""
        message = self._message
        if message is None:
            # One inside an Envelope was read to its last byte.
            return True
        damaged = any([problem.side == message.direction for problem in problems_of(self._exchange)])
        return not message.inferred and not damaged

    def inner_message(self, name: str, value: bytes) -> envelope.InnerMessage | None:
        """The message in an Envelope's field, read already if the summary has it."""
        if self._summary is not None and self._summary.has_inner(name, value):
            return self._summary.inner(name)
        if name == REQUEST_DATA:
            return envelope.inner_request(value)
        # The request that the response belongs to.
        request = self._exchange.request
        body = request.decode(_REQUEST_DATA).body if request is not None else None
        return envelope.inner_response(None if body is None else body.get(REQUEST_DATA), value)


Edit = Callable[[Struct, Struct, Any, Scope], None]
"""Writes the shown form of one field. Takes the struct to write to, the field's own struct, its value and context."""
Rewrite = Callable[[Struct, Scope], Struct]
Form = Callable[[Any, Scope], Any]
"""Gives the shown form of a value that is not null."""
Enter = Callable[[Struct, Scope], None]
"""Notes in the scope what the fields below a struct depend on."""


class BodyView:
    """Shows bodies under given options; keeps the compiled form of each layout."""

    def __init__(self, records: RecordView) -> None:
        self.records = records
        self.readings = records.readings
        self.show_secrets = self.readings.show_secrets
        self.forms: dict[str, Form] = {
            "bytes": lambda value, _: base64_text(value),
            "float64": lambda value, _: float_value(value),
        }
        if self.readings.int64_text:
            self.forms["int64"] = lambda value, _: str(value)
        self._plans: dict[Layout, _Plan] = {}

    def body(
        self, layout: Layout, body: Struct, message: WireMessage, exchange: Pair, summarised: bool
    ) -> Struct:
        """The shown form of the decoded `body` of one of the exchange's messages. `summarised`: the line has the
        exchange's summary too, so its record sets need not be read twice."""
        rewrite = self._rewrite(layout, body)
        if rewrite is None:
            return body
        summary = summary_of(exchange) if summarised else None
        scope = Scope(exchange, message, summary, _protocol_type(message, exchange))
        return rewrite(body, scope)

    def inner(self, inner: envelope.InnerMessage, scope: Scope) -> Struct | None:
        """The body of a message inside an Envelope."""
        layout, body = inner.decoded.layout, inner.decoded.body
        rewrite = self._rewrite(layout, body) if layout is not None and body is not None else None
        return body if rewrite is None or body is None else rewrite(body, scope)

    def _rewrite(self, layout: Layout, body: Struct) -> Rewrite | None:
        plan = self._plans.get(layout)
        if plan is None:
            plan = self._plans[layout] = _Plan(self, layout)
        return plan.light if plan.tagged is None or not plan.tagged(body) else plan.full


class _Plan:
    """The compiled form of one layout: `light` for bodies without unknown tagged fields, `full` for those with some.
    `tagged` tests for them. Any struct of a flexible message can have such fields, but hardly any does."""

    def __init__(self, view: BodyView, layout: Layout) -> None:
        self.light = _BodyWriter(view, layout, False).struct(layout.fields)
        self.tagged = _tag_check(layout.fields) if layout.flexible else None
        self._view, self._layout = view, layout
        self._full: Rewrite | None = None

    @property
    def full(self) -> Rewrite | None:
        if self._full is None:
            self._full = _BodyWriter(self._view, self._layout, True).struct(self._layout.fields)
        return self._full


def _tag_check(fields: Sequence[Field]) -> Callable[[Struct], bool]:
    """Return a function that is true of a struct if it, or one below it, has unknown tagged fields. A walk of its own:
    every flexible body is asked, and hardly any has some."""
    below = tuple((f.name, f.array, _tag_check(f.fields)) for f in fields if f.fields)
    if not below:
        return lambda struct: UNKNOWN_TAGS in struct

    def check(struct: Struct) -> bool:
        if UNKNOWN_TAGS in struct:
            return True
        for name, array, inner in below:
            value = struct.get(name)
            if value and (any(map(inner, value)) if array else inner(value)):
                return True
        return False

    return check


def _protocol_type(message: WireMessage, exchange: Pair) -> str | None:
    """The group's protocol type from a JoinGroup request: responses before v7 do not have it."""
    request = exchange.request
    if message.api_key != JOIN_GROUP or request is None:
        return None
    body = request.decode(_PROTOCOL_TYPE).body
    return None if body is None else body.get(PROTOCOL_TYPE)


class _BodyWriter:
    """Compiles one layout's structs. `tags`: unknown tagged fields are looked for in each."""

    def __init__(self, view: BodyView, layout: Layout, tags: bool) -> None:
        self._view = view
        self._layout = layout
        self._tags = tags
        self._hides = not view.show_secrets and (layout.name in _ENVELOPES or _has_secrets(layout.fields))

    def struct(self, fields: Sequence[Field], secret: bool = False) -> Rewrite | None:
        """The function that shows a struct; None if it is shown as it is. `secret`: its texts are."""
        edits: dict[str, Edit] = {}
        grows = False
        for field in fields:
            edit, adds = self._edit(field, fields, secret)
            if edit is not None:
                edits[field.name] = edit
                grows = grows or adds
        if self._tags:
            edits[UNKNOWN_TAGS] = self._unknown_tags
        if not edits:
            return None
        enters = tuple(self._enters(fields))
        return _growing(edits, enters) if grows else _amending(tuple(edits.items()), enters)

    def _enters(self, fields: Sequence[Field]) -> Iterator[Enter]:
        names = {field.name for field in fields}
        if PROTOCOL_TYPE in names:
            yield _enter_group
        if PUSH_CODEC in names:
            yield _enter_push
        if any(map(entities.is_topic, fields)) and _holds_records(fields):
            yield _topic_enter(fields)
        if TYPE_FIELD in names and _has_secrets(fields):
            yield _enter_resource
        if _is_config_entry(fields) and any(field.fields for field in fields):
            yield _enter_config

    def _edit(self, field: Field, siblings: Sequence[Field], secret: bool) -> tuple[Edit | None, bool]:
        """The edit of a field, None if it is shown as it is; and True if the edit adds keys. `secret`: as for
        `struct`."""
        name = field.name
        secret = secret or secrets.is_secret_field(field.kafka_name, field.type)
        if field.fields:
            rewrite = self.struct(field.fields, secret)
            return (None if rewrite is None else _formed(name, field.array, rewrite)), False
        if (self._layout.name, name) == _ANSWERED_TOKEN:
            return self._read_bytes(name, lambda value, _: sasl.refusal(value), True), True
        if not self._view.show_secrets:
            if secret and field.type in _TEXTS:
                return self._read_bytes(name, lambda value, _: None, True), True
            if name == secrets.CONFIG_VALUE_FIELD and _is_config_entry(siblings):
                return _config_value(tuple(f.name for f in siblings if f.name in secrets.CONFIG_MARKS)), True
        if entities.is_topic_id(field):
            return _topic_id(tuple(f.name for f in siblings if entities.is_topic_name(f))), True
        if entities.is_records(field):
            return self._records(name), False
        place = (self._layout.name, name)
        if place in GROUP_BYTES:
            return self._read_bytes(name, self._group_bytes(GROUP_BYTES[place]), False), True
        if place == _PUSHED:
            return self._read_bytes(name, self._pushed_metrics, False), True
        if (
            self._layout.name in _ENVELOPES
            and field.type == "bytes"
            and not (field.array and self._view.show_secrets)
        ):
            return self._read_bytes(name, self._envelope(name), None), True
        form = self._view.forms.get(field.type)
        return (None if form is None else _formed(name, field.array, form)), False

    # ------------------------------------------------------------------ edits that need the options

    def _records(self, name: str) -> Edit:
        show = self._view.records.record_set

        def edit(shown: Struct, struct: Struct, value: Any, scope: Scope) -> None:
            shown[name] = None if value is None else show(scope.record_field(name, value), scope.topic, scope)

        return edit

    def _read_bytes(self, name: str, read: Form, secret: bool | None) -> Edit:
        """Bytes with their reading beside them: not shown where that hides something. `secret`: whether they are one;
        None: if they cannot be read."""
        show_secrets = self._view.show_secrets

        def edit(shown: Struct, struct: Struct, value: Any, scope: Scope) -> None:
            before = scope.redactions
            found = None if value is None else read(value, scope)
            is_secret = found is None if secret is None else secret
            if scope.redactions != before or (is_secret and not show_secrets):
                hide(shown, name, value, scope)
            else:
                shown[name] = base64_text(value)
            if found is not None:
                shown[name + "_decoded"] = found

        return edit

    def _group_bytes(self, reader: GroupReader) -> Form:
        readings = self._view.readings

        def read(value: Any, scope: Scope) -> Struct | None:
            found = read_group_bytes(reader, value, scope.protocol_type)
            return None if found is None else readings.struct(found, scope, reader[0], found["version"])

        return read

    def _pushed_metrics(self, value: Any, scope: Scope) -> Any:
        from kinspect.records.pushedmetrics import decode_push

        found = decode_push(scope.codec, value)
        return _integers_as_text(found) if self._view.readings.int64_text else found

    def _envelope(self, name: str) -> Form:
        """Reader of the bytes of an Envelope."""
        readers: dict[str, Form] = {
            REQUEST_DATA: lambda value, scope: self._inner(scope.inner_message(REQUEST_DATA, value), scope),
            RESPONSE_DATA: lambda value, scope: self._inner(scope.inner_message(RESPONSE_DATA, value), scope),
            "request_principal": lambda value, _: envelope.principal(value),
            "client_host_address": lambda value, _: envelope.address(value),
        }
        return readers.get(name, lambda value, _: None)

    def _inner(self, inner: envelope.InnerMessage | None, scope: Scope) -> Struct | None:
        if inner is None:
            return None
        header = inner.header
        within = scope.inner()
        body = self._view.inner(inner, within)
        scope.redactions += within.redactions
        return {
            "api": schema.api_name(header.api_key),
            "api_key": header.api_key,
            "api_version": header.api_version,
            "correlation_id": header.correlation_id,
            "client_id": header.client_id,
            "body": body,
        }

    def _unknown_tags(self, shown: Struct, struct: Struct, value: Any, scope: Scope) -> None:
        # In a message that carries secrets, bytes without a name could be one, and in one that may be another.
        hidden = not self._view.show_secrets and (self._hides or not scope.is_sure())
        shown[UNKNOWN_TAGS] = tags(value, hidden, scope)


# ---------------------------------------------------------------------- structs


def _growing(edits: dict[str, Edit], enters: tuple[Enter, ...]) -> Rewrite:
    """The rewrite of a struct that gets derived keys: built from scratch, so that they stand beside their fields."""

    def rewrite(struct: Struct, scope: Scope) -> Struct:
        for enter in enters:
            enter(struct, scope)
        shown: Struct = {}
        for name, value in struct.items():
            edit = edits.get(name)
            if edit is None:
                shown[name] = value
            else:
                edit(shown, struct, value, scope)
        return shown

    return rewrite


def _amending(edits: tuple[tuple[str, Edit], ...], enters: tuple[Enter, ...]) -> Rewrite:
    """The rewrite of a struct whose keys stay: a copy with some values replaced."""

    def rewrite(struct: Struct, scope: Scope) -> Struct:
        for enter in enters:
            enter(struct, scope)
        shown = struct.copy()
        for name, edit in edits:
            if name in struct:
                edit(shown, struct, struct[name], scope)
        return shown

    return rewrite


# ---------------------------------------------------------------------- fields


def _formed(name: str, array: bool, form: Form) -> Edit:
    """Edit of a struct or a single value, or of an array of them."""

    def each(shown: Struct, struct: Struct, value: Any, scope: Scope) -> None:
        shown[name] = None if value is None else [form(item, scope) for item in value]

    def one(shown: Struct, struct: Struct, value: Any, scope: Scope) -> None:
        shown[name] = None if value is None else form(value, scope)

    return each if array else one


def _integers_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _integers_as_text(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_integers_as_text(item) for item in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _config_value(telling: tuple[str, ...]) -> Edit:
    """Edit of a config's value. `telling`: the fields that mark secrets; it is one if the message ends before them."""

    def edit(shown: Struct, struct: Struct, value: Any, scope: Scope) -> None:
        untold = any(name not in struct for name in telling)
        if untold or scope.sensitive or secrets.is_secret_entry(struct, scope.logger):
            hide(shown, secrets.CONFIG_VALUE_FIELD, value, scope)
        else:
            shown[secrets.CONFIG_VALUE_FIELD] = value

    return edit


def _topic_id(name_fields: tuple[str, ...]) -> Edit:
    def edit(shown: Struct, struct: Struct, value: Any, scope: Scope) -> None:
        shown[entities.TOPIC_ID] = value
        if value == ZERO_UUID or any(struct.get(field) for field in name_fields):
            return
        name = scope.topic_name(value)
        if name is not None:
            shown["topic_name_resolved"] = name

    return edit


# ---------------------------------------------------------------------- context for the fields below


def _enter_group(struct: Struct, scope: Scope) -> None:
    scope.protocol_type = struct.get(PROTOCOL_TYPE)


def _enter_push(struct: Struct, scope: Scope) -> None:
    scope.codec = struct.get(PUSH_CODEC, -1)


def _enter_config(struct: Struct, scope: Scope) -> None:
    """Note a secret config: its synonyms are secret too."""
    scope.sensitive = secrets.is_secret_entry(struct, scope.logger)


def _enter_resource(struct: Struct, scope: Scope) -> None:
    scope.logger = struct.get(TYPE_FIELD) == BROKER_LOGGER


def _topic_enter(fields: Sequence[Field]) -> Enter:
    names = tuple(f.name for f in fields if entities.is_topic_name(f))

    def enter(struct: Struct, scope: Scope) -> None:
        name = next((struct[field] for field in names if struct.get(field)), None)
        topic_id = struct.get(entities.TOPIC_ID)
        scope.topic = scope.topic_name(topic_id) if name is None and topic_id is not None else name

    return enter


# ---------------------------------------------------------------------- contents of layouts


def _is_config_entry(fields: Sequence[Field]) -> bool:
    texts = {field.name for field in fields if field.type == "string" and not field.array}
    return secrets.CONFIG_VALUE_FIELD in texts and not texts.isdisjoint(secrets.CONFIG_NAME_FIELDS)


def _has_secrets(fields: Sequence[Field]) -> bool:
    return any(
        secrets.is_secret_field(field.kafka_name, field.type) or _is_config_entry(struct)
        for _, field, struct in each_field(fields)
    )


def _holds_records(fields: Sequence[Field]) -> bool:
    return any(entities.is_records(field) for _, field, _ in each_field(fields))
