"""Rows of tables that tasks write themselves, as files that the driver may let count: see `StagingFolder`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import uuid4

import cbor2
import pyarrow as pa

from kinspect.spark.decodepass import NamingTask, Task
from kinspect.spark.schemas import file_metadata
from kinspect.spark.storage import Target, opening_in, written_to
from kinspect.tables.parquet import PartFile, PartFiles
from kinspect.tables.taggedrows import COUNTED, PART, SUMMARY, NamedRows, tagged

WRITTEN = "written"
TOLD = pa.schema([(COUNTED, pa.struct(list(PART))), (SUMMARY, pa.binary()), (WRITTEN, pa.binary())])
"""What a task that writes gives: parts of answers, summaries, and last its files (see `files_of`)."""


def writing(make: NamingTask, target: Target) -> Task:
    """A task that writes the rows of tables that `make` gives as files in a folder, and gives all else.

    Each try has files of its own, which no other touches: only those that Spark takes the result of are told of.
    """

    def told(found: Iterable[pa.RecordBatch]) -> Iterator[NamedRows]:
        files = PartFiles(opening_in(target), uuid4().hex, sorts=True, metadata=file_metadata)
        for name, rows in make(found):
            if name in TOLD.names:
                yield name, rows
                continue
            with written_to(target):
                files.add(name, rows)
        with written_to(target):
            written = files.close()
        yield WRITTEN, pa.array([cbor2.dumps(written)], pa.binary())

    def task(found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return tagged(told(found), TOLD)

    return task


def named(table: str) -> NamingTask:
    """A task that gives rows as those of a table."""

    def task(found: Iterable[pa.RecordBatch]) -> Iterator[NamedRows]:
        for rows in found:
            yield table, rows.to_struct_array()

    return task


def files_of(told: Iterable[tuple[bytes | None]]) -> list[PartFile]:
    """The files that tasks wrote, by the rows of the column `WRITTEN`."""
    pieces = (bytes(piece) for (piece,) in told if piece is not None)
    return [PartFile(*file) for piece in pieces for file in cbor2.loads(piece)]
