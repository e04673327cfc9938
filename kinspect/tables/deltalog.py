"""The log of a Delta Lake table, by delta-rs: which files count. Files that it does not name are nobody's rows."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.schema import ArrayType, DataType, Field, MapType, StructType
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyarrow import fs

from kinspect.errors import KinspectError
from kinspect.tables.arrowcolumns import COMMENTS, DATE
from kinspect.tables.tablenames import APPLICATION, DATE_FOLDER, NO_DATE

LOGGED_HOURS = 168
"""Hours for which checkpoints keep the names of removed files, unless the table has another `_RETENTION`."""
_RETENTION = "delta.deletedFileRetentionDuration"
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_LONGEST = 400


class LoggedTable(NamedTuple):
    """A table: its address for delta-rs with the options of its store, and its path for PyArrow's file system."""

    address: str
    options: dict[str, str]
    system: fs.FileSystem
    path: str

    @property
    def is_there(self) -> bool:
        return bool(DeltaTable.is_deltatable(self.address, self.options))

    def open(self) -> DeltaTable:
        return DeltaTable(self.address, storage_options=self.options)


Once: TypeAlias = tuple[str, int]
"""An application, and the number of a commit: Delta's `txn` action (PROTOCOL.md, Transaction Identifiers)."""


def on_disk(path: Path) -> LoggedTable:
    return LoggedTable(str(path), {}, fs.LocalFileSystem(), str(path))


def check_place(folder: str, path: str) -> None:
    """Raises KinspectError for a folder whose tables delta-rs would not find again: it takes a part of its path for an
    escaped character."""
    if found := _ESCAPE.search(path):
        raise KinspectError(
            f"{folder}: delta-rs takes {found[0]} in a path for an escaped character; rename the folder, or choose"
            " another"
        )


@contextmanager
def logging(address: str) -> Iterator[None]:
    """Context in which errors of delta-rs and of a store are KinspectErrors of one line."""
    try:
        yield
    except (DeltaError, OSError, pa.ArrowException) as error:
        lines = (line.strip(" ↳") for line in _COLOUR.sub("", str(error)).splitlines())
        raise KinspectError(f"{address}: {': '.join(filter(None, lines))[:_LONGEST]}") from error


def check(table: LoggedTable, file: str) -> None:
    """Raises KinspectError if the table cannot have the columns of a file: it has one of another type."""
    with logging(table.address):
        if table.is_there:
            _lacks(table, table.open().schema(), _schema(table, file))


def commit(
    table: LoggedTable, files: Mapping[str, Mapping[str, int]], replaced: Collection[str], once: Once
) -> int | None:
    """Lets files of a table count, given their sizes by name and date folder, in place of those of the date folders
    `replaced`. Returns the version of the table; None if there is none, and no file.

    It is made once, if none of another number came between. Raises KinspectError if another writer changed the table
    meanwhile.
    """
    with logging(table.address):
        try:
            _commit(table, files, replaced, once)
        except (DeltaError, OSError):
            # Two may finish the same run, and a store that did not answer may have it.
            if not table.is_there or not _has(table.open(), once):
                raise
        return int(table.open().version()) if table.is_there else None


def _commit(
    table: LoggedTable, files: Mapping[str, Mapping[str, int]], replaced: Collection[str], once: Once
) -> None:
    there = table.open() if table.is_there else None
    # Files of a run that counts may be gone since: others compact tables, and delete what they replaced.
    if there is not None and _has(there, once):
        return
    added = [_added(table, day, name, size) for day, sizes in files.items() for name, size in sizes.items()]
    if there is None:
        if added:
            _create(table, added, once)
        return
    # Micro-batches replace nothing: then a table's files, which become many, are not looked at.
    removed = [_removed(path, day) for path, day in _active(there) if day in replaced] if replaced else []
    if added or removed:
        if added:
            _widen(there, table, _schema(table, f"{table.path}/{added[0].path}"))
        there.create_write_transaction(
            [*added, *removed],
            "append",
            there.schema(),
            [DATE],
            commit_properties=CommitProperties(app_transactions=[Transaction(*once)]),
        )


