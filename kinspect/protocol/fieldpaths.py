"""The walks beside those that decode and encode: over the fields of a layout, and to those of one kind in a body."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from kinspect.protocol.schema import Field, Layout


class _AnyField(Protocol):
    """A field of a layout, or its definition for all versions."""

    @property
    def name(self) -> str: ...
    @property
    def fields(self) -> Sequence[Self]: ...


_Field = TypeVar("_Field", bound=_AnyField)
Kind = Callable[["Field"], bool]

_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def each_field(fields: Sequence[_Field], prefix: str = "") -> Iterator[tuple[str, _Field, Sequence[_Field]]]:
    """The fields in their order, each before those of its struct: its dotted path, it, and all fields beside it."""
    for field in fields:
        path = prefix + field.name
        yield path, field, fields
        yield from each_field(field.fields, f"{path}.")


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


@cache
def field_paths(layout: Layout | None, kind: Kind, beside: Kind | None = None) -> FieldPaths:
    """The paths of a layout's fields of a kind, compiled once. `beside`: a kind of field that their struct has, too."""
    return _paths(() if layout is None else layout.fields, kind, beside)


def _paths(fields: Sequence[Field], kind: Kind, beside: Kind | None) -> FieldPaths:
    here = beside is None or any(map(beside, fields))
    names = tuple([field.name for field in fields if here and kind(field)])
    below = [(field.name, field.array, _paths(field.fields, kind, beside)) for field in fields]
    return FieldPaths(names, tuple([each for each in below if each[2]]))


def along(value: Any, path: str) -> Iterator[Any]:
    """The values on the way to a path like `topics[0].name`, its own with them; None where there is none."""
    for name, index in _STEP.findall(path):
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and index and int(index) < len(value):
            value = value[int(index)]
        else:
            value = None
        yield value
