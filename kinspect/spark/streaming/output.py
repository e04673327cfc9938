"""The folder of a stream's tables: the rows of each micro-batch once, whatever is killed when.

A micro-batch is written into a folder of its own. A mark in it, made once all is written, says that it counts; then its
files are moved among those of earlier ones by a rename each. What is interrupted before the mark is nothing, and made
again; what is interrupted behind it is finished at the next start.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinspect.errors import KinspectError
from kinspect.spark.commit import STREAM, Folder
from kinspect.tables.columns import DATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SETTINGS, _STATE, _STAGED, _CHECKPOINT = "settings.json", "state-{:010}.json", "staged", "checkpoint"
_DECIDED = "decided.json"
_NOTHING = {"batch": -1, "number": 0, "told": [], "sums": {}}
_OLD = ("carry-", "decided-", "attempt-")


class StreamOutput(Folder):
    """The folder `--out` of a stream."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        """Finishes what an interrupted stream left. Raises KinspectError for the folder of another job, or version."""
        super().__init__(spark, path)
        own = self.at(STREAM)
        if any(name.startswith(_OLD) for name in self._names()):
            raise KinspectError(
                f"{path}: a stream of kinspect 0.1 left its state there; drain it with 0.1 first,"
                " then choose another --out"
            )
        if not self.exists(STREAM) and any(self.children(self.at())):
            raise KinspectError(
                f"{path}: is not empty and not of a stream; give the stream a folder of its own"
            )
        # State and shuffled packets hold payload and TLS secrets.
        self.make(own, private=True)
        self.settings: dict[str, Any] = self._read(_SETTINGS) or {}
        """What the stream was begun with; empty if it begins."""
        if not self._finish():
            self.delete(self.at(STREAM, _STAGED))
        names = sorted(name for name in self._names() if name.startswith(_STATE[:6]))
        self._state: dict[str, Any] = self._read(names[-1]) if names else dict(_NOTHING)

    @property
    def checkpoint(self) -> str:
        """Where Spark keeps its own."""
        return str(self.at(STREAM, _CHECKPOINT).toString())

    @property
    def sums(self) -> dict[str, Any]:
        """What all micro-batches added up to."""
        return dict(self._state["sums"])

    def keep(self, settings: dict[str, Any]) -> None:
        """Notes what the stream was begun with."""
        self.settings = settings
        self._write(settings, _SETTINGS)

    def has(self, batch: int) -> bool:
        """Whether a micro-batch is in the tables."""
        return bool(batch <= self._state["batch"])

    def copy_told(self, path: Path) -> None:
        """Puts where the source finds it what lines told in the last micro-batch."""
        path.write_text(json.dumps([self._state["number"], self._state["told"]]))

    def begin(self, batch: int) -> None:
        """A micro-batch begins to be written."""
        self._batch = batch
        self.delete(self.at(STREAM, _STAGED))

    def write(self, name: str, rows: DataFrame) -> None:
        """Stages a table's rows, a file a date."""
        by = [column for column in (DATE, "timestamp_ns") if column in rows.columns]
        staged = str(self.at(STREAM, _STAGED, name).toString())
        rows.repartition(DATE).sortWithinPartitions(*by).write.partitionBy(DATE).parquet(staged)

    def decide(self, number: int, told: list[Any], sums: dict[str, Any]) -> None:
        """The micro-batch counts, and is put in place. `number`: the source's; `told`: what lines told in it."""
        state = {"batch": self._batch, "number": number, "told": told, "sums": sums}
        self.make(self.at(STREAM, _STAGED))
        self._write(state, _STAGED, _DECIDED)
        self._finish()
        self._state = state

    def _finish(self) -> bool:
        """Puts a micro-batch in place that counts; whether there was one."""
        state = self._read(_STAGED, _DECIDED)
        if state is None:
            return False
        for table in self.children(self.at(STREAM, _STAGED)):
            if table.isDirectory():
                self._move(table.getPath(), self.at(table.getPath().getName()), state["batch"])
        self._write(state, _STATE.format(state["batch"]))
        for name in self._names():
            if name.startswith(_STATE[:6]) and name < _STATE.format(state["batch"]):
                self.delete(self.at(STREAM, name))
        self.delete(self.at(STREAM, _STAGED))
        return True

    def _move(self, source: Any, target: Any, batch: int) -> None:
        """The files of a table, and of the folders in it, to those of the same names."""
        self.make(target)
        for child in self.children(source):
            name = child.getPath().getName()
            if child.isDirectory():
                self._move(child.getPath(), self.below(target, name), batch)
            elif name.endswith(".parquet"):
                self.move(child.getPath(), self.below(target, f"batch-{batch:010}-{name}"))

    def _names(self) -> list[str]:
        return [child.getPath().getName() for child in self.children(self.at(STREAM))]

    def _read(self, *names: str) -> Any:
        if not self.exists(STREAM, *names):
            return None
        return json.loads(self.text(self.at(STREAM, *names)))

    def _write(self, value: Any, *names: str) -> None:
        """In one step: who is killed meanwhile leaves what was there."""
        target = self.at(STREAM, *names)
        fresh = self.at(STREAM, *names[:-1], f"_{names[-1]}")
        self.put_text(fresh, json.dumps(value))
        self.move(fresh, target)
