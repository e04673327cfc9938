"""Values of a message's fields that may be shown: the spans of the reference interpreter beside a view's body, which
leaves secrets out."""

from __future__ import annotations

import re
from typing import Any

from kinspect.protocol.interpreter import Span

# Types of spans that hold others and have no value.
STRUCTURE = frozenset({"struct", "tags", "tag"})
HIDDEN = "(secret: not shown)"

_MISSING = object()
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def shown_value(span: Span, shown: dict[str, Any] | None) -> Any:
    """The value to show for a span: the one in the view's body at its path, or HIDDEN."""
    if span.value is None or span.type in STRUCTURE or span.type.startswith("[]"):
        return span.value
    found = value_at(shown, span.path)
    if isinstance(found, list):
        # Unknown tagged fields: the span is that of one entry's bytes.
        return span.value if all(entry["bytes"] is not None for entry in found) else HIDDEN
    return HIDDEN if found is None or found is _MISSING else found


def value_at(value: Any, path: str) -> Any:
    """The value at a path like `topics[0].name`; the sentinel `_MISSING` if there is none."""
    for name, index in steps(path):
        if isinstance(value, dict):
            value = value.get(name, _MISSING)
        elif isinstance(value, list) and index and int(index) < len(value):
            value = value[int(index)]
        else:
            return _MISSING
    return value


def steps(path: str) -> list[tuple[str, str]]:
    """The steps of a path: a name, or the digits of an index; the other is empty."""
    return _STEP.findall(path)
