"""The folder of a stream's tables, with the rows of each micro-batch exactly once, whenever a process is killed.

The manifest that commits a micro-batch has the stream's next state too. A micro-batch that is interrupted before it is
repeated; one that is interrupted after it is finished at the next start.

Aggregates of a date are computed anew from all its exchanges, and replace those of the date.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinspect.errors import KinspectError
from kinspect.spark.commit import StagingFolder
from kinspect.spark.folder import Folder
from kinspect.spark.storage import shown
from kinspect.tables.aggregates import QUERIES
from kinspect.tables.lock import LOCK
from kinspect.tables.request import Request
from kinspect.tables.tablenames import EXCHANGES, PARQUET, STAGED, STREAM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADD_UP_SECONDS = 3600.0
"""Seconds after which the aggregates of dates with new rows are computed anew."""
_SETTINGS, _STATE, _CHECKPOINT = "settings.json", "state-", "checkpoint"
_TABLES = "kinspect-tables"
"""File in a checkpoint that lies elsewhere: which tables it belongs to."""
_BEGIN: dict[str, Any] = {"step": -1, "batch": -1, "told": [], "sums": {}, "changed": [], "added_up": 0.0}
_OLD = ("carry-", "decided-", "attempt-")


class StreamOutput(StagingFolder):
    """The folder `--out` of a stream."""

    def __init__(
        self, spark: SparkSession, path: str, table_format: str = PARQUET, checkpoint: str | None = None
    ) -> None:
        """Finishes an interrupted commit. `checkpoint`: the folder of Spark's, None: in that of the tables. Raises
        KinspectError for the folder of another job or version."""
        super().__init__(spark, path, table_format)
        names = self.folder.names(STREAM)
        if any(name.startswith(_OLD) for name in names):
            raise KinspectError(
                f"{self.folder.path}: a stream of kinspect 0.1 left its state there; drain it with 0.1 first,"
                " then choose another --out"
            )
        if not self.folder.exists(STREAM) and self.folder.names():
            raise KinspectError(
                f"{self.folder.path}: is not empty and not of a stream; give the stream a folder of its own"
            )
        self._lock = self.folder
        locked = [STREAM]
        self._checkpoint = Folder(spark, checkpoint or self.folder.address(STREAM, _CHECKPOINT))
        if checkpoint is not None:
            if {*self._checkpoint.names()} - {LOCK} and not self._checkpoint.exists(_TABLES):
                raise KinspectError(
                    f"{shown(checkpoint)}: is not empty and no checkpoint of a stream; name another"
                )
            self._checkpoint.make(private=True)
            self._lock, locked = self._checkpoint, []
        # State and shuffled packets hold payload and TLS secrets.
        self.folder.make(STREAM, private=True)
        with self._lock.locking(*locked):
            self._begin(shown(checkpoint) if checkpoint else f"{STREAM}/{_CHECKPOINT}")

    def _begin(self, checkpoint: str) -> None:
        self.checkpoint = self._checkpoint.address()
        """URL of Spark's checkpoint."""
        self.settings: dict[str, Any] = self._read(_SETTINGS) or {}
        """Options with which the stream was begun; empty for a new one."""
        self.folder.stage_in(STREAM, STAGED)
        if self._lock is self._checkpoint:
            self._check_tables(checkpoint, self.folder.application)
        self._state: dict[str, Any] = _BEGIN
        self._take_state()
        # Spark numbers micro-batches by its checkpoint: another one would use the numbers of earlier ones again.
        begun = [int(name) for name in self._checkpoint.names("offsets") if name.isdigit()]
        if max(begun, default=-1) < self._state["batch"]:
            lost = f"{checkpoint} was deleted, or is older than the tables"
            raise KinspectError(f"{self.folder.path}: {lost}; put it back, or choose another --out")

    def _check_tables(self, checkpoint: str, identity: str) -> None:
        """Raises KinspectError if a checkpoint that lies elsewhere is that of other tables."""
        if not self._checkpoint.exists(_TABLES):
            self._checkpoint.put_text(identity, _TABLES)
        if self._checkpoint.text(_TABLES) != identity:
            raise KinspectError(
                f"{self.folder.path}: {checkpoint} is the checkpoint of other tables; name another --checkpoint"
            )

    def unlock(self) -> None:
        """Lets others write there."""
        self._lock.unlock()

    @property
    def sums(self) -> dict[str, Any]:
        """Sums of all micro-batches: captures, counts and totals."""
        return dict(self._state["sums"])

    def keep(self, settings: dict[str, Any]) -> None:
        """Stores the options of the stream."""
        self.settings = settings
        self._write(settings, _SETTINGS)

    def has(self, batch: int) -> bool:
        """True if the tables have the rows of a micro-batch."""
        return bool(batch <= self._state["batch"])

    def copy_told(self, path: Path) -> None:
        """Writes the names learned in the last two micro-batches for the source, since the last may be made again."""
        path.write_text(json.dumps(self._state["told"]))

    def decide(self, batch: int, number: int, told: list[Any], sums: dict[str, Any]) -> None:
        """Commits a micro-batch. `number`: its number by the source; `told`: topic names and node ids learned in it."""
        changed = sorted({*self._state["changed"], *self.staged().get(EXCHANGES, ())})
        lately = [*self._state["told"][-1:], (number, told)]
        self._decide(batch=batch, told=lately, sums=sums, changed=changed)

    @property
    def is_behind(self) -> bool:
        """True if the aggregates are due, also after the clock was set back."""
        return not 0.0 <= time.time() - self._state["added_up"] < ADD_UP_SECONDS

    def add_up(self, request: Request) -> None:
        """Computes the aggregates of the dates whose exchanges changed since the last time."""
        days = [day for day in self._state["changed"] if self.folder.paths_of(EXCHANGES, (day,))]
        if days:
            self.discard()
            self.write_sums(request, *days)
            self._decide(changed=[], added_up=time.time())

    def _decide(self, **changes: Any) -> None:
        """Commits the staged tables together with changes of the state."""
        self.check()
        state = {**self._state, "step": self._state["step"] + 1, **changes}
        sums = {name: days for name, days in self.staged().items() if name in QUERIES}
        self.folder.commit(
            self.staged(), sums, state["step"], {f"{STREAM}/{_STATE}{state['step']:010}.json": state}
        )
        self.discard()
        self._take_state()

    def _take_state(self) -> None:
        """Reads the latest state, and deletes older ones."""
        states = sorted(name for name in self.folder.names(STREAM) if name.startswith(_STATE))
        for name in states[-1:]:
            self._state = self._read(name)
        for name in states[:-1]:
            self.folder.delete(STREAM, name)

    def _read(self, *names: str) -> Any:
        return json.loads(self.folder.text(STREAM, *names)) if self.folder.exists(STREAM, *names) else None

    def _write(self, value: Any, *names: str) -> None:
        self.folder.put_text(json.dumps(value), STREAM, *names)
