"""Definitions of messages that a user gives, laid over the table: those of forks, and of releases that are not out yet.

They are JSON as in the sources of brokers, and hostile until checked: what a file may hold is limited here.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kinspect.errors import KinspectError
from kinspect.protocol import schema
from kinspect.protocol.importer.definitions import convert, convert_field, parse_json
from kinspect.protocol.importer.mergedefinitions import restricted
from kinspect.protocol.tabletext import ApiFile, FieldDefinition, MessageDefinition
from kinspect.protocol.versions import format_versions

MOST_BYTES: Final = 1 << 20
"""Longest file."""
MOST_FILES: Final = 1000
MOST_FIELDS: Final = 2000
"""Fields of a message, those of a struct that is used twice counted twice."""
MOST_OF_ALL: Final = 100_000
"""Fields of all messages in all versions; Apache's are 7,000."""
DEEPEST: Final = 20
"""Structs within each other."""
MOST_VERSIONS: Final = 100
ORIGIN: Final = "--schema"
"""What versions from such definitions are since."""
_PRIMITIVES: Final = frozenset(
    "bool int8 int16 uint16 int32 uint32 int64 uuid float64 string bytes records".split()
)
_TEXTS: Final = frozenset({"topicName", "groupId", "transactionalId"})
_NUMBERS: Final = frozenset({"throttle_time_ms", "max_wait_ms"})
"""Fields that mean one thing in all messages."""
_KINDS: Final = ("request", "response")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,99}")
_VERSIONS: Final = re.compile(r"none|\d{1,3}(-\d{1,3}|\+)?")
_VERSION_KEYS: Final = ("versions", "nullableVersions", "taggedVersions", "flexibleVersions")

Entry = dict[str, Any]


class _Source:
    """A file of definitions. Refuses what it says, with the line where it says so."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise KinspectError(f"{path}: longer than {MOST_BYTES:,} bytes")
            self._text = data.decode("utf-8")
        except OSError as error:
            raise KinspectError(f"{path}: {error.strerror or error}") from None
        except ValueError:
            raise KinspectError(f"{path}: not UTF-8") from None
        self._places: dict[str, list[int]] = defaultdict(list)
        for found in [*re.finditer(r'"name"\s*:\s*"(\w+)"', self._text)][::-1]:
            self._places[found[1]].append(found.start())
        self._at = 0

    def entries(self) -> list[Entry]:
        """The definitions: an object, or a list of them."""
        try:
            found = parse_json(self._text)
        except RecursionError:
            raise KinspectError(f"{self._path}: nested too deeply") from None
        except ValueError as error:
            line = getattr(error, "lineno", 1)
            raise KinspectError(f"{self._path}:{line}: no JSON: {getattr(error, 'msg', error)}") from None
        entries = found if isinstance(found, list) else [found]
        if not all(isinstance(entry, dict) for entry in entries):
            raise KinspectError(f"{self._path}:1: no message definition")
        return entries

    def come_to(self, name: str) -> None:
        """Note that what is looked at now has that name: the next one of it in the file."""
        if places := self._places[name]:
            self._at = places.pop() if places[1:] else places[0]

    @contextmanager
    def errors_of(self, name: str) -> Iterator[None]:
        """What converting raises is the fault of what is looked at."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            self.check(False, f"{name}: {error}")

    def check(self, holds: Any, text: str) -> None:
        if not holds:
            raise KinspectError(f"{self._path}:{self._text.count(chr(10), 0, self._at) + 1}: {text}")


def read_definitions(path: str) -> dict[int, ApiFile]:
    """The APIs that a file or the files of a folder define, by key. Raises KinspectError."""
    top = Path(path)
    try:
        files = sorted(top.rglob("*.json"))[: MOST_FILES + 1] if top.is_dir() else [top]
    except OSError as error:
        raise KinspectError(f"{path}: {error.strerror or error}") from None
    if len(files) > MOST_FILES:
        raise KinspectError(f"{path}: more than {MOST_FILES:,} files")
    room = [MOST_OF_ALL]
    halves: dict[int, dict[str, tuple[MessageDefinition, _Source]]] = {}
    for file in files:
        source = _Source(file)
        for entry in source.entries():
            if entry.get("type") in _KINDS:
                key, message = _message(entry, source, room)
                source.check(message.kind not in halves.get(key, ()), f"API {key} has another {message.kind}")
                halves.setdefault(key, {})[message.kind] = message, source
    if not halves:
        raise KinspectError(f"{path}: no definition of a request or a response")
    found = {}
    for key, pair in halves.items():
        for message, source in pair.values():
            for other in _KINDS:
                source.check(other in pair, f"{message.name} has no {other} beside it")
        request, source = pair["request"]
        response, _ = pair["response"]
        source.check(request.versions == response.versions, "request and response have not the same versions")
        source.check(request.flexible == response.flexible, "request and response are not flexible alike")
        if request.versions:
            found[key] = _api(key, request, response)
    return found


