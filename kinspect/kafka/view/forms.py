"""Forms of a whole line: bodies as one text or left out, nulls left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kinspect.jsontext import json_text
from kinspect.model import REQUEST, RESPONSE

BODY: Final = "body"
JSON: Final = "json"
TEXT: Final = "text"
NONE: Final = "none"
BODY_FORMS: Final = (JSON, TEXT, NONE)

Line = dict[str, Any]
Form = Callable[[Line], Line]
"""Gives a line its form; may change it."""


def text_bodies(line: Line) -> Line:
    """The line with its bodies as JSON text."""
    for side in (REQUEST, RESPONSE):
        message = line.get(side)
        if message is not None and message.get(BODY) is not None:
            message[BODY] = json_text(message[BODY])
    return line


def no_bodies(line: Line) -> Line:
    """The line without the key of its bodies."""
    for side in (REQUEST, RESPONSE):
        message = line.get(side)
        if message is not None:
            message.pop(BODY, None)
    return line


def no_nulls(line: Line) -> Line:
    """The line without null keys, empty lists and objects in which nothing is left. Bodies stay as they are: there a
    null is one of Kafka's."""
    shown: Line = {}
    for key, value in line.items():
        kept = value if key == BODY else _kept(value)
        if kept is not None:
            shown[key] = kept
    return shown


def _kept(value: Any) -> Any:
    """The value without nulls; None if nothing is left of it."""
    if isinstance(value, dict):
        return no_nulls(value) or None
    if isinstance(value, list):
        return [no_nulls(item) if isinstance(item, dict) else item for item in value] or None
    return value
