"""Text format of the table: message definitions, read and written back unchanged.

A file is a sequence of blocks. A block is a line of words, then indented `name: value` attributes, then one indented
line per field, deeper for the fields of a struct::

    api 0 Produce
      versions: 0-13
      flexible: 9+
    request
      Acks int16 0+
      TopicData []TopicProduceData 0+
        Name string 0-12 entity=topicName
    variant 0 of 3.5.0..3.6.2

A field line is name, type, versions, then options: `nullable=3+ tagged=10+ tag=0 default=-1 entity=groupId fixed`
(`fixed`: lengths are not compact, even in a flexible version). A `variant` follows its message and is the layout that
one version had in the named releases, where its bytes do not fit the current one.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kinspect.protocol.versions import format_versions, parse_versions

_NONE: Final[frozenset[int]] = frozenset()


class FieldDefinition(NamedTuple):
    """One field in all versions of its message. `default` is text as Kafka writes it, None if there is none."""

    name: str
    type: str
    versions: frozenset[int]
    nullable: frozenset[int] = _NONE
    tagged: frozenset[int] = _NONE
    tag: int | None = None
    default: str | None = None
    entity: str | None = None
    compact: bool = True
    fields: tuple["FieldDefinition", ...] = ()

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element(self) -> str:
        """The type, or that of one element if the field is an array; names of structs start with a capital."""
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        return self.element[0].isupper()


class LayoutVariant(NamedTuple):
    """Layout of one version in the releases `releases` (`3.5.0..3.6.2`), with other bytes than the current one."""

    version: int
    releases: str
    flexible: bool
    fields: tuple[FieldDefinition, ...]

    @property
    def label(self) -> str:
        """Minor releases: `3.5–3.6`, or a single one."""
        first, _, last = self.releases.partition("..")
        low, high = minor_release(first), minor_release(last or first)
        return low if low == high else f"{low}–{high}"


class MessageDefinition(NamedTuple):
    """A request, a response, a record or a header: `kind` and `name`, its valid and its flexible versions."""

    kind: str
    name: str
    versions: frozenset[int]
    flexible: frozenset[int]
    fields: tuple[FieldDefinition, ...]
    attributes: dict[str, str]
    variants: tuple[LayoutVariant, ...] = ()


class ApiFile(NamedTuple):
    key: int
    name: str
    attributes: dict[str, str]
    request: MessageDefinition
    response: MessageDefinition


class _Block(NamedTuple):
    words: list[str]
    attributes: dict[str, str]
    lines: list[tuple[int, list[str]]]


def minor_release(release: str) -> str:
    """Minor release of a release: `3.6.2` → `3.6`; before 1.0 it has three numbers (`0.8.2.1` → `0.8.2`)."""
    parts = release.split(".")
    return ".".join(parts[: 3 if parts[0] == "0" else 2])


def read_api(text: str) -> ApiFile:
    """Parse an API's file. Raises ValueError for text that `write_api` would not write."""
    blocks = _blocks(text)
    head = next(blocks)
    _, key, name = head.words
    request, response = _messages(blocks, head.attributes, name)
    return ApiFile(int(key), name, head.attributes, request, response)


def read_messages(text: str) -> list[MessageDefinition]:
    """Parse a file of records or headers."""
    return list(_messages(_blocks(text), {}, ""))


def _blocks(text: str) -> Iterator[_Block]:
    block: _Block | None = None
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        depth = (len(line) - len(line.lstrip(" "))) // 2
        words = line.split()
        if depth == 0:
            if block is not None:
                yield block
            block = _Block(words, {}, [])
        elif block is None:
            raise ValueError("a file begins with a block")
        elif words[0].endswith(":"):
            block.attributes[words[0][:-1]] = line.split(":", 1)[1].strip()
        else:
            block.lines.append((depth, words))
    if block is not None:
        yield block


