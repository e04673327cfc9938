"""The whole table in memory: read from its directory, changed by sources, written back to files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinspect.protocol.importer.definitions import convert, convert_field
from kinspect.protocol.importer.mergedefinitions import check_shared, in_order, unite
from kinspect.protocol.importer.sources import ReleaseSource, release_key
from kinspect.protocol.schema import TABLE, snake_case
from kinspect.protocol.tabletext import (
    ApiFile,
    LayoutVariant,
    MessageDefinition,
    minor_release,
    read_api,
    read_messages,
    write_api,
    write_messages,
)
from kinspect.protocol.versions import format_versions, parse_versions

_ERRORS_TITLE = (
    "# code name retriable? since, old names and names of the Scala broker of 0.8 with their releases\n"
)
_RELEASES_TITLE = "# release, then key:versions of every API it speaks (u: the newest is unstable)\n"
_TRAITS = "traits.txt"
UNTOLD = "?"
"""What an API's row of `traits.txt` has where somebody has yet to fill it in."""

# Attributes of an API's head, in the order they are written.
_HEAD = (
    "versions",
    "flexible",
    "enum",
    "old-names",
    "listeners",
    "since",
    "removed",
    "absent",
    "deprecated",
    "unstable",
)


@dataclass(slots=True)
class SchemaTable:
    """Messages by name; an API's request and response share the attributes of the API, kept with the request."""

    apis: dict[int, ApiFile] = field(default_factory=dict)
    records: dict[str, dict[str, MessageDefinition]] = field(default_factory=dict)
    headers: list[MessageDefinition] = field(default_factory=list)
    errors: str = _ERRORS_TITLE
    releases: dict[str, dict[str, str]] = field(default_factory=dict)
    traits: list[str] = field(default_factory=list)


def read_table(directory: Path) -> SchemaTable:
    """Read the table in `directory`; an empty one if there is none. Traits are kinspect's own where it has none."""
    table = SchemaTable()
    own = directory / _TRAITS
    table.traits = (own if own.exists() else Path(TABLE, _TRAITS)).read_text("utf-8").splitlines()
    for path in sorted(directory.glob("*_*.txt")):
        api = read_api(path.read_text("utf-8"))
        table.apis[api.key] = api
    for path in sorted(directory.glob("records/*.txt")):
        messages = read_messages(path.read_text("utf-8"))
        table.records[path.stem] = {message.name: message for message in messages}
    if (directory / "headers.txt").exists():
        table.headers = read_messages((directory / "headers.txt").read_text("utf-8"))
        table.errors = (directory / "errors.txt").read_text("utf-8")
        lines = (directory / "releases.txt").read_text("utf-8").splitlines()
        for line in lines[1:]:
            release, *spoken = line.split()
            table.releases[release] = dict(part.split(":") for part in spoken)
    return table


def files(table: SchemaTable) -> dict[str, str]:
    """Files of the table: text by path below its directory."""
    found = {
        f"{api.key:02}_{snake_case(api.name)}.txt": write_api(api) for _, api in sorted(table.apis.items())
    }
    for stem, messages in table.records.items():
        found[f"records/{stem}.txt"] = write_messages(messages.values())
    found["headers.txt"] = write_messages(table.headers)
    found[_TRAITS] = _write_traits(table)
    found["errors.txt"] = table.errors
    found["releases.txt"] = _RELEASES_TITLE + "".join(
        " ".join([release, *(f"{key}:{versions}" for key, versions in spoken.items())]) + "\n"
        for release, spoken in sorted(table.releases.items(), key=lambda entry: release_key(entry[0]))
    )
    return found


def untold(table: SchemaTable) -> list[str]:
    """Key and name of each API whose traits somebody has yet to fill in."""
    rows = [line.split() for line in _write_traits(table).splitlines()]
    return [f"{row[0]} {row[1]}" for row in rows if row[0] != "#" and UNTOLD in row]


def _write_traits(table: SchemaTable) -> str:
    """The known traits, in columns; a new API has those that somebody has yet to fill in."""
    notes = [line for line in table.traits if line.startswith("#")]
    names, *rows = [line.split() for line in table.traits if not line.startswith("#")]
    told = {int(row[0]): row[2:] for row in rows}
    untold = [UNTOLD] * len(names[2:])
    rows = [[str(key), api.name, *told.get(key, untold)] for key, api in sorted(table.apis.items())]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = [" ".join(map(str.ljust, row, widths)).rstrip() for row in (names, *rows)]
    return "\n".join([*notes, *lines]) + "\n"


