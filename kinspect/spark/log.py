"""Batches of a stream put into a folder of tables, each once, whatever is killed when.

A batch is written into a folder of its own attempt. One file, `decided-<batch>`, which is made once, names the attempt
that counts. Then the attempt's files are moved among those of earlier batches, each by one rename: who reads meanwhile
sees a file or does not, never twice. What a kill interrupts before that file is made was nothing; what it interrupts
after is finished at the next start.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kinspect.errors import KinspectError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDER = "_stream"
_CARRY = "_carry"
_DECIDED = re.compile(r"decided-(\d{10})")
_ATTEMPT = "attempt-"


class Log:
    """The folder `--out` of a stream, on any file system that Spark writes to."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Finishes, or takes away, what an interrupted stream left. Raises KinspectError for the folder of another
        job."""
        hadoop = spark._jvm.org.apache.hadoop.fs
        self._path = hadoop.Path
        self._folder = hadoop.Path(folder)
        self._system = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())
        self._own = hadoop.Path(self._folder, FOLDER)
        if not self._system.exists(self._own):
            if self._system.exists(self._folder) and len(self._children(self._folder)):
                raise KinspectError(
                    f"{folder}: is not empty and not of a stream; give the stream a folder of its own"
                )
            self._system.mkdirs(self._own)
            # Bytes of connections and TLS secrets are carried in it.
            self._system.setPermission(self._own, hadoop.permission.FsPermission("700"))
        self.batch = self._last_decided()
        """The last batch that is in the tables; 0: none."""
        if self.batch:
            self._finish(self._decided(self.batch))
        for child in self._children(self._own):
            if child.getPath().getName().startswith(_ATTEMPT):
                self._system.delete(child.getPath(), True)

    @property
    def carry(self) -> str | None:
        """Where what the last batch carries is to be read; None if nothing is."""
        return str(self._carry(self.batch).toString()) if self.batch else None

    def attempt(self) -> Attempt:
        """The next batch."""
        return Attempt(self, str(self._path(self._own, _ATTEMPT + uuid4().hex).toString()))

    def make(self, name: str) -> str:
        """Makes a table's folder, still empty, for who wants to look into it. Out: its path."""
        path = self._path(self._folder, name)
        self._system.mkdirs(path)
        return str(path.toString())

    def decide(self, attempt: Attempt) -> None:
        """The attempt is the next batch. Raises KinspectError if there is one already: two streams write here."""
        name = attempt.folder.rpartition("/")[2]
        mark = self._mark(self.batch + 1)
        if not all(self._system.exists(self._path(part)) for part in attempt.written):
            # Who starts a stream takes the attempts away that it finds.
            self.abandon(attempt)
            raise self._shared()
        try:
            out = self._system.create(mark, False)
        except Exception as error:
            if self._system.exists(mark):
                self.abandon(attempt)
                raise self._shared() from error
            raise
        out.writeUTF(name)
        out.close()
        self.batch += 1
        self._finish(name)

    def _shared(self) -> KinspectError:
        return KinspectError(f"{self._folder.toString()}: another stream writes to this folder")

    def _carry(self, batch: int) -> Any:
        return self._path(self._own, f"carry-{batch:010}")

    def _last_decided(self) -> int:
        names = (child.getPath().getName() for child in self._children(self._own))
        batches = sorted(int(found[1]) for name in names if (found := _DECIDED.fullmatch(name)))
        while batches and not self._decided(batches[-1]):
            # Killed while it was written: nothing is decided.
            self._system.delete(self._mark(batches.pop()), False)
        return batches[-1] if batches else 0

    def _mark(self, batch: int) -> Any:
        return self._path(self._own, f"decided-{batch:010}")

    def _decided(self, batch: int) -> str:
        """The attempt that counts; empty if that is not written."""
        source = self._system.open(self._mark(batch))
        try:
            return str(source.readUTF()) if source.available() else ""
        finally:
            source.close()

    def _finish(self, name: str) -> None:
        """Moves what the attempt `name` has left, and takes away what the batch before carried."""
        attempt = self._path(self._own, name)
        if self._system.exists(attempt):
            for table in self._children(attempt):
                name = table.getPath().getName()
                if name != _CARRY:
                    self._move(table.getPath(), self._path(self._folder, name))
            self._rename(self._path(attempt, _CARRY), self._carry(self.batch))
            self._system.delete(attempt, True)
        self._system.delete(self._carry(self.batch - 1), True)
        self._system.delete(self._mark(self.batch - 1), False)

    def _move(self, source: Any, target: Any) -> None:
        """The files of a table, and of the folders in it, to those of the same names."""
        self._system.mkdirs(target)
        for child in self._children(source):
            name = child.getPath().getName()
            if child.isDirectory():
                self._move(child.getPath(), self._path(target, name))
            elif name.endswith(".parquet"):
                self._rename(child.getPath(), self._path(target, f"batch-{self.batch:010}-{name}"))

    def _rename(self, source: Any, target: Any) -> None:
        if not self._system.exists(source):
            return
        # Where a rename is a copy, a kill leaves both.
        self._system.delete(target, True)
        if not self._system.rename(source, target) and not self._system.exists(target):
            raise KinspectError(f"{target.toString()}: could not be put in place; start again to finish")

    def _children(self, folder: Any) -> list[Any]:
        return list(self._system.listStatus(folder))

    def abandon(self, attempt: Attempt) -> None:
        """Takes away what was written for it."""
        self._system.delete(self._path(attempt.folder), True)


class Attempt:
    """A folder for what a batch writes."""

    def __init__(self, log: Log, folder: str) -> None:
        self._log = log
        self.folder = folder
        self.written: list[str] = []
        """The folders of what is staged."""

    def write(self, name: str, rows: DataFrame, partitions: tuple[str, ...]) -> None:
        """Stages a table's rows, a file for each of its folders."""
        rows.repartition(*partitions).write.partitionBy(*partitions).parquet(self._part(name))

    def write_carry(self, rows: DataFrame) -> None:
        """Stages what is carried."""
        rows.write.parquet(self._part(_CARRY))

    def _part(self, name: str) -> str:
        self.written.append(f"{self.folder}/{name}")
        return self.written[-1]


def is_stream(spark: SparkSession, folder: str) -> bool:
    """Whether a stream writes its tables to this folder."""
    path = spark._jvm.org.apache.hadoop.fs.Path(folder, FOLDER)
    return bool(path.getFileSystem(spark._jsc.hadoopConfiguration()).exists(path))
