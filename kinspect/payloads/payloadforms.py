"""Keys and values of rows, brought into the form that `--payload` asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kinspect.errors import KinspectError
from kinspect.kafka.view.redact import BASE64, PAYLOADS, base64_text, payload_bytes, payload_text
from kinspect.payloads import wireformat
from kinspect.payloads.jsonvalue import json_value
from kinspect.payloads.wireformat import HEADERS, NamedSchema

Row = dict[str, Any]

HIDDEN, TEXT, JSON, AUTO = "none", "text", "json", "auto"
FORMS = (*PAYLOADS, JSON, AUTO)
"""Forms of keys, values and header values in rows."""
PAIRS = ("key", "value")
SCHEMA_KEYS = ("key_schema", "value_schema", "problem")
"""What a row has beside its payloads."""
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_NOTHING: Row = dict.fromkeys(SCHEMA_KEYS)

Shown = tuple[Any, str | None]


def payload_json(data: bytes | None) -> Shown:
    """Any JSON value, else as text."""
    if data is not None:
        try:
            return json_value(data), JSON
        except ValueError:
            pass
    return payload_text(data)


def payload_auto(data: bytes | None) -> Shown:
    """An object or a list of JSON, or text without control characters, else base64. Other JSON is text as well."""
    if data is None:
        return None, None
    if data.lstrip()[:1] in (b"{", b"["):
        try:
            return json_value(data), JSON
        except ValueError:
            pass
    shown, encoding = payload_text(data)
    if encoding != BASE64 and _NO_TEXT.search(str(shown)):
        return base64_text(data), BASE64
    return shown, encoding


class PayloadForms:
    """Brings rows, whose payloads are as `text`, into another form."""

    def __init__(self, form: str) -> None:
        """Raises KinspectError for a form that there is not."""
        if form not in FORMS:
            raise KinspectError(f"payload cannot be {form!r}; it is one of {', '.join(FORMS)}")
        self.form = form
        forms: dict[str, Callable[[bytes | None], Shown]] = {
            **PAYLOADS,
            JSON: payload_json,
            AUTO: payload_auto,
        }
        self._shown_as = forms[form]

    def show(self, rows: list[Row]) -> None:
        """Change the keys, values and headers of these rows."""
        for row in rows:
            row.update(_NOTHING)
            if self.form == TEXT:
                continue
            problems: list[str] = []
            for name in PAIRS:
                data = payload_bytes(row[name], row[f"{name}_encoding"])
                named = self._named(row, name, data) if self.form == AUTO else None
                if named is not None:
                    row[f"{name}_schema"] = _schema(named)
                row[name], row[f"{name}_encoding"] = self._shown(name, data, named, problems)
            row["headers"] = [self._header(header, problems) for header in row["headers"]]
            row["problem"] = "; ".join(problems) or None

    def _named(self, row: Row, name: str, data: bytes | None) -> NamedSchema | None:
        if data is None:
            return None
        found = (
            payload_bytes(header["value"], header["value_encoding"])
            for header in row["headers"]
            if header["key"] == HEADERS[name]
        )
        return wireformat.by_header(found) or wireformat.at_start(data)

    def _shown(self, name: str, data: bytes | None, named: NamedSchema | None, problems: list[str]) -> Shown:
        try:
            if data is not None and named is not None and named.start:
                inner = self._shown_as(data[named.start :])
                # The registry's JSON: nothing else begins so.
                if inner[1] == JSON:
                    return inner
            return self._shown_as(data)
        except KinspectError as error:
            problems.append(f"{name}: {error}")
            return payload_text(data)

    def _header(self, header: Row, problems: list[str]) -> Row:
        data = payload_bytes(header["value"], header["value_encoding"])
        value, encoding = self._shown(f"header {header['key']}", data, None, problems)
        return {"key": header["key"], "value": value, "value_encoding": encoding}


def _schema(named: NamedSchema) -> Row:
    return {
        "id": named.number,
        "guid": named.guid,
        "type": None,
        "subject": None,
        "version": None,
        "message": None,
        "certain": named.rest is not None,
    }
