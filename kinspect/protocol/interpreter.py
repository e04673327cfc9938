"""Reads a message by walking its layout, field by field: slow, plain, and able to report what went wrong and where.

It shares nothing with the compiler but the layout, so that each checks the other. It also finds the byte span of each
field, and continues after text that is not UTF-8.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from functools import cache
from typing import Any, Final, NamedTuple

from kinspect.model import Problem
from kinspect.protocol import memory
from kinspect.protocol.projection import Body
from kinspect.protocol.schema import Field, Layout
from kinspect.wording import counted, plural

_NUMBERS: Final = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}

# Most varint bytes that 32 bits can need.
_LONGEST_VARINT: Final = 5

SPAN_MEMORY: Final = 512
"""Memory of a span, with its path and value."""


class Span(NamedTuple):
    """Byte range of a part of a message: `start` and `end` are indexes into the data.

    Spans come in order and leave nothing out. Parts that are not values of the body have spans of their own: an array's
    count (type `[]int32`, value the count or None), a struct's null marker (type `struct`), the number of tagged fields
    (type `tags`) and the tag and size before each of them (type `tag`, value the tag).
    """

    path: str
    start: int
    end: int
    type: str
    value: Any


class Failure(NamedTuple):
    """Reason why reading stopped. `offset` is the index into the data at which the field that did not fit begins."""

    offset: int
    path: str
    message: str


class ReadResult(NamedTuple):
    """Result of reading a message: `end` is where it stopped, `failure` None if it read all fields.

    `full`: it stopped because the memory limit was reached. `missing`: the least number of bytes that the message lacks
    at the end of the data; 0 if it did not stop for that. `cut`: it stopped because the data ends before the message
    does; everything up to there fits.
    """

    body: Body
    end: int
    problems: tuple[Problem, ...]
    failure: Failure | None
    spans: list[Span]
    full: bool
    missing: int
    cut: bool


class _FailedError(Exception):
    pass


class _FullError(_FailedError):
    pass


class _CutError(Exception):
    pass


def interpret(
    layout: Layout,
    data: bytes,
    start: int,
    end: int,
    *,
    base: int = 0,
    spans: bool = False,
    max_memory: int | None = None,
) -> ReadResult:
    """Read `data[start:end]`; surplus bytes are left, and reading ends at broken ones with what was read so far.

    `end` may lie behind the data's end, if the message ends there.

    Offsets of problems count from `base`, those of spans and the failure are indexes into `data`. A body that takes
    more than `max_memory` bytes (`memory`), including the spans if they are wanted, is read up to that point.
    """
    reader = _BodyReader(layout, data, start, end, base, spans, max_memory)
    body: Body = {}
    failure = None
    full = cut = False
    try:
        reader.struct(layout.fields, layout.flexible, body)
    except _FailedError as error:
        failure = Failure(reader.field_start, reader.text_path(), str(error))
        full = isinstance(error, _FullError)
    except _CutError:
        cut = True
    return ReadResult(
        body, reader.pos, tuple(reader.problems), failure, reader.spans, full, reader.missing, cut
    )


class _BodyReader:
    def __init__(
        self, layout: Layout, data: bytes, pos: int, end: int, base: int, spans: bool, max_memory: int | None
    ) -> None:
        self.layout = layout
        self.data = data
        self.pos = pos
        self.end = end
        self.data_end = end
        self.missing = 0
        self.base = base
        self.path: list[str | int] = []
        self.problems: list[Problem] = []
        self.spans: list[Span] = []
        self.wants_spans = spans
        self.field_start = pos
        self.max_memory = max_memory
        self.memory = 0

    def charge(self, size: int) -> None:
        self.memory += size
        if self.max_memory is not None and self.memory > self.max_memory:
            raise _FullError(f"the body takes more than {_bytes(self.max_memory)} of memory")

    def text_path(self) -> str:
        text = ""
        for part in self.path:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
        return text

    def span(self, start: int, kind: str, value: Any) -> None:
        if self.wants_spans:
            self.charge(SPAN_MEMORY)
            self.spans.append(Span(self.text_path(), start, self.pos, kind, value))

    def short(self, size: int, message: str) -> _FailedError:
        """Failure to find `size` bytes. Bytes missing from a tagged field are not counted in `missing`."""
        if self.end == self.data_end:
            self.missing = size - (self.end - self.pos)
        return _FailedError(message)

    def take(self, size: int, what: str) -> bytes:
        left = self.end - self.pos
        if size > left:
            raise self.short(size, f"{what} needs {_bytes(size)}, {left} left")
        if self.pos + size > len(self.data):
            raise _CutError
        self.pos += size
        return self.data[self.pos - size : self.pos]

    def number(self, kind: str) -> Any:
        code = _NUMBERS[kind]
        return struct.unpack(code, self.take(struct.calcsize(code), kind))[0]

    def uvarint(self, what: str) -> int:
        value = 0
        for index in range(_LONGEST_VARINT):
            byte = self.take(1, what)[0]
            value += (byte % 128) << (7 * index)
            if byte < 128:
                return value
        raise _FailedError(f"{what} is a varint of more than {_LONGEST_VARINT} bytes")

    def length(self, field: Field, kind: str) -> int | None:
        """A length or count; None for null."""
        what = f"length of {kind}"
        size = self.uvarint(what) - 1 if field.compact else int(self.number(kind))
        if size >= 0:
            return size
        if size < -1:
            raise _FailedError(f"negative length {size}")
        if not field.nullable:
            raise _FailedError("null, but the field cannot be null")
        return None

    def struct(self, fields: tuple[Field, ...], flexible: bool, body: Body) -> None:
        """Fill `body` field by field, so that a failure leaves the fields before it."""
        for field in fields:
            if field.tag is None:
                self.path.append(field.name)
                self.field(field, body)
                self.path.pop()
        if flexible:
            self.tags({field.tag: field for field in fields if field.tag is not None}, body)

    def tags(self, known: dict[int, Field], body: Body) -> None:
        self.path.append("unknown_tagged_fields")
        self.field_start = start = self.pos
        count = self.uvarint("number of tagged fields")
        if 2 * count > self.end - self.pos:
            raise self.short(
                2 * count, f"{counted(count, 'tagged field', '')}, {_bytes(self.end - self.pos)} left"
            )
        self.span(start, "tags", count)
        self.path.pop()
        for _ in range(count):
            self.tag(known, body)

    def tag(self, known: dict[int, Field], body: Body) -> None:
        """Read one tagged field, which must fill the size announced for it."""
        self.path.append("unknown_tagged_fields")
        self.field_start = start = self.pos
        number = self.uvarint("tag")
        size = self.uvarint("size of a tagged field")
        if size > self.end - self.pos:
            raise self.short(size, f"tag {number} needs {_bytes(size)}, {self.end - self.pos} left")
        field = known.get(number)
        if field is not None:
            self.path[-1] = field.name
        self.span(start, "tag", number)
        outer, self.end = self.end, self.pos + size
        if field is None:
            self.charge(memory.UNKNOWN_TAG)
            start = self.pos
            raw = self.take(size, "tag")
            body.setdefault("unknown_tagged_fields", []).append({"tag": number, "bytes": raw})
            self.span(start, "bytes", raw)
        else:
            self.field(field, body)
            if self.pos != self.end:
                self.field_start = start
                raise _FailedError(f"tag {number} has {_bytes(self.end - self.pos)} more than its field")
        self.end = outer
        self.path.pop()

    def field(self, field: Field, body: Body) -> None:
        self.field_start = self.pos
        if field.array:
            self.array(field, body)
        elif field.type != "struct":
            body[field.name] = self.value(field, field.nullable)
        elif field.nullable and self.is_null(field):
            body[field.name] = None
        else:
            inner: Body = {}
            body[field.name] = inner
            self.struct(field.fields, field.compact, inner)

    def is_null(self, field: Field) -> bool:
        """Read the marker before a nullable struct: a byte 1 or -1, in a tagged field a varint 1 or 0."""
        start = self.pos
        null = -1 if field.tag is None else 0
        marker = self.number("int8") if field.tag is None else self.uvarint("null marker")
        if marker not in (null, 1):
            raise _FailedError(f"null marker {marker}")
        self.span(start, "struct", None if marker == null else marker)
        return bool(marker == null)

    def array(self, field: Field, body: Body) -> None:
        start = self.pos
        count = self.length(field, "int32")
        if count is not None:
            least = max(_least_element(field), 1) * count
            if least > self.end - self.pos:
                elements = f"{counted(count, 'element', '')} {plural(count, 'needs', 'need')}"
                raise self.short(least, f"{elements} at least {_bytes(least)}, {self.end - self.pos} left")
        self.span(start, f"[]{field.type}", count)
        if count is None:
            body[field.name] = None
            return
        items: list[Any] = []
        body[field.name] = items
        for index in range(count):
            self.path.append(index)
            self.field_start = self.pos
            self.charge(memory.of_element(field))
            if field.type == "struct":
                items.append({})
                self.struct(field.fields, field.compact, items[-1])
            else:
                items.append(self.value(field, False))
            self.path.pop()

    def value(self, field: Field, nullable: bool) -> Any:
        """Read one value of a primitive type. An array's element is never null."""
        start = self.pos
        kind = field.type
        if kind in _NUMBERS:
            value = self.number(kind)
        elif kind == "bool":
            value = self.take(1, kind) != b"\0"
        elif kind == "uuid":
            value = urlsafe_b64encode(self.take(16, kind)).decode().rstrip("=")
        else:
            size = self.length(field, "int16" if kind == "string" else "int32")
            if size is None and not nullable:
                raise _FailedError("null, but an element cannot be null")
            value = None if size is None else self.take(size, kind)
            if kind == "string" and value is not None:
                value = self.text(value, start)
        self.span(start, kind, value)
        return value

    def text(self, raw: bytes, start: int) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self.charge(memory.ODD_TEXT)
            path = self.text_path()
            self.problems.append(
                Problem(
                    self.layout.direction,
                    "invalid_utf8",
                    f"{path} is not UTF-8",
                    offset=start - self.base,
                    bytes=len(raw),
                    path=path,
                )
            )
            return raw.decode("utf-8", "replace")


def _bytes(count: int) -> str:
    return counted(count, "byte", "")


@cache
def _least_element(field: Field) -> int:
    """Minimum size in bytes of one element of an array."""
    if field.type in _NUMBERS:
        return struct.calcsize(_NUMBERS[field.type])
    if field.type == "struct":
        return sum(_least(part) for part in field.fields if part.tag is None) + int(field.compact)
    short = {"bool": 1, "uuid": 16, "string": 2}
    return 1 if field.compact and field.type not in ("bool", "uuid") else short.get(field.type, 4)


def _least(field: Field) -> int:
    if field.array:
        return 1 if field.compact else 4
    return 1 if field.type == "struct" and field.nullable else _least_element(field)
