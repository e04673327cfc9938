"""Schemas of a registry, from files: named by their ids in a folder, or in its export. Nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from kinspect.errors import KinspectError

AVRO, PROTOBUF, JSON_SCHEMA = "AVRO", "PROTOBUF", "JSON"
SUFFIXES = {".avsc": AVRO, ".proto": PROTOBUF, ".json": JSON_SCHEMA}
MOST_BYTES = 64 << 20
MOST_FILES = 10_000
"""What is read of a file, or of all files of a folder, and how many these may be."""
_SETTINGS = ("keytype", "compatibilityLevel", "compatibility", "mode", "magic")
"""Keys of the topic `_schemas` that are of no schema."""

Reference = tuple[str, str, int]


class RegisteredSchema(NamedTuple):
    """A schema. `subjects`: the version of each; `references`: of each its name there, its subject and its version."""

    key: int | str
    type: str
    text: str
    subjects: dict[str, int]
    references: tuple[Reference, ...] = ()
    guid: str | None = None

    def subject(self, likely: str) -> str | None:
        """The likely one of its subjects, or the only one."""
        if likely in self.subjects or len(self.subjects) == 1:
            return likely if likely in self.subjects else next(iter(self.subjects))
        return None


class SchemaFiles:
    """The schemas of a folder or a file, by their ids and GUIDs. `files`: others of the folder, by their names."""

    def __init__(self, path: str) -> None:
        """Raises KinspectError for what is no such folder or file."""
        self.path = path
        self.files: dict[str, str] = {}
        self._schemas: dict[int | str, RegisteredSchema] = {}
        self._versions: dict[tuple[str, int], RegisteredSchema] = {}
        try:
            if Path(path).is_dir():
                self._read_folder(Path(path))
            else:
                self._read_export(Path(path))
        except OSError as error:
            raise KinspectError(f"{error.filename or path}: {error.strerror or error}") from None

    def find(self, key: int | str) -> RegisteredSchema | None:
        """The schema of this id or GUID."""
        return self._schemas.get(key)

    def referenced(self, schema: RegisteredSchema) -> dict[str, str]:
        """The texts of all that a schema refers to, by name, what they refer to before them. Raises KinspectError."""
        found: dict[str, str] = {}
        self._add_referenced(schema, found, ())
        return found

    def _add_referenced(
        self, schema: RegisteredSchema, found: dict[str, str], above: tuple[int | str, ...]
    ) -> None:
        for name, subject, version in schema.references:
            other = self._versions.get((subject, version))
            if other is None:
                raise KinspectError(f"its reference {name} ({subject}, version {version}) is not there")
            if other.key in above or len(above) > 100:
                raise KinspectError(f"its references lead back to {name}")
            if name not in found:
                self._add_referenced(other, found, (*above, other.key))
                found[name] = other.text

    def _read_folder(self, folder: Path) -> None:
        room = MOST_BYTES
        paths = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
        if len(paths) > MOST_FILES:
            raise KinspectError(f"{folder}: more than {MOST_FILES:,} files")
        for path in paths:
            text = _text(path, room)
            room -= len(text)
            key = _key(path.stem) if path.parent == folder else None
            if key is None:
                self.files[path.relative_to(folder).as_posix()] = text
            elif key in self._schemas:
                raise KinspectError(f"{path}: another file has the schema {key} too")
            else:
                self._schemas[key] = RegisteredSchema(key, SUFFIXES[path.suffix], text, {})
        if not self._schemas:
            raise KinspectError(
                f"{folder}: has no schemas: files named ID.avsc, ID.proto or ID.json by their ids"
            )

    def _read_export(self, path: Path) -> None:
        for where, entry in _entries(path, _text(path, MOST_BYTES)):
            if entry is None or (isinstance(entry, dict) and "schema" not in entry and _is_setting(entry)):
                continue
            try:
                self._add(_registered(entry))
            except (KeyError, TypeError, ValueError, AttributeError):
                raise KinspectError(
                    f"{where}: is no schema of a registry: an object with id, subject, version and schema"
                ) from None
        if not self._schemas:
            raise KinspectError(f"{path}: has no schemas")

    def _add(self, schema: RegisteredSchema) -> None:
        for subject, version in schema.subjects.items():
            self._versions[subject, version] = schema
        known = self._schemas.setdefault(schema.key, schema)
        known.subjects.update(schema.subjects)
        if schema.guid is not None:
            self._schemas.setdefault(schema.guid, known)


def _is_setting(entry: dict[str, Any]) -> bool:
    return any(key in entry for key in _SETTINGS)


def _registered(entry: dict[str, Any]) -> RegisteredSchema:
    kind, text, guid, key = entry.get("schemaType") or AVRO, entry["schema"], entry.get("guid"), entry["id"]
    subject, version = entry.get("subject"), entry.get("version")
    if not isinstance(text, str) or not isinstance(kind, str) or type(key) is not int:
        raise TypeError
    return RegisteredSchema(
        key,
        kind.upper(),
        text,
        {} if subject is None or version is None else {str(subject): int(version)},
        tuple(
            (str(each["name"]), str(each["subject"]), int(each["version"]))
            for each in entry.get("references") or ()
        ),
        None if guid is None else str(UUID(guid)),
    )


def _key(name: str) -> int | str | None:
    """The id or GUID that a file is named by."""
    if name.isascii() and name.isdigit():
        return int(name[:20])
    try:
        return str(UUID(name))
    except ValueError:
        return None


def _text(path: Path, room: int) -> str:
    with path.open("rb") as file:
        data = file.read(room + 1)
    if len(data) > room:
        raise KinspectError(f"{path}: longer than {room:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise KinspectError(f"{path}: is no UTF-8 text: byte {error.start}") from None


def _entries(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """The entries of an export, and where each is: a list, or a line each, behind its key if that is printed too."""
    if text.lstrip().startswith("["):
        try:
            listed = orjson.loads(text)
        except ValueError as error:
            raise KinspectError(f"{path}: is no JSON: {error}") from None
        for number, entry in enumerate(listed, 1):
            yield f"{path}, entry {number}", entry
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith('{"keytype"') and "\t" in line:
            line = line.rpartition("\t")[2]
        if line.strip():
            try:
                entry = orjson.loads(line)
            except ValueError as error:
                reason = str(error).partition(": line")[0]
                raise KinspectError(f"{path}, line {number}: is no JSON: {reason}") from None
            yield f"{path}, line {number}", entry
