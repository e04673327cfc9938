"""Contents of the table: APIs and their traits, layouts, record types, error names, releases.

Everything is read on first use and file by file: asking for one layout parses one API's file.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from kinspect.errors import KinspectError
from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol.apikeys import LEADER_AND_ISR
from kinspect.protocol.primitives import ZERO_UUID
from kinspect.protocol.tabletext import ApiFile, FieldDefinition, MessageDefinition, read_api, read_messages
from kinspect.protocol.versions import parse_versions, version_ranges

TABLE: Final = os.path.join(os.path.dirname(__file__), "table")
"""The folder of the table."""

# `04_leader_and_isr.txt`: key and name are in the file name, so that the file need not be opened.
_FILE_NAME: Final = re.compile(r"(\d+)_(\w+)\.txt")
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# File of `table/records` with the messages of a topic (or other place).
_RECORD_FILES: Final = {
    "__consumer_offsets": "group",
    "__transaction_state": "txn",
    "__share_group_state": "share",
    "__cluster_metadata": "metadata",
    "__remote_log_metadata": "storage",
}

_NO_TRAIT: Final = frozenset({"-", "?"})

_ZERO_DEFAULTS: Final[dict[str, Any]] = {
    "bool": False,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "uuid": ZERO_UUID,
}


@dataclass(slots=True, eq=False, repr=False)
class Field:
    """One field of a layout, with the conditions of its version resolved.

    `type` is a primitive type or `struct`, that of the elements if `array`; `fields` are a struct's. `tag` is the tag's
    number, None for an ordinary field. `compact`: lengths are unsigned varints (and a struct ends in a tagged section).
    `default` is the value of a missing field, empty or None for containers.
    """

    name: str
    kafka_name: str
    type: str
    array: bool
    fields: tuple["Field", ...]
    nullable: bool
    tag: int | None
    entity: str | None
    default: Any
    compact: bool


@dataclass(slots=True, eq=False, repr=False)
class Layout:
    """Layout of the bytes of one version of a message. `label` names the releases of an early-access layout.

    Records and headers have no `api_key`, records no `direction`. Layouts are created once: compare by identity.
    """

    name: str
    api_key: int | None
    version: int
    direction: str | None
    flexible: bool
    fields: tuple[Field, ...]
    label: str | None


@dataclass(slots=True, eq=False, repr=False)
class Api:
    """One API in all releases. The version maps map a version to the release (`3.7`) or releases (`3.9.0..4.0.2`)."""

    key: int
    name: str
    enum: str
    versions: tuple[int, ...]
    flexible_from: int | None
    listeners: tuple[str, ...]
    since: dict[int, str]
    removed: dict[int, str]
    absent: dict[int, str]
    deprecated: dict[int, str]
    unstable: dict[int, str]
    old_names: tuple[str, ...]
    request: MessageDefinition
    response: MessageDefinition


class RecordType(NamedTuple):
    """Messages of one record type number: a key message if there is one, and value messages, newest first."""

    number: int
    key: str | None
    values: tuple[str, ...]


class ErrorCode(NamedTuple):
    """An error code. `old_names` and `scala_names` map names to the releases that had them."""

    code: int
    name: str
    retriable: bool
    since: str
    old_names: dict[str, str]
    scala_names: dict[str, str]


class Config(NamedTuple):
    """A config that Kafka itself defines. `kinds`: what has it. `first` and `last`: releases that define it.
    `is_password`: it is of type PASSWORD in one of them."""

    name: str
    kinds: tuple[str, ...]
    first: str
    last: str
    is_password: bool


class ErrorAdvice(NamedTuple):
    """An error code for people: what it means, what to do, each one sentence or two, and where that is from."""

    meaning: str
    advice: str
    source: str


_UNHEARD_OF: Final = ErrorAdvice(
    "No known release of Kafka has this error code.",
    "Find out who answers: a newer release, a proxy, or another implementation.",
    "",
)


class VersionRange(NamedTuple):
    """Versions of one API that a release supports; `unstable`: the newest only if unstable versions are enabled."""

    low: int
    high: int
    unstable: bool


def snake_case(name: str) -> str:
    """Kafka's field name in snake case: `isKRaftController` → `is_k_raft_controller`, a fork's `WALConfig` →
    `wal_config`."""
    return _WORD.sub("_", name).lower()


def _text(*name: str) -> str:
    """The text of a file of the table."""
    with open(os.path.join(TABLE, *name), encoding="utf-8") as file:
        return file.read()


@cache
def _api_files() -> dict[int, str]:
    """The names of the files of all APIs by key."""
    found = {int(match[1]): name for name in os.listdir(TABLE) if (match := _FILE_NAME.fullmatch(name))}
    return dict(sorted({**found, **dict.fromkeys(LAID_OVER, "")}.items()))


@cache
def api_names() -> dict[int, str]:
    """Names of all APIs by key, without reading the files."""
    return {
        key: LAID_OVER[key].name
        if key in LAID_OVER
        else "".join(word.capitalize() for word in name.removesuffix(".txt").split("_")[1:])
        for key, name in _api_files().items()
    }


LAID_OVER: Final[dict[int, ApiFile]] = {}
"""The APIs that are in place of the table's."""
MADE: Final[list[dict[Any, Any]]] = []
"""What is made of the table, beside the caches of functions."""


