"""Names of numbers in Kafka's fields, to be printed beside them."""

from __future__ import annotations

from kinspect.protocol import schema

ERROR_CODE, API_KEY = "error_code", "api_key"


def number_name(field: str, value: object, api_key: int | None) -> str | None:
    """The name of an error code other than 0 or of an API's key, by the name of the field; None for other fields.
    `api_key`: of the message that has the field, if it is known: an error code's name hangs on it."""
    if not isinstance(value, int):
        return None
    if _is(field, ERROR_CODE):
        return schema.error_name(value, api_key) if value else None
    return schema.api_name(value) if _is(field, API_KEY) else None


def _is(field: str, name: str) -> bool:
    return field == name or field.endswith(f"_{name}")
