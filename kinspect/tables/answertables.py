"""Answers as tables: columns, and the rows of an answer as rows of its table.

A column is a key of the answer's rows, see docs/answers.md. Objects with fixed keys are structs, others are maps.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any, NamedTuple

import pyarrow as pa

from kinspect.analysis.answer import Row
from kinspect.answers import definition_of
from kinspect.answers.answerobject import SCHEMA_VERSION
from kinspect.kafka.view.view import epoch_ns
from kinspect.model import NS_PER_US
from kinspect.tables.arrowcolumns import COMMENTS, DATE, RUN, ColumnTypes, define_kind, parse_columns
from kinspect.tables.tablenames import answer_table

PLACE = "place"
_NS = "_ns"

_COMMENTS = {
    PLACE: "Sorts rows in the order of the answer",
    DATE: "Date (UTC) of the run's first packet",
    "schema_version": "Version of the answer's object",
}


class AnswerTable(NamedTuple):
    """Table of an answer: its name, its columns, and comments by column."""

    name: str
    schema: pa.Schema
    comments: dict[str, str]

    def rows(
        self, rows: list[Row], run_id: str, capture_point: str | None, day: date | None
    ) -> pa.StructArray:
        """The answer's rows as rows of the table, with the date `day`."""
        run = {"run_id": run_id, "capture_point": capture_point, "schema_version": SCHEMA_VERSION, DATE: day}
        made = [_struct({**row, PLACE: place, **run}, self.schema) for place, row in enumerate(rows)]
        return pa.array(made, pa.struct(list(self.schema)))


def table_of(answer: str) -> AnswerTable:
    """The table of an answer, by the answer's name."""
    found = definition_of(answer)
    for name, text in found.structs.items():
        define_kind(name, text)
    columns: ColumnTypes = []
    comments = {**COMMENTS, **_COMMENTS}
    for key in found.keys:
        for name, kind in parse_columns(f"{key.name} {key.kind}"):
            columns.append((name, kind))
            if pa.types.is_timestamp(kind):
                comments[name] = f"{name}_ns in microseconds"
            elif key.meaning:
                comments[name] = (
                    f"{key.meaning}, nanoseconds since the epoch" if name.endswith(_NS) else key.meaning
                )
    return AnswerTable(answer_table(answer), pa.schema([*columns, (PLACE, pa.int32()), *RUN[:-1]]), comments)


def _struct(row: Row, fields: Iterable[pa.Field]) -> Row:
    return {field.name: _value(row[field.name.removesuffix(_NS)], field) for field in fields}


def _value(value: Any, field: pa.Field) -> Any:
    """A value of a row as the column's type has it."""
    kind = field.type
    if value is None:
        return None
    if field.name.endswith(_NS):
        return epoch_ns(value)
    if pa.types.is_timestamp(kind):
        return epoch_ns(value) // NS_PER_US
    if pa.types.is_struct(kind):
        return _struct(value, kind)
    if pa.types.is_list(kind):
        return [_value(each, kind.value_field) for each in value]
    if pa.types.is_map(kind):
        return [(key, _value(each, kind.item_field)) for key, each in value.items()]
    return value
