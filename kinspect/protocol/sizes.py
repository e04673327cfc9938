"""Sizes of a field's values on the wire, as far as the layout decides them."""

from __future__ import annotations

from kinspect.protocol.primitives import FIXED, LENGTH_SIZE
from kinspect.protocol.schema import Field


def minimum_size(field: Field) -> int:
    """Minimum size in bytes of one value of `field` (one element if it is an array)."""
    if field.type in FIXED:
        return FIXED[field.type][1]
    if field.type != "struct":
        return 1 if field.compact else LENGTH_SIZE[field.type]
    # A null struct is its marker alone; array elements are never null.
    if field.nullable and not field.array:
        return 1
    inner = sum(minimum_field_size(part) for part in field.fields if part.tag is None)
    return inner + (1 if field.compact else 0)


def fixed_width(field: Field) -> int:
    """Size in bytes of one value of `field` (one element if it is an array) if it is fixed, else 0."""
    if field.type in FIXED:
        return FIXED[field.type][1]
    if field.type != "struct" or field.compact or (field.nullable and not field.array):
        return 0
    plain = all(part.type in FIXED and not part.array for part in field.fields)
    return minimum_size(field) if plain else 0


def minimum_field_size(field: Field) -> int:
    if field.array:
        return 1 if field.compact else 4
    return minimum_size(field)