def _has(table: DeltaTable, once: Once) -> bool:
    """Whether the commit is made. Raises KinspectError if those of a log of runs, which count up, are past it."""
    application, number = once
    found = table.transaction_version(application)
    if application != APPLICATION and (found or 0) > number:
        raise KinspectError(f"{table.table_uri}: another run has replaced this one meanwhile")
    return bool(found == number)


def paths(table: LoggedTable, days: Collection[str]) -> list[str]:
    """Paths in the table of the files that count, of some date folders."""
    with logging(table.address):
        return [path for path, day in _active(table.open()) if day in days] if table.is_there else []


def old_files(table: LoggedTable, hours: int) -> list[str]:
    """Paths in the table of the files that no version of so many hours has. Those that the log does not name are among
    them only if it still names all that were removed since. Raises KinspectError."""
    with logging(table.address):
        there = table.open()
        full = hours <= LOGGED_HOURS and _RETENTION not in there.metadata().configuration
        found = there.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=full)
        # The log may name what is gone already; checksums of Hadoop go with their files.
        named = [path for path in found if not path.rpartition("/")[2].startswith(".")]
        told = table.system.get_file_info([f"{table.path}/{path}" for path in named])
        return [path for path, info in zip(named, told, strict=True) if info.type == fs.FileType.File]


def _active(table: DeltaTable) -> Iterable[tuple[str, str]]:
    """The files that count, each with its date folder."""
    for row in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        yield row["path"], f"{DATE_FOLDER}{row[f'partition.{DATE}'] or NO_DATE}"


def _added(table: LoggedTable, day: str, name: str, size: int) -> AddAction:
    rows = pq.read_metadata(f"{table.path}/{day}/{name}", filesystem=table.system).num_rows
    told = json.dumps({"numRecords": rows})
    return AddAction(f"{day}/{name}", size, _partition(day), _now(), True, told)


def _removed(path: str, day: str) -> RemoveAction:
    return RemoveAction(path, True, _now(), partition_values=_partition(day))


def _partition(day: str) -> dict[str, str | None]:
    value = day.removeprefix(DATE_FOLDER)
    return {DATE: None if value == NO_DATE else value}


def _now() -> int:
    return time.time_ns() // 1_000_000


def _create(table: LoggedTable, added: list[AddAction], once: Once) -> None:
    create_table_with_add_actions(
        table.address,
        _schema(table, f"{table.path}/{added[0].path}"),
        added,
        partition_by=[DATE],
        name=table.path.rpartition("/")[2],
        storage_options=table.options,
        # Tried again, it would come behind that of another.
        commit_properties=CommitProperties(max_commit_retries=0, app_transactions=[Transaction(*once)]),
    )


def _schema(table: LoggedTable, file: str) -> Schema:
    """Columns of a file, and the date, which is in the name of its folder."""
    fields = [*pq.read_schema(file, filesystem=table.system), pa.field(DATE, pa.date32())]
    comments = ({"comment": COMMENTS[field.name]} if field.name in COMMENTS else None for field in fields)
    return Schema.from_arrow(pa.schema(map(pa.Field.with_metadata, fields, comments)))


def _widen(there: DeltaTable, table: LoggedTable, schema: Schema) -> None:
    """Adds columns, and fields of columns, that files have and the table has not, as of a newer kinspect. Raises
    KinspectError as `check` does."""
    if _lacks(table, there.schema(), schema):
        known = {field.name for field in there.schema().fields}
        # Comments of those that are there may be others.
        fields = (Field(field.name, field.type) if field.name in known else field for field in schema.fields)
        there.alter.add_columns([*fields])


def _lacks(table: LoggedTable, there: DataType, new: DataType, column: str = "") -> bool:
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
            f"{table.address}: the column {column} is {_told(there)} there and {_told(new)} in this version of"
            " kinspect; choose another folder"
        )
    return False


def _told(kind: DataType) -> str:
    return str(getattr(kind, "type", kind))
