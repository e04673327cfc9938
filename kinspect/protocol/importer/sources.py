"""Sources of definitions: Kafka's jars, a source checkout, or JSON unions of many releases."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinspect.errors import KinspectError
from kinspect.protocol.importer.definitions import parse_json

_RELEASE = re.compile(r"\d+\.\d+\.\d+(?:\.\d+)?")
# `common/message` for most, `common/metadata` for those of metadata, `message` for those of storage.
_JAR_ENTRY = re.compile(r"(?:^|/)(?:message|metadata)/\w+\.json$")
# A part of a module's name, and the file of `table/records` that holds its messages.
_RECORD_FILES = {
    "group-coordinator": "group",
    "share-coordinator": "share",
    "transaction-coordinator": "txn",
    "metadata": "metadata",
    "raft": "raft",
    "storage": "storage",
    "streams": "streams",
}
_CHECKOUT_FILES = "**/src/main/resources/common/message/*.json"


class SourceError(KinspectError):
    """A source without definitions, or of an unknown release."""


@dataclass(slots=True)
class ReleaseSource:
    """Definitions of one release. `release` is empty for a union of many, which brings its own history."""

    release: str
    definitions: list[dict[str, Any]]
    variants: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    releases: dict[str, dict[str, str]] = field(default_factory=dict)
    headers: list[dict[str, Any]] = field(default_factory=list)
    header_exceptions: list[dict[str, Any]] = field(default_factory=list)


def read_sources(arguments: list[str]) -> list[ReleaseSource]:
    """Read one source per release, oldest first; several jars of one release are merged.

    Raises SourceError, also for a release none of whose sources has definitions: a jar without any is read over.
    """
    found: dict[str, ReleaseSource] = {}
    for argument in arguments:
        name, separator, rest = argument.partition("=")
        path = Path(rest if separator else name)
        source = _read(path, name if separator else "")
        if source.release in found:
            found[source.release].definitions += source.definitions
        else:
            found[source.release] = source
    for source in found.values():
        if not source.definitions:
            raise SourceError(f"{source.release}: no message definitions found in {', '.join(arguments)}")
    return sorted(found.values(), key=lambda source: release_key(source.release))


def release_key(release: str) -> tuple[int, ...]:
    """Sort key of a release; a union without a release comes first."""
    return tuple(int(part) for part in release.split(".")) if release else ()


def _read(path: Path, release: str) -> ReleaseSource:
    if path.suffix == ".jar":
        texts = dict(_jar_texts(path))
        release = release or _release_in(path.stem)
    elif (path / "messages.json").exists():
        return _read_union(path)
    elif path.is_dir():
        texts = {str(file): file.read_text("utf-8") for file in sorted(path.glob(_CHECKOUT_FILES))}
        properties = path / "gradle.properties"
        release = release or _release_in(properties.read_text("utf-8") if properties.exists() else path.name)
    else:
        raise SourceError(f"{path}: neither a jar nor a directory")
    if not release:
        raise SourceError(f"{path}: of which release? Give it as RELEASE=PATH")
    where = str(path) if path.suffix == ".jar" else ""
    return ReleaseSource(
        release,
        [
            {**_load(name, text), "file": _record_file(where or str(Path(name).relative_to(path)))}
            for name, text in sorted(texts.items())
        ],
    )


def _record_file(place: str) -> str:
    """File of `table/records` for a jar's name or a module's path in a checkout."""
    return next((stem for part, stem in _RECORD_FILES.items() if part in place), "client")


def _release_in(text: str) -> str:
    found = _RELEASE.search(text)
    return found[0] if found else ""


def _jar_texts(path: Path) -> Iterator[tuple[str, str]]:
    try:
        with zipfile.ZipFile(path) as jar:
            for name in jar.namelist():
                if _JAR_ENTRY.search(name):
                    yield name, jar.read(name).decode("utf-8")
    except (OSError, zipfile.BadZipFile) as error:
        raise SourceError(f"{path}: {error}") from error


def _load(name: str, text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:
        raise SourceError(f"{name}: {error}") from error


def _read_union(path: Path) -> ReleaseSource:
    def part(name: str) -> Any:
        file = path / name
        return _load(str(file), file.read_text("utf-8")) if file.exists() else []

    headers = part("headers.json") or {}
    definitions = part("messages.json")
    for file in sorted(path.glob("records/*.json")):
        definitions += [{**entry, "file": file.stem} for entry in _load(str(file), file.read_text("utf-8"))]
    return ReleaseSource(
        "",
        definitions,
        part("variants.json"),
        part("errors.json"),
        part("releases.json") or {},
        headers.get("headers", []),
        headers.get("exceptions", []),
    )
