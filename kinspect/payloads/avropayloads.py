"""Avro."""

from __future__ import annotations

from base64 import b64encode
from datetime import date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import orjson
from fastavro.schema import UnknownType

from kinspect.errors import KinspectError
from kinspect.jsontext import float_value
from kinspect.payloads.jsonvalue import printed
from kinspect.payloads.payloaddecoder import DecodedText, SchemaDecoder

MOST_DIGITS = 1000
"""Zeros that a decimal is written with."""


def open_schema(text: str, referenced: dict[str, str], files: dict[str, str]) -> SchemaDecoder:
    """The decoder of a schema."""
    named: dict[str, Any] = {}
    for each in referenced.values():
        _parse(each, named, files)
    schema = _parse(text, named, files)

    def decode(data: bytes, rest: bytes | None) -> DecodedText:
        stream = BytesIO(data)
        value = fastavro.schemaless_reader(stream, schema, None)
        if left := len(data) - stream.tell():
            raise KinspectError(f"{left:,} bytes are left over")
        return DecodedText(printed(_plain(value)))

    return decode


def _parse(text: str, named: dict[str, Any], files: dict[str, str]) -> Any:
    """A parsed schema; types that it does not define are looked for in files that have their names."""
    for _ in range(len(files) + 1):
        # What a failed try defined is not there again.
        known = dict(named)
        try:
            schema = fastavro.parse_schema(orjson.loads(text), named_schemas=known)
        except UnknownType as error:
            name = f"{error.name}.avsc"
            if name not in files:
                raise KinspectError(f"the type {error.name} is not known") from None
            _parse(files[name], named, {each: files[each] for each in files if each != name})
        else:
            named.update(known)
            return schema
    raise KinspectError("its types need each other")


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    form = _FORMS.get(type(value))
    return value if form is None else form(value)


def _decimal(value: Decimal) -> str:
    exponent = value.as_tuple().exponent
    is_short = isinstance(exponent, int) and abs(exponent) < MOST_DIGITS
    return format(value, "f") if is_short else str(value)


def _moment(value: datetime | time | date) -> str:
    return value.isoformat().replace("+00:00", "Z")


_FORMS: dict[type, Any] = {
    float: float_value,
    bytes: lambda value: b64encode(value).decode(),
    Decimal: _decimal,
    UUID: str,
    datetime: _moment,
    date: _moment,
    time: _moment,
}
