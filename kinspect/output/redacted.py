"""Values of a message's fields that may be shown: the spans of the reference interpreter beside a view's body, which
leaves secrets out."""

from __future__ import annotations

from typing import Any

from kinspect.protocol.fieldpaths import along
from kinspect.protocol.interpreter import Span

# Types of spans that hold others and have no value.
STRUCTURE = frozenset({"struct", "tags", "tag"})
HIDDEN = "(secret: not shown)"


def shown_value(span: Span, shown: dict[str, Any] | None) -> Any:
    """The value to show for a span: the one in the view's body at its path, or HIDDEN."""
    if span.value is None or span.type in STRUCTURE or span.type.startswith("[]"):
        return span.value
    *_, found = along(shown, span.path)
    if isinstance(found, list):
        # Unknown tagged fields: the span is that of one entry's bytes.
        return span.value if all(entry["bytes"] is not None for entry in found) else HIDDEN
    return HIDDEN if found is None else found
