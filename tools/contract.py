"""The contract with who reads lines and tables: derived JSON Schemas, and `docs/schema/keys.csv`.

The file has each key of a line and each column of a table with its type and the version that brought it. What is there
stays: a key that is gone or has another type is an error, as only a new major version, `schema_version`, may do that.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from console_blocks import ROOT

from kinspect.answers import answers
from kinspect.tables.answertables import table_of
from kinspect.tables.arrowcolumns import PROBLEM_ROWS, schema_of
from kinspect.tables.tablenames import PROBLEMS, RECORD_ROWS, TABLES

SCHEMAS = ROOT / "docs" / "schema"
KEYS = "schema/keys.csv"
LINES = ("exchange", "connection", "gap", "summary", "stats")
ROWS = ("record", "telemetry")
"""Rows that are no lines: of `kinspect records` and `kinspect telemetry`."""
DIFFERENCES = ("difference",)
"""Rows of `kinspect diff`."""
RULES = ("rule",)
"""Rows of `kinspect check`."""
OBJECTS = {"line": LINES, "row": ROWS, "difference": DIFFERENCES, "rule": RULES}
"""Names of the schemas that are written by hand, by kind."""
VERSIONS = {
    "line": "2.0",
    "row": "2.0",
    "difference": "1.0",
    "rule": "1.0",
    "table": "2.0",
    "aggregate": "2.0",
    "answer": "1.0",
}
"""Versions by kind: `schema_version`, and a minor version that the first new key after a release raises."""
HEADER = ("kind", "name", "key", "type", "since")

Node = dict[str, Any]
Key = tuple[str, str, str, str]
"""A key or column: its kind, the line or table, its path and its type."""


def schema(name: str) -> Node:
    """The JSON Schema of a line or a row."""
    found: Node = json.loads((SCHEMAS / f"{name}.schema.json").read_text("utf-8"))
    return found


# ---------------------------------------------------------------------- derived schemas


def derived() -> dict[str, str]:
    """Texts of the schemas that are made of others, by the names of their files."""
    exchange = schema("exchange")
    found = {
        "exchange-fields": _named(exchange, "fields", "with --fields", "no key must be there", _lax(exchange))
    }
    for name in LINES:
        whole = schema(name)
        few = "no key is null, no list empty, and no object without a key, but in bodies"
        found[f"{name}-no-nulls"] = _named(
            whole, "no-nulls", "with --no-nulls", few, _sparse(whole, whole["$defs"])
        )
    return {
        f"schema/{name}.schema.json": json.dumps(node, indent=2, ensure_ascii=False) + "\n"
        for name, node in found.items()
    }


def _named(whole: Node, ending: str, option: str, words: str, node: Node) -> Node:
    name = whole["properties"]["type"]["const"]
    return {
        **{key: node[key] for key in ("$schema", "$id") if key in node},
        "$id": f"urn:kinspect:schema:{name}-{ending}:{VERSIONS['line']}",
        "title": f"{whole['title']} {option}",
        "description": f"As {name}.schema.json, but {words}.",
        **{
            key: value for key, value in node.items() if key not in ("$schema", "$id", "title", "description")
        },
    }


def _lax(node: Any) -> Any:
    """The schema without required keys."""
    if isinstance(node, dict):
        return {
            key: _lax(value)
            for key, value in node.items()
            if key != "required" or not isinstance(value, list)
        }
    return [_lax(item) for item in node] if isinstance(node, list) else node


def _sparse(node: Node, defs: Node) -> Node:
    """The schema of what is left without nulls, empty lists and objects without keys."""
    found = {key: value for key, value in node.items() if key != "required"}
    if isinstance(node.get("type"), list):
        kinds = [kind for kind in node["type"] if kind != "null"]
        found["type"] = kinds[0] if len(kinds) == 1 else kinds
    if "enum" in node:
        found["enum"] = [value for value in node["enum"] if value is not None]
    if "oneOf" in node:
        found["oneOf"] = [_sparse(each, defs) for each in node["oneOf"] if each != {"type": "null"}]
    if node.get("type") == "array":
        found["items"] = _sparse(node["items"], defs)
        found["minItems"] = 1
    if "properties" in node:
        del found["properties"]
        if there := [key for key in node["required"] if not _may_go(node["properties"][key], defs)]:
            found["required"] = there
        found["properties"] = {key: _sparse(value, defs) for key, value in node["properties"].items()}
    if "$defs" in node:
        found["$defs"] = {name: _sparse(value, defs) for name, value in node["$defs"].items()}
    return found


def _may_go(node: Node, defs: Node) -> bool:
    """True if `--no-nulls` leaves out some values."""
    if "$ref" in node:
        return _may_go(defs[node["$ref"].rpartition("/")[2]], defs)
    if "oneOf" in node:
        return any(_may_go(each, defs) for each in node["oneOf"])
    kind = node.get("type", ())
    if "properties" in node and "null" not in kind:
        return all(_may_go(each, defs) for each in node["properties"].values())
    return kind in ("array", "null") or "null" in kind or None in node.get("enum", ())


# ---------------------------------------------------------------------- keys.csv


def keys_file() -> str:
    """The text of `keys.csv`. Raises SystemExit if a key is gone or has another type."""
    path = ROOT / "docs" / KEYS
    there = [*csv.reader(path.read_text("utf-8").splitlines())][1:] if path.exists() else []
    since = {(kind, name, key, of): version for kind, name, key, of, version in there}
    # Only Spark knows columns of aggregates: tests/spark/test_contract.py compares them.
    keys = [*_keys(), *(key for key in since if key[0] == "aggregate")]
    if gone := [key for key in since if key not in keys and _major(since[key]) == _major(VERSIONS[key[0]])]:
        raise SystemExit(
            f"{KEYS}: {' '.join(gone[0])} is gone, or has another type: keys stay until schema_version goes up"
        )
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows((*key, since.get(key, VERSIONS[key[0]])) for key in keys)
    return out.getvalue()


def _major(version: str) -> str:
    return version.partition(".")[0]


def _keys() -> Iterator[Key]:
    """All keys of lines and rows, and columns of tables and answers."""
    for of, names in OBJECTS.items():
        for name in names:
            whole = schema(name)
            # A key that stands in one of several objects is told once.
            found = dict.fromkeys(_properties(whole, whole.get("$defs", {})))
            yield from ((of, name, key, kind) for key, kind in found)
    tables = {name: schema_of(name, None) for name in (*TABLES, RECORD_ROWS)}
    for name, columns in {**tables, PROBLEMS: PROBLEM_ROWS}.items():
        yield from (("table", name, key, kind) for key, kind in fields(columns))
    for answer in answers():
        table = table_of(answer)
        yield from (("answer", table.name, key, kind) for key, kind in fields(table.schema))


def _properties(node: Node, defs: Node, path: str = "") -> Iterator[tuple[str, str]]:
    """Paths of the keys in a JSON Schema, each with its types."""
    node = _resolved(node, defs)
    for each in node.get("oneOf", ()):
        yield from _properties(each, defs, path)
    if "items" in node:
        yield from _properties(node["items"], defs, f"{path}[]")
    for name, value in node.get("properties", {}).items():
        key = f"{path}.{name}" if path else name
        yield key, "|".join(sorted(_types(value, defs)))
        if name != "body":
            yield from _properties(value, defs, key)


def _types(node: Node, defs: Node) -> set[str]:
    node = _resolved(node, defs)
    if "oneOf" in node:
        return set[str]().union(*(_types(each, defs) for each in node["oneOf"]))
    words = node.get("enum", [node["const"]] if "const" in node else [])
    if words:
        names = {str: "string", int: "integer", type(None): "null"}
        return {names[type(word)] for word in words}
    return {node["type"]} if isinstance(node["type"], str) else set(node["type"])


def _resolved(node: Node, defs: Node) -> Node:
    return defs[node["$ref"].rpartition("/")[2]] if "$ref" in node else node


def fields(columns: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Paths of columns and of the fields in them, each with its Arrow type."""
    for field in columns:
        key = f"{path}.{field.name}" if path else field.name
        kind, ending = field.type, ""
        while pa.types.is_list(kind) or pa.types.is_map(kind):
            ending += "[]" if pa.types.is_list(kind) else "{}"
            kind = kind.value_type if pa.types.is_list(kind) else kind.item_type
        yield f"{key}{ending}", "struct" if pa.types.is_struct(kind) else str(kind)
        if pa.types.is_struct(kind):
            yield from fields(kind, f"{key}{ending}")