def lay_over(path: str) -> None:
    """Lay definitions over the table, for this process: before anything is decoded. Raises KinspectError."""
    apis = {key: _over(schema.api(key), api) for key, api in read_definitions(path).items()}
    if schema.is_used() and apis != schema.LAID_OVER:
        raise KinspectError("a process takes message definitions once, before it decodes anything")
    schema.lay_over(apis)


def _message(entry: Entry, source: _Source, room: list[int]) -> tuple[int, MessageDefinition]:
    name: Any = entry.get("name")
    key: Any = entry.get("apiKey")
    valid: Any = entry.get("validVersions")
    flexible = entry.get("flexibleVersions", "none")
    source.check(isinstance(name, str) and _NAME.fullmatch(name), "no name of a message")
    source.come_to(name)
    source.check(type(key) is int and 0 <= key < 1 << 15, f"{name}: no apiKey from 0 to 32767")
    for text in (valid, flexible):
        source.check(isinstance(text, str) and _VERSIONS.fullmatch(text), f"{name}: no versions: {text!r}")
    source.check(not valid.endswith("+"), f"{name}: validVersions without an end")
    if valid == "none":
        return key, MessageDefinition(entry["type"], name, frozenset(), frozenset(), (), {})
    first, _, last = valid.rpartition("-")
    source.check(int(last) < MOST_VERSIONS, f"{name}: a version above {MOST_VERSIONS - 1}")
    names, stem = schema.api_names(), name.removesuffix("Request").removesuffix("Response")
    source.check(stem == names.get(key) or stem not in names.values(), f"{name}: has another apiKey")
    known = schema.api(key)
    table = () if known is None else _fields(known.request if entry["type"] == "request" else known.response)
    structs = _structs(entry, source)
    left = [MOST_FIELDS]
    for each in _list(entry, "fields", source):
        _check_field(each, structs, source, left, 1, table)
    _check_names(entry["fields"], source)
    room[0] -= (MOST_FIELDS - left[0]) * (int(last) - int(first or last) + 1)
    source.check(room[0] >= 0, f"more than {MOST_OF_ALL:,} fields in all versions of all messages")
    listeners = entry.get("listeners", [])
    kept = {"apiKey": key, "type": entry["type"], "name": name, "validVersions": valid}
    kept |= {"flexibleVersions": flexible, "fields": entry["fields"], "listeners": []}
    kept["commonStructs"] = [{"name": struct, "fields": fields} for struct, fields in structs.items()]
    if isinstance(listeners, list) and all(isinstance(each, str) and each.isalpha() for each in listeners):
        kept["listeners"] = listeners
    message: Any = None
    with source.errors_of(name):
        message = convert(kept)
    source.check(message is not None, f"{name}: no version")
    for version in message.versions:
        with source.errors_of(f"{name} version {version}"):
            [*schema.message_layouts(message, version, key, entry["type"])]
    return key, message


def _structs(entry: Entry, source: _Source) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for struct in _list(entry, "commonStructs", source) if "commonStructs" in entry else ():
        source.check(isinstance(struct, dict), "a struct is an object")
        name = struct.get("name")
        source.check(isinstance(name, str) and _NAME.fullmatch(name), f"no name of a struct: {name!r}")
        found[name] = _list(struct, "fields", source)
    return found


def _list(entry: Entry, name: str, source: _Source) -> list[Any]:
    found: Any = entry.get(name)
    source.check(isinstance(found, list), f"{name} is no list")
    return list(found)


def _fields(message: MessageDefinition) -> tuple[FieldDefinition, ...]:
    return (*message.fields, *[field for variant in message.variants for field in variant.fields])


def _form(kind: str) -> str:
    """A type, the names of all structs alike."""
    element = kind.removeprefix("[]")
    return kind if element in _PRIMITIVES else kind.removesuffix(element) + "struct"


