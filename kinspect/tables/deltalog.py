"""The log of a Delta Lake table, by delta-rs: which files count. Files that it does not name are nobody's rows."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.schema import ArrayType, DataType, Field, MapType, StructType
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from kinspect.errors import KinspectError
from kinspect.tables.arrowcolumns import COMMENTS, DATE
from kinspect.tables.tablenames import DATE_FOLDER, NO_DATE

APPLICATION = "kinspect"
"""The application of Delta's `txn` action (PROTOCOL.md, Transaction Identifiers); its version is a commit's number."""
LOGGED_HOURS = 168
"""Hours for which checkpoints keep the names of removed files, unless the table has another `_RETENTION`."""
_RETENTION = "delta.deletedFileRetentionDuration"
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")


def check_place(folder: Path) -> None:
    """Raises KinspectError for a folder whose tables delta-rs would not find again: it takes a part of its path for an
    escaped character."""
    if found := _ESCAPE.search(os.path.realpath(folder)):
        raise KinspectError(
            f"{folder}: delta-rs takes {found[0]} in a path for an escaped character; rename the folder, or choose"
            " another"
        )


def check(table: Path, file: Path) -> None:
    """Raises KinspectError if the table cannot have the columns of a file: it has one of another type."""
    if DeltaTable.is_deltatable(str(table)):
        _lacks(table, DeltaTable(table).schema(), _schema(file))


def commit(
    table: Path, files: Mapping[str, Collection[str]], replaced: Collection[str], number: int
) -> int | None:
    """Lets files of a table count, by date folder, in place of those of the date folders `replaced`. Returns the
    version of the table; None if there is none, and no file.

    The commit of a `number` is made once, if none of another number came between. Raises KinspectError if another
    writer changed the table meanwhile.
    """
    added = [_added(table, day, name) for day, names in files.items() for name in names]
    once = CommitProperties(app_transactions=[Transaction(APPLICATION, number)])
    try:
        if not DeltaTable.is_deltatable(str(table)):
            if added:
                _create(table, added, once)
            return 0 if added else None
        there = DeltaTable(table)
        # Micro-batches replace nothing: then a table's files, which become many, are not looked at.
        removed = [_removed(path, day) for path, day in _active(there) if day in replaced] if replaced else []
        if there.transaction_version(APPLICATION) != number and (added or removed):
            if added:
                _widen(there, table, _schema(table / added[0].path))
            there.create_write_transaction(
                [*added, *removed], "append", there.schema(), [DATE], commit_properties=once
            )
        return int(DeltaTable(table).version())
    except DeltaError as error:
        raise KinspectError(f"{table}: {str(error).splitlines()[0]}") from error


def paths(table: Path, days: Collection[str]) -> list[str]:
    """Paths in the table of the files that count, of some date folders."""
    if not DeltaTable.is_deltatable(str(table)):
        return []
    return [path for path, day in _active(DeltaTable(table)) if day in days]


def old_files(table: Path, hours: int) -> list[str]:
    """Paths in the table of the files that no version of so many hours has. Those that the log does not name are among
    them only if it still names all that were removed since. Raises KinspectError."""
    try:
        there = DeltaTable(table)
        full = hours <= LOGGED_HOURS and _RETENTION not in there.metadata().configuration
        found = there.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=full)
    except DeltaError as error:
        raise KinspectError(f"{table}: {str(error).splitlines()[0]}") from error
    # The log may name what is gone already; checksums of Hadoop go with their files.
    return [path for path in found if (table / path).exists() and not Path(path).name.startswith(".")]


def _active(table: DeltaTable) -> Iterable[tuple[str, str]]:
    """The files that count, each with its date folder."""
    for row in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        yield row["path"], f"{DATE_FOLDER}{row[f'partition.{DATE}'] or NO_DATE}"


def _added(table: Path, day: str, name: str) -> AddAction:
    path = table / day / name
    told = path.stat()
    rows = json.dumps({"numRecords": pq.read_metadata(path).num_rows})
    return AddAction(
        f"{day}/{name}", told.st_size, _partition(day), told.st_mtime_ns // 1_000_000, True, rows
    )


def _removed(path: str, day: str) -> RemoveAction:
    return RemoveAction(path, True, time.time_ns() // 1_000_000, partition_values=_partition(day))


def _partition(day: str) -> dict[str, str | None]:
    value = day.removeprefix(DATE_FOLDER)
    return {DATE: None if value == NO_DATE else value}


def _create(table: Path, added: list[AddAction], once: CommitProperties) -> None:
    schema = _schema(table / added[0].path)
    create_table_with_add_actions(
        str(table), schema, added, partition_by=[DATE], name=table.name, commit_properties=once
    )


def _schema(file: Path) -> Schema:
    """Columns of a file, and the date, which is in the name of its folder."""
    fields = [*pq.read_schema(file), pa.field(DATE, pa.date32())]
    comments = ({"comment": COMMENTS[field.name]} if field.name in COMMENTS else None for field in fields)
    return Schema.from_arrow(pa.schema(map(pa.Field.with_metadata, fields, comments)))


def _widen(table: DeltaTable, path: Path, schema: Schema) -> None:
    """Adds columns, and fields of columns, that files have and the table has not, as of a newer kinspect. Raises
    KinspectError as `check` does."""
    if _lacks(path, table.schema(), schema):
        known = {field.name for field in table.schema().fields}
        # Comments of those that are there may be others.
        fields = (Field(field.name, field.type) if field.name in known else field for field in schema.fields)
        table.alter.add_columns([*fields])


def _lacks(table: Path, there: DataType, new: DataType, column: str = "") -> bool:
    """Whether a column, or the table, has not all fields of its type in a file."""
    if isinstance(there, StructType) and isinstance(new, StructType):
        known = {field.name: field.type for field in there.fields}
        # Each is looked at.
        found = [
            field.name not in known
            or _lacks(table, known[field.name], field.type, f"{column}.{field.name}".lstrip("."))
            for field in new.fields
        ]
        return any(found)
    if isinstance(there, ArrayType) and isinstance(new, ArrayType):
        return _lacks(table, there.element_type, new.element_type, column)
    if isinstance(there, MapType) and isinstance(new, MapType):
        return _lacks(table, there.value_type, new.value_type, column)
    if there != new:
        raise KinspectError(
            f"{table}: the column {column} is {_told(there)} there and {_told(new)} in this version of kinspect; choose"
            " another folder"
        )
    return False


def _told(kind: DataType) -> str:
    return str(getattr(kind, "type", kind))
