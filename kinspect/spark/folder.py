"""Folders on any file system that Spark writes to."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from kinspect.errors import KinspectError
from kinspect.ownfile import folder_of
from kinspect.spark.failure import to_be_finished
from kinspect.spark.jvm import atomic_files, hadoop
from kinspect.spark.schemas import spark_schema
from kinspect.spark.storage import Target, check_store, opening_in
from kinspect.tables.committedfolder import CommittedFolder
from kinspect.tables.lock import LOCK, FileLock
from kinspect.tables.openfolder import put_text_in
from kinspect.tables.tablenames import DELTA, PARQUET

_LEASE_SECONDS = 90.0
"""How long a lease of HDFS may outlive its holder: a minute, and its recovery."""
_HELD = re.compile(r"\b(AlreadyBeingCreated|RecoveryInProgress|FileAlreadyExists|FileNotFound)Exception\b")
"""What HDFS says of a file that another process has, makes or deletes at the moment."""


def nothing() -> None:
    """Does nothing."""


def _close(file: Any) -> None:
    """Closes a file of HDFS that may be deleted by now."""
    with suppress(Py4JJavaError):
        file.close()


class Folder(CommittedFolder):
    """A folder on any file system that Spark writes to."""

    def __init__(self, spark: SparkSession, path: str, table_format: str = PARQUET) -> None:
        """Raises KinspectError if tables of a format cannot be put in place on this file system."""
        self.path = path
        self.table_format = table_format
        self._spark = spark
        self._hadoop, settings = hadoop(spark)
        root = self._hadoop.Path(path)
        self._system = root.getFileSystem(settings)
        self._root = self._system.makeQualified(root)
        self._unlock: Callable[[], None] = nothing
        check_store(path, self._scheme, table_format)
        opening_in(self.target())
        if table_format == DELTA:
            from kinspect.tables import deltalog

            deltalog.check_place(path, os.path.realpath(self.local()))
        self._atomic = atomic_files(spark, self._root, settings)

    def _at(self, *names: str) -> Any:
        return reduce(self._hadoop.Path, names, self._root)

    def address(self, *names: str) -> str:
        return str(self._at(*names).toString())

    def local(self, *names: str) -> Path:
        return Path(self._at(*names).toUri().getPath())

    def exists(self, *names: str) -> bool:
        return bool(self._system.exists(self._at(*names)))

    def sizes(self, *names: str) -> dict[str, int | None]:
        found = self._system.listStatus(self._at(*names)) if self.exists(*names) else ()
        return {
            child.getPath().getName(): None if child.isDirectory() else int(child.getLen()) for child in found
        }

    def target(self, *names: str) -> Target:
        """A folder below, for tasks."""
        url = self._at(*names).toUri()
        store = None if self._scheme == "file" else f"{self._scheme}://{url.getAuthority() or ''}/"
        return Target(store, str(url.getPath()))

    @property
    def _scheme(self) -> str:
        return str(self._root.toUri().getScheme())

    def read(self, spark: SparkSession, paths: list[str], schema: pa.Schema, *table: str) -> DataFrame:
        """Rows of files of a table."""
        reader = spark.read.schema(spark_schema(schema)).option("basePath", self.address(*table))
        return reader.parquet(*(self.address(*table, *path.split("/")) for path in paths))

    @contextmanager
    def locking(self, *names: str) -> Iterator[None]:
        """Context that locks the folder, by a file in it: until `unlock`, the end of this process, or an error in the
        context. Raises KinspectError if another run writes there."""
        words = f"{self.path}: another run writes there; wait for its end, or choose another --out"
        path = self._at(*names, LOCK)
        if self._scheme == "file":
            self._unlock = FileLock(self.local(*names, LOCK), words).release
        else:
            self._unlock = self._leased(path, words)
        try:
            yield
        except BaseException:
            self.unlock()
            raise

    def _leased(self, path: Any, words: str) -> Callable[[], None]:
        """Opens a file of HDFS for writing, which one process at a time may; returns what closes it.

        Who was killed has it for another minute.
        """
        until = time.monotonic() + _LEASE_SECONDS
        while True:
            try:
                if not self._system.exists(path):
                    self._system.create(path, False).close()
                return partial(_close, self._system.append(path))
            except Py4JJavaError as error:
                if not _HELD.search(str(error)):
                    raise
                if time.monotonic() > until:
                    raise KinspectError(words) from error
            time.sleep(1)

    def unlock(self) -> None:
        """Lets others write there."""
        self._unlock()
        self._unlock = nothing

    def make(self, *names: str, private: bool = False) -> None:
        path = self._at(*names)
        self._system.mkdirs(path)
        if private:
            self._system.setPermission(path, self._hadoop.permission.FsPermission("700"))

    # Spark replaces a file on a disk in two steps, and then it has a checksum beside it.
    def text(self, *names: str) -> str:
        if self._scheme == "file":
            return self.local(*names).read_text("utf-8")
        with closing(self._system.open(self._at(*names))) as source:
            return bytes(source.readAllBytes()).decode()

    def put_text(self, text: str, *names: str) -> None:
        if self._scheme == "file":
            with folder_of(str(self.local(*names))) as (folder, name):
                put_text_in(folder, name, text)
            return
        out = self._atomic.createAtomic(self._at(*names), True)
        out.write(bytearray(text.encode()))
        out.close()

    def delete(self, *names: str) -> None:
        self._system.delete(self._at(*names), True)

    def discard(self) -> None:
        """Deletes what is staged."""
        self.delete(*self.staged_in)

    def _fulfil(self, manifest: dict[str, Any]) -> None:
        with to_be_finished(self.path):
            super()._fulfil(manifest)

    def move(self, source: Iterable[str], target: Iterable[str]) -> None:
        # A folder would be moved into the one that is there.
        if self.exists(*target) or not self._system.rename(self._at(*source), self._at(*target)):
            raise KinspectError(f"{self.address(*target)}: could not be put in place")
