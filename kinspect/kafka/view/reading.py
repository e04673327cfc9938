"""JSON form of readings: values decoded from bytes that announce their own layout; small, rare, shown by a plain walk.

These are consumer protocol messages, keys and values of internal topics, control records: dicts of plain values
from `kinspect.records`. Names of fields and types of values show which values need another form in JSON.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Protocol

from kinspect.jsontext import float_value
from kinspect.kafka.fields import secrets
from kinspect.kafka.fields.entities import TOPIC_ID
from kinspect.kafka.view.redact import Redactions, base64_text, hide, tags
from kinspect.protocol import schema
from kinspect.protocol.fieldpaths import each_field
from kinspect.protocol.primitives import UNKNOWN_TAGS, ZERO_UUID

NAME_FIELDS: Final = ("topic_name", "name", "topic")


class BodyContext(Redactions, Protocol):
    """Context that a reading needs from the body it stands in."""

    def topic_name(self, topic_id: str) -> str | None: ...


class ReadingView:
    """Turns readings into JSON-ready values."""

    def __init__(self, show_secrets: bool, int64_text: bool) -> None:
        self.show_secrets = show_secrets
        self.int64_text = int64_text

    def record(self, reading: dict[str, Any], context: BodyContext) -> dict[str, Any]:
        """A record's key or value: `type`, `version` and, for most, `data`."""
        data = reading.get("data")
        if data is None:
            return reading
        return {**reading, "data": self.struct(data, context, reading["type"], reading["version"])}

    def struct(self, data: dict[str, Any], context: BodyContext, name: str, version: int) -> dict[str, Any]:
        """The fields of the message `name` in a version."""
        return self._struct(data, context, _int64_names(name, version) if self.int64_text else frozenset())

    def _struct(self, data: dict[str, Any], context: BodyContext, int64s: frozenset[str]) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        hides = not self.show_secrets and any(_is_secret(data, name) for name in data)
        for name, value in data.items():
            if name == UNKNOWN_TAGS:
                # An unknown field beside a secret may be one too.
                shown[name] = tags(value, hides, context)
                continue
            if hides and _is_secret(data, name):
                hide(shown, name, value, context)
                continue
            shown[name] = self._value(value, context, int64s, name in int64s)
            if name == TOPIC_ID and value != ZERO_UUID and not any(data.get(f) for f in NAME_FIELDS):
                resolved = context.topic_name(value)
                if resolved is not None:
                    shown["topic_name_resolved"] = resolved
        return shown

    def _value(self, value: Any, context: BodyContext, int64s: frozenset[str], is_int64: bool) -> Any:
        if isinstance(value, dict):
            return self._struct(value, context, int64s)
        if isinstance(value, list):
            return [self._value(item, context, int64s, is_int64) for item in value]
        if isinstance(value, bytes):
            return base64_text(value)
        if isinstance(value, float):
            return float_value(value)
        return str(value) if is_int64 and value is not None else value


def _is_secret(struct: dict[str, Any], name: str) -> bool:
    if name in secrets.SECRET_FIELDS:
        return True
    is_entry = name == secrets.CONFIG_VALUE_FIELD and isinstance(struct[name], str)
    return is_entry and secrets.is_secret_entry(struct)


@cache
def _int64_names(name: str, version: int) -> frozenset[str]:
    """Names of the int64 fields of a record message, in all its layouts of that version."""
    fields = [each for layout in schema.record_layouts(name, version) for each in each_field(layout.fields)]
    return frozenset([field.name for _, field, _ in fields if field.type == "int64"])
