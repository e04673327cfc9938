"""Folders of tables of Delta Lake in an object store, where nothing is renamed or locked."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from pyarrow import ArrowException, fs

from kinspect.errors import KinspectError
from kinspect.spark.failure import to_be_finished
from kinspect.spark.storage import Target, delta_options, shown
from kinspect.tables.committedfolder import CommittedFolder, Files
from kinspect.tables.deltalog import LoggedTable, check_place, logging
from kinspect.tables.runlog import RunLog
from kinspect.tables.tablenames import DELTA, DELTA_LOG, FINISHED, RUNS, STREAM
from kinspect.tables.vacuum import delete_old

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class ObjectFolder(CommittedFolder):
    """A folder of tables in an object store.

    Tasks write files where they stay, and the logs of tables say which count. A run counts once it is in the log of
    runs: of two at once the second is refused then. Whoever comes next finishes the last one, if need be.
    """

    table_format = DELTA

    def __init__(self, url: str) -> None:
        """Raises KinspectError."""
        self.path = shown(url).rstrip("/")
        self._url = url
        try:
            self._system, root = fs.FileSystem.from_uri(url)
        except (OSError, ArrowException) as error:
            raise KinspectError(f"{self.path}: {str(error).replace(url, self.path)}") from error
        self._root = root.rstrip("/")
        check_place(self.path, self._root)
        self._options = {"AWS_REGION": self._system.region, **delta_options(url)}

    def _at(self, *names: str) -> str:
        return "/".join((self._root, *names))

    def address(self, *names: str) -> str:
        return "/".join((self.path, *names))

    def logged(self, *names: str) -> LoggedTable:
        return LoggedTable(self.address(*names), self._options, self._system, self._at(*names))

    def target(self, *names: str) -> Target:
        """A folder below, for tasks."""
        return Target(self._url, self._at(*names))

    def read(self, spark: SparkSession, paths: list[str], schema: pa.Schema, *table: str) -> DataFrame:
        """Rows of files of a table."""
        from kinspect.spark.readpass import rows_of

        return rows_of(spark, self.target(*table), paths, schema)

    def exists(self, *names: str) -> bool:
        with logging(self.address()):
            return bool(self._system.get_file_info(self._at(*names)).type != fs.FileType.NotFound)

    def sizes(self, *names: str) -> dict[str, int | None]:
        with logging(self.address()):
            found = self._system.get_file_info(fs.FileSelector(self._at(*names), allow_not_found=True))
        return {info.base_name: int(info.size) if info.is_file else None for info in found}

    def make(self, *names: str, private: bool = False) -> None:
        """Folders are names of objects: one that others look for has an empty one."""
        if private:
            self.put_text("", *names, "begun")

    def text(self, *names: str) -> str:
        with logging(self.address()), self._system.open_input_stream(self._at(*names)) as source:
            return bytes(source.readall()).decode()

    def put_text(self, text: str, *names: str) -> None:
        with logging(self.address()), self._system.open_output_stream(self._at(*names)) as target:
            target.write(text.encode())

    def delete(self, *names: str) -> None:
        with logging(self.address()), suppress(FileNotFoundError):
            self._system.delete_file(self._at(*names))

    def move(self, source: Iterable[str], target: Iterable[str]) -> None:
        with logging(self.address()):
            self._system.move(self._at(*source), self._at(*target))

    def locking(self, *names: str) -> AbstractContextManager[None]:
        """Locks nothing: see `RunLog`."""
        return nullcontext()

    def unlock(self) -> None:
        """Nothing."""

    def stage_in(self, *above: str) -> None:
        """Finishes the last run. Raises KinspectError for a folder of something else."""
        if not self.exists(RUNS) and {*self.names()} - {STREAM}:
            raise KinspectError(f"{self.path}: is not empty, and has no log of runs; choose another --out")
        self._runs = RunLog(self.logged(RUNS))
        self.application = self._runs.application
        if self._runs.last is not None and not self._is_finished():
            self.finish()

    def _is_finished(self) -> bool:
        return self.exists(FINISHED) and self.text(FINISHED) == self._named(self._runs.next - 1)

    def _named(self, number: int) -> str:
        return f"{self.application} {number}"

    def discard(self) -> None:
        """Nothing: what does not count, `vacuum` finds."""

    def _number(self, number: int | None) -> int:
        return self._runs.next

    def _decide(self, manifest: str) -> None:
        self._runs.decide(manifest)

    def _decided(self) -> str:
        return self._runs.last or ""

    def _forget(self) -> None:
        """Nothing: the next run asks the tables again."""

    def _fulfil(self, manifest: dict[str, Any]) -> None:
        with to_be_finished(self.path):
            super()._fulfil(manifest)
            self.put_text(self._named(manifest["number"]), FINISHED)

    def _place(self, name: str, day: str, files: Files) -> None:
        """Nothing: files are where they stay."""

    def vacuum(self, keep_ns: int, dry_run: bool) -> list[str]:
        """As `kinspect.tables.vacuum.vacuum`. Runs that began before it are refused: their files may go."""
        names = [name for name in self.names(folders=True) if self.exists(name, DELTA_LOG)]
        if RUNS not in names:
            raise KinspectError(f"{self.path}: has no tables")
        if not dry_run:
            self.stage_in()
        found = sorted(delete_old(self, names, keep_ns, dry_run=True))
        if not dry_run:
            # Files of runs that begin after it are not among those that were found.
            self.commit({}, {})
            for path in found:
                self.delete(*path.split("/"))
        return found
