"""Turns layouts into Python functions: decoders (of all or some fields), skippers and encoders.

Each layout becomes one flat function, with arrays as inlined loops. It is compiled in memory on first use and
registered in `linecache`, so that a traceback shows the generated line.

Bounds checks. A Python slice past the end of a buffer is silently short, so no slice can be trusted by itself.
Generated code only ever moves `pos` forward (a negative length is an error at once), therefore one comparison of `pos`
with `end` after everything is read covers every field before it. Only repetition and allocation cannot wait for that:
each array's count is compared with the bytes left before its loop.

A decoder that is `bounded` also subtracts the memory of its arrays' elements (`memory`) from `room` before it reads
them: once per array, and only messages long enough for it to matter are given to one.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from kinspect.form import COMPILED
from kinspect.protocol import memory, primitives, schema, sizes, walker
from kinspect.protocol.projection import Body, Projection, projection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinspect.protocol.schema import Field, Layout


class Decode(Protocol):
    """A decoder; only a bounded one uses `room`."""

    def __call__(self, data: bytes, pos: int, end: int, room: int = 0, /) -> tuple[Body, int]: ...


Encode = Callable[[Body], bytes]

_HELPERS: Final[dict[str, Any]] = {
    "Malformed": primitives.Malformed,
    "TooLarge": primitives.TooLarge,
    "uvarint": primitives.uvarint,
    "uvarint_bytes": primitives.uvarint_bytes,
    "unknown_tags": primitives.unknown_tags,
    "skip_tags": primitives.skip_tags,
    "tag_section": primitives.tag_section,
    "uuid_text": primitives.uuid_text,
    "uuid_bytes": primitives.uuid_bytes,
    "pack": struct.pack,
    **{f"unpack_{kind}": unpackers for kind, unpackers in primitives.ARRAYS.items()},
}

_decoders: dict[tuple[Layout, frozenset[str] | None, bool], Decode] = {}
_encoders: dict[Layout, Encode] = {}
schema.MADE.extend((_decoders, _encoders))


def decoder(layout: Layout, fields: frozenset[str] | None = None, bounded: bool = False) -> Decode:
    """Return `decode(data, pos, end, room) -> (body, pos)` for the layout, or for only `fields` of it.

    `fields` are dotted paths through arrays (`topics.partitions.error_code`); a path to a container asks for all of it.
    The function raises one of `primitives.DECODE_FAILURES` for bytes that do not fit; it does not require the bytes to
    be used up. A `bounded` one refuses a body that may take more than `room` bytes of memory, others ignore `room`.
    """
    key = (layout, fields, bounded)
    found = _decoders.get(key)
    if found is None:
        found = _decoders[key] = _make(layout, fields, bounded)
    return found


def generated(layout: Layout, fields: frozenset[str] | None = None, bounded: bool = False) -> Decode:
    """Function for `decoder` from source generated for the layout: the fastest when interpreted."""
    title = _title(layout, "decode within" if bounded else "decode", fields)
    decode: Decode = _load(decoder_source(layout, fields, bounded), title)
    return decode


def walking(layout: Layout, fields: frozenset[str] | None = None, bounded: bool = False) -> Decode:
    """Function for `decoder` that walks the layout: the fastest in the compiled form."""
    return walker.Program(layout, None if fields is None else projection(fields), bounded).decode


_make = walking if COMPILED else generated


def skipper(layout: Layout) -> Decode:
    """A decoder that builds nothing: its body is empty, its position is the end of the message."""
    return decoder(layout, frozenset())


def encoder(layout: Layout) -> Encode:
    """Return `encode(body) -> bytes`. Missing keys take their default; tagged fields are written if present.

    The function raises whatever Python raises for values of the wrong type; `codec` turns that into EncodeError.
    """
    found = _encoders.get(layout)
    if found is None:
        found = _encoders[layout] = _load(encoder_source(layout), _title(layout, "encode", None))
    return found


def decoder_source(layout: Layout, fields: frozenset[str] | None = None, bounded: bool = False) -> str:
    """Source of the function that `decoder` returns."""
    return _DecodeWriter(bounded).write(layout, None if fields is None else projection(fields))


def encoder_source(layout: Layout) -> str:
    """Source of the function that `encoder` returns."""
    return _EncodeWriter().write(layout)


def _title(layout: Layout, action: str, fields: frozenset[str] | None) -> str:
    label = f" of {layout.label}" if layout.label else ""
    wanted = "" if fields is None else f" {','.join(sorted(fields)) or 'nothing'}"
    return f"<kinspect {action} {layout.name} v{layout.version}{label}{wanted}>"


def _load(source: str, title: str) -> Any:
    namespace = dict(_HELPERS)
    exec(compile(source, title, "exec"), namespace)
    linecache.cache[title] = (len(source), None, source.splitlines(keepends=True), title)
    return namespace["run"]


class _SourceWriter:
    """Lines of source with their indentation, and the `struct` objects they use.

    A field's variable is its name, `_` and the depth of its struct; no other variable has a `_`.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = 1
        self.structs: dict[str, str] = {}

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.indent += 1
        yield
        self.indent -= 1

    def method(self, name: str, formats: str) -> str:
        """Name of a bound method of a `struct.Struct`."""
        return self.structs.setdefault(f'Struct(">{formats}").{name}', f"{name}_{len(self.structs)}")

    def source(self, head: str) -> str:
        constants = [f"{name} = {value}" for value, name in self.structs.items()]
        imports = ["from struct import Struct"] if constants else []
        return "\n".join([*imports, *constants, head, *self.lines, ""])


