"""The JSON Schemas of lines, strict: a line has no key that they do not name."""

import json
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"


def schema(name: str) -> dict[str, Any]:
    """The schema as it is published: it allows keys of later minor versions."""
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    return found


def strict(name: str) -> dict[str, Any]:
    found: dict[str, Any] = _closed(schema(name))
    return found


def _closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in node.items()}
    return (
        {**closed, "additionalProperties": False}
        if isinstance(node.get("properties"), dict) and "type" in node
        else closed
    )