MISFITS: Final = AttributeError, KeyError, TypeError, ValueError
"""What is raised where a field is not there, or is of another type."""


def misfit(api: str | None, whose: str, error: Exception) -> Exception:
    """What to raise in place of such an error: definitions that are laid over the table may be its cause. `whose`: what
    needs others, with its verb."""
    if not LAID_OVER:
        return error
    return KinspectError(f"{api} is defined otherwise than {whose}: {type(error).__name__}: {error}")


def is_used() -> bool:
    """True if APIs are laid over the table, or something was decoded."""
    return bool(LAID_OVER or _api_layouts.cache_info().currsize)


def lay_over(apis: Mapping[int, ApiFile]) -> None:
    """Put these APIs, and no others, in place of the table's, for the whole process: what was read with others may not
    be in use any more."""
    if apis == LAID_OVER:
        return
    LAID_OVER.clear()
    LAID_OVER.update(apis)
    for made in MADE:
        made.clear()
    # Any cache may be made of the table.
    for module in [module for name, module in sys.modules.items() if name.startswith("kinspect.")]:
        for each in vars(module).values():
            if isinstance(each, type(_api)):
                each.cache_clear()


def api_name(key: int) -> str | None:
    return api_names().get(key)


@cache
def _api_file(key: int) -> ApiFile:
    return LAID_OVER.get(key) or read_api(_text(_api_files()[key]))