class _DecodeWriter(_SourceWriter):
    """Emits a decoder. Fixed-width fields wait in `pending` until something of another width needs the position.

    The length that follows a run of fixed-width fields is read with it. Unwanted fields become pad bytes of the run, or
    are skipped.
    """

    def __init__(self, bounded: bool) -> None:
        super().__init__()
        self.bounded = bounded
        self.pending: list[tuple[str, int, str | None]] = []

    def write(self, layout: Layout, wanted: Projection | None) -> str:
        body, tags = self.struct(layout.fields, layout.flexible, wanted, 0)
        self.line(f"body = {body}")
        if tags:
            self.tags(tags, layout.fields, wanted, "body", 0)
        with self.block("if pos > end:"):
            self.line("raise Malformed")
        self.line("return body, pos")
        return self.source("def run(data, pos, end, room=0):")

    # Positions and lengths.

    def flush(self) -> None:
        """Emit the pending run."""
        pending, self.pending = self.pending, []
        total = sum(size for _, size, _ in pending)
        names = [name for _, _, name in pending if name is not None]
        if names:
            if len(pending) == 1 and pending[0][0] == "B":
                self.line(f"{names[0]} = data[pos]")
            else:
                formats = "".join(code if name else f"{size}x" for code, size, name in pending)
                self.line(f"{', '.join(names)}, = {self.method('unpack_from', formats)}(data, pos)")
        if total:
            self.line(f"pos += {total}")

    def length(self, field: Field, name: str) -> None:
        """Emit reading of a length into `name`: -1 is null (a compact length is one more on the wire)."""
        if not field.compact:
            size = 4 if field.array else primitives.LENGTH_SIZE[field.type]
            self.pending.append(("h" if size == 2 else "i", size, name))
            self.flush()
            return
        self.uvarint(name)
        self.line(f"{name} -= 1")

    def uvarint(self, name: str) -> None:
        self.pending.append(("B", 1, name))
        self.flush()
        with self.block(f"if {name} > 127:"):
            self.line(f"{name}, pos = uvarint(data, pos, {name})")

    def charge(self, count: str, size: int) -> None:
        """Emit subtraction of `count` values of `size` bytes each from the room."""
        if self.bounded:
            self.line(f"room -= {count} * {size}")
            with self.block("if room < 0:"):
                self.line("raise TooLarge")

    # Structs and their fields.

    def struct(
        self, fields: tuple[Field, ...], flexible: bool, wanted: Projection | None, depth: int
    ) -> tuple[str, str | None]:
        """Emit reading of the ordinary fields; returns the dict's expression and the variable of the number of tags."""
        values = []
        for field in fields:
            if field.tag is None:
                keep = wanted is None or field.name in wanted
                value = self.field(field, wanted and wanted.get(field.name), keep, depth)
                if keep:
                    values.append(f'"{field.name}": {value}')
        tags = f"tags{depth}" if flexible else None
        if tags:
            self.pending.append(("B", 1, tags))
        self.flush()
        return "{" + ", ".join(values) + "}", tags

    def field(self, field: Field, wanted: Projection | None, keep: bool, depth: int) -> str:
        """Emit reading of a field; returns the expression of its value (meaningless if it is not kept)."""
        name = f"{field.name}_{depth}"
        if field.array:
            self.array(field, wanted, keep, name, depth)
        elif field.type in primitives.FIXED:
            code, size = primitives.FIXED[field.type]
            self.pending.append((code, size, name if keep else None))
            return f"uuid_text({name})" if field.type == "uuid" else name
        elif field.type == "struct":
            return self.nested(field, wanted, keep, name, depth)
        else:
            self.text(field, keep, name)
        return name

    def text(self, field: Field, keep: bool, name: str) -> None:
        """Emit reading of a string or bytes."""
        self.length(field, "size")
        with self.block("if size >= 0:"):
            self.line("stop = pos + size")
            if keep:
                value = "data[pos:stop]"
                self.line(f"{name} = " + (f'str({value}, "utf-8")' if field.type == "string" else value))
            self.line("pos = stop")
        self.null_or_fail(field, "size", name if keep else None)

    def null_or_fail(self, field: Field, size: str, name: str | None) -> None:
        """Emit the rest of a test of a length: -1 is null if the field is nullable, anything else does not fit."""
        if field.nullable:
            with self.block(f"elif {size} == -1:"):
                self.line(f"{name} = None" if name else "pass")
        with self.block("else:"):
            self.line("raise Malformed")

    def array(self, field: Field, wanted: Projection | None, keep: bool, name: str, depth: int) -> None:
        count = f"count{depth}"
        self.length(field, count)
        # An element without bytes would make any count fit.
        least = max(sizes.minimum_size(field), 1)
        size = count if least == 1 else f"{count} * {least}"
        with self.block(f"if 0 <= {size} <= end - pos:"):
            self.elements(field, wanted, keep, name, count, depth)
        self.null_or_fail(field, count, name if keep else None)

    def elements(
        self, field: Field, wanted: Projection | None, keep: bool, name: str, count: str, depth: int
    ) -> None:
        if keep:
            self.charge(count, memory.of_element(field))
        width = sizes.fixed_width(field)
        if width and (not keep or field.type in primitives.FIXED):
            if keep:
                self.line(f"{name} = {_fixed_elements(field, count)}")
            self.line(f"pos += {count} * {width}")
            return
        if keep:
            self.line(f"{name} = []")
        with self.block(f"for _ in range({count}):"):
            if field.type != "struct":
                self.text(_element(field), keep, "item")
                if keep:
                    self.line(f"{name}.append(item)")
                return
            below = wanted if keep else {}
            row, tags = self.struct(field.fields, field.compact, below, depth + 1)
            row = self.with_tags(row, tags, field, below, f"row{depth + 1}", depth + 1)
            if keep:
                self.line(f"{name}.append({row})")

    def nested(self, field: Field, wanted: Projection | None, keep: bool, name: str, depth: int) -> str:
        """Emit reading of a struct that is not an array's element."""
        below = wanted if keep else {}
        if not field.nullable:
            row, tags = self.struct(field.fields, field.compact, below, depth + 1)
            return self.with_tags(row, tags, field, below, name, depth + 1)
        # KIP-893: a byte in front of a struct that may be null; inside a tagged field it is an unsigned varint.
        marker, present, absent = "marker", 1, -1
        if field.tag is None:
            self.pending.append(("b", 1, marker))
            self.flush()
        else:
            absent = 0
            self.uvarint(marker)
        with self.block(f"if {marker} == {present}:"):
            row, tags = self.struct(field.fields, field.compact, below, depth + 1)
            self.with_tags(row, tags, field, below, name, depth + 1)
        with self.block(f"elif {marker} == {absent}:"):
            self.line(f"{name} = None" if keep else "pass")
        with self.block("else:"):
            self.line("raise Malformed")
        return name

    # Tagged fields (KIP-482).

    def with_tags(
        self, row: str, tags: str | None, field: Field, wanted: Projection | None, name: str, depth: int
    ) -> str:
        """Emit the tagged section after a struct, if it has one; returns the expression of the finished dict.

        That is `name`, which is assigned, except for an array's element without tags.
        """
        if tags is None and field.array:
            return row
        if wanted != {}:
            self.line(f"{name} = {row}")
        if tags:
            self.tags(tags, field.fields, wanted, name, depth)
        return name

    def tags(
        self, count: str, fields: tuple[Field, ...], wanted: Projection | None, row: str, depth: int
    ) -> None:
        """Emit reading of a tagged section into the dict `row`; the first byte of its count has been read."""
        known = [field for field in fields if field.tag is not None]
        keep_unknown = wanted is None or primitives.UNKNOWN_TAGS in wanted
        with self.block(f"if {count}:"):
            with self.block(f"if {count} > 127:"):
                self.line(f"{count}, pos = uvarint(data, pos, {count})")
            if keep_unknown:
                self.charge(count, memory.UNKNOWN_TAG)
            if not known:
                if not keep_unknown:
                    self.line(f"pos = skip_tags(data, pos, end, {count})")
                    return
                self.line(f"unknown, pos = unknown_tags(data, pos, end, {count})")
                # A zero count may be encoded in two bytes.
                with self.block("if unknown:"):
                    self.line(f'{row}["{primitives.UNKNOWN_TAGS}"] = unknown')
                return
            with self.block(f"if 2 * {count} > end - pos:"):
                self.line("raise Malformed")
            with self.block(f"for _ in range({count}):"):
                self.uvarint("tag")
                self.uvarint("size")
                stop = f"stop{depth}"
                self.line(f"{stop} = pos + size")
                for index, field in enumerate(known):
                    with self.block(f"{'elif' if index else 'if'} tag == {field.tag}:"):
                        keep = wanted is None or field.name in wanted
                        value = self.field(field, wanted and wanted.get(field.name), keep, depth)
                        self.flush()
                        if keep:
                            self.line(f'{row}["{field.name}"] = {value}')
                with self.block("else:"):
                    if keep_unknown:
                        entry = '{"tag": tag, "bytes": data[pos:' + stop + "]}"
                        self.line(f'{row}.setdefault("{primitives.UNKNOWN_TAGS}", []).append({entry})')
                    self.line(f"pos = {stop}")
                with self.block(f"if pos != {stop}:"):
                    self.line("raise Malformed")


