"""Files of tables that count together: a manifest names those that come and those that go.

A run writes into a folder of its own in a staging folder beside the tables. Once everything is written it leaves the
manifest there, and from then on the run counts: its files are put among those of the tables, and then those that they
replace go. A run that was interrupted before its manifest stood leaves nothing; the next run finishes one that was
interrupted after it. In tables of Delta Lake, files count by the table's log, which a commit of each table changes.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kinspect.errors import KinspectError
from kinspect.tables.lock import LOCK
from kinspect.tables.tablenames import APPLICATION, DATE_FOLDER, DELTA, PARQUET

if TYPE_CHECKING:
    from kinspect.tables.deltalog import LoggedTable

MANIFEST = "_WRITTEN"
_MANIFEST_VERSION = 1
_OLD_MANIFEST = "decided.json"
"""That of a stream of kinspect 0.2."""
VERSIONS = "_versions.json"
"""Versions of all tables of Delta Lake that belong together: those of the last whole commit."""

Files = dict[str, int]
"""Sizes of files by name."""
Dates = dict[str, dict[str, Files]]
"""The files of tables, by table and date folder."""


class CommittedFolder(ABC):
    """A folder of tables, with a staging folder for rows that do not count yet. Methods take the names on a path."""

    table_format = PARQUET
    application = APPLICATION
    """By whose numbers the logs of tables know a commit."""
    staged_in: tuple[str, ...] = ()
    """The folder for what does not count yet; in a store without renames files are where they stay, and none is."""

    @abstractmethod
    def address(self, *names: str) -> str:
        """Absolute path or URL of a file or folder below."""

    @abstractmethod
    def exists(self, *names: str) -> bool: ...

    @abstractmethod
    def sizes(self, *names: str) -> dict[str, int | None]:
        """Sizes of what is in a folder, by name; None: a folder. Empty if the folder is missing."""

    def names(self, *names: str, folders: bool = False) -> list[str]:
        """Names in a folder, or those of its folders alone."""
        return [name for name, size in self.sizes(*names).items() if size is None or not folders]

    def files(self, *names: str) -> Files:
        """The files in a folder."""
        return {name: size for name, size in self.sizes(*names).items() if size is not None}

    @abstractmethod
    def make(self, *names: str) -> None:
        """Makes a folder, and those above it, unless it is there."""

    @abstractmethod
    def text(self, *names: str) -> str:
        """Text of a file."""

    @abstractmethod
    def put_text(self, text: str, *names: str) -> None:
        """Writes a file atomically: if the process is killed, the former text stays."""

    @abstractmethod
    def delete(self, *names: str) -> None:
        """Deletes a file, or a folder with all that is in it."""

    @abstractmethod
    def move(self, source: Iterable[str], target: Iterable[str]) -> None:
        """Renames `source` to `target`. Raises KinspectError, also if there is a `target`."""

    def stage_in(self, *above: str) -> None:
        """Takes a staging folder in `above`, that of all runs. Finishes what an earlier run left a manifest of, and
        deletes all else that is there. Raises KinspectError for the manifest of another version of kinspect, and then
        deletes nothing."""
        # Runs of 0.2 shared one.
        for staging in (above, *((*above, name) for name in self.names(*above, folders=True))):
            self.staged_in = staging
            if self.exists(*staging, _OLD_MANIFEST):
                raise self._unknown(_OLD_MANIFEST)
            if self.exists(*staging, MANIFEST):
                self.finish()
        for name in self.names(*above):
            if name != LOCK:
                self.delete(*above, name)
        # Tasks of a run that was killed may go on for a while.
        self.staged_in = (*above, uuid4().hex)

    def staged(self) -> Dates:
        """What is staged."""
        found: Dates = {}
        for name in self.names(*self.staged_in, folders=True):
            days = ((day, self.files(*self.staged_in, name, day)) for day in self.days(*self.staged_in, name))
            found[name] = {day: files for day, files in days if files}
        return found

    def days(self, *names: str) -> list[str]:
        """Names of the date folders of a table."""
        return [day for day in self.names(*names, folders=True) if day.startswith(DATE_FOLDER)]

    def commit(
        self,
        files: Dates,
        replaced: Mapping[str, Iterable[str]],
        number: int | None = None,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        """Lets staged files count, in place of what there is of the dates `replaced`, by table.

        `number`: of this commit, another than that of the one before; `notes`: values to be written as JSON, by path.
        Raises KinspectError for columns that the tables cannot have, and then nothing counts; and if not everything can
        be put in place: then the next run finishes it.
        """
        is_logged = self.table_format == DELTA
        if is_logged:
            self._check_columns(files)
        manifest = {
            "version": _MANIFEST_VERSION,
            "format": self.table_format,
            "files": files,
            # A log knows the files of a date.
            "replaced": {
                name: {day: [] if is_logged else [*self.files(name, day)] for day in days}
                for name, days in replaced.items()
            },
            "number": self._number(number),
            "notes": notes or {},
        }
        self._decide(json.dumps(manifest))
        self.finish()

    def _number(self, number: int | None) -> int:
        return uuid4().int >> 80 if number is None else number

    def _decide(self, manifest: str) -> None:
        """Writes the manifest, in one step: from then on the run counts."""
        self.make(*self.staged_in)
        self.put_text(manifest, *self.staged_in, MANIFEST)

    def _decided(self) -> str:
        return self.text(*self.staged_in, MANIFEST)

    def finish(self) -> None:
        """Puts what a manifest names in place; what is there already stays. Raises KinspectError for the manifest of
        another version of kinspect, or of another format."""
        try:
            manifest = json.loads(self._decided())
        except ValueError:
            manifest = None
        if not isinstance(manifest, dict) or manifest.get("version") != _MANIFEST_VERSION:
            raise self._unknown(MANIFEST)
        if manifest["format"] != self.table_format:
            raise KinspectError(
                f"{self.address()}: a run with --table-format {manifest['format']} ended before all was in place;"
                " run again with that, or choose another folder"
            )
        self._fulfil(manifest)
        self._forget()

    def _forget(self) -> None:
        """Deletes the manifest, of which all is done."""
        self.delete(*self.staged_in, MANIFEST)

    def _unknown(self, manifest: str) -> KinspectError:
        return KinspectError(
            f"{self.address(*self.staged_in, manifest)}: was left by another version of kinspect, before all was in"
            " place; run that version again, or choose another folder"
        )

    def _fulfil(self, manifest: dict[str, Any]) -> None:
        """Does what a manifest says."""
        for name, days in manifest["files"].items():
            for day, files in days.items():
                self._place(name, day, files)
        if self.table_format == DELTA:
            self._log(manifest)
        else:
            self._remove(manifest["replaced"])
        for path, value in manifest["notes"].items():
            self.put_text(json.dumps(value), *path.split("/"))

    def _place(self, name: str, day: str, files: Files) -> None:
        """Moves staged files of a date to those of the table. Raises KinspectError if one is not there any more."""
        self.make(name, day)
        there, staged = self.files(name, day), self.files(*self.staged_in, name, day)
        for file, size in files.items():
            if there.get(file) == size:
                continue
            if staged.get(file) != size:
                raise KinspectError(
                    f"{self.address(*self.staged_in, name, day, file)}: is gone or was changed before it was put in"
                    f" place; nothing was deleted: move {self.address(*self.staged_in)} away, and run again"
                )
            if file in there:  # A part of it.
                self.delete(name, day, file)
            self.move((*self.staged_in, name, day, file), (name, day, file))

    def _remove(self, replaced: dict[str, dict[str, list[str]]]) -> None:
        """Deletes files, and folders that have none then, which would break who reads all tables."""
        for name, days in replaced.items():
            for day, files in days.items():
                for file in files:
                    self.delete(name, day, file)
                if not self.names(name, day):
                    self.delete(name, day)
            if not self.names(name):
                self.delete(name)

    def _check_columns(self, files: Dates) -> None:
        """Raises KinspectError if tables have other columns than staged files, which would make them unreadable."""
        from kinspect.tables import deltalog

        for name, days in files.items():
            for day, found in [*days.items()][:1]:
                deltalog.check(
                    self.logged(name), self.logged(*self.staged_in, name, day, next(iter(found))).path
                )

    def _log(self, manifest: dict[str, Any]) -> None:
        """Commits the files to the logs of their tables, and notes the versions of all tables."""
        from kinspect.tables import deltalog

        versions = json.loads(self.text(VERSIONS)) if self.exists(VERSIONS) else {}
        for name in sorted({*manifest["files"], *manifest["replaced"]}):
            files, replaced = manifest["files"].get(name, {}), manifest["replaced"].get(name, ())
            version = deltalog.commit(
                self.logged(name), files, replaced, (self.application, manifest["number"])
            )
            if version is not None:
                versions[name] = version
        self.put_text(json.dumps(versions), VERSIONS)

    def paths_of(self, name: str, days: Iterable[str]) -> list[str]:
        """Paths in a table of what counts of its date folders: files, or whole folders."""
        if self.table_format == PARQUET:
            return [day for day in days if self.exists(name, day)]
        from kinspect.tables import deltalog

        return deltalog.paths(self.logged(name), [*days])

    def logged(self, *names: str) -> LoggedTable:
        """A table, or a file or folder of it, for `deltalog`."""
        from kinspect.tables import deltalog

        return deltalog.on_disk(self.local(*names))

    def local(self, *names: str) -> Path:
        """Path of a file or folder below, on a local disk."""
        return Path(self.address(*names))