def _check_field(
    field: Any,
    structs: dict[str, list[Entry]],
    source: _Source,
    left: list[int],
    depth: int,
    table: tuple[FieldDefinition, ...],
) -> None:
    """Check a field and those below it. `left`: how many more the message may have. `table`: the fields that Kafka's
    struct has: what they mean is told by their names, so that their types hold."""
    source.check(isinstance(field, dict), "a field is an object")
    name, kind = field.get("name"), field.get("type")
    source.check(isinstance(name, str) and _NAME.fullmatch(name), f"no name of a field: {name!r}")
    source.come_to(name)
    left[0] -= 1
    source.check(left[0] >= 0, f"more than {MOST_FIELDS:,} fields")
    source.check(depth <= DEEPEST, f"{name}: structs are nested more than {DEEPEST} deep")
    source.check(isinstance(kind, str), f"{name}: no type")
    snake = schema.snake_case(name)
    known = [each for each in table if schema.snake_case(each.name) == snake]
    forms = {_form(each.type) for each in known}
    if kind == "bytes" and "records" in forms:  # as definitions before 2.5 have them
        field["type"] = kind = "records"
    element = kind.removeprefix("[]")
    source.check(
        not forms or _form(kind) in forms, f"{name}: {kind}, but Kafka's is {' or '.join(sorted(forms))}"
    )
    source.check("versions" in field or "taggedVersions" in field, f"{name}: no versions")
    for key in _VERSION_KEYS:
        text = field.get(key, "none")
        source.check(isinstance(text, str) and _VERSIONS.fullmatch(text), f"{name}: {key}: {text!r}")
    tag = field.get("tag")
    source.check(tag is None or (type(tag) is int and 0 <= tag < 1000), f"{name}: no tag: {tag!r}")
    source.check(
        (tag is None) == (field.get("taggedVersions", "none") == "none"),
        f"{name}: a tag, or its versions, alone",
    )
    entity = field.get("entityType", "entity")
    source.check(isinstance(entity, str) and _NAME.fullmatch(entity), f"{name}: entityType: {entity!r}")
    source.check(entity not in _TEXTS or element == "string", f"{name}: a {entity} is no {kind}")
    source.check(snake not in _NUMBERS or kind == "int32", f"{name}: a time in ms is no {kind}")
    source.check(kind != "[]records", f"{name}: there is no type {kind!r}")
    default = field.get("default")
    plain = default is None or isinstance(default, (str, int, bool))
    source.check(
        plain and len(str(default)) <= 100 and " " not in str(default), f"{name}: default: {default!r:.100}"
    )
    if element in _PRIMITIVES:
        source.check(not field.get("fields"), f"{name}: a {element} has no fields")
        with source.errors_of(name):
            convert_field(field, frozenset({0}), {})
        return
    source.check(_NAME.fullmatch(element) and element[0].isupper(), f"{name}: there is no type {kind!r}")
    below: Any = field.get("fields") or structs.get(element)
    source.check(isinstance(below, list) and below, f"{name}: there is no struct {element}")
    inner = tuple([part for each in known for part in each.fields])
    for each in below:
        _check_field(each, structs, source, left, depth + 1, inner)
    _check_names(below, source)


def _check_names(fields: list[Entry], source: _Source) -> None:
    """Bodies are by name."""
    names = [schema.snake_case(field["name"]) for field in fields]
    for what, values in (("name", names), ("tag", [field.get("tag") for field in fields])):
        for value, times in Counter(value for value in values if value is not None).items():
            source.check(times == 1, f"two fields of a struct have the {what} {value}")


def _api(key: int, request: MessageDefinition, response: MessageDefinition) -> ApiFile:
    name = request.name.removesuffix("Request")
    since = f"{format_versions(request.versions)}={ORIGIN}"
    own = {"listeners": "", **request.attributes, "enum": schema.snake_case(name).upper(), "since": since}
    return ApiFile(key, name, own, request._replace(attributes={}), response._replace(attributes={}))


def _over(known: schema.Api | None, api: ApiFile) -> ApiFile:
    """The API with the versions that it defines in place of those of the table."""
    if known is None:
        return api
    request, response = _united(known.request, api.request), _united(known.response, api.response)
    left = known.request.versions - api.request.versions
    attributes = {
        **api.attributes,
        "versions": format_versions(request.versions),
        "flexible": format_versions(request.flexible, request.versions),
        "since": " ".join(
            [api.attributes["since"], *(f"{each}={known.since.get(each, ORIGIN)}" for each in sorted(left))]
        ),
    }
    return ApiFile(api.key, api.name, attributes, request, response)


def _united(known: MessageDefinition, own: MessageDefinition) -> MessageDefinition:
    left = known.versions - own.versions
    older: Iterator[Any] = (restricted(item, left) for item in known.fields if item.versions & left)
    return own._replace(
        versions=known.versions | own.versions,
        flexible=(known.flexible & left) | own.flexible,
        fields=(*older, *own.fields),
        variants=tuple(variant for variant in known.variants if variant.version in left),
    )
