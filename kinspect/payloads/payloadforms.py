"""Keys and values of rows, brought into the form that `--payload` asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from kinspect.errors import KinspectError
from kinspect.kafka.view.redact import BASE64, PAYLOADS, base64_text, payload_bytes, payload_text
from kinspect.payloads import wireformat
from kinspect.payloads.jsonvalue import json_value
from kinspect.payloads.wireformat import HEADERS, NamedSchema

if TYPE_CHECKING:
    from kinspect.payloads.schemafiles import RegisteredSchema

Row = dict[str, Any]

HIDDEN, TEXT, JSON, AS_THEY_ARE = "none", "text", "json", "auto"
FORMS = (*PAYLOADS, JSON, AS_THEY_ARE)
"""Forms of keys, values and header values in rows."""
PAIRS = ("key", "value")
DECODED = "decoded"
"""The key of what a row's payloads name and are decoded to, by `PAIRS`, between filters and output."""
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


Converted = tuple[Any, str | None]
"""A payload in a form, and its encoding there."""


def payload_json(data: bytes | None) -> Converted:
    """Any JSON value, else as text."""
    if data is not None:
        try:
            return json_value(data), JSON
        except ValueError:
            pass
    return payload_text(data)


def payload_auto(data: bytes | None) -> Converted:
    """An object or a list of JSON, or text without control characters, else base64. Other JSON is text as well."""
    if data is None:
        return None, None
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return json_value(data), JSON
        except ValueError:
            pass
    return _text(data)


def _text(data: bytes) -> Converted:
    shown, encoding = payload_text(data)
    if encoding != BASE64 and _NO_TEXT.search(str(shown)):
        return base64_text(data), BASE64
    return shown, encoding


class DecodedPayload(NamedTuple):
    """A payload by its schema, if that is there. `json`: None if it could not be decoded."""

    schema: RegisteredSchema | None
    json: bytes | None = None
    encoding: str | None = None
    message: str | None = None
    problem: str | None = None


class Decoder(Protocol):
    """Decodes payloads by the schemas that they name."""

    def decode(self, payloads: list[tuple[NamedSchema, bytes]]) -> list[DecodedPayload]: ...

    def close(self) -> None: ...


class PayloadForms:
    """Brings rows with payloads as `text` into another form. `decoder`: for those of `auto` that name a schema."""

    def __init__(self, form: str, decoder: Decoder | None = None) -> None:
        """Raises KinspectError for a form that there is not."""
        if form not in FORMS:
            raise KinspectError(f"payload cannot be {form!r}; it is one of {', '.join(FORMS)}")
        self.form = form
        forms: dict[str, Callable[[bytes | None], Converted]] = {
            **PAYLOADS,
            JSON: payload_json,
            AS_THEY_ARE: payload_auto,
        }
        self._to_form = forms[form]
        self._decoder = decoder

    def decode(self, rows: list[Row]) -> None:
        """Decode payloads that name a schema: rows have both as `DECODED` until they are converted."""
        if self.form != AS_THEY_ARE:
            return
        named = self._named(rows)
        for row in rows:
            row[DECODED] = {}
        decoder = self._decoder
        decoded = [_UNDECODED] * len(named) if decoder is None else decoder.decode([*named.values()])
        for (place, name), payload in zip(named, decoded, strict=True):
            rows[place][DECODED][name] = named[place, name][0], payload

    def convert(self, rows: list[Row]) -> None:
        """Bring the keys, values and headers of these rows into the form."""
        if self.form == TEXT:
            return
        self.decode([row for row in rows if DECODED not in row])
        for row in rows:
            problems: list[str] = []
            decoded = row.pop(DECODED, {})
            for name in PAIRS:
                data = payload_bytes(row[name], row[f"{name}_encoding"])
                schema, found = decoded.get(name, UNNAMED)
                if found.problem is not None:
                    problems.append(f"{name}: {found.problem}")
                if schema is not None:
                    row[f"{name}_schema"] = _schema_of(row, name, schema, found)
                if found.json is None:
                    told = problems if found.problem is None else []
                    row[name], row[f"{name}_encoding"] = self._convert_payload(name, data, schema, told)
                else:
                    row[name], row[f"{name}_encoding"] = orjson.loads(found.json), found.encoding
            row["headers"] = [self._convert_header(header, problems) for header in row["headers"]]
            row["problem"] = "; ".join(problems) or None

    def convert_records(self, records: list[Row], topic: str | None) -> None:
        """The same of a batch's records in a body. `problem` is there only where there is one."""
        for record in records:
            record["topic"] = topic
        self.convert(records)
        for record in records:
            del record["topic"]
            if record["problem"] is None:
                del record["problem"]

    def close(self) -> None:
        """End what decodes."""
        if self._decoder is not None:
            self._decoder.close()

    def _named(self, rows: list[Row]) -> dict[tuple[int, str], tuple[NamedSchema, bytes]]:
        """The schemas that keys and values name, and their bytes, by the place of their row."""
        found = {}
        for place, row in enumerate(rows):
            for name in PAIRS:
                data = payload_bytes(row[name], row[f"{name}_encoding"])
                if data is not None:
                    headers = (
                        payload_bytes(header["value"], header["value_encoding"])
                        for header in row["headers"]
                        if header["key"] == HEADERS[name]
                    )
                    named = wireformat.by_header(headers) or wireformat.at_start(data)
                    if named is not None:
                        found[place, name] = named, data
        return found

    def _convert_payload(
        self, name: str, data: bytes | None, named: NamedSchema | None, problems: list[str]
    ) -> Converted:
        try:
            if data is not None and named is not None and named.start:
                inner = self._to_form(data[named.start :])
                # The registry's JSON: nothing else begins so.
                if inner[1] == JSON:
                    return inner
            return self._to_form(data)
        except KinspectError as error:
            problems.append(f"{name}: {error}")
            return payload_text(data) if data is None or self.form == JSON else _text(data)

    def _convert_header(self, header: Row, problems: list[str]) -> Row:
        data = payload_bytes(header["value"], header["value_encoding"])
        value, encoding = self._convert_payload(f"header {header['key']}", data, None, problems)
        return {"key": header["key"], "value": value, "value_encoding": encoding}


_UNDECODED = DecodedPayload(None)
UNNAMED = None, _UNDECODED


def _schema_of(row: Row, name: str, named: NamedSchema, decoded: DecodedPayload) -> Row:
    schema = decoded.schema
    subject = None if schema is None else schema.subject(f"{row['topic']}-{name}")
    keys = [named.key] if schema is None else [schema.key, schema.guid, named.key]
    return {
        "id": next((key for key in keys if isinstance(key, int)), None),
        "guid": next((key for key in keys if isinstance(key, str)), None),
        "type": None if schema is None else schema.type,
        "subject": subject,
        "version": None if schema is None or subject is None else schema.subjects[subject],
        "message": decoded.message,
        "certain": named.rest is not None or decoded.json is not None,
    }