def add_source(table: SchemaTable, source: ReleaseSource) -> None:
    """Merge one release, or a union of many, into `table`. Raises `merge.ShapeConflictError`."""
    newest = max((release_key(release) for release in table.releases), default=())
    newer = not source.release or release_key(source.release) >= newest
    halves: dict[int, dict[str, tuple[MessageDefinition, dict[str, Any]]]] = {}
    for entry in source.definitions:
        message = convert(entry)
        if message is None:
            if newer and entry["type"] == "request" and entry["apiKey"] in table.apis:
                _retire(table, entry["apiKey"], source.release)
        elif message.kind in ("request", "response"):
            halves.setdefault(entry["apiKey"], {})[message.kind] = (message, entry)
        elif message.kind == "record":
            _add_record(table, message, entry["file"], source.release, newer)
    for key, pair in halves.items():
        if len(pair) == 2:
            _add_api(table, key, pair["request"], pair["response"][0], source.release, newer)
    _number_values(table)
    for entry in source.variants:
        _add_variant(table, entry)
    for entry in source.headers:
        _add_header(table, entry, source.header_exceptions)
    if source.errors:
        table.errors = _ERRORS_TITLE + "".join(_error_line(entry) for entry in source.errors)
    table.releases.update(source.releases)
    spoken = _spoken_by(source)
    if source.release and spoken:
        table.releases[source.release] = spoken


def left_out(table: SchemaTable, source: ReleaseSource) -> list[str]:
    """A line for each API, or versions of one, that the release before spoke and `source` has no definition of.

    The release before is the newest in `table` that is no newer than the source's: itself, if it is there. Empty for a
    union of many releases and for a source without requests.
    """
    spoken = _spoken_by(source)
    earlier = [one for one in table.releases if release_key(one) <= release_key(source.release)]
    if not spoken or not earlier:
        return []
    before = max(earlier, key=release_key)
    lines = []
    for key, versions in table.releases[before].items():
        gone = _spoken_versions(versions) - _spoken_versions(spoken.get(key, "none"))
        if gone:
            lines.append(
                f"{source.release} leaves out {key} {table.apis[int(key)].name} {format_versions(gone)} of {before}"
            )
    return lines


def _spoken_by(source: ReleaseSource) -> dict[str, str]:
    """Versions of each API of a release by its key, as `releases.txt` has them."""
    requests = {entry["apiKey"]: entry for entry in source.definitions if entry["type"] == "request"}
    return {
        str(key): _spoken(entry)
        for key, entry in sorted(requests.items())
        if parse_versions(entry["validVersions"])
    }


def _spoken(entry: dict[str, Any]) -> str:
    versions = parse_versions(entry["validVersions"])
    return f"{min(versions)}-{max(versions)}" + ("u" if entry.get("latestVersionUnstable") else "")


def _spoken_versions(text: str) -> frozenset[int]:
    return parse_versions(text.removesuffix("u"))


def _retire(table: SchemaTable, key: int, release: str) -> None:
    """Mark the remaining versions of an API as removed in a release that has no version of it."""
    api = table.apis[key]
    valid = api.request.versions
    left = valid - _versions_in(api.attributes.get("removed", ""), valid)
    if left:
        attributes = _noted(api.attributes, "removed", left, minor_release(release))
        table.apis[key] = api._replace(attributes=_ordered(attributes))


def _add_api(
    table: SchemaTable,
    key: int,
    request: tuple[MessageDefinition, dict[str, Any]],
    response: MessageDefinition,
    release: str,
    newer: bool,
) -> None:
    message, entry = request
    name = message.name.removesuffix("Request")
    known = table.apis.get(key)
    attributes = _history(
        known.attributes if known else {},
        known.request.versions if known else frozenset(),
        message,
        entry,
        release,
        newer,
    )
    if known:
        message = _merge(known.request, message, release, newer)
        response = _merge(known.response, response, release, newer)
    valid = message.versions
    attributes["versions"] = format_versions(valid)
    attributes["flexible"] = format_versions(message.flexible, valid)
    attributes.setdefault("enum", snake_case(name).upper())
    if known and not newer:
        name = known.name
    elif known and known.name != name:
        attributes["old-names"] = " ".join([*attributes.get("old-names", "").split(), known.name])
    table.apis[key] = ApiFile(
        key, name, _ordered(attributes), message._replace(attributes={}), response._replace(attributes={})
    )


def _add_record(table: SchemaTable, message: MessageDefinition, stem: str, release: str, newer: bool) -> None:
    stem = next((stem for stem, messages in table.records.items() if message.name in messages), stem)
    messages = table.records.setdefault(stem, {})
    known = messages.get(message.name)
    old = known.versions if known else frozenset()
    attributes = _history(known.attributes if known else {}, old, message, {}, release, newer)
    if known:
        message = _merge(known, message, release, newer)
    attributes["versions"] = format_versions(message.versions)
    attributes["flexible"] = format_versions(message.flexible, message.versions)
    messages[message.name] = message._replace(attributes=attributes)


def _merge(
    known: MessageDefinition, other: MessageDefinition, release: str, newer: bool
) -> MessageDefinition:
    shared = check_shared(known, other, release)
    # The layout of a recorded variant must not become the definition of its version.
    varied = (known.versions & other.versions) - shared
    if newer and not varied:
        return in_order(unite(other, known, shared), known)
    return unite(known, other, shared)


