"""Converts Kafka's JSON message definitions, of releases or of a JSON union of releases, to `MessageDefinition`s.

Source: clients/src/main/resources/common/message/README.md of Apache Kafka.
"""

from __future__ import annotations

import json
import re
from typing import Any

from kinspect.protocol.tabletext import FieldDefinition, MessageDefinition
from kinspect.protocol.versions import format_versions, parse_versions

# A comment, or a string, in which `//` is text.
_COMMENT = re.compile(r'//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|"(?:\\.|[^"\\])*"')

# "N+" has no end of its own; Kafka's versions are far below this one.
_MANY = range(1000)


def strip_comments(text: str) -> str:
    """The text without its comments, its lines where they were."""
    return _COMMENT.sub(
        lambda found: found[0] if found[0].startswith('"') else "\n" * found[0].count("\n"), text
    )


def parse_json(text: str) -> Any:
    """Parse JSON with comments as in C. Raises ValueError."""
    return json.loads(strip_comments(text))


def convert(entry: dict[str, Any]) -> MessageDefinition | None:
    """Convert one definition; None if it has no valid version (a removed API).

    The attributes hold everything that does not affect the bytes: enum, listeners, releases of versions, record type.
    """
    valid = parse_versions(entry["validVersions"])
    if not valid:
        return None
    kind = {"request": "request", "response": "response", "header": "header"}.get(entry["type"], "record")
    flexible = parse_versions(entry.get("flexibleVersions", "none"), valid)
    structs = {struct["name"]: struct["fields"] for struct in entry.get("commonStructs", ())}
    fields = tuple(convert_field(item, valid, structs) for item in entry["fields"])
    return _normalised(
        MessageDefinition(kind, entry["name"], valid, flexible, fields, _attributes(entry, valid, flexible)),
        entry,
    )


def convert_field(
    entry: dict[str, Any], valid: frozenset[int], structs: dict[str, list[dict[str, Any]]]
) -> FieldDefinition:
    """Convert a field and, below it, a struct's fields; `structs` are the message's shared ones."""
    tagged = parse_versions(entry.get("taggedVersions", entry.get("tagged", "none")), valid)
    # Some definitions leave a tagged field's `versions` out: those in which it is tagged.
    versions = parse_versions(entry["versions"], valid) if "versions" in entry else tagged
    kind = entry["type"]
    inner = entry.get("fields") or structs.get(kind.removeprefix("[]"), [])
    default = entry.get("default")
    return FieldDefinition(
        name=entry["name"],
        type=kind,
        versions=versions,
        nullable=parse_versions(entry.get("nullableVersions", entry.get("nullable", "none")), valid)
        & versions,
        tagged=tagged & versions,
        tag=int(entry["tag"]) if "tag" in entry else None,
        default=_default_text(default, kind),
        entity=entry.get("entityType"),
        compact=entry.get("flexibleVersions") != "none",
        fields=tuple(convert_field(item, versions, structs) for item in inner),
    )


def _default_text(value: Any, kind: str) -> str | None:
    """Uniform spelling of a default; None for the zero of its type, which is implied."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    if value is None or text in ("", "false"):
        return None
    if kind in ("string", "bool", "uuid") or text == "null":
        return text
    number = float(text) if kind == "float64" else int(text, 0)
    return str(number) if number else None


def _attributes(entry: dict[str, Any], valid: frozenset[int], flexible: frozenset[int]) -> dict[str, str]:
    found = {"versions": format_versions(valid), "flexible": format_versions(flexible, valid)}
    if "listeners" in entry:
        found["listeners"] = " ".join(sorted(entry["listeners"]))
    number = entry.get("recordType", entry.get("apiKey"))
    if number is not None and entry["type"] not in ("request", "response"):
        found["record-type"] = str(number)
    if "enum" in entry:
        found["enum"] = entry["enum"]
    for name, key in (
        ("since", "since"),
        ("removed", "removedIn"),
        ("absent", "absentIn"),
        ("last", "lastIn"),
    ):
        if key in entry:
            found[name] = " ".join(f"{versions}={release}" for versions, release in entry[key].items())
    if "deprecated" in entry:
        found["deprecated"] = " ".join(f"{part}={release}" for part, release in entry["deprecated"].items())
    if "unstable" in entry:
        found["unstable"] = " ".join(f"{part}={span}" for part, span in entry["unstable"].items())
    old = [*entry.get("oldEnums", ()), *(_stem(name) for name in entry.get("oldNames", ()))]
    if old:
        found["old-names"] = " ".join(dict.fromkeys(name.replace("_", "") for name in old))
    return found


def _stem(name: str) -> str:
    return name.removesuffix("Request").removesuffix("Response")


def _normalised(message: MessageDefinition, entry: dict[str, Any]) -> MessageDefinition:
    """Unify the versions of coordinators' keys: up to 4.0 the version was the record type; here it is always 0."""
    if entry["type"] != "data" or not message.name.endswith("Key"):
        return message
    number = max(message.versions)
    zero = frozenset({0})

    def at_zero(item: FieldDefinition) -> FieldDefinition:
        return FieldDefinition(
            item.name,
            item.type,
            zero,
            zero if number in item.nullable else frozenset(),
            zero if number in item.tagged else frozenset(),
            item.tag,
            item.default,
            item.entity,
            item.compact,
            tuple(at_zero(part) for part in item.fields),
        )

    attributes = {"versions": "0", "flexible": "none", "record-type": str(number)}
    for name in ("since", "last"):
        if name in message.attributes:
            attributes[name] = "0=" + message.attributes[name].partition("=")[2]
    fields = tuple(at_zero(item) for item in message.fields if number in item.versions)
    return MessageDefinition(message.kind, message.name, zero, frozenset(), fields, attributes)
