"""The log of a folder's runs, by delta-rs, for stores without locks and renames: a commit decides a run in one step."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError

from kinspect.errors import KinspectError
from kinspect.tables.deltalog import LoggedTable, logging
from kinspect.tables.tablenames import APPLICATION

_MANIFEST = "manifest"
_COLUMNS = Schema.from_arrow(pa.schema([("run", pa.int64())]))


class RunLog:
    """A log without rows. The metadata of a commit are the manifest of a run, its version is the run's number."""

    def __init__(self, log: LoggedTable) -> None:
        """Begins the log unless it is there. Raises KinspectError."""
        self._log = log
        with logging(log.address):
            # Another may begin it meanwhile.
            with suppress(DeltaError):
                if not log.is_there:
                    DeltaTable.create(
                        log.address, _COLUMNS, storage_options=log.options, commit_properties=_once(None)
                    )
            self._seen = log.open()

    @property
    def last(self) -> str | None:
        """The manifest of the last run."""
        with logging(self._log.address):
            found: str | None = self._seen.history(1)[0].get(_MANIFEST)
            return found

    @property
    def next(self) -> int:
        """The number of the next run."""
        return int(self._seen.version()) + 1

    @property
    def application(self) -> str:
        """By whose numbers tables know runs of this log. A log that begins anew is another one."""
        return f"{APPLICATION} {self._seen.metadata().id}"

    def decide(self, manifest: str) -> None:
        """Makes it the next run. Raises KinspectError if there was another since this log was looked at."""
        with logging(self._log.address):
            try:
                self._seen.create_write_transaction([], "append", _COLUMNS, commit_properties=_once(manifest))
                told = ""
            except (DeltaError, OSError) as error:
                told = str(error)
            self._seen = self._log.open()
        # It may have been written though that was not told.
        if told and self.last != manifest:
            raise KinspectError(f"{self._log.address}: another run wrote there meanwhile; run again ({told})")


def _once(manifest: str | None) -> CommitProperties:
    """Tried again, it would come behind another one."""
    return CommitProperties(manifest and {_MANIFEST: manifest}, max_commit_retries=0)