def _messages(blocks: Iterable[_Block], shared: dict[str, str], api: str) -> Iterator[MessageDefinition]:
    message: MessageDefinition | None = None
    for block in blocks:
        if block.words[0] == "variant":
            if message is None:
                raise ValueError("a variant follows its message")
            message = _with_variant(message, block)
            continue
        if message is not None:
            yield message
        kind = block.words[0]
        name = block.words[1] if len(block.words) > 1 else api + kind.capitalize()
        attributes = {**shared, **block.attributes}
        versions = parse_versions(attributes["versions"])
        flexible = parse_versions(attributes["flexible"], versions)
        fields = _read_fields(block.lines, versions)
        message = MessageDefinition(kind, name, versions, flexible, fields, block.attributes)
    if message is not None:
        yield message


def _with_variant(message: MessageDefinition, block: _Block) -> MessageDefinition:
    version = int(block.words[1])
    variant = LayoutVariant(
        version,
        block.words[3],
        block.attributes["flexible"] == "yes",
        _read_fields(block.lines, frozenset({version})),
    )
    return message._replace(variants=(*message.variants, variant))


def _read_fields(lines: list[tuple[int, list[str]]], versions: frozenset[int]) -> tuple[FieldDefinition, ...]:
    def level(index: int, depth: int) -> tuple[tuple[FieldDefinition, ...], int]:
        found = []
        while index < len(lines) and lines[index][0] == depth:
            words = lines[index][1]
            inner, index = level(index + 1, depth + 1)
            found.append(_read_field(words, versions, inner))
        return tuple(found), index

    fields, used = level(0, 1)
    if used != len(lines):
        raise ValueError(f"a field is indented too far: {' '.join(lines[used][1])}")
    return fields


def _read_field(
    words: list[str], valid: frozenset[int], inner: tuple[FieldDefinition, ...]
) -> FieldDefinition:
    name, kind, versions, *rest = words
    options = dict(option.partition("=")[::2] for option in rest)
    return FieldDefinition(
        name,
        kind,
        parse_versions(versions, valid),
        parse_versions(options.get("nullable", "none"), valid),
        parse_versions(options.get("tagged", "none"), valid),
        int(options["tag"]) if "tag" in options else None,
        options.get("default"),
        options.get("entity"),
        "fixed" not in options,
        inner,
    )


def write_api(api: ApiFile) -> str:
    lines = [f"api {api.key} {api.name}", *_write_attributes(api.attributes)]
    for message in (api.request, api.response):
        lines += ["", *_write_message(message, message.kind)]
    return "\n".join(lines) + "\n"


def write_messages(messages: Iterable[MessageDefinition]) -> str:
    blocks = ["\n".join(_write_message(message, f"{message.kind} {message.name}")) for message in messages]
    return "\n\n".join(blocks) + "\n"


def _write_message(message: MessageDefinition, title: str) -> list[str]:
    lines = [title, *_write_attributes(message.attributes), *_write_fields(message.fields, message.versions)]
    for variant in message.variants:
        lines += [
            f"variant {variant.version} of {variant.releases}",
            f"  flexible: {'yes' if variant.flexible else 'no'}",
            *_write_fields(variant.fields, frozenset({variant.version})),
        ]
    return lines


def _write_attributes(attributes: dict[str, str]) -> list[str]:
    return [f"  {name}: {value}" for name, value in attributes.items()]


def _write_fields(fields: Iterable[FieldDefinition], valid: frozenset[int], depth: int = 1) -> list[str]:
    lines = []
    for item in fields:
        options = {
            "nullable": format_versions(item.nullable, valid) if item.nullable else None,
            "tagged": format_versions(item.tagged, valid) if item.tagged else None,
            "tag": item.tag,
            "default": item.default,
            "entity": item.entity,
        }
        words = [item.name, item.type, format_versions(item.versions, valid)]
        words += [f"{name}={value}" for name, value in options.items() if value is not None]
        if not item.compact:
            words.append("fixed")
        lines.append("  " * depth + " ".join(words))
        lines += _write_fields(item.fields, valid, depth + 1)
    return lines