def _version_map(text: str, valid: Iterable[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for part in text.split():
        versions, _, release = part.partition("=")
        for version in sorted(parse_versions(versions, valid)):
            found.setdefault(version, release)
    return found


@cache
def _api(key: int) -> Api:
    file = _api_file(key)
    attributes = file.attributes
    versions = file.request.versions
    return Api(
        key=key,
        name=file.name,
        enum=attributes["enum"],
        versions=tuple(sorted(versions)),
        flexible_from=min(file.request.flexible, default=None),
        listeners=tuple(attributes["listeners"].split()),
        since=_version_map(attributes["since"], versions),
        removed=_version_map(attributes.get("removed", ""), versions),
        absent=_version_map(attributes.get("absent", ""), versions),
        deprecated=_version_map(attributes.get("deprecated", ""), versions),
        unstable=_version_map(attributes.get("unstable", ""), versions),
        old_names=tuple(attributes.get("old-names", "").split()),
        request=file.request,
        response=file.response,
    )


def api(key_or_name: int | str) -> Api | None:
    """API with a key, a name in any case (`listoffsets`) or an enum name (`LIST_OFFSETS`); None if unknown."""
    if isinstance(key_or_name, int):
        return _api(key_or_name) if key_or_name in _api_files() else None
    if key_or_name.lstrip("-").isdecimal():
        return api(int(key_or_name))
    wanted = key_or_name.replace("_", "").lower()
    for key, name in api_names().items():
        if name.lower() == wanted:
            return _api(key)
    for candidate in apis():
        if wanted in (name.lower() for name in candidate.old_names):
            return candidate
    return None


def apis() -> tuple[Api, ...]:
    """All APIs by key. Reads the whole table."""
    return tuple(_api(key) for key in _api_files())


def layout(api_key: int, version: int, direction: str) -> Layout | None:
    """Stable layout; None for an unknown API or version."""
    found = layouts(api_key, version, direction)
    return found[0] if found else None


def layouts(api_key: int, version: int, direction: str) -> tuple[Layout, ...]:
    """All layouts that version ever had, the stable one first; empty for an unknown API or version."""
    # Only existing layouts are cached: keys and versions come from captures.
    if api_key not in _api_files() or version not in _api_file(api_key).request.versions:
        return ()
    return _api_layouts(api_key, version, direction)


@cache
def _api_layouts(api_key: int, version: int, direction: str) -> tuple[Layout, ...]:
    file = _api_file(api_key)
    message = file.request if direction == REQUEST else file.response
    return tuple(message_layouts(message, version, api_key, direction))


@cache
def header_layout(direction: str, version: int) -> Layout:
    """Layout of a request's header (version 0 to 2) or a response's (0 or 1). Raises KeyError for others."""
    found = tuple(message_layouts(_headers()[direction], version, None, direction))
    if not found:
        raise KeyError(version)
    return found[0]


def header_versions(direction: str) -> frozenset[int]:
    """Versions of a request's or a response's header."""
    return _headers()[direction].versions


@cache
def _headers() -> dict[str, MessageDefinition]:
    messages = read_messages(_text("headers.txt"))
    return {REQUEST if message.name == "RequestHeader" else RESPONSE: message for message in messages}


def header_version(api_key: int, version: int, direction: str) -> int:
    """Version of a message's header. Message versions newer than the table are as flexible as its newest one.

    For an unknown API the header without tagged fields is assumed.
    """
    plain, flexible_from, exceptions = _header_rule(api_key if api_key in _api_files() else None, direction)
    for low, high, header in exceptions:
        if low <= version <= high:
            return header
    return plain if flexible_from is None or version < flexible_from else plain + 1


@cache
def _header_rule(
    api_key: int | None, direction: str
) -> tuple[int, int | None, tuple[tuple[int, int, int], ...]]:
    """Header version of non-flexible versions, first flexible version, and exceptions."""
    message = _headers()[direction]
    plain = max(message.versions) - 1
    if api_key is None:
        return plain, None, ()
    exceptions: list[tuple[int, int, int]] = []
    for part in message.attributes["exceptions"].split():
        place, _, header = part.partition("=")
        key, _, versions = place.partition(":")
        if int(key) == api_key:
            exceptions += [(low, high, int(header)) for low, high in version_ranges(versions)]
    return plain, _api(api_key).flexible_from, tuple(exceptions)


@cache
def _records() -> dict[str, MessageDefinition]:
    return {message.name: message for messages in record_files().values() for message in messages}


@cache
def record_files() -> dict[str, tuple[MessageDefinition, ...]]:
    """Messages of every file of `table/records`, by the file's stem."""
    names = sorted(name for name in os.listdir(os.path.join(TABLE, "records")) if name.endswith(".txt"))
    return {name.removesuffix(".txt"): tuple(read_messages(_text("records", name))) for name in names}


def record_names() -> tuple[str, ...]:
    return tuple(_records())


def record(name: str) -> MessageDefinition | None:
    """Definition of a record message; None if there is none of that name."""
    return _records().get(name)


def record_layouts(name: str, version: int) -> tuple[Layout, ...]:
    """All layouts of a record message's version, the stable one first; empty for an unknown name or version."""
    message = _records().get(name)
    return _record_layouts(name, version) if message and version in message.versions else ()


@cache
def _record_layouts(name: str, version: int) -> tuple[Layout, ...]:
    return tuple(message_layouts(_records()[name], version, None, None))


@cache
def record_types(topic: str) -> dict[int, RecordType]:
    """Record types of an internal topic (`__cluster_metadata`, `__consumer_offsets`, ...); empty for others."""
    found: dict[int, RecordType] = {}
    for message in record_files().get(_RECORD_FILES.get(topic, ""), ()):
        if "record-type" not in message.attributes:
            continue
        number = int(message.attributes["record-type"])
        entry = found.get(number, RecordType(number, None, ()))
        if message.name.endswith("Key"):
            entry = entry._replace(key=message.name)
        else:
            entry = entry._replace(values=(*entry.values, message.name))
        found[number] = entry
    return dict(sorted(found.items()))


def message_layouts(
    message: MessageDefinition, version: int, api_key: int | None, direction: str | None
) -> Iterator[Layout]:
    """Layouts of a message in a version, its variants' too; none if it has no such version."""
    if version not in message.versions:
        return
    flexible = version in message.flexible
    fields = _resolve(message.fields, version, flexible)
    yield Layout(message.name, api_key, version, direction, flexible, fields, None)
    for variant in message.variants:
        if variant.version == version:
            fields = _resolve(variant.fields, version, variant.flexible)
            yield Layout(message.name, api_key, version, direction, variant.flexible, fields, variant.label)


def _resolve(definitions: Iterable[FieldDefinition], version: int, flexible: bool) -> tuple[Field, ...]:
    return tuple(
        _resolve_field(definition, version, flexible)
        for definition in definitions
        if version in definition.versions
    )


def _resolve_field(definition: FieldDefinition, version: int, flexible: bool) -> Field:
    kind = "struct" if definition.is_struct else definition.element
    nullable = version in definition.nullable
    return Field(
        name=snake_case(definition.name),
        kafka_name=definition.name,
        type=kind,
        array=definition.is_array,
        fields=_resolve(definition.fields, version, flexible),
        nullable=nullable,
        tag=definition.tag if version in definition.tagged else None,
        entity=definition.entity,
        default=_default(definition, kind, nullable),
        compact=flexible and definition.compact,
    )


def _default(definition: FieldDefinition, kind: str, nullable: bool) -> Any:
    text = definition.default
    if text == "null" and nullable:
        return None
    if definition.is_array:
        return ()
    if kind == "struct":
        return {}
    if kind == "records":
        return None if nullable else b""
    if text is None or text == "null":
        return _ZERO_DEFAULTS.get(kind, 0)
    if kind == "bool":
        return text == "true"
    if kind == "string":
        return text
    return float(text) if kind == "float64" else int(text, 0)


@cache
def errors() -> dict[int, ErrorCode]:
    """All error codes that Kafka has had."""
    found = {}
    for line in _text("errors.txt").splitlines():
        if line.startswith("#"):
            continue
        code, name, retriable, *rest = line.split()
        options: dict[str, dict[str, str]] = {"old": {}, "scala": {}}
        since = ""
        for option in rest:
            kind, _, value = option.partition("=")
            if kind == "since":
                since = value
            else:
                old, _, releases = value.partition(":")
                options[kind][old] = releases
        found[int(code)] = ErrorCode(
            int(code), name, retriable == "retriable", since, options["old"], options["scala"]
        )
    return found


# Brokers up to 0.9 gave error 13 to partitions of LeaderAndIsr alone; later ones mean something else by it elsewhere.
_OF_API: Final[dict[tuple[int | None, int], tuple[ErrorCode, ErrorAdvice]]] = {
    (LEADER_AND_ISR, 13): (
        ErrorCode(13, "STALE_LEADER_EPOCH", False, "0.8.1", {}, {"StaleLeaderEpoch": "0.8.1"}),
        ErrorAdvice(
            "The broker has this leader epoch of the partition, or a newer one, already.",
            "Nothing is to be done: the controller told it twice.",
            "kafka.common.ErrorMapping of 0.8.2",
        ),
    )
}
"""Error codes that mean something else in answers of an API."""


def _error(code: int, api_key: int | None) -> ErrorCode | None:
    other = _OF_API.get((api_key, code))
    return errors().get(code) if other is None else other[0]


def error_meanings() -> list[ErrorCode]:
    """`errors`, and those that a code is in the answers of a single API."""
    return [*errors().values(), *(error for error, _ in _OF_API.values())]


def error_name(code: int, api_key: int | None) -> str:
    """Current name of an error code in an API's answer (None: in any), `UNKNOWN_CODE_4242` for one without."""
    entry = _error(code, api_key)
    return entry.name if entry else f"UNKNOWN_CODE_{code}"


def error_retriable(code: int, api_key: int | None) -> bool:
    """True if current clients retry on the error."""
    entry = _error(code, api_key)
    return entry is not None and entry.retriable


@cache
def error_advice() -> dict[int, ErrorAdvice]:
    """Meaning and advice for each of `errors`."""
    found: dict[int, dict[str, str]] = {}
    code = 0
    for line in _text("advice.txt").splitlines():
        if line.startswith("  "):
            name, _, text = line.strip().partition(": ")
            found[code][name] = text
        elif not line.startswith("#"):
            code = int(line.split()[0])
            found[code] = {}
    return {code: ErrorAdvice(**texts) for code, texts in found.items()}


def advice_for(code: int, api_key: int | None) -> ErrorAdvice:
    """Meaning and advice for an error code, also for one that Kafka does not have."""
    other = _OF_API.get((api_key, code))
    if other is not None:
        return other[1]
    return error_advice().get(code, _UNHEARD_OF)


@cache
def configs() -> dict[str, Config]:
    """The configs that Kafka's releases define, by name."""
    found = {}
    title, *lines = _text("configs.txt").splitlines()
    newest = title.partition(":")[0].split()[-1]
    for line in lines:
        name, kinds, first, last, *password = line.split()
        last = newest if last == "-" else last
        found[name] = Config(name, tuple(kinds.split(",")), first, last, bool(password))
    return found


_WORD_FORMS: Final = {"@number": r"\d{1,3}", "@version": r"\d{1,2}(\.\d{1,2}){1,2}"}
"""Words of the table that stand for all that are of a form."""


def is_own_word(path: str, text: str) -> bool:
    """True if a text in the field of this dotted path, in snake case, is one of Kafka's own words. Of fields that the
    table says nothing about none is."""
    below, _, name = path.rpartition(".")
    within = f"{below.rpartition('.')[2]}.{name}"
    for words in (_words().get(within), _words().get(name)):
        if words is not None:
            if text in words or ("@configs" in words and text in configs()):
                return True
            return any(re.fullmatch(form, text) for word, form in _WORD_FORMS.items() if word in words)
    return False


@cache
def _words() -> dict[str, frozenset[str]]:
    """Kafka's own words by the fields that may hold them."""
    found = {}
    for line in _text("words.txt").splitlines():
        if not line.startswith("#"):
            fields, _, words = line.partition(" | ")
            found.update(dict.fromkeys(fields.split(), frozenset(words.split())))
    return found


def traits(name: str) -> dict[int, str]:
    """The trait of each API that has it, by key."""
    return _column(name)


@cache
def _column(name: str) -> dict[int, str]:
    names, *rows = _trait_rows()
    column = names.index(name)
    return {int(row[0]): row[column] for row in rows if row[column] not in _NO_TRAIT}


def trait(name: str, api_key: int | None) -> str | None:
    """The trait of an API; None if it has none, or is not known."""
    return None if api_key is None else traits(name).get(api_key)


def apis_with(name: str, *values: str) -> frozenset[int]:
    """Keys of the APIs with one of these values of a trait; without values, of all that have it."""
    return frozenset([key for key, value in traits(name).items() if not values or value in values])


@cache
def _trait_rows() -> tuple[list[str], ...]:
    """The names of the columns of traits, then the row of each API."""
    return tuple([line.split() for line in _text("traits.txt").splitlines() if not line.startswith("#")])


@cache
def releases() -> dict[str, dict[int, VersionRange]]:
    """Versions that brokers of each release support, by release and API key, oldest release first."""
    found: dict[str, dict[int, VersionRange]] = {}
    for line in _text("releases.txt").splitlines():
        if line.startswith("#"):
            continue
        release, *spoken = line.split()
        found[release] = dict(_spoken(part) for part in spoken)
    return found


def release(name: str) -> str | None:
    """The release of the table that speaks what `name` does: `3.7` or `v3.7` is the newest of 3.7, and a patch release
    that is not in the table is the one before it. None if there is none."""
    name = name.removeprefix("v")
    line, _, patch = name.rpartition(".")
    number = int(patch) if patch.isdecimal() and len(patch) < 4 else -1
    found = [each for each in releases() if each.startswith(f"{name}.")]
    found = found or [
        each
        for each in releases()
        if each.rpartition(".")[0] == line and int(each.rpartition(".")[2]) <= number
    ]
    return found[-1] if found else None


def _spoken(text: str) -> tuple[int, VersionRange]:
    key, _, versions = text.partition(":")
    low, _, high = versions.rstrip("u").partition("-")
    return int(key), VersionRange(int(low), int(high or low), versions.endswith("u"))
