"""A layout as plain rows, for printing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kinspect.protocol.schema import Field, Layout


class FieldRow(NamedTuple):
    """One field: its nesting depth, its names, its type as Kafka writes it (`[]struct`, `string`), and the rest."""

    depth: int
    name: str
    kafka_name: str
    type: str
    nullable: bool
    tag: int | None
    default: Any
    entity: str | None


def describe(layout: Layout) -> list[FieldRow]:
    """Fields of a layout in wire order, a struct's fields below it; tagged fields come last."""
    return _rows(layout.fields, 0)


def _rows(fields: Iterable[Field], depth: int) -> list[FieldRow]:
    rows = []
    for field in sorted(fields, key=lambda one: -1 if one.tag is None else one.tag):
        kind = f"[]{field.type}" if field.array else field.type
        rows.append(
            FieldRow(
                depth,
                field.name,
                field.kafka_name,
                kind,
                field.nullable,
                field.tag,
                field.default,
                field.entity,
            )
        )
        rows += _rows(field.fields, depth + 1)
    return rows