class _EncodeWriter(_SourceWriter):
    """Emits an encoder: `add` appends a part of the message to the list that is being filled."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: list[tuple[str, str]] = []
        self.add = "add"

    def write(self, layout: Layout) -> str:
        self.line("out = []")
        self.line("add = out.append")
        self.struct(layout.fields, layout.flexible, "body", 0)
        self.line('return b"".join(out)')
        return self.source("def run(body):")

    def flush(self) -> None:
        pending, self.pending = self.pending, []
        if pending:
            formats = "".join(code for code, _ in pending)
            values = ", ".join(value for _, value in pending)
            self.line(f"{self.add}({self.method('pack', formats)}({values}))")

    def length(self, field: Field, value: str) -> None:
        """Emit writing of a length, -1 for null."""
        if field.compact:
            self.flush()
            self.line(f"{self.add}(uvarint_bytes({value} + 1))")
        else:
            size = 4 if field.array else primitives.LENGTH_SIZE[field.type]
            self.pending.append(("h" if size == 2 else "i", value))
            self.flush()

    def struct(self, fields: tuple[Field, ...], flexible: bool, row: str, depth: int) -> None:
        self.line(f"get{depth} = {row}.get")
        for field in fields:
            if field.tag is None:
                self.field(field, f'get{depth}("{field.name}", {field.default!r})', depth)
        self.flush()
        if flexible:
            self.tags(fields, row, depth)

    def field(self, field: Field, value: str, depth: int) -> None:
        if field.type in primitives.FIXED and not field.array:
            code, _ = primitives.FIXED[field.type]
            self.pending.append((code, f"uuid_bytes({value})" if field.type == "uuid" else value))
            return
        self.flush()
        name = f"{field.name}_{depth}"
        self.line(f"{name} = {value}")
        if field.type == "struct" and not field.array and not field.nullable:
            self.struct(field.fields, field.compact, name, depth + 1)
            return
        with self.block(f"if {name} is None:"):
            self.null(field)
        with self.block("else:"):
            if field.array:
                self.array(field, name, depth)
            elif field.type == "struct":
                self.line(f"{self.add}({self.marker(field, 'present')})")
                self.struct(field.fields, field.compact, name, depth + 1)
            else:
                self.text(field, name)

    @staticmethod
    def marker(field: Field, state: str) -> str:
        """Byte in front of a nullable struct; tagged fields use another one for null."""
        null = r'b"\xff"' if field.tag is None else r'b"\0"'
        return r'b"\1"' if state == "present" else null

    def null(self, field: Field) -> None:
        if not field.nullable:
            self.line(f'raise TypeError("{field.name} cannot be null")')
        elif field.type == "struct" and not field.array:
            self.line(f"{self.add}({self.marker(field, 'null')})")
        else:
            self.length(field, "-1")

    def text(self, field: Field, name: str) -> None:
        raw = name
        if field.type == "string":
            raw = "raw"
            self.line(f"raw = {name}.encode()")
        self.length(field, f"len({raw})")
        self.line(f"{self.add}({raw})")

    def array(self, field: Field, name: str, depth: int) -> None:
        self.length(field, f"len({name})")
        if field.type in primitives.FIXED and field.type != "uuid":
            code, _ = primitives.FIXED[field.type]
            self.line(f'{self.add}(pack(f">{{len({name})}}{code}", *{name}))')
            return
        with self.block(f"for row{depth + 1} in {name}:"):
            if field.type == "struct":
                self.struct(field.fields, field.compact, f"row{depth + 1}", depth + 1)
            elif field.type == "uuid":
                self.line(f"{self.add}(uuid_bytes(row{depth + 1}))")
            else:
                self.text(_element(field), f"row{depth + 1}")

    def tags(self, fields: tuple[Field, ...], row: str, depth: int) -> None:
        """Emit writing of the known tags in the dict and its unknown ones, in one ascending section."""
        tags = f"tags{depth}"
        unknown = f'{row}.get("{primitives.UNKNOWN_TAGS}", ())'
        self.line(f'{tags} = [(entry["tag"], entry["bytes"]) for entry in {unknown}]')
        outer = self.add
        for field in fields:
            if field.tag is None:
                continue
            with self.block(f'if "{field.name}" in {row}:'):
                self.line(f"part{depth} = []")
                self.add = f"part{depth}.append"
                self.field(field, f'{row}["{field.name}"]', depth)
                self.flush()
                self.line(f'{tags}.append(({field.tag}, b"".join(part{depth})))')
                self.add = outer
        self.line(f"{self.add}(tag_section({tags}))")


def _element(field: Field) -> Field:
    """Field of one element of an array of strings or bytes; an element is never null."""
    return type(field)(
        name=field.name,
        kafka_name=field.kafka_name,
        type=field.type,
        array=False,
        fields=(),
        nullable=False,
        tag=None,
        entity=field.entity,
        default=None,
        compact=field.compact,
    )


def _fixed_elements(field: Field, count: str) -> str:
    _, width = primitives.FIXED[field.type]
    if field.type == "uuid":
        return f"[uuid_text(data[at : at + {width}]) for at in range(pos, pos + {count} * {width}, {width})]"
    return f"list(unpack_{field.type}[{count}](data, pos))"
