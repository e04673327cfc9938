"""Decodes a message by walking its layout as a tree of nodes: the compiled form's replacement for generated source.

Compiled with mypyc, no bytecode is left and a field costs little more than the object made of it. Interpreted, it gives
the same results but is slow. Bounds are checked as in `compiler`: positions only grow, and are compared with the end
once, and counts at each array.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from kinspect.protocol import memory, primitives, sizes
from kinspect.protocol.primitives import Malformed, TooLarge, uuid_text

if TYPE_CHECKING:
    from mypy_extensions import i64

    from kinspect.protocol.projection import Body, Projection
    from kinspect.protocol.schema import Field, Layout

_INT8: Final = 0
_INT16: Final = 1
_INT32: Final = 2
_INT64: Final = 3
_BOOL: Final = 4
_UINT16: Final = 5
_UINT32: Final = 6
_FLOAT64: Final = 7
_UUID: Final = 8
_STRING: Final = 9
_BYTES: Final = 10
_STRUCT: Final = 11

_KINDS: Final[dict[str, int]] = {
    "int8": _INT8,
    "int16": _INT16,
    "int32": _INT32,
    "int64": _INT64,
    "bool": _BOOL,
    "uint16": _UINT16,
    "uint32": _UINT32,
    "float64": _FLOAT64,
    "uuid": _UUID,
    "string": _STRING,
    "bytes": _BYTES,
    "records": _BYTES,
    "struct": _STRUCT,
}

_UNLIMITED: Final = 1 << 62
_float64: Final = struct.Struct(">d").unpack_from

_UVARINT_BITS: Final = 35


class FieldNode:
    """A field, or a gap between the requested fields.

    `width`: the size of a value, or an element, in bytes if it is fixed, else 0. `keep` is False for a field that is
    skipped.
    """

    def __init__(self, field: Field, keep: bool, wanted: Projection | None) -> None:
        self.name: str = field.name
        self.keep: bool = keep
        self.kind: i64 = _KINDS[field.type]
        self.array: bool = field.array
        self.nullable: bool = field.nullable
        self.compact: bool = field.compact
        self.tag: i64 = -1 if field.tag is None else field.tag
        self.least: i64 = max(sizes.minimum_size(field), 1)
        self.width: i64 = sizes.fixed_width(field)
        self.memory: i64 = memory.of_element(field) if field.array else 0
        self.below: StructNode = StructNode(field.fields, field.compact, wanted if keep else {})


class StructNode:
    """Fields of a struct or a message: the ordinary ones in order, and the tagged ones if it is flexible."""

    def __init__(self, fields: tuple[Field, ...], flexible: bool, wanted: Projection | None) -> None:
        self.flexible: bool = flexible
        self.keeps_unknown: bool = wanted is None or primitives.UNKNOWN_TAGS in wanted
        self.nodes: list[FieldNode] = []
        self.tagged: list[FieldNode] = []
        for field in fields:
            keep = wanted is None or field.name in wanted
            node = FieldNode(field, keep, wanted.get(field.name) if wanted else wanted)
            if field.tag is not None:
                self.tagged.append(node)
            elif not self._joins(node):
                self.nodes.append(node)

    def _joins(self, node: FieldNode) -> bool:
        """Merge `node` into the one before it if both are gaps; returns True if so."""
        if not self.nodes or not _is_gap(node) or not _is_gap(self.nodes[-1]):
            return False
        self.nodes[-1].width += node.width
        return True


def _is_gap(node: FieldNode) -> bool:
    return node.width > 0 and not node.array and not node.keep


class Program:
    """A layout, or some of its fields, ready to be walked."""

    def __init__(self, layout: Layout, wanted: Projection | None, bounded: bool) -> None:
        self.root: StructNode = StructNode(layout.fields, layout.flexible, wanted)
        self.bounded: bool = bounded

    def decode(self, data: bytes, pos: int, end: int, room: int = 0, /) -> tuple[Body, int]:
        """Decode a body, as specified by `compiler.decoder`."""
        walk = _Walk(data, pos, end, min(room, _UNLIMITED) if self.bounded else _UNLIMITED)
        body: dict[str, Any] = {}
        walk.fields(self.root, body)
        if walk.pos > walk.end:
            raise Malformed
        return body, walk.pos


class _Walk:
    """State of decoding one message."""

    def __init__(self, data: bytes, pos: int, end: int, room: int) -> None:
        self.data: bytes = data
        self.pos: i64 = pos
        self.end: i64 = end
        self.room: i64 = room

    # Values that are kept.

    def fields(self, struct: StructNode, row: dict[str, Any]) -> None:
        for node in struct.nodes:
            if not node.keep:
                self.skip(node)
            elif node.array:
                row[node.name] = self.array(node)
            else:
                row[node.name] = self.value(node)
        if struct.flexible:
            self.tags(struct, row)

    def value(self, node: FieldNode) -> object:
        """Read one value, or an element of an array."""
        data = self.data
        pos = self.pos
        kind = node.kind
        if kind == _INT32:
            self.pos = pos + 4
            return _int32(data, pos)
        if kind == _STRING:
            size = self.length(node)
            if size < 0:
                return None
            pos = self.pos
            self.pos = pos + size
            return data[pos : pos + size].decode("utf-8")
        if kind == _INT64:
            self.pos = pos + 8
            return _int64(data, pos)
        if kind == _INT16:
            self.pos = pos + 2
            return _int16(data, pos)
        if kind == _STRUCT:
            if node.nullable and self.is_null(node):
                return None
            row: dict[str, Any] = {}
            self.fields(node.below, row)
            return row
        if kind == _BYTES:
            size = self.length(node)
            if size < 0:
                return None
            pos = self.pos
            self.pos = pos + size
            return data[pos : pos + size]
        self.pos = pos + node.width
        if kind == _BOOL:
            return data[pos] != 0
        if kind == _INT8:
            byte: i64 = data[pos]
            return byte - 256 if byte > 127 else byte
        if kind == _UUID:
            return uuid_text(data[pos : pos + 16])
        if kind == _FLOAT64:
            return _float64(data, pos)[0]
        if kind == _UINT16:
            return _int16(data, pos) & 0xFFFF
        return _int32(data, pos) & 0xFFFFFFFF

    def array(self, node: FieldNode) -> object:
        count = self.count(node)
        if count < 0:
            return None
        self.charge(count, node.memory)
        found: list[Any] = []
        index: i64 = 0
        if node.kind == _INT32:
            data = self.data
            pos = self.pos
            while index < count:
                found.append(_int32(data, pos))
                pos += 4
                index += 1
            self.pos = pos
        else:
            while index < count:
                found.append(self.value(node))
                index += 1
        return found

    # Values that are skipped.

    def skip(self, node: FieldNode) -> None:
        if node.array:
            count = self.count(node)
            if node.width > 0:
                if count > 0:
                    self.pos += count * node.width
                return
            index: i64 = 0
            while index < count:
                self.skip_value(node)
                index += 1
        else:
            self.skip_value(node)

    def skip_value(self, node: FieldNode) -> None:
        if node.width > 0:
            self.pos += node.width
        elif node.kind != _STRUCT:
            size = self.length(node)
            if size > 0:
                self.pos += size
        elif not node.nullable or not self.is_null(node):
            for below in node.below.nodes:
                self.skip(below)
            if node.below.flexible:
                self.tags(node.below, None)

    # Tagged fields (KIP-482).

    def tags(self, struct: StructNode, row: dict[str, Any] | None) -> None:
        """Read a tagged section into `row`, or skip it if `row` is None."""
        count = self.uvarint()
        if count == 0:
            return
        if 2 * count > self.end - self.pos:
            raise Malformed
        if struct.keeps_unknown:
            self.charge(count, memory.UNKNOWN_TAG)
        index: i64 = 0
        while index < count:
            tag = self.uvarint()
            stop = self.uvarint()
            stop += self.pos
            known = _tagged(struct, tag)
            if known is None:
                if row is not None and struct.keeps_unknown:
                    unknown = {"tag": tag, "bytes": self.data[self.pos : stop]}
                    row.setdefault(primitives.UNKNOWN_TAGS, []).append(unknown)
                self.pos = stop
            elif row is None or not known.keep:
                self.skip(known)
            else:
                row[known.name] = self.array(known) if known.array else self.value(known)
            if self.pos != stop:
                raise Malformed
            index += 1

    # Lengths and limits.

    def uvarint(self) -> i64:
        data = self.data
        pos = self.pos
        value: i64 = data[pos]
        pos += 1
        if value > 127:
            value &= 127
            shift: i64 = 7
            while True:
                byte: i64 = data[pos]
                pos += 1
                value |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
                if shift >= _UVARINT_BITS:
                    raise Malformed
        self.pos = pos
        return value

    def length(self, node: FieldNode) -> i64:
        """Read the length of a string or bytes; -1 for null."""
        pos = self.pos
        size: i64
        if node.compact:
            size = self.uvarint() - 1
        elif node.kind == _STRING:
            size = _int16(self.data, pos)
            self.pos = pos + 2
        else:
            size = _int32(self.data, pos)
            self.pos = pos + 4
        # An element is never null.
        if size < 0 and (size != -1 or not node.nullable or node.array):
            raise Malformed
        return size

    def count(self, node: FieldNode) -> i64:
        """Read the number of elements of an array; -1 for null."""
        pos = self.pos
        count: i64
        if node.compact:
            count = self.uvarint() - 1
        else:
            count = _int32(self.data, pos)
            self.pos = pos + 4
        if count < 0:
            if count == -1 and node.nullable:
                return count
            raise Malformed
        if count * node.least > self.end - self.pos:
            raise Malformed
        return count

    def is_null(self, node: FieldNode) -> bool:
        """Read the marker before a nullable struct (KIP-893): a byte 1 or -1, in a tagged field a varint 1 or 0."""
        marker: i64
        if node.array:
            return False
        if node.tag < 0:
            marker = self.data[self.pos]
            self.pos += 1
            if marker == 255:
                return True
        else:
            marker = self.uvarint()
            if marker == 0:
                return True
        if marker != 1:
            raise Malformed
        return False

    def charge(self, count: i64, size: i64) -> None:
        """Subtract `count` values of `size` bytes each from the room."""
        self.room -= count * size
        if self.room < 0:
            raise TooLarge


def _tagged(struct: StructNode, tag: i64) -> FieldNode | None:
    for node in struct.tagged:
        if node.tag == tag:
            return node
    return None


def _int16(data: bytes, pos: i64) -> i64:
    high: i64 = data[pos]
    low: i64 = data[pos + 1]
    return (((high << 8) | low) ^ 0x8000) - 0x8000


def _int32(data: bytes, pos: i64) -> i64:
    a: i64 = data[pos]
    b: i64 = data[pos + 1]
    c: i64 = data[pos + 2]
    d: i64 = data[pos + 3]
    return (((a << 24) | (b << 16) | (c << 8) | d) ^ 0x80000000) - 0x80000000


def _int64(data: bytes, pos: i64) -> i64:
    low: i64 = _int32(data, pos + 4) & 0xFFFFFFFF
    return (_int32(data, pos) << 32) | low
