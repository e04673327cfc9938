"""Places of the fields of one kind in a body: compiled from the layout once, then walked without looking elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinspect.protocol.schema import Field


class Site:
    """A struct that holds wanted fields itself (`wanted`) or in the structs below it (`below`); false without any."""

    __slots__ = ("below", "wanted")

    def __init__(self, wanted: tuple[str, ...], below: tuple[tuple[str, bool, Site], ...]) -> None:
        self.wanted = wanted
        self.below = below

    def __bool__(self) -> bool:
        return bool(self.wanted or self.below)

    def walk(self, struct: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any], str]]:
        """The path of each struct that holds a wanted field, the struct, and the field's name.

        A path looks like `responses[0].partitions[1]`; the body's own is empty. Fields a broken message
        lacks are passed over.
        """
        for name in self.wanted:
            if name in struct:
                yield path, struct, name
        for name, array, site in self.below:
            value = struct.get(name)
            if value is None:
                continue
            at = f"{path}.{name}" if path else name
            if not array:
                yield from site.walk(value, at)
                continue
            for index, item in enumerate(value):
                yield from site.walk(item, f"{at}[{index}]")

    def paths(self, prefix: str = "") -> Iterator[str]:
        """The dotted paths of the wanted fields, through arrays."""
        for name in self.wanted:
            yield prefix + name
        for name, _, site in self.below:
            yield from site.paths(f"{prefix}{name}.")


def sites(fields: Sequence[Field], wanted: Callable[[Field, Sequence[Field]], bool]) -> Site:
    """The sites of the fields for which `wanted(field, all fields of its struct)` is true."""
    own = tuple(f.name for f in fields if wanted(f, fields))
    below = ((f.name, bool(f.array), sites(f.fields, wanted)) for f in fields)
    return Site(own, tuple(each for each in below if each[2]))