def _history(
    known: dict[str, str],
    known_versions: frozenset[int],
    message: MessageDefinition,
    entry: dict[str, Any],
    release: str,
    newer: bool,
) -> dict[str, str]:
    """Attributes after a release: the versions it added, removed, deprecated or held back as unstable."""
    if not release:
        return {**known, **message.attributes}
    attributes = {**message.attributes, **known} if not newer else {**known, **message.attributes}
    minor = minor_release(release)
    newest = max(message.versions)
    unstable = {newest} if entry.get("latestVersionUnstable") else set()
    stable = message.versions - unstable - _versions_in(known.get("since", ""), message.versions)
    for version in sorted(stable):
        attributes = _noted(attributes, "since", {version}, minor)
    if newer:
        gone = known_versions - message.versions - _versions_in(known.get("removed", ""), known_versions)
        attributes = _noted(attributes, "removed", gone, minor)
    deprecated = parse_versions(entry.get("deprecatedVersions", "none"), message.versions)
    fresh = deprecated - _versions_in(known.get("deprecated", ""), message.versions)
    attributes = _noted(attributes, "deprecated", fresh, minor)
    if unstable:
        spans = dict(part.split("=") for part in known.get("unstable", "").split())
        first = spans.get(str(newest), release).partition("..")[0]
        spans[str(newest)] = release if first == release else f"{first}..{release}"
        attributes["unstable"] = " ".join(f"{version}={span}" for version, span in spans.items())
    return attributes


def _noted(attributes: dict[str, str], name: str, versions: Iterable[int], release: str) -> dict[str, str]:
    """Return `attributes` with one more `versions=release` in the version map `name`."""
    text = format_versions(versions)
    parts = [attributes[name]] if name in attributes else []
    return attributes if text == "none" else {**attributes, name: " ".join([*parts, f"{text}={release}"])}


def _ordered(attributes: dict[str, str]) -> dict[str, str]:
    return {part: attributes[part] for part in _HEAD if part in attributes}


def _versions_in(text: str, valid: Iterable[int]) -> frozenset[int]:
    parts = (parse_versions(part.partition("=")[0], valid) for part in text.split())
    return frozenset().union(*parts)


def _number_values(table: SchemaTable) -> None:
    """Give each value without a record type that of its key (definitions up to 4.0)."""
    for messages in table.records.values():
        for name, key in list(messages.items()):
            value = messages.get(name.removesuffix("Key") + "Value")
            if name.endswith("Key") and value and "record-type" not in value.attributes:
                number = (
                    {"record-type": key.attributes["record-type"]} if "record-type" in key.attributes else {}
                )
                messages[value.name] = value._replace(attributes={**value.attributes, **number})


def _add_variant(table: SchemaTable, entry: dict[str, Any]) -> None:
    """Record the older layout of a version; only layouts whose bytes do not fit the current one are kept."""
    if entry["class"] != "wire":
        return
    version = entry["version"]
    valid = frozenset({version})
    fields = tuple(convert_field(item, valid, {}) for item in entry["fields"])
    variant = LayoutVariant(version, entry["in"], entry["flexible"], fields)

    def extended(message: MessageDefinition) -> MessageDefinition:
        others = [old for old in message.variants if (old.version, old.releases) != (version, entry["in"])]
        ordered = sorted(
            (*others, variant), key=lambda one: (one.version, release_key(one.releases.partition("..")[0]))
        )
        return message._replace(variants=tuple(ordered))

    if entry["apiKey"] is not None:
        api = table.apis[entry["apiKey"]]
        if entry["type"] == "request":
            table.apis[api.key] = api._replace(request=extended(api.request))
        else:
            table.apis[api.key] = api._replace(response=extended(api.response))
    for messages in table.records.values():
        if entry["apiKey"] is None and entry["name"] in messages:
            messages[entry["name"]] = extended(messages[entry["name"]])


def _add_header(table: SchemaTable, entry: dict[str, Any], exceptions: list[dict[str, Any]]) -> None:
    message = convert(entry)
    if message is None:
        return
    key = "requestHeaderVersion" if message.name == "RequestHeader" else "responseHeaderVersion"
    places = [
        f"{one['apiKey']}:{one.get('versions', one.get('version'))}={one[key]}"
        for one in exceptions
        if key in one
    ]
    message = message._replace(attributes={**message.attributes, "exceptions": " ".join(places)})
    table.headers = [*(old for old in table.headers if old.name != message.name), message]


def _error_line(entry: dict[str, Any]) -> str:
    words = [str(entry["code"]), entry["name"], "retriable" if entry["retriable"] else "final"]
    words.append(f"since={entry['since']}")
    words += [f"old={name}:{releases}" for name, releases in entry.get("oldNames", {}).items()]
    words += [f"scala={name}:{release}" for name, release in entry.get("scala08", {}).items()]
    return " ".join(words) + "\n"
