"""Paths of the fields of one kind in a body: compiled from the layout once; a walk visits only these places."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinspect.protocol.schema import Field


class FieldPaths:
    """Paths of fields of one kind from a struct: `names` in it, and those in structs `below` it; false without any."""

    __slots__ = ("below", "names")

    def __init__(self, names: tuple[str, ...], below: tuple[tuple[str, bool, FieldPaths], ...]) -> None:
        self.names = names
        self.below = below

    def __bool__(self) -> bool:
        return bool(self.names or self.below)

    def walk(self, struct: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
        """The path of each struct that holds such a field, the struct, and the field's name.

        A path looks like `responses[0].partitions[1]`; the body's own is empty. Fields that a broken message lacks are
        left out.
        """
        for name in self.names:
            if name in struct:
                yield path, struct, name
        for name, array, under in self.below:
            value = struct.get(name)
            if value is None:
                continue
            at = f"{path}.{name}" if path else name
            if not array:
                yield from under.walk(value, at)
                continue
            for index, item in enumerate(value):
                yield from under.walk(item, f"{at}[{index}]")

    def paths(self, prefix: str = "") -> Iterator[str]:
        """The dotted paths of the fields, through arrays."""
        for name in self.names:
            yield prefix + name
        for name, _, under in self.below:
            yield from under.paths(f"{prefix}{name}.")


def field_paths(fields: Sequence[Field], is_kind: Callable[[Field, Sequence[Field]], bool]) -> FieldPaths:
    """The paths of the fields for which `is_kind(field, all fields of its struct)` is true."""
    own = tuple(f.name for f in fields if is_kind(f, fields))
    below = ((f.name, bool(f.array), field_paths(f.fields, is_kind)) for f in fields)
    return FieldPaths(own, tuple(each for each in below if each[2]))
